// Rules for functions, methods and types of C's and of the standard library whose results follow from what is known.
#include <string>
#include <string_view>
#include <unordered_set>

#include "core/c_function.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

// By name: no other types in C, or modules of the library, have these.
struct PureNames {
  std::unordered_set<std::string_view> types, methods, functions;
};

const PureNames& pure() {
  static const PureNames* const made = [] {
    auto* const all = new PureNames;  // lives as long as the process
#define EVALFRAME_PURE_TYPE(type) all->types.insert(type);
#define EVALFRAME_PURE_METHOD(type, method) all->methods.insert(type "." #method);
#define EVALFRAME_PURE_FUNCTION(module, function) all->functions.insert(module "." #function);
#include "recorder/pure.def"
#undef EVALFRAME_PURE_TYPE
#undef EVALFRAME_PURE_METHOD
#undef EVALFRAME_PURE_FUNCTION
    return all;
  }();
  return *made;
}

std::string text_of(PyObject* text) {
  const char* const utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "";
}

}  // namespace

// The file of the code lies where the interpreter has the standard library's.
bool is_in_library(PyObject* function) {
  static const Ref* const directory = [] {
    PyObject* const found = PySys_GetObject("_stdlib_dir");
    return new Ref(found && PyUnicode_Check(found) ? Ref::borrow(found) : Ref());
  }();
  PyObject* const file = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code)->co_filename;
  return !*directory || PyUnicode_Tailmatch(file, directory->get(), 0, PY_SSIZE_T_MAX, -1) != 0;
}

std::string name_in_library(PyObject* function) {
  if (!is_in_library(function)) return "";
  auto* const of = reinterpret_cast<PyFunctionObject*>(function);
  auto* const code = reinterpret_cast<PyCodeObject*>(of->func_code);
  const std::string name = text_of(PyDict_GetItemString(of->func_globals, "__name__")) + "." + text_of(code->co_name);
  const std::string file = text_of(PyDict_GetItemString(of->func_globals, "__file__"));
  return file == text_of(code->co_filename) ? name : "";
}

std::string name_in_module(PyObject* function) {
  PyObject* const self = PyCFunction_GET_SELF(function);
  if (!self || !PyModule_CheckExact(self)) return "";
  const auto* const of = reinterpret_cast<PyCFunctionObject*>(function);
  return text_of(of->m_module) + "." + of->m_ml->ml_name;
}

namespace {

bool is_pure_function(PyObject* callable) {
  if (PyFunction_Check(callable)) return pure().functions.contains(name_in_library(callable));
  if (Py_TYPE(callable) == &PyMethodDescr_Type) return is_written_in_c(PyDescr_TYPE(callable)) && pure().methods.contains(name_in_type(callable));
  if (!PyCFunction_CheckExact(callable)) return false;
  if (callable == matches_of_pattern()) return true;
  PyObject* const self = PyCFunction_GET_SELF(callable);
  // A static method, of which the type has one.
  static PyObject* const makes_table = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "maketrans");
  if (callable == makes_table) return pure().methods.contains("str.maketrans");
  if (!self || !PyType_Check(self)) return pure().functions.contains(name_in_module(callable));
  const auto* const type = reinterpret_cast<PyTypeObject*>(self);
  return is_written_in_c(type) && pure().methods.contains(std::string(type->tp_name) + "." + reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
}

// What no locale and no time zone of the process has a part in.
bool is_plain_date_format(std::string_view format) {
  for (size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at + 2)) {
    if (at + 1 >= format.size() || std::string_view("YmdHMSfjyGuVUWw%").find(format[at + 1]) == std::string_view::npos) return false;
  }
  return true;
}

// Which fields a text has: of those whose specification asks for a locale (`n`), or is itself made of fields.
struct Fields {
  bool of_locale = false, nested = false;
};
Fields fields_of(std::string_view text) {
  Fields found;
  bool in_spec = false;
  for (const char letter : text) {
    if (in_spec && letter == 'n') found.of_locale = true;
    if (in_spec && letter == '{') found.nested = true;
    in_spec = letter == ':' || (in_spec && letter != '}');
  }
  return found;
}

