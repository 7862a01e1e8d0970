// Rules for classes that the recorded code makes: class statements, type(name, bases, names), and what stands in class bodies.
#include <algorithm>
#include <string_view>

#include "core/builtins.h"
#include "core/object_text.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// What type.__new__ takes from the names for itself: the class is made with it.
bool is_taken_at_once(PyObject* name) {
  return is_named(name, "__slots__") || is_named(name, "__qualname__") || is_named(name, "__module__") || is_named(name, "__doc__");
}

// The metaclass of a class with such bases; null: there is none, or bases aren't classes.
PyTypeObject* metaclass_of(PyTypeObject* wanted, PyObject* const* bases, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!PyType_Check(bases[i])) return nullptr;
    PyTypeObject* const of = Py_TYPE(bases[i]);
    if (PyType_IsSubtype(wanted, of)) continue;
    if (!PyType_IsSubtype(of, wanted)) return nullptr;
    wanted = of;
  }
  return wanted;
}

// One object in all runs that stays as it is, or a class that the recorded code has made.
bool fixes_base(Recorder& recorder, uint32_t label, PyObject* base) {
  if (!PyType_Check(base) || !fixes_object(recorder, label, base)) return false;
  return PyType_HasFeature(reinterpret_cast<PyTypeObject*>(base), Py_TPFLAGS_IMMUTABLETYPE) || recorder.fix_class(base);
}

// Bases as values; none: not known one by one, or they may change.
std::optional<std::vector<uint32_t>> bases_of(Recorder& recorder, uint32_t label, PyObject* bases) {
  if (!PyTuple_CheckExact(bases)) return std::nullopt;
  std::optional<std::vector<uint32_t>> parts = parts_of(recorder, label, bases);
  for (size_t i = 0; parts && i < parts->size(); i++) {
    if (!fixes_base(recorder, (*parts)[i], PyTuple_GET_ITEM(bases, i))) return std::nullopt;
    (*parts)[i] = recorder.constant(PyTuple_GET_ITEM(bases, i));
  }
  return parts;
}

// A field of a dataclass, which the recorded code has made: it tells its default value alone.
bool is_silent_field(Recorder& recorder, uint32_t label, PyObject* told, PyObject* value) {
  if (recorder.value(label).kind != Value::Kind::kInstance || name_in_library(told) != "dataclasses.__set_name__") return false;
  const uint32_t known = recorder.attribute_of(recorder.value(label), "default");
  static PyObject* const name = PyUnicode_InternFromString("default");
  PyObject* const object = known ? cpython::own_value(value, name) : nullptr;
  bool found = true;
  if (object) cpython::set_name_of(object, &found);
  return !found && fixes_type(recorder, known, object);
}

// Python code is told of the new class, by what it has.
bool tells_contents(Recorder& recorder, const Operated& names) {
  const std::vector<uint32_t> items = recorder.copied_elements(recorder.value(names.label));
  PyObject *key = nullptr, *value = nullptr;
  size_t item = 0;
  for (Py_ssize_t at = 0; PyDict_Next(names.object, &at, &key, &value); item += 2) {
    bool found = false;
    PyObject* const told = cpython::set_name_of(value, &found);
    if (told ? !is_silent_field(recorder, items[item + 1], told, value) : found && PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) return true;
  }
  return false;
}

// The function of Python's that one of the bases has for __init_subclass__; null: none. False: several may be asked, or something else.
bool find_told(PyObject* const* bases, Py_ssize_t count, PyObject*& told) {
  for (Py_ssize_t i = 0; i < count; i++) {
    bool found = false;
    PyObject* const function = cpython::init_subclass_of(reinterpret_cast<PyTypeObject*>(bases[i]), &found);
    if (found && (!function || (told && told != function))) return false;
    told = function ? function : told;
  }
  return true;
}

