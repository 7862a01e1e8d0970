// Binds inspect/: the recorder of steps, and the rows of a code object that they are shown with.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bytecode/print.h"
#include "cpython/codec.h"
#include "cpython/variables.h"
#include "inspect/step_recorder.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

using inspect::Step, inspect::StepRecorder, inspect::Trace;

// byte offset, canonical name, CPython's own, argument, what it refers to, target (index or -1), line, end line, column, end column
using Row = std::tuple<int, std::string, std::string, int, std::string, int, std::tuple<int, int, int, int>>;

std::vector<Row> instruction_rows(nb::handle code) {
  if (!PyCode_Check(code.ptr())) throw nb::type_error("instruction_rows() wants a code object");
  const auto decoded = cpython::decode(code.ptr());
  if (!decoded) throw nb::python_error();
  std::vector<Row> rows;
  for (size_t index = 0; index < decoded->instructions.size(); ++index) {
    const bytecode::Instruction& each = decoded->instructions[index];
    const bytecode::Position& at = decoded->positions[index];
    const char* const real = cpython::real_name(*decoded, static_cast<int32_t>(index));
    rows.emplace_back(2 * each.offset, bytecode::name(each.op), real ? real : "", each.arg, bytecode::argument_text(*decoded, each), each.target,
                      std::make_tuple(at.line, at.end_line, at.column, at.end_column));
  }
  return rows;
}

// (name, kind) of each slot of localsplus; an argument that is a cell, too, is "argument, cell".
std::vector<std::pair<std::string, std::string>> slot_rows(nb::handle code) {
  if (!PyCode_Check(code.ptr())) throw nb::type_error("slot_rows() wants a code object");
  std::vector<std::pair<std::string, std::string>> rows;
  const int arguments = cpython::argument_count(code.ptr());
  for (int slot = 0; slot < cpython::variable_count(code.ptr()); ++slot) {
    const uint8_t kind = cpython::variable_kind(code.ptr(), slot);
    std::string text = slot < arguments ? "argument" : "";
    if (kind & cpython::kCellVariable) text += text.empty() ? "cell" : ", cell";
    if (kind & cpython::kFreeVariable) text = "free";
    if (text.empty()) text = kind & cpython::kHiddenVariable ? "local of a comprehension" : "local";
    const char* const name = PyUnicode_AsUTF8(cpython::variable_name(code.ptr(), slot).get());
    if (!name) PyErr_Clear();
    rows.emplace_back(name ? name : "?", text);
  }
  return rows;
}

uint32_t checked(const Trace& trace, int64_t step) {
  if (step < 0 || step >= static_cast<int64_t>(trace.steps.size())) throw nb::index_error(("there is no step " + std::to_string(step)).c_str());
  return static_cast<uint32_t>(step);
}

nb::object or_none(uint32_t number) { return number == Step::kNone ? nb::object(nb::none()) : nb::cast(number); }

// node, instruction, kind, note, depth, slots, names, changed slots, changed names: numbers of texts
nb::tuple step_row(const StepRecorder& recorder, int64_t number, bool changed_names_only) {
  const Trace& trace = recorder.trace();
  const uint32_t at = checked(trace, number);
  const Step& step = trace.steps[at];
  inspect::State state = trace.state(at, changed_names_only);
  std::vector<uint32_t> slots, names;
  for (const uint32_t place : state.changed) {
    (place & inspect::Entry::kName ? names : slots).push_back(place & ~inspect::Entry::kName);
  }
  return nb::make_tuple(step.node, step.instruction, static_cast<int>(step.kind), or_none(step.note), std::move(state.slots), std::move(state.names), std::move(slots),
                        std::move(names));
}

nb::list node_rows(const StepRecorder& recorder) {
  nb::list rows;
  for (const inspect::Node& node : recorder.trace().nodes) rows.append(nb::make_tuple(node.frame, or_none(node.parent), or_none(node.parent_step), node.code));
  return rows;
}

