// What transformed code calls: the compiled graph as a function, and the way out where it is left before its end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/compile.h"

namespace evalframe::runtime {

// A graph that was left: what its exit's state is made of, and the exception that a node raised (else null).
struct LeftState {
  int32_t node;
  backends::ExitValues values;
  Ref exception;
};

// `__compiled_fn_N`.
class CompiledGraph {
 public:
  CompiledGraph(Held<Compilation> compilation, std::string name) : compilation_(std::move(compilation)), name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  const Compilation& compilation() const { return *compilation_; }
  // The values at the recording's end as a tuple. Null where the graph was left before: `left` tells where; or where the
  // inputs aren't what the graph is for: ValueError.
  Ref call(const std::vector<Borrowed>& inputs, LeftState& left) const;

 private:
  bool accepts(const std::vector<Borrowed>& inputs) const;
  Held<Compilation> compilation_;
  std::string name_;
};

// Finishes the frame in CPython from where the graph was left. sources: those of the guards that `objects` are of.
Ref finish_left(const Compilation& compilation, const LeftState& left, const std::vector<int32_t>& sources, const std::vector<Borrowed>& objects);

// Whether the guards hold for a frame with these slots (null: unbound).
bool accepts(const Compilation& compilation, const std::vector<PyObject*>& slots);

}  // namespace evalframe::runtime
