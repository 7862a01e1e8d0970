// The border for frames as an activation takes them up, and for the usual call of a Python function by one of ours: one step
// in, one step out.
#pragma once

#include "bytecode/instruction.h"
#include "cpython/frame.h"

namespace evalframe::cpython {

// A frame that is the thread's current one, and what it runs. Its depth and position are still written in it.
struct EnteredFrame {
  Frame* frame = nullptr;  // null: it couldn't be entered
  const bytecode::Code* code = nullptr;
};

// Whether the function is called as functions are made; from 3.12 on another vectorcall may have been put in.
bool has_usual_vectorcall(PyFunctionObject* function);
// Whether CPython's evaluator runs Python functions that it calls in frames of their own, asking nobody, and there is C stack for one more.
bool enters_functions(PyThreadState* thread);

// --- entering: the frame becomes the thread's current one. None, with nothing done and no exception, where it isn't just to
// run in our evaluator: other hooks or tools want to see it, its code wasn't run yet, the recursion is too deep -------------
// Calls `function` with `count` positional arguments, and takes over its reference and theirs. None also where they don't fit
// one by one.
EnteredFrame enter_call(PyThreadState* thread, PyObject* function, PyObject** arguments, int count);
// A frame that push_frame has made, filled.
EnteredFrame enter_frame(PyThreadState* thread, Frame* frame);
// A frame that CPython's slot for frame evaluation was given, or one that push_frame has made, filled; whichever hook wants to see it.
// None also with too little of the C stack left. Left by leave_given.
const bytecode::Code* enter_given(PyThreadState* thread, Frame* frame);
// Resumes a generator or coroutine that waits, with a value sent, and takes over the reference to it. None also of others.
EnteredFrame enter_generator(PyThreadState* thread, PyObject* generator, PyObject* sent);

// Marks a frame that was entered, and is no generator's: its caller wants the new instance that it sets up, not its result.
inline constexpr unsigned char kMakesInstance = 0x5A;
inline unsigned char& mark_of(Frame* frame) { return reinterpret_cast<unsigned char*>(frame)[layout::kFrameMark]; }

// --- leaving: the caller is the thread's current frame again ---------------------------------------------------------------------
// Behind the end of a call: drops its frame. depth: slots in use. The caller's frame.
Frame* leave_call(PyThreadState* thread, Frame* frame, int depth);
// Instead of that, where CPython is to run the rest of it: its position is saved. The result, or null with an exception.
Ref leave_call_to_cpython(PyThreadState* thread, Frame* frame);
// A generator's frame has yielded (its position is saved; delegates: at a `yield from` or `await`), ...
void leave_suspended(PyThreadState* thread, Frame* frame, bool delegates);
// ... has returned or raised, ...
void leave_finished(PyThreadState* thread, Frame* frame, int depth);
// ... or CPython is to run it up to where it yields or ends. `yielded` tells which.
Ref leave_generator_to_cpython(PyThreadState* thread, Frame* frame, bool& yielded);

// A frame that enter_given has entered is its caller's again, to drop or to suspend it.
void leave_given(PyThreadState* thread, Frame* frame);
// The thread's current frame, once one of these has left the callee's.
Frame* current_frame(PyThreadState* thread);

}  // namespace evalframe::cpython
