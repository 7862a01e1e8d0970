// Running a compiled graph where no frame of the captured function exists, and making the frames where it is left.
#pragma once

#include <span>

#include "backends/executable.h"
#include "recorder/recording.h"
#include "runtime/chain.h"
#include "runtime/place_frames.h"

namespace evalframe::runtime {

// Tells the thread which line runs while a graph is run: in the frames where the chain has them already, whose places the exit sets
// anew, and else in frames that are made when the first call needs them, without values in their slots.
class ReplayPosition final : public backends::Position {
 public:
  // chain: at the recording's start, or null or empty. They both outlive it, and so does `known`.
  ReplayPosition(PyThreadState* thread, const recorder::Recording& recording, PlaceFrames& known, const Chain* chain = nullptr)
      : thread_(thread), recording_(recording), known_(known), chain_(chain) {}
  ~ReplayPosition() override { leave(); }
  void at(int32_t node) override { stand_in(recording_.graph.nodes[node].origin); }
  void in(graph::Origin place) override;

 private:
  struct LiveFrame {
    int32_t graph_frame;
    const bytecode::Code* code;
    cpython::Frame* frame;
    bool made;  // here
    cpython::Link link;
  };
  void stand_in(graph::Origin place);
  void learn(graph::Origin place);
  void leave();
  bool enter(int32_t graph_frame);
  bool push(int32_t graph_frame);
  void set_line(LiveFrame& live, int32_t instruction);
  void pop_to(size_t count);

  PyThreadState* thread_;
  const recorder::Recording& recording_;
  PlaceFrames& known_;
  const Chain* const chain_;
  Few<LiveFrame, 8> live_;  // outermost first
  const cpython::FrameRow* row_ = nullptr;  // in the place of these
  cpython::Frame* outermost_ = nullptr;     // of the row
};

// Stores into names that were put off until this exit. False with an exception (memory).
bool store_names(const recorder::Recording& recording, const recorder::Landing& landing, recorder::Rebuild& rebuild);

// Advances the iterator of a loop whose turns were recorded to where it is at this exit.
void advance_iterator(const recorder::Recording& recording, int32_t node, PyObject* const* sources);

// The result of a graph that ran to its end; most are one object that is there already. Null with an exception.
Ref make_result(const recorder::Recording& recording, int32_t end, std::span<const Ref> values, PyObject* const* sources);

// What a slot gets at the exit, borrowed; null: nothing, or its source has no object.
PyObject* moved(const recorder::Landing::Move& move, const recorder::Recording& recording, std::span<const Ref> values, PyObject* const* sources);

// Brings the chain to the exit before `node`, made of the exit's values and the objects of the guards' sources: frames that
// are still there get the values that changed, others are dropped or made. A slot whose source has no object stays empty.
// False with an exception, or without one where memory ran out.
bool take_exit(Chain& chain, const recorder::Recording& recording, int32_t node, std::span<const Ref> values,
               PyObject* const* sources);

}  // namespace evalframe::runtime