// What abc.ABCMeta has for __new__, and nobody has replaced.
bool is_maker_of_abstract_bases(Recorder& recorder, PyObject* method) {
  const Ref function = method && Py_IS_TYPE(method, &PyStaticMethod_Type) ? Ref::steal(PyObject_GetAttrString(method, "__func__")) : Ref();
  if (!function) PyErr_Clear();
  if (!function || !PyFunction_Check(function.get())) return false;
  const auto* const of = function.as<PyFunctionObject>();
  PyObject *const file = reinterpret_cast<PyCodeObject*>(of->func_code)->co_filename, *const module = PyDict_GetItemString(of->func_globals, "__name__");
  const bool frozen = is_named(file, "<frozen abc>") && module && PyUnicode_Check(module) && is_named(module, "abc") && is_named(of->func_qualname, "ABCMeta.__new__");
  if (!frozen && name_in_library(function.get()) != "abc.__new__") return false;
  recorder.guards().require_function(function.get());
  return true;
}

// Whether the metaclass makes classes as type does, or as abc.ABCMeta, and stays so.
bool makes_plainly(Recorder& recorder, PyTypeObject* metaclass) {
  if (metaclass == &PyType_Type) return true;
  if (Py_TYPE(metaclass) != &PyType_Type || !recorder.fix_class(metaclass) || metaclass->tp_init != PyType_Type.tp_init) return false;
  for (const char* const name : {"__prepare__", "mro"}) {
    if (cpython::lookup(metaclass, name) != cpython::lookup(&PyType_Type, name)) return false;
  }
  return metaclass->tp_new == PyType_Type.tp_new || is_maker_of_abstract_bases(recorder, cpython::lookup(metaclass, "__new__"));
}

// A method of a metaclass's that is type's own, or (`followed` is set) a function of Python's in a descriptor of this type; null: itself.
bool is_followed_or_of_type(PyTypeObject* metaclass, const char* name, PyTypeObject* wrapper, bool& followed) {
  PyObject* const found = cpython::lookup(metaclass, name);
  followed = found != cpython::lookup(&PyType_Type, name);
  if (!followed) return true;
  if (!wrapper || !found) return found && is_plain_function(found) && !is_in_library(found);
  const Ref function = Py_IS_TYPE(found, wrapper) ? Ref::steal(PyObject_GetAttrString(found, "__func__")) : Ref();
  if (!function) PyErr_Clear();
  return function && is_plain_function(function.get()) && !is_in_library(function.get());
}

// What a metaclass of the program's has a say in.
struct Methods {
  bool prepares = false, makes = false, initialises = false;
};
// None: in more than its methods in Python can be followed for.
std::optional<Methods> methods_of(Recorder& recorder, PyTypeObject* metaclass) {
  if (Py_TYPE(metaclass) != &PyType_Type || !recorder.fix_class(metaclass)) return std::nullopt;
  Methods methods;
  bool computes_order = false;
  const bool known = is_followed_or_of_type(metaclass, "__prepare__", &PyClassMethod_Type, methods.prepares) &&
                     is_followed_or_of_type(metaclass, "__new__", &PyStaticMethod_Type, methods.makes) &&
                     is_followed_or_of_type(metaclass, "__init__", nullptr, methods.initialises) &&
                     is_followed_or_of_type(metaclass, "mro", nullptr, computes_order);
  return known && !computes_order ? std::optional(methods) : std::nullopt;
}

// type wraps some functions up.
uint32_t wrapped(Recorder& recorder, PyObject* name, uint32_t label, PyObject* value) {
  if (!PyFunction_Check(value) || recorder.value(label).kind != Value::Kind::kFunction) return label;
  const bool of_class = is_named(name, "__init_subclass__") || is_named(name, "__class_getitem__");
  if (!of_class && !is_named(name, "__new__")) return label;
  recorder.adopt(label, value);
  return recorder.made(reinterpret_cast<PyObject*>(of_class ? &PyClassMethod_Type : &PyStaticMethod_Type), nullptr, {label});
}

