#include "regions/many_turns.h"

#include <algorithm>

#include "regions/numbers.h"
#include "regions/recorded.h"
#include "regions/uses.h"

namespace evalframe::regions {

using bytecode::Op;
using recorder::Recording;
using Kind = Type::Kind;

namespace {

constexpr int64_t kFewestAtOnce = 3;
// With quotients, of which two are computed for each.
constexpr int64_t kFewestWithQuotients = 8;

// Of an array that is logged as a whole for many turns: copying them takes less time than to log one element in each turn.
constexpr int64_t kMostBytesForTurn = 64;

// The most elements that are loaded ahead for a block: a way that is hardly ever taken may have more.
constexpr size_t kMostLoadedAhead = 8;

// The lines of straight code that stores need; none: it isn't straight.
std::optional<std::string> for_stores(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    if (lines.back().rfind("  ", 0) != 0 || lines.back().find(" br ") != std::string::npos) return std::nullopt;
    at = end + 1;
  }
  std::set<std::string> names;
  std::string kept;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const size_t equals = line->find(" = ");
    if (equals == std::string::npos ? line->rfind("  store ", 0) != 0 : !names.count(line->substr(2, equals - 2))) continue;
    kept = *line + "\n" + kept;
    for (size_t at = line->find('%', 3); at != std::string::npos; at = line->find('%', at + 1)) names.insert(line->substr(at, line->find_first_of(" ,)", at) - at));
  }
  return kept;
}

}  // namespace

ManyTurns::ManyTurns(RegionWriter& region, int head, size_t most_heads, bool shares_quotients)
    : region_(region),
      head_(head),
      for_iter_(region.blocks_[static_cast<size_t>(head)].state.instruction - 1),
      item_(region.blocks_[static_cast<size_t>(head)].state.types.size() - 1),
      most_heads_(most_heads),
      shares_quotients_(shares_quotients),
      heads_{{head}} {}

bool ManyTurns::is_head(int block) const {
  return std::any_of(heads_.begin(), heads_.end(), [&](const Head& head) { return head.block == block; });
}

void ManyTurns::find_turns() {
  const std::vector<Type>& types = region_.blocks_[static_cast<size_t>(head_)].state.types;
  const bool is_of_range = types.size() >= 2 && types.back().kind == Kind::kInt && types[types.size() - 2].kind == Kind::kRangeIterator;
  if (!is_of_range || for_iter_ < 0 || region_.code_.instructions[static_cast<size_t>(for_iter_)].op != Op::FOR_ITER) throw OtherTurn();
  step_ = known_step(region_.code_, for_iter_);
  find_blocks();
  find_carriers();
  check_fixed_slots();
}

std::string ManyTurns::write(const std::string& slow) {
  find_turns();
  // As many as there are until something is looked at, or the range ends.
  Block block(prefix(), slow, region_.region_);
  Emitter& emitter = block.emitter;
  const std::vector<Term> range = region_.read_slot(emitter, iterator(), {Kind::kRangeIterator});
  const std::string fewer = prefix() + ".fewer";
  const Term count = count_to_probe(block, turns_ahead(block, range), slow, fewer);
  const Term first = region_.read_slot(emitter, item_, {Kind::kInt})[0], last = first + (count - 1.0) * step(emitter, range);
  write_probes(block, first, slow, last, fewer, count);
  for (const char* const variable : {".left", ".bits", ".turn", ".item", ".range"}) region_.variables_.insert("%" + prefix() + variable + " = alloca i64");
  region_.variables_.insert(failed() + " = alloca i1");
  store(emitter, emitter.integer("i1", 0), failed());
  store(emitter, count, to_do());
  store(emitter, range[2], "%" + prefix() + ".range");
  store(emitter, emitter.integer("i64", 0), "%" + prefix() + ".bits");
  store(emitter, first, item());
  find_carried();
  if (carried_) {
    block.quotients = quotients(carried_->loads.block, carried_->loads.recording);
    load_carried(emitter, address_of_load(region_, block, carried_->loads, carried_->load, first), "from");
  }
  emitter.line("br label %" + label_of(head_));
  take(block);
  for (const Head& head : heads_) write_turn(head.block);
  for (const int number : blocks_) {
    if (!is_head(number)) write_turn(number);
  }
  for (size_t i = 0; i < heads_.size(); i++) {
    if (!heads_[i].ends.empty()) write_next(i);
  }
  return text_;
}

