// The making of transformed code: one class, with a file for each part of the code that it makes.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "bytecode/stack.h"
#include "codegen/builder.h"
#include "codegen/limits.h"
#include "codegen/transform.h"
#include "core/check.h"
#include "cpython/layout.h"
#include "cpython/variables.h"

namespace evalframe::codegen {

using bytecode::Code;
using bytecode::ExceptionRegion;
using bytecode::Flow;
using bytecode::Instruction;
using bytecode::Op;
using recorder::FrameState;
using recorder::Recording;
using recorder::Value;
namespace layout = cpython::layout;

inline bool is_cell(const Code& code, int slot) {
  return cpython::variable_kind(code.code, slot) & (cpython::kCellVariable | cpython::kFreeVariable);
}

inline std::vector<bool> bound_slots(const Code& code, const std::vector<uint32_t>& slots) {
  std::vector<bool> bound;
  for (int i = 0; i < cpython::variable_count(code.code); i++) bound.push_back(slots[i] != 0 || is_cell(code, i));
  return bound;
}

inline std::vector<bool> stack_entries(const Code& code, const std::vector<uint32_t>& slots) {
  std::vector<bool> stack;
  for (size_t i = cpython::variable_count(code.code); i < slots.size(); i++) stack.push_back(slots[i] != 0);
  return stack;
}

// An exception is set.
struct PythonRaised {};

// An entry of the operand stack where code is made: whether the frame at that place has an object in it, and whether it
// is really on the stack (an empty place behind the breaking instruction is only added by the resume function).
struct Entry {
  bool object, pushed;
};

// Where an object stands while code runs.
struct Home {
  int32_t slot = -1;
  int32_t uses = 0;  // still to come; a variable of ours is emptied by the last
};

class Transform {
 public:
  Transform(const Recording& recording, const Callables& callables, ResumeFunctions& resumes)
      : recording_(recording), callables_(callables), resumes_(resumes), end_(static_cast<int32_t>(recording.graph.nodes.size())) {}

  Transformed make();

 private:
  const Code& code() const { return *recording_.start[0].code; }
  int32_t locals() const { return cpython::variable_count(code().code); }

  void choose_base();
  void write();
  void write_start();

  // values, and where they are: transform_values.cpp
  const Value& value(uint32_t index) const { return recording_.values[index]; }

  std::span<const uint32_t> elements(const Value& of) const;
  uint32_t stand_in(uint32_t index) const;
  void use(uint32_t index);

  bool is_changed(int32_t slot) const { return states_[0].slots[slot] != recording_.initial[0][slot]; }

  std::vector<uint32_t> wanted() const;
  void count_uses();
  enum class Visit : uint8_t { kNone, kBegun, kDone };
  bool visit(uint32_t index, std::vector<Visit>& seen);
  bool visit_parts(uint32_t index, std::vector<Visit>& seen);
  bool is_simple(const guards::Source& source) const;
  void load_sources();
  void load_slot(int32_t slot);
  void read_source(int32_t index);
  static Borrowed identity_of(const guards::Source& source);
  void read_cell(PyObject* cell);
  void load(uint32_t index);

  // Not a variable of the original.
  bool is_own(int32_t slot) const { return std::find(slot_of_.begin(), slot_of_.end(), slot) == slot_of_.end(); }

  void load_fresh(const Value& of);
  void build(const Value& of, Op op, int32_t at_a_time = 1);
  void build_truth(const Value& of);
  void build_iterator(const Value& of);
  void rebuild();
  void make_shared_containers();
  void share(uint32_t index);
  void share_if_used_often(uint32_t index);
  bool changes_dicts() const;
  void store_names();
  void store_one(const recorder::Name& name, uint32_t stored);

  // the graph: transform_graph.cpp
  void call_graph();
  bool is_wanted(graph::Operand operand) const;
  int32_t home_of_output(graph::Operand operand);
  int32_t variable_for(uint32_t index);
  void write_leave(int32_t from, int32_t to);

  // the break: transform_break.cpp
  void break_here();
  void refuse_new_cells(const FrameState& state) const;
  void break_at_start(const std::vector<bool>& bound);
  void store_variables(const FrameState& state);
  void run_instruction(int32_t index, std::vector<bool> bound, std::vector<Entry> stack);
  void write_branch(const Instruction& original, int32_t at, const std::vector<bool>& bound, std::vector<Entry> stack);
  int32_t emit_breaking(Instruction instruction);
  static void change_stack(const Instruction& original, std::vector<Entry>& stack, bool jumps);
  static void change_bound(const Instruction& original, std::vector<bool>& bound);
  ResumePlace place(int32_t next, const std::vector<bool>& bound, const std::vector<Entry>& stack) const;

  // Handlers of the frame's own, for the instruction that was run here.
  struct HandlerOf {
    int32_t instruction;
    const ExceptionRegion* region;
    std::vector<bool> bound;
    std::vector<Entry> stack;
  };

  void write_handlers();
  void resume(ResumePlace where, const std::vector<Entry>& stack, int32_t lasti = -1);
  const ResumeFunction* find(Borrowed function, ResumePlace where);
  void store_cells();
  bool has_new_cells(size_t frame) const;
  void load_cell_of(size_t frame, int32_t slot);
  void load_callable(const ResumeFunction& target, size_t frame = 0);

  // a break in a call that was followed: transform_callee.cpp
  void break_in_callee();
  bool keeps_instance(const FrameState& state) const;
  void load_state(size_t frame, int32_t slot);
  void load_callee(size_t frame);
  int32_t load_arguments(size_t frame);

  const Recording& recording_;
  const Callables& callables_;
  ResumeFunctions& resumes_;
  const int32_t end_;
  Transformed result_;
  Ref base_;
  bool at_start_ = false;
  const Resume* resumed_ = nullptr;  // whose frames run the code; null: the function's own
  std::vector<int32_t> slot_of_;  // of each slot of the original frame at the start: its slot in the base
  std::vector<bool> given_;       // which of them hold something when the code starts
  Builder* b_ = nullptr;
  graph::ExitPoint exit_;
  std::vector<FrameState> states_;
  std::vector<Home> homes_;       // of each value
  std::vector<uint32_t> rebuilt_;       // values that one call makes, where instructions can't make all of them
  std::vector<uint32_t> rebuilt_from_;  // values of the sources that they are made of
  int32_t outputs_ = -1;          // variable that holds the graph's outputs for that
  std::vector<int32_t> stored_;   // variables that got their new value from the graph
  std::vector<HandlerOf> handlers_;
  int32_t call_end_ = 0;
  int32_t made_ = 0;
};

}  // namespace evalframe::codegen
