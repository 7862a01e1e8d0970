// All that is captured of one function: recordings by the place where they start, and the loop that runs them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/call_trial.h"
#include "runtime/counters.h"
#include "runtime/entries.h"
#include "runtime/loop_hints.h"
#include "runtime/native_call.h"
#include "runtime/region_in_the_making.h"

namespace evalframe::runtime {

// A break that was met, for people.
struct BreakNote {
  recorder::Break why;
  std::string detail;
  std::string file, function;
  bytecode::Position position;
  uint64_t count = 0;
};

// A loop that was made into native code, or is to be, or can't be.
struct LoopNote {
  std::string file, function;
  int line = 0;
  bool is_native = false, is_compiling = false, is_optimised = false;
  int blocks = 0, at_once = 0, numpy_calls = 0;
  int64_t ir_lines = 0;
  double compile_seconds = 0;
  uint64_t runs = 0, turns = 0;
  double wait_seconds = 0;  // of one that isn't, yet: what it has to take first, by the cost of compiling it
  std::vector<std::pair<int, std::string>> obstacles;  // lines, and what is in the way there
  std::string ir;           // of one that is native
};

class Capture {
 public:
  Capture(Borrowed function, Settings settings);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // All that there are, in the order in which they were made.
  static const std::vector<Capture*>& all();
  // Of all that there are and were.
  static Counters total_counters();

  // Whether this many positional arguments, and no others, are the slots of the parameters as they stand.
  bool are_in_order(Py_ssize_t count) const { return count == in_order_ && function_.as<PyFunctionObject>()->func_code == code_; }
  // Calls the function with bound arguments, one for each parameter; the caller holds them, and this Capture. The result,
  // or null with an exception. *handled = false: nothing was done, the function must be called the plain way.
  Ref call(PyThreadState* thread, PyObject* const* parameters, bool* handled);
  // Whether the next call, of a function that is no generator's, is CPython's for certain; then it is counted.
  bool passes_call() {
    if (!given_up_ && !(is_tried() && trial_.passes_next())) return false;
    count(&Counters::calls);
    count(&Counters::plain_calls);
    return true;
  }
  // A generator of the function goes on, whose frame CPython has resumed; throwing: with the exception that is set. False: nothing was
  // done. True: it has come to where it yields or ends, and `result` is what it gave, or null with an exception.
  bool resume(PyThreadState* thread, cpython::Frame* frame, bool throwing, Ref& result);
  // Runs the body of a module, whose function this is: its loops are captured, the rest runs once and isn't. The result,
  // or null with an exception.
  Ref run_module(PyThreadState* thread);

  // Whether there is nothing to be had: capturing was given up for good, or what was recorded so far makes no array.
  bool is_idle() const;

  void clear();
  Borrowed function() const { return function_.get(); }
  // All recordings, by place.
  std::vector<std::pair<Place, Held<Compilation>>> entries() const;
  std::vector<LimitNote> limits() const;
  const std::vector<BreakNote>& breaks() const { return breaks_; }
  std::vector<LoopNote> loops() const;
  const Counters& counters() const { return counters_; }
  // Itself, and the captures of the functions that it calls.
  std::vector<const Capture*> with_callees() const;
  Counters counters_with_callees() const;
  const Settings& settings() const { return settings_; }
  // Visits what only this Capture holds; what is running now is held by its run, too, and what its callees hold is theirs.
  int traverse(visitproc visit, void* arg) const;
  int traverse_with_callees(visitproc visit, void* arg) const;

  // For tests: every graph is left before this node from now on (-1: nowhere). Returns how many were, where the last call said.
  static uint64_t set_leave_before(int32_t node);
  static int32_t leave_before;
  static uint64_t left_as_asked;

