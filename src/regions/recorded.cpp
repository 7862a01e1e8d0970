#include "regions/recorded.h"

#include <algorithm>

#include "core/object_text.h"
#include "regions/array_node.h"
#include "regions/elements.h"
#include "regions/expression.h"
#include "regions/iterators.h"
#include "regions/masks.h"
#include "regions/names.h"
#include "regions/numbers.h"
#include "regions/object_call.h"
#include "regions/turns.h"
#include "regions/uses.h"

namespace evalframe::regions {

using bytecode::BinaryOp, bytecode::Instruction, bytecode::Op;
using graph::Form, graph::Node, graph::Operand;
using guards::Check, guards::Reach;
using Kind = Type::Kind;

void RecordingWriter::check_recording() const {
  const auto no = [](bool holds, const char* why) {
    if (holds) throw Unsupported(why);
  };
  no(recording_.returns && !region_.within_.leads, "the function returns");
  no(recording_.returns && !recording_.names.empty(), "stores at the function's end");
  no(recording_.start.size() != 1, "the frame of an inlined call");
  no(recording_.iterator >= 0, "an iterator that isn't over a range");
  no(recording_.handles, "an exception that is handled");
  no(recording_.keeps_ended || recording_.needs_frames, "objects whose end is told, or frames that are looked at");
  no(recording_.start[0].names != 0 || recording_.start[0].globals != 0, "a dict of names");
  const Names& names = region_.region_.names;
  const auto is_attribute = [](const Names::One& one) { return one.owner != Names::kDict; };
  if (std::any_of(names.all.begin(), names.all.end(), is_attribute)) {
    if (const char* const mistake = region_.frame_.mistakes(recording_)) throw Unsupported(mistake);
  }
  for (const Names::One& one : names.all) {
    if (!is_attribute(one)) continue;
    const Type& owner = state_.types[one.owner];
    no(owner.kind != Kind::kObject || owner.object != region_.owners_.at(one.owner), "another object whose attribute is stored into");
    no(std::count(state_.types.begin(), state_.types.end(), owner) > 1, "an object in two places, whose attribute is stored into");
  }
  const std::vector<uint32_t> initial = region_.frame_.initial(recording_);
  no(initial.size() != state_.types.size(), "other slots in use");
  for (size_t i = 0; i < state_.types.size(); i++) {
    no(!region_.frame_.is_name(i) && state_.types[i].kind != Kind::kUnread && (initial[i] == 0) != (state_.types[i].kind == Kind::kUnbound), "other variables that are bound");
  }
}

int32_t RecordingWriter::at() const {
  if (checks_) return state_.instruction;
  if (nodes_.size() == recording_.graph.nodes.size()) {
    // Where it ends in the midst of calls, it is the outermost one.
    const std::vector<recorder::FrameState> frames = recording_.state_at(count());
    if (frames.size() == 1 && frames[0].identity == recording_.start[0].identity) return instruction_at(count());
    return frames[0].identity == recording_.start[0].identity ? std::max(frames[0].next - 1, 0) : state_.instruction;
  }
  // Of an inlined call it is the call.
  graph::Origin at = recording_.graph.nodes[nodes_.size()].origin;
  for (const std::vector<graph::Frame>& frames = recording_.graph.frames; frames[static_cast<size_t>(at.frame)].parent >= 0;) {
    const graph::Frame& inlined = frames[static_cast<size_t>(at.frame)];
    at = {inlined.parent, inlined.call_instruction};
  }
  return at.instruction;
}

const Instruction& RecordingWriter::own_instruction(int32_t node) const {
  static const Instruction nothing{};
  return is_inlined(node) ? nothing : region_.code_.instructions[static_cast<size_t>(instruction_at(node))];
}

Written RecordingWriter::slot_value(size_t slot) {
  const auto found = slots_.find(slot);
  if (found != slots_.end()) return found->second;
  const Type& type = state_.types[slot];
  Written value = block_.pass == Pass::kTurn ? written(type, region_.read_slot(block_.emitter, slot, type))
                                             : region_.many_->slot_value(block_.emitter, number_, slot, type, item_);
  if (block_.pass == Pass::kTurn && region_.stays_in_loop(state_.instruction, slot)) value.varies = Varies::kNot;
  value.holder = region_.holder_of_slot(slot, type);
  return slots_.emplace(slot, std::move(value)).first->second;
}

// What is asked of the identity of an array in a variable is checked where the recording begins.
bool RecordingWriter::is_checked_here(int32_t source, const guards::Fact& fact) const {
  return (fact.check == Check::kSame || fact.check == Check::kDistinct) && (is_typed(slot_of(source)) || is_typed(slot_of(fact.other)));
}

Written RecordingWriter::array_of(int32_t source) {
  const std::optional<size_t> slot = slot_of(source);
  if (slot && block_.pass != Pass::kTurn && !region_.many_->is_fixed_slot(*slot)) throw Unsupported("arrays that vary in many turns");
  Written array = read_source(source);
  if (!array.type.is_array()) throw Unsupported("the identity of numbers");
  return array;
}

void RecordingWriter::check_identity(int32_t source, const guards::Fact& fact) {
  const std::optional<size_t> a = slot_of(source), b = slot_of(fact.other);
  // Objects of unlike kinds are two.
  if (fact.check == Check::kDistinct && a && b && state_.types[*a] != state_.types[*b]) return;
  const Written one = array_of(source), other = array_of(fact.other);
  if (one.type.kind != other.type.kind) {
    // What the loop has made is none that was there before.
    if (fact.check == Check::kSame) throw Unsupported("the identity of unlike arrays");
    return;
  }
  const auto identity = [](const Written& array) { return array.words[static_cast<size_t>(identity_word(array.type))]; };
  require(compare(fact.check == Check::kSame ? "eq" : "ne", identity(one), identity(other)));
}

void RecordingWriter::check_slot(size_t slot, const guards::Fact& fact) {
  const Type& type = state_.types[slot];
  const auto no = [&] { throw Unsupported("another type: " + text_of(type)); };
  if (type.kind == Kind::kUnread) return;
  switch (fact.check) {
    case Check::kNone: return;
    case Check::kType:
      if (python_type(type) != fact.want.as<PyTypeObject>()) no();
      return;
    case Check::kArray:
      if (!type.is_array() || type.dtype != fact.meta.dtype || type.rank != fact.meta.rank || type.flags != fact.array_flags) no();
      return;
    case Check::kEqual: {
      const bool differs = block_.pass != Pass::kTurn && !region_.many_->is_fixed_slot(slot);
      // Later blocks of a turn are for where it is the same.
      if (differs && region_.many_->is_head(number_)) throw Unsupported("a number that has to be the same in many turns");
      const Written want = written_constant(block_.emitter, fact.want.get());
      if (want.type != type || !type.is_number()) no();
      require_same(slot_value(slot), want);
      // What follows may know it.
      slots_[slot].constant = fact.want.get();
      slots_[slot].number = want.number;
      if (differs) slots_[slot].varies = Varies::kNot;
      return;
    }
    case Check::kLength:
      if (type.kind != Kind::kTuple || fact.want.as<PyTypeObject>() != &PyTuple_Type || fact.length != static_cast<Py_ssize_t>(type.asked.size())) no();
      return;
    default: throw Unsupported("a guard on " + text_of(type));
  }
}

// Of numbers of one type.
void RecordingWriter::require_same(const Written& here, const Written& there) {
  const auto same = [](const Term& a, const Term& b) { return compare("eq", a.is_float() ? native::as_bits(a) : a, a.is_float() ? native::as_bits(b) : b); };
  const Term real = same(here.number.real, there.number.real);
  require(here.type.is_complex() ? real & same(here.number.imag, there.number.imag) : real);
}

std::optional<Written> RecordingWriter::part_of_tuple(int32_t index) {
  const guards::Source& source = recording_.guards.sources[static_cast<size_t>(index)];
  const std::optional<size_t> slot = source.reach == Reach::kItem && source.parent >= 0 ? slot_of(source.parent) : std::nullopt;
  if (!slot || state_.types[*slot].kind != Kind::kTuple) return std::nullopt;
  const Written tuple = slot_value(*slot);
  const auto part = static_cast<size_t>(source.index);
  if (part >= tuple.type.asked.size()) throw Unsupported("an item that a tuple doesn't have");
  return written(tuple.type.asked[part], {tuple.words[part + 1]});
}

void RecordingWriter::check_part(const Written& part, const guards::Fact& fact) {
  const auto no = [&] { throw Unsupported("another type: " + text_of(part.type)); };
  if (fact.check == Check::kNone) return;
  if (fact.check == Check::kType) {
    if (python_type(part.type) != fact.want.as<PyTypeObject>()) no();
    return;
  }
  if (fact.check != Check::kEqual) throw Unsupported("a guard on " + text_of(part.type));
  const Written want = written_constant(block_.emitter, fact.want.get());
  if (want.type != part.type) no();
  require_same(part, want);
}

// The number of the source among the region's: of what is reached from objects that the loop carries along.
int32_t RecordingWriter::merged(int32_t index) {
  if (const auto found = merged_.find(index); found != merged_.end()) return found->second;
  guards::Source source = recording_.guards.sources[static_cast<size_t>(index)].copy();
  if (source.reach == Reach::kTurn) throw Unsupported("the items of an iterator ahead");
  const auto is_here = [&](const guards::Fact& fact) { return is_checked_here(index, fact); };
  if (is_here(source.fact)) source.fact = guards::Fact();
  std::erase_if(source.more, is_here);
  if (const std::optional<size_t> slot = slot_of(index)) {
    const Type& type = state_.types[*slot];
    if (type.kind != Kind::kObject) throw Unsupported("a part of " + text_of(type));
    source.reach = Reach::kSlot;
    source.frame = 0;
    source.index = type.object;
    source.parent = -1;
    source.object = Ref();
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
  for (const guards::DictGuard& guard : recording_.guards.dicts) {
    for (const auto& [name, value] : guard.names) {
      if (region_.region_.names.find(guard.dict.get(), name.get())) throw Unsupported("a name that the loop stores into, and that has to be the same");
    }
  }
  if (!region_.region_.guards.take_surroundings(recording_.guards)) throw Unsupported("other functions or names than elsewhere in the loop");
  for (size_t i = 0; i < recording_.guards.sources.size(); i++) {
    const guards::Source& source = recording_.guards.sources[i];
    if (source.reach == Reach::kSlot && source.frame != 0) throw Unsupported("the frame of an inlined call");
    const auto index = static_cast<int32_t>(i);
    const std::optional<size_t> slot = slot_of(index);
    const std::optional<Written> part = part_of_tuple(index);
    if (!is_typed(slot) && !part) merged(index);
    const auto check = [&](const guards::Fact& fact) {
      if (part) check_part(*part, fact);
      else if (is_checked_here(index, fact)) check_identity(index, fact);
      else if (is_typed(slot)) check_slot(*slot, fact);
    };
    check(source.fact);
    for (const guards::Fact& fact : source.more) check(fact);
  }
}

std::optional<int32_t> RecordingWriter::source_of(int32_t input) {
  const int32_t index = recording_.input_sources[static_cast<size_t>(input)];
  const std::optional<size_t> slot = slot_of(index);
  return is_typed(slot) ? std::nullopt : std::optional<int32_t>(merged(index));
}

static Type type_of_meta(const graph::Meta& meta) {
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
  const std::optional<size_t> slot = slot_of(index);
  if (is_typed(slot)) return slot_value(*slot);
  if (std::optional<Written> part = part_of_tuple(index)) return std::move(*part);
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
  if (slot && type.kind == Kind::kObject) return {.type = state_.types[*slot]};
  if (type.kind == Kind::kObject || (type.kind == Kind::kNumpy && !is_computed(type.dtype))) throw Unsupported("an object that isn't in a variable");
  std::vector<Type>& sources = region_.region_.sources;
  if (sources.size() <= static_cast<size_t>(number)) sources.resize(static_cast<size_t>(number) + 1);
  if (sources[static_cast<size_t>(number)].kind != Kind::kUnbound && sources[static_cast<size_t>(number)] != type) throw Unsupported("another type than elsewhere in the loop");
  sources[static_cast<size_t>(number)] = type;
  if (type.is_complex()) throw Unsupported("a complex number that isn't in a variable");
  std::vector<Term> words;
  for (const std::string& word : words_of(type)) words.push_back({&block_.emitter, word, RegionWriter::source_word(number, words.size())});
  Written value = written(type, std::move(words));
  value.holder = region_.holder_of_source(number, type);
  value.varies = Varies::kNot;
  return value;
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
    case Form::kSetItem:
      if (block_.is_own(memory_of(in[0]))) settle(static_cast<int32_t>(nodes_.size()));
      return set_item(block_, in[0], in[1], in[2]), Written{};
    case Form::kGetAttr: return get_attribute(block_, in[0], std::string(utf8(constant(node.callable))));
    case Form::kTruth: return written_bool(truth(block_, in[0]));
    case Form::kTuple: return {.is_tuple = true, .items = std::move(in)};
    case Form::kList:
    case Form::kSlice: return {};  // what takes it reads its parts
    case Form::kCall:
      if (node.keywords) throw Unsupported("a call with keywords");
      return call(block_, constant(node.callable), in, node.meta, region_.numerics_.exact);
    case Form::kCheckMeta:
      if (!agrees(in[0].type, node.meta)) throw Unsupported("another type of result");
      return {};
    default: throw Unsupported(std::string("an operation: ") + graph::name(node.form));
  }
}

std::optional<Choice> RecordingWriter::choice_of(const Node& node) {
  if (node.form != Form::kCall || node.keywords || node.count < 2) return std::nullopt;
  PyObject* const callable = recording_.graph.constants[static_cast<size_t>(node.callable)].get();
  if (!PyCFunction_CheckExact(callable)) return std::nullopt;
  std::vector<Written> numbers;
  for (uint32_t i = 0; i < node.count; i++) numbers.push_back(operand(recording_.graph.operands_of(node)[i]));
  return choice_between(block_, callable, numbers);
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
  settle(index);
  go_on_beside(holds, std::move(*there), instruction_at(index), true);
}

// Where it doesn't hold, all that was done so far is kept, and the loop goes on at the instruction.
void RecordingWriter::go_on_beside(const Term& holds, Slots slots, int32_t instruction, bool must_run) {
  if (block_.pass == Pass::kProbe) return;
  const std::string on = block_.new_label(), off = block_.new_label();
  block_.emitter.line("br i1 " + holds.ref + ", label %" + on + ", label %" + off);
  block_.emitter.label(off);
  const Block::Saved saved = block_.save();
  finish(std::move(slots), instruction, must_run);
  block_.restore(saved);
  block_.emitter.label(on);
}

// All that was done is kept.
void RecordingWriter::finish(Slots slots, int32_t instruction, bool must_run) {
  // Memory may be taken from elsewhere then, over what the last checkpoint has.
  const bool keeps_new = std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return !slot.kept && slot.value.type.kind == Kind::kFresh; });
  if (keeps_new) block_.mark_done();
  block_.keep();
  region_.go_on(block_, number_, std::move(slots), instruction, must_run);
}

