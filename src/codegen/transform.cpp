#include "codegen/transform.h"

#include <algorithm>
#include <span>

#include "bytecode/stack.h"
#include "codegen/builder.h"
#include "codegen/limits.h"
#include "core/check.h"
#include "cpython/layout.h"
#include "cpython/variables.h"

namespace evalframe::codegen {

using bytecode::Code;
using bytecode::ExceptionRegion;
using bytecode::Flow;
using bytecode::Instruction;
using bytecode::Op;
using recorder::FrameState;
using recorder::Recording;
using recorder::Value;
namespace layout = cpython::layout;

namespace {

bool is_cell(const Code& code, int slot) {
  return cpython::variable_kind(code.code, slot) & (cpython::kCellVariable | cpython::kFreeVariable);
}

bool has_own_cells(const Code& code) { return code.code.as<PyCodeObject>()->co_ncellvars > 0; }

Ref function_type() { return Ref::borrow(reinterpret_cast<PyObject*>(&PyFunction_Type)); }

// FunctionType(code, globals, name, None, closure)
Ref make_function(const ResumeFunction& resume) {
  const auto* function = reinterpret_cast<PyFunctionObject*>(resume.function.get());
  PyObject* closure = function->func_closure ? function->func_closure : Py_None;
  return Ref::steal(PyObject_CallFunction(function_type().get(), "OOsOO", resume.resume.code.get(), function->func_globals,
                                          resume.name.c_str(), Py_None, closure));
}

std::vector<bool> bound_slots(const Code& code, const std::vector<uint32_t>& slots) {
  std::vector<bool> bound;
  for (int i = 0; i < cpython::variable_count(code.code); i++) bound.push_back(slots[i] != 0 || is_cell(code, i));
  return bound;
}

std::vector<bool> stack_entries(const Code& code, const std::vector<uint32_t>& slots) {
  std::vector<bool> stack;
  for (size_t i = cpython::variable_count(code.code); i < slots.size(); i++) stack.push_back(slots[i] != 0);
  return stack;
}

// An exception is set.
struct PythonRaised {};

// An entry of the operand stack where code is made: whether the frame at that place has an object in it, and whether it
// is really on the stack (an empty place behind the breaking instruction is only added by the resume function).
struct Entry {
  bool object, pushed;
};

// Where an object stands while code runs.
struct Home {
  int32_t slot = -1;
  int32_t uses = 0;  // still to come; a variable of ours is emptied by the last
};

class Transform {
 public:
  Transform(const Recording& recording, const Callables& callables, ResumeFunctions& resumes)
      : recording_(recording), callables_(callables), resumes_(resumes), end_(static_cast<int32_t>(recording.graph.nodes.size())) {}

  Transformed make() {
    choose_base();
    if (!base_) return std::move(result_);
    Builder builder(std::move(base_));
    b_ = &builder;
    exit_ = recording_.exit_at(end_);
    if (!recording_.returns) states_ = recording_.state_at(end_);
    write();
    result_.code = builder.finish();
    return std::move(result_);
  }

 private:
  const Code& code() const { return *recording_.start[0].code; }
  int32_t locals() const { return cpython::variable_count(code().code); }

  // The code object whose frames run the transformed code: the function's own, or the resume function's of the place.
  void choose_base() {
    if (!(code().code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED)) throw limit(CodegenLimit::kNamespace);
    if (recording_.iterator >= 0) throw limit(CodegenLimit::kTurns);
    if (recording_.start.size() != 1) throw limit(CodegenLimit::kInsideCall);
    for (const Value& of : recording_.values) {
      if (of.kind == Value::Kind::kCell || of.kind == Value::Kind::kFunction) throw limit(CodegenLimit::kCell);
      if (of.kind == Value::Kind::kMade) throw limit(CodegenLimit::kMade);
    }
    const recorder::FrameStart& start = recording_.start[0];
    const std::vector<uint32_t>& initial = recording_.initial[0];
    at_start_ = start.next == 0;
    if (at_start_) {
      base_ = Ref::borrow(start.code->code);
      for (int32_t i = 0; i < locals(); i++) slot_of_.push_back(i), given_.push_back(initial[i] != 0);
      return;
    }
    if (start.next < first_place(code())) throw limit(CodegenLimit::kPrefix);
    const ResumeFunction* resume = resumes_.at(start.function.get(), {start.code, start.next, bound_slots(code(), initial), stack_entries(code(), initial)});
    if (!resume) return;
    resumed_ = &resume->resume;
    base_ = Ref::borrow(resume->resume.code.get());
    slot_of_ = resume->resume.slot_of;
    given_.assign(slot_of_.size(), false);
    for (const int32_t slot : resume->resume.parameters) given_[slot] = true;
    for (const int32_t slot : resume->resume.cells) given_[slot] = true;
  }

