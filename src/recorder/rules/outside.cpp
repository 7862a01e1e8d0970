// Rules for what lives beside the objects that a function is given: what a thread has for itself, iterators of numbers, weak references,
// and the attributes of an object as a dict.
#include <string>

#include "core/builtins.h"
#include "core/c_function.h"
#include "core/made_once.h"
#include "cpython/attributes.h"
#include "cpython/iterators.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

bool has_type(PyObject* object, const char* name) { return is_written_in_c(Py_TYPE(object)) && std::string_view(Py_TYPE(object)->tp_name) == name; }

// Whether a count of itertools counts with ints, whose sums run no code.
PyObject* counts_with_ints(PyObject*, PyObject* count) {
  return PyBool_FromLong(cpython::counts_with_ints(count));
}

// The names that `%(name)s` asks for; none: there is another form in it.
std::optional<std::vector<std::string>> names_in(PyObject* format) {
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(format, &size);
  if (!utf8) return PyErr_Clear(), std::nullopt;
  const std::string_view text(utf8, static_cast<size_t>(size));
  std::vector<std::string> names;
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at)) {
    if (at + 1 < text.size() && text[at + 1] == '%') {
      at += 2;
      continue;
    }
    const size_t end = at + 1 < text.size() && text[at + 1] == '(' ? text.find(')', at) : std::string_view::npos;
    if (end == std::string_view::npos) return std::nullopt;
    names.emplace_back(text.substr(at + 2, end - at - 2));
    at = end;
  }
  return names;
}

}  // namespace

bool is_count(PyObject* object) { return has_type(object, "itertools.count"); }

bool is_of_thread(PyObject* object) { return has_type(object, "_thread._local"); }

std::optional<Plan> attribute_of_thread(Recorder& recorder, const Asked& asked) {
  if (!is_of_thread(asked.object)) return std::nullopt;
  const graph::Operand operand = recorder.operand(asked.label, asked.object);
  // What isn't there raises, and what the class has isn't the thread's.
  const Ref value = operand && !_PyType_Lookup(Py_TYPE(asked.object), asked.name) ? Ref::steal(PyObject_GetAttr(asked.object, asked.name)) : Ref();
  if (!value) return PyErr_Clear(), std::nullopt;
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.callable = builtin<"getattr">();
  plan.operands = {operand, graph::Operand::constant(recorder.value(recorder.constant(asked.name)).a)};
  plan.check_result = true;
  plan.of_numbers = true;
  return plan;
}

std::optional<Plan> next_of_count(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  PyObject* const plain = c_function<counts_with_ints>("counts_with_ints");
  if (callable != builtin<"next">().get() || call.count != 1 || call.keyword_names || !is_count(site.frame.slot(call.first))) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const count = site.frame.slot(call.first);
  const graph::Operand operand = recorder.value_at(call.first).kind == Value::Kind::kSource ? recorder.operand(recorder.label(call.first), count) : graph::Operand{};
  const Ref is_plain = Ref::steal(counts_with_ints(nullptr, count));
  if (!operand || is_plain.get() != Py_True || !recorder.may_put_off()) return std::nullopt;
  recorder.check_call(plain, operand, Py_True);
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.callable = callable;
  plan.operands = {operand};
  plan.check_result = true;
  plan.of_numbers = true;
  return plan;
}

// An instance or function that the recorded code has made, and nothing else holds: when it ends is that code's doing alone.
static bool ends_with_recorded_code(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value::Kind kind = recorder.value(label).kind;
  return (kind == Value::Kind::kInstance || kind == Value::Kind::kFunction) && Py_TYPE(object)->tp_weaklistoffset != 0 && !recorder.is_adopted(object);
}

// weakref.ref(object) of what lives as long as the recording: the object has one such reference, and it gives the object. Of what the recorded
// code has made it gives that, or None.
std::optional<Plan> weak_reference(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  if (callable != reinterpret_cast<PyObject*>(&_PyWeakref_RefType) || call.count != 1 || call.keyword_names) return std::nullopt;
  const uint32_t label = recorder.label(call.first);
  const Value value = recorder.value(label);
  const bool constant = value.kind == Value::Kind::kConstant && PyType_Check(site.frame.slot(call.first));
  const bool kept = value.kind == Value::Kind::kSource && recorder.guards().sources[static_cast<size_t>(value.a)].reach == guards::Reach::kObject;
  if (!constant && !kept && !ends_with_recorded_code(recorder, label, site.frame.slot(call.first))) return std::nullopt;
  return plan_value(recorder.made(callable, nullptr, {label}));
}

// sys.getrefcount of a list, a dict or an instance that the recorded code has made: it alone holds references to that. Not in calls, as those of C
// functions that are followed hold others than C does.
static std::optional<Plan> reference_count(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  if (!PyCFunction_CheckExact(callable) || call.count != 1 || call.keyword_names || name_in_module(callable) != "sys.getrefcount") return std::nullopt;
  const uint32_t label = recorder.label(call.first);
  const Value::Kind kind = recorder.value(label).kind;
  const bool made = (kind == Value::Kind::kList || kind == Value::Kind::kDict || kind == Value::Kind::kInstance) && !recorder.outer_of(label);
  return made && recorder.is_outermost() && !recorder.is_adopted(site.frame.slot(call.first)) ? std::optional(plan_constant()) : std::nullopt;
}

