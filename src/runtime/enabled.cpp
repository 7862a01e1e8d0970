// Decides which frames of a whole program are captured.
#include "runtime/enabled.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "core/object_text.h"
#include "cpython/attributes.h"
#include "cpython/codec.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/tensors.h"
#include "recorder/policy.h"
#include "runtime/call_trial.h"
#include "runtime/dead_functions.h"
#include "runtime/jit.h"
#include "runtime/measure.h"

namespace evalframe::runtime {

namespace {

// Whether a module of that name is the package's, or the package.
bool is_in(std::string_view name, std::string_view package) {
  return name.starts_with(package) && (name.size() == package.size() || name[package.size()] == '.');
}

std::string_view module_name(PyObject* globals) { return utf8(PyDict_GetItemString(globals, "__name__")); }

// Libraries whose frames are left alone: what they do is recorded as calls, or is ours.
bool is_library(PyObject* globals) {
  const std::string_view name = module_name(globals);
  for (const char* package : {"numpy", "scipy", "evalframe", "importlib", "_frozen_importlib"}) {
    if (is_in(name, package)) return true;
  }
  return false;
}

// What a backend of torch's has made of a graph isn't captured again, nor is what torch does to run it; its layers are.
bool is_torchs_own(PyObject* globals, PyCodeObject* code) {
  const std::string_view name = module_name(globals);
  if (is_in(name, "torch")) return !is_in(name, "torch.nn.modules") || utf8(code->co_name) != "forward";
  return utf8(code->co_filename).starts_with("<eval_with_key>");
}

bool has_argument(const cpython::EntryFrame& frame, bool (*wanted)(PyObject*)) {
  for (int i = 0; i < frame.argument_count(); i++) {
    Borrowed argument = frame.argument(i);
    if (argument && wanted(argument.get())) return true;
  }
  return false;
}

// A tensor, or a container that begins with one, such as a batch.
bool has_tensor(PyObject* object) {
  if (torch::is_tensor(object)) return true;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    return PySequence_Fast_GET_SIZE(object) && torch::is_tensor(PySequence_Fast_GET_ITEM(object, 0));
  }
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  return PyDict_CheckExact(object) && PyDict_Next(object, &at, &key, &value) && torch::is_tensor(value);
}

bool is_numpys(PyObject* object) {
  const char* const name = object && PyModule_CheckExact(object) ? PyModule_GetName(object) : "";
  if (!name) PyErr_Clear();
  return name && std::strncmp(name, "numpy", 5) == 0;
}

// Whether a global that the code reads is wanted.
bool reads_global(PyCodeObject* code, PyObject* globals, bool (*wanted)(PyObject*)) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
    PyObject* const value = PyDict_GetItemWithError(globals, PyTuple_GET_ITEM(code->co_names, i));
    if (!value) PyErr_Clear();
    if (value && wanted(value)) return true;
  }
  return false;
}

bool names_numpy(PyCodeObject* code, PyObject* globals) { return reads_global(code, globals, is_numpys); }

// The function finds arrays in globals, in its closure, or in attributes of its first argument, such as `self`. Comprehensions and generator expressions are made
// for one run.
bool finds_arrays(const cpython::EntryFrame& frame, PyCodeObject* code) {
  const std::string_view name = utf8(code->co_name);
  if (name.starts_with('<') && name != "<lambda>") return false;
  if (reads_global(code, frame.globals().get(), numpy::is_array)) return true;
  PyObject* const cells = reinterpret_cast<PyFunctionObject*>(frame.function().get())->func_closure;
  for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); i++) {
    PyObject* const value = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (value && (numpy::is_array(value) || is_numpys(value))) return true;
  }
  PyObject* const first = frame.argument_count() ? frame.argument(0).get() : nullptr;
  for (Py_ssize_t i = 0; first && i < PyTuple_GET_SIZE(code->co_names); i++) {
    PyObject* const value = cpython::own_value(first, PyTuple_GET_ITEM(code->co_names, i));
    if (value && numpy::is_array(value)) return true;
  }
  return false;
}

bool has_loop(PyCodeObject* object) {
  const bytecode::Code* code = cpython::decoded(object);
  if (!code) return PyErr_Clear(), false;
  for (size_t i = 0; i < code->instructions.size(); i++) {
    const int32_t target = code->instructions[i].target;
    if (target >= 0 && target <= static_cast<int32_t>(i)) return true;
  }
  return false;
}

// A module's body that names NumPy and has a loop; all else of it runs once.
bool is_module_to_capture(const cpython::EntryFrame& frame, PyCodeObject* code) {
  Borrowed globals = frame.globals();
  if ((code->co_flags & CO_OPTIMIZED) || frame.locals_dict().get() != globals.get()) return false;
  if (!PyDict_CheckExact(globals.get()) || is_library(globals.get())) return false;
  bool imports = names_numpy(code, globals.get());
  for (Py_ssize_t i = 0; !imports && i < PyTuple_GET_SIZE(code->co_names); i++) {
    imports = utf8(PyTuple_GET_ITEM(code->co_names, i)).starts_with("numpy");
  }
  return imports && has_loop(code);
}