 private:
  void count(uint64_t Counters::*which) { counters_.*which += 1; }
  void look_at_code();
  Held<Entries> entries_at(const Place& place);
  void count_refusal(Entries& entries);
  Held<Entries> entries_of(const Chain& chain);
  Ref refuse(Entries& entries, Chain& chain);
  Held<Compilation> match(Entries& entries, PyObject* const* const* frames, guards::Objects& objects);
  bool serves(Compilation& compilation, bool at_start, PyObject* const* const* frames, guards::Objects& objects);
  Ref call_plainly(bool* handled);
  bool is_tried() const { return may_be_tried_ && leave_before < 0; }
  Compilation* hit_at_hand(PyObject* const* parameters);
  bool resume_captured(PyThreadState* thread, cpython::Frame* frame, bool throwing, Ref& result);
  Ref call_timed(PyThreadState* thread, CallTrial::Turn turn, PyObject* const* parameters, bool* handled);
  Ref run_for(PyThreadState* thread, const bytecode::Code& decoded, PyObject* const* parameters, double limit, TimedCall& timed);
  Ref run_plainly(PyThreadState* thread, const bytecode::Code& decoded, PyObject* const* parameters);
  Ref call_captured(PyThreadState* thread, PyObject* const* parameters, bool* handled);
  Ref serve(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, PyObject* const* parameters);
  Ref verified(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, PyObject* const* parameters);
  Ref record_call(PyThreadState* thread, Entries& entries, Chain& chain);
  bool push_call(Chain& chain, const bytecode::Code& code, PyObject* const* parameters);
  // Which of the entries it is, for people.
  std::string name_of(const Compilation& entry) const;
  std::span<PyObject* const> bound(PyObject* const* parameters) const;
  Ref record(PyThreadState* thread, Entries& entries, PyObject* const* parameters, bool* handled);
  Ref go_on_behind(PyThreadState* thread, Ended ended, Chain& chain, Ref result, guards::Objects& objects);
  // A graph that was run, and what it has left.
  struct Left {
    const Compilation& compilation;
    backends::Outcome& outcome;
    guards::Objects& objects;
  };
  // before: what the objects are borrowed from; null: the call's arguments.
  Ref run(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, const Left* before = nullptr);
  static bool is_at_end(const recorder::Recording& recording, const backends::Outcome& outcome) {
    return !outcome.raised && outcome.node == static_cast<int32_t>(recording.graph.nodes.size());
  }
  bool go_on_behind_branch(PyThreadState* thread, const Left& left, Ref& result);
  bool may_go_on_frameless(PyThreadState* thread) const;
  Held<Entries> met_lately(const bytecode::Code& code, int32_t next, int depth) const;
  backends::Outcome run_nodes(PyThreadState* thread, Compilation& compilation, const guards::Objects& objects, const Chain& chain);
  Ended leave_graph(PyThreadState* thread, Compilation& compilation, backends::Outcome outcome, guards::Objects& objects, Chain& chain, Ref& result);
  Ended run_graph(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, Chain& chain, Ref& result);
  // Instructions of the outermost frame between which a chain is captured.
  struct Stretch {
    int32_t first = 0, last = INT32_MAX;
  };
  // Whether capturing pays: graphs must make an array for every two exits, and not be breaks with nothing between them.
  struct Worth {
    uint64_t exits = 0, nodes = 0, barren = 0;
    bool pays = true;
    bool proven = false;  // it did, once
    int waited = 0;       // places passed since it doesn't, on the way to a loop that may become native
    void count_exit();
    void count_recording(const Compilation& compilation);
  };
  // The trial that a run is in, if any, and the times of its turns.
  class Trial;
  class TurnTimes;
  // One going on, from an instruction to the end of the call or stretch.
  struct Run;
  // A turn of a loop may begin here. ran: the evaluator has run it; else it is to be served.
  Ended begin_turn(Run& run, Entries& entries, bool& ran);
  bool is_known(const Chain& chain, const Entries& entries) const;
  Ended run_turn(Run& run, const Entries& entries);
  Ended serve_here(Run& run, Entries& entries, Compilation& compilation, guards::Objects& objects);
  // Runs the loop that the chain stands in as native code, if there is such code, or it is time to make it. ran: some of it was run.
  Ended run_region(Run& run, Entries& entries, bool& ran);
  bool may_have_regions(const Run& run, const Entries& entries) const;
  // Whether the loop is served on, though it doesn't pay, until it is time to make native code of it.
  bool still_pays(Run& run, Entries& entries);
  bool hopes_for_region(Run& run, Entries& entries);
  struct FoundRegion;
  FoundRegion find_region(Run& run, const Entries& entries) const;
  // The recordings that begin there, and whose surroundings hold, best first.
  std::vector<const recorder::Recording*> recordings_at(PyObject* code, int32_t instruction, int32_t depth) const;
  bool backend_has_regions() const { return settings_.backend == "native" && !settings_.custom && !settings_.fullgraph; }
  // Calls that are native from their start (native_call.h). ran: this one was.
  bool may_call_natively() const;
  Ref call_natively(PyThreadState* thread, PyObject* const* parameters, bool& ran);
  void look_at_native_call(int32_t instruction, std::span<PyObject* const> slots);
  void begin_native_call(int32_t instruction, std::span<PyObject* const> slots);
  // The same from behind the graph of a call's start, which has come to its end, where nothing but objects is to be put into slots.
  bool may_go_on_natively(const recorder::Recording& recording, const backends::Outcome& outcome) const;
  Ref go_on_natively(PyThreadState* thread, const recorder::Recording& recording, backends::Outcome& outcome, guards::Objects& objects);
  void count_entry(bool entered);
  Ref end_natively(PyThreadState* thread, Chain& chain, NativeCall::Left left);
  Held<LoopRegion> lead_from(const regions::State& state, const std::vector<Ref>& objects, const std::vector<regions::Type>& items);
  void extend_native_call(const Held<NativeCall>& call);
  // is_hinted: an earlier process made it with what has been recorded so far. Nothing is made then but what is on disk.
  void make_region(Run& run, Entries& entries, bool is_hinted);
  void take_region();  // that has been made
  void optimise(const Held<LoopRegion>& region);
  // Native loops and kernels of the function and of those that it calls. False: they are already.
  bool optimise_all();
  // Whether the innermost frame, a followed call's, is to go on as a call of its own function, as it stands in a loop.
  bool hands_over(const Run& run, Entries& entries) const;
  Ended hand_over(Run& run, bool& handed);
  std::shared_ptr<Capture> callee_of(cpython::Frame* frame);
  // Whether its loops are native, and optimised, or won't be.
  bool is_at_rest() const;
  // Runs the rest of a frame, which it takes.
  Ref finish_call(PyThreadState* thread, cpython::Frame* frame);
  // Whether a loop is served on until it has taken long enough to be made native.
  bool awaits_region() const;
  void drop_regions();  // they may hold what is dead
  void note_loop(LoopNote note);
  void look_for_inputs(const Chain& chain, Entries& entries, PyObject* const* const* frames) const;
  Ended leave_barren_call(Chain& chain, Ref& result);
  // How recordings go through calls, see Recording::ways.
  using Ways = std::set<std::vector<bool>>;
  static Ways ways_from(const Entries& entries, PyObject* const* const* frames);
  // known_ways: of one that goes so another isn't made.
  Ended record_here(Run& run, Entries& entries, PyObject* const* const* frames, bool& past_exception, const Ways& known_ways);
  Ended serve_or_record(Run& run, Entries& entries, bool& may_go_on);
  // Whether a place isn't recorded this time. Nobody has asked for it, recordings have taken their share, and it hasn't been met often since.
  bool puts_off(Entries& entries);
  Ended run_unrecorded(Run& run, const Entries& entries);
  // kRunning: the chain has left the stretch, or capturing doesn't pay. measure: of the turns of the loop that the stretch is.
  Ended go_on(PyThreadState* thread, Chain& chain, Stretch stretch, Worth& worth, Ref& result, Measure* measure = nullptr);
  Ref finish(PyThreadState* thread, Chain& chain);
  // Whether it is time to record several turns of the loop that the chain stands in, of which `one` serves one.
  bool wants_several(const Entries& entries, const Compilation& one, const Chain& chain) const;
  void look_at_several(Entries& entries);
  Ended record_several(Entries& entries, Chain& chain, Ref& result, bool& past_exception);
  void note_break(const recorder::Recording& recording);
  Held<Compilation> add(Entries& entries, std::unique_ptr<recorder::Recording> recording);
  Held<Compilation> compile_counted(std::unique_ptr<recorder::Recording> recording);

