// Finds the blocks of a loop from its recordings, and writes them.
#include "regions/region.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "backends/native/code/kernel_codegen.h"
#include "bytecode/stack.h"
#include "core/object_text.h"
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "regions/block.h"
#include "regions/calls.h"
#include "regions/elements.h"
#include "regions/iterators.h"
#include "regions/numbers.h"

namespace evalframe::regions {

using bytecode::Instruction, bytecode::Op;
using graph::Form, graph::Node, graph::Operand;
using guards::Check, guards::Reach;
using recorder::Recording;
using Kind = Type::Kind;

int Region::traverse(visitproc visit, void* arg) const {
  for (const Ref& object : objects) Py_VISIT(object.get());
  return guards.traverse(visit, arg);
}

namespace {

constexpr size_t kMostBlocks = 160;
constexpr size_t kMostTypesOfPlace = 8;

// A slot of a state on the way from one block to the next.
struct Slot {
  bool kept = true;  // the function's variables of the slot have it already
  Written value;     // its type, and where it isn't kept, the words
};
using Slots = std::vector<Slot>;

struct BlockOf {
  State state;
  int number;
  bool is_entry = false;  // a jump back leads here
  bool is_dead = false;   // nothing native is done in it
  std::set<int> next;     // numbers of blocks behind it
  // Steps of iterators: where they lead with an item, and at the end.
  struct Step {
    std::set<int> inside, end;
    size_t first_at_end = 0;  // of the steps on the way from the end
  };
  std::vector<Step> steps;
};

class RegionWriter {
 public:
  RegionWriter(const bytecode::Code& code, const Recordings& recordings, bool exact, std::vector<Ref> objects) : code_(code), recordings_(recordings), exact_(exact) {
    region_.objects = std::move(objects);
  }
  Region write(const State& from);

 private:
  friend class RecordingWriter;
  // The block's number; -1: there are too many.
  int block_of(const State& state);
  std::string exit_of(const State& state, bool steps);
  void write_block(int number);
  bool write_recording(int number, const Recording& recording, const std::string& name, const std::string& otherwise, std::string& text, std::vector<Obstacle>& why);
  // Goes on at the instruction with these slots. must_run: the instruction itself has to be run; from: where the present block is.
  void go_on(Block& block, int number, Slots slots, int32_t instruction, bool must_run);
  void land(Block& block, int number, const Slots& slots, int32_t instruction, bool must_run);
  void branch(Block& block, int number, const Term& condition, Slots yes, int32_t at_yes, Slots no, int32_t at_no);
  // The variable of one word of a slot.
  std::string variable(size_t slot, size_t word, const std::string& type);
  std::vector<Term> read_slot(Emitter& emitter, size_t slot, const Type& type);
  int32_t object_of(PyObject* constant);
  void step(Block& block, int number, const Slots& slots, const Written& iterator, int32_t instruction);
  void merge_again();
  bool loops() const;
  std::string function() const;

