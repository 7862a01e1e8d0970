// Finds the blocks of a loop from its recordings, and puts the function together.
#include "regions/region.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/code/late.h"
#include "backends/native/run/float_flags.h"
#include "cpython/frame.h"
#include "regions/arrivals.h"
#include "regions/first_turns.h"
#include "regions/loops.h"
#include "regions/many_turns.h"
#include "regions/object_call.h"
#include "regions/recorded.h"
#include "regions/row_turns.h"
#include "regions/turns_ahead.h"

namespace evalframe::regions {

using bytecode::Instruction, bytecode::Op;
using recorder::Recording;
using Kind = Type::Kind;

namespace {

constexpr uint64_t kAddress = (uint64_t{1} << kLogSizeShift) - 1;

size_t entries_of(uint64_t bytes) { return (bytes + sizeof(LogEntry) - 1) / sizeof(LogEntry); }

// One after the other. A size that the compiler knows makes an instruction of each.
template <size_t size>
LogEntry* log_elements_of(LogEntry* log, const char* first, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const char* const place = first + i * step;
    uint64_t old = 0;
    std::memcpy(&old, place, size);
    *log++ = {reinterpret_cast<uint64_t>(place) | uint64_t{size} << kLogSizeShift, old};
  }
  return log;
}

LogEntry* log_elements(LogEntry* log, const char* first, int64_t step, int64_t size, int64_t count) {
  switch (size) {
    case 1: return log_elements_of<1>(log, first, step, count);
    case 2: return log_elements_of<2>(log, first, step, count);
    case 4: return log_elements_of<4>(log, first, step, count);
    case 8: return log_elements_of<8>(log, first, step, count);
    default: return log_elements_of<8>(log_elements_of<8>(log, first, step, count), first + 8, step, count);
  }
}

// What ends the log, as it does where a loop's turns store the same row again and again, is there already. In front of the log is an entry of nothing.
LogEntry* log_bytes(LogEntry* log, const char* begin, uint64_t bytes) {
  const LogEntry entry = {reinterpret_cast<uint64_t>(begin) | kManyBytes << kLogSizeShift, bytes};
  if (log[-1].where == entry.where && log[-1].old == entry.old) return log;
  std::memcpy(log, begin, bytes);
  log += entries_of(bytes);
  *log = entry;
  return log + 1;
}

}  // namespace

LogEntry* log_many(LogEntry* log, char* first, char* last, int64_t size, int64_t count) {
  if (first == last) return log_elements(log, first, 0, size, 1);
  // With what lies between them, which is as it was, too, if that takes no more entries than each for itself: there is no more room.
  const auto bytes = static_cast<uint64_t>(std::abs(last - first) + size);
  // A division takes longer than what is logged of a short loop.
  if (entries_of(bytes) + 1 > static_cast<size_t>((size + 7) / 8 * count)) return log_elements(log, first, (last - first) / (count - 1), size, count);
  return log_bytes(log, std::min(first, last), bytes);
}

LogEntry* log_rows(LogEntry* log, const char* data, int64_t outer, int64_t rows, int64_t bytes) {
  for (int64_t row = 0; row < rows; row++, data += outer) log = log_bytes(log, data, static_cast<uint64_t>(bytes));
  return log;
}

void undo(const LogEntry* first, const LogEntry* end) {
  for (const LogEntry* entry = end; entry != first;) {
    --entry;
    void* const place = reinterpret_cast<void*>(entry->where & kAddress);
    const uint64_t size = entry->where >> kLogSizeShift;
    if (size == kPartOfArray) {
      put_back(*static_cast<const Part*>(place));
    } else if (size == kManyBytes) {
      const uint64_t bytes = entry->old;
      entry -= entries_of(bytes);
      std::memcpy(place, entry, bytes);
    } else {
      std::memcpy(place, &entry->old, size);
    }
  }
  native::clear_flags();
}

int64_t Region::lines() const { return std::count(ir.begin(), ir.end(), '\n'); }

int Region::traverse(visitproc visit, void* arg) const {
  for (const Ref& object : objects) Py_VISIT(object.get());
  for (const Routine& routine : routines) {
    if (const int stopped = routine.traverse(visit, arg)) return stopped;
  }
  if (const int stopped = names.traverse(visit, arg)) return stopped;
  return guards.traverse(visit, arg);
}

