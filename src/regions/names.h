// Variables of a loop that aren't its frame's own: names of a module, or globals of a function, that it stores into. In the states of a
// loop they are slots between the frame's variables and its stack; the dict has them again where the loop is left.
#pragma once

#include <optional>

#include "bytecode/instruction.h"
#include "recorder/recording.h"

namespace evalframe::regions {

struct Names {
  Ref dict;
  std::vector<Ref> names;

  size_t count() const { return names.size(); }
  std::optional<size_t> find(Borrowed dict, Borrowed name) const;
  // Borrowed; null: it isn't bound.
  PyObject* value(size_t name) const;
  int traverse(visitproc visit, void* arg) const;
};

// Those of the outermost loop around the instruction. globals: the frame's.
Names names_of(const bytecode::Code& code, int32_t instruction, Borrowed globals);

// Slots of a loop's states, and what recordings have in them.
class Variables {
 public:
  // Both outlive it.
  Variables(const bytecode::Code& code, const Names& names) : names_(names), own_(static_cast<size_t>(code.code.as<PyCodeObject>()->co_nlocalsplus)) {}
  size_t own() const { return own_; }  // the frame's
  size_t count() const { return own_ + names_.count(); }  // behind them stands the stack
  bool is_name(size_t slot) const { return slot >= own_ && slot < count(); }
  // Slots of the frame that a state with as many has.
  size_t depth_of(size_t slots) const { return slots - names_.count(); }

  // The slot that the source reads.
  std::optional<size_t> slot_of(const recorder::Recording& recording, int32_t source) const;
  // A name that has what it had at the start.
  static constexpr uint32_t kKept = UINT32_MAX;
  // Values by slot: at the start, and before the node. Throws std::runtime_error where something else is stored into.
  std::vector<uint32_t> initial(const recorder::Recording& recording) const;
  std::vector<uint32_t> values_at(const recorder::Recording& recording, int32_t node) const;

 private:
  std::vector<uint32_t> with_names(const std::vector<uint32_t>& slots) const;
  const Names& names_;
  const size_t own_;
};

}  // namespace evalframe::regions