  const bytecode::Code& code_;
  const Recordings& recordings_;
  const bool exact_;
  Region region_;
  std::vector<std::pair<const Recording*, int>> merged_;  // recordings whose guards are the region's, and their blocks
  std::deque<BlockOf> blocks_;
  std::map<State, int> numbers_;
  std::map<std::pair<State, bool>, int> exits_;
  std::set<std::string> variables_;
  std::string text_;
  std::string needed_;
};

State state_of(const Slots& slots, int32_t instruction) {
  State state{instruction, {}};
  for (const Slot& slot : slots) state.types.push_back(slot.value.type);
  return state;
}

Slots kept_slots(const State& state) {
  Slots slots;
  for (const Type& type : state.types) slots.push_back({true, {.type = type}});
  return slots;
}

void push(Slots& slots, Written value) { slots.push_back({false, std::move(value)}); }

// --- variables, exits, blocks -------------------------------------------------------------------------------------------

std::string RegionWriter::variable(size_t slot, size_t word, const std::string& type) {
  const std::string name = "%s" + std::to_string(slot) + "." + std::to_string(word) + "." + type;
  variables_.insert(name + " = alloca " + type);
  return name;
}

std::vector<Term> RegionWriter::read_slot(Emitter& emitter, size_t slot, const Type& type) {
  std::vector<Term> words;
  for (const std::string& word : words_of(type)) words.push_back(emitter.let(word, "load " + word + ", ptr " + variable(slot, words.size(), word)));
  return words;
}

std::string RegionWriter::exit_of(const State& state, bool steps) {
  const auto [at, is_new] = exits_.try_emplace({state, steps}, static_cast<int>(region_.exits.size()));
  if (is_new) region_.exits.push_back({state, steps});
  return "exit" + std::to_string(at->second);
}

int RegionWriter::block_of(const State& state) {
  if (const auto found = numbers_.find(state); found != numbers_.end()) return found->second;
  const auto here = std::count_if(numbers_.begin(), numbers_.end(), [&](const auto& other) { return other.first.instruction == state.instruction; });
  if (blocks_.size() >= kMostBlocks || static_cast<size_t>(here) >= kMostTypesOfPlace) return -1;
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
  return static_cast<int32_t>(region_.objects.size()) - 1;
}

// --- from one place to the next -----------------------------------------------------------------------------------------

void RegionWriter::land(Block& block, int number, const Slots& slots, int32_t instruction, bool must_run) {
  Emitter& emitter = block.emitter;
  const State state = state_of(slots, instruction);
  const int next = must_run ? -1 : block_of(state);
  for (size_t i = 0; i < slots.size(); i++) {
    if (slots[i].kept) continue;
    const std::vector<Term> words = words_of(slots[i].value);
    for (size_t w = 0; w < words.size(); w++) emitter.line("store " + words[w].type + " " + words[w].ref + ", ptr " + variable(i, w, words[w].type));
  }
  if (next < 0) {
    const bool on_top = must_run && !slots.empty();
    region_.obstacles.push_back({instruction, must_run ? std::string(bytecode::name(code_.instructions[instruction].op)) + (on_top ? " of " + text_of(slots.back().value.type) : "")
                                                       : "more types of variables than are followed"});
    return emitter.line("br label %" + exit_of(state, must_run));
  }
  blocks_[number].next.insert(next);
  const std::string target = "block" + std::to_string(next);
  if (instruction > blocks_[number].state.instruction) return emitter.line("br label %" + target);
  blocks_[next].is_entry = true;
  const Term turns = emitter.let("i64", "load i64, ptr %turns") + 1.0;
  emitter.line("store i64 " + turns.ref + ", ptr %turns");
  const Term breaker = emitter.let("i32", "load volatile i32, ptr %breaker");
  const Term calm = compare("eq", breaker & emitter.integer("i32", cpython::BreakerCell::kBits), 0) & compare("slt", turns, Term{&emitter, "i64", "%most"});
  emitter.line("br i1 " + calm.ref + ", label %" + target + ", label %" + exit_of(state, false) + ", !prof !0");
}

void RegionWriter::branch(Block& block, int number, const Term& condition, Slots yes, int32_t at_yes, Slots no, int32_t at_no) {
  const std::string one = block.new_label(), other = block.new_label();
  block.emitter.line("br i1 " + condition.ref + ", label %" + one + ", label %" + other);
  block.emitter.label(one);
  go_on(block, number, std::move(yes), at_yes, false);
  block.emitter.label(other);
  go_on(block, number, std::move(no), at_no, false);
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
  go_on(block, number, std::move(rest), code_.instructions[instruction].target + cpython::layout::kForIterSkip, false);
  const std::set<int> next_end = std::move(blocks_[number].next);
  blocks_[number].next = before;
  blocks_[number].steps.push_back({next_inside, next_end, first_at_end});
}

void RegionWriter::go_on(Block& block, int number, Slots slots, int32_t instruction, bool must_run) {
  const Instruction& i = code_.instructions[instruction];
  const auto top = [&]() -> Written& {
    Slot& slot = slots.back();
    if (slot.kept) slot.value = written(slot.value.type, read_slot(block.emitter, slots.size() - 1, slot.value.type));
    return slot.value;
  };
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
        slots.back() = {false, iterator_over(block, known && PyRange_Check(known) ? known_range(block.emitter, known) : top())};
      } catch (const Unsupported&) {
        break;
      }
      return go_on(block, number, std::move(slots), instruction + 1, false);
    }
    case Op::FOR_ITER: {
      if (slots.empty() || !slots.back().value.type.is_iterator()) break;
      const size_t items = items_of_step(slots.back().value.type);
      const Instruction& next = code_.instructions[instruction + 1];
      // A tuple that is kept would have to be made.
      if (items && (next.op != Op::UNPACK_SEQUENCE || static_cast<size_t>(next.arg) != items)) break;
      return step(block, number, slots, top(), instruction);
    }
    default: break;
  }
  land(block, number, slots, instruction, must_run);
}

// --- one recording --------------------------------------------------------------------------------------------------------

