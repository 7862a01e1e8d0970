// Rules for generators and coroutines that the recorded code made: their frames are recorded like those of calls.
#include "cpython/layout.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

namespace layout = cpython::layout;

void pop_after(const Site& site, const Plan&) {
  for (int i = site.frame.depth(); i < site.depth; i++) site.recorder.set_label(i, 0);
}

Plan return_generator(const Site& site) {
  // Where it was made is another place in each call.
  const bool tracked = site.frame.thread()->coroutine_origin_tracking_depth > 0;
  if (site.recorder.is_outermost() || site.recorder.rest() || tracked) return plan_break(Break::kInstruction, "RETURN_GENERATOR");
  site.recorder.recording().result = site.recorder.generator(site.frame);
  return {};
}

Plan yield_value(const Site& site) {
  Recorder& recorder = site.recorder;
  if (recorder.is_outermost() || recorder.is_in_outer_generator()) return plan_break(Break::kInstruction, "YIELD_VALUE");
  recorder.recording().result = recorder.label(site.depth - 1);
  return {};
}

// What it yields from is an iterator already, or becomes one.
Plan get_yield_from_iter(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth - 1);
  const Value value = recorder.value_at(site.depth - 1);
  if (value.kind == Value::Kind::kGenerator && PyGen_CheckExact(object)) return plan_value(recorder.label(site.depth - 1));
  return PyGen_CheckExact(object) || PyCoro_CheckExact(object) ? plan_break(Break::kIterator, type_name(object)) : get_iter(site);
}

// [receiver, value] -> [receiver, what it yields], or behind the loop: [result], [receiver, result].
Plan send(const Site& site) {
  Recorder& recorder = site.recorder;
  const int receiver = site.depth - 2, value = site.depth - 1;
  PyObject* const object = site.frame.slot(receiver);
  const Value of = recorder.value_at(receiver);
  if (of.kind == Value::Kind::kGenerator) return resumption(site, receiver, recorder.label(value), site.frame.slot(value));
  if (site.frame.slot(value) != Py_None || !recorder.constant_of(recorder.label(value))) return plan_break(Break::kIterator, "send to " + type_name(object));
  const uint32_t label = recorder.label(receiver);
  if (of.kind == Value::Kind::kIterator) return {};
  if (!recorder.is_iterator(label)) return plan_break(Break::kIterator, type_name(object));
  Plan plan;
  if (recorder.steps_to_end(label) <= 1) exhaust(plan, recorder, label, object);
  return plan;
}

void send_after(const Site& site, const Plan&) {
  Recorder& recorder = site.recorder;
  const int depth = site.frame.depth();
  if (depth == site.depth && site.frame.instruction().op != bytecode::Op::END_SEND) {
    return recorder.set_label(depth - 1, next_element(site, site.depth - 2, depth - 1));
  }
  recorder.set_label(site.depth - 1, 0);
  recorder.set_label(depth - 1, recorder.constant(Py_None));
}

Plan end_send(const Site& site) { return plan_value(site.recorder.label(site.depth - 1)); }

}  // namespace

Plan resumption(const Site& site, int slot, uint32_t sent, PyObject* object) {
  Recorder& recorder = site.recorder;
  const Value generator = recorder.value_at(slot);
  if (!recorder.waits(generator)) return plan_break(Break::kIterator, "a generator that runs or has ended");
  if (!recorder.has_begun(generator) && object != Py_None) return plan_break(Break::kIterator, "send to a generator that hasn't begun");
  Plan plan;
  plan.kind = Plan::Kind::kResume;
  plan.label = recorder.label(slot);
  plan.contents = {sent};
  plan.arguments = {site.frame.slot(slot), object};
  return plan;
}

void add_generator_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&)) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(RETURN_GENERATOR, return_generator, pop_after);
  add(YIELD_VALUE, yield_value, pop_after);
  add(GET_YIELD_FROM_ITER, get_yield_from_iter, nullptr);
  add(SEND, send, send_after);
  add(END_SEND, end_send, nullptr);
}

}  // namespace evalframe::recorder