// min() or max() of two numbers of unlike types: what comes of it is of the type of one of them, and where it is the other,
// the loop goes on behind the call with that.
Written RecordingWriter::write_choice(int32_t index, const Choice& choice, const Node& node) {
  const bool first = agrees(choice.first.type, node.meta);
  if (!first && !agrees(choice.second.type, node.meta)) throw Unsupported("min() or max() with another result");
  const Written& here = first ? choice.first : choice.second;
  const Term holds = first ? choice.is_first : !choice.is_first;
  if (is_inlined(index)) return block_.leave_unless(holds), here;  // of the other another recording is
  Slots there = state_at(index);
  const Instruction& call = own_instruction(index);
  const auto taken = static_cast<size_t>(call.arg) + 2;
  if (call.op != Op::CALL || there.size() < taken) throw Unsupported("min() or max() of unlike numbers");
  there.resize(there.size() - taken);
  push(there, first ? choice.second : choice.first);
  settle(index);
  go_on_beside(holds, std::move(there), instruction_at(index) + 1, false);
  return here;
}

void RecordingWriter::find_reads() {
  const auto is_array = [&](Operand from) { return meanings_.meta(from).kind == graph::Kind::kArray; };
  for (int32_t i = 0; i < count(); i++) {
    const Node& node = recording_.graph.nodes[static_cast<size_t>(i)];
    const Operand* const operands = recording_.graph.operands_of(node);
    switch (node.form) {
      case Form::kBinary:
      case Form::kUnary:
      case Form::kCompare:
      case Form::kCall:
        if (std::any_of(operands, operands + node.count, is_array)) last_array_read_ = i;
        break;
      case Form::kSetItem:
        if (is_array(operands[2]) && !(meanings_.of(i).sense == native::Sense::kStore && stores_itself(recording_.graph, node))) last_array_read_ = i;
        break;
      case Form::kGetItem:
        if (node.meta.kind != graph::Kind::kArray && is_array(operands[0])) last_element_read_ = i;
        break;
      default: break;
    }
  }
}

