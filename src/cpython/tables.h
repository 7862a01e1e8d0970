// The two packed tables of a code object, location table (co_linetable) and exception table, to and from plain rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::cpython {

// The position of each of `units` code units. None for a table that ends in the middle of an entry.
std::optional<std::vector<bytecode::Position>> read_positions(std::string_view table, int first_line, size_t units);

// Writes location entries as the running version's compiler does.
class PositionWriter {
 public:
  explicit PositionWriter(int first_line) : line_(first_line) {}
  // The next instruction is `units` long.
  void add(const bytecode::Position& position, int units);
  std::string finish();

 private:
  void flush();
  void entry(const bytecode::Position& position, int units);
  void byte(int value) { table_.push_back(static_cast<char>(value)); }
  void first_byte(int code, int units) { byte(128 | (code << 3) | (units - 1)); }
  void varint(unsigned value);
  void signed_varint(int value);

  std::string table_;
  int line_;
  bytecode::Position pending_;
  int pending_units_ = 0;
};

// A row of the exception table in code units.
struct ExceptionRow {
  int32_t start, size, target, depth_and_lasti;
};
std::optional<std::vector<ExceptionRow>> read_exception_table(std::string_view table);
std::string write_exception_table(const std::vector<ExceptionRow>& rows);

}  // namespace evalframe::cpython
