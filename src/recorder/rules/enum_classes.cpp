// Rules for class statements of enumerations. The body is followed with a plain dict for its names, where it does nothing that another would
// show; the module enum makes the class of that, as it is while it is recorded, and what it has made is taken over.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "core/builtins.h"
#include "core/object_text.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "cpython/codec.h"
#include "cpython/frame.h"
#include "recorder/rules/rules.h"
#include "recorder/rules/taken_over.h"

namespace evalframe::recorder {

namespace {

using bytecode::Op;
using evaluator::Activation;

// The names of the module enum; null: it isn't loaded.
PyObject* names_of_enum() {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "enum") : nullptr;
  return module && PyModule_CheckExact(module) ? PyModule_GetDict(module) : nullptr;
}

bool is_in_enum(PyObject* object, const char* name) {
  PyObject* const names = names_of_enum();
  return names && PyDict_GetItemString(names, name) == object;
}

bool is_base_of_enums(PyObject* base) {
  for (PyTypeObject* const type : {&PyLong_Type, &PyUnicode_Type}) {
    if (base == reinterpret_cast<PyObject*>(type)) return true;
  }
  constexpr const char* kNames[] = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ReprEnum"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return is_in_enum(base, name); });
}

// What a body may do without being told that its dict is a plain one.
bool is_plain_in_body(Op op) {
  using enum Op;
  constexpr Op kPlain[] = {RESUME, NOP, LOAD_CONST, LOAD_NAME, STORE_NAME, LOAD_ATTR, LOAD_METHOD, PUSH_NULL, CALL, BUILD_TUPLE, MAKE_FUNCTION,
                           SET_FUNCTION_ATTRIBUTE, LOAD_CLOSURE, LOAD_FAST, MAKE_CELL, COPY_FREE_VARS, COPY, RETURN_VALUE, RETURN_CONST, POP_TOP};
  return std::find(std::begin(kPlain), std::end(kPlain), op) != std::end(kPlain);
}

bool is_special(std::string_view name) { return name.starts_with("__") && name.ends_with("__"); }

// What the body reads from outside: it makes a value of a member, or wraps up a method.
bool is_plain_to_read(PyObject* function, PyObject* name) {
  const auto* const of = reinterpret_cast<PyFunctionObject*>(function);
  PyObject* found = PyDict_CheckExact(of->func_globals) ? PyDict_GetItemWithError(of->func_globals, name) : nullptr;
  if (!found && PyDict_CheckExact(of->func_builtins)) found = PyDict_GetItemWithError(of->func_builtins, name);
  if (!found) return false;
  for (PyTypeObject* const type : {&PyProperty_Type, &PyStaticMethod_Type, &PyClassMethod_Type}) {
    if (found == reinterpret_cast<PyObject*>(type)) return true;
  }
  const bool module = PyModule_CheckExact(found) && PyModule_GetDict(found) == names_of_enum();
  return module || is_in_enum(found, "auto") || is_immutable(found);
}

// Each name is stored once, and nothing is stored under a name that enum has a use for.
bool is_plain_body(PyObject* function) {
  PyObject* const code = reinterpret_cast<PyFunctionObject*>(function)->func_code;
  const bytecode::Code* const decoded = cpython::decoded(code);
  if (!decoded) return PyErr_Clear(), false;
  PyObject* const names = reinterpret_cast<PyCodeObject*>(code)->co_names;
  std::unordered_set<std::string_view> stored;
  for (const bytecode::Instruction& instruction : decoded->instructions) {
    if (!is_plain_in_body(instruction.op)) return false;
    if (bytecode::argument_kind(instruction.op) != bytecode::Argument::name) continue;
    PyObject* const name = PyTuple_GET_ITEM(names, instruction.arg);
    const std::string_view text = utf8(name);
    if (instruction.op == Op::STORE_NAME && (!stored.insert(text).second || (text.starts_with("_") && !is_special(text)))) return false;
    // A member's value may be another there than what was stored.
    if (instruction.op == Op::LOAD_NAME && (stored.contains(text) || (text != "__name__" && !is_plain_to_read(function, name)))) return false;
    if ((instruction.op == Op::LOAD_ATTR || instruction.op == Op::LOAD_METHOD) && text != "auto") return false;
  }
  return true;
}

// What the class statement has left under the name runs no code of the program's while enum makes the class.
bool is_plain_content(Recorder& recorder, std::string_view name, uint32_t label, PyObject* object) {
  const Value::Kind kind = recorder.value(label).kind;
  if (is_special(name)) {
    constexpr std::string_view kTexts[] = {"__str__", "__repr__", "__format__"};
    constexpr std::string_view kFacts[] = {"__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"};
    const bool text = std::find(std::begin(kTexts), std::end(kTexts), name) != std::end(kTexts);
    return text ? kind == Value::Kind::kFunction : std::find(std::begin(kFacts), std::end(kFacts), name) != std::end(kFacts) && is_immutable(object);
  }
  if (is_immutable(object)) return recorder.known(label, object);
  if (kind == Value::Kind::kFunction || is_made_descriptor(recorder, label)) return true;
  static PyObject* const of_value = PyUnicode_InternFromString("value");
  const bool is_auto = kind == Value::Kind::kInstance && is_in_enum(reinterpret_cast<PyObject*>(Py_TYPE(object)), "auto");
  PyObject* const value = is_auto ? cpython::own_value(object, of_value) : nullptr;
  return value && is_in_enum(value, "_auto_null");
}

void add_bases(TakenOver& made, PyTypeObject* type) {
  PyObject* value = nullptr;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    PyObject* const dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, nullptr, &value);) {
      made.add_fixed(value);
      const Ref function = Py_IS_TYPE(value, &PyStaticMethod_Type) ? Ref::steal(PyObject_GetAttrString(value, "__func__")) : Ref();
      if (function) made.add_fixed(function.get());
      if (PyErr_Occurred()) PyErr_Clear();
    }
  }
}