namespace {

constexpr size_t kMostBlocks = 160;
constexpr size_t kMostTypesOfPlace = 8;
constexpr size_t kMostText = 1'000'000;  // characters: some seconds of compiling

Slots kept_slots(const State& state) {
  Slots slots;
  for (const Type& type : state.types) slots.push_back({true, {.type = type}});
  return slots;
}

// One word of a state's slot, the type that it has in registers, and where it stands in memory.
struct Word {
  size_t slot, word;
  std::string type, place;
  bool is_unread = false;  // of a kUnread, whose words have variables of their own: most that may be one are never written as such
  bool is_size = false;    // of an array: LLVM is told that it isn't negative
};

// Of an array that is an object.
bool is_size_word(const Type& type, size_t word) { return type.kind == Kind::kArray && word >= 2 && word < 2 + static_cast<size_t>(type.rank); }

std::string load_text(const std::string& type, const std::string& place, bool is_size) { return "load " + type + ", ptr " + place + (is_size ? ", !range !2" : ""); }

template <class Visit>
void for_each_word(const State& state, Visit visit) {
  for (size_t slot = 0; slot < state.types.size(); slot++) {
    const std::vector<std::string> words = words_of(state.types[slot]);
    for (size_t w = 0; w < words.size(); w++) visit(Word{slot, w, words[w], std::to_string(slot * kWordsOfSlot + w), state.types[slot].kind == Kind::kUnread, is_size_word(state.types[slot], w)});
  }
}

std::string name_of(const Word& word) { return "%s" + std::to_string(word.slot) + (word.is_unread ? ".unread." : ".") + std::to_string(word.word) + "." + word.type; }

// From memory into its variable.
std::string enter_text(const Word& word, const std::string& at) {
  return "  " + at + ".at = getelementptr i64, ptr %slots, i64 " + word.place + "\n  " + at + " = " + load_text(word.type, at + ".at", word.is_size) + "\n  store " + word.type + " " + at + ", ptr " + name_of(word) + "\n";
}

// The text with other names in the place of some that begin alike, which no digit follows.
std::string with_names(const std::string& text, const std::string& alike, const std::map<std::string, std::string>& names) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find(alike, at), text.size());
    result.append(text, at, next - at);
    const auto stands_here = [&](const auto& name) {
      const size_t end = next + name.first.size();
      return text.compare(next, name.first.size(), name.first) == 0 && (end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end])));
    };
    const auto found = std::find_if(names.begin(), names.end(), stands_here);
    result += found == names.end() ? text.substr(next, alike.size()) : found->second;
    at = next + (found == names.end() ? alike.size() : found->first.size());
  }
  return result;
}

}  // namespace

// --- variables, exits, blocks -------------------------------------------------------------------------------------------

std::string RegionWriter::variable(size_t slot, size_t word, const std::string& type, bool is_unread) {
  const std::string name = name_of({slot, word, type, {}, is_unread});
  variables_.insert(name + " = alloca " + type);
  return name;
}

std::vector<Term> RegionWriter::read_slot(Emitter& emitter, size_t slot, const Type& type) {
  std::vector<Term> words;
  for (const std::string& word : words_of(type)) words.push_back(emitter.let(word, "load " + word + ", ptr " + variable(slot, words.size(), word, type.kind == Kind::kUnread)));
  return words;
}

int RegionWriter::holder_of_slot(size_t slot, const Type& type) const {
  const bool stays = !may_share_ && type.kind == Kind::kArray && slot < frame_.own() && !rebound_.count(slot);
  return stays ? 1 + static_cast<int>(slot) : 0;
}

void RegionWriter::set_range(Emitter& emitter, size_t slot, const Term& next, const Term& left) {
  store(emitter, next, written_variable(slot, 0, "i64"));
  store(emitter, left, written_variable(slot, 2, "i64"));
  region_.changed.insert(slot);
}

bool RegionWriter::stays_in_loop(int32_t instruction, size_t slot) const {
  const std::vector<Instruction>& code = code_.instructions;
  const auto count = static_cast<int32_t>(code.size());
  int32_t first = 0, last = count;
  for (int32_t at = instruction; at < count; at++) {
    const int32_t target = code[static_cast<size_t>(at)].target;
    if (target >= 0 && target <= instruction && at - target < last - first) first = target, last = at;
  }
  if (last == count) return false;
  return std::none_of(code.begin() + first, code.begin() + last, [&](const Instruction& one) { return one.op == Op::STORE_FAST && static_cast<size_t>(one.arg) == slot; });
}

std::string RegionWriter::exit_of(const State& state, bool steps, bool is_back) {
  const auto [at, is_new] = exits_.try_emplace({state, steps, is_back}, static_cast<int>(region_.exits.size()));
  if (is_new) region_.exits.push_back({state, steps});
  return "exit" + std::to_string(at->second);
}

State RegionWriter::without_unread(State state) const {
  UnreadWords wider;
  for (size_t i = 0; i < std::min(frame_.own(), state.types.size()); i++) {
    const std::optional<int8_t> more = more_unread_words(state.types[i]);
    if (!more || liveness_.is_live(state.instruction, static_cast<int>(i))) continue;
    const auto known = unread_.find(i);
    const int8_t room = known == unread_.end() ? int8_t{0} : known->second;
    if (*more > room) wider[i] = *more;
    else state.types[i] = unread_type(room);
  }
  if (wider.empty() || !may_begin_again_) return state;
  wider.insert(unread_.begin(), unread_.end());
  throw WiderSlots{std::move(wider)};
}

int RegionWriter::block_of(const State& at) {
  if (!within_.has(at.instruction) || (within_.leads && !blocks_.empty())) return -1;
  const State state = without_unread(at);
  if (const auto found = numbers_.find(state); found != numbers_.end()) return found->second;
  const auto here = std::count_if(numbers_.begin(), numbers_.end(), [&](const auto& other) { return other.first.instruction == state.instruction; });
  if (blocks_.size() >= kMostBlocks || text_.size() > kMostText || static_cast<size_t>(here) >= kMostTypesOfPlace) return -1;
  const int number = static_cast<int>(blocks_.size());
  numbers_.emplace(state, number);
  blocks_.push_back({state, number});
  return number;
}