bool is_weak_reference_to_class(Recorder& recorder, const Operated& key) {
  const Value value = recorder.value(key.label);
  if (value.kind != Value::Kind::kMade || !Py_IS_TYPE(key.object, &_PyWeakref_RefType)) return false;
  PyObject* const referent = recorder.constant_of(recorder.elements(value)[2]);
  return referent && PyType_Check(referent) && Py_IS_TYPE(referent, &PyType_Type);
}

// Of one from outside: in each run it is asked what it leads to.
static std::optional<Plan> referent_of(Recorder& recorder, const Value& value, PyObject* reference) {
  guards::Source at{guards::Reach::kReferent};
  if (value.kind == Value::Kind::kSource) {
    at.parent = value.a;
  } else {
    guards::Source parent{guards::Reach::kObject};
    parent.object = Ref::borrow(reference);
    at.parent = recorder.value(recorder.source(std::move(parent))).a;
  }
  recorder.guards().require_type(at.parent, reference);
  return plan_value(recorder.source(std::move(at)));
}

std::optional<Plan> call_of_weak_reference(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value_at(call.callable);
  const bool from_outside = value.kind == Value::Kind::kSource || value.kind == Value::Kind::kConstant;
  if (from_outside && call.count == 0 && Py_IS_TYPE(site.frame.slot(call.callable), &_PyWeakref_RefType)) return referent_of(recorder, value, site.frame.slot(call.callable));
  if (value.kind != Value::Kind::kMade || call.count != 0 || recorder.constant_of(recorder.elements(value)[0]) != reinterpret_cast<PyObject*>(&_PyWeakref_RefType)) return std::nullopt;
  const uint32_t label = recorder.elements(value)[2];
  const Ref live = Ref::steal(PyObject_CallNoArgs(site.frame.slot(call.callable)));
  if (!live) return PyErr_Clear(), std::nullopt;
  return live.get() == Py_None ? plan_constant() : plan_value(label);
}

// asyncio.current_task(), outside of a loop: RuntimeError.
std::optional<Plan> current_task(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyCFunction_CheckExact(callable) || call.count != 0 || name_in_module(callable) != "_asyncio.current_task") return std::nullopt;
  const Ref module = Ref::steal(PyImport_ImportModule("_asyncio"));
  const Ref asks = module ? Ref::steal(PyObject_GetAttrString(module.get(), "_get_running_loop")) : Ref();
  const Ref loop = asks ? Ref::steal(PyObject_CallNoArgs(asks.get())) : Ref();
  if (!loop || loop.get() != Py_None) return PyErr_Clear(), std::nullopt;
  Plan node;
  node.callable = asks.get();
  site.recorder.check_constant(site.recorder.node_value(site.recorder.add_node(node, Py_None), false), Py_None);
  return plan_raise();
}

namespace {

// Whether the attributes of its instances are in their dicts, all of them.
bool keeps_all_in_dict(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* const slots = PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) ? reinterpret_cast<PyHeapTypeObject*>(base)->ht_slots : nullptr;
    if (slots && PyTuple_GET_SIZE(slots) > 0) return false;
  }
  return cpython::gives_its_dict(type);
}

}  // namespace

std::optional<Plan> attributes_as_dict(Recorder& recorder, const Asked& asked, bool past_hooks) {
  const Value value = recorder.value(asked.label);
  const bool made = value.kind == Value::Kind::kInstance;
  if ((!made && value.kind != Value::Kind::kSource) || PyUnicode_CompareWithASCIIString(asked.name, "__dict__") != 0) return std::nullopt;
  if (PyType_Check(asked.object) || !(past_hooks || cpython::looks_up_plainly(Py_TYPE(asked.object)))) return std::nullopt;
  if (!cpython::is_plain_to_hold(asked.object)) return std::nullopt;
  if (made) return keeps_all_in_dict(Py_TYPE(asked.object)) ? std::optional(plan_value(recorder.dict_of_instance(asked.label))) : std::nullopt;
  if (!cpython::gives_its_dict(Py_TYPE(asked.object)) || !fixes_class(recorder, value, asked.object)) return std::nullopt;
  return plan_value(attribute_source(recorder, value.a, asked.name));
}

// vars(object).
std::optional<Plan> call_of_vars(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  if (callable != builtin<"vars">().get() || call.count != 1 || call.keyword_names) return std::nullopt;
  return attributes_as_dict(site.recorder, {site.recorder.label(call.first), site.frame.slot(call.first), name});
}

