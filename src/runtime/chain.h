// The live frames of one captured call, outermost first: the function's own and those of calls inlined in it.
#pragma once

#include <functional>
#include <vector>

#include "evaluator/activation.h"
#include "recorder/recording.h"

namespace evalframe::runtime {

// How a stretch of running ended.
enum class Ended : uint8_t {
  kRunning,   // the chain stands at an instruction boundary
  kReturned,  // the outermost frame is finished; the result is there
  kRaised,    // the outermost frame raised; the exception is set
};

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
  // Drops all frames.
  void drop();
  // Someone outside holds one of the frame objects: they must stay the frames they are.
  bool is_held() const;

  // Runs one instruction of the innermost frame in our evaluator.
  Ended step(Ref& result);
  // Runs the rest of all frames in CPython's evaluator. raise: the exception that is set is thrown at the innermost's
  // present instruction. Empties the chain. Null with an exception.
  Ref finish_in_cpython(bool raise);
  // Throws the exception that is set at the innermost's next instruction; CPython runs what comes of it.
  Ref throw_here();
  // Runs and records from here to the next break, return or exception, filling `recording`.
  // The chain stands at the break afterwards (before the instruction that breaks), or behind a caught exception.
  // keep_inputs: the recording holds the objects of the graph's inputs, as examples.
  Ended record(const guards::Paths& varying, Ref& result, std::unique_ptr<recorder::Recording>& recording, bool& stepped_past_exception,
               bool keep_inputs = false);

 private:
  friend class Activations;
  Ended finish_inner(std::vector<std::unique_ptr<evaluator::Activation>>& live, Ref value, Ref& result);
  PyThreadState* thread_;
  std::vector<cpython::Frame*> frames_;
};

}  // namespace evalframe::runtime