int32_t RegionWriter::object_of(PyObject* constant) {
  for (size_t i = 0; i < region_.objects.size(); i++) {
    if (region_.objects[i].get() == constant) return static_cast<int32_t>(i);
  }
  region_.objects.push_back(Ref::borrow(constant));
  items_.push_back(type_of_items(constant));
  return static_cast<int32_t>(region_.objects.size()) - 1;
}

bool RegionWriter::write_recording(int number, const Recording& recording, const std::string& name, const std::string& otherwise, std::string& text, std::vector<Obstacle>& why) {
  const Mark before = mark(number);
  for (std::set<int32_t> calls;;) {
    Block block(name, otherwise, region_);
    RecordingWriter writer(*this, number, recording, block, calls);
    try {
      writer.write(otherwise);
    } catch (const AsObjectCall& wanted) {
      back_to(number, before);
      calls.insert(wanted.nodes.begin(), wanted.nodes.end());
      continue;
    } catch (const std::runtime_error& error) {
      back_to(number, before);
      why.push_back({writer.at(), error.what()});
      return false;
    }
    text += block.emitter.text();
    needed_ += block.emitter.needed();
    region_.logged += block.logged();
    meets_conditions_ |= block.meets_conditions();
    merged_.emplace_back(&recording, number);
    return true;
  }
}

void RegionWriter::back_to(int number, const Mark& mark) {
  merge_again();
  region_.sources = mark.sources;
  region_.read = mark.read;
  region_.stored = mark.stored;
  blocks_[number].next = mark.next;
  blocks_[number].steps.resize(mark.steps);
  region_.routines.resize(mark.routines);
  region_.logged = mark.logged;
}

// The region's guards without those of a recording that it can't have. Sources keep their numbers.
void RegionWriter::merge_again() {
  region_.guards = guards::GuardTable();
  for (const auto& [recording, number] : merged_) {
    Block unused("unused", "unused", region_);
    RecordingWriter(*this, number, *recording, unused).check_guards();
  }
}

// A block is tried recording by recording: what one of them leaves has not been begun.
void RegionWriter::write_block(int number) {
  blocks_[number].text_begin = text_.size();
  write_block_text(number);
  blocks_[number].text_end = text_.size();
}

void RegionWriter::write_block_text(int number) {
  const State state = blocks_[number].state;
  const std::string name = block_label(number);
  const std::string exit = exit_of(state, false);
  const Instruction& first = code_.instructions[state.instruction];
  const Kind top = state.types.empty() ? Kind::kUnbound : state.types.back().kind;
  const bool is_control = (first.op == Op::FOR_ITER && !state.types.empty() && state.types.back().is_iterator()) || (first.op == Op::GET_ITER && top == Kind::kRange);
  text_ += name + ":\n";
  if (is_control) {
    Block block(name, exit, region_);
    go_on(block, number, kept_slots(state), state.instruction, true);
    text_ += block.emitter.text();
    needed_ += block.emitter.needed();
    return;
  }
  int written = 0;
  std::string text;
  std::vector<Obstacle> why;
  const auto label = [&](int which) { return name + "." + std::to_string(which); };
  const std::vector<const Recording*> recordings = recordings_(state.instruction, static_cast<int32_t>(frame_.depth_of(state.types.size())));
  std::set<std::string> bodies;
  for (const Recording* recording : recordings) {
    std::string body;
    const Mark before = mark(number);
    if (!write_recording(number, *recording, label(written), label(written + 1), body, why)) continue;
    // Where an earlier one does the same, this one would leave where that has.
    if (!bodies.insert(with_names(body, name + ".", {{label(written), "this"}, {label(written + 1), "next"}})).second) {
      merged_.pop_back();
      back_to(number, before);
      continue;
    }
    text += label(written) + ":\n" + body;
    blocks_[number].recordings.push_back(recording);
    written++;
  }
  blocks_[number].is_dead = !written;
  // Others are for other types, or rare cases that lead to the interpreter.
  if (!written) region_.obstacles.insert(region_.obstacles.end(), why.begin(), why.end());
  if (recordings.empty()) region_.obstacles.push_back({state.instruction, "nothing is recorded from here"});
  text_ += "  br label %" + name + ".many\n" + text + label(written) + ":\n  br label %" + exit + "\n";
}

void RegionWriter::write_many_turns(int number) {
  const std::string name = block_label(number);
  if (text_.find("br label %" + name + ".many\n") == std::string::npos) return;
  // Where turns of other types can't be written, the others may.
  constexpr size_t kMostHeads = 3;
  std::optional<std::string> text;
  std::string why;
  for (const size_t heads : {kMostHeads, size_t{1}}) {
    if (!text) text = many_turns(number, heads, why);
  }
  if (!text) text = row_turns(number);
  if (!text && !why.empty()) region_.obstacles.push_back({blocks_[static_cast<size_t>(number)].state.instruction, "one turn at a time: " + why});
  blocks_[static_cast<size_t>(number)].has_many_turns = text.has_value();
  if (text) text_ += name + ".many:\n" + *text;
  else one_by_one_.push_back(number);
}

// Blocks lead to others, and so may their code for many turns.
void RegionWriter::write_blocks() {
  while (with_many_ < blocks_.size()) {
    if (begun_ < blocks_.size()) write_block(static_cast<int>(begun_++));
    else write_many_turns(static_cast<int>(with_many_++));
  }
}