ArrayNodes RecordingWriter::array_nodes(int32_t index) {
  return {block_, recording_.graph, meanings_, region_.numerics_.exact, [this](Operand from) { return operand(from); }, [this, index] { if (!block_.stores.empty()) commit(index); },
          [this, index] { settle(index + 1); },
          [this](const Expression* from, const Written& to) {
            for (Written& node : nodes_) {
              if (node.expression.get() == from) node = to;
            }
          }};
}

// The node, and what is sure, or likely, to be found behind it: all draws, or what is done at its place in other turns of a loop that is unrolled. For each one
// that is found alone the block is written anew.
std::set<int32_t> RecordingWriter::calls_like(int32_t index) const {
  const graph::Graph& graph = recording_.graph;
  const auto place_of = [&](const Node& node) { return std::pair(graph.frames[static_cast<size_t>(node.origin.frame)].code, node.origin.instruction); };
  const Node& first = graph.nodes[static_cast<size_t>(index)];
  const auto is_like_it = [&](const Node& node) { return is_draw(graph, first) ? is_draw(graph, node) : node.form == first.form && place_of(node) == place_of(first); };
  std::set<int32_t> all{index};
  for (int32_t i = index + 1; i < count(); i++) {
    if (is_like_it(graph.nodes[static_cast<size_t>(i)]) && may_be_object_call(graph, meanings_, i)) all.insert(i);
  }
  return all;
}

