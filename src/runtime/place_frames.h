// The frames that stand at a recording's places while its graph is run.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cpython/frame_row.h"
#include "graph/graph.h"

namespace evalframe::runtime {

// Where something is done in the place of several nodes, a function of a backend's, the frames are the same in every call: once they have been made one
// by one, they are put there as a row.
class PlaceFrames {
 public:
  // Null: they aren't known yet.
  const cpython::FrameRow* at(graph::Origin place) const {
    for (const auto& [of, row] : rows_) {
      if (of == place) return row.get();
    }
    return nullptr;
  }
  void add(graph::Origin place, cpython::FrameRow row) { rows_.emplace_back(place, std::make_unique<cpython::FrameRow>(std::move(row))); }

 private:
  std::vector<std::pair<graph::Origin, std::unique_ptr<cpython::FrameRow>>> rows_;  // which stay where they are: the graph may be run in itself
};

}  // namespace evalframe::runtime