Term ManyTurns::turns_ahead(Block& block, const std::vector<Term>& range) const {
  Emitter& emitter = block.emitter;
  const Term left = range[2] + 1.0, room = load(emitter, "i64", Block::kDue) - load(emitter, "i64", "%turns");
  if (step_) block.leave_unless(compare("eq", range[1], *step_));
  return select(compare("slt", room, left), room, left);
}

// The last turn of all is often the one that a check fails, or that what follows an `if i < n - 1` doesn't belong to: all but that one then.
Term ManyTurns::count_to_probe(Block& block, const Term& most, const std::string& slow, const std::string& fewer) {
  Emitter& emitter = block.emitter;
  const std::string count = "%" + prefix() + ".count", probes = prefix() + ".probes", all = prefix() + ".all", last = "%" + prefix() + ".last";
  const std::string alone = "%" + prefix() + ".alone", gives_up = prefix() + ".gives_up";
  region_.variables_.insert({count + " = alloca i64", last + " = alloca i1"});
  if (shares_quotients_) region_.variables_.insert(alone + " = alloca i1");
  if (shares_quotients_) store(emitter, emitter.integer("i1", 0), alone);
  store(emitter, most, count);
  store(emitter, emitter.integer("i1", 0), last);
  emitter.line("br label %" + probes);
  emitter.label(fewer);
  emitter.line("br i1 " + load(emitter, "i1", last).ref + ", label %" + (shares_quotients_ ? gives_up : slow) + ", label %" + all);
  if (shares_quotients_) {
    emitter.label(gives_up);
    emitter.line("br i1 " + load(emitter, "i1", alone).ref + ", label %block" + std::to_string(head_) + ".0, label %" + slow);
  }
  emitter.label(all);
  store(emitter, emitter.integer("i1", -1), last);
  store(emitter, load(emitter, "i64", count) - 1.0, count);
  emitter.line("br label %" + probes);
  emitter.label(probes);
  const Term probed = load(emitter, "i64", count);
  block.leave_unless(compare("sge", probed, shares_quotients_ ? kFewestWithQuotients : kFewestAtOnce));
  return probed;
}

// As the code says it where it makes the range: LLVM puts into vectors what goes on by a known number.
std::optional<int64_t> known_step(const bytecode::Code& of, int32_t for_iter) {
  const std::vector<bytecode::Instruction>& code = of.instructions;
  if (for_iter < 3 || code[static_cast<size_t>(for_iter) - 1].op != Op::GET_ITER) return 1;
  const bytecode::Instruction &call = code[static_cast<size_t>(for_iter) - 2], &last = code[static_cast<size_t>(for_iter) - 3];
  if (call.op != Op::CALL || call.arg != 3) return 1;
  if (last.op != Op::LOAD_CONST) return std::nullopt;
  PyObject* const constant = PyTuple_GET_ITEM(of.code.as<PyCodeObject>()->co_consts, last.arg);
  return type_of(constant).kind == Kind::kInt ? std::optional<int64_t>(PyLong_AsLongLong(constant)) : std::nullopt;
}

Term ManyTurns::step(Emitter& emitter, const std::vector<Term>& range) const { return step_ ? emitter.integer("i64", *step_) : range[1]; }

// The blocks between the step of the loop and the next one, of turns with each of the heads.
void ManyTurns::find_blocks() {
  for (size_t i = 0; i < heads_.size(); i++) {
    find_blocks(heads_[i]);
    const std::set<int> behind = heads_[i].behind;
    for (const int next : behind) {
      if (!is_head(next) && heads_.size() < most_heads_) heads_.push_back({next});
    }
  }
  if (std::none_of(heads_.begin(), heads_.end(), [&](const Head& head) { return is_repeated(head.block); })) throw OtherTurn();
}