void RegionWriter::write_turns_ahead(int number) {
  const std::string slow = block_label(number) + ".0";
  auto ahead = std::make_shared<TurnsAhead>(*this, number);
  std::string why;
  const std::optional<std::string> text = text_of_turns(*ahead, number, slow, why);
  text_ += block_label(number) + ".many:\n  br label %" + (text ? block_label(number) + ".ahead\n" + block_label(number) + ".ahead:\n" + *text : slow + "\n");
  if (text) ahead_[number] = std::move(ahead);
}

std::optional<std::string> RegionWriter::many_turns(int number, size_t most_heads, std::string& why) {
  const std::string name = block_label(number);
  ManyTurns many(*this, number, most_heads, false);
  std::optional<std::string> text = text_of_turns(many, number, name + ".0", why);
  if (!text) return text;
  count_at_once(many.for_iter());
  if (!many.divides()) return text;
  // Turns in which nothing has to be divided are plain code, where a quotient isn't the same in all turns, each divides.
  ManyTurns whole(*this, number, most_heads, true);
  std::string unused;
  if (const auto first = text_of_turns(whole, number, name + ".divides", unused)) return *first + name + ".divides:\n" + *text;
  return text;
}

std::optional<std::string> RegionWriter::row_turns(int number) {
  RowTurns rows(*this, number);
  std::string unused;
  std::optional<std::string> text = text_of_turns(rows, number, block_label(number) + ".0", unused);
  if (text) count_at_once(rows.for_iter());
  return text;
}

void RegionWriter::count_at_once(int32_t for_iter) {
  at_once_.insert(for_iter);
  region_.at_once = static_cast<int>(at_once_.size());
}

std::optional<std::string> RegionWriter::text_of_turns(Turns& turns, int number, const std::string& slow, std::string& why) {
  const Mark before = mark(number);
  std::optional<std::string> text;
  why.clear();
  many_ = &turns;
  try {
    text = turns.write(slow);
    needed_ += turns.needed();
    rolls_back_ = true;
  } catch (const Turns::OtherTurn&) {
  } catch (const AsObjectCall&) {
  } catch (const std::runtime_error& error) {
    why = error.what();
  }
  many_ = nullptr;
  if (!text) back_to(number, before);
  return text;
}

// Whether there is a block from which a way leads back to it. The first needn't be one: a loop's variable is unbound before its first turn.
bool RegionWriter::loops() const {
  std::vector<size_t> ways_in(blocks_.size());
  std::vector<std::set<int>> ways_out;
  for (const BlockOf& block : blocks_) {
    ways_out.push_back(block.next);
    // Later steps have the earlier ones behind them.
    for (size_t i = block.steps.size(); i > 0;) {
      const BlockOf::Step& step = block.steps[--i];
      ways_out.back().insert(step.inside.begin(), step.inside.end());
      // A loop whose turns aren't native is none that is gone around: what lies behind it isn't reached.
      const auto is_dead = [&](int inside) { return blocks_[static_cast<size_t>(inside)].is_dead; };
      const bool stops = !step.inside.empty() && std::all_of(step.inside.begin(), step.inside.end(), is_dead);
      if (stops) i = step.first_at_end;
      if (!stops) ways_out.back().insert(step.end.begin(), step.end.end());
    }
    for (const int next : ways_out.back()) ways_in[static_cast<size_t>(next)]++;
  }
  // What is left when blocks without a way in are taken away, again and again, are the cycles and what they lead to.
  std::vector<size_t> open;
  for (size_t i = 0; i < blocks_.size(); i++) {
    if (!ways_in[i]) open.push_back(i);
  }
  size_t gone = 0;
  for (; !open.empty(); gone++) {
    const size_t at = open.back();
    open.pop_back();
    for (const int next : ways_out[at]) {
      if (--ways_in[static_cast<size_t>(next)] == 0) open.push_back(static_cast<size_t>(next));
    }
  }
  return gone < blocks_.size();
}

// Each line once.
static std::string lines_once(const std::string& text) {
  std::string result;
  std::set<std::string> seen;
  for (size_t at = 0; at < text.size();) {
    // A definition is one piece, up to its closing brace.
    const bool defines = text.compare(at, 6, "define") == 0;
    const size_t end = defines ? text.find("\n}", at) + 2 : text.find('\n', at);
    const std::string piece = text.substr(at, end - at);
    if (!piece.empty() && seen.insert(piece).second) result += piece + "\n";
    at = end + 1;
  }
  return result;
}

