// Functions of evalframe's own that CPython's evaluator runs for ours: what it can do and doesn't export.
#pragma once

#include "bytecode/instruction.h"
#include "core/ref.h"

namespace evalframe::cpython {

// A dict for the globals of such functions: a frame hook leaves evalframe's own code to CPython. Null with an exception.
Ref unseen_globals();
// Calls one; it needs no level of recursion.
Ref call_unseen(PyThreadState* thread, Borrowed function, PyObject* const* arguments, size_t count);

// What an instruction of the running version makes of one operand, or of two. name: the code's only one. Null with an exception.
// The program doesn't see the frame in which it runs.
struct LoneInstruction {
  bytecode::Op op;
  int arg;
};
Ref run_alone(PyThreadState* thread, LoneInstruction instruction, Borrowed first, Borrowed second, Borrowed name = Borrowed());

}  // namespace evalframe::cpython