bool modules_are_kept = false;

// What recordings may take before only those are made of which there is some use to be expected.
constexpr double kSecondsOfRecording = 0.1, kShareOfRecording = 0.05, kMostOfRecording = 1e-3;

// What capturing the functions of one code has come to.
class OfCode {
 public:
  int functions = 0;
  void add(const Counters& now, const Counters& before) {
    calls_ += now.calls - before.calls;
    recordings_ += now.recordings - before.recordings;
    runs_ += now.served + now.native_calls + now.native_turns - before.served - before.native_calls - before.native_turns;
  }
  // Recordings keep being made and hardly ever serve: of functions that are made anew at each call, or where each call goes another way
  // between its breaks. A recording costs hundreds of runs.
  bool only_records() const { return CallTrial::on && calls_ >= kCalls && recordings_ >= kRecordings && runs_ < kRunsOfEach * recordings_; }

 private:
  static constexpr uint64_t kCalls = 32, kRecordings = 32, kRunsOfEach = 2;
  uint64_t calls_ = 0, recordings_ = 0, runs_ = 0;
};

class CaptureHook final : public cpython::FrameHook {
 public:
  explicit CaptureHook(Settings settings) : settings_(std::move(settings)) {}

  bool passes(const cpython::EntryFrame& frame) override {
    auto* const code = reinterpret_cast<PyCodeObject*>(frame.code().get());
    if (!(code->co_flags & CO_OPTIMIZED)) return false;  // a module runs once, and not after what was at its code's address before
    Foreign& foreign = foreign_of(code);
    if (foreign.code == code && foreign.calls_left > 0 && (foreign.library || !has_wanted_argument(frame))) return foreign.calls_left--, true;
    PyObject* const function = frame.function().get();
    const Lately& lately = lately_of(function);
    return lately.function == function && lately.known->capture->passes_call();
  }

