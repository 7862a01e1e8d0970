// Rules for calls that have an effect outside, or read what changes outside, and look at nothing that a recording puts off: they
// are called where they stand in the graph. Which ones: recorder/effects.def; print is in rules/streams.cpp.
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/builtins.h"
#include "core/made_once.h"
#include "cpython/attributes.h"
#include "cpython/hook.h"
#include "frontends/torch/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

enum class What : uint8_t { kReads, kActs, kWaits, kSame, kState, kItself, kAcquires, kReleases, kFollows };

struct EffectRow {
  const char *module, *name;
  What what;
};
constexpr EffectRow kEffects[] = {
#define EVALFRAME_EFFECT(module, name, what) {#module, #name, What::what},
#include "recorder/effects.def"
#undef EVALFRAME_EFFECT
};

struct Known {
  std::unordered_map<PyObject*, What> functions;
  std::unordered_set<PyTypeObject*> types;  // whose methods are among them
};

// `a.b.c` of the module; not every version and system has all.
Ref find(const EffectRow& row) {
  // The import system isn't captured for what asks for it here.
  const cpython::HooksSuspended unseen;
  Ref found = Ref::steal(PyImport_ImportModule(row.module));
  for (std::string_view rest = row.name; found && !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('.')));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    found = Ref::steal(PyObject_GetAttrString(found.get(), name.c_str()));
  }
  if (!found) PyErr_Clear();
  return found;
}

const Known& known_effects() {
  static MadeOnce<Known> known;
  return known.get([] {
    Known made;
    for (const EffectRow& row : kEffects) {
      Ref found = find(row);
      if (!found) continue;
      if (Py_IS_TYPE(found.get(), &PyMethodDescr_Type)) made.types.insert(PyDescr_TYPE(found.get()));
      made.functions.emplace(found.release(), row.what);  // lives as long as the process
    }
    return made;
  });
}

// random.Random, which sets up its stream by a method of its own.
bool is_class_of_streams(PyObject* callable) {
  if (!PyType_Check(callable) || std::string_view(reinterpret_cast<PyTypeObject*>(callable)->tp_name) != "Random") return false;
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "random") : nullptr;
  return module && PyModule_Check(module) && PyDict_GetItemString(PyModule_GetDict(module), "Random") == callable;
}

