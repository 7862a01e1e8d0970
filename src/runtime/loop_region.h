// Loops that run as native code (regions/region.h): entering and leaving them, and when that is tried.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "backends/native/machine/machine.h"
#include "backends/native/run/arena.h"
#include "guards/program.h"
#include "regions/region.h"
#include "runtime/chain.h"

namespace evalframe::runtime {

// Seconds that compiling a line of a region's IR takes, quickly and in full; and the part of what it takes that a loop has to run first: one that is
// left soon isn't worth it, and one that has run for so long is likely to go on.
inline constexpr double kQuickSecondsOfLine = 1.2e-5, kSecondsOfLine = 1e-4, kPartOfCompiling = 0.25;
// The same of optimising, which takes a second where loops are large: nobody notices an eighth of some milliseconds, but half of a second has to be worth it.
inline double part_of_optimising(double seconds) { return std::clamp(seconds / 2, 0.125, 0.5); }

class LoopRegion : public Holdable {
 public:
  // Compiles it, quickly, which throws std::runtime_error.
  LoopRegion(regions::Region region, const bytecode::Code& code);
  const regions::Region& region() const { return region_; }
  const bytecode::Code& code() const { return code_; }

  // How a run of it ended.
  struct Left {
    bool entered = false;  // else nothing was done: it isn't for this state
    bool failed = false;   // no memory: an exception is set
    bool steps = false;    // the interpreter has to run the next instruction
    bool stays = false;    // nothing was done in it: something was in the way at once
    int64_t turns = 0;
  };
  // Whether it has run long enough for its code to be worth more.
  bool is_to_be_optimised() const;
  // Compiles it in full. It goes on as it is meanwhile, and if that fails.
  void optimise();
  bool is_optimised() const { return effort_ == native::Effort::kFull; }
  bool is_final() const { return is_final_; }
  // Kernels that it calls are made quickly, and with more effort once they have taken as much longer as that takes, if all of its time is theirs.
  bool has_kernels_in_full() const { return routines_.effort() == native::Effort::kFull; }
  void improve_kernels(native::Effort effort);

  // The chain's only frame stands at the instruction.
  Left run(PyThreadState* thread, Chain& chain, int32_t instruction);

  // The parts of a run, for what is put together of regions. Whether it may be entered at all:
  bool may_run(PyThreadState* thread) const;
  // Whether the guards hold for these objects, by their numbers.
  bool guards_hold(PyObject* const* bound, guards::Objects& objects) const;
  // Runs its code from an entry whose words are there to an exit, whose words are there then. What calls make is held until held_count() is given
  // back; memory of new arrays is the scope's. Null: what the guards reach is of other types, and nothing was done.
  const regions::Exit* execute(PyThreadState* thread, native::Arena::Scope& scope, int64_t* words, const guards::Objects& objects, PyObject* const* bound, int entry, int64_t& turns);
  size_t held_count() const { return routines_.held.objects.size(); }
  void release(size_t held_before) { routines_.held.release(held_before); }
  // What was asked for in vain. False: it can't be made, and the region isn't entered any more.
  void make_missing();

  double compile_seconds = 0;
  int32_t instruction = 0;  // where the loop stood when it was made
  uint64_t recordings = 0;  // of the capture, when it was made
  uint64_t entered = 0, turns = 0;
  bool met_shared_memory = false;  // it would have been entered, were it for arrays that share memory
  bool met_other_strides = false;  // it would have been entered, had its arrays been of any strides
  int64_t unseen = 1;  // turns until conditions are looked at: of the last run

  // For tests: it is left after as many turns.
  static int64_t most_turns;

 private:
  int find_entry(const std::vector<PyObject*>& slots, int32_t instruction);
  // What a run begins with. It is left by values: dropping an object can run any code, this loop's, too.
  using Words = std::vector<int64_t>;
  bool bind(const std::vector<PyObject*>& slots, const regions::State& entry);
  // Whether arrays do that the code takes to stand apart. words: of the entry's slots.
  bool shares_memory(const int64_t* words, const int64_t* sources, const regions::State& entry, native::Arena::Scope& scope) const;
  bool read_sources(const guards::Objects& objects, int64_t* sources) const;
  bool leave(Chain& chain, const std::vector<PyObject*>& slots, const regions::State& from, const regions::Exit& exit, const Words& before,
             const Words& words, const std::vector<PyObject*>& bound) const;

  const regions::Region region_;
  const guards::Program guards_;
  regions::LoadedRoutines routines_;
  bool is_broken_ = false;  // a routine couldn't be made
  const bytecode::Code& code_;
  const regions::Variables variables_;
  native::Effort effort_ = native::Effort::kQuick;
  bool is_final_ = false;  // its code: it is optimised, that is being done, or can't be done
  regions::Function function_ = nullptr;
  double seconds_ = 0;  // that it has run in its own code, at most
  double seconds_with_kernels_ = 0;  // that it has run since their least effort changed, its own code included
  const int64_t lines_, lines_of_block_;
  size_t most_slots_ = 0;
  bool is_for_one_thread_ = false;  // while others run, they may see or change what it has in registers
  // Of one entry, until the code has run.
  std::vector<PyObject*> bound_;
  std::vector<regions::Type> types_;
};

// Where a loop stands: as a state of its region, and its objects.
regions::State state_of(const Chain& chain, int32_t instruction, const regions::Names& names, std::vector<Ref>& objects, std::vector<regions::Type>& items);

// Whether a loop has taken long enough for native code to be made of it: at least as long as that takes.
class RegionTrial {
 public:
  // The chain is at the place, in this run.
  bool is_due(const void* run);
  // Whether the loop has taken as long; if not, it is due when it has.
  bool has_taken(double seconds);
  // It is tried, and again when the loop has taken as long again.
  void begin();
  // There was native code, and it was of no use, or couldn't be made.
  void was_fruitless() { fruitless_++; }
  bool is_fruitless() const { return fruitless_ >= kMostTries; }
  // Whether something may come of it, as far as is known: asked once before each try.
  std::optional<bool> hope;

  // Compiling, as long as one lives, isn't the time of any loop.
  class Pause;
  // Seconds that a loop has to take first.
  static double least_seconds;
  // For tests: nothing is waited for.
  static bool at_once() { return least_seconds == 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration paused;  // by all that there was
  uint64_t arrivals_ = 0, next_ = 1;
  const void* run_ = nullptr;
  Clock::time_point last_;
  double seconds_ = 0, wait_ = 0;
  static constexpr int kMostTries = 3;
  int fruitless_ = 0;
};

class RegionTrial::Pause {
 public:
  Pause() = default;
  ~Pause() { paused += Clock::now() - begin_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace evalframe::runtime
