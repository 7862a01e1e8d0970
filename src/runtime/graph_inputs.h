// The inputs of a graph in one call.
#pragma once

#include <algorithm>

#include "core/few.h"
#include "guards/program.h"
#include "recorder/recording.h"

namespace evalframe::runtime {

// The graph's inputs, borrowed from the sources' objects; on the C stack where they are few.
class Inputs {
 public:
  Inputs(const recorder::Recording& recording, const guards::Objects& objects) {
    objects_.resize(recording.input_sources.size());
    std::ranges::transform(recording.input_sources, objects_.begin(), [&](int32_t source) { return objects[source]; });
  }
  PyObject* const* data() const { return objects_.data(); }

 private:
  Few<PyObject*, 128> objects_;
};

}  // namespace evalframe::runtime
