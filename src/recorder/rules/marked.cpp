// Rules for calls of what the program's author has marked: leaves, constants, and what isn't to be captured.
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/policy.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// What a call can change nothing in that the recording has read before, but for the elements of arrays, which it reads anew.
bool is_plain_argument(PyObject* object) {
  if (numpy::is_array(object) || PyArray_CheckScalar(object) || is_immutable(object)) return true;
  if (!PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (!is_plain_argument(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

Plan leaf_call(Recorder& recorder, PyObject* callable, const Given& given) {
  const auto no = [&](const std::string& why) { return plan_break(Break::kMarked, callable_name(callable) + why); };
  // It may look at what was stored.
  if (!recorder.may_put_off() || !recorder.recording().names.empty()) return no(", a leaf, behind a store");
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kCall;
  plan.callable = callable;
  plan.keyword_names = given.keyword_names;
  plan.keywords = given.keywords();
  plan.check_result = true;
  plan.of_numbers = true;
  for (size_t i = 0; i < given.objects.size(); i++) {
    const bool plain = is_plain_argument(given.objects[i]);
    plan.operands.push_back(plain ? recorder.operand(given.labels[i], given.objects[i]) : graph::Operand());
    if (!plan.operands.back()) return no(", a leaf, with " + type_name(given.objects[i]));
  }
  return plan;
}

Plan constant_call(Recorder& recorder, PyObject* callable, const Given& given) {
  for (size_t i = 0; i < given.objects.size(); i++) {
    if (recorder.known(given.labels[i], given.objects[i])) continue;
    if (PyFunction_Check(given.objects[i]) && fixes_object(recorder, given.labels[i], given.objects[i])) continue;
    return plan_break(Break::kMarked, callable_name(callable) + ", a constant, with " + type_name(given.objects[i]));
  }
  Plan plan = plan_constant();
  plan.same_object = true;
  return plan;
}

}  // namespace

std::optional<Plan> marked_call(Recorder& recorder, uint32_t label, PyObject* callable, const Given& given) {
  const Policy policy = policy_of(callable);
  if (policy == Policy::kFollowed) return std::nullopt;
  if (policy == Policy::kUncaptured || !fixes_object(recorder, label, callable)) return plan_break(Break::kMarked, callable_name(callable));
  return policy == Policy::kLeaf ? leaf_call(recorder, callable, given) : constant_call(recorder, callable, given);
}

}  // namespace evalframe::recorder
