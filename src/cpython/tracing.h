// Telling tracers, profilers and monitoring tools of an exception in a frame of ours.
//
// Frames are handed over before the next instruction once a tool is active. This is for the one instruction that was
// running when it became so: a callee has switched it on, and raised.
#pragma once

#include "cpython/caches.h"
#include "cpython/frame.h"

namespace evalframe::cpython {

enum class ExceptionEvent : uint8_t { kRaise, kReraise, kHandled, kUnwind };

// `frame` is the thread's current one, the exception is set (kHandled: it is the one handled). A tool that raises replaces it.
// unit: of the code, where monitoring tools are told that it happens (unit_told).
void tell_tools(PyThreadState* thread, Frame* frame, ExceptionEvent event, int unit);
// Of an exception that is raised by the instruction, or by a callee of it.
inline int unit_told(const bytecode::Instruction& instruction, bool by_callee) {
  if (layout::k313) return by_callee ? own_unit(instruction) - 1 : instruction.end - 1;
  return by_callee ? instruction.end - 1 : own_unit(instruction);
}

}  // namespace evalframe::cpython
