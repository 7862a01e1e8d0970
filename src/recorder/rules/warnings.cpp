// Warnings in a graph: whom they are shown to, and warnings.warn. What is shown, and what is looked at, must be CPython's own code; the frames of inlined calls are there for it.
#include <string_view>

#include "core/c_function.h"
#include "cpython/versions.h"
#include "frontends/numpy/error_state.h"
#include "graph/leave.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// Borrowed; null: it isn't there.
PyObject* item(PyObject* dict, const char* name) { return dict ? PyDict_GetItemString(dict, name) : nullptr; }

bool is_plain_class(PyObject* type) { return PyType_Check(type) && Py_IS_TYPE(type, &PyType_Type); }

// The module's functions as they were when this was first asked.
struct Original {
  PyObject *dict = nullptr, *show = nullptr, *show_plainly = nullptr;
};
const Original& original() {
  static const Original* const found = [] {
    auto* const made = new Original;  // lives as long as the process
    const Ref module = Ref::steal(PyImport_ImportModule("warnings"));
    if (!module) return PyErr_Clear(), made;
    made->dict = Ref::borrow(PyModule_GetDict(module.get())).release();
    const auto keep = [&](const char* name) {
      PyObject* const object = item(made->dict, name);
      return object && PyFunction_Check(object) ? Ref::borrow(object).release() : nullptr;
    };
    made->show = keep("_showwarnmsg");
    made->show_plainly = keep("_showwarnmsg_impl");
    return made;
  }();
  return *found;
}

// Filters compare classes and search texts, in C.
bool filters_plainly(PyObject* filters) {
  if (!filters || !PyList_CheckExact(filters)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); i++) {
    PyObject* const filter = PyList_GET_ITEM(filters, i);
    if (!PyTuple_CheckExact(filter) || PyTuple_GET_SIZE(filter) != 5 || !is_plain_class(PyTuple_GET_ITEM(filter, 2))) return false;
    for (const int pattern : {1, 3}) {
      PyObject* const text = PyTuple_GET_ITEM(filter, pattern);
      if (text != Py_None && !PyUnicode_CheckExact(text) && std::string_view(Py_TYPE(text)->tp_name) != "re.Pattern") return false;
    }
  }
  return true;
}

bool look_where_they_go() {
  const Original& known = original();
  return !known.show || item(known.dict, "_showwarnmsg") != known.show || item(known.dict, "showwarning") != item(known.dict, "_showwarning_orig");
}

// Calls that are served ask it again and again.
bool go_to_program() {
  static uint64_t version = 0;  // of the module's dict, for which it was looked at last
  static bool go = true;
  PyObject* const dict = original().dict;
  if (!dict || cpython::dict_version(dict) != version) {
    go = look_where_they_go();
    version = dict && cpython::version_tells_all(dict) ? cpython::dict_version(dict) : 0;
  }
  return go;
}

// What is not filtered goes to sys.stderr, in C; or to the list of warnings.catch_warnings(record=True).
bool shows_plainly() {
  const Original& known = original();
  if (!known.show_plainly || go_to_program() || !item(known.dict, "showwarning")) return false;
  PyObject* const show = item(known.dict, "_showwarnmsg_impl");
  if (!show) return false;
  if (PyCFunction_Check(show)) {
    PyObject* const list = PyCFunction_GET_SELF(show);
    return list && PyList_CheckExact(list) && std::string_view(reinterpret_cast<PyCFunctionObject*>(show)->m_ml->ml_name) == "append";
  }
  PyObject* const stream = PySys_GetObject("stderr");
  const bool formats = item(known.dict, "formatwarning") && item(known.dict, "formatwarning") == item(known.dict, "_formatwarning_orig");
  return show == known.show_plainly && formats && stream && (stream == Py_None || (is_stream(stream) && runs_no_python(stream)));
}

PyObject* warn(PyObject*, PyObject* arguments, PyObject* keywords) {
  if (!filters_plainly(item(original().dict, "filters")) || !shows_plainly()) return graph::ask_to_leave(), nullptr;
  PyObject* const function = item(original().dict, "warn");
  return function ? PyObject_Call(function, arguments, keywords) : nullptr;
}

PyObject* tells(PyObject*, PyObject*) { return PyBool_FromLong(numpy::tells_program() || go_to_program()); }

PyObject* warn_in_graph() {
  return c_function<warn>("warn");
}

}  // namespace

PyObject* asks_tells_program() { return c_function<tells, METH_NOARGS>("tells_program"); }

bool is_warn(PyObject* callable) {
  static const PyObject* const function = [] {
    const Ref module = Ref::steal(PyImport_ImportModule("_warnings"));
    const Ref found = module ? Ref::steal(PyObject_GetAttrString(module.get(), "warn")) : Ref();
    PyErr_Clear();
    return found.get();  // the module has it
  }();
  return callable == function;
}

// A text, of a class that only type has a say in.
Plan warning_call(Recorder& recorder, const Given& given) {
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kCall;
  plan.callable = warn_in_graph();
  plan.keyword_names = given.keyword_names;
  plan.keywords = given.keywords();
  for (size_t i = 0; i < given.objects.size(); i++) {
    PyObject* const object = given.objects[i];
    const bool is_text = PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || object == Py_None || PyTuple_CheckExact(object);
    const bool is_class = recorder.value(given.labels[i]).kind == Value::Kind::kConstant && is_plain_class(object);
    if (!is_class && (!is_text || !recorder.known(given.labels[i], object))) return plan_break(Break::kUnknownCall, "warn with " + type_name(object));
    plan.operands.push_back(recorder.operand(given.labels[i], object));
    if (!plan.operands.back()) return plan_break(Break::kUnknownCall, "warn with " + type_name(object));
  }
  if (given.objects.empty() || !PyUnicode_CheckExact(given.objects[0])) return plan_break(Break::kUnknownCall, "warn");
  if (recorder.is_under_made_globals()) return plan_break(Break::kUnknownCall, "warn");
  recorder.recording().needs_frames = true;
  return plan;
}

}  // namespace evalframe::recorder
