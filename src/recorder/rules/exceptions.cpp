// Rules for exceptions: making, raising, catching and asking them.
#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/exceptions.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

// A class is called without arguments.
uint32_t exception_of(Recorder& recorder, const Operated& given) {
  const uint32_t label = given.label;
  if (recorder.is_exception(label)) return label;
  PyObject* const type = recorder.constant_of(label);
  if (!type || !PyExceptionClass_Check(type)) return 0;
  auto* const of = reinterpret_cast<PyTypeObject*>(type);
  if (!cpython::makes_exception_plainly(of, 0) || cpython::exception_initializer(of)) return 0;
  if (PyType_HasFeature(of, Py_TPFLAGS_HEAPTYPE) && !recorder.fix_class(type)) return 0;
  return recorder.exception(type, recorder.container(Value::Kind::kTuple, {}));
}

namespace {

using evaluator::Activation;

Plan load_assertion_error(const Site&) { return plan_constant(); }

Plan raise_varargs(const Site& site) {
  Recorder& recorder = site.recorder;
  const int count = site.instruction.arg;
  if (count == 0) {
    if (!recorder.is_exception(recorder.handled())) return plan_break(Break::kException, "an exception from outside, again");
    Plan plan = plan_raise(recorder.handled());
    plan.reraises = true;
    return plan;
  }
  const uint32_t exception = exception_of(recorder, {recorder.label(site.depth - count), site.frame.slot(site.depth - count)});
  if (!exception) return plan_break(Break::kException, type_name(site.frame.slot(site.depth - count)));
  Plan plan = plan_raise(exception);
  if (count == 1) return plan;
  const int top = site.depth - 1;
  PyObject* const cause = site.frame.slot(top);
  const Value value = recorder.value_at(top);
  if (cause == Py_None && value.kind == Value::Kind::kConstant) {
    plan.cause = recorder.label(top);
  } else if (PyExceptionInstance_Check(cause) && value.kind == Value::Kind::kSource) {
    recorder.guards().require_type(value.a, cause);
    plan.cause = recorder.label(top);
  } else {
    plan.cause = exception_of(recorder, {recorder.label(top), cause});
  }
  return plan.cause ? std::move(plan) : plan_break(Break::kException, "from " + type_name(cause));
}

Plan reraise(const Site& site) {
  const uint32_t exception = site.recorder.label(site.depth - 1);
  if (!site.recorder.is_exception(exception)) return plan_break(Break::kException, "an exception from outside, again");
  Plan plan = plan_raise(exception);
  plan.reraises = true;
  return plan;
}

Plan push_exc_info(const Site&) { return {}; }
// [exception] -> [what was handled before, exception]
void push_exc_info_after(const Site& site, const Plan&) {
  Recorder& recorder = site.recorder;
  const uint32_t exception = recorder.label(site.depth - 1);
  recorder.set_label(site.depth - 1, recorder.handled_by_frame());
  recorder.set_label(site.depth, exception);
  recorder.handle(exception);
}

Plan pop_except(const Site&) { return {}; }
void pop_except_after(const Site& site, const Plan& plan) {
  site.recorder.handle(site.recorder.label(site.depth - 1));
  pop_after(site, plan);
}

// [exception, classes] -> [exception, whether it is of them]
Plan check_exc_match(const Site& site) {
  Recorder& recorder = site.recorder;
  const int exception = site.depth - 2, classes = site.depth - 1;
  const bool fixed = fixes_type(recorder, recorder.label(exception), site.frame.slot(exception)) &&
                     fixes_classes(recorder, recorder.label(classes), site.frame.slot(classes));
  return fixed ? plan_constant() : plan_break(Break::kException, "except of " + type_name(site.frame.slot(exception)));
}

// A method of BaseException's, in C.
bool is_method(PyObject* callable, const char* name) {
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) || PyDescr_TYPE(callable) != reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) return false;
  return is_named(PyDescr_NAME(callable), name);
}

bool knows_arguments(Recorder& recorder, uint32_t exception, PyObject* object) {
  return recorder.known(recorder.attribute_of(recorder.value(exception), "args"), reinterpret_cast<PyBaseExceptionObject*>(object)->args);
}

// Text that the arguments alone make.
bool has_plain_text(PyObject* object) {
  const reprfunc text = Py_TYPE(object)->tp_str;
  return text == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_str || text == reinterpret_cast<PyTypeObject*>(PyExc_KeyError)->tp_str;
}