Written RecordingWriter::result_of(int32_t index, const Node& node) {
  try {
    if (const std::optional<Choice> choice = choice_of(node)) return write_choice(index, *choice, node);
    if (std::optional<Written> made = array_node(array_nodes(index), index)) return std::move(*made);
    const bool reads_element = node.form == Form::kGetItem && operand(recording_.graph.operands_of(node)[0]).type.is_array();
    if (reads_element && block_.stores_arrays()) commit(index);
    return node_value(node);
  } catch (const Unsupported&) {
    if (may_be_object_call(recording_.graph, meanings_, index)) throw AsObjectCall{calls_like(index)};
    throw;
  }
}

// What follows begins behind it, so that it is never done twice: all that may lead back in front of it comes before.
Written RecordingWriter::write_draw(int32_t index) {
  const Instruction& call = own_instruction(index);
  if (!block_.stores.empty()) commit(index);
  settle(index);
  const size_t taken = static_cast<size_t>(call.arg) + 2;
  if (call.op != Op::CALL || state_at(index).size() < taken) throw Unsupported("a number drawn in the midst of something else");
  Slots there = state_at(index, taken);
  const Written drawn = object_call(array_nodes(index), index);
  block_.mark_done();
  push(there, drawn);
  leave_behind(instruction_at(index) + 1, there);
  return drawn;
}