// The row of a function, of a method, or of a method that is bound to an object.
const What* effect_of(PyObject* callable) {
  const Known& known = known_effects();
  static constexpr What kMakesStream = What::kActs;
  if (is_class_of_streams(callable)) return &kMakesStream;
  const auto found = known.functions.find(callable);
  if (found != known.functions.end()) return &found->second;
  PyObject* const self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (!self || PyModule_Check(self) || PyType_Check(self)) return nullptr;
  const Ref name = Ref::steal(PyUnicode_InternFromString(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
  PyObject* const method = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
  const auto of_type = method ? known.functions.find(method) : known.functions.end();
  return of_type != known.functions.end() && Py_IS_TYPE(method, &PyMethodDescr_Type) ? &of_type->second : nullptr;
}

// The type of C that draws random.Random's numbers.
PyTypeObject* type_of_streams() {
  static const PyTypeObject* const type = [] {
    const Ref found = find({"_random", "Random", What::kActs});
    return found.as<PyTypeObject>();  // the module has it
  }();
  return const_cast<PyTypeObject*>(type);
}

bool all_known(Recorder& recorder, const Given& given) {
  for (size_t i = 0; i < given.objects.size(); i++) {
    if (!recorder.known(given.labels[i], given.objects[i])) return false;
  }
  return true;
}

// The streams among the arguments are C code through and through.
bool takes_plainly(Recorder& recorder, const Given& given) {
  for (size_t i = 0; i < given.objects.size(); i++) {
    if (!is_one_object(recorder.value(given.labels[i]), given.objects[i])) return false;
    if (is_stream(given.objects[i]) && !uses_plainly(recorder, given.labels[i], given.objects[i])) return false;
  }
  return true;
}

}  // namespace

bool is_random_stream(PyObject* object) {
  PyTypeObject* const type = type_of_streams();
  return type && PyObject_TypeCheck(object, type);
}

bool is_acted_on(PyObject* object) { return known_effects().types.contains(Py_TYPE(object)) || is_stream(object) || is_random_stream(object) || is_count(object) || is_of_thread(object) || PyContextToken_CheckExact(object) || torch::is_inference_mode(reinterpret_cast<PyObject*>(Py_TYPE(object))); }

bool makes_streams(const graph::Graph& graph, int32_t node) {
  const graph::Node& of = graph.nodes[node];
  PyObject* const callable = of.form == graph::Form::kCall && of.callable >= 0 ? graph.constants[of.callable].get() : nullptr;
  static MadeOnce<std::unordered_set<PyObject*>> makers;
  return makers
      .get([] {
        std::unordered_set<PyObject*> made;
        for (const char* name : {"open", "StringIO", "BytesIO"}) made.insert(find({"_io", name, What::kActs}).get());
        return made;
      })
      .contains(callable);
}

bool has_effect(PyObject* callable) { return callable == builtin<"print">().get() || is_warn(callable) || effect_of(callable); }

bool collects_garbage(PyObject* callable) {
  static MadeOnce<Ref> collect;
  return callable == collect.get([] { return find({"gc", "collect", What::kActs}); }).get();
}

Plan present_state(Recorder& recorder, PyObject* callable) {
  Ref now = Ref::steal(PyObject_CallNoArgs(callable));
  if (!now) return PyErr_Clear(), plan_break(Break::kUnknownCall, callable_name(callable));
  std::vector<torch::State>& states = recorder.guards().states;
  const bool asked = std::any_of(states.begin(), states.end(), [&](const torch::State& state) { return state.callable.get() == callable; });
  const uint32_t label = recorder.constant(now.get());
  if (!asked) states.push_back({Ref::borrow(callable), std::move(now), "what the interpreter is set to is as before"});
  return plan_value(label);
}

namespace {

PyObject* method_of_variables(const char* name) { return cpython::lookup(&PyContextVar_Type, name); }

// The calls that have set a context variable, of those that were put off, and that no other has undone.
std::vector<uint32_t> that_hold(const Recorder& recorder, const std::vector<uint32_t>& calls) {
  std::vector<uint32_t> hold;
  for (const uint32_t call : calls) {
    const bool sets = recorder.constant_of(recorder.elements(recorder.value(call))[0]) == method_of_variables("set");
    sets ? hold.push_back(call) : hold.pop_back();
  }
  return hold;
}

// ContextVar.set of what the graph doesn't have, and what follows it: the variable is set where the graph is left, and reset there, and
// what it has meanwhile is known. None: a call that the graph makes.
std::optional<Plan> call_of_variable(Recorder& recorder, PyObject* callable, const Given& given) {
  if (given.keyword_names || given.objects.empty() || !PyContextVar_CheckExact(given.objects[0])) return std::nullopt;
  const bool sets = callable == method_of_variables("set"), resets = callable == method_of_variables("reset"), gets = callable == method_of_variables("get");
  if (!sets && !resets && !gets) return std::nullopt;
  const std::vector<uint32_t> before = recorder.calls_put_off(given.objects[0]), hold = that_hold(recorder, before);
  if (gets) return hold.empty() ? std::nullopt : std::optional(plan_value(recorder.elements(recorder.value(hold.back()))[3]));
  constexpr size_t kArguments = 2;
  if (given.objects.size() != kArguments || !recorder.may_put_off() || !fixes_object(recorder, given.labels[0], given.objects[0])) return std::nullopt;
  const auto is_of_graph = [&] { return is_one_object(recorder.value(given.labels[1]), given.objects[1]) && recorder.operand(given.labels[1], given.objects[1]); };
  if (before.empty() && (resets || is_of_graph())) return std::nullopt;
  // A token is of one variable and one use: another one may raise.
  if (resets && (hold.empty() || hold.back() != given.labels[1])) return plan_break(Break::kUnknownCall, callable_name(callable) + " behind another call");
  const uint32_t call = recorder.made(callable, nullptr, given.labels);
  Plan plan = sets ? plan_value(call) : plan_value(recorder.constant(Py_None));
  plan.acts = call;
  plan.stored_owner = given.labels[0];
  plan.stored_into = Ref::borrow(given.objects[0]);
  return plan;
}

}  // namespace

Plan effect_call(Recorder& recorder, PyObject* callable, const Given& given) {
  if (std::optional<Plan> plan = call_of_variable(recorder, callable, given)) return *std::move(plan);
  const bool prints = callable == builtin<"print">().get();
  const bool warns = is_warn(callable);
  const What* const what = prints || warns ? nullptr : effect_of(callable);
  const auto no = [&](const char* why) { return plan_break(Break::kUnknownCall, callable_name(callable) + why); };
  if (what && *what == What::kState && given.objects.empty()) return present_state(recorder, callable);
  if (what && *what == What::kFollows) return all_known(recorder, given) ? plan_constant() : no("");
  // What the program has let go of, and the recording still has, would tell of its end behind the effect.
  if (!recorder.may_put_off()) return no(" behind the end of an object that tells of it");
  if (warns) return warning_call(recorder, given);
  if (PyType_Check(callable) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(callable), Py_TPFLAGS_HEAPTYPE) && !is_written_in_c(reinterpret_cast<PyTypeObject*>(callable)) && !recorder.fix_class(callable)) return no("");
  if (prints ? !is_plain_print(recorder, given) : !takes_plainly(recorder, given)) return no("");
  if (what && *what == What::kWaits && !recorder.recording().names.empty()) return no(" behind a store");
  const bool acquires = what && *what == What::kAcquires, releases = what && *what == What::kReleases;
  if (acquires && given.objects.size() != 1) return no(" that may fail");
  // Who takes the lock next must find what was stored under it.
  if (releases && recorder.has_stored_under_lock()) return no(" behind a store");
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kCall;
  plan.callable = acquires ? acquire_without_waiting() : callable;
  plan.holds = acquires ? 1 : releases ? -1 : 0;
  plan.keyword_names = given.keyword_names;
  plan.keywords = given.keywords();
  plan.check_result = true;
  plan.of_numbers = true;
  plan.stays = what && *what == What::kSame;
  if (what && *what == What::kItself && !given.labels.empty()) plan.label = given.labels[0];
  if (acquires) plan.label = recorder.constant(Py_True);
  for (size_t i = 0; i < given.objects.size(); i++) {
    plan.operands.push_back(recorder.operand(given.labels[i], given.objects[i]));
    if (!plan.operands.back()) return no((" with " + type_name(given.objects[i])).c_str());
  }
  return plan;
}

}  // namespace evalframe::recorder
