// Variables of a loop that aren't its frame's own: names of a module, or globals of a function, that it stores into, and attributes of objects
// that the frame's variables hold. In the states of a loop they are slots between the frame's variables and its stack; the dict, or the object,
// has them again where the loop is left.
#pragma once

#include <optional>

#include "bytecode/instruction.h"
#include "recorder/recording.h"

namespace evalframe::regions {

struct Names {
  static constexpr size_t kDict = SIZE_MAX;
  struct One {
    Ref name;              // interned
    size_t owner = kDict;  // the frame's variable with the object whose attribute it is
  };
  Ref dict;  // of those that are no attributes
  std::vector<One> all;

  Names copy() const;
  size_t count() const { return all.size(); }
  std::optional<size_t> find(Borrowed dict, Borrowed name) const;
  std::optional<size_t> find_attribute(size_t owner, Borrowed name) const;
  bool has_attribute(Borrowed name) const;  // of any owner
  // Borrowed; null: it isn't bound. variables: the frame's.
  PyObject* value(size_t name, PyObject* const* variables) const;
  // False with an exception.
  bool store(size_t name, PyObject* const* variables, Borrowed value) const;
  // Whether nobody else sees the owners' attributes, by their dicts.
  bool are_alone(PyObject* const* variables) const;
  int traverse(visitproc visit, void* arg) const;
};

// First and last instruction of the outermost loop around the instruction.
std::pair<int32_t, int32_t> outermost_loop(const bytecode::Code& code, int32_t instruction);
// Names that this loop stores into. globals: the frame's.
Names names_of(const bytecode::Code& code, int32_t instruction, Borrowed globals);
// And attributes that the recording, of a part of the loop, stores into.
void add_attributes(Names& names, const recorder::Recording& recording, const bytecode::Code& code, PyObject* const* variables);

// Slots of a loop's states, and what recordings have in them.
class Variables {
 public:
  // Both outlive it.
  Variables(const bytecode::Code& code, const Names& names) : names_(names), own_(static_cast<size_t>(code.code.as<PyCodeObject>()->co_nlocalsplus)) {}
  size_t own() const { return own_; }  // the frame's
  size_t count() const { return own_ + names_.count(); }  // behind them stands the stack
  bool is_name(size_t slot) const { return slot >= own_ && slot < count(); }
  // What the recording takes for something else than the attributes of the loop may be one of them. Null: nothing.
  const char* mistakes(const recorder::Recording& recording) const;
  // Slots of the frame that a state with as many has.
  size_t depth_of(size_t slots) const { return slots - names_.count(); }

  // The slot that the source reads.
  std::optional<size_t> slot_of(const recorder::Recording& recording, int32_t source) const;
  // A name that has what it had at the start.
  static constexpr uint32_t kKept = UINT32_MAX;
  // Values by slot: at the start, and before the node, where an array that was changed in place is what there was at the start. Throws std::runtime_error where something else is stored into, but for the ends of lists.
  std::vector<uint32_t> initial(const recorder::Recording& recording) const;
  std::vector<uint32_t> values_at(const recorder::Recording& recording, int32_t node) const;

 private:
  bool is_changed_in_place(const recorder::Recording& recording, size_t slot, uint32_t value) const;
  std::vector<uint32_t> with_names(const std::vector<uint32_t>& slots) const;
  const Names& names_;
  const size_t own_;
};

// What lists have got at their ends before the node, in order.
std::vector<recorder::PendingStore> appended_at(const recorder::Recording& recording, int32_t node);

}  // namespace evalframe::regions