  void write() {
    const int32_t first = recording_.start[0].next;
    b_->set_position(code().positions[at_start_ ? std::max(first_place(code()) - 1, 0) : first]);
    write_start();
    count_uses();
    load_sources();
    const bool calls = end_ > 0;
    const int32_t from = b_->next();
    if (calls) call_graph();
    const int32_t to = calls ? call_end_ : from;
    make_shared_containers();
    store_names();
    if (recording_.returns) {
      load(recording_.result);
      b_->emit(Op::RETURN_VALUE);
    } else if (states_.size() > 1) {
      break_in_callee();
    } else {
      break_here();
    }
    write_handlers();
    if (calls) write_leave(from, to);
  }

  void write_start() {
    if (resumed_) return codegen::write_start(*b_, *resumed_);
    const int32_t free = code().code.as<PyCodeObject>()->co_nfreevars;
    if (free) b_->emit(Op::COPY_FREE_VARS, free);
    b_->emit(Op::RESUME);
  }

  // --- values ----------------------------------------------------------------------------------------------------------

  const Value& value(uint32_t index) const { return recording_.values[index]; }

  // At the recording's end.
  std::span<const uint32_t> elements(const Value& of) const {
    const recorder::Container& container = recording_.containers[of.a];
    return {container.elements.data() + container.present.begin, container.present.length};
  }

  void use(uint32_t index) {
    homes_.resize(recording_.values.size());
    if (homes_[index].uses++ > 0) return;
    const Value& of = value(index);
    switch (of.kind) {
      case Value::Kind::kTuple:
      case Value::Kind::kList:
      case Value::Kind::kSlice:
      case Value::Kind::kDict:
        for (const uint32_t element : elements(of)) use(element);
        return;
      case Value::Kind::kTruth:
      case Value::Kind::kIterator: return use(static_cast<uint32_t>(of.a));
      case Value::Kind::kMade:
      case Value::Kind::kCell:
      case Value::Kind::kFunction:  // refused
      case Value::Kind::kNull:
      case Value::Kind::kSource:
      case Value::Kind::kNode:
      case Value::Kind::kConstant: return;
    }
  }

  bool is_changed(int32_t slot) const { return states_[0].slots[slot] != recording_.initial[0][slot]; }

  // A variable keeps what it has unless the recorded part gave it something else.
  void count_uses() {
    homes_.resize(recording_.values.size());
    for (const recorder::PendingStore& store : recording_.stores_at(end_)) use(store.value);
    if (recording_.returns) return use(recording_.result);
    for (size_t k = 0; k < states_.size(); k++) {
      const Code& of = *states_[k].code;
      for (size_t i = 0; i < states_[k].slots.size(); i++) {
        const bool is_variable = static_cast<int>(i) < cpython::variable_count(of.code);
        if (is_variable && is_cell(of, static_cast<int>(i))) continue;
        if (k == 0 && is_variable && !is_changed(static_cast<int32_t>(i))) continue;
        if (states_[k].slots[i]) use(states_[k].slots[i]);
      }
    }
  }

  // Whether the source is read by one instruction that nothing can change.
  static bool is_simple(const guards::Source& source) {
    return source.reach == guards::Reach::kSlot || source.reach == guards::Reach::kObject || source.reach == guards::Reach::kMethod;
  }