namespace {

// Code in which names that begin with @ are those of one place.
class Lines {
 public:
  explicit Lines(std::string prefix) : prefix_(std::move(prefix)) {}
  Lines& operator<<(std::string_view line) {
    for (const char c : line) c == '@' ? text_ += "%" + prefix_ + "." : text_ += c;
    text_ += '\n';
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  const std::string prefix_;
  std::string text_;
};

// Goes to the label where there was a condition that is reported.
std::string conditions_text(const std::string& prefix, const std::string& clean) {
  Lines lines(prefix);
  lines << "  call void asm sideeffect \"stmxcsr $0\", \"=*m\"(ptr elementtype(i32) %conditions)"
        << "  @met = load volatile i32, ptr %conditions" << "  @reported = and i32 @met, %reported" << "  @none = icmp eq i32 @reported, 0"
        << "  br i1 @none, label %" + clean + ", label %rollback, !prof !0";
  return lines.text();
}

std::string number_of(int64_t number) { return std::to_string(number); }

// What the function of the turns gives, and is entered with, where it goes back to the checkpoint.
constexpr int kGoesBack = -1;
constexpr const char* kTurns = "@turns";
constexpr const char* kParameters = "(ptr %slots, ptr %sources, ptr %header, i32 %number)";

}  // namespace

// A turn ends at the block, and it is time to look at what else there is.
std::string RegionWriter::check_text(int number) {
  const std::string name = "check" + number_of(number);
  std::string text = name + ":\n" + (meets_conditions_ ? conditions_text(name, name + ".clean") : "  br label %" + name + ".clean\n") + name + ".clean:\n";
  Lines lines(name);
  lines << "  @turns = load i64, ptr %turns" << "  @breaker = load volatile i32, ptr %breaker"
        << "  @waiting = and i32 @breaker, " + number_of(cpython::BreakerCell::kBits) << "  @calm = icmp eq i32 @waiting, 0"
        << "  @more = icmp slt i64 @turns, %most" << "  @goes = and i1 @calm, @more"
        << "  br i1 @goes, label %" + name + ".on, label %" + exit_of(blocks_[static_cast<size_t>(number)].state, false) + ".sure"
        << name + ".on:" << "  @unseen = load i64, ptr %unseen" << "  @twice = shl i64 @unseen, 1" << "  @many = icmp sgt i64 @twice, " + number_of(region_.most_unseen())
        << "  @next = select i1 @many, i64 " + number_of(region_.most_unseen()) + ", i64 @twice" << "  store i64 @next, ptr %unseen"
        << "  @then = add i64 @turns, @next" << "  @late = icmp sgt i64 @then, %most" << "  @due = select i1 @late, i64 %most, i64 @then" << "  store i64 @due, ptr %due"
        << "  br label %save" + number_of(number);
  return text + lines.text();
}

// What the code doesn't write is still where it was at the entry.
template <class Visit>
void RegionWriter::for_each_written_word(const State& state, Visit visit) const {
  for_each_word(state, [&](const auto& word) {
    if (written_.count(name_of(word))) visit(word);
  });
}

// The checkpoint in front of the block.
std::string RegionWriter::save_text(const std::string& name, int number, const std::string& behind) const {
  Lines lines(name);
  lines << name + ":";
  if (goes_back()) {
    lines << "  store i64 " + number_of(number) + ", ptr %saved" << "  @turns = load i64, ptr %turns" << "  @turns.at = getelementptr i64, ptr %saved, i64 1" << "  store i64 @turns, ptr @turns.at"
          << std::string("  @top = load ptr, ptr ") + Block::kTop << "  @top.at = getelementptr i64, ptr %saved, i64 2" << "  store ptr @top, ptr @top.at"
          << std::string("  @serial = load i64, ptr ") + Block::kSerial << "  @serial.at = getelementptr i64, ptr %saved, i64 3" << "  store i64 @serial, ptr @serial.at"
          << "  store ptr %log, ptr %log.top";
    if (!region_.routines.empty()) lines << "  store i64 0, ptr %parts";
    for_each_written_word(blocks_[static_cast<size_t>(number)].state, [&](const Word& word) {
      lines << "  @" + word.place + " = load " + word.type + ", ptr " + name_of(word) << "  @" + word.place + ".at = getelementptr i64, ptr %saved.words, i64 " + word.place
            << "  store " + word.type + " @" + word.place + ", ptr @" + word.place + ".at";
    });
  }
  lines << behind;
  return lines.text();
}

// Back to the checkpoint: the function ends, and begins once more there. For LLVM a way back inside would be one that each loop goes around.
std::string RegionWriter::rollback_text() {
  Lines lines("rollback");
  lines << "rollback:" << "  @end = load ptr, ptr %log.top" << "  call void %undo(ptr %log, ptr @end)"
        << "  @half = load ptr, ptr %half" << "  @half.at = getelementptr i64, ptr %saved, i64 4" << "  store ptr @half, ptr @half.at"
        << "  @half.end = load ptr, ptr %half.end" << "  @half.end.at = getelementptr i64, ptr %saved, i64 5" << "  store ptr @half.end, ptr @half.end.at"
        << "  @unseen = load i64, ptr %unseen" << "  store i64 @unseen, ptr %unseen.at" << "  ret i32 " + number_of(kGoesBack);
  return lines.text();
}

// With fewer turns until the next one, or where there was one turn, out of the loop.
std::string RegionWriter::go_back_text(const Arrivals& arrivals) const {
  Lines lines("back");
  lines << "back:" << "  @turns.at = getelementptr i64, ptr %saved, i64 1" << "  @turns = load i64, ptr @turns.at" << "  store i64 @turns, ptr %turns"
        << "  @top.at = getelementptr i64, ptr %saved, i64 2" << "  @top = load ptr, ptr @top.at" << std::string("  store ptr @top, ptr ") + Block::kTop
        << "  @serial.at = getelementptr i64, ptr %saved, i64 3" << "  @serial = load i64, ptr @serial.at" << std::string("  store i64 @serial, ptr ") + Block::kSerial
        << "  @half.at = getelementptr i64, ptr %saved, i64 4" << "  @half = load ptr, ptr @half.at" << "  store ptr @half, ptr %half"
        << "  @half.end.at = getelementptr i64, ptr %saved, i64 5" << "  @half.end = load ptr, ptr @half.end.at" << "  store ptr @half.end, ptr %half.end"
        << "  @single = icmp eq i64 %unseen.first, 1" << "  store i64 1, ptr %unseen" << "  @due = add i64 @turns, 1" << "  store i64 @due, ptr %due"
        << "  @block = load i64, ptr %saved";
  std::string ways;
  for (const int number : saves_) ways += " i64 " + number_of(number) + ", label %restore" + number_of(number);
  lines << "  switch i64 @block, label %nowhere [" + ways + " ]";
  for (const int number : saves_) {
    const State& state = blocks_[static_cast<size_t>(number)].state;
    const std::string at = "@" + number_of(number) + ".";
    lines << "restore" + number_of(number) + ":";
    for_each_written_word(state, [&](const Word& word) {
      lines << "  " + at + word.place + ".at = getelementptr i64, ptr %saved.words, i64 " + word.place << "  " + at + word.place + " = " + load_text(word.type, at + word.place + ".at", word.is_size)
            << "  store " + word.type + " " + at + word.place + ", ptr " + name_of(word);
    });
    const int exit = exits_.at({state, false, false});
    lines << "  br i1 @single, label %exit" + number_of(exit) + ".sure, label %again" + number_of(number) << "again" + number_of(number) + ":" << arrivals.jump(number);
  }
  return lines.text();
}

// What sources hold.
std::string RegionWriter::sources_text() const {
  std::string text;
  for (size_t i = 0; i < region_.sources.size(); i++) {
    const std::vector<std::string> words = words_of(region_.sources[i]);
    for (size_t w = 0; w < words.size(); w++) {
      const std::string name = source_word(static_cast<int32_t>(i), w);
      text += "  " + name + ".at = getelementptr i64, ptr %sources, i64 " + std::to_string(i * kWordsOfSlot + w) + "\n";
      text += "  " + name + " = " + load_text(words[w], name + ".at", is_size_word(region_.sources[i], w)) + "\n";
    }
  }
  return text;
}

// What the code doesn't write is read once for all entries: so LLVM sees that they are the same in all turns.
std::string RegionWriter::fixed_text() const {
  std::string text;
  std::set<std::string> seen;
  for (const State& entry : region_.entries) {
    for_each_word(entry, [&](const Word& word) {
      const std::string name = name_of(word);
      if (!written_.count(name) && seen.insert(name).second) text += enter_text(word, "%fixed" + name.substr(1));
    });
  }
  return text;
}

// Enters the turns, and again where they go back.
static std::string function_of_turns() {
  return std::string("define i32 ") + native::kFunctionName + kParameters + " #0 {\nbegin:\n  br label %turns\nturns:\n  %from = phi i32 [ %number, %begin ], [ %end, %turns ]\n  %end = call i32 " + kTurns +
         "(ptr %slots, ptr %sources, ptr %header, i32 %from) #3\n  %ends = icmp ne i32 %end, " + number_of(kGoesBack) + "\n  br i1 %ends, label %exit, label %turns, !prof !0\nexit:\n  ret i32 %end\n}\n";
}

// Of the function, with a checkpoint.
std::string RegionWriter::entry_text(size_t entry, const Arrivals& arrivals) const {
  const std::string name = "entry" + std::to_string(entry);
  const State& state = region_.entries[entry];
  const int block = numbers_.at(state);
  std::string text = name + ":\n";
  for_each_written_word(state, [&](const Word& word) { text += enter_text(word, "%" + name + "." + word.place); });
  if (!arrivals.leads_to(block)) return text + "  br label %save" + number_of(block) + "\n";
  return text + "  br label %" + name + ".save\n" + save_text(name + ".save", block, arrivals.jump(block));
}

std::string RegionWriter::function() {
  for (const State& entry : region_.entries) save_of(numbers_.at(entry));
  const std::string needed = lines_once(needed_), kept = native::kept_for_vectors(needed);
  std::string text = needed + kept;
  // As if it were known how often it is run (!4), so that LLVM computes what rare ways need on these: what the one turn at a time needs that follows on
  // a check of many was computed in front of each row, and kept in memory.
  text += std::string("define ") + (goes_back() ? std::string("internal i32 ") + kTurns : std::string("i32 ") + native::kFunctionName) + kParameters + " #0 !prof !4 {\nbegin:\n";
  text += "  %conditions = alloca i32\n  %turns = alloca i64\n  store i64 0, ptr %turns\n";
  for (const std::string& variable : variables_) text += "  " + variable + "\n";
  // Conditions of integers are left for before they are met: nothing is gathered.
  for (int which = 0; which < native::kAllGathered; which++) text += "  %sticky" + std::to_string(which) + " = or " + native::kGathered[which] + " 0, 0\n";
  for (const char* type : native::kHidden) text += native::definition_of_hidden_zero(type);
  text +=
      "  %most.at = getelementptr i64, ptr %header, i64 1\n  %most = load i64, ptr %most.at\n"
      "  %breaker.at = getelementptr i64, ptr %header, i64 2\n  %breaker = load ptr, ptr %breaker.at\n"
      "  %reported.at = getelementptr i64, ptr %header, i64 3\n  %reported = load i32, ptr %reported.at\n";
  if (!region_.routines.empty()) {
    for (const char* const list : {"%data", "%inner"}) text += std::string("  ") + list + " = alloca [" + std::to_string(kMostOperands) + " x i64]\n";
    text += "  %parts.at = getelementptr i64, ptr %header, i64 16\n  %parts = load ptr, ptr %parts.at\n  store i64 0, ptr %parts\n";
    text += "  %log.part.at = getelementptr i64, ptr %header, i64 17\n  %log.part = load ptr, ptr %log.part.at\n";
    text += "  %outer = alloca [" + std::to_string((kMostOperands + 1) * kMostDimensions) + " x i64]\n";
    text += std::string("  ") + Block::kTurnsOfCalls + " = or i64 " + number_of(region_.turns_of_calls()) + ", 0\n";
    text += std::string("  ") + kCallWords + " = alloca [" + std::to_string(kMostCallWords) + " x i64]\n";
    text += "  %numbers = alloca [" + std::to_string(kMostOperands) + " x [" + std::to_string(kBytesOfNumber) + " x i8]], align 32\n";
  }
  text += std::string("  ") + Block::kSerial + " = alloca i64\n  store i64 0, ptr " + Block::kSerial + "\n  " + Block::kTop + " = alloca ptr\n";
  text +=
      "  %arena.at = getelementptr i64, ptr %header, i64 4\n  %arena = load ptr, ptr %arena.at\n"
      "  %arena.end.at = getelementptr i64, ptr %header, i64 5\n  %arena.end = load ptr, ptr %arena.end.at\n"
      "  %arena.low = ptrtoint ptr %arena to i64\n  %arena.high = ptrtoint ptr %arena.end to i64\n  %arena.size = sub i64 %arena.high, %arena.low\n  %arena.half = lshr i64 %arena.size, 1\n"
      "  %arena.middle = getelementptr i8, ptr %arena, i64 %arena.half\n  %half = alloca ptr\n  store ptr %arena, ptr %half\n  %half.end = alloca ptr\n  store ptr %arena.middle, ptr %half.end\n"
      "  %routines.at = getelementptr i64, ptr %header, i64 6\n  %routines = load ptr, ptr %routines.at\n"
      "  %held.at = getelementptr i64, ptr %header, i64 7\n  %held = load ptr, ptr %held.at\n"
      "  %unseen.at = getelementptr i64, ptr %header, i64 8\n  %unseen.first = load i64, ptr %unseen.at\n  %unseen = alloca i64\n  store i64 %unseen.first, ptr %unseen\n"
      "  %saved.at = getelementptr i64, ptr %header, i64 9\n  %saved = load ptr, ptr %saved.at\n"
      "  %log.at = getelementptr i64, ptr %header, i64 10\n  %log = load ptr, ptr %log.at\n  %log.top = alloca ptr\n  store ptr %log, ptr %log.top\n"
      "  %undo.at = getelementptr i64, ptr %header, i64 11\n  %undo = load ptr, ptr %undo.at\n"
      "  %bound.at = getelementptr i64, ptr %header, i64 13\n  %bound = load ptr, ptr %bound.at\n"
      "  %many.end.at = getelementptr i64, ptr %header, i64 14\n  %many.end = load ptr, ptr %many.end.at\n"
      "  %log.many.at = getelementptr i64, ptr %header, i64 12\n  %log.many = load ptr, ptr %log.many.at\n"
      "  %log.rows.at = getelementptr i64, ptr %header, i64 15\n  %log.rows = load ptr, ptr %log.rows.at\n"
      "  %due.late = icmp sgt i64 %unseen.first, %most\n  %due.first = select i1 %due.late, i64 %most, i64 %unseen.first\n  %due = alloca i64\n  store i64 %due.first, ptr %due\n";
  text += sources_text();
  text += "  %saved.words = getelementptr i64, ptr %saved, i64 " + number_of(kSavedNumbers) + "\n";
  // Where nothing meets conditions, nothing is put back.
  text += std::string("  %logs = icmp ne i32 0, ") + (goes_back() ? "1" : "0") + "\n";
  text += std::string("  store ptr %arena, ptr ") + Block::kTop + "\n";
  text += Arrivals::kVariables;
  text += fixed_text();
  text += "  switch i32 %number, label %nowhere [";
  for (size_t i = 0; i < region_.entries.size(); i++) text += " i32 " + std::to_string(i) + ", label %entry" + std::to_string(i);
  if (goes_back()) text += " i32 " + number_of(kGoesBack) + ", label %back";
  text += " ]\nnowhere:\n  unreachable\n";
  const Loops loops(blocks_);
  const FirstTurns firsts(blocks_, loops, text_);
  const Arrivals arrivals(loops, firsts, saves_);
  for (size_t i = 0; i < region_.entries.size(); i++) text += entry_text(i, arrivals);
  text += firsts.text();
  for (const int number : checks_) text += check_text(number);
  for (const int number : saves_) text += save_text("save" + number_of(number), number, "  br label %" + firsts.label_of(number));
  if (goes_back()) text += rollback_text() + go_back_text(arrivals);
  arrivals.add_to(text);
  for (size_t i = 0; i < region_.exits.size(); i++) {
    const std::string name = "exit" + std::to_string(i);
    text += name + ":\n" + (meets_conditions_ ? conditions_text(name, name + ".sure") : "  br label %" + name + ".sure\n") + name + ".sure:\n";
    for_each_written_word(region_.exits[i].state, [&](const Word& word) {
      const std::string at = "%" + name + "." + word.place;
      text += "  " + at + " = load " + word.type + ", ptr " + name_of(word) + "\n";
      text += "  " + at + ".at = getelementptr i64, ptr %slots, i64 " + word.place + "\n";
      text += "  store " + word.type + " " + at + ", ptr " + at + ".at\n";
    });
    text += "  %" + name + ".unseen = load i64, ptr %unseen\n  store i64 %" + name + ".unseen, ptr %unseen.at\n";
    // LLVM would put the ends of all exits together, and have each branch to one set variables first that say what is stored where.
    text += "  %" + name + ".turns = load i64, ptr %turns\n  store i64 %" + name + ".turns, ptr %header\n  call void asm sideeffect \"# " + name + "\", \"\"()\n  ret i32 " + std::to_string(i) + "\n";
  }
  text += "}\n";
  if (goes_back()) text += function_of_turns();
  // Vectors that wait on the stack for a call to return are read in half of the time where they cross no cache lines.
  return text + (kept.empty() ? "attributes #0 = { nounwind }" : "attributes #0 = { nounwind alignstack=64 }") + R"(
attributes #1 = { nounwind willreturn memory(none) }
attributes #2 = { nobuiltin }
attributes #3 = { noinline nounwind }
attributes #4 = { cold noinline nounwind willreturn memory(none) }
attributes #5 = { noinline nounwind willreturn memory(none) }
!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{}
!2 = !{i64 0, i64 -9223372036854775808}
!3 = !{}
!4 = !{!"function_entry_count", i64 1000}
)" + hints_text_ + scopes_text(region_);
}

