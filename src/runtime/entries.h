// The places of a function at which recordings start, and the recordings of each.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/chain.h"
#include "runtime/compile.h"
#include "runtime/loop_region.h"
#include "runtime/loop_trial.h"

namespace evalframe::runtime {

// One place at which a recording can start: the functions of the frames, the next instruction and slots in use of each.
struct Place {
  struct Frame {
    PyObject* code;
    int32_t next, depth;
    auto operator<=>(const Frame&) const = default;
  };
  std::vector<Frame> frames;
  auto operator<=>(const Place&) const = default;
};

// How often guards on one thing said no, and one of them.
struct GuardFailures {
  uint64_t count = 0;
  guards::GuardTable::Line example;
};

// Recordings that start at one place. The one that served last is tried first. Held where it is used: what runs
// meanwhile can clear the capture.
struct Entries : Holdable {
  Place place;
  std::vector<int> units;  // of each frame's next instruction, once a chain stood here
  std::vector<Held<Compilation>> list;
  guards::Paths varying;  // what was seen to change here, and is an input from then on
  size_t recent = 0;
  // Of several turns of a loop at once, tried before the others.
  Held<Compilation> several;
  bool several_tried = false;
  uint64_t refused = 0;   // times there was no entry that serves, and no room for one more
  uint32_t put_off = 0;   // times that none was made here, to make it later
  uint64_t replaced = 0;  // recordings that gave way to more general ones
  uint64_t spent = 0;     // ... that were
  std::map<std::string, GuardFailures> failures_before;  // of those, by what the guard looks at
  bool lost_way = false;   // a recording that serves was left, as a branch in a call went another way: there may be one of that
  bool runs_plain = false;  // code behind the place looks at objects that a graph wouldn't make
  LoopTrial trial;
  Held<LoopRegion> region;  // of the loop around the place, which can be entered here
  RegionTrial region_trial;
  bool has_shared_memory = false;  // its arrays don't always stand apart
  bool has_other_strides = false;  // of its arrays: not always do elements along the last axis stand one beside the other
  int32_t loop_first = -1, loop_last = -1;  // instructions of the innermost frame's innermost loop around the place; -1: none
  bool loop_is_inner = false;               // there is another around it, or in a caller
  int turns_in_callee = 0;                  // times that a call of a followed function stood here
  bool at_start = false;  // of the function: the slots of its parameters are bound, and no others
};

// Whether there is no room for one more, or none is wanted. A place that is recorded again and again is full, too, though each recording takes
// the place of another.
bool is_full(const Entries& entries, int most);
// Lets go of the others, which may run Python code. How many there were.
size_t keep_only(Entries& entries, const std::function<bool(const Held<Compilation>&)>& stays);
// ... of those that are spent.
void drop_spent(Entries& entries);
// No recordings yet. The loops around the place are found.
Held<Entries> make_entries(const Place& place);
// Whether a loop may follow in the function.
bool comes_to_loop(const Entries& entries);
// Where the chain stands.
Place place_of(const Chain& chain);
// Whether that is the entries' place, in less time.
bool stands_at(const Chain& chain, const Entries& entries);

// A place at which there are as many recordings as there may be, and none of them serves all calls.
struct LimitNote {
  std::string file, function;
  int32_t line;
  size_t entries;
  uint64_t replaced;  // recordings that gave way to more general ones
  uint64_t refused;   // calls that were left to CPython for it
  std::string guard;  // one that failed most often, as text
  std::string hint;
};

LimitNote limit_note(const Entries& entries);

}  // namespace evalframe::runtime
