// Rules for classes that inherit from a builtin type (named tuples, enumerations of numbers, `class Row(list)`): what an instance has of
// that type is a value of its own, its contents, and an operation that the class inherits is one on the contents.
#include <algorithm>
#include <string>

#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using bytecode::Op;
using evaluator::Activation;
using guards::Reach;

// What an instruction asks of an operand's class.
enum class Asks : uint8_t { kItem, kStore, kDelete, kMember, kLength, kTruth, kIteration, kComparison, kNumber };

// Operands, counted from the top of the stack, that may stand for their contents.
struct Use {
  Op op;
  int from_top;
  Asks asks;
};
constexpr Use kUses[] = {
    {Op::BINARY_SUBSCR, 2, Asks::kItem},       {Op::BINARY_SLICE, 3, Asks::kItem},
    {Op::STORE_SUBSCR, 2, Asks::kStore},       {Op::DELETE_SUBSCR, 2, Asks::kDelete},
    {Op::CONTAINS_OP, 1, Asks::kMember},       {Op::GET_LEN, 1, Asks::kLength},
    {Op::GET_ITER, 1, Asks::kIteration},       {Op::UNPACK_SEQUENCE, 1, Asks::kIteration},
    {Op::UNPACK_EX, 1, Asks::kIteration},      {Op::LIST_EXTEND, 1, Asks::kIteration},
    {Op::DICT_UPDATE, 1, Asks::kIteration},    {Op::DICT_MERGE, 1, Asks::kIteration},
    {Op::POP_JUMP_IF_FALSE, 1, Asks::kTruth},  {Op::POP_JUMP_IF_TRUE, 1, Asks::kTruth},
    {Op::UNARY_NOT, 1, Asks::kTruth},          {Op::TO_BOOL, 1, Asks::kTruth},
    {Op::COMPARE_OP, 1, Asks::kComparison},    {Op::COMPARE_OP, 2, Asks::kComparison},
    {Op::BINARY_OP, 1, Asks::kNumber},         {Op::BINARY_OP, 2, Asks::kNumber},
    {Op::UNARY_NEGATIVE, 1, Asks::kNumber},    {Op::UNARY_POSITIVE, 1, Asks::kNumber},
    {Op::UNARY_INVERT, 1, Asks::kNumber},
};

// The instructions among these.
constexpr auto kUsing = [] {
  std::array<bool, static_cast<size_t>(Op::kCount)> uses{};
  for (const Use& use : kUses) uses[static_cast<size_t>(use.op)] = true;
  return uses;
}();

// Builtins that ask their first argument, or (zip) all of them, for one thing.
struct BuiltinUse {
  const char* name;
  Asks asks;
};
constexpr BuiltinUse kBuiltinUses[] = {
    {"len", Asks::kLength},      {"bool", Asks::kTruth},         {"list", Asks::kIteration},      {"tuple", Asks::kIteration}, {"sorted", Asks::kIteration},
    {"sum", Asks::kIteration},   {"any", Asks::kIteration},      {"all", Asks::kIteration},       {"dict", Asks::kIteration},  {"set", Asks::kIteration},
    {"iter", Asks::kIteration},  {"enumerate", Asks::kIteration}, {"zip", Asks::kIteration},
};

constexpr const char* kOperators[] = {"add", "sub", "mul", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor", "or", "floordiv", "truediv", "matmul"};
constexpr const char* kComparisons[] = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"};
constexpr const char* kUnary[] = {"__neg__", "__pos__", "__invert__", "__abs__", "__int__", "__float__", "__index__"};

bool same_method(const PyTypeObject* type, const PyTypeObject* base, const char* name) { return cpython::lookup(type, name) == cpython::lookup(base, name); }

// An OrderedDict asks these of itself, a dict asks nothing.
bool asks_itself(const PyTypeObject* base) { return base == &PyODict_Type; }
constexpr const char* kItemMethods[] = {"__getitem__", "__setitem__", "__delitem__", "__contains__", "__missing__"};

bool same_methods(const PyTypeObject* type, const PyTypeObject* base, std::span<const char* const> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return same_method(type, base, name); });
}

