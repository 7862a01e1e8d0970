// Rules for calls of what functools.lru_cache has made: a stand-in looks into the cache, and calls the function where nothing is there.
#include <iterator>

#include "core/c_function.h"
#include "cpython/dict_keys.h"
#include "cpython/lru_caches.h"
#include "frontends/numpy/calls.h"
#include "graph/leave.h"
#include "guards/steps.h"
#include "recorder/caches.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// A call: a tuple of a tuple and a dict of arguments, or None.
struct Call {
  PyObject *cache, *arguments, *keywords;
};
Call call_of(PyObject* const* arguments) {
  PyObject* const keywords = PyTuple_GET_ITEM(arguments[1], 1);
  return {arguments[0], PyTuple_GET_ITEM(arguments[1], 0), keywords == Py_None ? nullptr : keywords};
}

// Null without an exception: there is nothing.
PyObject* found(PyObject* const* arguments) {
  const Call call = call_of(arguments);
  const Ref key = cpython::key_of_call(call.cache, call.arguments, call.keywords);
  return key ? cpython::cached_under(call.cache, key.get()) : nullptr;
}

PyObject* is_cached(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  PyObject* const there = found(arguments);
  return there || !PyErr_Occurred() ? Py_NewRef(there ? Py_True : Py_False) : nullptr;
}
PyObject* cached(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  PyObject* const there = found(arguments);
  if (!there && !PyErr_Occurred()) PyErr_SetString(PyExc_KeyError, "nothing is cached");
  return Py_XNewRef(there);
}
// ... this object, or data that is the same.
PyObject* is_cached_as(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  PyObject* const there = found(arguments);
  if (!there && PyErr_Occurred()) return nullptr;
  const bool same = there && (there == arguments[2] || (is_immutable(there) && guards::equal(there, arguments[2])));
  return Py_NewRef(same ? Py_True : Py_False);
}
PyObject* count_hit(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  const Call call = call_of(arguments);
  return Ref::steal(PyObject_Call(call.cache, call.arguments, call.keywords)) ? Py_NewRef(Py_None) : nullptr;
}
PyObject* count_miss(PyObject*, PyObject* const* arguments, Py_ssize_t) { return cpython::count_miss(arguments[0]), Py_NewRef(Py_None); }
PyObject* keep(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  const Call call = call_of(arguments);
  return cpython::keep_result(call.cache, call.arguments, call.keywords, arguments[2]) ? Py_NewRef(Py_None) : nullptr;
}
// In a graph: what is let go for it may tell of its end.
PyObject* keep_more(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (!cpython::is_full(arguments[0]) && !found(arguments)) return PyErr_Occurred() ? nullptr : keep(self, arguments, count);
  graph::ask_to_leave();
  return nullptr;
}

struct StepRow {
  const char* name;
  PyObject* (*function)(const char* name, const char* doc);
};
constexpr StepRow kSteps[] = {{"is_cached", c_function<is_cached>}, {"cached", c_function<cached>}, {"count_hit", c_function<count_hit>}, {"count_miss", c_function<count_miss>}, {"keep", c_function<keep>}};
static_assert(std::size(kSteps) == static_cast<size_t>(CacheStep::kCount));

std::optional<CacheStep> step_of(PyObject* callable) {
  for (int i = 0; i < static_cast<int>(CacheStep::kCount); i++) {
    if (callable == cache_function(static_cast<CacheStep>(i))) return static_cast<CacheStep>(i);
  }
  return std::nullopt;
}

// One that is equal to itself alone, whatever the class is told.
bool is_equal_by_place(PyObject* object) { return Py_TYPE(object)->tp_hash == PyBaseObject_Type.tp_hash && compares_by_identity(Py_TYPE(object)); }

// Whether it is the same key in each run: it has one value, or is one object that a module has, such as a logger. What a function is given may be
// another one in each call.
bool is_one_key(Recorder& recorder, uint32_t label, PyObject* object) {
  if (is_immutable(object)) return !recorder.is_input_number(label, object) && recorder.known(label, object);
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kSource && recorder.guards().is_given(value.a)) return false;
  return is_equal_by_place(object) && fixes_object(recorder, label, object) && fixes_type(recorder, label, object);
}

// The arguments, which are the same in each run, as a constant; null: they aren't.
Ref known_call(Recorder& recorder, const Site& site, const Activation::CallSite& call) {
  const Py_ssize_t named = call.keywords(), plain = call.count - named;
  const Ref arguments = Ref::steal(PyTuple_New(plain)), keywords = named ? Ref::steal(PyDict_New()) : Ref::borrow(Py_None);
  if (!arguments || !keywords) return PyErr_Clear(), Ref();
  for (int i = 0; i < call.count; i++) {
    PyObject* const object = site.frame.slot(call.first + i);
    const uint32_t label = recorder.label(call.first + i);
    if (!is_one_key(recorder, label, object)) return Ref();
    if (i < plain) {
      PyTuple_SET_ITEM(arguments.get(), i, Py_NewRef(object));
    } else if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(call.keyword_names.get(), i - plain), object) < 0) {
      return PyErr_Clear(), Ref();
    }
  }
  return Ref::steal(PyTuple_Pack(2, arguments.get(), keywords.get()));
}

// A node that does what the instruction does.
Plan step(Recorder& recorder, PyObject* callable, const std::vector<Operated>& given) {
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.callable = callable;
  for (const Operated& one : given) {
    plan.operands.push_back(recorder.operand(one.label, one.object));
    if (!plan.operands.back()) return plan_break(Break::kUnknownCall, "a cached function that gives " + type_name(one.object));
  }
  return plan;
}

