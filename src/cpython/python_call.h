// The border for frames as an activation takes them up, and for the usual call of a Python function by one of ours: one step
// in, one step out.
#pragma once

#include "bytecode/instruction.h"
#include "cpython/frame.h"

namespace evalframe::cpython {

// A frame that is about to run, and what an activation asks of it.
struct EnteredFrame {
  Frame* frame;
  const bytecode::Code* code;
  PyObject** base;
  int depth;  // slots in use
  int unit;   // the next to run
  RunningCell running;
  TraceCells trace_cells;
};

// Whether the function is called as functions are made; from 3.12 on another vectorcall may have been put in.
bool has_usual_vectorcall(PyFunctionObject* function);

// Of a frame that CPython or push_frame has filled.
EnteredFrame entered_frame(PyThreadState* thread, Frame* frame, const bytecode::Code& code);

// Calls `function` with `count` positional arguments, and takes over its reference and theirs. False, with nothing done and
// no exception, where the call isn't just a new frame that runs in our evaluator: other hooks or tools want to see it, the
// arguments don't fit one by one, its code wasn't run yet, the recursion is too deep.
bool enter_call(PyThreadState* thread, PyObject* function, PyObject** arguments, int count, EnteredFrame& entered);
// Behind its end: takes the frame off and drops it. depth: slots in use.
void leave_call(PyThreadState* thread, Frame* frame, int depth);
// Instead of that, where CPython is to run the rest of it: its position is saved. The result, or null with an exception.
Ref leave_call_to_cpython(PyThreadState* thread, Frame* frame);

}  // namespace evalframe::cpython