// Whether all runs have such a value there, as far as it has a say in what the class's attributes are.
bool fixes_content(Recorder& recorder, PyTypeObject* metaclass, PyObject* name, uint32_t label, PyObject* value) {
  const Value known = recorder.value(label);
  const bool constant = known.kind == Value::Kind::kConstant && !known.b;
  if (is_taken_at_once(name)) return constant && is_immutable(value);
  PyObject* const of_metaclass = _PyType_Lookup(metaclass, name);
  if (!constant && of_metaclass && Py_TYPE(of_metaclass)->tp_descr_set && !is_named(name, "__annotations__")) return false;
  if (known.kind == Value::Kind::kSource) return guards::is_class_data(value) ? fixes_type(recorder, label, value) : fixes_object(recorder, label, value);
  return known.kind != Value::Kind::kNode || guards::is_class_data(value);
}

}  // namespace

std::optional<std::vector<uint32_t>> left_by_body(const Site& site, PyTypeObject* metaclass, const Operated& names, uint32_t& cell) {
  Recorder& recorder = site.recorder;
  if (recorder.value(names.label).kind != Value::Kind::kDict || !PyDict_CheckExact(names.object)) return std::nullopt;
  const std::vector<uint32_t> items = recorder.copied_elements(recorder.value(names.label));
  std::vector<uint32_t> body;
  for (size_t i = 0; i < items.size(); i += 2) {
    PyObject* const name = recorder.constant_of(items[i]);
    PyObject* const value = name && PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(names.object, name) : nullptr;
    if (!value) return std::nullopt;
    if (is_named(name, "__classcell__")) {
      if (recorder.value(items[i + 1]).kind != Value::Kind::kCell) return std::nullopt;
      cell = items[i + 1];
      continue;
    }
    uint32_t label = items[i + 1];
    if (is_named(name, "__slots__") && recorder.known(label, value)) label = recorder.constant(value);
    if (!fixes_content(recorder, metaclass, name, label, value)) return std::nullopt;
    body.insert(body.end(), {items[i], wrapped(recorder, name, label, value)});
  }
  return body;
}

namespace {

// A class outside of class statements is in the module whose code makes it.
bool add_module(const Site& site, std::vector<uint32_t>& body) {
  Recorder& recorder = site.recorder;
  for (size_t i = 0; i < body.size(); i += 2) {
    if (is_named(recorder.constant_of(body[i]), "__module__")) return true;
  }
  Borrowed globals = cpython::globals_of(site.frame.frame());
  const Ref name = Ref::steal(PyUnicode_InternFromString("__name__")), module = Ref::steal(PyUnicode_InternFromString("__module__"));
  PyObject* const value = PyDict_CheckExact(globals.get()) ? PyDict_GetItemWithError(globals.get(), name.get()) : nullptr;
  if (!value || !PyUnicode_CheckExact(value) || recorder.stored(globals, name.get()) || !recorder.known(recorder.name_source(globals, name.get()), value)) return false;
  body.insert(body.end(), {recorder.constant(module.get()), recorder.constant(value)});
  return true;
}

Operated truth_argument(Recorder& recorder, bool truth) {
  PyObject* const object = truth ? Py_True : Py_False;
  return {recorder.constant(object), object};
}

// A call of a metaclass of the program's that makes classes as type does, and may have an __init__ for them: of names with a module, as
// the stand-in's frame is none of the program's.
std::optional<Plan> class_of_followed(const Site& site, const Activation::CallSite& call, PyTypeObject* metaclass) {
  Recorder& recorder = site.recorder;
  PyObject *const bases = site.frame.slot(call.first + 1), *const names = site.frame.slot(call.first + 2);
  if (!PyDict_CheckExact(names) || !PyDict_GetItemString(names, "__module__") || !PyTuple_CheckExact(bases) || !bases_of(recorder, recorder.label(call.first + 1), bases)) return std::nullopt;
  const std::optional<Methods> methods = methods_of(recorder, metaclass);
  const Py_ssize_t count = PyTuple_GET_SIZE(bases);
  PyObject* told = nullptr;
  const bool known = methods && !methods->makes && metaclass_of(metaclass, &PyTuple_GET_ITEM(bases, 0), count) == metaclass && find_told(&PyTuple_GET_ITEM(bases, 0), count, told);
  std::optional<Plan> plan = known ? stand_in_call(site, "class_initialised", nullptr) : std::nullopt;
  if (!plan) return std::nullopt;
  give(*plan, {recorder.constant(metaclass), reinterpret_cast<PyObject*>(metaclass)});
  give(*plan, {recorder.constant(told ? told : Py_None), told ? told : Py_None});
  give(*plan, truth_argument(recorder, methods->initialises));
  for (int i = call.first; i < call.first + call.count; i++) give(*plan, {recorder.label(i), site.frame.slot(i)});
  return plan;
}

// Whether it is a metaclass, but for type itself.
bool is_metaclass(PyObject* callable) {
  return PyType_Check(callable) && callable != reinterpret_cast<PyObject*>(&PyType_Type) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(callable), &PyType_Type);
}

}  // namespace

