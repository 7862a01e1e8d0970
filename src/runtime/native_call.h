// Calls that are native to their return, from their first instruction on, or from behind the graph that they begin with: what leads to a loop, the
// loop, and what leads from there to the return, one behind the other in the same words. No frame is made of a call that returns so; one that leaves
// on the way has its frame made there.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "core/few.h"
#include "runtime/loop_region.h"

namespace evalframe::runtime {

class NativeCall : public Holdable {
 public:
  // The function's code, and what is done from where it begins: a region that leads.
  NativeCall(const bytecode::Code& code, Held<LoopRegion> start);

  // How a call ended.
  struct Left {
    bool entered = false;  // else nothing was done: it isn't for these arguments
    bool failed = false;   // an exception is set
    bool steps = false;    // the chain has a frame, and the interpreter has to run its next instruction
    Ref result;            // null, and not failed: the chain has a frame
    int64_t turns = 0;
  };
  // Where it begins, and with how many slots.
  int32_t instruction() const { return from().instruction; }
  size_t count() const { return from().types.size(); }
  // The chain is empty; the caller holds what is in the slots.
  Left run(PyThreadState* thread, Borrowed function, PyObject* const* slots, Chain& chain);

  // Where calls have left a few times though more may be native from there on; asked for once. Pieces are regions, by the order in which they came.
  struct End {
    size_t piece, exit;
  };
  std::optional<End> take_end();
  const regions::Region& region_of(End end) const { return pieces_[end.piece].region->region(); }
  const regions::State& state_at(End end) const { return region_of(end).exits[end.exit].state; }
  void ask_again(End end) { pieces_[end.piece].links[end.exit].taken = 0; }
  // The entry of a loop that can be gone on with there.
  std::optional<int> entry_of(End end, const LoopRegion& loop) const;
  void link(End end, LoopRegion* loop, int entry);
  // Goes on there with a lead, if it is for that state; with one that is part of it already. False: it isn't.
  bool link(End end, Held<LoopRegion> lead);
  bool link_to_known(End end);

  int traverse(visitproc visit, void* arg) const;

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  // What is behind an exit.
  struct Link {
    size_t piece = kNowhere;
    int entry = 0;
    uint32_t taken = 0;
  };
  struct Piece {
    Held<LoopRegion> owned;  // a lead; loops are the capture's, which lets go of this call when it lets go of one of them
    LoopRegion* region;
    std::vector<Link> links;  // by exit
  };
  using Bound = Few<PyObject*, 8>;  // a region's objects, by number
  struct Run;
  const regions::State& from() const { return pieces_[0].region->region().entries[0]; }
  bool bind_slots(PyObject* const* slots, Bound& bound) const;
  bool bind_next(const Piece& piece, const Piece& next, const Bound& before, Bound& bound) const;
  static bool has_done_nothing(const Piece& piece, int entry, const regions::Exit& exit, int64_t turns);
  bool go(Run& run, size_t number, int entry, const Bound& bound, int depth);
  bool go_behind(Run& run, Piece& piece, const regions::Exit& exit, const Bound& bound, int depth);
  void count_end(const Piece& piece, const regions::Exit& exit, Link& link);
  static Ref boxed(Run& run, const regions::Exit& exit, size_t slot, const Bound& bound);
  Ref result_of(Run& run, const regions::Exit& exit, const Bound& bound) const;
  bool make_frame(Run& run, const regions::Exit& exit, const Bound& bound) const;
  size_t add(LoopRegion* region, Held<LoopRegion> owned);

  const bytecode::Code& code_;
  std::deque<Piece> pieces_;
  std::optional<End> end_;
  const size_t variables_, most_slots_;
};

}  // namespace evalframe::runtime