bool same_operators(const PyTypeObject* type, const PyTypeObject* base) {
  for (const std::string name : kOperators) {
    for (const char* const prefix : {"__", "__r", "__i"}) {
      if (!same_method(type, base, (prefix + name + "__").c_str())) return false;
    }
  }
  return same_methods(type, base, kUnary);
}

// Whether the class leaves what is asked to the builtin type. By methods: a slot that two of them share is another in a subclass.
bool inherits(const PyTypeObject* type, const PyTypeObject* base, Asks asks) {
  const bool same_length = same_method(type, base, "__len__");
  switch (asks) {
    case Asks::kItem: return same_method(type, base, "__getitem__") && same_length;
    case Asks::kStore: return same_method(type, base, "__setitem__") && same_length;
    case Asks::kDelete: return same_method(type, base, "__delitem__") && same_length;
    case Asks::kMember: return same_method(type, base, "__contains__");
    case Asks::kLength: return same_length;
    case Asks::kTruth: return same_length && same_method(type, base, "__bool__");
    case Asks::kIteration: return same_method(type, base, "__iter__") && same_method(type, base, "keys") && same_length && (!asks_itself(base) || same_method(type, base, "__getitem__"));
    case Asks::kComparison: return same_methods(type, base, kComparisons);
    case Asks::kNumber: return same_operators(type, base);
  }
  return false;
}

constexpr const char* kArrayProtocols[] = {"__array_ufunc__", "__array_priority__", "__array__", "__array_interface__", "__array_struct__"};

// Whether NumPy makes of the contents what it makes of the instance: an array of int8 and an int make int8, one and an IntEnum int64.
bool same_for_numpy(PyObject* instance, PyTypeObject* base, PyObject* other, Asks asks) {
  const bool is_array = PyArray_Check(other);
  if (!is_array && !PyArray_IsScalar(other, Generic)) return true;
  PyTypeObject* const type = Py_TYPE(instance);
  if (std::any_of(std::begin(kArrayProtocols), std::end(kArrayProtocols), [&](const char* name) { return cpython::lookup(type, name); })) return false;
  const bool is_int = base == &PyLong_Type;
  if (!is_int && base != &PyFloat_Type) return base == &PyTuple_Type || base == &PyList_Type;
  int overflow = 0;
  if (!same_methods(type, base, kUnary) || (is_int && (PyLong_AsLongAndOverflow(instance, &overflow), overflow))) return false;
  if (!is_array) return is_int && asks == Asks::kComparison && (PyArray_IsScalar(other, Integer) || PyArray_IsScalar(other, Double));
  const int number = PyArray_TYPE(numpy::as_array(other));
  if (number == NPY_BOOL || number == NPY_LONG || number == NPY_DOUBLE) return true;
  return is_int && asks == Asks::kComparison && PyTypeNum_ISINTEGER(number);
}

bool is_container(PyTypeObject* base) { return base == &PyList_Type || base == &PyDict_Type || base == &PyODict_Type; }

// An empty one.
uint32_t container_of(Recorder& recorder, PyTypeObject* base) {
  if (base == &PyODict_Type) return recorder.mapping(reinterpret_cast<PyObject*>(base), {}, 0);
  return recorder.container(base == &PyList_Type ? Value::Kind::kList : Value::Kind::kDict, {});
}

// The same contents in an object of the builtin type itself.
Ref exact_copy(PyObject* object, PyTypeObject* base) {
  if (base == &PyTuple_Type) return Ref::steal(PyTuple_GetSlice(object, 0, PyTuple_GET_SIZE(object)));
  if (base == &PyList_Type) return Ref::steal(PyList_GetSlice(object, 0, PY_SSIZE_T_MAX));
  if (base == &PyDict_Type) return cpython::copy_of_dict(object);
  if (base == &PyODict_Type) return cpython::copy_of_ordered_dict(object);
  if (base == &PyFloat_Type) return Ref::steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
  if (base == &PyUnicode_Type) return Ref::steal(PyUnicode_FromObject(object));
  return Ref::steal(PyLong_Type.tp_as_number->nb_int(object));
}