// Writes what a recording does in a state. Throws Unsupported.
class RecordingWriter {
 public:
  RecordingWriter(RegionWriter& region, int number, const Recording& recording, Block& block)
      : region_(region), state_(region.blocks_[number].state), number_(number), recording_(recording), block_(block) {}
  // otherwise: the label for where another recording has to be looked for.
  void write(const std::string& otherwise);
  // Makes what it asks for the region's; the conditions on slots are the block's.
  void check_guards();

 private:
  void check_recording() const;
  void check_slot(const guards::Source& source, const guards::Fact& fact);
  void require(const Term& condition) { conditions_.push_back(condition); }
  int32_t merged(int32_t source);
  Written read_source(int32_t source);
  Written slot_value(int32_t slot);
  Written constant(PyObject* object);
  Written operand(Operand operand);
  Written value(uint32_t index);
  Written made(const recorder::Container& call);
  void write_node(int32_t index);
  Written node_value(const Node& node);
  void write_check(int32_t index, const Node& node);
  std::optional<Choice> choice_of(const Node& node);
  Written write_choice(int32_t index, const Choice& choice, const Node& node);
  Slots state_at(int32_t node);
  int32_t instruction_at(int32_t node) const { return recording_.marks[node].instruction; }

  RegionWriter& region_;
  const State state_;
  const int number_;
  const Recording& recording_;
  Block& block_;
  std::vector<Term> conditions_;
  std::vector<Written> nodes_;
  std::map<int32_t, int32_t> merged_;
  std::map<int32_t, Written> slots_;
};

void RecordingWriter::check_recording() const {
  const auto no = [](bool holds, const char* why) {
    if (holds) throw Unsupported(why);
  };
  no(recording_.returns, "the function returns");
  no(recording_.start.size() != 1, "the frame of an inlined call");
  no(recording_.iterator >= 0, "an iterator that isn't over a range");
  no(recording_.handles, "an exception that is handled");
  no(recording_.keeps_ended || recording_.needs_frames, "objects whose end is told, or frames that are looked at");
  no(!recording_.generators.empty(), "a generator");
  no(!recording_.names.empty(), "a store into an attribute, a name or an item of a container");
  no(recording_.start[0].names != 0 || recording_.start[0].globals != 0, "a dict of names");
  no(recording_.initial[0].size() != state_.types.size(), "other slots in use");
  for (size_t i = 0; i < state_.types.size(); i++) {
    no((recording_.initial[0][i] == 0) != (state_.types[i].kind == Kind::kUnbound), "other variables that are bound");
  }
}

Written RecordingWriter::slot_value(int32_t slot) {
  const auto found = slots_.find(slot);
  if (found != slots_.end()) return found->second;
  const Type& type = state_.types[static_cast<size_t>(slot)];
  return slots_.emplace(slot, written(type, region_.read_slot(block_.emitter, static_cast<size_t>(slot), type))).first->second;
}

void RecordingWriter::check_slot(const guards::Source& source, const guards::Fact& fact) {
  const Type& type = state_.types[static_cast<size_t>(source.index)];
  const auto no = [&] { throw Unsupported("another type: " + text_of(type)); };
  switch (fact.check) {
    case Check::kNone: return;
    case Check::kType:
      if (python_type(type) != fact.want.as<PyTypeObject>()) no();
      return;
    case Check::kArray:
      if (type.kind != Kind::kArray || type.dtype != fact.meta.dtype || type.rank != fact.meta.rank || type.flags != fact.array_flags) no();
      return;
    case Check::kEqual: {
      const Written want = written_constant(block_.emitter, fact.want.get());
      if (want.type != type || !type.is_number() || type.is_complex()) no();
      const Written here = slot_value(source.index);
      const bool is_float = native::is_float(here.number.dtype);
      require(compare("eq", is_float ? native::as_bits(here.number.real) : here.number.real, is_float ? native::as_bits(want.number.real) : want.number.real));
      // What follows may know it.
      slots_[source.index].constant = fact.want.get();
      slots_[source.index].number = want.number;
      return;
    }
    case Check::kSame:
    case Check::kDistinct: {
      const guards::Source& other = recording_.guards.sources[static_cast<size_t>(fact.other)];
      const bool both = type.kind == Kind::kArray && other.reach == Reach::kSlot && state_.types[static_cast<size_t>(other.index)].kind == Kind::kArray;
      if (!both) {
        // Objects of unlike kinds are two.
        if (fact.check == Check::kDistinct && other.reach == Reach::kSlot && state_.types[static_cast<size_t>(other.index)] != type) return;
        throw Unsupported("the identity of numbers");
      }
      require(compare(fact.check == Check::kSame ? "eq" : "ne", slot_value(source.index).words[0], slot_value(other.index).words[0]));
      return;
    }
    default: throw Unsupported("a guard on " + text_of(type));
  }
}

