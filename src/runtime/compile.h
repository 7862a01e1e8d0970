// From a recording to something that runs: the order of the stages, and nothing else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/executable.h"
#include "core/held.h"
#include "guards/program.h"
#include "recorder/recording.h"
#include "runtime/measure.h"
#include "runtime/place_frames.h"
#include "runtime/settings.h"

namespace evalframe::runtime {

// The result of a recording that runs nothing, and whose guards ask for what is in slots only.
struct ResultAtHand {
  int32_t slot = -1;             // of the one frame
  PyObject* constant = nullptr;  // borrowed from the graph
  explicit operator bool() const { return slot >= 0 || constant; }
  PyObject* of(PyObject* const* slots) const { return constant ? constant : slots[slot]; }
};

// A recording with its compiled graph: what one cache entry holds.
struct Compilation : Holdable {
  explicit Compilation(std::unique_ptr<recorder::Recording> of) : recording(std::move(of)), guards(recording->guards) {}

  // Its guards hold of the frames of a call that is measured.
  void take_costs(PyObject* const* const* frames);
  int traverse(visitproc visit, void* arg) const;

  std::unique_ptr<recorder::Recording> recording;
  guards::Program guards;
  std::unique_ptr<backends::Executable> executable;
  PlaceFrames frames;       // that are there while it runs
  std::string backend;      // the one that serves
  std::string fallback;     // why it isn't the one that was asked for; empty: it is
  double compile_seconds = 0;
  double made_at = 0;       // when it was compiled, by the clock of time.monotonic()
  int32_t array_nodes = 0;  // nodes that make arrays, NumPy scalars or tensors: what capturing is for
  ResultAtHand at_hand;
  std::optional<std::vector<recorder::Recording::Variable>> let_go = {};  // of the recording, once they have been asked for
  int32_t turns = 1;        // of a loop that it serves at once
  uint64_t left_early = 0;  // times it was left before its end
  bool is_spent = false;    // it was left where it expects what doesn't come again, and gives way to another recording
  uint64_t hits = 0;        // times it served
  uint64_t misses = 0;      // times its guards said no
  std::unique_ptr<Measure> measure;  // of a recording at a function's start, if measuring is on
  std::vector<std::string> because;  // why none of the entries served that were there when it was recorded
  guards::Failures failures;
  guards::Costs costs;             // of its guards, if they are measured
};

// Null with a Python exception where the user's backend failed.
Held<Compilation> compile(std::unique_ptr<recorder::Recording> recording, const Settings& settings);
// What all compiling of this process took so far.
double seconds_compiled();

}  // namespace evalframe::runtime