  // What the state at the end needs from outside is read before the graph runs, as it was when recorded.
  void load_sources() {
    for (size_t i = 0; i < recording_.values.size(); i++) {
      if (value(i).kind != Value::Kind::kSource || !homes_[i].uses || is_simple(recording_.guards.sources[value(i).a])) continue;
      homes_[i].slot = b_->variable("__source_" + std::to_string(value(i).a));
      read_source(value(i).a);
      b_->store(homes_[i].slot);
    }
  }

  void load_slot(int32_t slot) {
    const bool is_variable = slot < locals();
    if (is_variable && is_cell(code(), slot) && !at_start_) return b_->load_cell(slot_of_[slot]);
    b_->load(slot_of_[slot]);
  }

  void read_source(int32_t index) {
    const guards::Source& source = recording_.guards.sources[index];
    switch (source.reach) {
      case guards::Reach::kSlot: return load_slot(source.index);
      case guards::Reach::kAttribute:
        read_source(source.parent);
        b_->emit(Op::LOAD_ATTR, b_->name(Borrowed(source.object.get())));
        return;
      case guards::Reach::kMethod: return b_->load_constant(identity_of(source));
      case guards::Reach::kItem: {
        read_source(source.parent);
        const Ref number = source.object ? Ref() : Ref::steal(PyLong_FromLong(source.index));
        b_->load_constant(source.object ? source.object.get() : number.get());
        b_->emit(Op::BINARY_SUBSCR);
        return;
      }
      case guards::Reach::kCell: return read_cell(source.object.get());
      case guards::Reach::kTurn: CHECK(false);  // refused
      case guards::Reach::kObject: return b_->load_constant(source.object.get());
    }
  }

  // A method is always guarded to be the same function.
  static Borrowed identity_of(const guards::Source& source) {
    if (source.fact.check == guards::Check::kIdentity) return source.fact.want.get();
    for (const guards::Fact& fact : source.more) {
      if (fact.check == guards::Check::kIdentity) return fact.want.get();
    }
    CHECK(false);
    return {};
  }

  // The variable of the frame that has the cell, or else the contents of the cell itself.
  void read_cell(PyObject* cell) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(recording_.start[0].function.get());
    const Py_ssize_t count = function->func_closure ? PyTuple_GET_SIZE(function->func_closure) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
      if (PyTuple_GET_ITEM(function->func_closure, i) != cell) continue;
      b_->emit(Op::LOAD_DEREF, slot_of_[locals() - count + i]);
      return;
    }
    b_->load_constant(cell);
    b_->emit(Op::LOAD_ATTR, b_->name("cell_contents"));
  }

  void load(uint32_t index) {
    if (!index) {
      b_->emit(Op::PUSH_NULL);
      return;
    }
    Home& home = homes_[index];
    if (home.slot < 0) return load_fresh(value(index));
    const bool last = --home.uses == 0 && is_own(home.slot);
    if (last && b_->take_back_store(home.slot)) return;
    b_->load(home.slot);
    if (last) b_->emit(Op::DELETE_FAST, home.slot);
  }

  // Not a variable of the original.
  bool is_own(int32_t slot) const { return std::find(slot_of_.begin(), slot_of_.end(), slot) == slot_of_.end(); }

  void load_fresh(const Value& of) {
    switch (of.kind) {
      case Value::Kind::kSource: return read_source(of.a);
      case Value::Kind::kConstant: return b_->load_constant(recording_.graph.constants[of.a].get());
      case Value::Kind::kTuple: return build(of, Op::BUILD_TUPLE);
      case Value::Kind::kList: return build(of, Op::BUILD_LIST);
      case Value::Kind::kSlice: return build(of, Op::BUILD_SLICE);
      case Value::Kind::kDict: return build(of, Op::BUILD_MAP, 2);
      case Value::Kind::kIterator: return build_iterator(of);
      case Value::Kind::kTruth: return build_truth(of);
      case Value::Kind::kMade:
      case Value::Kind::kCell:
      case Value::Kind::kFunction:  // refused
      case Value::Kind::kNull:
      case Value::Kind::kNode: return;  // an output has its home
    }
  }