// The number of the source among the region's: of what is reached from objects that the loop carries along.
int32_t RecordingWriter::merged(int32_t index) {
  if (const auto found = merged_.find(index); found != merged_.end()) return found->second;
  guards::Source source = recording_.guards.sources[static_cast<size_t>(index)].copy();
  if (source.reach == Reach::kTurn) throw Unsupported("the items of an iterator ahead");
  if (source.reach == Reach::kSlot) {
    const Type& type = state_.types[static_cast<size_t>(source.index)];
    if (type.kind != Kind::kObject) throw Unsupported("a part of " + text_of(type));
    source.frame = 0;
    source.index = type.object;
  }
  if (source.parent >= 0) source.parent = merged(source.parent);
  const auto renumber = [&](guards::Fact& fact) {
    if (fact.other >= 0) fact.other = merged(fact.other);
  };
  renumber(source.fact);
  for (guards::Fact& fact : source.more) renumber(fact);
  int32_t number = -1;
  if (!region_.region_.guards.take_source(std::move(source), number)) throw Unsupported("another value than elsewhere in the loop");
  return merged_[index] = number;
}

void RecordingWriter::check_guards() {
  if (!region_.region_.guards.take_surroundings(recording_.guards)) throw Unsupported("other functions or names than elsewhere in the loop");
  for (size_t i = 0; i < recording_.guards.sources.size(); i++) {
    const guards::Source& source = recording_.guards.sources[i];
    if (source.reach == Reach::kSlot && source.frame != 0) throw Unsupported("the frame of an inlined call");
    const bool is_typed = source.reach == Reach::kSlot && state_.types[static_cast<size_t>(source.index)].kind != Kind::kObject;
    if (!is_typed) {
      merged(static_cast<int32_t>(i));
      continue;
    }
    check_slot(source, source.fact);
    for (const guards::Fact& fact : source.more) check_slot(source, fact);
  }
}

Type type_of_meta(const graph::Meta& meta) {
  switch (meta.kind) {
    case graph::Kind::kInt: return {Kind::kInt};
    case graph::Kind::kFloat: return {Kind::kFloat};
    case graph::Kind::kBool: return {Kind::kBool};
    case graph::Kind::kNumpyScalar: return {Kind::kNumpy, meta.dtype};
    case graph::Kind::kArray: return {Kind::kArray, meta.dtype, meta.rank};
    default: return {Kind::kObject};
  }
}

// What a source that isn't a slot of the frame holds all the time.
Written RecordingWriter::read_source(int32_t index) {
  const guards::Source& source = recording_.guards.sources[static_cast<size_t>(index)];
  if (source.reach == Reach::kSlot && state_.types[static_cast<size_t>(source.index)].kind != Kind::kObject) return slot_value(source.index);
  const int32_t number = merged(index);
  Type type{Kind::kObject};
  for (size_t i = 0; i < recording_.input_sources.size(); i++) {
    if (recording_.input_sources[i] != index) continue;
    type = type_of_meta(recording_.graph.inputs[i].meta);
    const auto flags_of = [&](const guards::Fact& fact) {
      if (fact.check == Check::kArray) type.flags = fact.array_flags;
    };
    flags_of(source.fact);
    for (const guards::Fact& fact : source.more) flags_of(fact);
  }
  if (source.reach == Reach::kSlot && type.kind == Kind::kObject) return {.type = state_.types[static_cast<size_t>(source.index)]};
  if (type.kind == Kind::kObject || (type.kind == Kind::kNumpy && !is_computed(type.dtype))) throw Unsupported("an object that isn't in a variable");
  std::vector<Type>& sources = region_.region_.sources;
  if (sources.size() <= static_cast<size_t>(number)) sources.resize(static_cast<size_t>(number) + 1);
  if (sources[static_cast<size_t>(number)].kind != Kind::kUnbound && sources[static_cast<size_t>(number)] != type) throw Unsupported("another type than elsewhere in the loop");
  sources[static_cast<size_t>(number)] = type;
  if (type.is_complex()) throw Unsupported("a complex number that isn't in a variable");
  const std::string word = words_of(type)[0];
  Emitter& emitter = block_.emitter;
  const Term at = emitter.let("ptr", "getelementptr i64, ptr %sources, i64 " + std::to_string(number));
  if (word == "i1") return written(type, {convert("trunc", emitter.let("i8", "load i8, ptr " + at.ref + ", !invariant.load !1"), "i1")});
  return written(type, {emitter.let(word, "load " + word + ", ptr " + at.ref + ", !invariant.load !1")});
}