PyObject* present(const std::vector<Operated>& given) {
  PyObject* const arguments[] = {given[0].object, given[1].object};
  PyObject* const there = found(arguments);
  if (!there) PyErr_Clear();
  return there;
}

bool is_of_graph(PyObject* there) { return numpy::is_array(there) || numpy::is_scalar(there); }

// Whether something is there, and the same object or data in each run, unless it's an array, which is the graph's.
Plan look_into_cache(Recorder& recorder, const std::vector<Operated>& given) {
  PyObject* const there = present(given);
  const bool fixed = there && !is_of_graph(there);
  Plan plan = step(recorder, fixed ? c_function<is_cached_as>("is_cached_as") : cache_function(CacheStep::kIsCached), given);
  if (fixed && plan.kind == Plan::Kind::kNode) plan.operands.push_back(graph::Operand::constant(recorder.value(recorder.constant(there)).a));
  plan.stays = true;
  return plan;
}

// ... which has been looked into.
Plan found_in_cache(Recorder& recorder, const std::vector<Operated>& given) {
  PyObject* const there = present(given);
  if (!there) return plan_break(Break::kUnknownCall, "an empty cache");
  if (!is_of_graph(there)) return is_immutable(there) ? plan_constant() : plan_value(recorder.fixed(there));
  Plan plan = step(recorder, cache_function(CacheStep::kCached), given);
  plan.check_result = true;
  return plan;
}

// A tuple of keys may have the object in it that stands between positional arguments and those with names.
bool is_plain_key(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return is_immutable(key) || is_equal_by_place(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
    if (!is_immutable(PyTuple_GET_ITEM(key, i)) && !is_equal_by_place(PyTuple_GET_ITEM(key, i))) return false;
  }
  return true;
}

// Whether keys of classes of the program's are compared with it.
bool may_run_code(PyObject* cache, PyObject* key) {
  const Py_hash_t hash = PyObject_Hash(key);
  for (PyObject* const other : cpython::keys_with_hash(cpython::dict_of_cache(cache), hash)) {
    if (!is_plain_key(other)) return true;
  }
  return false;
}

}  // namespace

const char* name_of(CacheStep which) { return kSteps[static_cast<size_t>(which)].name; }

PyObject* cache_function(CacheStep which) { return kSteps[static_cast<size_t>(which)].function(name_of(which), nullptr); }

bool expects_the_past(const graph::Graph& graph, int32_t index) {
  const graph::Node& node = graph.nodes[index];
  if (node.form != graph::Form::kCheck) return false;
  const graph::Operand asked = graph.operands_of(node)[0], wanted = graph.operands_of(node)[1];
  if (asked.space != graph::Operand::Space::kNode || wanted.space != graph::Operand::Space::kConstant) return false;
  const graph::Node& look = graph.nodes[asked.index];
  PyObject* const callable = look.form == graph::Form::kCall ? graph.constants[look.callable].get() : nullptr;
  if (callable && callable == cache_function(CacheStep::kIsCached)) return graph.constants[wanted.index].get() == Py_False;
  return callable && PyCFunction_Check(callable) && std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "get_cache_token";
}

std::optional<Plan> cache_step(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  Recorder& recorder = site.recorder;
  const std::optional<CacheStep> which = step_of(callable);
  if (!which) return std::nullopt;
  if (!recorder.may_put_off()) return plan_break(Break::kUnknownCall, "a cached function behind the end of an object that tells of it");
  std::vector<Operated> given;
  for (int i = call.first; i < call.first + call.count; i++) given.push_back({recorder.label(i), site.frame.slot(i)});
  if (*which == CacheStep::kIsCached) return look_into_cache(recorder, given);
  if (*which == CacheStep::kCached) return found_in_cache(recorder, given);
  const bool keeps = *which == CacheStep::kKeep;
  if (keeps && !is_one_object(recorder.value(given[2].label), given[2].object)) return plan_break(Break::kUnknownCall, "a cached function that makes " + type_name(given[2].object));
  Plan plan = step(recorder, keeps ? c_function<keep_more>("keep_more") : callable, given);
  if (plan.kind == Plan::Kind::kNode) plan.label = recorder.constant(Py_None);
  return plan;
}

std::optional<Plan> call_of_cache(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  PyObject* const cache = site.frame.slot(call.callable);
  if (!cpython::is_lru_cache(cache) || !fixes_object(recorder, recorder.label(call.callable), cache)) return std::nullopt;
  const Ref made = known_call(recorder, site, call);
  if (!made) return PyErr_Clear(), std::nullopt;
  PyObject* const keywords = PyTuple_GET_ITEM(made.get(), 1);
  const Ref key = cpython::key_of_call(cache, PyTuple_GET_ITEM(made.get(), 0), keywords == Py_None ? nullptr : keywords);
  if (!key || may_run_code(cache, key.get())) return PyErr_Clear(), std::nullopt;
  PyObject* const function = cpython::function_of_cache(cache);
  std::optional<Plan> plan = stand_in_call(site, "cached_call", call.keyword_names);
  if (!plan) return std::nullopt;
  give(*plan, {recorder.constant(cache), cache});
  give(*plan, {recorder.fixed(function), function});
  give(*plan, {recorder.constant(made.get()), made.get()});
  for (int i = call.first; i < call.first + call.count; i++) give(*plan, {recorder.label(i), site.frame.slot(i)});
  return plan;
}

}  // namespace evalframe::recorder
