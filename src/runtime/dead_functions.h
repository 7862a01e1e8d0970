// Functions made anew at each call (closures, most of them) that nothing but recordings holds any more: no call can bring them again, and
// what they close over is let go with the recordings.
#pragma once

#include <unordered_set>
#include <vector>

#include "runtime/entries.h"

namespace evalframe::runtime {

// Those of the functions that only captures hold, by the counts of references.
std::unordered_set<PyObject*> dead_functions(const std::vector<PyObject*>& functions);
// Lets go of the entries that ask for such a function, which may run Python code. Of a place that refuses calls, now and then. Whether there were any.
bool drop_dead(Entries& entries);

}  // namespace evalframe::runtime