// What is asked of a class from outside stays so, and the object's contents are known: those of what is always one immutable object, or
// of a tuple, element by element. 0: not known.
uint32_t contents_of_source(Recorder& recorder, const Value value, PyObject* object, PyTypeObject* base, PyObject* exact) {
  if (recorder.varies(value.a) || !fixes_class(recorder, value, object)) return 0;
  if (base == &PyTuple_Type) {
    if (PyTuple_GET_SIZE(object) > kMaxParts) return 0;
    recorder.guards().require_length_of(value.a, object, PyTuple_GET_SIZE(object));
    std::vector<uint32_t> parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) parts.push_back(item_source(recorder, value, i));
    return recorder.container(Value::Kind::kTuple, std::move(parts));
  }
  const bool one_object = recorder.guards().sources[static_cast<size_t>(value.a)].reach == Reach::kObject;
  if (!one_object || is_container(base)) return 0;
  return recorder.constant(exact);
}

// Of the builtin type, or of one that this inherits from.
bool is_of_base(PyObject* method, PyTypeObject* base) { return PyDescr_TYPE(method) != &PyBaseObject_Type && PyType_IsSubtype(base, PyDescr_TYPE(method)); }

// Whether a method of the builtin type does with an instance of the class what it does with the contents.
bool is_for_contents(PyObject* method, const PyTypeObject* type, PyTypeObject* base) {
  if (!is_of_base(method, base)) return false;
  if (!asks_itself(base) || PyDescr_TYPE(method) != base || same_methods(type, base, kItemMethods)) return true;
  const std::string_view name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(method)->d_name);
  constexpr std::string_view kPlain[] = {"__setitem__", "__delitem__", "__iter__", "keys", "values", "items", "clear", "move_to_end"};
  return std::find(std::begin(kPlain), std::end(kPlain), name) != std::end(kPlain);
}

bool is_base_method(PyObject* callable, const PyTypeObject* type, PyTypeObject* base) { return Py_IS_TYPE(callable, &PyMethodDescr_Type) && is_for_contents(callable, type, base); }

bool asks_builtin(const Activation::CallSite& call, int slot, PyObject* callable, PyTypeObject* type, PyTypeObject* base) {
  const int positional = call.count - call.keywords();
  if (slot >= call.first + positional || (slot > call.first && callable != builtin("zip").get())) return false;
  for (const BuiltinUse& use : kBuiltinUses) {
    if (builtin(use.name).get() == callable) return inherits(type, base, use.asks);
  }
  return false;
}

// A types.MappingProxyType over a dict of the recorded code's: what is read of it is read of that.
bool reads_behind_proxy(const Site& site, int slot) {
  for (const Use& use : kUses) {
    const bool reads = use.asks == Asks::kItem || use.asks == Asks::kMember || use.asks == Asks::kLength || use.asks == Asks::kIteration;
    if (reads && use.op == site.instruction.op && site.depth - use.from_top == slot) return true;
  }
  const auto call = site.frame.call_site();
  if (!call || call->count != 1 || slot != call->first) return false;
  static PyObject* const readers[] = {builtin("len").get(), builtin("list").get(), builtin("tuple").get(), builtin("sorted").get(), builtin("iter").get()};
  return std::find(std::begin(readers), std::end(readers), site.frame.slot(call->callable)) != std::end(readers);
}

// Whether the instruction asks of what is in the slot only what its class leaves to the builtin type.
bool asks_base(const Site& site, int slot, PyTypeObject* type, PyTypeObject* base) {
  bool any = false;
  for (const Use& use : kUses) {
    if (use.op != site.instruction.op || site.depth - use.from_top != slot) continue;
    if (!inherits(type, base, use.asks)) return false;
    const bool has_two = use.op == Op::BINARY_OP || use.op == Op::COMPARE_OP;
    if (has_two && !same_for_numpy(site.frame.slot(slot), base, site.frame.slot(2 * site.depth - 3 - slot), use.asks)) return false;
    any = true;
  }
  if (any) return true;
  const auto call = site.frame.call_site();
  if (!call || slot < call->first || slot >= call->first + call->count) return false;
  PyObject* const callable = site.frame.slot(call->callable);
  if (slot == call->first && is_base_method(callable, type, base)) return true;
  return asks_builtin(*call, slot, callable, type, base);
}

