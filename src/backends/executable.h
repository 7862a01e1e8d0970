// What every backend makes of a graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/few.h"
#include "graph/graph.h"

namespace evalframe::backends {

// Asked for the exit before a node that may leave the graph; called at compile time and when an exit is taken.
using ExitAt = std::function<graph::ExitPoint(int32_t node)>;

// The values of an exit point, owned.
using ExitValues = Few<Ref, 8>;

// How a run of the graph ended.
struct Outcome {
  int32_t node = -1;            // the node before which it left; nodes.size(): it ran to the end
  bool raised = false;          // the node was run and raised: the exception is set on the thread
  ExitValues values;
};

// Where a run tells which node's Python-visible call it is about to make, so that warnings and tracebacks see the right line.
class Position {
 public:
  virtual ~Position() = default;
  virtual void at(int32_t node) = 0;
  // The same for what is done in the place of several nodes at once, or without those around it.
  virtual void in(graph::Origin place) = 0;
};

// What is wanted of a backend besides what the graph says.
struct Wishes {
  bool exact = false;    // every bit as NumPy computes it
  bool patient = false;  // what compiling takes has to have been taken by the calls themselves first
};

class Executable {
 public:
  virtual ~Executable() = default;
  // Runs the graph. inputs: one borrowed object for each graph input; the guards have been checked. leave_before: for
  // tests, the node before which it must leave (-1: nowhere). Nothing of the graph's effects is done twice or lost.
  virtual Outcome run(PyObject* const* inputs, Position& position, int32_t leave_before = -1) = 0;
  // From here on all of its code is made in full. False: it is.
  virtual bool improve() { return false; }
  // tp_traverse of the Python objects that it owns.
  virtual int traverse(visitproc visit, void* arg) const { (void)visit, (void)arg; return 0; }
  // Generated code for people: kernels, schedule.
  virtual std::string text() const { return {}; }
  // What was compiled to machine code so far, in the language of its compiler: a module for each kernel.
  virtual std::vector<std::string> modules() const { return {}; }
  // All of it.
  std::string source() const {
    std::string text;
    for (const std::string& module : modules()) text += module + "\n";
    return text;
  }
};

}  // namespace evalframe::backends
