// Code objects as Python source that is compiled to the same again, or a reason why not.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/ref.h"
#include "decompiler/compare.h"

namespace evalframe::decompiler {

struct Row {
  Ref code;
  Status status;
  std::string reason;  // of what is refused, or how what is equivalent differs
};

struct Result {
  std::string source;
  bool written = false;   // false where the code object itself is refused
  std::vector<Row> rows;  // the code object, and those in it
  std::vector<std::pair<int, int>> lines;  // of the code object's instructions: the line of the source
};

// What a function has beside its code; may be empty.
struct Surroundings {
  std::vector<std::string> defaults;
  std::vector<std::pair<std::string, std::string>> keyword_defaults;
  // Of code that evalframe made: names for constants that no literal is; and all variables are kept, in their order.
  std::map<int, std::string> constant_names;
  bool generated = false;
};

// `machines`: functions become state machines even where they have a structure, so that those can be tested.
Result decompile(Borrowed code, const Surroundings& surroundings = {}, bool machines = false);

}  // namespace evalframe::decompiler