// dict subclass [key], where the key is missing: __missing__ is next.
std::optional<Plan> missing_item(const Site& site) {
  if (site.instruction.op != Op::BINARY_SUBSCR) return std::nullopt;
  const Operated dict{site.recorder.label(site.depth - 2), site.frame.slot(site.depth - 2)}, key{site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1)};
  const uint32_t contents = site.recorder.contents(dict.label);
  if (!contents || !PyDict_Check(dict.object) || !same_method(Py_TYPE(dict.object), &PyDict_Type, "__getitem__")) return std::nullopt;
  const Ref copy = cpython::copy_of_dict(dict.object);
  const std::optional<bool> there = copy ? has_key(site.recorder, {contents, copy.get()}, key) : std::nullopt;
  if (!there || *there) return PyErr_Clear(), std::nullopt;
  return item_call(site, "__missing__", {dict, key});
}

}  // namespace

uint32_t dict_behind_proxy(Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  const uint32_t dict = value.kind == Value::Kind::kMade && recorder.elements(value).size() == 3 ? recorder.elements(value)[2] : 0;
  return dict && is_made_dict(recorder.value(dict)) ? dict : 0;
}

// What it is compared to, and what it is, tell whether it is equal: by the contents of its builtin type, or by identity alone.
bool compares_plainly(Recorder& recorder, uint32_t label, PyObject* object) {
  if (is_immutable(object)) return !recorder.is_input_number(label, object) && recorder.known(label, object);
  PyTypeObject* const type = Py_TYPE(object);
  if (compares_by_identity(type)) return fixes_type(recorder, label, object);
  PyTypeObject* const base = cpython::builtin_base(type);
  const Value value = recorder.value(label);
  if (!base || value.kind != Value::Kind::kSource || !inherits(type, base, Asks::kComparison)) return false;
  const Ref exact = exact_copy(object, base);
  if (!exact) return PyErr_Clear(), false;
  const uint32_t contents = contents_of_source(recorder, value, object, base, exact.get());
  return recorder.constant_of(contents);
}

// In front of the instruction: contents stand in the places of such instances, until this goes.
AsContents::AsContents(const Site& site) : site_(site) {
  constexpr int kMostOperands = 3;
  const auto call = site.frame.call_site();
  if (!call && !kUsing[static_cast<size_t>(site.instruction.op)]) return;
  for (int slot = call ? call->first : std::max(0, site.depth - kMostOperands); slot < site.depth; slot++) {
    PyObject* const object = site.frame.slot(slot);
    if (!object || (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && !Py_IS_TYPE(object, &PyDictProxy_Type))) continue;
    if (Py_IS_TYPE(object, &PyDictProxy_Type) && reads_behind_proxy(site, slot)) {
      const uint32_t dict = dict_behind_proxy(site.recorder, site.recorder.label(slot));
      Ref copy = dict ? Ref::steal(PyObject_CallMethod(object, "copy", nullptr)) : Ref();
      if (!copy) PyErr_Clear();
      if (copy && (PyDict_CheckExact(copy.get()) || PyODict_CheckExact(copy.get()))) replaced_.push_back({slot, site.recorder.label(slot), dict, object, std::move(copy)});
      continue;
    }
    PyTypeObject* const base = cpython::builtin_base(Py_TYPE(object));
    if (!base || !asks_base(site, slot, Py_TYPE(object), base)) continue;
    Recorder& recorder = site.recorder;
    const uint32_t label = recorder.label(slot);
    Ref exact = exact_copy(object, base);
    if (!exact) {
      PyErr_Clear();
      continue;
    }
    const Value value = recorder.value(label);
    const uint32_t known = value.kind == Value::Kind::kSource ? contents_of_source(recorder, value, object, base, exact.get()) : recorder.contents(label);
    if (known) replaced_.push_back({slot, label, known, object, std::move(exact)});
  }
  for (Replaced& one : replaced_) put(one, one.contents, one.exact.get());
}