namespace {

// A dict, or one that adds nothing to what a dict is asked for.
bool is_shown(Value::Kind kind, PyObject* object) {
  return (kind == Value::Kind::kDict && PyDict_CheckExact(object)) || (kind == Value::Kind::kMapping && PyODict_CheckExact(object));
}

// A function, class or module, which programs know by its place anyway, is at the same one in all runs.
bool is_one_place(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value::Kind kind = recorder.value(label).kind;
  if (!PyFunction_Check(object) && !PyType_Check(object) && !PyModule_CheckExact(object)) return false;
  if ((kind != Value::Kind::kConstant && kind != Value::Kind::kSource) || recorder.is_adopted(object)) return false;
  return fixes_object(recorder, label, object);
}

// types.MappingProxyType(dict), and id(object): made again of the object, where someone has it.
std::optional<Plan> made_of_object(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool shows = callable == reinterpret_cast<PyObject*>(&PyDictProxy_Type), numbers = callable == builtin<"id">().get();
  if ((!shows && !numbers) || call.count != 1 || call.keyword_names) return std::nullopt;
  const uint32_t label = site.recorder.label(call.first);
  const Value::Kind kind = site.recorder.value(label).kind;
  if (shows && !is_shown(kind, site.frame.slot(call.first))) return std::nullopt;
  if (numbers && is_one_place(site.recorder, label, site.frame.slot(call.first))) return plan_constant();
  // Of what a node gives nobody knows whether it is a new object.
  if (numbers && (kind == Value::Kind::kNode || kind == Value::Kind::kNull || kind == Value::Kind::kTruth)) return std::nullopt;
  return plan_value(site.recorder.made(callable, nullptr, {label}));
}

}  // namespace

// A method of a types.MappingProxyType over a dict of the recorded code's is that of the dict.
std::optional<Plan> method_of_proxy(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) || PyDescr_TYPE(callable) != &PyDictProxy_Type || call.count < 1 || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  const uint32_t label = dict_behind_proxy(recorder, recorder.label(call.first));
  if (!label) return std::nullopt;
  const Value dict = recorder.value(label);
  PyTypeObject* const type = dict.kind == Value::Kind::kDict ? &PyDict_Type : &PyODict_Type;
  PyObject* const name = reinterpret_cast<PyDescrObject*>(callable)->d_name;
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if ((is("keys") || is("values") || is("items")) && call.count == 1) return plan_value(recorder.made(_PyType_Lookup(type, name), nullptr, {label}));
  if (is("copy") && call.count == 1) {
    std::vector<uint32_t> items = recorder.copied_elements(dict);
    return plan_value(dict.kind == Value::Kind::kDict ? recorder.container(Value::Kind::kDict, std::move(items)) : recorder.mapping(reinterpret_cast<PyObject*>(type), std::move(items), 0));
  }
  if (!is("get") || call.count < 2 || call.count > 3) return std::nullopt;
  Ref copy = Ref::steal(PyObject_CallMethod(site.frame.slot(call.first), "copy", nullptr));
  if (!copy) return PyErr_Clear(), std::nullopt;
  const Operated of{label, copy.get()}, key{recorder.label(call.first + 1), site.frame.slot(call.first + 1)};
  const std::optional<bool> there = has_key(recorder, of, key);
  if (!there) return std::nullopt;
  if (*there) return item_of_dict(recorder, of, key);
  return plan_value(call.count == 3 ? recorder.label(call.first + 2) : recorder.constant(Py_None));
}

std::optional<bool> same_identity(Recorder& recorder, const Operated& left, const Operated& right) {
  uint32_t of[2];
  int i = 0;
  for (const Operated& operand : {left, right}) {
    const Value value = recorder.value(operand.label);
    if (value.kind != Value::Kind::kMade || recorder.constant_of(recorder.elements(value)[0]) != builtin<"id">().get()) return std::nullopt;
    of[i++] = recorder.elements(value)[2];
  }
  if (of[0] == of[1]) return true;
  // Two objects, unless one is known by its place only.
  const auto is_made = [&](uint32_t label) { return recorder.value(label).kind >= Value::Kind::kTuple && !recorder.outer_of(label); };
  return is_made(of[0]) && is_made(of[1]) ? std::optional(false) : std::nullopt;
}

std::optional<Plan> outside_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  for (const auto rule : {next_of_count, weak_reference, reference_count, current_task, call_of_vars, made_of_object, method_of_proxy}) {
    if (std::optional<Plan> plan = rule(site, call, callable)) return plan;
  }
  return std::nullopt;
}

std::optional<Plan> format_of_attributes(Recorder& recorder, const Operated& format, const Operated& attributes) {
  const Value value = recorder.value(attributes.label);
  if (value.kind != Value::Kind::kDict || !PyDict_CheckExact(attributes.object)) return std::nullopt;
  const std::optional<std::vector<std::string>> names = names_in(format.object);
  if (!names || !recorder.known(format.label, format.object)) return std::nullopt;
  for (const std::string& name : *names) {
    const Ref key = Ref::steal(PyUnicode_InternFromString(name.c_str()));
    PyObject* const object = key ? PyDict_GetItemWithError(attributes.object, key.get()) : nullptr;
    const uint32_t item = object ? recorder.value_of_key(value, key.get()) : 0;
    if (!item || !is_immutable(object) || !is_known_through(recorder, item, object)) return PyErr_Clear(), std::nullopt;
  }
  return plan_constant();
}

}  // namespace evalframe::recorder