  void build(const Value& of, Op op, int32_t at_a_time = 1) {
    const std::span<const uint32_t> parts = elements(of);
    for (const uint32_t part : parts) load(part);
    b_->emit(op, static_cast<int32_t>(parts.size()) / at_a_time);
  }

  void build_truth(const Value& of) {
    load(static_cast<uint32_t>(of.a));
    if (layout::kJumpNeedsBool) {
      b_->emit(Op::TO_BOOL);
      return;
    }
    b_->emit(Op::UNARY_NOT);
    b_->emit(Op::UNARY_NOT);
  }

  void build_iterator(const Value& of) {
    load(static_cast<uint32_t>(of.a));
    b_->emit(Op::GET_ITER);
    if (of.b == 0) return;
    b_->emit(Op::COPY, 1);
    b_->emit(Op::LOAD_ATTR, b_->name("__setstate__"));
    b_->emit(Op::PUSH_NULL);
    if (!layout::kSelfAfterCallable) b_->emit(Op::SWAP, 2);
    const Ref position = Ref::steal(PyLong_FromLong(of.b));
    b_->load_constant(position.get());
    b_->call(1);
    b_->emit(Op::POP_TOP);
  }

  // A container that stands in several places is made once.
  void make_shared_containers() {
    for (size_t i = 0; i < homes_.size(); i++) {
      if (value(i).kind < Value::Kind::kTuple || homes_[i].uses < 2) continue;
      share(static_cast<uint32_t>(i));
    }
  }

  void share(uint32_t index) {
    if (homes_[index].slot >= 0 || value(index).kind < Value::Kind::kTuple) return;
    if (value(index).kind == Value::Kind::kIterator) {
      share_if_used_often(static_cast<uint32_t>(value(index).a));
    } else {
      for (const uint32_t element : elements(value(index))) share_if_used_often(element);
    }
    load_fresh(value(index));
    homes_[index].slot = b_->variable("__made_" + std::to_string(made_++));
    b_->store(homes_[index].slot);
  }
  void share_if_used_often(uint32_t index) {
    if (homes_[index].uses > 1) share(index);
  }

  // Stores into names of modules, which the recording put off.
  void store_names() {
    PyObject* globals = reinterpret_cast<PyFunctionObject*>(recording_.start[0].function.get())->func_globals;
    for (const recorder::PendingStore& store : recording_.stores_at(end_)) {
      const recorder::Name& name = recording_.names[store.name];
      load(store.value);
      if (name.dict.get() == globals) {
        b_->emit(Op::STORE_GLOBAL, b_->name(Borrowed(name.name.get())));
        continue;
      }
      b_->load_constant(name.dict.get());
      b_->load_constant(name.name.get());
      b_->emit(Op::STORE_SUBSCR);
    }
  }

  // --- the graph -------------------------------------------------------------------------------------------------------

  void call_graph() {
    b_->begin_call();
    b_->load_constant(callables_.compiled.get());
    b_->end_callable();
    for (const int32_t source : recording_.input_sources) read_source(source);
    b_->call(static_cast<int32_t>(recording_.input_sources.size()));
    call_end_ = b_->next();
    if (exit_.values.empty()) {
      b_->emit(Op::POP_TOP);
      return;
    }
    b_->emit(Op::UNPACK_SEQUENCE, static_cast<int32_t>(exit_.values.size()));
    for (const graph::Operand operand : exit_.values) b_->store(home_of_output(operand));
  }

  // An output goes straight into the variable that it is for, where nothing else needs what the variable had.
  int32_t home_of_output(graph::Operand operand) {
    int32_t home = -1;
    for (size_t i = 0; i < recording_.values.size(); i++) {
      if (value(i).kind != Value::Kind::kNode || value(i).a != operand.index) continue;
      if (home < 0) home = variable_for(static_cast<uint32_t>(i));
      if (home < 0) home = b_->variable("__output_" + std::to_string(operand.index));
      homes_[i].slot = home;
    }
    return home;
  }