void AsContents::put(const Replaced& one, uint32_t label, PyObject* object) const {
  site_.recorder.exchange_label(one.slot, label);
  site_.frame.slots()[one.slot] = object;
}

void AsContents::restore() {
  if (std::exchange(restored_, true)) return;
  for (const Replaced& one : replaced_) put(one, one.label, one.object);
}

// `row += [1]` gives the object itself, tuple(pair) a new one.
uint32_t AsContents::result_for_contents(const Replaced& one) const {
  if (Py_IS_TYPE(one.object, &PyDictProxy_Type)) return one.label;
  if (!PyTuple_Check(one.object)) return is_immutable(one.exact.get()) ? one.contents : one.label;
  return site_.recorder.container(Value::Kind::kTuple, site_.recorder.copied_elements(site_.recorder.value(one.contents)));
}

void AsContents::take_back(Plan& plan) {
  restore();
  // What waits for the end of a call would hold the contents instead.
  if (plan.kind == Plan::Kind::kInline || plan.kind == Plan::Kind::kResume) {
    plan = plan_break(Break::kUnknownObject, type_name(replaced_[0].object));
    return;
  }
  const bool missing = plan.kind == Plan::Kind::kRaise && site_.instruction.op == Op::BINARY_SUBSCR;
  if (missing) {
    if (std::optional<Plan> call = missing_item(site_)) {
      plan = *std::move(call);
      return;
    }
  }
  for (Replaced& one : replaced_) {
    if (plan.stored_into && plan.stored_into.get() == one.exact.get()) plan.stored_into = Ref::borrow(one.object);
    if (plan.kind == Plan::Kind::kValue && plan.label == one.contents) plan.label = result_for_contents(one);
    plan.as_contents.push_back({one.slot, one.label, one.contents});
    plan.held.push_back(std::move(one.exact));
  }
}

// --- construction ----------------------------------------------------------------------------------------------------

namespace {

// int("7"), of arguments that are known and run no code; a tuple of known elements.
uint32_t immutable_contents(Recorder& recorder, PyTypeObject* base, const Given& given, Plan& plan) {
  if (base == &PyTuple_Type) {
    if (given.keyword_names || given.labels.size() > 1) return 0;
    if (given.labels.empty()) return recorder.container(Value::Kind::kTuple, {});
    const bool generator = recorder.value(given.labels[0]).kind == Value::Kind::kGenerator;
    std::optional<std::vector<uint32_t>> parts = generator ? std::nullopt : parts_of(recorder, given.labels[0], given.objects[0]);
    if (!parts) return 0;
    exhaust(plan, recorder, given.labels[0], given.objects[0]);
    return recorder.container(Value::Kind::kTuple, *std::move(parts));
  }
  for (size_t i = 0; i < given.labels.size(); i++) {
    if (recorder.is_input_number(given.labels[i], given.objects[i]) || !is_immutable(given.objects[i]) || !recorder.known(given.labels[i], given.objects[i])) return 0;
  }
  const size_t named = given.keywords();
  const Ref exact = Ref::steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(base), given.objects.data(), given.objects.size() - named, given.keyword_names.get()));
  if (!exact) PyErr_Clear();
  return exact && Py_IS_TYPE(exact.get(), base) ? recorder.constant(exact.get()) : 0;
}

