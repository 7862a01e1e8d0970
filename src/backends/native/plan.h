// Cuts a graph into steps: segments, which become kernels and write into arrays at their end only, and calls in between.
#pragma once

#include <set>
#include <vector>

#include "backends/executable.h"
#include "backends/native/lower/lower.h"

namespace evalframe::native {

struct Step {
  bool is_segment = false;
  Segment segment;                // a call: begin .. begin + 1
  std::vector<int32_t> released;  // nodes whose values nothing behind this step needs
};

// as_calls: nodes that are called whatever they mean.
std::vector<Step> make_plan(const graph::Graph& graph, const Meanings& meanings, const backends::ExitAt& exit_at,
                            const std::set<int32_t>& as_calls);

}  // namespace evalframe::native
