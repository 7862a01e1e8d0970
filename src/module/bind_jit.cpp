// Binds the jit type, statistics, and readers of what was captured.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>

#include "backends/effects.h"
#include "backends/native/code/kernel.h"
#include "backends/native/machine/machine.h"
#include "backends/native/native.h"
#include "backends/native/run/result_memory.h"
#include "core/log.h"
#include "cpython/codec.h"
#include "cpython/hidden_code.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/default_device.h"
#include "frontends/torch/modules.h"
#include "frontends/torch/tensors.h"
#include "module/bindings.h"
#include "recorder/store_text.h"
#include "runtime/background.h"
#include "runtime/enabled.h"
#include "runtime/jit.h"
#include "runtime/measure.h"
#include "runtime/pending_exception.h"
#include "runtime/verify.h"

namespace nb = nanobind;

namespace evalframe {

namespace {

PyObject* clock_of_tests = nullptr;

double told_time() {
  const runtime::PendingException pending;  // a call that raised is timed, too
  const Ref time = Ref::steal(PyObject_CallNoArgs(clock_of_tests));
  const double seconds = time ? PyFloat_AsDouble(time.get()) : 0;
  if (PyErr_Occurred()) PyErr_WriteUnraisable(clock_of_tests);
  return seconds;
}

void set_clock(nb::handle clock) {
  Py_XSETREF(clock_of_tests, clock.is_none() ? nullptr : Py_NewRef(clock.ptr()));
  runtime::Stopwatch::clock = clock.is_none() ? nullptr : told_time;
}

std::shared_ptr<runtime::Capture> capture(nb::handle jit) {
  auto found = runtime::capture_of(jit.ptr());
  if (!found) throw nb::python_error();
  return found;
}

nb::dict counters(const runtime::Counters& of) {
  nb::dict result;
#define EVALFRAME_COUNTER(type, name) result[#name] = of.name;
#include "runtime/counters.def"
#undef EVALFRAME_COUNTER
  return result;
}

nb::dict break_note(const runtime::BreakNote& note) {
  nb::dict result;
  result["reason"] = recorder::reason(note.why);
  result["detail"] = note.detail;
  result["hint"] = recorder::hint(note.why);
  result["file"] = note.file;
  result["function"] = note.function;
  result["line"] = note.position.line;
  result["end_line"] = note.position.end_line;
  result["column"] = note.position.column;
  result["end_column"] = note.position.end_column;
  result["count"] = note.count;
  return result;
}

nb::list operand_names(const graph::Graph& graph, const graph::Node& node) {
  nb::list names;
  for (uint32_t i = 0; i < node.count; i++) {
    const graph::Operand operand = graph.operands_of(node)[i];
    if (operand.space == graph::Operand::Space::kInput) names.append("i" + std::to_string(operand.index));
    if (operand.space == graph::Operand::Space::kNode) names.append("n" + std::to_string(operand.index));
  }
  return names;
}

// Where the program has an instruction.
void add_place(const bytecode::Code& code, int32_t instruction, nb::dict row) {
  const bytecode::Position position = code.positions.at(instruction);
  const auto* object = code.code.as<PyCodeObject>();
  row["file"] = nb::borrow(object->co_filename);
  row["function"] = nb::borrow(object->co_qualname);
  row["offset"] = 2 * code.instructions.at(instruction).offset;
  row["line"] = position.line;
  row["end_line"] = position.end_line;
  row["column"] = position.column;
  row["end_column"] = position.end_column;
}

const char* name_of(backends::Effect effect) {
  switch (effect) {
    case backends::Effect::kPure: return "pure";
    case backends::Effect::kDerived: return "derived";
    case backends::Effect::kHeld:
    case backends::Effect::kCheck: return "check";
    case backends::Effect::kApart:
    case backends::Effect::kEffect: return "effect";
  }
  return "";
}

// Where the program has what a graph's frame does; nothing where it has no such place.
void add_origin(const graph::Graph& graph, graph::Origin origin, nb::dict row) {
  if (origin.frame < 0) return;
  const bytecode::Code* code = cpython::decoded(graph.frames.at(origin.frame).code);
  if (!code) throw nb::python_error();
  add_place(*code, origin.instruction, row);
}

// The inputs, then the nodes with their places in the program.
nb::list graph_rows(const graph::Graph& graph) {
  nb::list rows;
  for (size_t i = 0; i < graph.inputs.size(); i++) {
    nb::dict row;
    row["name"] = "i" + std::to_string(i);
    row["text"] = graph::print_input(graph, static_cast<int32_t>(i));
    rows.append(row);
  }
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    nb::dict row;
    row["name"] = "n" + std::to_string(i);
    row["text"] = graph::print_node(graph, static_cast<int32_t>(i));
    row["operands"] = operand_names(graph, graph.nodes[i]);
    row["effect"] = name_of(backends::effect_of(graph, graph.nodes[i]));
    add_origin(graph, graph.nodes[i].origin, row);
    rows.append(row);
  }
  return rows;
}

// The stores that are put off to the graph's exit; those behind its end aren't among them.
nb::list store_rows(const recorder::Recording& recording) {
  nb::list rows;
  for (const recorder::StoreNote& note : recording.store_notes) {
    if (note.journal >= recording.marks.back().journal && !recording.returns) continue;
    nb::dict row;
    row["text"] = recorder::store_text(recording, recording.names[note.name]);
    row["nodes"] = note.nodes;
    add_origin(recording.graph, note.at, row);
    rows.append(row);
  }
  return rows;
}

// How often a guard said no, what it found, how often each; and what it costs.
void add_failure(const runtime::Compilation& compilation, size_t line, nb::dict row) {
  const std::vector<guards::Failure>& failures = compilation.failures.by_line();
  const guards::Failure failure = line < failures.size() ? failures[line] : guards::Failure();
  nb::list found;
  for (const guards::Failure::Found& each : failure.found) found.append(nb::make_tuple(each.text, each.count));
  row["failed"] = failure.count;
  row["found"] = found;
  const std::vector<double>& costs = compilation.costs.by_line;
  row["seconds"] = line < costs.size() ? nb::cast(costs[line]) : nb::none();
}

// In the order in which they are described, which isn't that in which a call checks them.
nb::list guard_rows(const runtime::Compilation& compilation) {
  const guards::GuardTable& guards = compilation.recording->guards;
  nb::list rows;
  size_t index = 0;
  for (const guards::GuardTable::Line& line : guards.lines()) {
    nb::dict row;
    row["subject"] = line.subject;
    row["text"] = line.text;
    row["hint"] = line.hint;
    add_failure(compilation, index, row);
    row["source"] = line.source;
    row["parent"] = line.source < 0 ? -1 : guards.sources[line.source].parent;
    add_origin(compilation.recording->graph, line.asked_at, row);
    rows.append(row);
    index++;
  }
  return rows;
}

// The instruction that comes next where the graph ends without its function.
nb::object end_place(const recorder::Recording& recording) {
  if (recording.returns) return nb::none();
  const std::vector<recorder::FrameState> states = recording.state_at(static_cast<int32_t>(recording.graph.nodes.size()));
  const auto is_hidden = [](const recorder::FrameState& state) { return cpython::is_hidden(state.code->code); };
  const auto first_hidden = std::find_if(states.begin(), states.end(), is_hidden);
  if (first_hidden == states.begin()) return nb::none();
  const recorder::FrameState& inner = *(first_hidden - 1);
  nb::dict row;
  add_place(*inner.code, first_hidden == states.end() ? inner.next : inner.next - 1, row);
  return row;
}

// Why the graph ends; empty: it ends with the function.
std::string ends(const recorder::Recording& recording) {
  if (recording.returns) return "";
  return recorder::reason(recording.why) + (recording.why_detail.empty() ? "" : " (" + recording.why_detail + ")");
}

nb::dict entry(const runtime::Place& place, const runtime::Compilation& compilation) {
  const recorder::Recording& recording = *compilation.recording;
  nb::dict result;
  const bytecode::Code& code = *recording.start.back().code;
  const auto* object = code.code.as<PyCodeObject>();
  result["function"] = nb::borrow(object->co_qualname);
  result["file"] = nb::borrow(object->co_filename);
  result["depth"] = place.frames.size();
  result["instruction"] = place.frames.back().next;
  result["line"] = code.positions[place.frames.back().next].line;
  result["graph"] = graph::print(recording.graph);
  result["guards"] = recording.guards.describe();
  result["graph_rows"] = graph_rows(recording.graph);
  result["store_rows"] = store_rows(recording);
  result["guard_rows"] = guard_rows(compilation);
  result["ends"] = ends(recording);
  result["end_place"] = end_place(recording);
  result["nodes"] = recording.graph.nodes.size();
  result["bytecodes"] = recording.bytecodes;
  result["backend"] = compilation.backend;
  result["fallback"] = compilation.fallback;
  result["text"] = compilation.executable->text();
  result["modules"] = compilation.executable->modules();
  result["source"] = compilation.executable->source();
  result["hits"] = compilation.hits;
  result["misses"] = compilation.misses;
  result["guard_seconds"] = compilation.costs.by_line.empty() ? nb::none() : nb::cast(compilation.costs.all);
  result["because"] = compilation.because;
  result["returns"] = recording.returns;
  result["record_seconds"] = recording.seconds;
  result["compile_seconds"] = compilation.compile_seconds;
  result["made_at"] = compilation.made_at;
  return result;
}

// Mean times of a served call and of a plain one in seconds, and what serving saved; null where nothing was measured.
nb::object measured(const runtime::Compilation& compilation) {
  const runtime::Measure* measure = compilation.measure.get();
  if (!measure) return nb::none();
  nb::dict result;
  result["known"] = measure->is_known();
  result["served"] = measure->served();
  result["served_seconds"] = measure->served_mean();
  result["plain_seconds"] = measure->plain_typical();
  result["saved_seconds"] = measure->saved();
  return result;
}

void add_function(const runtime::Capture& capture, nb::dict row) {
  const auto* function = capture.function().as<PyFunctionObject>();
  const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  row["function"] = nb::borrow(function->func_qualname);
  row["file"] = nb::borrow(code->co_filename);
  row["line"] = code->co_firstlineno;
}

nb::list entries(const runtime::Capture& capture) {
  nb::list result;
  for (const auto& [place, compilation] : capture.entries()) {
    nb::dict one = entry(place, *compilation);
    one["measured"] = measured(*compilation);
    nb::dict owner;  // a chain of followed calls may begin in another function
    add_function(capture, owner);
    one["owner"] = owner;
    result.append(one);
  }
  return result;
}

nb::list limits(const runtime::Capture& capture) {
  nb::list result;
  for (const runtime::LimitNote& note : capture.limits()) {
    nb::dict row;
    row["file"] = note.file;
    row["function"] = note.function;
    row["line"] = note.line;
    row["entries"] = note.entries;
    row["replaced"] = note.replaced;
    row["refused"] = note.refused;
    row["guard"] = note.guard;
    row["hint"] = note.hint;
    result.append(row);
  }
  return result;
}

nb::list breaks(const runtime::Capture& capture) {
  nb::list result;
  // A copy: making Python objects can run the capture.
  for (const runtime::BreakNote& note : std::vector(capture.breaks())) result.append(break_note(note));
  return result;
}

nb::list loops(const runtime::Capture& capture) {
  nb::list result;
  for (const runtime::LoopNote& note : capture.loops()) {
    nb::dict row;
    row["file"] = note.file;
    row["function"] = note.function;
    row["line"] = note.line;
    row["native"] = note.is_native;
    row["compiling"] = note.is_compiling;
    row["optimised"] = note.is_optimised;
    row["blocks"] = note.blocks;
    row["at_once"] = note.at_once;
    row["numpy_calls"] = note.numpy_calls;
    row["ir_lines"] = note.ir_lines;
    row["compile_seconds"] = note.compile_seconds;
    row["runs"] = note.runs;
    row["turns"] = note.turns;
    row["wait_seconds"] = note.wait_seconds;
    row["ir"] = note.ir;
    nb::list obstacles;
    for (const auto& [line, reason] : note.obstacles) obstacles.append(nb::make_tuple(line, reason));
    row["obstacles"] = obstacles;
    result.append(row);
  }
  return result;
}

// What a jit object tells: of its function, and of those that this calls.
nb::list of_all(const runtime::Capture& capture, nb::list (*tell)(const runtime::Capture&)) {
  nb::list all;
  for (const runtime::Capture* part : capture.with_callees()) all.extend(tell(*part));
  return all;
}

// All that is captured in the process, one dict a function.
nb::list captures() {
  nb::list result;
  // A collection could take captures away in the middle.
  const bool collects = PyGC_Disable();
  for (const runtime::Capture* capture : std::vector<runtime::Capture*>(runtime::Capture::all())) {
    nb::dict one = counters(capture->counters());
    add_function(*capture, one);
    one["entries"] = entries(*capture);
    one["breaks_count"] = capture->counters().breaks;
    one["breaks"] = breaks(*capture);
    one["limits"] = limits(*capture);
    one["loops"] = loops(*capture);
    result.append(one);
  }
  if (collects) PyGC_Enable();
  return result;
}

// Names of the built-in backends.
nb::tuple built_in_backends() {
  nb::list names;
#define EVALFRAME_BACKEND(name, make) names.append(#name);
#include "backends/backends.def"
#undef EVALFRAME_BACKEND
  return nb::tuple(names);
}

// Whether it was before.
bool set_measured(runtime::Measure::What what, bool on) {
  const bool before = runtime::Measure::what & what;
  runtime::Measure::what = static_cast<uint8_t>(on ? runtime::Measure::what | what : runtime::Measure::what & ~what);
  return before;
}

}  // namespace

