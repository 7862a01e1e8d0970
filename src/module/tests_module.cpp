// The extension module evalframe._core_tests: the C++ unit tests, listed and run from pytest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/testing.h"

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
}