  Decision on_frame(PyThreadState* thread, cpython::EntryFrame frame, Ref& value) override {
    auto* code = reinterpret_cast<PyCodeObject*>(frame.code().get());
    if (!settings_.is_torch() && is_module_to_capture(frame, code)) return run_module(thread, frame, value);
    if (!(code->co_flags & CO_OPTIMIZED)) return Decision::kPass;
    Known* const known = known_to_capture(frame, code);
    if (!known) return Decision::kPass;
    const std::shared_ptr<Capture> capture = known->capture;
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
      take_generator(frame, capture, known->owner);
      return Decision::kPass;
    }
    lately_of(frame.function().get()) = {frame.function().get(), known};
    std::vector<PyObject*> slots(code->co_nlocalsplus);
    for (int i = 0; i < frame.argument_count(); i++) slots[i] = frame.argument(i).get();
    const cpython::HooksResumed resumed;
    bool handled = false;
    const Counters before = capture->counters();
    value = capture->call(thread, slots.data(), &handled);
    if (!settings_.everything) look_at_call(*known, before);
    if (!handled) return Decision::kPass;
    return value ? Decision::kResult : Decision::kRaised;
  }

 private:
  Decision run_module(PyThreadState* thread, const cpython::EntryFrame& frame, Ref& value) {
    if (modules_++ >= kMostModules) return Decision::kPass;
    const auto capture = std::make_shared<Capture>(frame.function(), settings_.copy());
    const cpython::HooksResumed resumed;
    value = capture->run_module(thread);
    if (modules_are_kept) kept_modules_.push_back(capture);
    return value ? Decision::kResult : Decision::kRaised;
  }

  struct Known {
    std::shared_ptr<Capture> capture;  // holds the function, so that its address stays its own
    Ref owner;         // of its generators, if any
    OfCode* of_code = nullptr;
    bool left = false;  // its calls are CPython's
  };

  // Of a function whose frame is there: nobody has taken it for dead.
  void look_at_call(Known& known, const Counters& before) {
    const Counters& now = known.capture->counters();
    known.of_code->add(now, before);
    if (known.of_code->only_records()) known.left = true;
    const bool is_due = now.calls >= kCallsOnTrial ? std::has_single_bit(now.calls) : now.recordings > before.recordings;
    if (known.left || !is_due || !known.capture->is_idle()) return;
    const double took = now.record_seconds + now.compile_seconds - before.record_seconds - before.compile_seconds;
    for_nothing_.take(now.recordings - before.recordings, took);
    known.left = now.calls >= kCallsOnTrial + now.put_off || for_nothing_.is_used_up();
  }

  // Null: CPython has the call.
  Known* known_to_capture(const cpython::EntryFrame& frame, PyCodeObject* code) {
    PyObject* function = frame.function().get();
    const auto found = known_.find(function);
    if (recorder::policy_of(function) != recorder::Policy::kFollowed) return nullptr;
    if (found != known_.end() && found->second.left && found->second.of_code->functions == 1) foreign_of(code) = {code, kCallsTakenOnTrust, true};
    if (found != known_.end()) return found->second.left ? nullptr : &found->second;
    if (!settings_.everything && !is_wanted(frame, code)) return nullptr;
    if (reinterpret_cast<PyFunctionObject*>(function)->func_code != reinterpret_cast<PyObject*>(code)) return nullptr;
    OfCode& of_code = of_code_[code];
    if (known_.size() >= kMostFunctions || of_code.functions >= kMostOfOneCode || of_code.only_records()) return nullptr;
    const bool others = of_code.functions++ > 0;
    if (foreign_of(code).code == code) foreign_of(code).code = nullptr;
    const std::vector<Known> dead = others && looks_for_dead_functions().are_due() ? take_dead() : std::vector<Known>();
    return &known_.emplace(function, Known{std::make_shared<Capture>(function, settings_.copy()), Ref(), &of_code}).first->second;
  }

  // Functions of codes that have several, and that no call can bring again. They may run Python code when they die.
  std::vector<Known> take_dead() {
    std::vector<PyObject*> functions;
    for (const auto& [function, known] : known_) {
      const auto of_code = of_code_.find(reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code));
      if (of_code != of_code_.end() && of_code->second.functions > 1) functions.push_back(function);
    }
    std::vector<Known> taken;
    for (PyObject* const function : dead_functions(functions)) {
      const auto found = known_.find(function);
      taken.push_back(std::move(found->second));
      if (lately_of(function).function == function) lately_of(function) = {};
      known_.erase(found);
    }
    return taken;
  }

  // Most calls of a program are of functions that have nothing to do with arrays: what was found out about their code holds
  // for the next calls, too. (Not for ever: a module may come to name NumPy later. And what is taken for another code at
  // the same address is captured a little later, no more.)
  bool is_wanted(const cpython::EntryFrame& frame, PyCodeObject* code) {
    Foreign& foreign = foreign_of(code);
    if (foreign.code != code || foreign.calls_left == 0) {
      PyObject* globals = frame.globals().get();
      foreign = {code, kCallsTakenOnTrust, !PyDict_CheckExact(globals) || is_library(globals)};
      if (settings_.is_torch()) foreign.library = foreign.library || is_torchs_own(globals, code);
      if (!settings_.is_torch() && !foreign.library && !for_nothing_.is_used_up() && (names_numpy(code, globals) || finds_arrays(frame, code))) return foreign.code = nullptr, true;
    }
    foreign.calls_left--;
    const bool library = foreign.library;
    if (of_code_.contains(code)) foreign.code = nullptr;  // others of that code are captured
    return !library && has_wanted_argument(frame);
  }

  bool has_wanted_argument(const cpython::EntryFrame& frame) const { return has_argument(frame, settings_.is_torch() ? has_tensor : numpy::is_array); }

  // One of the captured functions that were called lately.
  struct Lately {
    PyObject* function = nullptr;
    Known* known = nullptr;
  };
  Lately& lately_of(const PyObject* function) { return lately_[reinterpret_cast<uintptr_t>(function) / alignof(std::max_align_t) % lately_.size()]; }

  // Code that reaches nothing of NumPy's, or that CPython has for good.
  struct Foreign {
    PyCodeObject* code = nullptr;
    int calls_left = 0;
    bool library = false;
  };

  Foreign& foreign_of(const PyCodeObject* code) { return foreign_[reinterpret_cast<uintptr_t>(code) / alignof(std::max_align_t) % foreign_.size()]; }

  static constexpr int kCallsTakenOnTrust = 1000;
  static constexpr uint64_t kCallsOnTrial = 16;  // of a function that was given an array, but may do nothing with it
  static constexpr size_t kMostFunctions = 4096;
  static constexpr int kMostOfOneCode = 64;  // those made anew at each call hold what they close over as long as they are known
  std::array<Foreign, 1024> foreign_;
  std::array<Lately, 1024> lately_;
  static constexpr int kMostModules = 256;  // what is run by exec() again and again isn't worth it
  Settings settings_;
  // Of recordings that make no array. Many functions that merely name NumPy take it little by little, each within what it may.
  Allowance for_nothing_{0.01, 0.05, 3e-4};
  int modules_ = 0;
  std::vector<std::shared_ptr<Capture>> kept_modules_;
  std::unordered_map<PyObject*, Known> known_;
  std::unordered_map<PyCodeObject*, OfCode> of_code_;  // by code, which the known functions hold
};

}  // namespace

void keep_modules(bool on) { modules_are_kept = on; }

cpython::HookId enable(Settings settings, bool all_threads) {
  if (!settings.everything) settings.patience = std::make_shared<Allowance>(kSecondsOfRecording, kShareOfRecording, kMostOfRecording);
  return cpython::install_frame_hook(std::make_shared<CaptureHook>(std::move(settings)), all_threads);
}

}  // namespace evalframe::runtime
