// Runs the instruction that broke, and calls a resume function for each way on.
#include "codegen/transform_parts.h"

namespace evalframe::codegen {

void Transform::break_here() {
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

void Transform::refuse_new_cells(const FrameState& state) const {
  for (int32_t slot = 0; slot < locals(); slot++) {
    const Value::Kind kind = value(state.slots[slot]).kind;
    const bool known = kind == Value::Kind::kConstant || kind == Value::Kind::kCell;
    if (is_cell(code(), slot) && is_changed(slot) && !known) throw limit(CodegenLimit::kCell);
  }
}

// The instructions that make cells have no other effect: all of them are run, then the rest of the function.
void Transform::break_at_start(const std::vector<bool>& bound) {
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
void Transform::store_variables(const FrameState& state) {
  std::vector<int32_t> stores, deletes;
  for (int32_t slot = 0; slot < locals(); slot++) {
    // A cell that the recorded part made takes the place of the variable.
    if (!is_changed(slot) || (is_cell(code(), slot) && value(state.slots[slot]).kind != Value::Kind::kCell)) continue;
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

void Transform::run_instruction(int32_t index, std::vector<bool> bound, std::vector<Entry> stack) {
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

void Transform::write_branch(const Instruction& original, int32_t at, const std::vector<bool>& bound, std::vector<Entry> stack) {
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
int32_t Transform::emit_breaking(Instruction instruction) {
  if (bytecode::argument_kind(instruction.op) == bytecode::Argument::local) instruction.arg = slot_of_[instruction.arg];
  instruction.flags = 0;
  if (instruction.op == Op::LOAD_METHOD) instruction.op = Op::LOAD_ATTR, instruction.arg2 = -1;
  if (instruction.op == Op::LOAD_GLOBAL) instruction.arg2 = 0;
  if (instruction.op == Op::LOAD_SUPER_ATTR) instruction.arg2 &= ~1;
  if (instruction.op == Op::LOAD_FAST_AND_CLEAR) throw limit(CodegenLimit::kNull);
  return b_->emit(instruction);
}

void Transform::change_stack(const Instruction& original, std::vector<Entry>& stack, bool jumps) {
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

void Transform::change_bound(const Instruction& original, std::vector<bool>& bound) {
  if (original.op == Op::STORE_FAST) bound[original.arg] = true;
  if (original.op == Op::DELETE_FAST) bound[original.arg] = false;
}

ResumePlace Transform::place(int32_t next, const std::vector<bool>& bound, const std::vector<Entry>& stack) const {
  ResumePlace result{&code(), next, bound, {}};
  for (const Entry& entry : stack) result.stack.push_back(entry.object);
  return result;
}

void Transform::write_handlers() {
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
void Transform::resume(ResumePlace where, const std::vector<Entry>& stack, int32_t lasti) {
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

const ResumeFunction* Transform::find(Borrowed function, ResumePlace where) {
  const ResumeFunction* target = resumes_.called_at(function, std::move(where));
  if (!target) throw PythonRaised{};
  if (std::find(result_.resumes.begin(), result_.resumes.end(), target) == result_.resumes.end()) result_.resumes.push_back(target);
  return target;
}

// What follows is made with them.
void Transform::store_cells() {
  for (int32_t slot = 0; slot < locals(); slot++) {
    const uint32_t index = states_[0].slots[slot];
    if (!is_cell(code(), slot) || !is_changed(slot) || value(index).kind != Value::Kind::kCell) continue;
    load(index);
    b_->store(slot_of_[slot]);
  }
}

// Whether the frame has cells that the recorded part made, its own or those of a function that it made.
bool Transform::has_new_cells(size_t frame) const {
  if (frame == 0) return false;
  const FrameState& state = states_[frame];
  for (int32_t slot = 0; slot < cpython::variable_count(state.code->code); slot++) {
    if (is_cell(*state.code, slot) && value(state.slots[slot]).kind == Value::Kind::kCell) return true;
  }
  return false;
}

void Transform::load_cell_of(size_t frame, int32_t slot) {
  if (frame == 0) return b_->load_cell(slot_of_[slot]);
  const Value::Kind kind = value(states_[frame].slots[slot]).kind;
  if (kind != Value::Kind::kCell && kind != Value::Kind::kSource && kind != Value::Kind::kConstant) throw limit(CodegenLimit::kCell);
  load(states_[frame].slots[slot]);
}

void Transform::load_callable(const ResumeFunction& target, size_t frame) {
  if (target.callable && !has_new_cells(frame)) return b_->load_constant(target.callable.get());
  const auto* function = reinterpret_cast<PyFunctionObject*>(target.function.get());
  b_->begin_call();
  b_->load_constant(function_type().get());
  b_->end_callable();
  b_->load_constant(target.resume.code.get());
  b_->load_constant(function->func_globals);
  const Ref name = text_object(target.name);
  b_->load_constant(name.get());
  b_->load_constant(Py_None);
  for (const int32_t slot : target.resume.cells) load_cell_of(frame, slot);
  b_->emit(Op::BUILD_TUPLE, static_cast<int32_t>(target.resume.cells.size()));
  b_->call(5);
}

}  // namespace evalframe::codegen
