// Telling tracers, profilers and monitoring tools of an exception in a frame of ours.
//
// Frames are handed over before the next instruction once a tool is active. This is for the one instruction that was
// running when it became so: a callee has switched it on, and raised.
#pragma once

#include "cpython/frame.h"

namespace evalframe::cpython {

enum class ExceptionEvent : uint8_t { kRaise, kReraise, kHandled, kUnwind };

// `frame` is the thread's current one, the exception is set (kHandled: it is the one handled). A tool that raises replaces it.
void tell_tools(PyThreadState* thread, Frame* frame, ExceptionEvent event);

}  // namespace evalframe::cpython