nb::object call(StepRecorder& recorder, nb::handle function, nb::handle arguments, nb::handle keywords) {
  if (!PyTuple_Check(arguments.ptr()) || !PyDict_Check(keywords.ptr())) throw nb::type_error("call() wants a function, a tuple and a dict");
  const inspect::Recording recording(recorder);
  if (!recording.is_on()) {
    if (PyErr_Occurred()) throw nb::python_error();
    throw std::runtime_error("steps of this thread are being recorded already: one recording can't be made inside another");
  }
  Ref result = Ref::steal(PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr()));
  if (!result) throw nb::python_error();
  return nb::steal(result.release());
}

}  // namespace

void bind_inspect(nb::module_& module) {
  module.def("instruction_rows", instruction_rows, nb::arg("code"), "(offset, name, CPython's name, argument, its text, target, position) of each instruction.");
  module.def("slot_rows", slot_rows, nb::arg("code"), "(name, kind) of each slot of localsplus.");
  nb::class_<StepRecorder>(module, "StepRecorder", "Records what frames hold before each instruction.")
      .def("__init__", [](StepRecorder* self, nb::callable wants, uint64_t steps, uint64_t memory, bool reprs) {
        auto asked = [wants = std::move(wants)](Borrowed code) {
          try {
            return nb::cast<bool>(wants(nb::handle(code.get())));
          } catch (nb::python_error& error) {
            error.discard_as_unraisable("which frames are recorded");
            return false;
          }
        };
        new (self) StepRecorder(std::move(asked), {steps, memory}, reprs);
      }, nb::arg("wants"), nb::arg("steps"), nb::arg("memory"), nb::arg("reprs"), nb::sig("def __init__(self, wants: typing.Callable[[types.CodeType], bool], steps: int, memory: int, reprs: bool) -> None"))
      .def("call", call, nb::arg("function"), nb::arg("arguments"), nb::arg("keywords"), nb::sig("def call(self, function: typing.Callable, arguments: tuple, keywords: dict) -> typing.Any"))
      .def("__len__", [](const StepRecorder& recorder) { return recorder.trace().steps.size(); })
      .def("step", step_row, nb::arg("number"), nb::arg("changed_names_only"), nb::sig("def step(self, number: int, changed_names_only: bool) -> tuple"))
      // node, instruction, kind: what is looked for among many steps
      .def("place", [](const StepRecorder& recorder, int64_t number) {
        const Step& step = recorder.trace().steps[checked(recorder.trace(), number)];
        return std::make_tuple(step.node, step.instruction, static_cast<int>(step.kind));
      }, nb::arg("number"))
      .def("previous", [](const StepRecorder& recorder, int64_t number) { return or_none(recorder.trace().steps[checked(recorder.trace(), number)].previous); },
           nb::arg("number"), nb::sig("def previous(self, number: int) -> int | None"))
      .def("last_change", [](const StepRecorder& recorder, int64_t number, uint32_t index, bool is_name) {
        return recorder.trace().last_change(checked(recorder.trace(), number), index | (is_name ? inspect::Entry::kName : 0));
      }, nb::arg("number"), nb::arg("index"), nb::arg("is_name"))
      .def("nodes", node_rows, nb::sig("def nodes(self) -> list[tuple]"))
      .def("codes", [](const StepRecorder& recorder) {
        nb::list codes;
        for (const Ref& code : recorder.trace().codes) codes.append(nb::borrow(code.get()));
        return codes;
      }, nb::sig("def codes(self) -> list[types.CodeType]"))
      .def("texts", [](const StepRecorder& recorder) { return recorder.trace().texts.all(); })
      .def("stopped", [](const StepRecorder& recorder) { return recorder.trace().stopped; })
      .def("memory", [](const StepRecorder& recorder) { return recorder.trace().bytes(); })
      // For each step: kind | has a note << 3 | number of entries << 4; then as differences to the step before, to the activation's
      // last instruction + 1 and last depth: activation, instruction, depth; the note; entries: place << 2 | is a name << 1 |
      // restated, and the text as a difference. Seven bits a byte, differences with the sign in the lowest bit.
      .def("packed", [](const StepRecorder& recorder) {
        const std::string packed = recorder.trace().packed();
        return nb::bytes(packed.data(), packed.size());
      });
}

}  // namespace evalframe