Written RecordingWriter::constant(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return written_constant(block_.emitter, object);
  Written tuple{.constant = object, .is_tuple = true};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) tuple.items.push_back(written_constant(block_.emitter, PyTuple_GET_ITEM(object, i)));
  return tuple;
}

Written RecordingWriter::operand(Operand operand) {
  switch (operand.space) {
    case Operand::Space::kInput: return read_source(recording_.input_sources[static_cast<size_t>(operand.index)]);
    case Operand::Space::kNode: return nodes_[static_cast<size_t>(operand.index)];
    case Operand::Space::kConstant: return constant(recording_.graph.constants[static_cast<size_t>(operand.index)].get());
    case Operand::Space::kNone: break;
  }
  throw Unsupported("a missing operand");
}

Written RecordingWriter::node_value(const Node& node) {
  const Operand* const operands = recording_.graph.operands_of(node);
  std::vector<Written> in;
  for (uint32_t i = 0; i < node.count; i++) in.push_back(operand(operands[i]));
  const auto constant = [&](int32_t index) { return recording_.graph.constants[static_cast<size_t>(index)].get(); };
  switch (node.form) {
    case Form::kBinary: return binary(block_, node.code, in[0], in[1], node.meta);
    case Form::kUnary: return unary(block_, node.code, in[0], node.meta);
    case Form::kCompare: return compare_numbers(block_, node.code, in[0], in[1], node.meta);
    case Form::kGetItem: return get_item(block_, in[0], in[1]);
    case Form::kSetItem: return set_item(block_, in[0], in[1], in[2]), Written{};
    case Form::kGetAttr: return get_attribute(block_, in[0], std::string(utf8(constant(node.callable))));
    case Form::kTruth: return written_bool(truth(block_, in[0]));
    case Form::kTuple: return {.is_tuple = true, .items = std::move(in)};
    case Form::kCall:
      if (node.keywords) throw Unsupported("a call with keywords");
      return call(block_, constant(node.callable), in, node.meta, region_.exact_);
    case Form::kCheckMeta:
      if (!agrees(in[0].type, node.meta)) throw Unsupported("another type of result");
      return {};
    default: throw Unsupported(std::string("an operation: ") + graph::name(node.form));
  }
}

std::optional<Choice> RecordingWriter::choice_of(const Node& node) {
  if (node.form != Form::kCall || node.keywords || node.count != 2) return std::nullopt;
  const Operand* const operands = recording_.graph.operands_of(node);
  PyObject* const callable = recording_.graph.constants[static_cast<size_t>(node.callable)].get();
  return choice_between(block_, callable, operand(operands[0]), operand(operands[1]));
}

// Where it doesn't hold, the loop goes on from there in the other way.
void RecordingWriter::write_check(int32_t index, const Node& node) {
  const Operand* const operands = recording_.graph.operands_of(node);
  const Written a = operand(operands[0]), want = operand(operands[1]);
  if (a.names_type) {
    if (reinterpret_cast<PyObject*>(a.names_type) != want.constant) throw Unsupported("another type");
    return;
  }
  if (a.type != want.type || !a.type.is_number() || a.type.is_complex()) throw Unsupported("a check of " + text_of(a.type));
  const bool is_float = native::is_float(a.number.dtype);
  const Term holds = compare(is_float ? "oeq" : "eq", a.number.real, want.number.real);
  std::optional<Slots> there;
  try {
    there = state_at(index);
  } catch (const Unsupported&) {
    return block_.leave_unless(holds);
  }
  const std::string on = block_.new_label(), off = block_.new_label();
  block_.emitter.line("br i1 " + holds.ref + ", label %" + on + ", label %" + off);
  block_.emitter.label(off);
  const Block::Saved saved = block_.save();
  block_.look_at_conditions();
  block_.write_stores();
  region_.go_on(block_, number_, std::move(*there), instruction_at(index), true);
  block_.restore(saved);
  block_.emitter.label(on);
}

