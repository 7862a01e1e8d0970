// The extension module evalframe._core_tests: the C++ unit tests, listed and run from pytest; and the evaluator by itself, for
// CPython's own tests, in whose processes neither NumPy nor Python code of ours should be.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/testing.h"
#include "module/bindings.h"

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
  evalframe::bind_evaluator(module);
}
