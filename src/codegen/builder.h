// Puts a code object together: instructions with positions and handlers, constants, names, and new variables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::codegen {

// Makes code for a base, a code object that has the parameters, cells, free variables, name and flags already. Slots are
// those of the base; new variables get theirs when all are known.
class Builder {
 public:
  explicit Builder(Ref base);

  // What the next instructions get.
  void set_position(const bytecode::Position& position) { position_ = position; }

  int32_t next() const { return static_cast<int32_t>(code_.instructions.size()); }
  int32_t emit(bytecode::Op op, int32_t arg = 0, int32_t arg2 = -1);
  // An instruction of another code object, its local already a slot of this one.
  int32_t emit(bytecode::Instruction instruction);
  // A jump, whose target is set later.
  void set_target(int32_t instruction, int32_t target) { code_.instructions[instruction].target = target; }
  void add_region(const bytecode::ExceptionRegion& region) { code_.regions.push_back(region); }

  int32_t constant(Borrowed object);
  int32_t name(const char* text);
  int32_t name(Borrowed text);
  // A new local variable; `wanted` is made unlike all others.
  int32_t variable(const std::string& wanted);

  void load_constant(Borrowed object) { emit(bytecode::Op::LOAD_CONST, constant(object)); }
  void load(int32_t slot) { emit(bytecode::Op::LOAD_FAST, slot); }
  // Where the last instruction stores into the slot: takes it away again, so that the value stays on the stack.
  bool take_back_store(int32_t slot);
  void store(int32_t slot) { emit(bytecode::Op::STORE_FAST, slot); }
  // The cell in the slot.
  void load_cell(int32_t slot);
  // A call is begin_call(), the callable, end_callable(), the arguments, call().
  void begin_call();
  void end_callable();
  void call(int32_t arguments) { emit(bytecode::Op::CALL, arguments); }

  // The verified code object. Null with an exception: that of the verifier is a bug of ours (SystemError).
  Ref finish();

 private:
  Ref base_with_variables() const;
  int32_t final_slot(int32_t slot) const;

  Ref base_;
  bytecode::Code code_;
  bytecode::Position position_;
  std::vector<Ref> constants_, names_;
  std::vector<std::string> variables_;
  int32_t locals_;  // of the base
};

// code.replace(**changes), each given as name and new value; null with an exception.
Ref replaced(Borrowed code, std::vector<std::pair<const char*, Ref>> changes);
Ref text_object(const std::string& text);
// The names of a code object's variables.
std::vector<std::string> variable_names(Borrowed code);
std::string unlike(std::string wanted, const std::vector<std::string>& others);

}  // namespace evalframe::codegen
