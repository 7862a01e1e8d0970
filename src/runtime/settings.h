// What a user chose for one jit object or one enabled() block.
#pragma once

#include <string>

#include "core/ref.h"

namespace evalframe::runtime {

struct Settings {
  std::string backend = "native";
  Ref custom;              // a Python backend of that name: (graph, example inputs) -> callable
  bool fullgraph = false;  // a break is an error
  bool exact = false;      // every bit as NumPy computes it: no elementary functions of our own
  int max_entries = 8;     // recordings that start at the same place
  bool everything = false;  // for tests: functions without arrays, too, and whether it pays or not
};

}  // namespace evalframe::runtime