// type(name, bases, names), type.__new__(metaclass, name, bases, names), and what a class statement of another metaclass does.
std::optional<Plan> class_making(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const new_of_type = cpython::lookup(&PyType_Type, "__new__");
  if (is_metaclass(callable) && call.count == 3 && !call.keyword_names) return class_of_followed(site, call, reinterpret_cast<PyTypeObject*>(callable));
  const bool by_new = callable == new_of_type && call.count == 4 && PyType_Check(site.frame.slot(call.first));
  const bool bare = callable == cpython::maker_of_classes() || by_new;
  if ((!bare && (callable != reinterpret_cast<PyObject*>(&PyType_Type) || call.count != 3)) || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  const auto at = [&](int i) { return Operated{recorder.label(call.first + i + bare), site.frame.slot(call.first + i + bare)}; };
  const auto unknown = [&](const char* what) { return plan_break(Break::kUnknownCall, std::string("type with ") + what); };
  if (!PyUnicode_CheckExact(at(0).object) || !recorder.known(at(0).label, at(0).object)) return unknown("a name that isn't known");
  std::optional<std::vector<uint32_t>> bases = bases_of(recorder, at(1).label, at(1).object);
  if (!bases) return unknown("bases that may be others");
  PyObject* const* const base_objects = &PyTuple_GET_ITEM(at(1).object, 0);
  PyTypeObject* const wanted = bare ? reinterpret_cast<PyTypeObject*>(site.frame.slot(call.first)) : &PyType_Type;
  PyTypeObject* const metaclass = metaclass_of(wanted, base_objects, PyTuple_GET_SIZE(at(1).object));
  if (metaclass != wanted) return unknown("a metaclass");
  const bool any = by_new && metaclass != &PyType_Type && PyType_IsSubtype(metaclass, &PyType_Type);
  if (by_new && !(any && fixes_object(recorder, recorder.label(call.first), site.frame.slot(call.first)) && methods_of(recorder, metaclass))) return unknown("a metaclass");
  uint32_t cell = 0;
  std::optional<std::vector<uint32_t>> body = left_by_body(site, metaclass, at(2), cell);
  if (!body || !add_module(site, *body)) return unknown("names that may be others");
  PyObject* told = nullptr;
  const bool tells = !find_told(base_objects, PyTuple_GET_SIZE(at(1).object), told) || (told && (!bare || by_new)) || tells_contents(recorder, at(2));
  if (tells) return unknown("a hook of Python's");
  const uint32_t base_tuple = recorder.container(Value::Kind::kTuple, *std::move(bases));
  Plan plan = plan_value(recorder.new_class(recorder.constant(reinterpret_cast<PyObject*>(metaclass)), recorder.constant(at(0).object), base_tuple, *body));
  plan.makes_class = true;
  plan.contents = {cell};
  return plan;
}

namespace {

// What the call of a class statement says, behind the body and the name: bases, and keywords in the slots from `first_keyword` on.
struct Statement {
  const Activation::CallSite& call;
  int first_keyword;
  PyTypeObject* metaclass = &PyType_Type;
  std::vector<int> keywords;  // those that go to the bases
  PyObject* told = nullptr;   // a base's `__init_subclass__`
  bool is_enum = false;
  std::optional<Methods> methods;  // the metaclass is followed

  PyObject* keyword(int slot) const { return PyTuple_GET_ITEM(call.keyword_names.get(), slot - first_keyword); }
};

// False: the metaclass that is given isn't known, or is none.
bool read_keywords(const Site& site, Statement& statement) {
  for (int i = statement.first_keyword; i < statement.call.first + statement.call.count; i++) {
    PyObject* const given = site.frame.slot(i);
    if (!is_named(statement.keyword(i), "metaclass")) {
      statement.keywords.push_back(i);
      continue;
    }
    if (!PyType_Check(given) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(given), &PyType_Type)) return false;
    if (!fixes_object(site.recorder, site.recorder.label(i), given)) return false;
    statement.metaclass = reinterpret_cast<PyTypeObject*>(given);
  }
  return true;
}

// False: one of the bases isn't known, or there is no metaclass for all of them.
bool read_bases(const Site& site, Statement& statement) {
  for (int i = statement.call.first + 2; i < statement.first_keyword; i++) {
    PyObject* const base = site.frame.slot(i);
    statement.metaclass = metaclass_of(statement.metaclass, &base, 1);
    if (!statement.metaclass || !fixes_base(site.recorder, site.recorder.label(i), base) || !find_told(&base, 1, statement.told)) return false;
  }
  return true;
}

// The names of the keywords that go to the bases; null with an exception.
Ref names_for_bases(const Statement& statement) {
  Ref names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(statement.keywords.size())));
  for (size_t i = 0; names && i < statement.keywords.size(); i++) PyTuple_SET_ITEM(names.get(), i, Py_NewRef(statement.keyword(statement.keywords[i])));
  return names;
}

