// Rules for branches, loops and returns.
#include "bytecode/raising.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// A branch is taken the same way as long as the guards hold, or it breaks.
Plan branch(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  PyObject* object = site.frame.slot(top);
  const Value value = recorder.value_at(top);
  if (is_made_container(value)) return {};
  if (torch::is_tensor(object)) return tests_for_errors(site) && recorder.check_truth_of_tensor(recorder.label(top), object) ? Plan() : plan_break(Break::kDataBranch, type_name(object));
  const bool mapping = PyDict_Check(object) && is_written_in_c(Py_TYPE(object));  // as OrderedDict is
  const bool container = PyList_CheckExact(object) || PyTuple_CheckExact(object) || mapping || PySet_CheckExact(object);
  if (value.kind == Value::Kind::kSource && container) {
    recorder.guards().require_length(value.a, object);
    return {};
  }
  if (recorder.check_truth(recorder.label(top), object) || recorder.known(recorder.label(top), object) || recorder.check_truth_in_call(recorder.label(top), object)) return {};
  if (std::optional<Plan> plan = truth_of_object(site)) return *std::move(plan);
  if (is_always_true(Py_TYPE(object)) && fixes_type(recorder, recorder.label(top), object)) return {};
  return plan_break(Break::kDataBranch, value.kind == Value::Kind::kTruth ? "numpy.bool" : type_name(object));
}

Plan none_branch(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  PyObject* object = site.frame.slot(top);
  const Value value = recorder.value_at(top);
  if (value.kind != Value::Kind::kSource) return {};
  if (object == Py_None) {
    recorder.guards().require_identity(value.a, object);
  } else if (!recorder.operand(recorder.label(top), object)) {
    recorder.guards().require_type(value.a, object);
  }
  return {};
}

Plan jump(const Site&) { return {}; }

// A deque tells of each change of its size, a set where it has another size now. The iterator is gone with the loop.
Plan step_behind_change(PyObject* iterator) {
  if (Py_REFCNT(iterator) > 1) return plan_break(Break::kIterator, "a container that has changed");
  if (std::string_view(Py_TYPE(iterator)->tp_name).ends_with("._deque_iterator")) return plan_raise();
  const Ref rest = Ref::steal(PyObject_CallMethod(iterator, "__reduce__", nullptr));
  const bool told = !rest && PyErr_ExceptionMatches(PyExc_RuntimeError);
  PyErr_Clear();
  return told ? plan_raise() : plan_break(Break::kIterator, "a container that has changed");
}

// What a comprehension goes through is in its argument, too, which nothing reads behind the last turn.
bool is_of_comprehension(const Site& site, PyObject* iterator) {
  const auto* const code = site.frame.code().code.as<PyCodeObject>();
  constexpr Py_ssize_t kHolders = 2;
  if (Py_REFCNT(iterator) != kHolders || code->co_argcount != 1 || site.frame.slot(0) != iterator) return false;
  return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, 0), ".0") == 0;
}

Plan for_iter(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  PyObject* object = site.frame.slot(top);
  const Value value = recorder.value_at(top);
  if (recorder.is_stale(recorder.label(top))) return step_behind_change(object);
  if (value.kind == Value::Kind::kIterator) return {};
  if (value.kind == Value::Kind::kGenerator && recorder.has_ended(value)) return {};
  if (value.kind == Value::Kind::kGenerator) return resumption(recorder, {recorder.label(top), object}, {recorder.constant(Py_None), Py_None});
  if (std::optional<Plan> plan = next_call(site)) return *std::move(plan);
  if (std::optional<Plan> plan = lazy_step(site)) return *std::move(plan);
  if (const uint32_t made = recorder.label(top); recorder.is_iterator(made)) {
    Plan plan;
    if (recorder.steps_to_end(made) <= 1 && recorder.is_endless(made)) return plan_break(Break::kIterator, type_name(object));
    if (recorder.steps_to_end(made) > 1) return plan;
    exhaust(plan, recorder, made, object);
    plan.dropped |= is_of_comprehension(site, object);
    return plan;
  }
  if (value.kind == Value::Kind::kSource && recorder.takes_turn(recorder.label(top), object)) {
    recorder.guards().require_type(value.a, object);
    return {};
  }
  return plan_break(Break::kIterator, type_name(object));
}

uint32_t iterated_label(const Site& site, const Value& iterator, int object) {
  Recorder& recorder = site.recorder;
  const Value iterable = recorder.value(static_cast<uint32_t>(iterator.a));
  switch (iterable.kind) {
    case Value::Kind::kTuple:
    case Value::Kind::kList: return recorder.elements(iterable)[iterator.b];
    case Value::Kind::kSource: {
      guards::Source source{guards::Reach::kItem};
      source.parent = iterable.a;
      source.index = iterator.b;
      return recorder.source(std::move(source));
    }
    default: break;
  }
  return recorder.constant(site.frame.slot(object));
}

void for_iter_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  if (plan.kind == Plan::Kind::kNode) return recorder.set_label(site.depth, recorder.node_value(recorder.add_node(plan, site.frame.slot(site.depth)), false));
  if (site.frame.depth() < site.depth) return recorder.set_label(site.depth - 1, 0);  // exhausted
  recorder.set_label(site.depth, next_element(site, site.depth - 1, site.depth));
}