// Of an array that the block has made: as Strided has it.
std::string RecordingWriter::memory_of(const Written& array) {
  if (!array.type.is_array()) return {};
  const Written there = computed(block_, array);
  return there.type.kind == Kind::kFresh ? there.words[0].ref : there.memory;
}

// What is to be stored is stored, and what was put off may read what this changes.
Written RecordingWriter::write_object_call(int32_t index) {
  const Node& node = recording_.graph.nodes[static_cast<size_t>(index)];
  if (is_draw(recording_.graph, node)) return write_draw(index);
  if (!block_.stores.empty()) commit(index);
  if (node.form != Form::kSetItem) return object_call(array_nodes(index), index);
  const Operand* const operands = recording_.graph.operands_of(node);
  leave_to_store(block_, operand(operands[1]), operand(operands[2]));
  settle(index + 1);
  const bool is_own = block_.is_own(memory_of(operand(operands[0])));
  if (!store_by_arrays(array_nodes(index), index)) object_call(array_nodes(index), index);
  if (is_own) return {};
  block_.mark_done();
  commit_done(index);
  return {};
}

void RecordingWriter::write_node(int32_t index) {
  const Node& node = recording_.graph.nodes[static_cast<size_t>(index)];
  const bool is_call = calls_.count(index) > 0;
  Written result;
  if (node.form == Form::kCheck) {
    write_check(index, node);
  } else {
    result = is_call ? write_object_call(index) : result_of(index, node);
  }
  // What several take is computed once.
  // What is rolled is read where it was, by as many as there are.
  if (result.expression && !result.expression->is_rolled() && takers_[static_cast<size_t>(index)] > 1) computed(block_, result);
  nodes_.push_back(std::move(result));
  if (!block_.stores.empty() && (reads_arrays_from(index + 1) || grows_lists_behind())) commit_behind(index);
}

// What lists get between the last node and this one. It isn't done twice: what follows begins behind it.
void RecordingWriter::append(int32_t node) {
  const std::vector<recorder::PendingStore> all = appended_at(recording_, node);
  if (all.size() == appended_) return;
  if (block_.pass != Pass::kTurn) throw Unsupported("a list that grows in many turns");
  if (!block_.stores.empty()) throw Unsupported("a list that grows in the midst of a store");
  settle(node);
  const Slots there = state_at(node);
  Routine routine{.kind = Routine::Kind::kAppend};
  for (size_t i = appended_; i < all.size(); i++) {
    const recorder::Value& owner = recording_.values[recording_.names[static_cast<size_t>(all[i].name)].owner];
    const std::optional<size_t> slot = owner.kind == recorder::Value::Kind::kSource ? slot_of(owner.a) : std::nullopt;
    if (!slot || state_.types[*slot].kind != Kind::kObject) throw Unsupported("a list that grows and isn't in a variable");
    const Written number = value(all[i].value);
    if (!number.type.is_number()) throw Unsupported("a list that gets something else than numbers");
    const auto place = static_cast<int>(routine.numbers.size());
    if (place >= static_cast<int>(kMostOperands)) throw Unsupported("lists that get so many numbers");
    std::vector<Term> words = words_of(number);
    words.insert(words.begin(), region_.address_of(block_, state_.types[*slot].object));
    for (size_t w = 0; w < words.size(); w++) {
      const Term at = block_.emitter.let("ptr", "getelementptr i64, ptr " + block_.number_at(place).ref + ", i64 " + std::to_string(w));
      block_.emitter.line("store " + words[w].type + " " + words[w].ref + ", ptr " + at.ref);
    }
    routine.numbers.push_back(number.type);
  }
  block_.look_at_conditions();
  const Term none = block_.emitter.integer("i64", 0), one = block_.emitter.integer("i64", 1);
  block_.call(routine, {{block_.number_at(0), none, none}}, one, one, false);
  appended_ = all.size();
  block_.mark_done();
  leave_behind(instruction_at(node), there);
}

