// Functions made anew at each call (closures, most of them) that nothing but recordings holds any more: no call can bring them again, and
// what they close over is let go with the recordings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "runtime/entries.h"

namespace evalframe::runtime {

// When to look for them: a look visits all that captures hold, so that each recording of a large program would take longer than the one before.
class Looks {
 public:
  // Whether recordings have been made, or functions captured, that have taken many times as long as the looks so far. Asked once at each of them.
  // is_pressing: there is no room for one more, and a few looks may be had ahead of that.
  bool are_due(bool is_pressing = false) {
    visits_ = std::max<int64_t>(visits_ - kVisits, 0);
    return visits_ <= (is_pressing ? kMostAhead : 0);
  }
  void took(int64_t visits) { visits_ += visits; }

 private:
  static constexpr int64_t kVisits = 500;  // that take a tenth of what a small recording takes
  static constexpr int64_t kMostAhead = 32 * kVisits;
  int64_t visits_ = 0;
};
// The process's; with the GIL.
Looks& looks_for_dead_functions();
// Those of the functions that only captures hold, by the counts of references.
std::unordered_set<PyObject*> dead_functions(const std::vector<PyObject*>& functions);
// Lets go of the entries that ask for such a function, which may run Python code, where a look is due, or none more would fit in. Of a place that
// refuses calls, now and then. Whether there were any.
bool drop_dead(Entries& entries, bool is_full);

}  // namespace evalframe::runtime