// What the process's locale makes of numbers: of one with many groups of digits, and one with a point.
PyObject* numbers_of_locale(PyObject*, PyObject*) {
  const Ref number = Ref::steal(PyLong_FromString("1234567890123456789012345678901234567890", nullptr, 10)), half = Ref::steal(PyFloat_FromDouble(0.5));
  const Ref spec = Ref::steal(PyUnicode_FromString("n"));
  if (!number || !half || !spec) return nullptr;
  const Ref texts[] = {Ref::steal(PyObject_Format(number.get(), spec.get())), Ref::steal(PyObject_Format(half.get(), spec.get()))};
  return texts[0] && texts[1] ? PyUnicode_Concat(texts[0].get(), texts[1].get()) : nullptr;
}

// The locale stays as it is, by a check in the graph. False: it can't be told.
bool fixes_locale(Recorder& recorder) {
  PyObject* const function = c_function<numbers_of_locale, METH_NOARGS>("numbers_of_locale");
  const Ref numbers = Ref::steal(numbers_of_locale(nullptr, nullptr));
  if (!numbers) return PyErr_Clear(), false;
  Plan node;
  node.callable = function;
  recorder.check_constant(recorder.node_value(recorder.add_node(node, numbers.get()), false), numbers.get());
  return true;
}

bool is_plain_template(Recorder& recorder, std::string_view text) {
  const Fields fields = fields_of(text);
  return !fields.nested && (!fields.of_locale || fixes_locale(recorder));
}

bool reads_nothing_else(Recorder& recorder, const Given& given, const std::string& name) {
  const auto text = [&](size_t i) { return i < given.objects.size() ? text_of(given.objects[i]) : std::string(); };
  if (name.ends_with(".strftime")) return is_plain_date_format(text(1));
  if (name == "str.format" || name == "str.format_map") return is_plain_template(recorder, text(0));
  return name != "format" || is_plain_template(recorder, ":" + text(1));
}

// A flag of a regular expression: a member of an enumeration that the module keeps, or its default, which is a zero of a class of its own.
bool is_flag(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  const std::string_view type = Py_TYPE(object)->tp_name;
  if ((type != "RegexFlag" && type != "_ZeroSentinel") || value.kind != Value::Kind::kSource) return false;
  recorder.guards().require_identity(value.a, object);
  return true;
}

}  // namespace

bool is_written_in_c(const PyTypeObject* type) { return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE); }

std::string name_in_type(PyObject* method) {
  const auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(method);
  return std::string(descriptor->d_common.d_type->tp_name) + "." + descriptor->d_method->ml_name;
}

bool has_pure_type(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  if (!is_written_in_c(type) || !pure().types.contains(type->tp_name)) return false;
  const std::string_view name = type->tp_name;
  const char* const part = name == "re.Match" ? "string" : name == "datetime.datetime" || name == "datetime.time" ? "tzinfo" : nullptr;
  if (!part) return true;
  const Ref held = Ref::steal(PyObject_GetAttrString(object, part));
  if (!held) return PyErr_Clear(), false;
  return held.get() == Py_None || PyUnicode_CheckExact(held.get()) || PyBytes_CheckExact(held.get()) || pure().types.contains(Py_TYPE(held.get())->tp_name);
}

std::optional<Plan> pure_function_call(Recorder& recorder, PyObject* callable, const Given& given) {
  const bool type = PyType_Check(callable) && is_written_in_c(reinterpret_cast<PyTypeObject*>(callable)) && pure().types.contains(reinterpret_cast<PyTypeObject*>(callable)->tp_name);
  if (!type && !is_pure_function(callable)) return std::nullopt;
  for (size_t i = 0; i < given.labels.size(); i++) {
    if (recorder.is_iterator(given.labels[i]) || adds_missing_keys(recorder, given.labels[i])) return std::nullopt;
    if (!is_known_through(recorder, given.labels[i], given.objects[i]) && !is_flag(recorder, given.labels[i], given.objects[i])) return std::nullopt;
  }
  const std::string name = Py_TYPE(callable) == &PyMethodDescr_Type ? name_in_type(callable) : PyCFunction_Check(callable) ? reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name : "";
  if (!reads_nothing_else(recorder, given, name)) return std::nullopt;
  if (PyFunction_Check(callable)) recorder.guards().require_function(callable);
  return plan_known_call(recorder, callable, given);
}

}  // namespace evalframe::recorder
