// Rules for attributes whose name is a value: getattr, hasattr, setattr, delattr, and what object itself does with attributes.
#include "core/builtins.h"
#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "evaluator/rest.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// What the type `object` has for good.
struct OfObject {
  PyObject* const setter = cpython::lookup(&PyBaseObject_Type, "__setattr__");
  PyObject* const getter = cpython::lookup(&PyBaseObject_Type, "__getattribute__");
  PyObject* const deleter = cpython::lookup(&PyBaseObject_Type, "__delattr__");
};
const OfObject& of_object() {
  static const OfObject all;
  return all;
}

// The known name, as names of attributes are; null: none.
Ref known_name(Recorder& recorder, const Operated& name) {
  if (!PyUnicode_CheckExact(name.object) || !recorder.known(name.label, name.object)) return Ref();
  PyObject* interned = Py_NewRef(name.object);
  PyUnicode_InternInPlace(&interned);
  return Ref::steal(interned);
}

Plan unknown(PyObject* callable) { return plan_break(Break::kUnknownCall, callable_name(callable)); }

// The call gives None, whatever the function gives that it asks.
Plan giving_none(Recorder& recorder, Plan plan) {
  if (plan.kind != Plan::Kind::kInline) return plan;
  const Ref parts = Ref::steal(PyTuple_Pack(1, Py_None));
  Ref rest = parts ? evaluator::make_rest(parts.get()) : Ref();
  if (!rest) return PyErr_Clear(), plan_break(Break::kUnknownCall, "setattr");
  const uint32_t label = recorder.made(evaluator::rest_type(), nullptr, {recorder.container(Value::Kind::kTuple, {recorder.constant(Py_None)})});
  plan.kept.emplace_back(std::move(rest), label);
  plan.rest = std::make_shared<Rest>();
  plan.rest->gives_none = true;
  return plan;
}

Plan stored(const Site& site, const Asked& asked, const Operated& value, bool past_hooks) {
  Plan plan = giving_none(site.recorder, store_attribute(site, asked, value, past_hooks));
  if (plan.kind == Plan::Kind::kLabels) plan.kind = Plan::Kind::kConstant;
  return plan;
}

Plan deleted(const Site& site, const Asked& asked, bool past_hooks) {
  Plan plan = giving_none(site.recorder, delete_attribute(site, asked, past_hooks));
  if (plan.kind == Plan::Kind::kLabels) plan.kind = Plan::Kind::kConstant;
  return plan;
}

// The function of Python's that is asked may raise AttributeError: a stand-in handles that.
Plan handled(const Site& site, const char* stand_in, std::initializer_list<Operated> arguments) {
  std::optional<Plan> plan = stand_in_call(site, stand_in, nullptr);
  if (!plan) return plan_break(Break::kUnknownCall, stand_in);
  for (const Operated& argument : arguments) give(*plan, argument);
  return *std::move(plan);
}

// otherwise: the default, or null.
Plan get(const Site& site, const Asked& asked, const Operated* otherwise) {
  Plan plan = read_attribute(site, asked);
  if (otherwise && plan.kind == Plan::Kind::kInline) {
    return handled(site, "attribute_or", {{asked.label, asked.object}, {site.recorder.constant(asked.name), asked.name}, *otherwise});
  }
  if (otherwise && plan.kind == Plan::Kind::kRaise) return plan_value(otherwise->label);
  plan.about = asked.label;
  return plan;
}

Plan has(const Site& site, const Asked& asked) {
  const Plan plan = read_attribute(site, asked);
  if (plan.kind == Plan::Kind::kInline) {
    return handled(site, "has_attribute", {{asked.label, asked.object}, {site.recorder.constant(asked.name), asked.name}});
  }
  return plan.kind != Plan::Kind::kBreak ? plan_constant() : plan_break(Break::kUnknownCall, "hasattr");
}

}  // namespace

bool is_hook_of_object(PyObject* callable) {
  return callable == of_object().setter || callable == of_object().deleter || callable == of_object().getter;
}

std::optional<Plan> call_by_name(const Site& site, const std::vector<Operated>& arguments, Borrowed keyword_names, PyObject* callable) {
  const bool gets = callable == builtin<"getattr">().get(), sets = callable == builtin<"setattr">().get();
  const bool tests = callable == builtin<"hasattr">().get(), deletes = callable == builtin<"delattr">().get();
  const bool hook = is_hook_of_object(callable);
  if (!gets && !sets && !tests && !deletes && !hook) return std::nullopt;
  const size_t wanted = sets || callable == of_object().setter ? 3 : 2;
  if (keyword_names || (arguments.size() != wanted && !(gets && arguments.size() == 3))) return unknown(callable);
  const Operated self = arguments[0];
  const Ref name = known_name(site.recorder, arguments[1]);
  if (!name) return unknown(callable);
  const Asked asked{self.label, self.object, name.get()};
  site.recorder.constant(name.get());  // it outlives the plan
  if (gets) return get(site, asked, arguments.size() == 3 ? &arguments[2] : nullptr);
  if (tests) return has(site, asked);
  if (!hook) return sets ? stored(site, asked, arguments[2], false) : deleted(site, asked, false);
  if (PyType_Check(self.object) || PyModule_Check(self.object)) return unknown(callable);
  if (callable == of_object().getter) {
    Plan plan = read_generic_attribute(site, asked);
    plan.about = asked.label;
    return plan;
  }
  return wanted == 3 ? stored(site, asked, arguments[2], true) : deleted(site, asked, true);
}

}  // namespace evalframe::recorder
