// Runs the operations that native loops leave to NumPy.
#pragma once

#include "regions/object_call.h"

namespace evalframe::regions {

// Puts the result's words in the place of the operands'. False: it can't be done so, and nothing was done; an exception stays that is no
// Exception, such as one that a signal's handler raised.
bool run_object_call(const ObjectCall& call, Held& held, int64_t* words);

}  // namespace evalframe::regions