// The elements that a list or dict begins with; none: not known.
std::optional<std::vector<uint32_t>> first_elements(Recorder& recorder, PyTypeObject* base, const Given& given, Plan& plan) {
  const size_t named = given.keywords();
  const size_t plain = given.labels.size() - named;
  std::vector<uint32_t> elements;
  if (plain > 1 || (named && base == &PyList_Type)) return std::nullopt;
  if (plain && base == &PyList_Type) {
    std::optional<std::vector<uint32_t>> parts = parts_of(recorder, given.labels[0], given.objects[0]);
    if (parts) exhaust(plan, recorder, given.labels[0], given.objects[0]);
    return parts;
  }
  if (plain) {
    const Value from = recorder.value(given.labels[0]);
    if (!PyDict_CheckExact(given.objects[0]) || named) return std::nullopt;
    if (from.kind == Value::Kind::kDict) return recorder.copied_elements(from);
    if (from.kind != Value::Kind::kSource || recorder.keys_vary(from.a) || PyDict_GET_SIZE(given.objects[0]) > kMaxParts || !require_keys(recorder, from, given.objects[0])) return std::nullopt;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(given.objects[0], &at, &key, nullptr);) elements.insert(elements.end(), {recorder.constant(key), key_source(recorder, from, key)});
    return elements;
  }
  for (size_t i = 0; i < named; i++) elements.insert(elements.end(), {recorder.constant(PyTuple_GET_ITEM(given.keyword_names.get(), static_cast<Py_ssize_t>(i))), given.labels[i]});
  return elements;
}

}  // namespace

namespace {

bool may_be_made(Recorder& recorder, PyTypeObject* type) {
  return !type->tp_finalize && !type->tp_del && !(type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) && recorder.fix_class(type);
}

}  // namespace

// What the class inherits makes an instance: of a list or dict an empty one.
std::optional<Plan> new_of_builtin(const Site& site, PyTypeObject* type, const Given& given) {
  Recorder& recorder = site.recorder;
  PyTypeObject* const base = cpython::builtin_base(type);
  if (!base || !may_be_made(recorder, type)) return std::nullopt;
  Plan plan;
  const uint32_t contents = is_container(base) ? container_of(recorder, base) : immutable_contents(recorder, base, given, plan);
  if (!contents) return std::nullopt;
  plan.kind = Plan::Kind::kValue;
  plan.label = recorder.instance(type, contents);
  return plan;
}

std::optional<Plan> construction_of_builtin(const Site& site, PyTypeObject* type, const Given& given) {
  Recorder& recorder = site.recorder;
  PyTypeObject* const base = cpython::builtin_base(type);
  if (!base || type->tp_new != base->tp_new) return std::nullopt;
  PyObject* const initializer = cpython::lookup(type, "__init__");
  std::optional<Plan> made = new_of_builtin(site, type, given);
  if (!made) return std::nullopt;
  if (initializer == cpython::lookup(base, "__init__")) {
    if (!is_container(base)) return made;
    if (asks_itself(base) && !same_methods(type, base, kItemMethods)) return std::nullopt;
    std::optional<std::vector<uint32_t>> elements = first_elements(recorder, base, given, *made);
    if (!elements) return std::nullopt;
    made->changed = recorder.contents(made->label);
    made->contents = *std::move(elements);
    return made;
  }
  // What an iterator gives can't be asked for twice.
  if (!is_plain_function(initializer) || made->consumed) return std::nullopt;
  const Ref arguments = Ref::steal(PyTuple_New(is_container(base) ? 0 : static_cast<Py_ssize_t>(given.objects.size())));
  for (Py_ssize_t i = 0; arguments && i < PyTuple_GET_SIZE(arguments.get()); i++) PyTuple_SET_ITEM(arguments.get(), i, Py_NewRef(given.objects[i]));
  if (given.keyword_names && !is_container(base)) return std::nullopt;
  Ref object = arguments ? Ref::steal(base->tp_new(type, arguments.get(), nullptr)) : Ref();
  if (!object) return PyErr_Clear(), std::nullopt;
  return call_of_initializer(site, initializer, std::move(object), made->label, given);
}