// Items and lengths of lists are read once, at the entry, and so aren't those of lists that grow.
void RecordingWriter::check_lists() {
  const auto is_of_list = [&](const guards::Fact& fact) { return fact.check == Check::kLength && fact.want.as<PyTypeObject>() != &PyTuple_Type; };
  const auto reads = [&](const guards::Source& source) {
    const bool is_item = source.reach == Reach::kItem && !source.object && source.parent >= 0 && !is_of_tuple(source.parent);
    return is_item || is_of_list(source.fact) || std::any_of(source.more.begin(), source.more.end(), is_of_list);
  };
  const std::vector<guards::Source>& sources = recording_.guards.sources;
  region_.reads_lists_ |= std::any_of(sources.begin(), sources.end(), reads);
  appended_in_all_ = appended_at(recording_, count()).size();
  region_.grows_lists_ |= appended_in_all_ > 0;
  if (region_.reads_lists_ && region_.grows_lists_) throw Unsupported("a list that grows, and of which something is read");
}

bool RecordingWriter::is_of_tuple(int32_t index) const {
  const guards::Source& source = recording_.guards.sources[static_cast<size_t>(index)];
  const auto is_tuple = [](const guards::Fact& fact) { return (fact.check == Check::kLength || fact.check == Check::kType) && fact.want.as<PyTypeObject>() == &PyTuple_Type; };
  return is_tuple(source.fact) || std::any_of(source.more.begin(), source.more.end(), is_tuple);
}

void RecordingWriter::find_uses() {
  const size_t count = recording_.graph.nodes.size();
  last_needed_.assign(count, -1);
  takers_.assign(count, 0);
  for (size_t i = 0; i < count; i++) {
    const Node& node = recording_.graph.nodes[i];
    if (node.form == Form::kCheckMeta) continue;  // looks at the type alone
    std::set<int32_t> taken;
    for (uint32_t k = 0; k < node.count; k++) {
      const Operand from = recording_.graph.operands_of(node)[k];
      if (from.space == Operand::Space::kNode) taken.insert(from.index);
    }
    for (const int32_t index : taken) last_needed_[static_cast<size_t>(index)] = static_cast<int32_t>(i), takers_[static_cast<size_t>(index)]++;
  }
  const auto need = [&](uint32_t value, size_t at) {
    const recorder::Value& there = recording_.values[value];
    if (there.kind == recorder::Value::Kind::kNode) last_needed_[static_cast<size_t>(there.a)] = std::max(last_needed_[static_cast<size_t>(there.a)], static_cast<int32_t>(at));
  };
  for (size_t i = 0; i <= count; i++) {
    for (const recorder::FrameState& state : recording_.state_at(static_cast<int32_t>(i))) {
      for (const uint32_t slot : state.slots) need(slot, i);
    }
    for (const recorder::PendingStore& store : recording_.stores_at(static_cast<int32_t>(i))) need(store.value, i);
  }
  find_reads();
}

// Computes what was put off: NumPy has computed it before the node, and its operands may change behind it.
void RecordingWriter::settle(int32_t next, bool keeps) {
  if (!keeps) block_.compute_stores();
  for (size_t i = nodes_.size(); i-- > 0;) {
    const auto& expression = nodes_[i].expression;
    if (expression && !expression->made && (!expression->is_computed || last_needed_[i] >= next)) computed(block_, nodes_[i]);
  }
}

// The same behind an instruction that stores: there no part of the next statement is on the stack yet.
void RecordingWriter::commit_behind(int32_t index) {
  const Op op = own_instruction(index).op;
  const bool stores = op == Op::STORE_SUBSCR;
  if (!stores && op != Op::BINARY_OP) return;
  settle(index + 1, true);
  Slots there;
  try {
    there = state_at(index, stores ? 3 : 2);
    if (!stores) push(there, landed(nodes_.back()));
  } catch (const Unsupported&) {
    return;  // such as an index on the stack: it is stored before the first node that reads
  }
  commit(instruction_at(index) + 1, there);
}

// The same behind one that was stored by NumPy.
void RecordingWriter::commit_done(int32_t index) {
  if (own_instruction(index).op != Op::STORE_SUBSCR) throw Unsupported("a store in the midst of a call");
  settle(index + 1);
  commit(instruction_at(index) + 1, state_at(index, 3));
}

void RecordingWriter::commit(int32_t next) {
  settle(next, true);
  commit(instruction_at(next), state_at(next));
}