  int32_t variable_for(uint32_t index) {
    if (states_.size() != 1) return -1;
    for (int32_t slot = 0; slot < locals(); slot++) {
      if (is_cell(code(), slot) || states_[0].slots[slot] != index || !is_changed(slot)) continue;
      const uint32_t old = recording_.initial[0][slot];
      if (old && homes_[old].uses > 0) continue;
      stored_.push_back(slot);
      homes_[index].uses--;
      return slot_of_[slot];
    }
    return -1;
  }

  // The graph was left before its end: the evaluator finishes the frame.
  void write_leave(int32_t from, int32_t to) {
    const int32_t handler = b_->next();
    b_->set_position(code().positions[recording_.start[0].next]);
    b_->add_region({from, to, handler, 0, false});
    const int32_t left = b_->variable("__left");
    b_->store(left);
    b_->begin_call();
    b_->load_constant(callables_.leave.get());
    b_->end_callable();
    // Nothing of ours may hold it: it holds this frame through its traceback.
    b_->load(left);
    b_->emit(Op::DELETE_FAST, left);
    for (size_t i = 0; i < recording_.values.size(); i++) {
      if (value(i).kind != Value::Kind::kSource) continue;
      const guards::Source& source = recording_.guards.sources[value(i).a];
      if (source.reach == guards::Reach::kSlot && !given_[source.index]) continue;
      result_.left_with.push_back(value(i).a);
      if (homes_[i].slot >= 0) {
        b_->load(homes_[i].slot);
      } else {
        read_source(value(i).a);
      }
    }
    b_->call(static_cast<int32_t>(result_.left_with.size()) + 1);
    b_->emit(Op::RETURN_VALUE);
  }

  // --- the break -------------------------------------------------------------------------------------------------------

  void break_here() {
    const FrameState& state = states_[0];
    std::vector<bool> bound = bound_slots(code(), state.slots);
    if (state.next < first_place(code())) return break_at_start(bound);
    refuse_new_cells(state);
    std::vector<Entry> stack;
    for (size_t i = locals(); i < state.slots.size(); i++) {
      load(state.slots[i]);
      stack.push_back({state.slots[i] != 0, true});
    }
    store_variables(state);
    run_instruction(state.next, std::move(bound), std::move(stack));
  }

  void refuse_new_cells(const FrameState& state) const {
    for (int32_t slot = 0; slot < locals(); slot++) {
      const bool constant = value(state.slots[slot]).kind == Value::Kind::kConstant;
      if (is_cell(code(), slot) && is_changed(slot) && !constant) throw limit(CodegenLimit::kCell);
    }
  }

  // The instructions that make cells have no other effect: all of them are run, then the rest of the function.
  void break_at_start(const std::vector<bool>& bound) {
    const int32_t first = first_place(code());
    for (int32_t i = 0; i < first; i++) {
      b_->set_position(code().positions[i]);
      if (code().instructions[i].op != Op::MAKE_CELL) continue;
      if (i < states_[0].next) throw limit(CodegenLimit::kCell);
      b_->emit(Op::MAKE_CELL, slot_of_[code().instructions[i].arg]);
    }
    resume({&code(), first, bound, {}}, {});
  }

  // All is loaded before the first variable changes, as what is loaded may be in variables.
  void store_variables(const FrameState& state) {
    std::vector<int32_t> stores, deletes;
    for (int32_t slot = 0; slot < locals(); slot++) {
      if (is_cell(code(), slot) || !is_changed(slot)) continue;
      if (std::find(stored_.begin(), stored_.end(), slot) != stored_.end()) continue;
      if (!state.slots[slot]) {
        if (given_[slot]) deletes.push_back(slot_of_[slot]);
        continue;
      }
      load(state.slots[slot]);
      stores.push_back(slot_of_[slot]);
    }
    for (size_t i = stores.size(); i-- > 0;) b_->store(stores[i]);
    for (const int32_t slot : deletes) b_->emit(Op::DELETE_FAST, slot);
  }

