// From one place of a frame to the next: jumps, branches and steps of iterators, in registers.
#include <algorithm>

#include "bytecode/stack.h"
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "regions/iterators.h"
#include "regions/loops.h"
#include "regions/numbers.h"
#include "regions/turns.h"

namespace evalframe::regions {

using bytecode::Instruction, bytecode::Op;
using Kind = Type::Kind;

namespace {

State state_of(const Slots& slots, int32_t instruction) {
  State state{instruction, {}};
  for (const Slot& slot : slots) state.types.push_back(slot.value.type);
  return state;
}

}  // namespace

void RegionWriter::land(Block& block, int number, const Slots& slots, int32_t instruction, bool must_run) {
  Emitter& emitter = block.emitter;
  State state = state_of(slots, instruction);
  const int next = must_run ? -1 : block_of(state);
  // As the code that it leads to has it.
  if (within_.leads) state = without_unread(std::move(state));
  const std::vector<Term> memory = store_slots(block, slots, next < 0 ? state.types : blocks_[static_cast<size_t>(next)].state.types);
  std::vector<Term> arrays;
  for (size_t i = 0; i < slots.size(); i++) {
    const Type& type = slots[i].value.type;
    if (type.kind == Kind::kFresh) arrays.push_back(slots[i].kept ? emitter.let("ptr", "load ptr, ptr " + variable(i, 0, "ptr")) : slots[i].value.words[0]);
    else if (type.kind == Kind::kUnread && type.rank > 0 && block.takes_memory()) arrays.push_back(unread_array(emitter, i, type));
  }
  block.end_memory(memory, arrays);
  if (many_) {
    const std::string within = next < 0 ? std::string() : many_->label_of(next);
    if (!within.empty()) return emitter.line("br label %" + within);
    many_->leave(emitter);
  }
  if (next < 0) {
    const bool on_top = must_run && !slots.empty();
    if (must_run || within_.has(instruction)) region_.obstacles.push_back({instruction, must_run ? std::string(bytecode::name(code_.instructions[instruction].op)) + (on_top ? " of " + text_of(slots.back().value.type) : "")
                                                       : "more places, or types of variables, than are followed"});
    // A turn of a loop may lead to where it began.
    return leave_at(block, exit_of(state, must_run, within_.leads && state == blocks_[0].state));
  }
  blocks_[number].next.insert(next);
  count_entry(block, number, next);
  if (instruction > blocks_[number].state.instruction) return go_to(block, next);
  blocks_[next].is_entry = true;
  const Term turns = emitter.let("i64", "load i64, ptr %turns") + 1.0;
  emitter.line("store i64 " + turns.ref + ", ptr %turns");
  const Term goes_on = compare("slt", turns, emitter.let("i64", std::string("load i64, ptr ") + Block::kDue));
  const std::string on = block.new_label();
  emitter.line("br i1 " + goes_on.ref + ", label %" + on + ", label %" + check_of(next) + ", !prof !0");
  emitter.label(on);
  go_to(block, next);
}

std::string RegionWriter::loop_hint(const std::string& attributes) {
  constexpr int kFirst = 100;
  const std::string name = "!" + std::to_string(kFirst + hints_++);
  hints_text_ += name + " = distinct !{" + name + ", " + attributes + "}\n";
  return ", !llvm.loop " + name;
}

int32_t RegionWriter::behind_loop(int32_t for_iter) const { return code_.instructions[static_cast<size_t>(for_iter)].target + cpython::layout::kForIterSkip; }

bool RegionWriter::has_inner_loop(int32_t for_iter) const {
  const auto first = code_.instructions.begin() + for_iter;
  return std::any_of(first + 1, code_.instructions.begin() + first->target, [](const Instruction& one) { return one.op == Op::FOR_ITER; });
}

std::string RegionWriter::entries_of_loop(int32_t instruction) {
  const std::string variable = "%entered.i" + std::to_string(instruction);
  variables_.insert(variable + " = alloca i64\n  store i64 0, ptr " + variable);
  return variable;
}

// From outside of a loop that has others in it to where its turns begin.
void RegionWriter::count_entry(Block& block, int number, int next) {
  const int32_t from = blocks_[number].state.instruction, for_iter = blocks_[next].state.instruction - 1;
  if (for_iter < 0 || code_.instructions[static_cast<size_t>(for_iter)].op != Op::FOR_ITER || !has_inner_loop(for_iter)) return;
  if (from > for_iter && from < code_.instructions[static_cast<size_t>(for_iter)].target) return;
  const std::string variable = entries_of_loop(for_iter + 1);
  const Term entered = block.emitter.let("i64", "load i64, ptr " + variable) + 1.0;
  block.emitter.line("store i64 " + entered.ref + ", ptr " + variable);
}

// A checkpoint is in front of it where something was done that can't be undone.
void RegionWriter::go_to(Block& block, int number) { branch_where_done(block, block.is_done() || block.done_where() ? save_of(number) : std::string(), block_label(number)); }

void RegionWriter::leave_at(Block& block, const std::string& exit) { branch_where_done(block, exit + ".sure", exit); }

void RegionWriter::branch_where_done(Block& block, const std::string& done, const std::string& undone) {
  if (!block.done_where()) return block.emitter.line("br label %" + (block.is_done() ? done : undone));
  block.emitter.line("br i1 " + block.done_where()->ref + ", label %" + done + ", label %" + undone);
}

void RegionWriter::return_results(Block& block, const std::vector<Written>& results, bool is_tuple) {
  State state{is_tuple ? State::kReturnedTuple : State::kReturned, std::vector<Type>(frame_.count())};
  if (results.size() > static_cast<size_t>(code_.code.as<PyCodeObject>()->co_stacksize)) throw Unsupported("a large tuple");
  for (const Written& result : results) {
    store_words(block, state.types.size(), result);
    state.types.push_back(result.type);
  }
  block.end_memory({}, {});
  leave_at(block, exit_of(state, false));
}

void RegionWriter::branch(Block& block, int number, const Term& condition, Slots yes, int32_t at_yes, Slots no, int32_t at_no) {
  const std::string one = block.new_label(), other = block.new_label();
  block.emitter.line("br i1 " + condition.ref + ", label %" + one + ", label %" + other);
  block.emitter.label(one);
  go_on(block, number, std::move(yes), at_yes, false);
  block.emitter.label(other);
  go_on(block, number, std::move(no), at_no, false);
}

// The function's variables of the slot have it from now on.
void RegionWriter::store_words(Block& block, size_t slot, const Written& value) {
  std::vector<Term> words = words_of(value);
  for (size_t w = 0; w < words.size(); w++) {
    const std::string place = written_variable(slot, w, words[w].type, value.type.kind == Kind::kUnread);
    block.emitter.line("store " + words[w].type + " " + words[w].ref + ", ptr " + place);
    if (many_) many_->stores(slot, place, words[w].type);
  }
}

Written RegionWriter::iterator_over(Block& block, const Written& iterable) {
  const Type& type = iterable.type;
  if (type.kind != Kind::kObject || type.object < 0) return regions::iterator_over(block, iterable);
  return iterator_over_list(block, items_[static_cast<size_t>(type.object)], address_of(block, type.object));
}

// Of what the loop carries along.
Term RegionWriter::address_of(Block& block, int32_t object) const {
  const Term at = block.emitter.let("ptr", "getelementptr ptr, ptr %bound, i64 " + std::to_string(object));
  return block.emitter.let("ptr", "load ptr, ptr " + at.ref + ", !invariant.load !1");
}

// A number, an array, or nothing, as the words of a kUnread.
static Written as_unread(Emitter& emitter, const Written& value, const Type& type) {
  Written unread{.type = type, .words = {emitter.integer("i64", number_of(value.type))}};
  std::vector<Term> words = words_of(value);
  if (value.type.is_array()) words.erase(words.begin() + 1 + *more_unread_words(value.type), words.end());
  for (const Term& word : words) {
    const Term bits = word.is_float() ? native::as_bits(word) : word;
    unread.words.push_back(bits.type == "i64" ? bits : convert(bits.type == "ptr" ? "ptrtoint" : "zext", bits, "i64"));
  }
  unread.words.resize(words_of(type).size(), emitter.integer("i64", 0));
  return unread;
}

// The new array's first element; where it has another array, the first one that may be in memory.
Term RegionWriter::unread_array(Emitter& emitter, size_t slot, const Type& type) {
  const std::vector<Term> words = read_slot(emitter, slot, type);
  const Term kind = convert("trunc", words[0], "i8"), begin = emitter.let("ptr", "load ptr, ptr %half");
  return select(compare("eq", kind, static_cast<int64_t>(Kind::kFresh)), emitter.let("ptr", "inttoptr i64 " + words[1].ref + " to ptr"), begin);
}

// And back again.
Written RegionWriter::read_unread(Emitter& emitter, size_t slot, const Type& type) {
  const Term bits = read_slot(emitter, slot, {Kind::kUnread})[1];
  std::vector<Term> words;
  for (const std::string& word : words_of(type)) {
    const std::string whole = word == "double" ? "i64" : word == "float" ? "i32" : word;
    const Term narrow = whole == "i64" ? bits : convert("trunc", bits, whole);
    words.push_back(whole == word ? narrow : native::as_float(narrow));
  }
  return written(type, std::move(words));
}

std::vector<Term> RegionWriter::store_slots(Block& block, const Slots& slots, const std::vector<Type>& types) {
  std::vector<Term> stored;
  for (size_t i = 0; i < slots.size(); i++) {
    const Type& type = slots[i].value.type;
    const bool becomes_unread = types[i].kind == Kind::kUnread && type.kind != Kind::kUnread;
    if (slots[i].kept && !becomes_unread) continue;
    const Written value = slots[i].kept ? written(type, read_slot(block.emitter, i, type)) : slots[i].value;
    const std::vector<Term> words = words_of(value);
    stored.insert(stored.end(), words.begin(), words.end());
    // It may be that of another variable.
    if (becomes_unread && type.kind == Kind::kArray) region_.loses_arrays = true;
    if (!slots[i].kept) region_.changed.insert(i);
    store_words(block, i, becomes_unread ? as_unread(block.emitter, value, types[i]) : value);
  }
  return stored;
}

// FOR_ITER, and the unpacking of what it gives.
void RegionWriter::step(Block& block, int number, const Slots& slots, const Written& iterator, int32_t instruction) {
  const std::set<int> before = std::exchange(blocks_[number].next, {});
  const std::string one = block.new_label(), end = block.new_label();
  block.emitter.line("br i1 " + has_next(block, iterator).ref + ", label %" + one + ", label %" + end);
  block.emitter.label(one);
  Slots inside = slots;
  Written advanced = iterator;
  const std::vector<Written> items = next_items(block, advanced);
  inside.back() = {false, advanced};
  for (size_t i = items.size(); i > 0; i--) push(inside, items[i - 1]);
  go_on(block, number, std::move(inside), instruction + 1 + (items_of_step(iterator.type) > 0), false);
  const std::set<int> next_inside = std::exchange(blocks_[number].next, {});
  const size_t first_at_end = blocks_[number].steps.size();
  block.emitter.label(end);
  Slots rest = slots;
  rest.pop_back();
  go_on(block, number, std::move(rest), behind_loop(instruction), false);
  const std::set<int> next_end = std::move(blocks_[number].next);
  blocks_[number].next = before;
  blocks_[number].steps.push_back({next_inside, next_end, first_at_end});
}

// In registers.
Written& RegionWriter::top_of(Block& block, Slots& slots) {
  Slot& slot = slots.back();
  if (slot.kept) slot.value = written(slot.value.type, read_slot(block.emitter, slots.size() - 1, slot.value.type));
  return slot.value;
}

void RegionWriter::go_on(Block& block, int number, Slots slots, int32_t instruction, bool must_run) {
  struct Following {
    explicit Following(int& depth) : depth(depth) { depth++; }
    ~Following() { depth--; }
    int& depth;
  };
  const Following following(following_);
  // A loop of jumps alone, or a long way of tests.
  constexpr int kMostFollowed = 48;
  if (following_ > kMostFollowed) return land(block, number, slots, instruction, must_run);
  const Instruction& i = code_.instructions[instruction];
  const auto top = [&]() -> Written& { return top_of(block, slots); };
  const auto without_top = [&] {
    Slots rest = slots;
    rest.pop_back();
    return rest;
  };
  const bool on_number = !slots.empty() && slots.back().value.type.is_number();
  switch (i.op) {
    case Op::JUMP_FORWARD:
    case Op::JUMP_BACKWARD:
    case Op::JUMP_BACKWARD_NO_INTERRUPT: return go_on(block, number, std::move(slots), i.target, false);
    case Op::NOP: return go_on(block, number, std::move(slots), instruction + 1, false);
    case Op::POP_JUMP_IF_FALSE:
    case Op::POP_JUMP_IF_TRUE: {
      if (!on_number) break;
      const Term holds = truth(block, top());
      const bool jumps_on = i.op == Op::POP_JUMP_IF_TRUE;
      return branch(block, number, holds, without_top(), jumps_on ? i.target : instruction + 1, without_top(), jumps_on ? instruction + 1 : i.target);
    }
    case Op::JUMP_IF_FALSE_OR_POP:
    case Op::JUMP_IF_TRUE_OR_POP: {
      if (!on_number) break;
      const Term holds = truth(block, top());
      if (i.op == Op::JUMP_IF_TRUE_OR_POP) return branch(block, number, holds, slots, i.target, without_top(), instruction + 1);
      return branch(block, number, holds, without_top(), instruction + 1, slots, i.target);
    }
    case Op::POP_JUMP_IF_NONE:
    case Op::POP_JUMP_IF_NOT_NONE: {
      const Type& type = slots.back().value.type;
      // Objects from outside are none that is known: None never is among them.
      const bool is_none = type.kind == Kind::kObject && region_.objects[type.object].get() == Py_None;
      return go_on(block, number, without_top(), is_none == (i.op == Op::POP_JUMP_IF_NONE) ? i.target : instruction + 1, false);
    }
    case Op::TO_BOOL: {
      if (!on_number) break;
      const Term holds = truth(block, top());
      slots.back() = {false, written_bool(holds)};
      return go_on(block, number, std::move(slots), instruction + 1, false);
    }
    case Op::UNARY_NOT: {
      if (!on_number) break;
      const Term holds = truth(block, top());
      slots.back() = {false, written_bool(!holds)};
      return go_on(block, number, std::move(slots), instruction + 1, false);
    }
    case Op::GET_ITER: {
      if (slots.empty()) break;
      try {
        const Type& type = slots.back().value.type;
        PyObject* const known = type.kind == Kind::kObject ? region_.objects[static_cast<size_t>(type.object)].get() : nullptr;
        slots.back() = {false, known && PyRange_Check(known) ? iterator_over(block, known_range(block.emitter, known)) : iterator_over(block, top())};
      } catch (const Unsupported&) {
        break;
      }
      return go_on(block, number, std::move(slots), instruction + 1, false);
    }
    case Op::UNPACK_SEQUENCE: {
      if (slots.empty() || slots.back().value.type.kind != Kind::kTuple || slots.back().value.type.asked.size() != static_cast<size_t>(i.arg)) break;
      const Written tuple = top();
      slots.pop_back();
      for (size_t part = tuple.type.asked.size(); part > 0; part--) push(slots, written(tuple.type.asked[part - 1], {tuple.words[part]}));
      return go_on(block, number, std::move(slots), instruction + 1, false);
    }
    case Op::FOR_ITER: {
      if (slots.empty() || !slots.back().value.type.is_iterator()) break;
      const size_t items = items_of_step(slots.back().value.type);
      const Instruction& next = code_.instructions[instruction + 1];
      // A tuple that is kept would have to be made.
      if (items && (next.op != Op::UNPACK_SEQUENCE || static_cast<size_t>(next.arg) != items)) break;
      if (many_) return many_->end_turn(block, number, std::move(slots), instruction);
      if (const std::optional<Term> fits = next_fits(block, top())) {
        const std::string on = block.new_label(), off = block.new_label();
        block.emitter.line("br i1 " + fits->ref + ", label %" + on + ", label %" + off);
        block.emitter.label(off);
        const Block::Saved saved = block.save();
        land(block, number, slots, instruction, true);
        region_.obstacles.pop_back();  // it hardly ever is one
        block.restore(saved);
        block.emitter.label(on);
      }
      return step(block, number, slots, top(), instruction);
    }
    default: break;
  }
  land(block, number, slots, instruction, must_run);
}

}  // namespace evalframe::regions
