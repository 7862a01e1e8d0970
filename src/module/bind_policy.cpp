// Binds what the author of a program says of its functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "module/bindings.h"
#include "recorder/policy.h"
#include "runtime/capture.h"

namespace nb = nanobind;

namespace evalframe {

namespace {

// What was recorded before knew nothing of it.
void forget_all() {
  for (runtime::Capture* const capture : std::vector<runtime::Capture*>(runtime::Capture::all())) {
    const auto& alive = runtime::Capture::all();
    if (std::find(alive.begin(), alive.end(), capture) != alive.end()) capture->clear();
  }
}

recorder::Policy policy_named(const std::string& name) {
#define EVALFRAME_POLICY(enumerator, text) \
  if (name == text) return recorder::Policy::enumerator;
#include "recorder/policy.def"
#undef EVALFRAME_POLICY
  throw nb::value_error(("no policy " + name).c_str());
}

}  // namespace

void bind_policy(nb::module_& module) {
  module.def(
      "set_policy",
      [](nb::handle callable, const std::string& policy) {
        recorder::set_policy(callable.ptr(), policy_named(policy));
        forget_all();
      },
      nb::arg("callable"), nb::arg("policy"), "How calls are recorded: a name of recorder/policy.def. Drops all recordings.");
  module.def(
      "skip_module",
      [](std::string name) {
        recorder::skip_module(std::move(name));
        forget_all();
      },
      nb::arg("name"), "Nothing of the module, or of one in it, is captured or followed. Drops all recordings.");
  module.def(
      "mark_parameter",
      [](nb::handle code, int index, bool input) {
        recorder::mark_parameter(code.ptr(), index, input);
        forget_all();
      },
      nb::arg("code"), nb::arg("index"), nb::arg("input"), "Whether the parameter's number is an input of graphs or a constant. Drops all recordings.");
  module.def("reset", forget_all, "Drops all recordings.");
}

}  // namespace evalframe
