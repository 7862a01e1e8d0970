// Rules for C functions that put the elements of a list in another order, take one out or put one in by how elements compare.
#include <string>
#include <string_view>

#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// Which argument of the function is the list; -1: another function.
int list_argument(const std::string& name) {
#define EVALFRAME_REARRANGES(function, argument) \
  if (name == function) return argument;
#include "recorder/rearranging.def"
#undef EVALFRAME_REARRANGES
  return -1;
}

}  // namespace

std::optional<Plan> rearranging_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable) {
  const bool method = Py_TYPE(callable) == &PyMethodDescr_Type;
  if (!method && !PyCFunction_CheckExact(callable)) return std::nullopt;
  const int argument = list_argument(method ? name_in_type(callable) : name_in_module(callable));
  if (argument < 0 || argument >= call.count) return std::nullopt;
  Recorder& recorder = site.recorder;
  Operated list{recorder.label(call.first + argument), site.frame.slot(call.first + argument)};
  if (!PyList_CheckExact(list.object)) return std::nullopt;
  for (int slot = call.first; slot < call.first + call.count; slot++) {
    if (!is_known_flat(recorder, recorder.label(slot), site.frame.slot(slot))) return std::nullopt;
  }
  if (!enter(recorder, list) || recorder.value(list.label).kind != Value::Kind::kList) return std::nullopt;
  if (recorder.is_iterated(list.label)) return plan_break(Break::kStore, "a container changes while it is iterated over");
  if (!recorder.may_change(list.label)) return plan_break(Break::kStore, "an object whose end is told may be dropped");
  Plan plan = plan_constant();
  plan.reread = list.label;
  plan.stored_into = Ref::borrow(list.object);
  return plan;
}

}  // namespace evalframe::recorder