  Ref function_;
  Settings settings_;
  const bool may_be_tried_;  // trials may leave its calls to CPython
  std::map<Place, Held<Entries>> places_;
  std::array<Held<Entries>, 32> lately_;  // of the places met lately, for a look without a search
  size_t lately_index(int unit) const { return static_cast<size_t>(unit) % lately_.size(); }
  PyObject* code_ = nullptr;  // the function's code, as of the last call; what follows is about it
  Held<Entries> first_;       // entries of its start
  Py_ssize_t in_order_ = -1;  // its parameters, if all of them can be given by position only
  std::vector<Held<LoopRegion>> regions_;
  std::shared_ptr<RegionInTheMaking> making_;
  Held<NativeCall> native_call_;  // from the start through some of regions_
  bool begins_with_graph_ = false;  // what stands in front of the loop isn't native
  uint32_t native_tries_ = 0, native_misses_ = 0, native_waits_ = 0, native_in_vain_ = 0;
  LongLoops long_loops_;      // of which recordings have one turn
  recorder::Codes barren_;    // of functions that aren't followed: nothing came of it
  std::vector<Ref> barren_held_;
  LoopHints loop_hints_;
  std::vector<LoopNote> waiting_loops_;  // and those that can't be native, as of the last try
  struct Callee {
    PyObject *code, *globals, *builtins;
    auto operator<=>(const Callee&) const = default;
  };
  std::map<Callee, std::shared_ptr<Capture>> callees_;  // whose calls were followed, and have loops
  Capture* root_ = nullptr;                             // of such a callee: whose callees it shares
  std::vector<BreakNote> breaks_;
  Counters counters_;
  Worth worth_;
  CallTrial trial_;
  int busy_calls_ = 0, put_off_ = 0;
  bool given_up_ = false;
};

}  // namespace evalframe::runtime