  void run_instruction(int32_t index, std::vector<bool> bound, std::vector<Entry> stack) {
    const Instruction& original = code().instructions[index];
    const Flow after = bytecode::flow(original.op);
    b_->set_position(code().positions[index]);
    if (after == Flow::jump) return resume(place(original.target, bound, stack), stack);
    const int32_t at = emit_breaking(original);
    if (const ExceptionRegion* region = code().handler(index)) handlers_.push_back({at, region, bound, stack});
    std::vector<Entry> jumped = stack;
    change_stack(original, stack, false);
    change_bound(original, bound);
    if (after == Flow::next && bytecode::is_test(code().instructions[index + 1].op)) {
      return run_instruction(index + 1, std::move(bound), std::move(stack));
    }
    if (after != Flow::stop) resume(place(index + 1, bound, stack), stack);
    if (after != Flow::branch) return;
    change_stack(original, jumped, true);
    write_branch(original, at, bound, std::move(jumped));
  }

  void write_branch(const Instruction& original, int32_t at, const std::vector<bool>& bound, std::vector<Entry> stack) {
    b_->set_target(at, b_->next());
    int32_t target = original.target;
    if (original.op == Op::FOR_ITER) {
      // At its end it skips these, and has popped the iterator itself.
      constexpr Op kSkipped[] = {Op::END_FOR, Op::POP_TOP};
      for (int i = 0; i < layout::kForIterSkip; i++) b_->emit(kSkipped[i]);
      target += layout::kForIterSkip;
      if (layout::kForIterSkip > 0) stack.resize(stack.size() - 2);
    }
    resume(place(target, bound, stack), stack);
  }

  // The instruction as it was, but for an empty place that it may leave on the stack for a call.
  int32_t emit_breaking(Instruction instruction) {
    if (bytecode::argument_kind(instruction.op) == bytecode::Argument::local) instruction.arg = slot_of_[instruction.arg];
    instruction.flags = 0;
    if (instruction.op == Op::LOAD_METHOD) instruction.op = Op::LOAD_ATTR, instruction.arg2 = -1;
    if (instruction.op == Op::LOAD_GLOBAL) instruction.arg2 = 0;
    if (instruction.op == Op::LOAD_SUPER_ATTR) instruction.arg2 &= ~1;
    if (instruction.op == Op::LOAD_FAST_AND_CLEAR) throw limit(CodegenLimit::kNull);
    return b_->emit(instruction);
  }

  static void change_stack(const Instruction& original, std::vector<Entry>& stack, bool jumps) {
    const bytecode::StackEffect effect = bytecode::stack_effect(original);
    const int32_t gives = jumps ? effect.gives_on_jump : effect.gives;
    // What is given in place of the same entries is still what it was.
    const int32_t kept = original.op == Op::FOR_ITER ? std::min(effect.takes, gives) : 0;
    stack.resize(stack.size() - effect.takes + kept);
    const bool for_call = original.op == Op::LOAD_METHOD || (original.op == Op::LOAD_GLOBAL && original.arg2 == 1) ||
                          (original.op == Op::LOAD_SUPER_ATTR && (original.arg2 & 1));
    if (for_call && !layout::kSelfAfterCallable) stack.push_back({false, false});
    stack.insert(stack.end(), gives - kept - for_call, {true, true});
    if (for_call && layout::kSelfAfterCallable) stack.push_back({false, false});
  }

  static void change_bound(const Instruction& original, std::vector<bool>& bound) {
    if (original.op == Op::STORE_FAST) bound[original.arg] = true;
    if (original.op == Op::DELETE_FAST) bound[original.arg] = false;
  }

  ResumePlace place(int32_t next, const std::vector<bool>& bound, const std::vector<Entry>& stack) const {
    ResumePlace result{&code(), next, bound, {}};
    for (const Entry& entry : stack) result.stack.push_back(entry.object);
    return result;
  }

  // Handlers of the frame's own, for the instruction that was run here.
  struct HandlerOf {
    int32_t instruction;
    const ExceptionRegion* region;
    std::vector<bool> bound;
    std::vector<Entry> stack;
  };