// From here on torch's tensors are recorded, too.
void watch_torch() {
  if (!torch::watch()) throw nb::python_error();
}

void bind_jit(nb::module_& module) {
  if (!numpy::load_api() || !runtime::add_jit_type(module.ptr())) throw nb::python_error();
  log::configure(std::getenv("EVALFRAME_LOG"));
  if (!runtime::Verification::configure(std::getenv("EVALFRAME_VERIFY"))) {
    throw nb::value_error("the environment variable EVALFRAME_VERIFY must be 1 (now and then), all (each hit), or 0");
  }
  module.attr("BACKENDS") = built_in_backends();
  module.def("take_calls", [](nb::type_object of) { runtime::take_calls(reinterpret_cast<PyTypeObject*>(of.ptr())); }, nb::arg("of"),
             "Calls of instances of a class whose `__call__` is call_stand_in look for no method.");
  module.def("watch_torch", watch_torch);
  module.def("watch_torch_operators", [](nb::tuple types, nb::handle kind_of, nb::handle follow) { torch::watch_operators(types.ptr(), kind_of.ptr(), follow.ptr()); },
             nb::arg("types"), nb::arg("kind_of"), nb::arg("follow"), "Operators of torch.ops are of these types; the functions tell how calls of them are recorded.");
  module.def("transforms_now", [] { return nb::steal(torch::transforms_now().release()); }, "How torch.func's transformations are in this thread.");
  module.def("set_transforms_back", [](nb::tuple then) { torch::set_transforms_back(then.ptr()); }, nb::arg("then"), "... and back, where what has begun some won't end them.");
  module.def("watch_torch_modules", [](nb::handle getattr) { torch::watch_module_getattr(getattr.ptr()); }, nb::arg("getattr"),
             "The function is torch.nn.Module.__getattr__, and looks where recording knows it to look.");
  module.def("torch_share_no_memory", [](nb::tuple values) { return torch::share_no_memory(&PyTuple_GET_ITEM(values.ptr(), 0), PyTuple_GET_SIZE(values.ptr())); }, nb::arg("values"),
             "Whether no two of the tensors among the values have one storage; None: torch's own code has to tell.");
  module.def("torch_default_device", [] { return nb::steal(torch::default_device().release()); }, nb::sig("def torch_default_device() -> typing.Any"),
             "The device that torch.set_default_device or `with torch.device(...)` names in this thread, where no other mode sees calls; else None.");
  module.def("jit_entries", [](nb::handle jit) { return of_all(*capture(jit), entries); }, nb::arg("jit"), nb::sig("def jit_entries(jit: object) -> list[dict[str, typing.Any]]"),
             "What was recorded, by place: graph, guards, backend, counts.");
  module.def("jit_breaks", [](nb::handle jit) { return of_all(*capture(jit), breaks); }, nb::arg("jit"), nb::sig("def jit_breaks(jit: object) -> list[dict[str, typing.Any]]"),
             "The graph breaks that were met: reason, detail, hint, file, line, column, count.");
  module.def("jit_limits", [](nb::handle jit) { return of_all(*capture(jit), limits); }, nb::arg("jit"), nb::sig("def jit_limits(jit: object) -> list[dict[str, typing.Any]]"),
             "Places with as many recordings as there may be: which guard failed most, calls left to CPython, what to do.");
  module.def("jit_loops", [](nb::handle jit) { return of_all(*capture(jit), loops); }, nb::arg("jit"), nb::sig("def jit_loops(jit: object) -> list[dict[str, typing.Any]]"),
             "Loops that run as native code, wait for it, or can't: size, times, turns, and what is in the way.");
  module.def("jit_counters", [](nb::handle jit) { return counters(capture(jit)->counters_with_callees()); }, nb::arg("jit"));
  module.def("jit_clear", [](nb::handle jit) { capture(jit)->clear(); }, nb::arg("jit"), "Drops all that was captured.");
  module.def("total_counters", [] { return counters(runtime::Capture::total_counters()); });
  module.def("captures", captures, nb::sig("def captures() -> list[dict[str, typing.Any]]"),
             "All functions that are captured now: counters, entries, breaks.");
  module.def("set_measuring", [](bool on) { set_measured(runtime::Measure::kCalls, on); }, nb::arg("on"),
             "Takes the time of served calls from now on, and runs a few of them plainly to compare.");
  module.def("set_measuring_guards", [](bool on) { return set_measured(runtime::Measure::kGuards, on); }, nb::arg("on"),
             "Takes the time of guards from now on, at some of the calls that they let through. Whether it did before.");
  module.def("keep_freed_memory", native::keep_freed_memory,
             "The C library keeps up to 64 MiB of freed memory, unless the environment has settings of its own for it.");
  module.def("runs_that_waited", native::runs_that_waited, "How often kernels that weren't worth compiling yet have been left to calls.");
  module.def("saved_seconds", [] { return runtime::Measure::total_saved(); }, "What serving saved, as far as it was measured; None: nothing was.");
  module.def("uncompared_seconds", [] { return runtime::Measure::total_uncompared(); }, "What recorded runs took whose calls were compared with no plain ones.");
  module.def(
      "enable",
      [](const std::string& backend, nb::handle custom, bool exact, bool fastmath, bool background, bool all_threads, int dynamic, bool compiling) {
        runtime::Settings settings;
        settings.backend = backend;
        settings.exact = exact;
        settings.fastmath = fastmath;
        settings.background = background;
        settings.dynamic = static_cast<runtime::Dynamic>(dynamic);
        settings.compiling = compiling;
        if (!custom.is_none()) settings.custom = Ref::borrow(custom.ptr());
        const cpython::HookId id = runtime::enable(std::move(settings), all_threads);
        if (!id) throw nb::python_error();
        return id;
      },
      nb::arg("backend"), nb::arg("custom").none(), nb::arg("exact"), nb::arg("fastmath") = false, nb::arg("background") = false, nb::arg("all_threads") = false,
      nb::arg("dynamic") = 0, nb::arg("compiling") = false, "Captures the functions of this thread, or of all, from now on; the number is for `disable`.");
  module.def("disable", [](uint64_t id) { return cpython::remove_frame_hook(id); }, nb::arg("id"));
  module.def("keep_modules", runtime::keep_modules, nb::arg("on"),
             "Whether `captures` tells of modules' bodies that have ended, too, as long as they were captured by what is enabled now.");
  module.def("set_region_seconds", [](double seconds) { runtime::RegionTrial::least_seconds = seconds; }, nb::arg("seconds"),
             "For tests: how long a loop has to take before native code is made of it.");
  module.def("use_loop_hints", [](bool on) { runtime::LoopHints::are_used = on; }, nb::arg("on"), "For tests: whether what earlier processes knew of loops is asked for.");
  module.def("set_region_turns", [](int64_t turns) { runtime::LoopRegion::most_turns = turns; }, nb::arg("turns"),
             "For tests: after how many turns native loops are left.");
  module.def(
      "set_efforts",
      [](std::optional<bool> in_full) { native::set_efforts(!in_full ? native::Efforts::kAsItPays : *in_full ? native::Efforts::kFull : native::Efforts::kQuick); },
      nb::arg("in_full").none(), "For tests: whether kernels are optimised by LLVM at once, or neither they nor loops ever; None: as it pays.");
  module.def(
      "forget_machine_code",
      [] {
        native::forget_machine_code();
        native::forget_code_of_kernels();
      },
      "For tests: what has been compiled is compiled again where it is asked for.");
  module.def("wait_for_background", runtime::wait_for_background, "Waits until no loop is being compiled in the background.");
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("before") = nb::cpp_function(runtime::wait_for_background));
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(runtime::stop_background));
  module.def("set_clock", set_clock, nb::arg("clock").none(), "For tests: a function that says what time it is for trials, in seconds; None: the machine's clock does.");
  module.def("set_call_trials", [](bool on) { runtime::CallTrial::on = on; }, nb::arg("on"),
             "Whether functions are timed in both ways, and left to CPython where serving their calls doesn't pay.");
  module.def("set_verify", [](const std::string& wanted) { return runtime::Verification::configure(wanted.c_str()); }, nb::arg("wanted"),
             "For tests: what the environment variable EVALFRAME_VERIFY says from now on.");
  module.def("set_leave_before", runtime::Capture::set_leave_before, nb::arg("node"),
             "For tests: every graph is left before this node; -1: nowhere. Returns how many were, where the last call said.");
}

}  // namespace evalframe
