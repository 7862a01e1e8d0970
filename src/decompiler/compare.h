// Whether two code objects are the same program: the judge of what was decompiled.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::decompiler {

enum class Status : uint8_t {
  refused,     // no source
  machine,     // does the same, in a state machine; not compared
  equivalent,  // runs the same instructions in the same order, whatever way is taken; jumps and copies may stand elsewhere
  exact,       // the same instructions in the same places, but for NOP
};
const char* name(Status status);

struct Comparison {
  Status status = Status::refused;
  std::string difference;                               // where not exact
  std::vector<std::pair<int, int>> pairs;               // instructions that are the same
  std::vector<std::pair<PyObject*, PyObject*>> nested;  // code objects that stand in the same places
};

// Compares all but nested code objects, file names, lines and qualified names. `top`: flags that tell of the surroundings don't count.
Comparison compare(const bytecode::Code& a, const bytecode::Code& b, bool top);

// What differs in what the instructions don't tell: parameters, flags, free variables, docstring, name; or nothing.
std::string head_difference(PyCodeObject* a, PyCodeObject* b, bool top);

// The docstring of a function's code object, or null.
PyObject* docstring_of(const PyCodeObject* code);

}  // namespace evalframe::decompiler
