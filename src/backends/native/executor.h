// Runs a planned graph: segments by their kernels, or, whenever anything is out of the ordinary, by the recorded calls.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/executable.h"
#include "backends/native/plan.h"
#include "backends/native/run/arena.h"

namespace evalframe::native {

class NativeExecutable final : public backends::Executable {
 public:
  NativeExecutable(const graph::Graph& graph, backends::ExitAt exit_at, backends::Wishes wishes);
  backends::Outcome run(PyObject* const* inputs, backends::Position& position, int32_t leave_before) override;
  bool improve() override;
  std::string text() const override;
  std::vector<std::string> modules() const override;

 private:
  struct Run;
  struct Leaves;
  struct Active;
  struct Waiting;
  // Kernels of one segment, for the shapes met so far.
  struct Kernels {
    std::vector<std::unique_ptr<Variant>> variants;
    std::string reason;  // why a kernel didn't compile
    int refused = 0;  // shapes for which there are no kernels
    int flagged = 0;  // runs that were redone for a floating-point warning
    bool waits = false;   // they aren't compiled, yet
    double seconds = 0;   // that the calls in their place have taken
  };

  // Makes the steps anew if they are outdated.
  void plan();
  void add_recorded_variants();
  // Of all arrays that a segment makes, where it was recorded.
  double elements_of(const Segment& segment) const;
  bool is_worth_compiling(const Kernels& kernels) const;
  void run_steps(Run& run);
  // False: nothing is changed, the segment's nodes are to be called.
  bool run_segment(Run& run, size_t step);
  bool try_segment(Run& run, size_t step, Arena::Scope& scope);
  const Variant* find_variant(size_t step, const Leaves& leaves, Arena::Scope& scope, int64_t*& symbols);
  bool call_quick(Run& run, const std::vector<int32_t>& nodes);
  bool call_quick(Run& run, int32_t node);
  bool read_numbers(Run& run, const Segment& segment, int64_t* numbers);
  bool call_late(Run& run, const Segment& segment);
  const Variant* add_variant(size_t step, const std::vector<LeafShape>& shapes);
  bool fill_scalars(Run& run, const Variant& variant, const int64_t* symbols, char* scalars);
  // Runs a step's nodes by their calls.
  bool call_step(Run& run, size_t step);
  // Runs nodes by their calls. False if the run is over: `run.outcome` says how.
  bool call_nodes(Run& run, int32_t begin, int32_t end);
  void leave(Run& run, int32_t node, bool raised);
  PyObject* fetch(Run& run, graph::Operand operand);
  Ref call(Run& run, int32_t node);
  Ref quick_number(Run& run, int32_t node);

  const graph::Graph& graph_;
  const backends::ExitAt exit_at_;
  const bool is_patient_;
  const Meanings meanings_;
  const graph::ExitPoint end_;
  std::set<int32_t> as_calls_;    // nodes that kernels can't do for the layouts met, so that what stands around them is still fused
  bool outdated_ = true;          // as_calls_ has grown since steps_ were made
  int active_ = 0;                // runs, in this thread or another
  std::vector<Step> steps_;
  std::vector<bool> quiet_;       // nodes that warn of nothing, so that no line needs to be known
  std::vector<Kernels> kernels_;  // beside steps_
  std::vector<Ref> spare_values_;
};

}  // namespace evalframe::native
