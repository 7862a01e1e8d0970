// The hook on frame evaluation (PEP 523): who sees a frame before it runs, and what becomes of the frame.
//
// Hooks belong to a thread, or to all of them; the last one installed sees a frame first and decides, or passes on. One
// function of ours stands in CPython's slot while there is a hook, in front of whatever stood there before.
#pragma once

#include <memory>

#include "cpython/entry_frame.h"

namespace evalframe::cpython {

class FrameHook {
 public:
  enum class Decision : uint8_t {
    kPass,     // the next hook decides; after the last one the frame runs
    kRunCode,  // run the code object in `value` in its place
    kResult,   // `value` is the result; the frame doesn't run
    kRaised,   // an exception is set, as if raised by the call; the frame doesn't run
    kTaken,    // the hook has run the frame, in place or adopted: `value` is its result, or null with an exception
  };
  virtual ~FrameHook() = default;
  // Called once for each frame, before it runs (for generators: when they are created). Python code that runs in here
  // is seen by no hook.
  virtual Decision on_frame(PyThreadState* thread, EntryFrame frame, Ref& value) = 0;
  // Whether on_frame would pass this frame on and do nothing else, said in little time and without running Python code; false: on_frame says.
  // Asked first where there is no other hook: most frames of a program are no hook's affair.
  virtual bool passes(const EntryFrame&) { return false; }

  // True for one that evaluates every frame it is given (kTaken), and wants generators' frames each time they go on. It
  // lives to the end of the process: frames still run in it when it's removed.
  virtual bool takes_all_frames() const { return false; }
  // Evaluates such a frame as CPython's evaluator would. It begins, or a generator's goes on; throwing: with the exception that is set.
  virtual PyObject* evaluate(PyThreadState*, Frame*, bool /*throwing*/) { return nullptr; }

  // True for one that is asked of generators that go on, and of nothing else.
  virtual bool takes_resumptions() const { return false; }
  // A generator goes on; throwing: with the exception that is set. False: it is somebody else's. True: it has been run, up to where it
  // yields or ends, and `value` is what it gave, or null with an exception.
  virtual bool on_resumption(PyThreadState*, Frame*, bool /*throwing*/, Ref& /*value*/) { return false; }
};

// Names an installed hook; 0 is none.
using HookId = uint64_t;

// Installs for this thread, or for all. 0 with RuntimeError where that can't be done.
HookId install_frame_hook(std::shared_ptr<FrameHook> hook, bool all_threads = false);
// Removes it, from whichever thread; the slot is given back with the last hook. False: it was not installed (any more).
bool remove_frame_hook(HookId id);
bool is_installed(HookId id);
void remove_all_frame_hooks();

// True while a hook that takes all frames is the only one to be asked: its own calls needn't pass by CPython's slot.
bool all_frames_are_taken(PyThreadState* thread);

// While a frame that a tool sees runs in CPython's evaluator: where one hook takes all frames, the slot is what it was before it,
// for all threads. CPython then runs calls between Python functions, and generators, inside one evaluator as it does without
// any hook; with one, tools see them as calls of C code (3.12 and later), and callers hold on to the arguments.
class SlotLent {
 public:
  explicit SlotLent(bool is_traced);
  ~SlotLent();
  SlotLent(const SlotLent&) = delete;
  SlotLent& operator=(const SlotLent&) = delete;

 private:
  bool lent_;
};

// While one exists, no hook sees frames of this thread.
class HooksSuspended {
 public:
  HooksSuspended();
  ~HooksSuspended();
  HooksSuspended(const HooksSuspended&) = delete;
  HooksSuspended& operator=(const HooksSuspended&) = delete;
};

// Inside on_frame: while one exists, hooks see the frames of this thread again. For hooks that run the program itself.
class HooksResumed {
 public:
  HooksResumed();
  ~HooksResumed();
  HooksResumed(const HooksResumed&) = delete;
  HooksResumed& operator=(const HooksResumed&) = delete;

 private:
  int suspended_;
};

}  // namespace evalframe::cpython
