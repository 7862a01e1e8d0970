// A generator of a captured function goes on: each stretch up to where it yields is served, recorded, or left to CPython. The generator
// and its frame stay CPython's own.
#include "cpython/codec.h"
#include "cpython/entry_frame.h"
#include "runtime/capture.h"
#include "runtime/pending_exception.h"
#include "runtime/recursion_level.h"

namespace evalframe::runtime {

namespace {

bool is_decoded(cpython::Frame* frame) {
  const PendingException thrown;
  if (cpython::decoded(cpython::code_of(frame))) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

bool Capture::resume_captured(PyThreadState* thread, cpython::Frame* frame, bool throwing, Ref& result) {
  const RecursionLevel level(thread);
  if (!level) return cpython::finish_frame(thread, frame), true;
  Chain chain(thread);
  chain.take_up(frame);
  const Ended ended = throwing ? chain.throw_into(result) : Ended::kRunning;
  const uint64_t served = counters_.served, recordings = counters_.recordings;
  if (ended == Ended::kRunning) result = finish(thread, chain);
  if (counters_.served != served && counters_.recordings == recordings) count(&Counters::hits);
  return true;
}

bool Capture::resume(PyThreadState* thread, cpython::Frame* frame, bool throwing, Ref& result) {
  count(&Counters::calls);
  const bool is_ours = cpython::code_of(frame).get() == function_.as<PyFunctionObject>()->func_code;
  // One that is closed, or let go wherever that happens, does no more than to clean up.
  const bool closes = throwing && PyErr_ExceptionMatches(PyExc_GeneratorExit);
  if (given_up_ || !is_ours || closes || cpython::is_traced(thread, frame) || !is_decoded(frame)) return count(&Counters::plain_calls), false;
  if (function_.as<PyFunctionObject>()->func_code != code_) look_at_code();
  const CallTrial::Turn turn = is_tried() ? trial_.next() : CallTrial::Turn::kServe;
  if (turn == CallTrial::Turn::kServe) return resume_captured(thread, frame, throwing, result);
  if (turn == CallTrial::Turn::kPlain) return count(&Counters::plain_calls), false;
  const bool served_before = trial_.serves();
  {
    const TimedCall timed(trial_, turn);
    if (turn == CallTrial::Turn::kTimedServe) {
      resume_captured(thread, frame, throwing, result);
    } else {
      count(&Counters::plain_calls);
      result = cpython::run_in_cpython_in_place(thread, frame, throwing);
    }
  }
  if (served_before && !trial_.serves()) count(&Counters::given_up);
  return true;
}

}  // namespace evalframe::runtime