// min() or max() of two numbers of unlike types: what comes of it is of the type of one of them, and where it is the other,
// the loop goes on behind the call with that.
Written RecordingWriter::write_choice(int32_t index, const Choice& choice, const Node& node) {
  const bool first = agrees(choice.first.type, node.meta);
  if (!first && !agrees(choice.second.type, node.meta)) throw Unsupported("min() or max() with another result");
  const Written& here = first ? choice.first : choice.second;
  Slots there = state_at(index);
  const Instruction& call = region_.code_.instructions[instruction_at(index)];
  const auto taken = static_cast<size_t>(call.arg) + 2;
  if (call.op != Op::CALL || there.size() < taken) throw Unsupported("min() or max() of unlike numbers");
  there.resize(there.size() - taken);
  push(there, first ? choice.second : choice.first);
  const std::string on = block_.new_label(), off = block_.new_label();
  block_.emitter.line("br i1 " + choice.is_first.ref + ", label %" + (first ? on : off) + ", label %" + (first ? off : on));
  block_.emitter.label(off);
  const Block::Saved saved = block_.save();
  block_.look_at_conditions();
  block_.write_stores();
  region_.go_on(block_, number_, std::move(there), instruction_at(index) + 1, false);
  block_.restore(saved);
  block_.emitter.label(on);
  return here;
}

void RecordingWriter::write_node(int32_t index) {
  const Node& node = recording_.graph.nodes[static_cast<size_t>(index)];
  Written result;
  if (const std::optional<Choice> choice = choice_of(node)) {
    result = write_choice(index, *choice, node);
  } else if (node.form == Form::kCheck) {
    write_check(index, node);
  } else {
    result = node_value(node);
  }
  nodes_.push_back(std::move(result));
}

Written RecordingWriter::value(uint32_t index) {
  const recorder::Value& of = recording_.values[index];
  switch (of.kind) {
    case recorder::Value::Kind::kNull: return {};
    case recorder::Value::Kind::kSource: return read_source(of.a);
    case recorder::Value::Kind::kNode: {
      const Written& node = nodes_[static_cast<size_t>(of.a)];
      if (node.is_tuple || node.names_type || node.type.kind == Kind::kUnbound) throw Unsupported("an object in a variable");
      return node;
    }
    case recorder::Value::Kind::kConstant: {
      if (of.b) throw Unsupported("a class that the loop makes");
      PyObject* const constant = recording_.graph.constants[static_cast<size_t>(of.a)].get();
      Written value = written_constant(block_.emitter, constant);
      if (!value.type.is_number()) value.type = {Kind::kObject, DType::kNone, 0, 0, region_.object_of(constant)};
      return value;
    }
    case recorder::Value::Kind::kIterator: {
      const recorder::Value& over = recording_.values[static_cast<size_t>(of.a)];
      PyObject* const known = over.kind == recorder::Value::Kind::kConstant && !over.b ? recording_.graph.constants[static_cast<size_t>(over.a)].get() : nullptr;
      const bool is_range = known && PyRange_Check(known);
      return advanced(iterator_over(block_, is_range ? known_range(block_.emitter, known) : value(static_cast<uint32_t>(of.a))), of.b);
    }
    case recorder::Value::Kind::kMade: return made(recording_.containers[static_cast<size_t>(of.a)]);
    case recorder::Value::Kind::kTruth: return written_bool(truth(block_, value(static_cast<uint32_t>(of.a))));
    default: throw Unsupported("an object that the loop makes");
  }
}

// enumerate() or zip(), that hasn't given anything yet.
Written RecordingWriter::made(const recorder::Container& call) {
  const bool is_plain = call.initial == call.present && call.initial.begin == 0 && call.elements.size() > 2 && call.elements[1] == 0;
  const recorder::Value& callable = recording_.values[is_plain ? call.elements[0] : 0];
  PyObject* const type = callable.kind == recorder::Value::Kind::kConstant ? recording_.graph.constants[static_cast<size_t>(callable.a)].get() : nullptr;
  std::vector<Written> arguments;
  if (type != reinterpret_cast<PyObject*>(&PyEnum_Type) && type != reinterpret_cast<PyObject*>(&PyZip_Type)) throw Unsupported("an object that the loop makes");
  for (size_t i = 2; i < call.elements.size(); i++) arguments.push_back(value(call.elements[i]));
  if (type == reinterpret_cast<PyObject*>(&PyZip_Type)) return zip_of(block_, arguments);
  if (arguments.size() != 1) throw Unsupported("enumerate() from a number on");
  return enumerate_of(block_, arguments[0]);
}