Plan add_note(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const uint32_t exception = recorder.label(call.first);
  const uint32_t notes = recorder.attribute_of(recorder.value(exception), "__notes__");
  if (call.count != 2 || !PyUnicode_CheckExact(site.frame.slot(call.first + 1))) return plan_break(Break::kUnknownCall, "add_note");
  if (notes && recorder.value(notes).kind != Value::Kind::kList) return plan_break(Break::kUnknownCall, "add_note");
  Plan plan = plan_constant();
  plan.changed = exception;
  plan.contents = recorder.copied_elements(recorder.value(exception));
  std::vector<uint32_t> texts = notes ? recorder.copied_elements(recorder.value(notes)) : std::vector<uint32_t>{};
  texts.push_back(recorder.label(call.first + 1));
  if (notes) {
    plan.changed = notes;
    plan.contents = std::move(texts);
    return plan;
  }
  plan.contents.insert(plan.contents.end(), {recorder.constant(Ref::steal(PyUnicode_InternFromString("__notes__")).get()),
                                             recorder.container(Value::Kind::kList, std::move(texts))});
  return plan;
}

// The exception has another attribute of this name from here on.
Plan changed_attribute(Recorder& recorder, Plan plan, uint32_t exception, const char* name, uint32_t value) {
  plan.changed = exception;
  if (plan.contents.empty()) plan.contents = recorder.copied_elements(recorder.value(exception));
  for (size_t i = 0; i < plan.contents.size(); i += 2) {
    if (is_named(recorder.constant_of(plan.contents[i]), name)) return plan.contents[i + 1] = value, std::move(plan);
  }
  plan.contents.insert(plan.contents.end(), {recorder.constant(Ref::steal(PyUnicode_InternFromString(name)).get()), value});
  return plan;
}

Plan with_traceback(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const uint32_t exception = recorder.label(call.first);
  const Value traceback = call.count == 2 ? recorder.value_at(call.first + 1) : Value{};
  const bool none = traceback.kind == Value::Kind::kConstant && site.frame.slot(call.first + 1) == Py_None;
  if (!none && traceback.kind != Value::Kind::kTraceback) return plan_break(Break::kUnknownCall, "with_traceback");
  return changed_attribute(recorder, plan_value(exception), exception, "__traceback__", recorder.label(call.first + 1));
}

// The arguments of a call, as a tuple.
uint32_t arguments_of(const Site& site, const Activation::CallSite& call, int from) {
  std::vector<uint32_t> labels;
  for (int i = call.first + from; i < call.first + call.count; i++) labels.push_back(site.recorder.label(i));
  return site.recorder.container(Value::Kind::kTuple, std::move(labels));
}

// [exit, instruction, outer exception, exception] -> the same, and what exit says of the exception.
Plan with_except_start(const Site& site) {
  Recorder& recorder = site.recorder;
  const int exit = site.depth - 4, top = site.depth - 1;
  PyObject* const bound = site.frame.slot(exit);
  const uint32_t exception = recorder.label(top);
  const Value method = recorder.value_at(exit);
  const bool made = method.kind == Value::Kind::kMade && PyMethod_Check(bound) && is_plain_function(PyMethod_GET_FUNCTION(bound));
  if (!made || !recorder.is_exception(exception)) return plan_break(Break::kException, "with " + type_name(bound));
  const uint32_t traceback = recorder.attribute_of(recorder.value(exception), "__traceback__");
  PyObject* const function = PyMethod_GET_FUNCTION(bound);
  PyObject* const object = site.frame.slot(top);
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const Ref entries = cpython::first_entry(object);
  if (!traceback || !entries) return plan_break(Break::kException, "without a traceback");
  const uint32_t self = recorder.elements(method)[3];
  Plan plan = inlined_call(site, recorder.elements(method)[2], function, nullptr);
  plan.contents = {self, recorder.constant(type), exception, traceback};
  plan.arguments = {PyMethod_GET_SELF(bound), type, object, entries.get()};
  return plan;
}

}  // namespace

