#include "recorder/checkpoints.h"

#include <unordered_map>

namespace evalframe::recorder {

namespace {

// Lives as long as the process, and so does the code.
std::unordered_map<PyObject*, Ref>& not_followed() {
  static auto* const made = new std::unordered_map<PyObject*, Ref>();
  return *made;
}

}  // namespace

bool follows_checkpoints(Borrowed code) { return !not_followed().contains(code.get()); }

void follow_no_checkpoints(Borrowed code) { not_followed().try_emplace(code.get(), Ref::borrow(code)); }

}  // namespace evalframe::recorder