// The class that the call has made; 0: something in it isn't known. Plan::contents: the cell, the name, the bases, and what the body has left.
uint32_t enum_made(Recorder& recorder, const Plan& plan, PyObject* result) {
  auto* const type = reinterpret_cast<PyTypeObject*>(result);
  if (!PyType_Check(result) || !is_in_enum(reinterpret_cast<PyObject*>(Py_TYPE(result)), "EnumType")) return 0;
  const uint32_t label = recorder.new_class(recorder.constant(reinterpret_cast<PyObject*>(Py_TYPE(result))), plan.contents[1], plan.contents[2], {});
  recorder.made_class(label, result);
  TakenOver& made = *plan.taken_over;
  made.add(label, result);
  add_bases(made, type);
  std::vector<uint32_t> body;
  std::vector<std::pair<PyObject*, uint32_t>> later;
  for (size_t i = 3; i < plan.contents.size(); i += 2) {
    PyObject* const name = recorder.constant_of(plan.contents[i]);
    if (PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0) body.insert(body.end(), {plan.contents[i], plan.contents[i + 1]});
    made.add(plan.contents[i + 1], PyDict_GetItemWithError(plan.finishes.get(), name));
  }
  bool is_done = false;  // the class was there: what comes then was stored into it
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &key, &value);) {
    const bool by_type = is_put_by_type(type, value);
    const uint32_t content = by_type ? 0 : made.label_of(value);
    if (!by_type && !content) return 0;
    // type would make a static method of __new__.
    is_done = is_done || by_type || PyUnicode_CompareWithASCIIString(key, "__new__") == 0;
    if (content && is_done) later.emplace_back(key, content);
    if (content && !is_done) body.insert(body.end(), {recorder.constant(key), content});
  }
  recorder.fill_class(result, body);
  for (const auto& [name, content] : later) recorder.change_class(result, name, content);
  if (plan.contents[0]) recorder.append(recorder.value(plan.contents[0]), label);
  return label;
}

}  // namespace

bool is_plain_enum(Recorder& recorder, PyTypeObject* metaclass, const std::vector<PyObject*>& bases, PyObject* body) {
  if (!is_in_enum(reinterpret_cast<PyObject*>(metaclass), "EnumType") || !std::all_of(bases.begin(), bases.end(), is_base_of_enums)) return false;
  return is_plain_body(body) && recorder.fix_class(reinterpret_cast<PyObject*>(metaclass));
}

std::optional<Plan> enum_making(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != cpython::maker_of_enums() || call.count != 4) return std::nullopt;
  Recorder& recorder = site.recorder;
  const auto at = [&](int i) { return Operated{recorder.label(call.first + i), site.frame.slot(call.first + i)}; };
  const auto unknown = [&] { return plan_break(Break::kUnknownCall, "enum with what may be others"); };
  uint32_t cell = 0;
  std::optional<std::vector<uint32_t>> body = left_by_body(site, reinterpret_cast<PyTypeObject*>(at(0).object), at(3), cell);
  if (!body || recorder.value(at(2).label).kind != Value::Kind::kTuple || !recorder.known(at(1).label, at(1).object)) return unknown();
  Plan plan = plan_value(0);
  std::vector<uint32_t> bases;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(at(2).object); i++) bases.push_back(recorder.constant(PyTuple_GET_ITEM(at(2).object, i)));
  plan.contents = {cell, recorder.constant(at(1).object), recorder.container(Value::Kind::kTuple, std::move(bases))};
  plan.taken_over = std::make_shared<TakenOver>(recorder, names_of_enum(), cpython::globals_of(site.frame.frame()));
  for (size_t i = 0; i < body->size(); i += 2) {
    PyObject* const name = recorder.constant_of((*body)[i]);
    PyObject* const value = PyDict_GetItemWithError(at(3).object, name);
    if (!value || !is_plain_content(recorder, utf8(name), (*body)[i + 1], value)) return unknown();
    plan.contents.insert(plan.contents.end(), {(*body)[i], (*body)[i + 1]});
  }
  plan.finishes = Ref::steal(PyDict_Copy(at(3).object));
  if (!plan.finishes) return PyErr_Clear(), unknown();
  plan.takes_over = enum_made;
  return plan;
}

}  // namespace evalframe::recorder
