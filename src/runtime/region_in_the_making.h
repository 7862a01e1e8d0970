// A loop that is to be native, until its code is there: who makes that may be a thread of its own.
#pragma once

#include <optional>
#include <string>

#include "runtime/entries.h"

namespace evalframe::runtime {

struct RegionInTheMaking {
  // Compiles it. For once.
  void make();

  Ref code_object;  // what is made of it needs it
  Place place;      // where the loop stood
  std::optional<regions::Region> region;
  regions::State state;
  uint64_t recordings = 0;  // of the capture, when this began
  bool is_done = false;
  Held<LoopRegion> made;  // none: there is an error
  std::string error;
};

}  // namespace evalframe::runtime