Plan returned(Recorder& recorder, uint32_t value, PyObject* object) {
  if (recorder.rest()) {
    if (std::optional<Plan> plan = return_to_rest(recorder, value, object)) return *std::move(plan);
  }
  if (recorder.lets_traceback_out(value)) return plan_break(Break::kException, "a traceback that outlives the call");
  if (recorder.is_resumed()) return plan_break(Break::kYield);
  if (recorder.is_in_outer_generator()) return plan_break(Break::kIterator, "the end of a generator");
  if (recorder.is_outermost() && recorder.leaves_unfinished()) return plan_break(Break::kIterator, "a generator left in a try or with");
  recorder.recording().result = value;
  return {};
}

Plan return_value(const Site& site) { return returned(site.recorder, site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1)); }

Plan return_const(const Site& site) {
  PyObject* constants = site.frame.code().code.as<PyCodeObject>()->co_consts;
  PyObject* const object = PyTuple_GET_ITEM(constants, site.instruction.arg);
  return returned(site.recorder, site.recorder.constant(object), object);
}

// Of what is asked when the loop asks.
std::optional<Plan> iterator_by_steps(const Site& site, uint32_t label, PyObject* object) {
  Recorder& recorder = site.recorder;
  if (is_lazy(recorder, label)) {
    const Py_ssize_t most = std::max<Py_ssize_t>(recorder.most_turns(site.frame), Recorder::kMaxBackJumps);
    return turns_to_come(recorder, label, object).value_or(0) > most ? plan_break(Break::kLoop, type_name(object)) : plan_value(label);
  }
  return iteration_by_number(site, {label, object});
}

}  // namespace

bool tests_for_errors(const Site& site) {
  using enum bytecode::Op;
  const bytecode::Code& code = site.frame.code();
  auto at = static_cast<size_t>(&site.instruction - code.instructions.data());
  if (code.instructions[at].op == TO_BOOL || code.instructions[at].op == COMPARE_OP) at++;
  const bytecode::Op op = at < code.instructions.size() ? code.instructions[at].op : NOP;
  if (op != POP_JUMP_IF_FALSE && op != POP_JUMP_IF_TRUE) return false;
  const int32_t jumped = code.instructions[at].target, other = static_cast<int32_t>(at) + 1;
  return bytecode::always_raises(code, jumped) || bytecode::always_raises(code, other);
}

Plan get_iter(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  PyObject* object = site.frame.slot(top);
  const Value value = recorder.value_at(top);
  if (std::optional<Plan> plan = iterator_of(site, recorder.label(top), object)) return *std::move(plan);
  if (value.kind == Value::Kind::kGenerator && PyGen_CheckExact(object)) return plan_value(recorder.label(top));
  if (std::optional<Plan> plan = iteration_call(site)) return *std::move(plan);
  if (std::optional<Plan> plan = iterator_by_steps(site, recorder.label(top), object)) return *std::move(plan);
  const bool sequence = PyList_CheckExact(object) || PyTuple_CheckExact(object);
  const bool fixed = value.kind == Value::Kind::kConstant && (PyTuple_CheckExact(object) || PyRange_Check(object));
  if (sequence || fixed) {
    const bool varies = value.kind == Value::Kind::kSource && recorder.varies(value.a);
    if (varies || length_of(object) > recorder.most_turns(site.frame)) return plan_break(Break::kLoop, type_name(object));
  }
  if (value.kind == Value::Kind::kSource && sequence) {
    recorder.guards().require_length(value.a, object);
    if (PyList_CheckExact(object)) recorder.goes_through(recorder.label(top), object);
  } else if (value.kind != Value::Kind::kTuple && value.kind != Value::Kind::kList && !fixed) {
    return plan_break(Break::kIterator, type_name(object));
  }
  return plan_value(recorder.add_value({Value::Kind::kIterator, false, static_cast<int32_t>(recorder.label(top)), 0}));
}

uint32_t next_element(const Site& site, int slot, int object) {
  Recorder& recorder = site.recorder;
  const Value iterator = recorder.value_at(slot);
  if (iterator.kind == Value::Kind::kMade) {
    const uint32_t made = recorder.label(slot), given = recorder.given(made);
    recorder.give(made, 1);
    return recorder.items(made)[given];
  }
  if (iterator.kind == Value::Kind::kSource) return recorder.turn(iterator);
  const uint32_t element = iterated_label(site, iterator, object);
  recorder.set_label(slot, recorder.add_value({Value::Kind::kIterator, false, iterator.a, iterator.b + 1}));
  return element;
}

void add_control_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = pop_after) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(POP_JUMP_IF_FALSE, branch);
  add(POP_JUMP_IF_TRUE, branch);
  add(JUMP_IF_FALSE_OR_POP, branch);
  add(JUMP_IF_TRUE_OR_POP, branch);
  add(POP_JUMP_IF_NONE, none_branch);
  add(POP_JUMP_IF_NOT_NONE, none_branch);
  add(JUMP_FORWARD, jump);
  add(JUMP_BACKWARD, jump);
  add(JUMP_BACKWARD_NO_INTERRUPT, jump);
  add(GET_ITER, get_iter, nullptr);
  add(FOR_ITER, for_iter, for_iter_after);
  add(RETURN_VALUE, return_value);
  add(RETURN_CONST, return_const);
}

}  // namespace evalframe::recorder