// Stores what is to be stored before the node: what can't be done from there on leaves the loop there.
void RecordingWriter::commit(int32_t instruction, const Slots& there) {
  if (block_.pass != Pass::kTurn) throw Unsupported("stores in the midst of many turns");
  block_.keep();
  leave_behind(instruction, there);
}

// From here on it leaves at the instruction.
void RecordingWriter::leave_behind(int32_t instruction, const Slots& there) {
  const std::string on = block_.new_label(), off = block_.new_label();
  block_.emitter.line("br label %" + on);
  block_.emitter.label(off);
  region_.land(block_, number_, there, instruction, false);
  block_.emitter.label(on);
  block_.leave_for(off);
}

// What a node has made, for a slot to have.
Written RecordingWriter::landed(const Written& node) {
  if (node.is_tuple || node.names_type || node.type.kind == Kind::kUnbound) throw Unsupported("an object in a variable");
  if (node.is_of_fresh) throw Unsupported("part of a new array in a variable");
  require_c_order(block_, node);
  return computed(block_, node);
}

Written RecordingWriter::value(uint32_t index) {
  const recorder::Value& of = recording_.values[index];
  switch (of.kind) {
    case recorder::Value::Kind::kNull: return {};
    case recorder::Value::Kind::kSource: return read_source(of.a);
    case recorder::Value::Kind::kNode: return landed(nodes_[static_cast<size_t>(of.a)]);
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
      return advanced(region_.iterator_over(block_, is_range ? known_range(block_.emitter, known) : value(static_cast<uint32_t>(of.a))), of.b);
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
  for (Written& argument : arguments) {
    if (argument.type.is_iterator()) throw Unsupported("an iterator that others may have");
    argument = region_.iterator_over(block_, argument);
  }
  if (type == reinterpret_cast<PyObject*>(&PyZip_Type)) return zip_of(block_, arguments);
  if (arguments.size() != 1) throw Unsupported("enumerate() from a number on");
  return enumerate_of(block_, arguments[0]);
}

// An object that a variable loses may end there, which someone may be told of: the frame holds it until the loop is left.
void RecordingWriter::check_lost(const Slots& slots) {
  const auto has = [&](const Slot& slot, size_t variable) {
    const Type& type = state_.types[variable];
    if (slot.value.type != type) return false;
    if (type.kind == Kind::kObject || slot.kept) return type.kind == Kind::kObject;
    return !slot.kept && slot.value.words[0].ref == slot_value(variable).words[0].ref;
  };
  for (size_t i = 0; i < std::min(region_.frame_.count(), state_.types.size()); i++) {
    const Type& type = state_.types[i];
    const bool is_outside = type.kind == Kind::kObject && !region_.region_.objects[static_cast<size_t>(type.object)];
    if (!is_outside && type.kind != Kind::kArray) continue;
    if (i < slots.size() && slots[i].kept) continue;
    if (std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) { return has(slot, i); })) continue;
    if (is_outside) throw Unsupported("a variable that loses " + text_of(type));
    region_.region_.loses_arrays = true;
  }
}

Slots RecordingWriter::state_at(int32_t node, size_t without) {
  const std::vector<recorder::FrameState> states = recording_.state_at(node);
  if (states.size() != 1 || states[0].identity != recording_.start[0].identity) throw Unsupported("the frame of an inlined call");
  if (states[0].names || states[0].globals) throw Unsupported("a dict of names");
  const std::vector<uint32_t> initial = region_.frame_.initial(recording_), values = region_.frame_.values_at(recording_, node);
  Slots slots;
  for (size_t i = 0; i + without < values.size(); i++) {
    const bool kept = i < initial.size() && initial[i] == values[i];
    slots.push_back(kept ? Slot{true, {.type = state_.types[i]}} : Slot{false, value(values[i])});
    if (i < region_.frame_.count() && slots.back().value.type.is_iterator()) throw Unsupported("an iterator in a variable");
    if (i < region_.frame_.count() && slots.back().value.type.kind == Kind::kTuple) throw Unsupported("a tuple in a variable");
    // Names stand in their dict in the order in which they were bound.
    if (!kept && region_.frame_.is_name(i) && state_.types[i].kind == Kind::kUnbound) throw Unsupported("a name that isn't bound yet");
  }
  check_lost(slots);
  return slots;
}

// Where a conditional jump of a while loop goes back to, by itself (3.11) or by the jump behind it (3.12, 3.13); -1: nowhere.
static int32_t back_of(const std::vector<Instruction>& code, int32_t at) {
  const Instruction& branch = code[static_cast<size_t>(at)];
  if (branch.op != Op::POP_JUMP_IF_TRUE && branch.op != Op::POP_JUMP_IF_FALSE) return -1;
  if (branch.target <= at) return branch.target;
  const Instruction& behind = code[static_cast<size_t>(at) + 1];
  return behind.op == Op::JUMP_BACKWARD && behind.target <= at ? behind.target : -1;
}