void ManyTurns::find_blocks(Head& head) {
  const int32_t end = region_.code_.instructions[static_cast<size_t>(for_iter_)].target;
  std::vector<int> open = {head.block};
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    const BlockOf& block = region_.blocks_[static_cast<size_t>(number)];
    const int32_t at = block.state.instruction;
    if (at <= for_iter_ || at >= end || head.blocks.count(number)) continue;
    if (block.recordings.empty()) {
      if (number == head.block) throw OtherTurn();
      continue;
    }
    head.blocks.insert(number);
    blocks_.insert(number);
    for (const BlockOf::Step& step : block.steps) {
      for (const int inside : step.inside) {
        const int32_t first = region_.blocks_[static_cast<size_t>(inside)].state.instruction;
        if (first > for_iter_ + 1 && first < end) throw OtherTurn();
        if (first == for_iter_ + 1) head.behind.insert(inside);
      }
    }
    for (const int next : block.next) {
      if (region_.blocks_[static_cast<size_t>(next)].state.instruction <= at) throw OtherTurn();
      open.push_back(next);
    }
  }
}

// Whether turns lead back to one with this head.
bool ManyTurns::is_repeated(int block) const {
  std::set<int> reached;
  std::vector<int> open = {block};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    const auto head = std::find_if(heads_.begin(), heads_.end(), [&](const Head& one) { return one.block == at; });
    if (head == heads_.end()) continue;
    for (const int next : head->behind) {
      if (next == block) return true;
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

std::vector<int> ManyTurns::straight_heads() const {
  const Head& last = heads_.back();
  std::vector<int> blocks;
  for (const Head& head : heads_) {
    if (heads_.size() > 2 || head.blocks.size() != 1 || head.behind != std::set<int>{last.block}) return {};
    blocks.push_back(head.block);
  }
  return blocks;
}

// What no turn writes is the same for all heads.
void ManyTurns::check_fixed_slots() const {
  for (size_t head = 1; head < heads_.size(); head++) {
    for (size_t i = 0; i < item_; i++) {
      if (is_fixed_slot(i) && types(head)[i] != types(0)[i]) throw OtherTurn();
    }
  }
}

// Which slots have the number of the turn at the beginning of each block, and which are changed by any.
void ManyTurns::find_carriers() {
  std::vector<int> in_order(blocks_.begin(), blocks_.end());
  const auto at = [&](int number) { return region_.blocks_[static_cast<size_t>(number)].state.instruction; };
  std::sort(in_order.begin(), in_order.end(), [&](int a, int b) { return at(a) < at(b); });
  for (const Head& head : heads_) carriers_[head.block] = {item_};
  for (const int number : in_order) {
    const BlockOf& block = region_.blocks_[static_cast<size_t>(number)];
    const std::set<size_t> here = carriers_[number];
    std::set<size_t> there;
    for (size_t i = 0; i < region_.frame_.count(); i++) there.insert(i);
    for (const Recording* recording : block.recordings) {
      const std::vector<uint32_t> initial = region_.frame_.initial(*recording);
      for (size_t node = 0; node <= recording->graph.nodes.size(); node++) {
        const std::vector<uint32_t> slots = region_.frame_.values_at(*recording, static_cast<int32_t>(node));
        for (size_t i = 0; i < std::min(slots.size(), item_); i++) {
          if (slots[i] != initial[i]) changed_.insert(i);
        }
        const auto carries = [&](size_t slot) {
          if (slots[slot] == Variables::kKept) return here.count(slot) > 0;
          const recorder::Value& value = recording->values[slots[slot]];
          const std::optional<size_t> from = value.kind == recorder::Value::Kind::kSource ? region_.frame_.slot_of(*recording, value.a) : std::nullopt;
          return from && here.count(*from) > 0;
        };
        std::erase_if(there, [&](size_t slot) { return !carries(slot); });
      }
    }
    for (const int next : block.next) {
      if (!blocks_.count(next)) continue;
      const auto [known, is_new] = carriers_.emplace(next, there);
      if (!is_new) std::erase_if(known->second, [&](size_t slot) { return !there.count(slot); });
    }
  }
}

Written ManyTurns::slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const {
  const bool carries = carriers_.at(block).count(slot) > 0, is_fixed = is_fixed_slot(slot);
  Written value;
  if (item && carries) {
    value = written_int(*item);
  } else if (item && !is_fixed) {
    // What it will be isn't known, and nothing is checked of it.
    if (!type.is_number() && type.kind != Kind::kUnread) throw Unsupported("a variable that has another array in each of many turns");
    value = written_zero(emitter, type);
  } else {
    value = written(type, region_.read_slot(emitter, slot, type));
  }
  value.varies = carries ? Varies::kEvenly : is_fixed ? Varies::kNot : Varies::kAnyhow;
  return value;
}

void log_stores(Block& block, const std::vector<std::pair<Block::Store, Term>>& evenly, const Term& count) {
  Emitter& emitter = block.emitter;
  int64_t entries = 0;
  for (const auto& [stored, address_of_last] : evenly) entries += (graph::size_of(stored.value.dtype) + 7) / 8;
  if (entries) {
    const Term needed = count * emitter.integer("i64", entries * static_cast<int64_t>(sizeof(LogEntry)));
    const Term top = native::convert("ptrtoint", load(emitter, "ptr", "%log.top"), "i64"), end = native::convert("ptrtoint", Term{&emitter, "ptr", "%many.end"}, "i64");
    block.require(compare("sle", needed, end - top));
  }
  for (size_t i = 0; i < evenly.size(); i++) {
    const auto& [stored, address_of_last] = evenly[i];
    // Each way through a turn may store the same elements.
    Term is_logged = emitter.integer("i1", 0);
    for (size_t other = 0; other < i; other++) {
      const auto& [before, last_before] = evenly[other];
      if (graph::size_of(before.value.dtype) != graph::size_of(stored.value.dtype)) continue;
      is_logged = is_logged | (compare("eq", before.address, stored.address) & compare("eq", last_before, address_of_last));
    }
    const std::string logs = block.new_label(), behind = block.new_label();
    emitter.line("br i1 " + is_logged.ref + ", label %" + behind + ", label %" + logs);
    emitter.label(logs);
    const std::string size = std::to_string(graph::size_of(stored.value.dtype));
    const std::string arguments = "ptr " + load(emitter, "ptr", "%log.top").ref + ", ptr " + stored.address.ref + ", ptr " + address_of_last.ref + ", i64 " + size + ", i64 " + count.ref;
    store(emitter, emitter.let("ptr", "call ptr %log.many(" + arguments + ")"), "%log.top");
    emitter.line("br label %" + behind);
    emitter.label(behind);
  }
}

// The checks of the first and the last turn, and then the log of what is stored between: where a check fails, the turns are done one
// by one, each of which logs what it stores; fewer of them may do where it is the last turn's.
void ManyTurns::write_probes(Block& block, const Term& first, const std::string& slow, const Term& last, const std::string& fewer, const Term& count) {
  block.pass = Pass::kProbe;
  std::vector<std::pair<Block::Store, Term>> evenly;  // in the first turn, and where in the last one
  std::vector<Block::Store> anywhere;
  for (const int number : blocks_) {
    const std::vector<const Recording*>& recordings = region_.blocks_[static_cast<size_t>(number)].recordings;
    for (size_t r = 0; r < recordings.size(); r++) {
      const Recording* const recording = recordings[r];
      block.quotients = quotients(number, r);
      const auto stores_with = [&](const Term& item, const std::string& otherwise) {
        block.leave_for(otherwise);
        RecordingWriter(region_, number, *recording, block).write_turn(&item, is_head(number));
        return std::exchange(block.stores, {});
      };
      const std::vector<Block::Store> at_first = stores_with(first, slow);
      const std::vector<Block::Quotient> quotients_at_first = std::exchange(block.shared_quotients, {});
      const std::vector<Block::Store> at_last = stores_with(last, fewer);
      share(block, quotients_at_first, std::exchange(block.shared_quotients, {}), fewer, count);
      for (size_t i = 0; i < at_first.size(); i++) {
        if (at_first[i].varies != Varies::kAnyhow) evenly.emplace_back(at_first[i], at_last[i].address);
        else anywhere.push_back(at_first[i]);
      }
    }
  }
  block.leave_for(slow);
  log_stores(block, evenly, count);
  log_arrays(block, anywhere, count);
}

// A histogram's counts are stored once in each turn, and there are few of them. Where the log ends with the very array, it isn't logged again.
void ManyTurns::log_arrays(Block& block, const std::vector<Block::Store>& anywhere, const Term& count) {
  may_log_arrays_ = !anywhere.empty() && std::all_of(anywhere.begin(), anywhere.end(), [](const Block::Store& store) { return store.in != nullptr; });
  if (!may_log_arrays_) return;
  Emitter& emitter = block.emitter;
  region_.variables_.insert(arrays_are_logged() + " = alloca i1");
  Term fits = emitter.integer("i1", -1), entries = emitter.integer("i64", 0);
  std::vector<Term> bytes;
  for (const Block::Store& store : anywhere) {
    Term size = emitter.integer("i64", graph::size_of(store.in->type.dtype));
    for (size_t axis = store.in->sizes.size(); axis > 0;) {
      fits = fits & compare("eq", store.in->strides[--axis], size);
      size = size * store.in->sizes[axis];
    }
    fits = fits & compare("ult", size, count * emitter.integer("i64", kMostBytesForTurn));
    entries = entries + entries_of(size);
    bytes.push_back(size);
  }
  const Term room = native::convert("ptrtoint", Term{&emitter, "ptr", "%many.end"}, "i64") - native::convert("ptrtoint", load(emitter, "ptr", "%log.top"), "i64");
  fits = fits & compare("sle", entries * emitter.integer("i64", sizeof(LogEntry)), room);
  store(emitter, fits, arrays_are_logged());
  const std::string logs = block.new_label(), behind = block.new_label();
  emitter.line("br i1 " + (fits & Term{&emitter, "i1", "%logs"}).ref + ", label %" + logs + ", label %" + behind);
  emitter.label(logs);
  for (size_t i = 0; i < anywhere.size(); i++) {
    const std::string operands = "ptr " + load(emitter, "ptr", "%log.top").ref + ", ptr " + anywhere[i].in->data.ref + ", i64 0, i64 1, i64 " + bytes[i].ref;
    store(emitter, emitter.let("ptr", "call ptr %log.rows(" + operands + ")"), "%log.top");
  }
  emitter.line("br label %" + behind);
  emitter.label(behind);
}

// Where it is another in the first turn only, as of (i - 1) % n, that turn is done alone, and the others share theirs.
void ManyTurns::share(Block& block, const std::vector<Block::Quotient>& at_first, const std::vector<Block::Quotient>& at_last, const std::string& fewer, const Term& count) {
  Emitter& emitter = block.emitter;
  for (size_t i = 0; i < at_first.size(); i++) {
    const Block::Quotient &first = at_first[i], &last = at_last[i];
    const std::string variable = block.quotients + std::to_string(i), differs = block.new_label(), same = block.new_label();
    region_.variables_.insert(variable + " = alloca i64");
    store(emitter, first.quotient, variable);
    emitter.line("br i1 " + compare("eq", first.quotient, last.quotient).ref + ", label %" + same + ", label %" + differs + ", !prof !0");
    emitter.label(differs);
    const Term in_second = first.number + binary("sdiv", last.number - first.number, count - 1.0);
    // Which way is taken is no matter of what is right: -1 would trap for the lowest number.
    const Term divisor = select(compare("eq", last.divisor, -1), emitter.integer("i64", 1), last.divisor);
    store(emitter, compare("eq", floored_quotient(in_second, divisor), last.quotient), "%" + prefix() + ".alone");
    emitter.line("br label %" + fewer);
    emitter.label(same);
  }
}

// Has it computed whether or not anything comes of it. What all turns have met is put together at the end of each, in one place: LLVM wouldn't
// put turns with several ways through them into vectors else.
void ManyTurns::compute(Block& block, const std::vector<Term>& results) {
  std::optional<Term> all;
  for (const Term& result : results) {
    if (!result.is_float()) continue;
    Term bits = as_bits(result);
    if (bits.type != "i64") bits = convert("zext", bits, "i64");
    all = all ? *all | bits : bits;
  }
  const std::string place = "%" + prefix() + ".turn";
  if (all) store(block.emitter, load(block.emitter, "i64", place) | *all, place);
}

Term ManyTurns::bits(Emitter& emitter) const {
  return load(emitter, "i64", "%" + prefix() + ".bits") | load(emitter, "i64", "%" + prefix() + ".turn");
}

// Turns of one block need nothing: what nothing comes of isn't written for many turns. In turns that are done once LLVM may be told by assembly.
ManyTurns::Watches ManyTurns::watches_in(int number, Block& block) {
  const auto has = [&](const Head& head) { return head.blocks.count(number) && is_repeated(head.block); };
  if (std::none_of(heads_.begin(), heads_.end(), has)) {
    return [&block](const std::vector<Term>& results) {
      for (const Term& result : results) block.emitter.line("call void asm sideeffect \"\", \"x\"(" + result.type + " " + result.ref + ")");
    };
  }
  size_t count = 0;
  for (const Head& head : heads_) count += is_repeated(head.block) ? head.blocks.size() : 0;
  if (count == 1) return {};
  return [&](const std::vector<Term>& results) { compute(block, results); };
}

std::set<int> ManyTurns::before_stores() const {
  const auto stores = [&](int number) {
    const std::vector<const Recording*>& recordings = region_.blocks_[static_cast<size_t>(number)].recordings;
    return std::any_of(recordings.begin(), recordings.end(), [](const Recording* recording) { return stores_elements(*recording); });
  };
  std::set<int> behind;
  std::vector<int> open;
  for (const int number : blocks_) {
    if (stores(number)) open.push_back(number);
  }
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    for (const int next : region_.blocks_[static_cast<size_t>(number)].next) {
      if (blocks_.count(next) && behind.insert(next).second) open.push_back(next);
    }
  }
  std::set<int> before;
  for (const int number : blocks_) {
    if (!is_head(number) && !behind.count(number)) before.insert(number);
  }
  return before;
}

// All that a turn may load in blocks behind a branch is in range whichever way it takes, as the probes have seen. So it is loaded in front of it,
// where nothing is stored between: LLVM then may do both ways and choose, and in vectors no load of what the other way has just
// stored, by a mask, waits for that.
void ManyTurns::load_ahead(int head) {
  const auto at = std::find_if(heads_.begin(), heads_.end(), [&](const Head& one) { return one.block == head; });
  for (const int number : before_stores()) {
    if (!at->blocks.count(number)) continue;
    for (size_t i = 0; i < region_.blocks_[static_cast<size_t>(number)].recordings.size(); i++) load_for(head, number, i);
  }
}

void ManyTurns::load_for(int head, int number, size_t recording) {
  Block block(prefix() + "h" + std::to_string(head) + "b" + std::to_string(number) + "r" + std::to_string(recording), "rollback", region_.region_);
  block.pass = Pass::kProbe;
  block.peeks = true;
  block.quotients = quotients(number, recording);
  const Term here = load(block.emitter, "i64", item());
  RecordingWriter(region_, number, *region_.blocks_[static_cast<size_t>(number)].recordings[recording], block).write_turn(&here, false);
  std::vector<std::string> types;
  for (const Block::Element& element : block.peeked) {
    if (native::is_complex(element.dtype) || types.size() == kMostLoadedAhead) break;
    const Term value = native::load_element(block.emitter, element.dtype, element.address.ref, scope_hint(element.holder)).real;
    const std::string variable = loaded(number, recording) + std::to_string(types.size());
    region_.variables_.insert(variable + " = alloca " + value.type);
    store(block.emitter, value, variable);
    types.push_back(value.type);
  }
  const std::optional<std::string> text = for_stores(block.emitter.text());
  if (types.empty() || !text) return;
  text_ += *text;
  needed_ += block.emitter.needed();
  loaded_types_[{number, recording}] = std::move(types);
}

void ManyTurns::find_carried() {
  std::vector<PartOfTurn> parts;
  for (const int number : blocks_) {
    const std::vector<const Recording*>& recordings = region_.blocks_[static_cast<size_t>(number)].recordings;
    // The first of a head's was probed.
    for (size_t r = 0; r < (is_head(number) ? 1 : recordings.size()); r++) parts.push_back({number, r, recordings[r], carriers_.at(number)});
  }
  const auto begins = [&](Block& block, const PartOfTurn& part) { block.quotients = quotients(part.block, part.recording); };
  carried_ = regions::find_carried(region_, parts, [this](size_t slot) { return is_fixed_slot(slot); }, step_, begins);
}

void ManyTurns::load_carried(Emitter& emitter, const Term& address, const char* name) {
  const Term value = native::load_element(emitter, carried_->dtype, address.ref, "").real;
  region_.variables_.insert(carried(name) + " = alloca " + value.type);
  store(emitter, value, carried(name));
}

void ManyTurns::keep_carried(int head) {
  Block block(prefix() + "h" + std::to_string(head) + "carried", "rollback", region_.region_);
  block.quotients = quotients(carried_->stores.block, carried_->stores.recording);
  load_carried(block.emitter, address_of_store(region_, block, carried_->stores, load(block.emitter, "i64", item())), "to");
  take(block);
}

void ManyTurns::write_turn(int number) {
  const std::vector<const Recording*>& recordings = region_.blocks_[static_cast<size_t>(number)].recordings;
  // The first of a head's was probed; its conditions hold in all turns.
  const size_t most = is_head(number) ? 1 : recordings.size();
  for (size_t i = 0; i < most; i++) {
    const std::string label = label_of(number), next = i + 1 < most ? label + "." + std::to_string(i + 1) : "rollback";
    text_ += (i ? label + "." + std::to_string(i) : label) + ":\n";
    Block block(label.substr(0, label.find('.')) + "b" + std::to_string(number) + "r" + std::to_string(i), "rollback", region_.region_);
    block.pass = Pass::kMany;
    block.failed = failed();
    if (may_log_arrays_) block.arrays_are_logged = arrays_are_logged();
    block.quotients = quotients(number, i);
    const auto loaded_here = loaded_types_.find({number, i});
    if (loaded_here != loaded_types_.end()) block.loaded = loaded(number, i), block.loaded_types = loaded_here->second;
    if (is_head(number)) {
      store(block.emitter, block.emitter.integer("i64", 0), "%" + prefix() + ".turn");
      load_ahead(number);
      if (carried_) keep_carried(number);
    }
    if (carried_) block.carries = {carried("from"), carried("to"), native::register_type(carried_->dtype), carried_->all_loads[{number, i}]};
    RecordingWriter writer(region_, number, *recordings[i], block);
    if (Watches watches = watches_in(number, block)) writer.watches(std::move(watches));
    writer.write_turn(nullptr, is_head(number), next);
    writer.finish_turn();
    take(block);
  }
}

void ManyTurns::write_next(size_t head) {
  Block block(prefix() + "next" + std::to_string(head), "rollback", region_.region_);
  Emitter& emitter = block.emitter;
  emitter.label(next(head));
  const std::string end = block.new_label();
  store(emitter, bits(emitter), "%" + prefix() + ".bits");
  // Counted in front of the branch, which is all that turns end with then.
  const Term left = load(emitter, "i64", to_do()), left_behind = left - 1.0;
  store(emitter, left_behind, to_do());
  const std::vector<Term> now = region_.read_slot(emitter, iterator(), {Kind::kRangeIterator});
  // Its slot may have had something else meanwhile.
  const Term item_here = load(emitter, "i64", item()), item_of_next = item_here + step(emitter, now);
  store(emitter, item_of_next, item());
  store(emitter, item_of_next, region_.written_variable(item_, 0, "i64"));
  region_.region_.changed.insert(item_);
  if (carried_) store(emitter, load(emitter, native::register_type(carried_->dtype), carried("to")), carried("from"));
  // Several vectors a turn would only help sums that may be added up in any order; rows are seldom long, and what is left of them is done one by one.
  const std::string hint = region_.numerics_.fast ? std::string() : region_.loop_hint(R"(!{!"llvm.loop.interleave.count", i32 1})");
  emitter.line("br i1 " + compare("ne", left_behind, 0).ref + ", label %" + label_of(heads_[head].block) + ", label %" + end + hint);
  emitter.label(end);
  store(emitter, left, to_do());
  store(emitter, item_here, item());
  leave(emitter);
  Slots slots = slots_behind(emitter, head);
  region_.many_ = nullptr;
  region_.go_on(block, head_, std::move(slots), for_iter_, false);
  region_.many_ = this;
  take(block);
}

Slots ManyTurns::slots_behind(Emitter& emitter, size_t head) const {
  Slots slots;
  for (size_t i = 0; i < item_; i++) {
    const Type& type = heads_[head].ends[i];
    const bool was_unread = types(head)[i].kind == Kind::kUnread && type.kind != Kind::kUnread;
    slots.push_back(was_unread ? Slot{false, region_.read_unread(emitter, i, type)} : Slot{true, {.type = type}});
  }
  return slots;
}

Written written_zero(Emitter& emitter, const Type& type) {
  std::vector<Term> zeros;
  for (const std::string& word : words_of(type)) zeros.push_back(word == "double" || word == "float" ? emitter.number(word, 0.0) : emitter.integer(word, 0));
  return written(type, std::move(zeros));
}

void ManyTurns::leave(Emitter& emitter) {
  const std::string sound = prefix() + ".sound" + std::to_string(ways_out_++);
  emitter.line("br i1 " + (!load(emitter, "i1", failed())).ref + ", label %" + sound + ", label %rollback, !prof !0");
  emitter.label(sound);
  emitter.line("call void asm sideeffect \"\", \"r\"(i64 " + bits(emitter).ref + ")");
  // The iterator isn't looked at between the turns.
  const Term done = load(emitter, "i64", "%" + prefix() + ".count") - load(emitter, "i64", to_do());
  const std::vector<Term> range = region_.read_slot(emitter, iterator(), {Kind::kRangeIterator});
  region_.set_range(emitter, iterator(), load(emitter, "i64", item()) + step(emitter, range), load(emitter, "i64", "%" + prefix() + ".range") - done);
  store(emitter, load(emitter, "i64", "%turns") + done, "%turns");
}

std::optional<size_t> ManyTurns::next_head(const Slots& slots) {
  if (slots.size() != item_ || !slots[iterator()].kept) return std::nullopt;
  for (size_t head = 0; head < heads_.size(); head++) {
    const bool leads_there = std::equal(slots.begin(), slots.end(), types(head).begin(), [](const Slot& slot, const Type& type) {
      return slot.value.type == type || (type.kind == Kind::kUnread && may_be_unread_number(slot.value.type));
    });
    if (!leads_there) continue;
    std::vector<Type>& ends = heads_[head].ends;
    if (ends.empty()) {
      for (const Slot& slot : slots) ends.push_back(slot.value.type);
    }
    for (size_t i = 0; i < item_; i++) {
      if (ends[i] != slots[i].value.type) ends[i] = types(head)[i];  // a kUnread
    }
    return head;
  }
  return std::nullopt;
}

void ManyTurns::end_turn(Block& block, int number, Slots slots, int32_t instruction) {
  const std::optional<size_t> head = instruction == for_iter_ ? next_head(slots) : std::nullopt;
  if (head) {
    region_.store_slots(block, slots, types(*head));
    return block.emitter.line("br label %" + next(*head));
  }
  leave(block.emitter);
  region_.many_ = nullptr;
  const Written iterator = region_.top_of(block, slots);
  region_.step(block, number, slots, iterator, instruction);
  region_.many_ = this;
}

std::string ManyTurns::quotients(int block, size_t recording) const {
  return shares_quotients_ ? "%" + prefix() + ".b" + std::to_string(block) + "r" + std::to_string(recording) + ".quotient" : std::string();
}

void ManyTurns::take(const Block& block) {
  divides_ |= block.divides;
  text_ += block.emitter.text();
  needed_ += block.emitter.needed();
}

}  // namespace evalframe::regions
