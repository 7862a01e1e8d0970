// A code object as canonical instructions: what cpython/ decodes into and encodes from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ref.h"

namespace evalframe::bytecode {

enum class Op : uint8_t {
#define EVALFRAME_INSTRUCTION(name, argument, flow) name,
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
  kCount,
};

enum class Argument : uint8_t { none, count, constant, name, local, jump, flags, oparg };
enum class Flow : uint8_t { next, jump, branch, stop };

const char* name(Op op);
Argument argument_kind(Op op);
Flow flow(Op op);
std::optional<Op> op_named(std::string_view name);

// Where in the source an instruction comes from; -1 = unknown. Lines from 1, columns in UTF-8 bytes from 0.
struct Position {
  int32_t line = -1, end_line = -1, column = -1, end_column = -1;
  bool operator==(const Position&) const = default;
};

struct Instruction {
  static constexpr uint8_t kFusedWithNext = 1;  // the first half of a fused pair (3.13): no boundary lies behind it

  Op op = Op::NOP;
  uint8_t flags = 0;
  mutable uint8_t label = 0;  // the evaluator's, as Note is: where it sends the instruction
  int32_t arg = 0;
  int32_t arg2 = -1;
  int32_t target = -1;  // index of the instruction jumped to
  int32_t offset = -1;  // first code unit (2 bytes each) in the original, EXTENDED_ARG, KW_NAMES and PRECALL included; -1: not from a code object
  int32_t end = -1;     // code unit behind it, caches included: where the next one starts
};

// A row of the exception table, by instruction index: [start, end) is handled at `target` with `depth` stack entries kept.
struct ExceptionRegion {
  int32_t start, end, target;
  int32_t depth;
  bool push_lasti;
};

// What the evaluator has found at an instruction, for the next time it gets there: its own inline cache. Holds no references.
struct Note {
  uint64_t first = 0, second = 0;  // the versions under which `value` is true
  PyObject* value = nullptr;
};

// A decoded code object. Immutable once made, but for its notes.
struct Code {
  Borrowed code;   // the PyCodeObject it was decoded from
  Ref keep_alive;  // owns `code`; null in the form that is kept with the code object, which would never be freed otherwise
  std::vector<Instruction> instructions;
  std::vector<Position> positions;        // one for each instruction
  std::vector<ExceptionRegion> regions;   // in the order of the table; sorted by start, no overlap
  // Positions of folded KW_NAMES that differ from those of their CALL (3.11), by instruction index, ascending.
  std::vector<std::pair<int32_t, Position>> keyword_positions;
  std::vector<int32_t> index_of_unit;     // code unit -> instruction that covers it (for f_lasti), size = number of units
  mutable std::unique_ptr<Note[]> notes;  // one for each instruction; null before the evaluator runs the code first

  // The handler of the instruction at `index`, or null.
  const ExceptionRegion* handler(int32_t index) const;
};

}  // namespace evalframe::bytecode