// The call of what stands in for the statement.
std::optional<Plan> call_of_statement(const Site& site, const Statement& statement) {
  Recorder& recorder = site.recorder;
  const bool plain = statement.metaclass == &PyType_Type && !statement.told;
  Ref names = statement.keywords.empty() ? Ref() : names_for_bases(statement);
  if (!names && !statement.keywords.empty()) return PyErr_Clear(), std::nullopt;
  const char* const stand_in = statement.is_enum ? "enum_made" : statement.methods ? "class_called" : plain ? "class_made" : "class_told";
  std::optional<Plan> plan = stand_in_call(site, stand_in, names.get());
  if (!plan) return std::nullopt;
  if (names) plan->held.push_back(std::move(names));
  PyObject* const metaclass = reinterpret_cast<PyObject*>(statement.metaclass);
  PyObject* const told = statement.told ? statement.told : Py_None;
  if (!plain) give(*plan, {recorder.constant(metaclass), metaclass});
  if (statement.methods) {
    give(*plan, truth_argument(recorder, statement.methods->prepares));
  } else if (!plain && !statement.is_enum) {
    give(*plan, {recorder.constant(told), told});
  }
  for (int i = statement.call.first; i < statement.first_keyword; i++) give(*plan, {recorder.label(i), site.frame.slot(i)});
  for (const int i : statement.keywords) give(*plan, {recorder.label(i), site.frame.slot(i)});
  return plan;
}

}  // namespace

