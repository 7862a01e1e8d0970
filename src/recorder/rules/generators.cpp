// Rules for generators and coroutines that the recorded code made: their frames are recorded like those of calls.
#include "core/builtins.h"
#include "cpython/generators.h"
#include "cpython/layout.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Resumes;
namespace layout = cpython::layout;

// Whether it is an asynchronous method that has to give such a generator.
bool suits_awaiting(const Rest& rest, int flags) {
  if (!rest.name) return false;
  if (PyUnicode_CompareWithASCIIString(rest.name.get(), "__anext__") == 0) return (flags & CO_COROUTINE) != 0;
  return PyUnicode_CompareWithASCIIString(rest.name.get(), "__await__") == 0 && (flags & CO_GENERATOR) && !(flags & CO_ITERABLE_COROUTINE);
}

Plan return_generator(const Site& site) {
  // Where it was made is another place in each call.
  const bool tracked = site.frame.thread()->coroutine_origin_tracking_depth > 0;
  Recorder& recorder = site.recorder;
  const Rest* const rest = recorder.rest();
  const int flags = site.frame.code().code.as<PyCodeObject>()->co_flags;
  const bool goes_through = rest && rest->goes_through && (flags & CO_GENERATOR);
  if (recorder.is_outermost() || tracked || (rest && !goes_through && !suits_awaiting(*rest, flags))) return plan_break(Break::kInstruction, "RETURN_GENERATOR");
  recorder.recording().result = recorder.generator(site.frame);
  if (goes_through) {
    const uint32_t generator = recorder.recording().result;
    recorder.conclude({rest->goes_through.get() == builtin<"iter">().get() ? generator : enumeration_by_steps(recorder, generator)});
  } else if (rest) {
    std::vector<uint32_t> results = rest->results;
    results.back() = recorder.recording().result;
    recorder.conclude(std::move(results));
  }
  return {};
}

Plan yield_value(const Site& site) {
  Recorder& recorder = site.recorder;
  if (recorder.is_resumed()) return plan_break(Break::kYield);
  if (recorder.is_outermost() || recorder.is_in_outer_generator()) return plan_break(Break::kInstruction, "YIELD_VALUE");
  recorder.recording().result = recorder.label(site.depth - 1);
  return {};
}

// In front of what an asynchronous generator yields.
Plan wrap_yielded(const Site& site) { return plan_break(site.recorder.is_resumed() ? Break::kYield : Break::kInstruction); }

// What it yields from is an iterator already, or becomes one.
Plan get_yield_from_iter(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(site.depth - 1);
  const Value value = recorder.value_at(site.depth - 1);
  if (value.kind == Value::Kind::kGenerator && PyGen_CheckExact(object)) return plan_value(recorder.label(site.depth - 1));
  return PyGen_CheckExact(object) || PyCoro_CheckExact(object) ? plan_break(Break::kIterator, type_name(object)) : get_iter(site);
}

Plan get_awaitable(const Site& site) {
  Recorder& recorder = site.recorder;
  const int top = site.depth - 1;
  const Value value = recorder.value_at(top);
  const bool plain = value.kind == Value::Kind::kGenerator && PyCoro_CheckExact(site.frame.slot(top)) && !recorder.delegates(value);
  if (plain) return plan_value(recorder.label(top));
  std::optional<Plan> called = awaiting_call(site, "__await__", {0});
  return called ? *std::move(called) : plan_break(Break::kIterator, "await of " + type_name(site.frame.slot(top)));
}

Plan get_aiter(const Site& site) {
  std::optional<Plan> called = awaiting_call(site, "__aiter__", {0});
  return called ? *std::move(called) : plan_break(Break::kIterator, "async for over " + type_name(site.frame.slot(site.depth - 1)));
}

// [iterator] -> [iterator, awaitable]
Plan get_anext(const Site& site) {
  std::optional<Plan> called = awaiting_call(site, "__anext__", {site.recorder.label(site.depth - 1), 0});
  return called ? *std::move(called) : plan_break(Break::kIterator, "async for over " + type_name(site.frame.slot(site.depth - 1)));
}

// What was raised in what is awaited goes on, but for the exception that ends it.
Plan raised_again(const Site& site, bool ends) {
  const uint32_t exception = site.recorder.label(site.depth - 1);
  if (!site.recorder.is_exception(exception)) return plan_break(Break::kException, "an exception from outside, again");
  if (ends) return {};
  Plan plan = plan_raise(exception);
  plan.reraises = true;
  return plan;
}

// [iterator, exception] -> []
Plan end_async_for(const Site& site) {
  return raised_again(site, PyErr_GivenExceptionMatches(site.frame.slot(site.depth - 1), PyExc_StopAsyncIteration) != 0);
}

// [receiver, what was sent, exception] -> [None, result], of a receiver that was thrown into.
Plan cleanup_throw(const Site& site) {
  const bool ends = PyErr_GivenExceptionMatches(site.frame.slot(site.depth - 1), PyExc_StopIteration) != 0;
  return ends ? plan_break(Break::kException, "the end of what was thrown into") : raised_again(site, false);
}

