// Exceptions that calls of known arguments raise: recorded on, as what they raise is as much a fact as what they give. An exit that needs
// the exception makes the call once more, so that its attributes, its context and the entries of its traceback are CPython's own.
#include <algorithm>

#include "cpython/exceptions.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "recorder/recorder.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// What the call raises; null: it gives something.
Ref raised_by(PyObject* callable, const std::vector<PyObject*>& arguments, PyObject* keyword_names) {
  const cpython::HooksSuspended unseen;
  const size_t keywords = keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(keyword_names)) : 0;
  const Ref result = Ref::steal(PyObject_Vectorcall(callable, arguments.data(), arguments.size() - keywords, keyword_names));
  return result ? Ref() : cpython::take_raised();
}

// How many entries, if both have the same; else -1.
int entries_alike(const PyTracebackObject* left, const PyTracebackObject* right) {
  int count = 0;
  for (; left && right; left = left->tb_next, right = right->tb_next, count++) {
    const Ref codes[] = {Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(left->tb_frame))), Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(right->tb_frame)))};
    if (codes[0].get() != codes[1].get() || left->tb_lasti != right->tb_lasti) return -1;
  }
  return left || right ? -1 : count;
}

PyObject* arguments_of(PyObject* exception) { return reinterpret_cast<PyBaseExceptionObject*>(exception)->args; }

// The end of memory or of the stack, or what the handler of a signal raises, is no fact of the call.
bool is_of_call(PyObject* exception) {
  if (!PyErr_GivenExceptionMatches(exception, PyExc_Exception)) return false;
  return !PyErr_GivenExceptionMatches(exception, PyExc_MemoryError) && !PyErr_GivenExceptionMatches(exception, PyExc_RecursionError);
}

// A set in a regular expression may be warned of, at each call.
bool may_warn(PyObject* callable, const Given& given) {
  if (!PyFunction_Check(callable) || !name_in_library(callable).starts_with("re.")) return false;
  const Ref opening[] = {Ref::steal(PyUnicode_FromString("[")), Ref::steal(PyBytes_FromString("["))};
  return std::any_of(given.objects.begin(), given.objects.end(), [&](PyObject* object) {
    return (PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) && PySequence_Contains(object, opening[PyBytes_CheckExact(object)].get()) != 0;
  });
}

}  // namespace

Plan plan_known_call(Recorder& recorder, PyObject* callable, const Given& given) {
  Plan plan = plan_constant();
  if (may_warn(callable, given)) return plan;
  for (size_t i = 0; i < given.objects.size(); i++) {
    const Value::Kind kind = recorder.value(given.labels[i]).kind;
    if ((kind != Value::Kind::kConstant && kind != Value::Kind::kSource) || !is_immutable(given.objects[i])) return plan;
  }
  plan.callable = callable;
  plan.keyword_names = given.keyword_names;
  plan.contents = given.labels;
  for (PyObject* const object : given.objects) plan.held.push_back(Ref::borrow(object));
  return plan;
}

// The attributes are parts that an exit leaves as the call has made them, unless they were changed.
uint32_t Recorder::exception_of_call(const Plan& plan, PyObject* object) {
  if (!plan.callable || plan.kind != Plan::Kind::kConstant || !is_of_call(object) || !arguments_of(object) || !is_immutable(arguments_of(object))) return 0;
  PyTypeObject* const type = Py_TYPE(object);
  if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fix_class(type)) return 0;
  std::vector<PyObject*> arguments;
  for (const Ref& argument : plan.held) arguments.push_back(argument.get());
  const Ref pending = PyErr_Occurred() ? cpython::take_raised() : Ref();
  const Ref again = cpython::keeps_as_base(type) ? raised_by(plan.callable.get(), arguments, plan.keyword_names.get()) : Ref();
  if (pending) cpython::set_raised(Ref::borrow(pending.get()));
  const bool alike = again && Py_TYPE(again.get()) == type && PyObject_RichCompareBool(arguments_of(again.get()), arguments_of(object), Py_EQ) > 0;
  if (!alike) return 0;
  const Ref entries = cpython::first_entry(object), entries_again = cpython::first_entry(again.get());
  const PyTracebackObject* first = entries.as<PyTracebackObject>();
  // The entry of the recorded frame, unless nobody sees that.
  if (first && !is_hidden(frames_.size() - 1)) first = first->tb_next;
  const int count = entries_alike(first, entries_again.as<PyTracebackObject>());
  if (count < 0) return 0;
  PyObject** const dict = _PyObject_GetDictPtr(object);
  std::vector<std::pair<Ref, Ref>> attributes;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; dict && *dict && PyDict_Next(*dict, &at, &name, &value);) {
    if (!PyUnicode_CheckExact(name) || !is_immutable(value)) return 0;
    attributes.emplace_back(Ref::borrow(name), Ref::borrow(value));
  }
  const uint32_t made_here = exception(type, constant(arguments_of(object)));
  const uint32_t call = made(plan.callable, plan.keyword_names, plan.contents);
  std::vector<uint32_t> parts = copied_elements(recording_->values[made_here]);
  const auto add = [&](Borrowed attribute, uint32_t of) { parts.insert(parts.end(), {constant(attribute), of}); };
  const auto as_raised = [&](const char* text) {
    const Ref attribute = Ref::steal(PyUnicode_InternFromString(text));
    add(attribute.get(), made(builtin_getattr(), nullptr, {made_here, constant(attribute.get())}));
  };
  for (const auto& [attribute, of] : attributes) add(attribute.get(), constant(of.get()));
  // Others may have been raised, and handled, in the call.
  const Ref context = Ref::steal(PyException_GetContext(object)), cause = Ref::steal(PyException_GetCause(object));
  const Ref handled_now = cpython::handled_exception(PyThreadState_Get());
  const uint32_t handling = handled();
  if (context && context.get() != handled_now.get()) {
    as_raised("__context__");
  } else {
    add(Ref::steal(PyUnicode_InternFromString("__context__")).get(), handling ? handling : outer_exception(false));
  }
  if (cause) as_raised("__cause__");
  if (count) as_raised("__traceback__");
  Container& container = recording_->containers[recording_->values[made_here].a];
  container.initial.length = container.present.length = static_cast<uint32_t>(parts.size());
  container.elements = std::move(parts);
  container.raised = {call, handling, count};
  return made_here;
}

Ref Rebuild::raise_again(const RaisedByCall& raised, PyObject* type) {
  Ref exception;
  {
    const cpython::HooksSuspended unseen;
    if (call_again(recording_.values[raised.call])) return PyErr_SetString(PyExc_RuntimeError, "a call that raised when it was recorded doesn't now"), Ref();
    exception = cpython::take_raised();
  }
  if (reinterpret_cast<PyObject*>(Py_TYPE(exception.get())) != type) return cpython::set_raised(std::move(exception)), Ref();
  if (!raised.handled) return exception;
  const Ref handled = make(raised.handled);
  if (!handled) return Ref();
  cpython::attach_context(exception.get(), outer_[1].get(), handled.get());
  return exception;
}

}  // namespace evalframe::recorder