Slots RecordingWriter::state_at(int32_t node) {
  const std::vector<recorder::FrameState> states = recording_.state_at(node);
  if (states.size() != 1 || states[0].identity != recording_.start[0].identity) throw Unsupported("the frame of an inlined call");
  if (states[0].names || states[0].globals || !recording_.stores_at(node).empty()) throw Unsupported("a dict of names");
  Slots slots;
  for (size_t i = 0; i < states[0].slots.size(); i++) {
    const uint32_t there = states[0].slots[i];
    const bool kept = i < recording_.initial[0].size() && recording_.initial[0][i] == there;
    slots.push_back(kept ? Slot{true, {.type = state_.types[i]}} : Slot{false, value(there)});
  }
  return slots;
}

void RecordingWriter::write(const std::string& otherwise) {
  check_recording();
  check_guards();
  for (const Term& condition : conditions_) {
    const std::string holds = block_.new_label();
    block_.emitter.line("br i1 " + condition.ref + ", label %" + holds + ", label %" + otherwise);
    block_.emitter.label(holds);
  }
  const auto count = static_cast<int32_t>(recording_.graph.nodes.size());
  for (int32_t i = 0; i < count; i++) write_node(i);
  Slots end = state_at(count);
  block_.look_at_conditions();
  block_.write_stores();
  region_.go_on(block_, number_, std::move(end), instruction_at(count), true);
}

// --- the whole --------------------------------------------------------------------------------------------------------------

bool RegionWriter::write_recording(int number, const Recording& recording, const std::string& name, const std::string& otherwise, std::string& text, std::vector<Obstacle>& why) {
  Block block(name, otherwise);
  const std::vector<Type> sources_before = region_.sources;
  const std::set<int> next_before = blocks_[number].next;
  const size_t steps_before = blocks_[number].steps.size();
  try {
    RecordingWriter(*this, number, recording, block).write(otherwise);
  } catch (const std::runtime_error& error) {
    merge_again();
    region_.sources = sources_before;
    blocks_[number].next = next_before;
    blocks_[number].steps.resize(steps_before);
    why.push_back({blocks_[number].state.instruction, error.what()});
    return false;
  }
  text += block.emitter.text();
  needed_ += block.emitter.needed();
  merged_.emplace_back(&recording, number);
  return true;
}

// The region's guards without those of a recording that it can't have. Sources keep their numbers.
void RegionWriter::merge_again() {
  region_.guards = guards::GuardTable();
  for (const auto& [recording, number] : merged_) {
    Block unused("unused", "unused");
    RecordingWriter(*this, number, *recording, unused).check_guards();
  }
}

