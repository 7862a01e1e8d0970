// Binds the evaluator: `evaluate` runs one call in it, and two variants of it for tests.
#include <nanobind/nanobind.h>

#include <vector>

#include "cpython/codec.h"
#include "evaluator/activation.h"
#include "evaluator/bind_arguments.h"
#include "evaluator/counts.h"
#include "evaluator/evaluate_all.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

// The arguments of a call as a vectorcall takes them.
struct Arguments {
  std::vector<PyObject*> values;  // borrowed from the tuple and the dict that they were given in
  size_t positional = 0;
  Ref names;

  Arguments(const nb::args& args, size_t skipped, const nb::kwargs& keywords) {
    for (size_t index = skipped; index < args.size(); ++index) values.push_back(args[index].ptr());
    positional = values.size();
    if (keywords.size() == 0) return;
    names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(keywords.size())));
    if (!names) throw nb::python_error();
    Py_ssize_t at = 0;
    for (const auto& [name, value] : keywords) {
      PyTuple_SET_ITEM(names.get(), at++, Ref::borrow(name.ptr()).release());
      values.push_back(value.ptr());
    }
  }
};

nb::object finished(Ref result) {
  if (!result) throw nb::python_error();
  return nb::steal(result.release());
}

void check_function(nb::handle function) {
  if (PyFunction_Check(function.ptr())) return;
  PyErr_Format(PyExc_TypeError, "evaluate() runs Python functions, not %.200s objects; pass a function made by def or lambda",
               Py_TYPE(function.ptr())->tp_name);
  throw nb::python_error();
}

// A filled frame for the call; null where the arguments don't fit, and the function is to be called to say so.
cpython::Frame* frame_for(PyThreadState* thread, nb::handle function, const Arguments& arguments) {
  cpython::Frame* const frame = cpython::push_frame(thread, function.ptr());
  if (!frame) throw nb::python_error();
  if (evaluator::bind_into(frame, function.ptr(), arguments.values.data(), arguments.positional, arguments.names.get())) return frame;
  cpython::pop_frame(thread, frame);
  if (PyErr_Occurred()) throw nb::python_error();
  return nullptr;
}

nb::object called(nb::handle function, const Arguments& arguments) {
  return finished(Ref::steal(PyObject_Vectorcall(function.ptr(), arguments.values.data(), arguments.positional, arguments.names.get())));
}

nb::object evaluate(nb::handle function, const Arguments& arguments) {
  check_function(function);
  PyThreadState* const thread = PyThreadState_Get();
  cpython::Frame* const frame = frame_for(thread, function, arguments);
  if (!frame) return called(function, arguments);
  return finished(evaluator::evaluate(thread, frame));
}

// Runs `steps` instructions in our evaluator one by one, and the rest in CPython's. Gives the result and the number run.
Ref run_steps(PyThreadState* thread, cpython::Frame* frame, int64_t steps, int64_t& run) {
  using evaluator::Event;
  const bytecode::Code* const code = cpython::decoded(cpython::code_of(frame));
  if (!code || !cpython::enter_recursion(thread)) {
    cpython::pop_frame(thread, frame);
    return Ref();
  }
  Ref result;
  Event event = Event::kNext;
  {
    evaluator::Activation activation(thread, frame, *code);
    while (event == Event::kNext || event == Event::kCaught) {
      if (run >= steps && activation.at_boundary()) event = Event::kHandOver;
      if (event == Event::kHandOver) break;
      event = activation.step();
      if (event != Event::kHandOver) ++run;
    }
    if (event == Event::kHandOver) activation.save();
    result = activation.take_result();
  }
  cpython::leave_recursion(thread);
  if (event == Event::kHandOver) return cpython::run_in_cpython(thread, frame, false);
  cpython::pop_frame(thread, frame);
  return result;
}

nb::object evaluate_handing_over_at(nb::handle function, int64_t steps, nb::list count, const Arguments& arguments) {
  check_function(function);
  PyThreadState* const thread = PyThreadState_Get();
  cpython::Frame* const frame = frame_for(thread, function, arguments);
  if (!frame) return called(function, arguments);
  int64_t run = 0;
  Ref result = run_steps(thread, frame, steps, run);
  if (result) count.append(run);
  return finished(std::move(result));
}

nb::dict evaluation_counts() {
  const evaluator::Counts& counts = evaluator::counts;
  nb::dict handed_over;
  if (counts.traced) handed_over["traced"] = counts.traced;
  if (counts.not_decoded) handed_over["not decoded"] = counts.not_decoded;
  for (size_t op = 0; op < counts.instruction.size(); ++op) {
    if (counts.instruction[op]) handed_over[bytecode::name(static_cast<bytecode::Op>(op))] = counts.instruction[op];
  }
  nb::dict result;
  result["evaluated"] = counts.evaluated;
  result["handed over"] = handed_over;
  return result;
}

}  // namespace

void bind_evaluator(nb::module_& module) {
  module.def("evaluate", [](const nb::args& args, const nb::kwargs& keywords) {
    if (args.size() == 0) throw nb::type_error("evaluate() needs a function: evaluate(function, *args, **kwargs)");
    return evaluate(args[0], Arguments(args, 1, keywords));
  }, nb::sig("def evaluate(function, /, *args, **kwargs)"),
     "Call the function in evalframe's own evaluator; functions that it calls run in CPython's.");
  module.def("evaluate_deep", [](const nb::args& args, const nb::kwargs& keywords) {
    if (args.size() == 0) throw nb::type_error("evaluate_deep() needs a function: evaluate_deep(function, *args, **kwargs)");
    const evaluator::DeepEvaluation deep;
    return evaluate(args[0], Arguments(args, 1, keywords));
  }, nb::sig("def evaluate_deep(function, /, *args, **kwargs)"),
     "Like evaluate(); Python functions that it calls run in evalframe's evaluator too.");
  module.def("evaluate_handing_over_at", [](const nb::args& args, const nb::kwargs& keywords) {
    if (args.size() < 3) throw nb::type_error("evaluate_handing_over_at() needs a function, a number of steps and a list");
    return evaluate_handing_over_at(args[0], nb::cast<int64_t>(args[1]), nb::cast<nb::list>(args[2]), Arguments(args, 3, keywords));
  }, nb::sig("def evaluate_handing_over_at(function, steps, count, /, *args, **kwargs)"),
     "Run `steps` instructions in evalframe's evaluator and the rest in CPython's; appends the number run to `count`.");
  module.def("evaluate_all_frames", [](bool on) {
    if (!on) return evaluator::stop_evaluating_all_frames();
    if (!evaluator::evaluate_all_frames()) throw nb::python_error();
  }, nb::arg("on"), "Run every Python frame of the process in evalframe's evaluator, or no longer.");
  // The interpreter's last steps are its own.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(evaluator::stop_evaluating_all_frames));
  module.def("evaluates_all_frames", evaluator::evaluates_all_frames);
  module.def("evaluation_counts", evaluation_counts, nb::sig("def evaluation_counts() -> dict[str, typing.Any]"),
             "How many frames evalframe's evaluator has run, and how many it handed over to CPython, by reason.");
}

}  // namespace evalframe
