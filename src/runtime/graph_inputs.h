// The inputs of a graph in one call.
#pragma once

#include <iterator>
#include <vector>

#include "guards/program.h"
#include "recorder/recording.h"

namespace evalframe::runtime {

// The graph's inputs, borrowed from the sources' objects; on the C stack where they are few.
class Inputs {
 public:
  Inputs(const recorder::Recording& recording, const guards::Objects& objects) {
    const size_t count = recording.input_sources.size();
    if (count > std::size(in_place_)) more_.resize(count);
    PyObject** into = more_.empty() ? in_place_ : more_.data();
    for (size_t i = 0; i < count; i++) into[i] = objects[recording.input_sources[i]];
  }
  PyObject* const* data() const { return more_.empty() ? in_place_ : more_.data(); }

 private:
  PyObject* in_place_[16];
  std::vector<PyObject*> more_;
};

}  // namespace evalframe::runtime