// Recordings have many turns of a while loop, one behind the other. Where other recordings begin with a turn, one turn is the block.
bool RecordingWriter::end_turn(int32_t index) {
  const int32_t head = is_inlined(index) ? -1 : back_of(region_.code_.instructions, instruction_at(index));
  if (head < 0 || recording_.graph.nodes[static_cast<size_t>(index)].form != Form::kCheck) return false;
  Slots there;
  try {
    there = state_at(index);
  } catch (const Unsupported&) {
    return false;
  }
  if (region_.recordings_(head, static_cast<int32_t>(region_.frame_.depth_of(there.size())) - 1).empty()) return false;
  settle(index, true);
  finish(std::move(there), instruction_at(index), true);
  return true;
}

// Of what nodes have watched, what isn't computed anyway for a sum, a difference, a product or a quotient that is watched, too.
std::vector<Term> RecordingWriter::needed_for(const std::map<int32_t, std::vector<Term>>& watched) const {
  std::set<int32_t> taken;
  for (const auto& [index, results] : watched) {
    const Node& node = recording_.graph.nodes[static_cast<size_t>(index)];
    if (node.form != Form::kBinary) continue;
    const BinaryOp op = bytecode::binary_op(node.code);
    if (op != BinaryOp::kAdd && op != BinaryOp::kSubtract && op != BinaryOp::kMultiply && op != BinaryOp::kTrueDivide) continue;
    const Operand* const operands = recording_.graph.operands_of(node);
    for (const Operand* operand = operands; operand < operands + node.count; operand++) {
      if (operand->space == Operand::Space::kNode) taken.insert(operand->index);
    }
  }
  std::vector<Term> needed;
  for (const auto& [index, results] : watched) {
    if (!taken.count(index)) needed.insert(needed.end(), results.begin(), results.end());
  }
  return needed;
}

void RecordingWriter::write_turn(const Term* item, bool is_head, const std::string& otherwise) {
  item_ = item;
  check_recording();
  check_guards();
  for (const Term& condition : conditions_) {
    if (block_.pass == Pass::kProbe && is_head) block_.require(condition);
    if (block_.pass != Pass::kMany || is_head) continue;
    const std::string holds = block_.new_label();
    block_.emitter.line("br i1 " + condition.ref + ", label %" + holds + ", label %" + otherwise);
    block_.emitter.label(holds);
  }
  find_uses();
  if (!appended_at(recording_, count()).empty()) throw Unsupported("a list that grows in many turns");
  checks_ = false;
  std::map<int32_t, std::vector<Term>> watched;
  std::map<int32_t, Varies> stores;
  for (int32_t i = 0; i < count(); i++) {
    const size_t loads = block_.even_loads();
    write_node(i);
    even_loads_.insert(even_loads_.end(), block_.even_loads() - loads, i);
    if (std::vector<Term> results = block_.take_watched(); !results.empty()) watched[i] = std::move(results);
    if (!block_.stores.empty() && recording_.graph.nodes[static_cast<size_t>(i)].form == Form::kSetItem) stores[i] = block_.stores.back().varies;
  }
  // Conditions are looked at in the end: whatever meets one has to be computed, which LLVM does where something comes of it.
  if (watches_) return watches_(needed_for(watched));
  const Uses uses(recording_, region_.frame_, stores, [this](size_t slot) { return region_.many_->carries(slot); });
  for (const auto& [index, results] : watched) {
    if (!uses.is_needed_in_each_turn(index)) throw Unsupported("a result that nothing takes");
  }
}

void RecordingWriter::write(const std::string& otherwise) {
  check_recording();
  check_lists();
  check_guards();
  for (const Term& condition : conditions_) {
    const std::string holds = block_.new_label();
    block_.emitter.line("br i1 " + condition.ref + ", label %" + holds + ", label %" + otherwise);
    block_.emitter.label(holds);
  }
  find_uses();
  block_.begin_memory();
  checks_ = false;
  for (int32_t i = 0; i < count(); i++) {
    append(i);
    if (end_turn(i)) return;
    write_node(i);
  }
  append(count());
  settle(count(), true);
  if (recording_.returns) return return_results();
  finish(state_at(count()), instruction_at(count()), true);
}

void RecordingWriter::return_results() {
  const recorder::Value& result = recording_.values[recording_.result];
  const bool is_tuple = result.kind == recorder::Value::Kind::kTuple;
  std::vector<Written> results;
  if (is_tuple) {
    for (const uint32_t item : recording_.containers[static_cast<size_t>(result.a)].elements) results.push_back(value(item));
  } else {
    results.push_back(value(recording_.result));
  }
  block_.keep();
  region_.return_results(block_, results, is_tuple);
}

}  // namespace evalframe::regions
