// Rules for looking at the frames that are recorded: sys._getframe, what frames and code objects tell of themselves, sys.exc_info and
// sys.exception.
#include <algorithm>
#include <string_view>

#include "core/made_once.h"
#include "core/object_text.h"
#include "cpython/frame.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

struct SysFunctions {
  PyObject *get_frame = nullptr, *exception_info = nullptr, *exception = nullptr;
};
const SysFunctions& functions_of_sys() {
  static MadeOnce<SysFunctions> found;
  return found.get([] {
    const Ref system = Ref::steal(PyImport_ImportModule("sys"));
    const auto named = [&](const char* name) { return system ? Ref::steal(PyObject_GetAttrString(system.get(), name)).release() : nullptr; };
    SysFunctions made{named("_getframe"), named("exc_info"), named("exception")};
    PyErr_Clear();
    return made;
  });
}

bool is_one_of(PyObject* name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), utf8(name)) != names.end();
}

Plan frame_call(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* const count = call.count ? site.frame.slot(call.first) : nullptr;
  const bool plain = call.count <= 1 && !call.keyword_names && (!count || (PyLong_CheckExact(count) && recorder.known(recorder.label(call.first), count)));
  const long up = plain && count ? PyLong_AsLong(count) : 0;
  const uint32_t frame = plain && up >= 0 ? recorder.frame_above(static_cast<size_t>(up)) : 0;
  PyErr_Clear();
  return frame ? plan_value(frame) : plan_break(Break::kUnknownCall, "_getframe");
}

// What the thread handles around the recorded frames may be another exception in each run.
Plan exception_info_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const uint32_t handled = recorder.handled();
  if (call.count) return plan_break(Break::kUnknownCall, "exc_info");
  if (recorder.is_exception(handled) && callable == functions_of_sys().exception) return plan_value(handled);
  if (recorder.is_exception(handled)) {
    const Ref exception = Ref::steal(PyErr_GetHandledException());
    const uint32_t traceback = recorder.attribute_of(recorder.value(handled), "__traceback__");
    if (!exception || !traceback) return plan_break(Break::kUnknownCall, "exc_info");
    return plan_value(recorder.container(Value::Kind::kTuple, {recorder.constant(reinterpret_cast<PyObject*>(Py_TYPE(exception.get()))), handled, traceback}));
  }
  const Ref exception = Ref::steal(PyErr_GetHandledException());
  if (handled || (exception && exception.get() != Py_None)) return plan_break(Break::kUnknownCall, "exc_info of an exception from outside");
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kCall;
  plan.callable = callable;
  plan.stays = true;
  return plan;
}

}  // namespace

std::optional<Plan> frame_function(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable == functions_of_sys().get_frame) return frame_call(site, call);
  if (callable == functions_of_sys().exception_info || callable == functions_of_sys().exception) return exception_info_call(site, call, callable);
  return std::nullopt;
}

std::optional<Plan> frame_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  const Value value = recorder.value(label);
  const bool kept = value.kind == Value::Kind::kSource && recorder.guards().sources[static_cast<size_t>(value.a)].reach == guards::Reach::kObject;
  if ((value.kind == Value::Kind::kConstant || kept) && PyCode_Check(object)) {
    const bool fact = is_one_of(name, {"co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags", "co_argcount", "co_posonlyargcount",
                                       "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_consts"});
    return fact ? std::optional<Plan>(plan_constant()) : std::nullopt;
  }
  if (value.kind != Value::Kind::kFrame) return std::nullopt;
  if (is_one_of(name, {"f_code", "f_lineno", "f_lasti"})) return plan_constant();
  if (is_one_of(name, {"f_globals"}) && !recorder.is_under_made_globals()) return plan_value(recorder.fixed(Ref::steal(PyObject_GetAttr(object, name)).get()));
  const uint32_t caller = is_one_of(name, {"f_back"}) ? recorder.caller_of(value.b) : 0;
  return caller ? plan_value(caller) : plan_break(Break::kAttribute, "of a frame");
}

}  // namespace evalframe::recorder