// LLVM's flags: the operations may be put in another order, a product and a sum be rounded once, and zeros lose their signs.
static void allow_any_order(std::string& ir) {
  for (const std::string_view operation : {"= fadd ", "= fsub ", "= fmul "}) {
    constexpr std::string_view kFlags = "reassoc nsz contract ";
    for (size_t at = ir.find(operation); at != std::string::npos; at = ir.find(operation, at + operation.size())) ir.insert(at + operation.size(), kFlags);
  }
}

// What was found of a loop may not be so of blocks that came later.
void RegionWriter::forget_ahead() {
  for (const auto& [number, ahead] : ahead_) {
    if (ahead->holds()) continue;
    const std::string way = ".many:\n  br label %", there = block_label(number) + way + block_label(number);
    text_.replace(text_.find(there) + there.size(), std::string(".ahead\n").size(), ".0\n");
  }
}

void RegionWriter::check_holders() const {
  std::set<size_t> rebound;
  for (const std::set<int>* const holders : {&region_.stored, &region_.read}) {
    for (const int holder : *holders) {
      if (holder > 0 && region_.changed.count(static_cast<size_t>(holder) - 1)) rebound.insert(static_cast<size_t>(holder) - 1);
    }
  }
  if (!rebound.empty()) throw ReboundArrays{std::move(rebound)};
}

