// The extension module evalframe._core_tests: the C++ unit tests, listed and run from pytest; and the evaluator by itself, for
// CPython's own tests, in whose processes neither NumPy nor Python code of ours should be.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "core/builtins.h"
#include "core/testing.h"
#include "evaluator/counts.h"
#include "frontends/numpy/numpy_api.h"
#include "module/bindings.h"
#include "runtime/enabled.h"

namespace {

std::string counts_as_json() {
  const evalframe::evaluator::Counts& counts = evalframe::evaluator::counts;
  std::string text = "{\"evaluated\": " + std::to_string(counts.evaluated);
  const auto add = [&](const std::string& reason, uint64_t count) {
    if (count) text += ", \"" + reason + "\": " + std::to_string(count);
  };
  add("traced", counts.traced);
  add("not decoded", counts.not_decoded);
  for (size_t op = 0; op < counts.instruction.size(); ++op) {
    add(evalframe::bytecode::name(static_cast<evalframe::bytecode::Op>(op)), counts.instruction[op]);
  }
  const evalframe::runtime::Counters captured = evalframe::runtime::Capture::total_counters();
  add("recordings", captured.recordings);
  add("served", captured.served);
  return text + "}\n";
}

// By the C library's atexit: Python's is under test. A forked child has its parent's counts, so it doesn't write.
void write_counts_at_exit(const std::string& path) {
  static const std::string* const file = new std::string(path);
  static const pid_t process = getpid();
  std::atexit([] {
    if (getpid() != process) return;
    const int to = open(file->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const std::string text = counts_as_json();
    if (to < 0 || write(to, text.data(), text.size()) < 0) return;
    close(to);
  });
}

}  // namespace

NB_MODULE(_core_tests, module) {
  module.def("names", [] {
    std::vector<std::string> names;
    for (const auto& test : evalframe::testing::tests()) names.emplace_back(test.name);
    return names;
  });
  module.def("run", [](const std::string& name) {
    for (const auto& test : evalframe::testing::tests()) {
      if (name == test.name) return test.run();
    }
    throw nanobind::key_error(name.c_str());
  });
  evalframe::remember_builtins();
  evalframe::bind_evaluator(module);
  evalframe::bind_stand_ins(module);
  module.def("capture_all_frames", [] {
    evalframe::runtime::Settings settings;
    settings.backend = "reference";
    settings.everything = true;
    const uint64_t id = evalframe::numpy::load_api() ? evalframe::runtime::enable(std::move(settings), true) : 0;
    if (!id) throw nanobind::python_error();
    return id;
  });
  module.def("capture_no_more", [](uint64_t id) { evalframe::cpython::remove_frame_hook(id); });
  module.def("served_graphs", [] { return evalframe::runtime::Capture::total_counters().served; });
  module.def("set_leave_before", evalframe::runtime::Capture::set_leave_before);
  module.def("write_counts_at_exit", write_counts_at_exit);
}
