// All that is captured of one function: recordings by the place where they start, and the loop that runs them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/chain.h"
#include "runtime/compile.h"

namespace evalframe::runtime {

// One place at which a recording can start: the functions of the frames, the next instruction and slots in use of each.
struct Place {
  struct Frame {
    PyObject* code;
    int32_t next, depth;
    auto operator<=>(const Frame&) const = default;
  };
  std::vector<Frame> frames;
  auto operator<=>(const Place&) const = default;
};

// A break that was met, for people.
struct BreakNote {
  recorder::Break why;
  std::string detail;
  std::string file, function;
  bytecode::Position position;
  uint64_t count = 0;
};

// Counters of one Capture; sums of all are evalframe.stats().
struct Counters {
  uint64_t calls = 0, hits = 0, recordings = 0, breaks = 0, exits = 0, plain_calls = 0;
};
Counters& totals();

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(Borrowed function, Settings settings) : function_(Ref::borrow(function)), settings_(std::move(settings)) {}

  // Calls the function with bound arguments (one for each slot of localsplus; the others null). The result, or null with
  // an exception. *handled = false: nothing was done, the function must be called the plain way.
  Ref call(PyThreadState* thread, PyObject* const* slots, bool* handled);

  void clear();
  Borrowed function() const { return function_.get(); }
  const std::map<Place, std::vector<std::shared_ptr<Compilation>>>& places() const { return places_; }
  const std::vector<BreakNote>& breaks() const { return breaks_; }
  const Counters& counters() const { return counters_; }
  const Settings& settings() const { return settings_; }
  int traverse(visitproc visit, void* arg) const;

  // For tests: leave every graph before this node (-1: nowhere).
  static int32_t leave_before;

 private:
  using Entries = std::vector<std::shared_ptr<Compilation>>;
  std::shared_ptr<Compilation> match(Entries& entries, PyObject* const* const* frames, std::vector<Ref>& objects);
  Ref run(PyThreadState* thread, Compilation& compilation, std::vector<Ref>& objects, Chain& chain);
  Ended run_graph(PyThreadState* thread, Compilation& compilation, const std::vector<Ref>& objects, Chain& chain, Ref& result);
  Ref go_on(PyThreadState* thread, Chain& chain);
  void note_break(const recorder::Recording& recording);
  std::shared_ptr<Compilation> add(const Place& place, std::unique_ptr<recorder::Recording> recording);

  Ref function_;
  Settings settings_;
  std::map<Place, Entries> places_;
  std::map<Place, guards::Paths> varying_;  // by place: what was seen to change there, and is an input from then on
  Place entry_;
  Entries* first_ = nullptr;  // entries of the function's start
  std::vector<BreakNote> breaks_;
  Counters counters_;
  std::vector<Ref> spare_objects_;  // room for the objects of the next call's guards
  bool given_up_ = false;     // not worth capturing: breaks everywhere
};

}  // namespace evalframe::runtime
