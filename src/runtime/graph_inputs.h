// The inputs of a graph in one call.
#pragma once

#include "core/few.h"
#include "guards/program.h"
#include "recorder/recording.h"

namespace evalframe::runtime {

// The graph's inputs, borrowed from the sources' objects; on the C stack where they are few.
class Inputs {
 public:
  Inputs(const recorder::Recording& recording, const guards::Objects& objects) {
    objects_.reserve(recording.input_sources.size());
    for (const int32_t source : recording.input_sources) objects_.push_back(objects[source]);
  }
  PyObject* const* data() const { return objects_.data(); }

 private:
  Few<PyObject*, 16> objects_;
};

}  // namespace evalframe::runtime