  void write_handlers() {
    for (const HandlerOf& each : handlers_) {
      std::vector<Entry> stack(each.stack.begin(), each.stack.begin() + each.region->depth);
      if (each.region->push_lasti) stack.push_back({true, true});
      stack.push_back({true, true});
      const ExceptionRegion& region = *each.region;
      b_->add_region({each.instruction, each.instruction + 1, b_->next(), region.depth, region.push_lasti});
      resume(place(region.target, each.bound, stack), stack, region.push_lasti ? region.depth : -1);
    }
  }

  // Takes the stack, calls the resume function and returns what it returns. lasti: the entry that is an offset in our
  // code; the resume function gets that of its own first instruction, which has the same line.
  void resume(ResumePlace where, const std::vector<Entry>& stack, int32_t lasti = -1) {
    std::vector<int32_t> saved(stack.size(), -1);
    for (size_t i = stack.size(); i-- > 0;) {
      if (!stack[i].pushed) continue;
      saved[i] = b_->variable("__stack_" + std::to_string(i));
      b_->store(saved[i]);
    }
    const ResumeFunction* target = find(recording_.start[0].function.get(), std::move(where));
    b_->begin_call();
    load_callable(*target);
    b_->end_callable();
    std::vector<int32_t> moved;
    for (const int32_t slot : target->resume.parameters) {
      const int32_t from = slot < locals() ? slot_of_[slot] : saved[slot - locals()];
      moved.push_back(from);
      if (slot - locals() == lasti && lasti >= 0) {
        const Ref zero = Ref::steal(PyLong_FromLong(0));
        b_->load_constant(zero.get());
      } else {
        b_->load(from);
      }
    }
    // The resume function's frame has them from here on, and drops them when the original's would.
    for (const int32_t slot : moved) b_->emit(Op::DELETE_FAST, slot);
    b_->call(static_cast<int32_t>(moved.size()));
    b_->emit(Op::RETURN_VALUE);
  }

  const ResumeFunction* find(Borrowed function, ResumePlace where) {
    const ResumeFunction* target = resumes_.at(function, std::move(where));
    if (!target) throw PythonRaised{};
    if (std::find(result_.resumes.begin(), result_.resumes.end(), target) == result_.resumes.end()) result_.resumes.push_back(target);
    return target;
  }

  void load_callable(const ResumeFunction& target) {
    if (target.callable) return b_->load_constant(target.callable.get());
    const auto* function = reinterpret_cast<PyFunctionObject*>(target.function.get());
    b_->begin_call();
    b_->load_constant(function_type().get());
    b_->end_callable();
    b_->load_constant(target.resume.code.get());
    b_->load_constant(function->func_globals);
    const Ref name = text_object(target.name);
    b_->load_constant(name.get());
    b_->load_constant(Py_None);
    for (const int32_t slot : target.resume.cells) b_->load_cell(slot_of_[slot]);
    b_->emit(Op::BUILD_TUPLE, static_cast<int32_t>(target.resume.cells.size()));
    b_->call(5);
  }

  // --- a break in a call that was followed --------------------------------------------------------------------------------

  // Each frame but the innermost waits for its callee: its resume function gets a callable that runs the callee's rest.
  void break_in_callee() {
    refuse_new_cells(states_[0]);
    const FrameState& state = states_[0];
    const ResumeFunction* target =
        find(state.function, {state.code, state.next, bound_slots(code(), state.slots), stack_entries(code(), state.slots), true});
    b_->set_position(code().positions[state.next - 1]);
    b_->begin_call();
    load_callable(*target);
    b_->end_callable();
    for (const int32_t slot : target->resume.parameters) load_state(0, slot);
    load_callee(1);
    for (const int32_t slot : target->resume.parameters) {
      if (slot < locals() && given_[slot]) b_->emit(Op::DELETE_FAST, slot_of_[slot]);
    }
    b_->call(static_cast<int32_t>(target->resume.parameters.size()) + 1);
    b_->emit(Op::RETURN_VALUE);
  }