Region RegionWriter::write(const State& from) {
  for (const Names::One& one : region_.names.all) {
    if (one.owner != Names::kDict) owners_[one.owner] = from.types[one.owner].object;
  }
  block_of(from);
  write_blocks();
  for (size_t i = 0; i < one_by_one_.size(); i++) {
    write_turns_ahead(one_by_one_[i]);
    write_blocks();
  }
  forget_ahead();
  region_.blocks = static_cast<int>(blocks_.size());
  const bool is_useful = within_.leads ? !blocks_[0].is_dead && region_.routines.empty() : loops();
  if (!is_useful) return std::move(region_);
  blocks_[0].is_entry = true;
  for (const BlockOf& block : blocks_) {
    if (block.is_entry) region_.entries.push_back(block.state);
  }
  const auto declare = [&](const Word& word) { variable(word.slot, word.word, word.type, word.is_unread); };
  for (const State& state : region_.entries) for_each_word(state, declare);
  for (const Exit& exit : region_.exits) for_each_word(exit.state, declare);
  check_holders();
  region_.ir = function();
  if (numerics_.fast) allow_any_order(region_.ir);
  region_.ir = native::with_late_functions(std::move(region_.ir));
  return std::move(region_);
}

Region make_region(const bytecode::Code& code, const State& from, const Names& names, const std::vector<Ref>& objects, const std::vector<Type>& items, const Recordings& recordings, Numerics numerics, bool may_share, Within within) {
  // How many words the variables need that are written before they are read is known once they have been met, and which arrays stay in theirs.
  constexpr int kMostOften = 4;
  UnreadWords unread;
  std::set<size_t> rebound;
  for (int often = 1;; often++) {
    try {
      return RegionWriter(code, recordings, numerics, within, may_share, names, objects, items, unread, rebound, often < kMostOften).write(from);
    } catch (WiderSlots& slots) {
      unread = std::move(slots.all);
    } catch (const ReboundArrays& more) {
      rebound.insert(more.slots.begin(), more.slots.end());
    }
  }
}

}  // namespace evalframe::regions