bool fixes_classes(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kConstant) return true;
  if (value.kind == Value::Kind::kTuple) {
    const std::vector<uint32_t> parts = recorder.copied_elements(value);
    for (size_t i = 0; i < parts.size(); i++) {
      if (!fixes_classes(recorder, parts[i], PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  if (value.kind != Value::Kind::kSource || recorder.varies(value.a)) return false;
  if (!PyTuple_CheckExact(object)) return recorder.guards().require_identity(value.a, object), true;
  recorder.guards().require_length(value.a, object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (!fixes_classes(recorder, item_source(recorder, value, i), PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

Plan plan_raise(uint32_t exception) {
  Plan plan;
  plan.kind = Plan::Kind::kRaise;
  plan.label = exception;
  return plan;
}

std::optional<Plan> exception_construction(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyExceptionClass_Check(callable)) return std::nullopt;
  auto* const type = reinterpret_cast<PyTypeObject*>(callable);
  Recorder& recorder = site.recorder;
  PyObject* const initializer = cpython::exception_initializer(type);
  const bool plain = cpython::makes_exception_plainly(type, call.count) && (!call.keyword_names || initializer);
  const bool heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
  if (!plain || (heap && !recorder.fix_class(type)) || (initializer && !is_plain_function(initializer))) return plan_break(Break::kUnknownCall, type->tp_name);
  const int keywords = call.keywords();
  Activation::CallSite positional = call;
  positional.count -= keywords;
  const uint32_t arguments = arguments_of(site, positional, 0);
  const uint32_t exception = recorder.exception(type, arguments);
  if (!initializer) return plan_value(exception);
  const Ref given = Ref::steal(PyTuple_New(positional.count));
  for (int i = 0; given && i < positional.count; i++) PyTuple_SET_ITEM(given.get(), i, Py_NewRef(site.frame.slot(call.first + i)));
  Ref object = given ? cpython::make_exception(type, given.get()) : Ref();
  if (!object) return PyErr_Clear(), plan_break(Break::kUnknownCall, type->tp_name);
  Plan plan = inlined_call(site, recorder.constant(initializer), initializer, call.keyword_names);
  give(plan, {exception, object.get()});
  plan.kept.emplace_back(std::move(object), exception);
  plan.kept.emplace_back(Ref::borrow(Activation::instance_mark()), recorder.constant(Activation::instance_mark()));
  for (int i = call.first; i < call.first + call.count; i++) give(plan, {recorder.label(i), site.frame.slot(i)});
  return plan;
}

Plan exception_initializer(Recorder& recorder, PyObject* initializer, uint32_t exception) {
  const Ref get = Ref::steal(PyObject_GetAttrString(initializer, "__get__"));
  return plan_value(recorder.made(get.get(), nullptr, {exception}));
}

std::optional<Plan> call_of_initializer(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const Value bound = recorder.value_at(call.callable);
  if (bound.kind != Value::Kind::kMade || !Py_IS_TYPE(site.frame.slot(call.callable), Py_TYPE(bound_initializer()))) return std::nullopt;
  const std::vector<uint32_t> parts = recorder.copied_elements(bound);
  if (parts.size() != 3 || !recorder.is_exception(parts[2])) return std::nullopt;
  if (call.keyword_names) return plan_break(Break::kUnknownCall, "__init__ of an exception");
  Plan plan = plan_constant();
  plan.changed = parts[2];
  plan.contents = recorder.copied_elements(recorder.value(parts[2]));
  plan.contents[1] = arguments_of(site, call, 0);
  return plan;
}

std::optional<Plan> exception_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name) {
  const Value value = recorder.value(label);
  if (value.kind != Value::Kind::kException) return std::nullopt;
  // What classes put before BaseException's own isn't known here.
  PyObject* const found = _PyType_Lookup(Py_TYPE(object), name);
  const bool own = found && Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyDescr_TYPE(found) == reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  if (own && is_named(name, "args")) return plan_value(recorder.attribute_of(value, name));
  if (own && (is_named(name, "__traceback__") || is_named(name, "__cause__") || is_named(name, "__context__"))) {
    const uint32_t set = recorder.attribute_of(value, name);
    if (set && recorder.value(set).kind == Value::Kind::kOuterException) return plan_break(Break::kException, "what is handled around the call");
    return plan_value(set ? set : recorder.constant(Py_None));
  }
  const bool member = found && Py_IS_TYPE(found, &PyMemberDescr_Type);
  if (member && is_named(name, "__suppress_context__")) {
    return plan_value(recorder.constant(reinterpret_cast<PyBaseExceptionObject*>(object)->suppress_context ? Py_True : Py_False));
  }
  if (const uint32_t known = member ? recorder.attribute_of(value, name) : 0) return plan_value(known);
  // What a type in C keeps of one that a call has raised stays as it is.
  const bool by_call = recorder.recorded().containers[static_cast<size_t>(value.a)].raised.call != 0;
  if (member && by_call && is_written_in_c(PyDescr_TYPE(found))) {
    const Ref kept = Ref::steal(PyObject_GetAttr(object, name));
    if (kept && is_immutable(kept.get())) return plan_constant();
    PyErr_Clear();
  }
  const bool value_of_stop = is_named(name, "value") && Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
  if (value_of_stop) {
    const Value arguments = recorder.value(recorder.attribute_of(value, "args"));
    if (arguments.kind == Value::Kind::kConstant) return plan_constant();
    if (arguments.kind != Value::Kind::kTuple) return std::nullopt;
    const auto parts = recorder.elements(arguments);
    return plan_value(parts.empty() ? recorder.constant(Py_None) : parts[0]);
  }
  return std::nullopt;
}

// error.__traceback__ = ..., of one that the recorded code has made.
std::optional<Plan> store_into_exception(Recorder& recorder, const Operated& exception, PyObject* name, const Operated& value) {
  if (!recorder.is_exception(exception.label) || !value.label) return std::nullopt;
  PyObject* const found = _PyType_Lookup(Py_TYPE(exception.object), name);
  const bool own = found && Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyDescr_TYPE(found) == reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  if (!own || Py_TYPE(exception.object)->tp_setattro != PyObject_GenericSetAttr) return std::nullopt;
  const bool none = value.object == Py_None && recorder.constant_of(value.label), error = recorder.is_exception(value.label);
  const Value::Kind kind = recorder.value(value.label).kind;
  if (is_named(name, "__traceback__") && (none || kind == Value::Kind::kTraceback)) return changed_attribute(recorder, {}, exception.label, "__traceback__", value.label);
  if (is_named(name, "__context__") && (none || error)) return changed_attribute(recorder, {}, exception.label, "__context__", value.label);
  return std::nullopt;
}

// issubclass(kind, classes), where none of the classes has a say in it: kind isn't asked.
std::optional<Plan> class_test(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const issubclass = builtin<"issubclass">().get();
  if (callable != issubclass || call.count != 2 || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const kind = site.frame.slot(call.first);
  PyObject* const classes = site.frame.slot(call.first + 1);
  const auto is_plain = [](PyObject* object) {
    PyTypeObject* const metaclass = Py_TYPE(object);
    return PyType_Check(object) && (metaclass == &PyType_Type || (is_written_in_c(metaclass) && cpython::lookup(metaclass, "__subclasscheck__") == cpython::lookup(&PyType_Type, "__subclasscheck__")));
  };
  bool plain = PyType_Check(kind) && (PyTuple_Check(classes) || is_plain(classes));
  for (Py_ssize_t i = 0; PyTuple_Check(classes) && i < PyTuple_GET_SIZE(classes); i++) plain = plain && is_plain(PyTuple_GET_ITEM(classes, i));
  if (!plain || !fixes_classes(recorder, recorder.label(call.first), kind) || !fixes_classes(recorder, recorder.label(call.first + 1), classes)) return std::nullopt;
  if (PyType_HasFeature(reinterpret_cast<PyTypeObject*>(kind), Py_TPFLAGS_HEAPTYPE) && !recorder.fix_class(kind)) return std::nullopt;
  return plan_constant();
}

std::optional<Plan> exception_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (call.keyword_names || call.count < 1 || !site.recorder.is_exception(site.recorder.label(call.first))) return std::nullopt;
  if (is_method(callable, "add_note")) return add_note(site, call);
  if (is_method(callable, "with_traceback")) return with_traceback(site, call);
  PyObject* const object = site.frame.slot(call.first);
  const bool text = callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) && call.count == 1 && has_plain_text(object);
  if (callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) && call.count == 1 && has_text_of_groups(site.recorder, {site.recorder.label(call.first), object})) return plan_constant();
  return text && knows_arguments(site.recorder, site.recorder.label(call.first), object) ? std::optional<Plan>(plan_constant()) : std::nullopt;
}

void add_exception_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = nullptr) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(LOAD_ASSERTION_ERROR, load_assertion_error);
  add(RAISE_VARARGS, raise_varargs);
  add(RERAISE, reraise);
  add(PUSH_EXC_INFO, push_exc_info, push_exc_info_after);
  add(POP_EXCEPT, pop_except, pop_except_after);
  add(CHECK_EXC_MATCH, check_exc_match);
  add(WITH_EXCEPT_START, with_except_start);
}

}  // namespace evalframe::recorder
