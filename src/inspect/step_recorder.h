// Records a run of the evaluator: before each instruction of the frames that are wanted, what their slots hold that has changed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <unordered_map>

#include "evaluator/observer.h"
#include "inspect/trace.h"
#include "inspect/value_text.h"

namespace evalframe::inspect {

struct Limits {
  uint64_t steps;
  uint64_t bytes;
};

class StepRecorder final : public evaluator::Observer {
 public:
  // `wants` is asked once for each code object. own_reprs: values are asked for their repr, which runs the program's code.
  StepRecorder(std::function<bool(Borrowed code)> wants, Limits limits, bool own_reprs);
  ~StepRecorder() override;
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  const Trace& trace() const { return trace_; }
  void begins(const evaluator::Activation& activation, bool throwing) override;
  void steps(const evaluator::Activation& activation, bool caught) override;
  void ends(const evaluator::Activation& activation, evaluator::Event event, PyObject* result) override;
  void begins_captured(const bytecode::Code& code, std::span<PyObject* const> slots, const std::string& by) override;
  void ends_captured(PyObject* result) override;

 private:
  // What a step says besides what has changed: nothing, the rest again, or all as it is at a frame's beginning.
  enum class Says : uint8_t { kChanges, kAll, kBeginning };
  // What a place held when it was looked at last. `object` is only compared, it may be gone.
  struct Seen {
    PyObject* object = nullptr;
    uint64_t mark = 0;
    uint32_t text = 0;
    bool tells = true;
    bool is_there = false;
  };
  struct CodeInfo {
    Ref code;
    bool wanted;
    uint32_t number;
    std::vector<int32_t> names;  // of a module's or class's namespace that the code uses, as indices into co_names
  };
  struct FrameState {
    uint32_t number;
    uint32_t previous = Step::kNone;
    uint32_t since_full = 0;
    int depth = 0;
    bool moved_only = false;  // the last instruction ran nothing and changed no object
    std::vector<Seen> slots, names;
  };
  struct Running {
    CodeInfo* code;
    std::unique_ptr<FrameState> state;  // null: not recorded
    uint32_t node;
    bool begins_full;
  };

  CodeInfo& info_of(const bytecode::Code& code);
  void add_node(Running& running);
  std::unique_ptr<FrameState> new_state(size_t names);
  void look_at_slots(std::span<PyObject* const> slots, FrameState& state, Says says);
  uint32_t note_of_end(evaluator::Event event, PyObject* result);
  void look_at_names(const evaluator::Activation& activation, const CodeInfo& code, FrameState& state, Says says);
  void look_at(Seen& seen, PyObject* object, uint32_t place, bool moved_only, Says says);
  void look_again(Seen& seen, PyObject* object, bool same);
  // What was seen of this container since anything could change, or null.
  const Seen* seen_lately(const PyObject* object) const;
  void keep_seen(const Seen& seen);
  uint32_t text_of(PyObject* object, const Mark& mark);
  uint32_t add_step(Running& running, uint32_t instruction, uint32_t depth, StepKind kind, uint32_t note, bool full);
  void stop_at_limit();

  std::function<bool(Borrowed)> wants_;
  Limits limits_;
  bool own_reprs_;
  Trace trace_;
  std::unordered_map<PyObject*, CodeInfo> codes_;
  std::vector<Running> running_;
  std::vector<std::unique_ptr<FrameState>> spare_;  // of frames that have ended, to be used again
  std::unordered_map<cpython::Frame*, std::unique_ptr<FrameState>> suspended_;  // generators' frames
  uint32_t frames_ = 0;
  // Texts of values by type and mark: most are moved about more often than they are made.
  struct Known {
    PyTypeObject* type = nullptr;
    uint64_t mark = 0;
    uint32_t text = 0;
  };
  static constexpr size_t kKnown = 4096;
  std::vector<Known> known_;
  // Containers are moved about, too, and their marks take longest: what was seen of the last of them holds while steps only move.
  struct Lately {
    uint64_t era = 0;
    Seen seen;
  };
  static constexpr size_t kLately = 16;
  std::array<Lately, kLately> lately_;
  uint64_t era_ = 1;  // counts what could have changed objects
};

// While one lives, this thread's frames are recorded, those that begin. False: another is at it.
class Recording {
 public:
  explicit Recording(StepRecorder& recorder);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  bool is_on() const { return is_on_; }

 private:
  bool is_on_, evaluates_all_ = false;
};

}  // namespace evalframe::inspect
