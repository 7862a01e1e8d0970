// A call of a captured function: served by a recording, timed beside CPython, recorded, or left to CPython.
#include "backends/native/native.h"
#include "cpython/codec.h"
#include "cpython/objects.h"
#include "cpython/variables.h"
#include "frontends/torch/tensors.h"
#include "runtime/capture.h"
#include "runtime/dead_functions.h"
#include "runtime/recursion_level.h"
#include "runtime/replay.h"
#include "runtime/verify.h"
#include "runtime/watched.h"

namespace evalframe::runtime {

Ref Capture::call_plainly(bool* handled) {
  *handled = false;
  count(&Counters::plain_calls);
  return Ref();
}

// The recording that served last, if it serves again and has its result at hand: nothing is run, so nothing has to be held.
inline Compilation* Capture::hit_at_hand(PyObject* const* parameters) {
  const Entries& first = *first_;
  if (first.recent >= first.list.size() || Measure::what || Verification::is_on()) return nullptr;
  Compilation& entry = *first.list[first.recent];
  return entry.at_hand && entry.guards.check_slots(parameters) ? &entry : nullptr;
}

Ref Capture::call(PyThreadState* thread, PyObject* const* parameters, bool* handled) {
  count(&Counters::calls);
  *handled = true;
  if (given_up_ || cpython::is_traced(thread)) return call_plainly(handled);
  if (function_.as<PyFunctionObject>()->func_code != code_) look_at_code();
  const CallTrial::Turn turn = is_tried() ? trial_.next() : CallTrial::Turn::kServe;
  if (turn == CallTrial::Turn::kServe) {
    if (Compilation* const entry = hit_at_hand(parameters)) {
      entry->hits++;
      count(&Counters::served);
      count(&Counters::hits);
      return Ref::borrow(entry->at_hand.of(parameters));
    }
  }
  switch (turn) {
    case CallTrial::Turn::kServe: return call_captured(thread, parameters, handled);
    case CallTrial::Turn::kPlain: return call_plainly(handled);
    case CallTrial::Turn::kTimedServe:
    case CallTrial::Turn::kTimedPlain: break;
  }
  return call_timed(thread, turn, parameters, handled);
}

// Trials that don't count as long as there is more to record, and those that are put off as long as a loop may become native.
static constexpr int kMostBusyCalls = 64, kMostTrialsPutOff = 8;

// A call of a trial: all of it is done here, whoever runs it.
Ref Capture::call_timed(PyThreadState* thread, CallTrial::Turn turn, PyObject* const* parameters, bool* handled) {
  const bytecode::Code* decoded = cpython::decoded(code_);
  if (!decoded) return PyErr_Clear(), call_plainly(handled);
  const bool served_before = trial_.serves();
  const auto things_made = [&] {
    const Counters counters = counters_with_callees();
    return counters.recordings + counters.native_loops + counters.optimised_loops;
  };
  const uint64_t made = things_made(), waited = native::runs_that_waited();
  Ref result;
  {
    TimedCall timed(trial_, turn);
    if (turn == CallTrial::Turn::kTimedServe) result = call_captured(thread, parameters, handled);
    if (turn == CallTrial::Turn::kTimedPlain) count(&Counters::plain_calls);
    const std::optional<double> limit = turn == CallTrial::Turn::kTimedPlain ? trial_.limit() : std::nullopt;
    if (limit) result = run_for(thread, *decoded, parameters, *limit, timed);
    else if (turn == CallTrial::Turn::kTimedPlain || !*handled) result = run_plainly(thread, *decoded, parameters);
    *handled = true;
    const bool waits = waited != native::runs_that_waited();
    if (waits || (made != things_made() && busy_calls_++ < kMostBusyCalls)) timed.leave_out();
  }
  if (!served_before || trial_.serves()) return result;
  const std::vector<const Capture*> parts = with_callees();
  const bool awaits = std::any_of(parts.begin(), parts.end(), [](const Capture* part) { return part->awaits_region(); });
  // Of code that was made quickly, a trial says little.
  if (optimise_all() || (awaits && put_off_++ < kMostTrialsPutOff)) trial_.begin_again();
  else count(&Counters::given_up);
  return result;
}

Ref Capture::run_plainly(PyThreadState* thread, const bytecode::Code& decoded, PyObject* const* parameters) {
  const RecursionLevel level(thread);
  Chain chain(thread);
  return level && push_call(chain, decoded, parameters) ? chain.finish_in_cpython(false) : Ref();
}

// Plainly, but in our evaluator, until it is known to take longer than the limit.
Ref Capture::run_for(PyThreadState* thread, const bytecode::Code& decoded, PyObject* const* parameters, double limit, TimedCall& timed) {
  const RecursionLevel level(thread);
  Chain chain(thread);
  if (!level || !push_call(chain, decoded, parameters)) return Ref();
  Ref result;
  double seconds = 0;
  const Ended ended = chain.run_for(timed.watch(), limit, seconds, result);
  timed.end(seconds);
  return ended == Ended::kRunning ? finish(thread, chain) : std::move(result);
}

// The slots that a call fills.
std::span<PyObject* const> Capture::bound(PyObject* const* parameters) const {
  return {parameters, static_cast<size_t>(cpython::argument_count(code_))};
}

Ref Capture::call_captured(PyThreadState* thread, PyObject* const* parameters, bool* handled) {
  if (may_call_natively()) {
    bool ran = false;
    Ref result = call_natively(thread, parameters, ran);
    if (ran) return result;
  }
  const Held<Entries> entries = first_;
  // Held until the objects are gone: its program says which of them are owned.
  Held<Compilation> compilation;
  guards::Objects objects;
  compilation = match(*entries, &parameters, objects);
  // The calls in it need no stack, and fail where they would.
  if (compilation && !cpython::may_recurse(thread, compilation->recording->deepest)) return call_plainly(handled);
  if (compilation && !Measure::what) {
    count(&Counters::hits);
    const recorder::Recording& recording = *compilation->recording;
    if (recording.returns && recording.graph.nodes.empty()) return make_result(recording, 0, {}, objects.data());
  }
  const RecursionLevel level(thread);
  if (!level) return Ref();
  if (!compilation) return record(thread, *entries, parameters, handled);
  if (Verification::is_on() && Verification::is_due(compilation->hits)) return verified(thread, *compilation, objects, parameters);
  if (!Measure::what) return run(thread, *compilation, objects);
  return watched(code_, bound(parameters), [&] { return name_of(*compilation); }, [&] { return serve(thread, *compilation, objects, parameters); });
}

bool Capture::push_call(Chain& chain, const bytecode::Code& decoded, PyObject* const* parameters) {
  const auto* code = decoded.code.as<PyCodeObject>();
  const int given = cpython::argument_count(decoded.code);
  std::vector<Ref> slots(code->co_nlocalsplus);
  for (int i = 0; i < given; i++) slots[i] = Ref::borrow(parameters[i]);
  return chain.push(function_.get(), decoded, std::move(slots), 0);
}

// No entry serves a call: records it from its start.
Ref Capture::record(PyThreadState* thread, Entries& entries, PyObject* const* parameters, bool* handled) {
  const bytecode::Code* decoded = cpython::decoded(code_);
  if (!decoded) return PyErr_Clear(), call_plainly(handled);
  if (torch::modes_are_active()) return call_plainly(handled);
  if (!comes_to_loop(entries) && puts_off(entries)) return call_plainly(handled);
  drop_spent(entries);
  if (drop_dead(entries, is_full(entries, settings_.max_entries))) drop_regions();
  if (is_full(entries, settings_.max_entries)) {
    count_refusal(entries);
    return call_plainly(handled);
  }
  return watched(code_, bound(parameters), [] { return std::string("a new recording"); }, [&] {
    Chain chain(thread);
    if (!push_call(chain, *decoded, parameters)) return Ref();
    return Measure::what & Measure::kCalls ? record_call(thread, entries, chain) : finish(thread, chain);
  });
}

// Serves a call and takes the time, or lets CPython run it for comparison.
Ref Capture::serve(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, PyObject* const* parameters) {
  if (Measure::what & Measure::kGuards) compilation.take_costs(&parameters);
  if (!(Measure::what & Measure::kCalls)) return count(&Counters::hits), run(thread, compilation, objects);
  if (!compilation.measure) compilation.measure = std::make_unique<Measure>();
  const bytecode::Code* decoded = compilation.measure->wants_plain() ? cpython::decoded(code_) : nullptr;
  if (decoded) {
    count(&Counters::plain_calls);
    Chain chain(thread);
    if (!push_call(chain, *decoded, parameters)) return Ref();
    const Stopwatch watch;
    Ref result = chain.finish_in_cpython(false);
    compilation.measure->add_plain(watch.seconds());
    return result;
  }
  count(&Counters::hits);
  const Stopwatch watch;
  Ref result = run(thread, compilation, objects);
  compilation.measure->add_served(watch.seconds());
  return result;
}

// Serves a call, and has CPython run it, too, which is what counts. What leaves its graph has begun to act, and is served only.
Ref Capture::verified(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, PyObject* const* parameters) {
  if (leave_before >= 0 || !Verification::can_be_run_twice(*compilation.recording)) return run(thread, compilation, objects);
  count(&Counters::hits);
  ArraySnapshot written;
  if (!written.take(objects, compilation.recording->guards.sources.size())) return Ref();
  Chain chain(thread);
  Ref result;
  const uint64_t left_before = compilation.left_early;
  Ended ended = Ended::kRaised;
  {
    const QuietErrors quiet;
    if (!quiet) return Ref();
    ended = run_graph(thread, compilation, objects, chain, result);
  }
  if (compilation.left_early != left_before) return go_on_behind(thread, ended, chain, std::move(result), objects);
  const CameOfIt served = CameOfIt::of(std::move(result));
  const bytecode::Code* const decoded = cpython::decoded(code_);
  if (!decoded || !written.exchange()) return Ref();
  CameOfIt plain = CameOfIt::of(run_plainly(thread, *decoded, parameters));
  count(&Counters::verified);
  if (!verify(compilation, function_.get(), parameters, served, plain, written)) {
    count(&Counters::differences);
    given_up_ = true;
  }
  if (plain.raised) cpython::set_raised(std::move(plain.raised));
  return std::move(plain.result);
}

// Records a call and takes the time that it took besides compiling.
Ref Capture::record_call(PyThreadState* thread, Entries& entries, Chain& chain) {
  const double compiled_before = seconds_compiled();
  const size_t before = entries.list.size();
  const OwnSeconds own;
  const Stopwatch watch;
  Ref result = finish(thread, chain);
  const double seconds = watch.seconds() - (seconds_compiled() - compiled_before);
  if (entries.list.size() > before) {
    Compilation& made = *entries.list.back();
    if (!made.measure) made.measure = std::make_unique<Measure>();
    made.measure->add_recorded(seconds, own.of(seconds));
  }
  return result;
}

// Serves a call from its start, or from behind a branch.
Ref Capture::run(PyThreadState* thread, Compilation& compilation, guards::Objects& objects, const Left* before) {
  const recorder::Recording& recording = *compilation.recording;
  Chain chain(thread);
  Ref result;
  backends::Outcome outcome = run_nodes(thread, compilation, objects, chain);
  if (before && !(recording.returns && is_at_end(recording, outcome))) {
    objects.own_slots();
    before->outcome.values.clear();
    before->objects.clear();
  }
  if (!before && may_go_on_natively(recording, outcome)) return go_on_natively(thread, recording, outcome, objects);
  if (go_on_behind_branch(thread, {compilation, outcome, objects}, result)) return result;
  const Ended ended = leave_graph(thread, compilation, std::move(outcome), objects, chain, result);
  return go_on_behind(thread, ended, chain, std::move(result), objects);
}

// The graph has been run: from its exit, if it was left, to the end of the call.
Ref Capture::go_on_behind(PyThreadState* thread, Ended ended, Chain& chain, Ref result, guards::Objects& objects) {
  if (ended == Ended::kRunning) {
    objects.clear();
    count(&Counters::exits);
    ended = chain.step(result);
  }
  if (ended == Ended::kReturned) return result;
  if (ended == Ended::kRaised) return Ref();
  return finish(thread, chain);
}

}  // namespace evalframe::runtime