  void load_state(size_t frame, int32_t slot) {
    const uint32_t wanted = states_[frame].slots[slot];
    if (frame == 0 && slot < locals() && !is_changed(slot)) return b_->load(slot_of_[slot]);
    load(wanted);
  }

  // functools.partial(resume function, state..., the next frame's callable)
  void load_callee(size_t frame) {
    const FrameState& state = states_[frame];
    const bool innermost = frame + 1 == states_.size();
    const Ref module = Ref::steal(PyImport_ImportModule("functools"));
    const Ref partial = module ? Ref::steal(PyObject_GetAttrString(module.get(), "partial")) : Ref();
    if (!partial) throw PythonRaised{};
    b_->begin_call();
    b_->load_constant(partial.get());
    b_->end_callable();
    int32_t arguments = 1;
    const int32_t first = first_place(*state.code);
    if (innermost && state.next < first && has_own_cells(*state.code)) {
      arguments += load_arguments(frame);
    } else {
      if (has_own_cells(*state.code)) throw limit(CodegenLimit::kCell);
      const int32_t next = std::max(state.next, first);
      const ResumeFunction* target = find(
          state.function, {state.code, next, bound_slots(*state.code, state.slots), stack_entries(*state.code, state.slots), !innermost});
      b_->load_constant(target->callable.get());
      for (const int32_t slot : target->resume.parameters) load_state(frame, slot);
      arguments += static_cast<int32_t>(target->resume.parameters.size());
    }
    if (!innermost) {
      load_callee(frame + 1);
      arguments++;
    }
    b_->call(arguments);
  }

  // The callee has not begun: it is called as it is.
  int32_t load_arguments(size_t frame) {
    const FrameState& state = states_[frame];
    const auto* object = state.code->code.as<PyCodeObject>();
    if (object->co_kwonlyargcount > 0 || (object->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) throw limit(CodegenLimit::kCalleeStart);
    b_->load_constant(state.function.get());
    for (int32_t slot = 0; slot < object->co_argcount; slot++) load_state(frame, slot);
    return object->co_argcount;
  }

  const Recording& recording_;
  const Callables& callables_;
  ResumeFunctions& resumes_;
  const int32_t end_;
  Transformed result_;
  Ref base_;
  bool at_start_ = false;
  const Resume* resumed_ = nullptr;  // whose frames run the code; null: the function's own
  std::vector<int32_t> slot_of_;  // of each slot of the original frame at the start: its slot in the base
  std::vector<bool> given_;       // which of them hold something when the code starts
  Builder* b_ = nullptr;
  graph::ExitPoint exit_;
  std::vector<FrameState> states_;
  std::vector<Home> homes_;       // of each value
  std::vector<int32_t> stored_;   // variables that got their new value from the graph
  std::vector<HandlerOf> handlers_;
  int32_t call_end_ = 0;
  int32_t made_ = 0;
};

}  // namespace

const ResumeFunction* ResumeFunctions::at(Borrowed function, ResumePlace place) {
  for (const ResumeFunction& known : all_) {
    if (known.function == function && known.place == place) return &known;
  }
  const std::string name = "__resume_at_" + std::to_string(2 * place.code->instructions[place.next].offset) + "_" + std::to_string(all_.size());
  ResumeFunction made{function, std::move(place), name, {}, {}};
  made.resume = make_resume(made.place, name);
  if (!made.resume.code) return nullptr;
  if (!has_own_cells(*made.place.code)) {
    Ref plain = make_function(made);
    if (!plain) return nullptr;
    made.callable = bind_(std::move(plain), is_in_loop(*made.place.code, made.place.next));
    if (!made.callable) return nullptr;
  }
  all_.push_back(std::move(made));
  return &all_.back();
}

Transformed transform(const Recording& recording, const Callables& callables, ResumeFunctions& resumes) {
  try {
    return Transform(recording, callables, resumes).make();
  } catch (const PythonRaised&) {
    return {};
  }
}

}  // namespace evalframe::codegen