// A class statement: its body is followed, and then the call that makes the class, and one of what a base has for __init_subclass__.
std::optional<Plan> class_statement(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != builtin<"__build_class__">().get() || call.count < 2) return std::nullopt;
  Recorder& recorder = site.recorder;
  const int named = call.keywords();
  Statement statement{call, call.first + call.count - named};
  PyObject *const body = site.frame.slot(call.first), *const name = site.frame.slot(call.first + 1);
  const auto unknown = [&] { return plan_break(Break::kUnknownCall, "class " + std::string(utf8(name))); };
  if (named > call.count - 2 || !PyFunction_Check(body) || recorder.value_at(call.first).kind != Value::Kind::kFunction) return unknown();
  if (reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(body)->func_code)->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) return unknown();
  if (!read_keywords(site, statement) || !read_bases(site, statement)) return unknown();
  if (statement.keywords.empty()) {
    std::vector<PyObject*> bases;
    for (int i = call.first + 2; i < statement.first_keyword; i++) bases.push_back(site.frame.slot(i));
    statement.is_enum = is_plain_enum(recorder, statement.metaclass, bases, body);
  }
  const bool plain = statement.is_enum || makes_plainly(recorder, statement.metaclass);
  if (!plain) statement.methods = methods_of(recorder, statement.metaclass);
  const bool takes_keywords = statement.told || (statement.methods && statement.methods->makes);
  if ((!plain && !statement.methods) || (!takes_keywords && !statement.keywords.empty())) return unknown();
  std::optional<Plan> plan = call_of_statement(site, statement);
  return plan ? std::move(plan) : unknown();
}

// What the stand-in for a class statement does with the body.
std::optional<Plan> class_body(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != cpython::runner_of_bodies()) return std::nullopt;
  Recorder& recorder = site.recorder;
  const uint32_t names = recorder.label(call.first + 1);
  if (recorder.value(names).kind != Value::Kind::kDict || recorder.value_at(call.first).kind != Value::Kind::kFunction) return plan_break(Break::kUnknownCall, "class body");
  Plan plan = inlined_call(site, recorder.label(call.first), site.frame.slot(call.first), nullptr);
  plan.names = names;
  plan.namespace_dict = site.frame.slot(call.first + 1);
  return plan;
}

// Behind the metaclass's methods: whether the class that methods in the body know is the one that was made.
std::optional<Plan> class_cell_check(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != cpython::checker_of_class_cells() || call.count != 3) return std::nullopt;
  Recorder& recorder = site.recorder;
  const Value cell = recorder.value_at(call.first);
  const auto unknown = [] { return plan_break(Break::kUnknownCall, "what a metaclass makes of a class"); };
  if (recorder.constant_of(recorder.label(call.first)) == Py_None) return plan_constant();
  if (cell.kind != Value::Kind::kCell || recorder.elements(cell).empty()) return unknown();
  return recorder.elements(cell).back() == recorder.label(call.first + 1) ? plan_constant() : unknown();
}

// property(...), staticmethod(f), classmethod(f), and property.setter and the like.
std::optional<Plan> descriptor_made(Recorder& recorder, PyObject* callable, const std::vector<Operated>& given, Borrowed keyword_names) {
  const bool is_property = callable == reinterpret_cast<PyObject*>(&PyProperty_Type);
  const bool is_method = callable == reinterpret_cast<PyObject*>(&PyStaticMethod_Type) || callable == reinterpret_cast<PyObject*>(&PyClassMethod_Type);
  const bool of_property = Py_IS_TYPE(callable, &PyMethodDescr_Type) && PyDescr_TYPE(callable) == &PyProperty_Type && given.size() == 2;
  if (!is_property && !(is_method && given.size() == 1) && !of_property) return std::nullopt;
  std::vector<uint32_t> labels;
  for (const auto& [label, object] : given) {
    const bool made_here = recorder.value(label).kind == Value::Kind::kFunction || is_made_descriptor(recorder, label);
    if (!made_here && !(fixes_object(recorder, label, object) && (PyFunction_Check(object) || is_immutable(object)))) return plan_break(Break::kUnknownCall, callable_name(callable));
    recorder.adopt(label, object);
    labels.push_back(label);
  }
  return plan_value(recorder.made(callable, keyword_names, labels));
}

