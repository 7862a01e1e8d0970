// The live frames of one captured call, outermost first: the function's own and those of calls inlined in it.
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "core/few.h"
#include "evaluator/activation.h"
#include "recorder/purpose.h"
#include "recorder/recording.h"
#include "runtime/measure.h"

namespace evalframe::recorder {
class Recorder;
struct Plan;
struct Unfinished;
}  // namespace evalframe::recorder

namespace evalframe::runtime {

// How a stretch of running ended.
enum class Ended : uint8_t {
  kRunning,   // the chain stands at an instruction boundary
  kReturned,  // the outermost frame is finished; the result is there
  kRaised,    // the outermost frame raised; the exception is set
};

class Live;

// Heads of while loops of which a recording has one turn: the code, borrowed, and the instruction.
using LongLoops = std::set<std::pair<PyObject*, int32_t>>;

class Chain {
 public:
  explicit Chain(PyThreadState* thread) : thread_(thread) {}
  ~Chain() { drop(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  bool empty() const { return frames_.empty(); }
  size_t size() const { return frames_.size(); }
  const std::vector<cpython::Frame*>& frames() const { return frames_; }
  // Pushes a frame for the function, with these slots filled (moved from) and this position. False with an exception.
  bool push(Borrowed function, const bytecode::Code& code, std::vector<Ref> slots, int32_t next);
  // Pushes the frame of a generator that waits; it runs from here on.
  void push_generator(Ref generator, Ref sent);
  // Takes up the frame of a generator that CPython has resumed: the outermost one, whose owner it stays.
  void take_up(cpython::Frame* frame) { add(frame); }
  using Slots = Few<std::pair<int, Ref>, 8>;
  using Old = Few<Ref, 8>;
  // Fills the kept frame `index` anew. Old values that aren't there any more are handed over: dropping them can run any code.
  void refill(size_t index, const bytecode::Code& code, Slots&& changed, int depth, int32_t next, Old& old);
  // Drops all frames but the outermost `count`.
  void drop_to(size_t count);
  // Drops all frames.
  void drop();
  // Someone outside holds the frame object of a frame, or only asks for those of inlined calls.
  bool is_held() const;
  bool is_callee_held() const;

  // Runs one instruction of the innermost frame in our evaluator.
  Ended step(Ref& result);
  // Runs the innermost frame in our evaluator until it jumps back, to the instruction `*head`. kRunning: it did.
  Ended run_to_back_jump(int32_t* head, Ref& result);
  // The same, until it does so when CPython would have taken more than `limit` since the watch began, as far as can be told; seconds: what it would have.
  Ended run_for(const Stopwatch& watch, double limit, double& seconds, Ref& result);
  // Runs the innermost frame in our evaluator to the instruction `to`, or out of the instructions first .. last.
  Ended run_within(int32_t first, int32_t last, int32_t to, Ref& result);
  // Runs the innermost frames in our evaluator until there is none that nobody sees, or that eval() or exec() runs.
  Ended leave_hidden(Ref& result);
  // The dict of a class body's names. False: null was given.
  bool give_names(size_t index, Ref names);
  // The same of the globals of code that exec() runs in a dict.
  bool give_globals(size_t index, Borrowed globals);
  // Runs the rest of all frames in CPython's evaluator. raise: the exception that is set is thrown at the innermost's
  // present instruction. Empties the chain. Null with an exception.
  Ref finish_in_cpython(bool raise);
  // Runs the rest of the innermost frame there: the chain stands behind its call, or what has resumed it.
  Ended finish_last_in_cpython(Ref& result);
  // The innermost frame is a call's, and no generator's or class body's.
  bool ends_in_call() const;
  // `finish`, which takes that frame, runs the rest of it: its caller goes on with what comes of it.
  Ended finish_call(const std::function<Ref(cpython::Frame*)>& finish, Ref& result);
  // Throws the exception that is set at the innermost's next instruction; CPython runs what comes of it.
  Ref throw_here();
  // The innermost, a generator's frame, goes on with the exception that is set.
  Ended throw_into(Ref& result);
  // Runs and records from here to the next break, return or exception, filling `recording`.
  // The chain stands at the break afterwards (before the instruction that breaks), or behind a caught exception.
  // long_loops: it ends behind a turn where all that are left would make the graph very large, and of
  // these; others that it finds are added, and the recording is for one number of turns only. Null: it doesn't end for that.
  Ended record(const guards::Paths& varying, Ref& result, std::unique_ptr<recorder::Recording>& recording, bool& stepped_past_exception,
               recorder::Purpose purpose, LongLoops* long_loops = nullptr);

 private:
  template <class Stops> Ended run_to_some_back_jump(uint64_t& steps, Stops stops, Ref& result);
  // Where a frame stood.
  struct Place {
    int32_t instruction;
    int depth;
  };
  // Each frame but the outermost, which is its caller's affair, is a level of Python's recursion while it is here.
  void add(cpython::Frame* frame, Ref generator = Ref());
  cpython::Frame* take_last();
  void drop_last();
  Ref run_outermost_in_cpython(cpython::Frame* frame, bool raise);
  Ended finish_inner(Live& live, Ref value, Ref& result);
  evaluator::Event leave_inner(Live& live, Ref value);
  Ended settle(Live& live, evaluator::Event event, Ref& result);
  bool follow(Live& live, recorder::Recorder& recorder, recorder::Plan& plan, bool again = false);
  Ended resume(Live& live, recorder::Recorder& recorder, recorder::Plan& plan, Ref& result, bool& stepped_past_exception);
  Ended stop_iteration(Live& live, recorder::Recorder& recorder, Ref value, Ref& result, bool& stepped_past_exception);
  Ended close_let_go(Live& live, recorder::Recorder& recorder, std::vector<recorder::Unfinished> held, bytecode::Op last, Ref& result, bool& stepped_past_exception);
  Ended pass_on(Live& live, recorder::Recorder& recorder, bool known, evaluator::Event event, Place from, Ref& result, bool& stepped_past_exception);
  Ended return_recorded(Live& live, recorder::Recorder& recorder, Ref& result, bool& stepped_past_exception);
  Ended leave_bodies(Live& live, recorder::Recorder& recorder, Ended ended, Ref& result);
  Ended unwind_recorded(Live& live, recorder::Recorder& recorder, Ref& result, bool& stepped_past_exception);
  Ended step_recorded(Live& live, recorder::Recorder& recorder, const recorder::Plan& plan, Ref& result, bool& stepped_past_exception,
                      std::vector<recorder::Unfinished>* held = nullptr);
  Ended end_step(Live& live, recorder::Recorder& recorder, const recorder::Plan& plan, evaluator::Event event, Place from, Ref& result, bool& stepped_past_exception);
  Ended step_among_generators(Live& live, recorder::Recorder& recorder, const recorder::Plan& plan, Ref& result, bool& stepped_past_exception);
  PyThreadState* thread_;
  std::vector<cpython::Frame*> frames_;
  std::vector<Ref> generators_;  // whose frame each is; null: its own
};

}  // namespace evalframe::runtime
