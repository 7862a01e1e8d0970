// A break in a call that was followed: each frame but the innermost waits for its callee.
#include "codegen/transform_parts.h"
#include "evaluator/activation.h"
#include "evaluator/rest.h"

namespace evalframe::codegen {

// The callee is the __init__ of an instance that waits on the stack, or what it gives isn't yet what its caller gets.
bool Transform::keeps_instance(const FrameState& state) const {
  if (state.slots.empty()) return false;
  const Value& top = value(state.slots.back());
  if (top.kind == Value::Kind::kMade) {
    const Value& callable = value(recording_.containers[top.a].elements[0]);
    return callable.kind == Value::Kind::kConstant && recording_.graph.constants[callable.a].get() == evaluator::rest_type();
  }
  return top.kind == Value::Kind::kConstant && recording_.graph.constants[top.a].get() == evaluator::Activation::instance_mark().get();
}

// Each frame but the innermost waits for its callee: its resume function gets a callable that runs the callee's rest.
void Transform::break_in_callee() {
  refuse_new_cells(states_[0]);
  for (size_t k = 0; k + 1 < states_.size(); k++) {
    const FrameState& waiting = states_[k];
    const Op op = waiting.code->instructions[waiting.next - 1].op;
    const bool stores = op == Op::STORE_ATTR || op == Op::DELETE_ATTR || op == Op::STORE_SUBSCR || op == Op::DELETE_SUBSCR || op == Op::STORE_SLICE;
    const bool iterates = op == Op::GET_ITER || op == Op::GET_YIELD_FROM_ITER || op == Op::FOR_ITER;
    if (stores || iterates || op == Op::LOAD_METHOD || keeps_instance(waiting)) throw limit(CodegenLimit::kSetter);
  }
  const FrameState& state = states_[0];
  const ResumeFunction* target =
      find(state.function, {state.code, state.next, bound_slots(code(), state.slots), stack_entries(code(), state.slots), true});
  b_->set_position(code().positions[state.next - 1]);
  b_->begin_call();
  store_cells();
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

void Transform::load_state(size_t frame, int32_t slot) {
  const uint32_t wanted = states_[frame].slots[slot];
  if (frame == 0 && slot < locals() && !is_changed(slot)) return b_->load(slot_of_[slot]);
  load(wanted);
}

// functools.partial(resume function, state..., the next frame's callable)
void Transform::load_callee(size_t frame) {
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
    if (has_own_cells(*state.code) && state.next < first) throw limit(CodegenLimit::kCell);
    const int32_t next = std::max(state.next, first);
    const ResumeFunction* target = find(
        state.function, {state.code, next, bound_slots(*state.code, state.slots), stack_entries(*state.code, state.slots), !innermost});
    load_callable(*target, frame);
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
int32_t Transform::load_arguments(size_t frame) {
  const FrameState& state = states_[frame];
  const auto* object = state.code->code.as<PyCodeObject>();
  if (object->co_kwonlyargcount > 0 || (object->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) throw limit(CodegenLimit::kCalleeStart);
  b_->load_constant(state.function.get());
  for (int32_t slot = 0; slot < object->co_argcount; slot++) load_state(frame, slot);
  return object->co_argcount;
}

}  // namespace evalframe::codegen
