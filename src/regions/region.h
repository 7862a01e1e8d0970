// A loop of a program as one native function, put together from the recordings of its parts.
//
// A recording leads from one place of a frame to another. Where every slot of the frame at a place is of a known type, and the
// recordings that begin there are computed in registers, that place is a block of the function; jumps, loops over ranges and branches
// between recordings are done natively, too, and lead to the blocks of the places behind them. A block either does all that its recording
// does, or leaves in front of it with nothing done: elements are stored at its end, when no index is out of range, no int too
// large and no floating-point condition reported. So wherever the function is left, the frame stands between two instructions, and the
// interpreter goes on there.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "guards/guards.h"
#include "recorder/recording.h"
#include "regions/names.h"
#include "regions/part_log.h"
#include "regions/routine.h"
#include "regions/type.h"

namespace evalframe::regions {

// Where a frame stands: before this instruction, with slots (locals, names, stack) of these types.
struct State {
  // Behind the function's end: nothing is left but its result, on the stack, or the items of a tuple that is its result.
  static constexpr int32_t kReturned = -1, kReturnedTuple = -2;
  int32_t instruction;
  std::vector<Type> types;
  auto operator<=>(const State&) const = default;
};

struct Exit {
  State state;
  bool steps = false;  // nothing can be recorded from there: the interpreter has to run the instruction
  bool returns() const { return state.instruction < 0; }
};

// Why nothing native comes of a place.
struct Obstacle {
  int32_t instruction;
  std::string reason;
};

// Floating-point conditions are looked at once in so many turns: twice as many as the last time, and no more than these. A turn with calls, which take
// long, counts as several, so that loops of elements beside it have as many as elsewhere.
inline constexpr int64_t kMostUnseen = 1024, kMostUnseenWithCalls = 128, kFewestUnseen = 16;
// Elements that were stored meanwhile, to be put back where there was one: address and size, and what was there before.
struct LogEntry {
  uint64_t where, old;
};
inline constexpr int64_t kMostLogged = 1 << 13;
// Entries for parts of arrays, one at least.
inline constexpr int64_t kRoomForArrays = 1 << 12;
// Logs so many elements, at even distances from the first to the last one: the new end of the log.
LogEntry* log_many(LogEntry* log, char* first, char* last, int64_t size, int64_t count);
// The same of rows of neighbours: bytes from one to the next, and of each.
LogEntry* log_rows(LogEntry* log, const char* data, int64_t outer, int64_t rows, int64_t bytes);
// Puts them back, the last one first, and forgets the conditions.
void undo(const LogEntry* first, const LogEntry* end);

// Of a checkpoint: block, turns, free memory, number of views, the half for new arrays.
inline constexpr int kSavedNumbers = 6;

struct Region {
  std::string ir;
  std::vector<State> entries;  // the function's, by number
  std::vector<Exit> exits;
  int blocks = 0;
  int at_once = 0;  // inner loops of which many turns are done at once
  // Objects that slots hold and the loop carries along. Null: the one that is in the slot at the entry.
  std::vector<Ref> objects;
  // What has to hold at an entry. Its frame 0 has the objects as slots.
  guards::GuardTable guards;
  std::vector<Type> sources;  // of the guards' sources that the code reads; kUnbound: it doesn't
  Names names;
  std::vector<Routine> routines;  // that the code calls
  // Routines that have to be compiled, in full.
  int kernels() const { return static_cast<int>(std::count_if(routines.begin(), routines.end(), [](const Routine& routine) { return routine.kernel != nullptr; })); }
  int numpy_calls() const { return static_cast<int>(std::count_if(routines.begin(), routines.end(), [](const Routine& routine) { return routine.kind == Routine::Kind::kObject; })); }
  bool loses_arrays = false;      // some variable gets another for one that no other has: it is held until the loop is left
  int64_t logged = 0;             // elements that a turn may log
  int64_t most_unseen() const { return std::clamp(kMostLogged / std::max<int64_t>(logged, 1), kFewestUnseen, kMostUnseen); }
  // What calls are counted as besides, once in a block.
  int64_t turns_of_calls() const { return std::max<int64_t>(most_unseen() / kMostUnseenWithCalls, 1) - 1; }
  // Entries of the log that turns done one by one take from one checkpoint to the next.
  int64_t most_logged() const { return (most_unseen() + 1) * (logged + 1); }
  // Holders of arrays (Strided) whose elements it reads, and stores: it isn't to be entered where one that is stored shares memory with another one.
  std::set<int> read, stored;
  std::set<size_t> changed;       // slots that the code writes: what any other holds isn't lost
  std::vector<Obstacle> obstacles;

  int64_t lines() const;  // of the IR
  int traverse(visitproc visit, void* arg) const;
};

// What native code and the runtime share, besides the words of slots and sources.
struct Header {
  int64_t turns;       // out: jumps back
  int64_t most_turns;  // it leaves after as many
  const volatile void* breaker;
  int64_t reported;    // floating-point conditions, as bits of MXCSR
  char *memory, *memory_end;  // for new arrays
  const RoutineEntry* routines;
  const int64_t* held;  // how many objects calls have made
  int64_t unseen;       // turns until conditions are looked at, at first and at last
  int64_t* saved;       // the checkpoint: its block, kSavedNumbers in all, and the words of its slots
  LogEntry* log;
  void (*undo)(const LogEntry* first, const LogEntry* end);
  LogEntry* (*log_many)(LogEntry* log, char* first, char* last, int64_t size, int64_t count);
  PyObject* const* bound;  // the region's objects of this run
  LogEntry* many_end;      // of the part of the log that many turns at once may fill, and parts of arrays: the rest is for elements of turns that are done one by one
  LogEntry* (*log_rows)(LogEntry* log, const char* data, int64_t outer, int64_t rows, int64_t bytes);
  PartLog* parts;
  LogEntry* (*log_part)(PartLog* parts, LogEntry* end, char* data, const int64_t* axes, int64_t rank, bool is_due);
};
using Function = int32_t (*)(int64_t* slots, const int64_t* sources, Header* header, int32_t entry);

// Recordings that begin at an instruction with so many slots in use, the best first.
using Recordings = std::function<std::vector<const recorder::Recording*>(int32_t instruction, int32_t depth)>;

// Instructions outside of which the loop is left.
struct Within {
  int32_t first = 0, last = INT32_MAX;
  bool leads = false;  // no loop, but what is done once, from the state to the next places, or to the function's end; where it is left at its first exit, nothing was done
  bool has(int32_t instruction) const { return instruction >= first && instruction <= last; }
};

// What results may differ in: exact: elementary functions aren't ours; fast: sums and products may be computed in another order.
struct Numerics {
  bool exact = false, fast = false;
};

// may_share: arrays may share memory, else those in variables that stay as they are, and in sources, don't (Region::stored). names: that states have slots for. objects: in slots of the state, by their numbers; null where it may be another one at each entry. items: of the objects, as type_of_items() has it. Nothing is changed. The result has no
// entries, and obstacles, where no loop is reached from the state; or, where it is to lead, where nothing native does.
Region make_region(const bytecode::Code& code, const State& from, const Names& names, const std::vector<Ref>& objects, const std::vector<Type>& items, const Recordings& recordings, Numerics numerics, bool may_share, Within within = {});

}  // namespace evalframe::regions