// [receiver, value] -> [receiver, what it yields], or behind the loop: [result], [receiver, result].
Plan send(const Site& site) {
  Recorder& recorder = site.recorder;
  const int receiver = site.depth - 2, value = site.depth - 1;
  PyObject* const object = site.frame.slot(receiver);
  const Value of = recorder.value_at(receiver);
  if (of.kind == Value::Kind::kGenerator) {
    Plan plan = resumption(recorder, {recorder.label(receiver), object}, {recorder.label(value), site.frame.slot(value)});
    if (plan.kind == Plan::Kind::kResume) recorder.pass_down(plan);
    return plan;
  }
  if (site.frame.slot(value) != Py_None || !recorder.constant_of(recorder.label(value))) return plan_break(Break::kIterator, "send to " + type_name(object));
  const uint32_t label = recorder.label(receiver);
  if (of.kind == Value::Kind::kIterator) return {};
  if (!recorder.is_iterator(label)) return plan_break(Break::kIterator, type_name(object));
  Plan plan;
  if (recorder.steps_to_end(label) <= 1 && recorder.is_endless(label)) return plan_break(Break::kIterator, type_name(object));
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

Plan resumption(Recorder& recorder, const Operated& generator, const Operated& sent) {
  const Value value = recorder.value(generator.label);
  if (!recorder.waits(value)) return plan_break(Break::kIterator, "a generator that runs or has ended");
  if (!recorder.has_begun(value) && sent.object != Py_None) return plan_break(Break::kIterator, "send to a generator that hasn't begun");
  Plan plan;
  plan.kind = Plan::Kind::kResume;
  plan.label = generator.label;
  plan.contents = {sent.label};
  plan.arguments = {generator.object, sent.object};
  return plan;
}

namespace {

// Which method of generators or coroutines it is; null: another callable.
const char* method_of_generator(PyObject* callable) {
  const bool method = Py_IS_TYPE(callable, &PyMethodDescr_Type), wrapper = Py_IS_TYPE(callable, &PyWrapperDescr_Type);
  if (!method && !wrapper) return nullptr;
  const PyTypeObject* const type = PyDescr_TYPE(callable);
  return type == &PyGen_Type || type == &PyCoro_Type ? PyUnicode_AsUTF8(PyDescr_NAME(callable)) : nullptr;
}

// The exception that is given to throw(), as one argument or, before 3.12, as three; null: another call.
const Operated* given_to_throw(const Recorder& recorder, const std::vector<Operated>& arguments) {
  if (arguments.size() == 2) return &arguments[1];
  if (arguments.size() != 4 || layout::kThrowOfThreeWarns) return nullptr;
  const uint32_t exception = arguments[2].label, traceback = arguments[3].label;
  const bool same = recorder.is_exception(exception) && traceback && recorder.attribute_of(recorder.value(exception), "__traceback__") == traceback;
  return same && arguments[1].object == reinterpret_cast<PyObject*>(Py_TYPE(arguments[2].object)) ? &arguments[2] : nullptr;
}

Plan resumed_by_call(Recorder& recorder, const Operated& generator, const Operated& sent, Resumes resumes, const Operated& with) {
  if (ends_here(recorder, sent.object) || (resumes == Resumes::kDefault && ends_here(recorder, with.object))) return plan_break(Break::kUnknownObject, "an operand whose end is told");
  Plan plan = resumption(recorder, generator, sent);
  if (plan.kind != Plan::Kind::kResume) return plan;
  plan.resumes = resumes;
  plan.contents.push_back(with.label);
  Ref number = Ref::steal(PyLong_FromLong(static_cast<long>(resumes)));
  const uint32_t label = recorder.constant(number.get());
  std::vector<Ref> parts;
  parts.push_back(std::move(number));
  parts.push_back(Ref::borrow(with.object));
  plan.kept.push_back(made_rest(recorder, parts, {label, with.label}));
  return plan.kept[0].first ? std::move(plan) : plan_break(Break::kIterator, "no memory");
}

// What it waits for has been closed, and has ended.
bool awaits_ended(const Recorder& recorder, const Value& generator) {
  const uint32_t awaited = recorder.awaited_by(generator);
  return awaited && recorder.has_ended(recorder.value(awaited));
}

// The exception is raised where the generator waits.
Plan thrown_by_call(Recorder& recorder, const Operated& generator, uint32_t exception, Ref object, Resumes resumes, const Operated& with) {
  if (!object) return PyErr_Clear(), plan_break(Break::kException, "throw");
  const Value value = recorder.value(generator.label);
  const bool delegates = recorder.delegates(value) && !awaits_ended(recorder, value);
  // Of those that wait for one another GeneratorExit ends the innermost first.
  const bool ends = PyErr_GivenExceptionMatches(object.get(), PyExc_GeneratorExit) != 0;
  if (delegates && (ends || !recorder.may_pass_down(value))) return plan_break(Break::kIterator, "a generator that waits for another");
  Plan plan = resumed_by_call(recorder, generator, {recorder.constant(Py_None), Py_None}, resumes, with);
  (delegates ? plan.passed_down : plan.thrown) = exception;
  if (plan.kind == Plan::Kind::kResume && !delegates) plan.arguments[1] = object.get();
  plan.held.push_back(std::move(object));
  return plan;
}

Plan throw_by_call(Recorder& recorder, const std::vector<Operated>& arguments, const Operated& none) {
  const Operated* const given = given_to_throw(recorder, arguments);
  const uint32_t exception = given ? exception_of(recorder, *given) : 0;
  if (!exception) return plan_break(Break::kException, "throw");
  Ref object = PyExceptionInstance_Check(given->object) ? Ref::borrow(given->object) : Ref::steal(PyObject_CallNoArgs(given->object));
  return thrown_by_call(recorder, arguments[0], exception, std::move(object), Resumes::kStop, none);
}

// What it waits for is closed first, as a call of a stand-in; none: it waits for something else.
std::optional<Plan> close_of_several(Recorder& recorder, const Operated& generator) {
  const uint32_t awaited = recorder.awaited_by(recorder.value(generator.label));
  const StandIn* const stand_in = stand_in_named("close_in_turn");
  if (!awaited || !stand_in || recorder.has_ended(recorder.value(awaited))) return std::nullopt;
  Ref object = cpython::awaited_by(generator.object);
  if (!object) return std::nullopt;
  Plan plan;
  plan.kind = Plan::Kind::kInline;
  plan.function = stand_in->function.get();
  recorder.calls(recorder.constant(plan.function));
  plan.contents = {generator.label, awaited};
  plan.arguments = {generator.object, object.get()};
  plan.held.push_back(std::move(object));
  return plan;
}

Plan close_by_call(Recorder& recorder, const Operated& generator, Resumes resumes = Resumes::kClose) {
  const uint32_t exit = recorder.exception(PyExc_GeneratorExit, recorder.container(Value::Kind::kTuple, {}));
  return thrown_by_call(recorder, generator, exit, Ref::steal(PyObject_CallNoArgs(PyExc_GeneratorExit)), resumes, generator);
}

}  // namespace

Plan letting_go(Recorder& recorder, const Unfinished& generator) {
  const Operated self{generator.value, generator.object.get()};
  if (!recorder.has_begun(recorder.value(self.label))) return plan_break(Break::kIterator, "a coroutine that was never awaited");
  return close_by_call(recorder, self, Resumes::kLetGo);
}

std::optional<Plan> generator_call(Recorder& recorder, PyObject* callable, const std::vector<Operated>& arguments, bool keywords) {
  static PyObject* const builtin_next = builtin<"next">().get();
  const Value generator = arguments.empty() ? Value{} : recorder.value(arguments[0].label);
  if (generator.kind != Value::Kind::kGenerator || keywords) return std::nullopt;
  const char* const method = method_of_generator(callable);
  const bool of_generator = PyGen_CheckExact(arguments[0].object), next = callable == builtin_next && of_generator;
  if (!method && !next) return std::nullopt;
  const std::string name = next ? "next" : method;
  const size_t count = arguments.size();
  const Operated none{recorder.constant(Py_None), Py_None};
  const bool ended = recorder.has_ended(generator);
  if (next && count == 2) return ended ? plan_value(arguments[1].label) : resumed_by_call(recorder, arguments[0], none, Resumes::kDefault, arguments[1]);
  if (name == "close" && count == 1) {
    if (ended) return plan_constant();
    std::optional<Plan> several = close_of_several(recorder, arguments[0]);
    return several ? *std::move(several) : close_by_call(recorder, arguments[0]);
  }
  if (name == "throw" && !ended) return throw_by_call(recorder, arguments, none);
  const bool steps = (name == "next" || name == "__next__") && count == 1;
  if (!steps && !(name == "send" && count == 2)) return std::nullopt;
  // A coroutine can't be run again, and says so.
  if (ended) return of_generator ? std::optional<Plan>(plan_raise()) : std::nullopt;
  return resumed_by_call(recorder, arguments[0], steps ? none : arguments[1], Resumes::kStop, none);
}

void add_generator_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&)) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(RETURN_GENERATOR, return_generator, pop_after);
  add(YIELD_VALUE, yield_value, pop_after);
  add(ASYNC_GEN_WRAP, wrap_yielded, nullptr);
  add(GET_YIELD_FROM_ITER, get_yield_from_iter, nullptr);
  add(GET_AWAITABLE, get_awaitable, nullptr);
  add(GET_AITER, get_aiter, nullptr);
  add(GET_ANEXT, get_anext, nullptr);
  add(END_ASYNC_FOR, end_async_for, pop_after);
  add(CLEANUP_THROW, cleanup_throw, nullptr);
  add(SEND, send, send_after);
  add(END_SEND, end_send, nullptr);
}

}  // namespace evalframe::recorder