std::optional<Plan> descriptor_making(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  std::vector<Operated> given;
  for (int i = call.first; i < call.first + call.count; i++) given.push_back({site.recorder.label(i), site.frame.slot(i)});
  return descriptor_made(site.recorder, callable, given, call.keyword_names);
}

bool is_made_descriptor(const Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  PyObject* const callable = value.kind == Value::Kind::kMade ? recorder.constant_of(recorder.elements(value)[0]) : nullptr;
  if (!callable) return false;
  return callable == reinterpret_cast<PyObject*>(&PyProperty_Type) || callable == reinterpret_cast<PyObject*>(&PyStaticMethod_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyClassMethod_Type) || (Py_IS_TYPE(callable, &PyMethodDescr_Type) && PyDescr_TYPE(callable) == &PyProperty_Type);
}

const MadeClass* Recorder::made_class(PyObject* type) const {
  const auto adopted = recording_->classes.empty() ? adopted_.end() : adopted_.find(type);
  return adopted == adopted_.end() ? nullptr : recording_->made_class(value(adopted->second).a);
}

uint32_t Recorder::new_class(uint32_t metaclass, uint32_t name, uint32_t bases, const std::vector<uint32_t>& body) {
  MadeClass made{constant(Py_None), metaclass, name, bases, {}, {}, container(Value::Kind::kDict, {})};
  for (size_t i = 0; i < body.size(); i += 2) {
    made.names.push_back(body[i]);
    made.contents.push_back(body[i + 1]);
  }
  recording_->classes.push_back(made);
  recording_->values[made.value].b = static_cast<int32_t>(recording_->classes.size());
  return made.value;
}

void Recorder::made_class(uint32_t index, PyObject* type) {
  recording_->graph.constants[static_cast<size_t>(value(index).a)] = Ref::borrow(type);
  adopted_[type] = index;
  adopted_objects_.push_back(Ref::borrow(type));
  adopt_contents(type);
}

void Recorder::adopt_contents(PyObject* type) {
  const MadeClass made = *made_class(type);
  PyObject* const dict = reinterpret_cast<PyTypeObject*>(type)->tp_dict;
  for (size_t i = 0; i < made.names.size(); i++) {
    if (PyObject* const content = PyDict_GetItemWithError(dict, constant_of(made.names[i]))) adopt(made.contents[i], content);
  }
}

void Recorder::fill_class(PyObject* type, const std::vector<uint32_t>& body) {
  MadeClass& made = recording_->classes[static_cast<size_t>(value(adopted_.at(type)).b) - 1];
  for (size_t i = 0; i < body.size(); i += 2) {
    made.names.push_back(body[i]);
    made.contents.push_back(body[i + 1]);
  }
  adopt_contents(type);
}

void Recorder::change_class(PyObject* type, PyObject* name, uint32_t value) {
  const Value changes = recording_->values[made_class(type)->changes];
  append(changes, constant(name));
  append(changes, value);
}

// Objects that are this value wherever they are met.
void Recorder::adopt(uint32_t index, PyObject* object) {
  const Value::Kind kind = value(index).kind;
  if (kind != Value::Kind::kFunction && kind != Value::Kind::kInstance && !is_made_descriptor(*this, index)) return;
  if (adopted_.emplace(object, index).second) adopted_objects_.push_back(Ref::borrow(object));
}

bool Recorder::is_in_class_body() const {
  return std::any_of(frames_.begin(), frames_.end(), [](const Live& frame) { return frame.names; });
}

}  // namespace evalframe::recorder