// A block is tried recording by recording: what one of them leaves has not been begun.
void RegionWriter::write_block(int number) {
  const State state = blocks_[number].state;
  const std::string name = "block" + std::to_string(number);
  const std::string exit = exit_of(state, false);
  const Instruction& first = code_.instructions[state.instruction];
  const Kind top = state.types.empty() ? Kind::kUnbound : state.types.back().kind;
  const bool is_control = (first.op == Op::FOR_ITER && !state.types.empty() && state.types.back().is_iterator()) || (first.op == Op::GET_ITER && top == Kind::kRange);
  text_ += name + ":\n";
  if (is_control) {
    Block block(name, exit);
    go_on(block, number, kept_slots(state), state.instruction, true);
    text_ += block.emitter.text();
    needed_ += block.emitter.needed();
    return;
  }
  int written = 0;
  std::string text;
  std::vector<Obstacle> why;
  const auto label = [&](int which) { return name + "." + std::to_string(which); };
  const std::vector<const Recording*> recordings = recordings_(state.instruction, static_cast<int32_t>(state.types.size()));
  for (const Recording* recording : recordings) {
    std::string body;
    if (!write_recording(number, *recording, label(written), label(written + 1), body, why)) continue;
    text += label(written) + ":\n" + body;
    written++;
  }
  blocks_[number].is_dead = !written;
  // Others are for other types, or rare cases that lead to the interpreter.
  if (!written) region_.obstacles.insert(region_.obstacles.end(), why.begin(), why.end());
  if (recordings.empty()) region_.obstacles.push_back({state.instruction, "nothing is recorded from here"});
  text_ += "  br label %" + label(0) + "\n" + text + label(written) + ":\n  br label %" + exit + "\n";
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
std::string lines_once(const std::string& text) {
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

std::string RegionWriter::function() const {
  std::string text = lines_once(needed_);
  text += std::string("define i32 ") + native::kFunctionName + "(ptr %slots, ptr %sources, ptr %header, i32 %number) #0 {\nbegin:\n";
  text += "  %conditions = alloca i32\n  %turns = alloca i64\n  store i64 0, ptr %turns\n";
  for (const std::string& variable : variables_) text += "  " + variable + "\n";
  // Conditions of integers are left for before they are met: nothing is gathered.
  for (int which = 0; which < native::kAllGathered; which++) text += "  %sticky" + std::to_string(which) + " = or " + native::kGathered[which] + " 0, 0\n";
  for (const char* type : native::kHidden) text += native::definition_of_hidden_zero(type);
  text +=
      "  %most.at = getelementptr i64, ptr %header, i64 1\n  %most = load i64, ptr %most.at\n"
      "  %breaker.at = getelementptr i64, ptr %header, i64 2\n  %breaker = load ptr, ptr %breaker.at\n"
      "  %reported.at = getelementptr i64, ptr %header, i64 3\n  %reported = load i32, ptr %reported.at\n";
  text += "  switch i32 %number, label %nowhere [";
  for (size_t i = 0; i < region_.entries.size(); i++) text += " i32 " + std::to_string(i) + ", label %entry" + std::to_string(i);
  text += " ]\nnowhere:\n  unreachable\n";
  const auto place = [](size_t slot, size_t word) { return std::to_string(slot * kWordsOfSlot + word); };
  for (size_t i = 0; i < region_.entries.size(); i++) {
    const std::string name = "entry" + std::to_string(i);
    text += name + ":\n";
    for (size_t slot = 0; slot < region_.entries[i].types.size(); slot++) {
      const std::vector<std::string> words = words_of(region_.entries[i].types[slot]);
      for (size_t w = 0; w < words.size(); w++) {
        const std::string at = "%" + name + "." + place(slot, w);
        text += "  " + at + ".at = getelementptr i64, ptr %slots, i64 " + place(slot, w) + "\n  " + at + " = load " + words[w] + ", ptr " + at + ".at\n";
        text += "  store " + words[w] + " " + at + ", ptr %s" + std::to_string(slot) + "." + std::to_string(w) + "." + words[w] + "\n";
      }
    }
    text += "  br label %block" + std::to_string(numbers_.at(region_.entries[i])) + "\n";
  }
  text += text_;
  for (size_t i = 0; i < region_.exits.size(); i++) {
    const std::string name = "exit" + std::to_string(i);
    text += name + ":\n";
    const std::vector<Type>& types = region_.exits[i].state.types;
    for (size_t slot = 0; slot < types.size(); slot++) {
      const std::vector<std::string> words = words_of(types[slot]);
      for (size_t w = 0; w < words.size(); w++) {
        const std::string at = "%" + name + "." + place(slot, w);
        text += "  " + at + " = load " + words[w] + ", ptr %s" + std::to_string(slot) + "." + std::to_string(w) + "." + words[w] + "\n";
        text += "  " + at + ".at = getelementptr i64, ptr %slots, i64 " + place(slot, w) + "\n";
        text += "  store " + words[w] + " " + at + ", ptr " + at + ".at\n";
      }
    }
    text += "  %" + name + ".turns = load i64, ptr %turns\n  store i64 %" + name + ".turns, ptr %header\n  ret i32 " + std::to_string(i) + "\n";
  }
  return text + R"(}
attributes #0 = { nounwind }
attributes #1 = { nounwind willreturn memory(none) }
attributes #2 = { nobuiltin }
!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{}
!3 = !{}
)";
}

Region RegionWriter::write(const State& from) {
  block_of(from);
  for (size_t i = 0; i < blocks_.size(); i++) write_block(static_cast<int>(i));
  region_.blocks = static_cast<int>(blocks_.size());
  if (!loops()) return std::move(region_);
  blocks_[0].is_entry = true;
  for (const BlockOf& block : blocks_) {
    if (block.is_entry) region_.entries.push_back(block.state);
  }
  for (const State& state : region_.entries) {
    for (size_t slot = 0; slot < state.types.size(); slot++) {
      const std::vector<std::string> words = words_of(state.types[slot]);
      for (size_t w = 0; w < words.size(); w++) variable(slot, w, words[w]);
    }
  }
  for (const Exit& exit : region_.exits) {
    for (size_t slot = 0; slot < exit.state.types.size(); slot++) {
      const std::vector<std::string> words = words_of(exit.state.types[slot]);
      for (size_t w = 0; w < words.size(); w++) variable(slot, w, words[w]);
    }
  }
  region_.ir = function();
  return std::move(region_);
}

}  // namespace

Region make_region(const bytecode::Code& code, const State& from, std::vector<Ref> objects, const Recordings& recordings, bool exact) {
  return RegionWriter(code, recordings, exact, std::move(objects)).write(from);
}

}  // namespace evalframe::regions