namespace {

// super().get(key), super()[key] and key in super(), of a dict from outside: the guards know whether it has the key.
std::optional<Plan> asked_of_dict(Recorder& recorder, PyObject* method, const Operated& self, const Given& given) {
  const Value of = recorder.value(self.label);
  const std::string_view name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(method)->d_name);
  const size_t count = given.labels.size();
  if (!PyDict_Check(self.object) || PyDescr_TYPE(method) != &PyDict_Type || given.keyword_names || count < 1 || count > (name == "get" ? 2 : 1)) return std::nullopt;
  PyObject* const key = given.objects[0];
  if (recorder.keys_vary(of.a) || !is_immutable(key) || !recorder.known(given.labels[0], key) || holds_keys_of_classes(self.object, key)) return std::nullopt;
  const int there = PyDict_Contains(self.object, key);
  if (there < 0 || (!there && name == "__getitem__") || !fixes_class(recorder, of, self.object)) return PyErr_Clear(), std::nullopt;
  recorder.guards().require_member(of.a, key, there > 0);
  if (name == "__contains__") return plan_value(recorder.constant(there ? Py_True : Py_False));
  if (there) return plan_value(key_source(recorder, of, key));
  return plan_value(count == 2 ? given.labels[1] : recorder.constant(Py_None));
}

}  // namespace

// super().__init__(...), super()[key] = value and the like, of a class that inherits from a list or dict.
std::optional<Plan> call_of_inherited(const Site& site, PyObject* method, const Operated& self, const Given& given, const Activation::CallSite* call) {
  Recorder& recorder = site.recorder;
  if (recorder.value(self.label).kind == Value::Kind::kSource) return asked_of_dict(recorder, method, self, given);
  PyTypeObject* const base = cpython::builtin_base(Py_TYPE(self.object));
  const uint32_t contents = recorder.contents(self.label);
  const Ref exact = contents && base && is_for_contents(method, Py_TYPE(self.object), base) ? exact_copy(self.object, base) : Ref();
  if (!exact) return PyErr_Clear(), std::nullopt;
  const auto argument = [&](size_t i) { return Operated{given.labels[i], given.objects[i]}; };
  const size_t count = given.keyword_names ? SIZE_MAX : given.labels.size();
  const Operated whole{contents, exact.get()};
  std::optional<Plan> plan;
  const bool container = is_container(base);
  if (method == cpython::lookup(base, "__init__") && container && PyObject_Size(exact.get()) == 0) {
    Plan filled;
    std::optional<std::vector<uint32_t>> elements = first_elements(recorder, base, given, filled);
    if (!elements) return std::nullopt;
    filled.kind = Plan::Kind::kConstant;
    filled.changed = contents;
    filled.contents = *std::move(elements);
    plan = std::move(filled);
  } else if (method == cpython::lookup(base, "__setitem__") && container && count == 2) {
    plan = store_into_made(recorder, whole, argument(0), argument(1));
    if (plan->kind == Plan::Kind::kLabels) plan->kind = Plan::Kind::kConstant;
  } else if (method == cpython::lookup(base, "__delitem__") && container && count == 1) {
    plan = store_into_made(recorder, whole, argument(0), {0, nullptr});
    if (plan->kind == Plan::Kind::kLabels) plan->kind = Plan::Kind::kConstant;
  } else if (method == cpython::lookup(base, "__getitem__") && PyDict_Check(exact.get()) && count == 1) {
    plan = item_of_dict(recorder, whole, argument(0));
    if (plan->kind == Plan::Kind::kRaise) return std::nullopt;  // __missing__
  } else if (method == cpython::lookup(base, "__contains__") && PyDict_Check(exact.get()) && count == 1) {
    const std::optional<bool> there = has_key(recorder, whole, argument(0));
    if (!there) return std::nullopt;
    plan = plan_value(recorder.constant(*there ? Py_True : Py_False));
  } else if (call && Py_IS_TYPE(method, &PyMethodDescr_Type)) {
    // The slot in front of the arguments holds the callable or nothing.
    const int slot = call->first - 1;
    PyObject* const there = std::exchange(site.frame.slots()[slot], exact.get());
    const uint32_t label = recorder.label(slot);
    recorder.exchange_label(slot, contents);
    Activation::CallSite with_self = *call;
    with_self.first--, with_self.count++;
    plan = container_call(site, with_self, method);
    site.frame.slots()[slot] = there;
    recorder.exchange_label(slot, label);
    if (plan && (plan->appends || plan->reread || plan->kind == Plan::Kind::kInline)) return std::nullopt;
  }
  if (plan) plan->held.push_back(Ref::borrow(exact.get()));
  return plan;
}

}  // namespace evalframe::recorder
