// What a recording is for, as far as that changes what is recorded.
#pragma once

#include <set>

#include "core/ref.h"

namespace evalframe::recorder {

struct OfBodies;

// Code objects, borrowed.
using Codes = std::set<PyObject*>;

struct Purpose {
  bool keep_inputs = false;    // Recording::examples is filled: the objects of the graph's inputs
  int turns = 1;               // of the loop in whose FOR_ITER it begins, at most
  bool fixes_numbers = false;  // numbers from outside are facts, never inputs
  bool compiling = false;      // torch.compiler.is_compiling() is answered with True
  const OfBodies* bodies = nullptr;  // of torch's higher-order operators, which have functions in graphs as graphs
  const Codes* barren = nullptr;  // of functions that aren't followed, as nothing came of it
};

}  // namespace evalframe::recorder
