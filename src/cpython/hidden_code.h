// Code whose frames nobody sees: to CPython a frame is incomplete until it has come to the RESUME of its code, and incomplete frames
// are in no traceback and for no sys._getframe. Code without a RESUME never gets there.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

// The same code without its RESUME; null with an exception.
Ref without_resume(Borrowed code);
bool is_hidden(Borrowed code);

}  // namespace evalframe::cpython
