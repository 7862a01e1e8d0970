#include "cpython/tables.h"

#include "cpython/layout.h"

namespace evalframe::cpython {
namespace {

using bytecode::Position;

// The kinds of location entries (Objects/locations.md in CPython's sources).
enum : int { kOneLine0 = 10, kNoColumns = 13, kLong = 14, kNone = 15 };
constexpr int kUnitsInEntry = 8;

// Reads bytes of a table; past its end it gives zeros and remembers that.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  bool failed() const { return failed_; }
  int byte() {
    if (done()) return failed_ = true, 0;
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  // Six bits a byte, the lowest first; bit 6 says that more follow.
  unsigned varint() {
    int next = byte();
    unsigned value = next & 63;
    for (unsigned shift = 6; (next & 64) && shift < 32; shift += 6) {
      next = byte();
      value |= static_cast<unsigned>(next & 63) << shift;
    }
    return value;
  }
  int signed_varint() {
    const unsigned value = varint();
    return value & 1 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
  }
  // The same with the highest six bits first, as the exception table has it.
  int32_t big_endian_varint() {
    int next = byte();
    uint32_t value = next & 63;
    while ((next & 64) && !failed_) {
      next = byte();
      value = (value << 6) | (next & 63);
    }
    return static_cast<int32_t>(value);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

// As CPython adds: what a hostile code object says of its lines may leave the range.
int moved(int line, int by) { return static_cast<int>(static_cast<uint32_t>(line) + static_cast<uint32_t>(by)); }

// The position that an entry of kind `code` has; `line` is the running line.
Position read_position(Reader& reader, int code, int& line) {
  if (code == kNone) return {};
  if (code == kLong) {
    line = moved(line, reader.signed_varint());
    const int end_line = moved(line, static_cast<int>(reader.varint()));
    const int column = static_cast<int>(reader.varint()) - 1;
    const int end_column = static_cast<int>(reader.varint()) - 1;
    return {line, end_line, column, end_column};
  }
  if (code == kNoColumns) {
    line = moved(line, reader.signed_varint());
    return {line, line, -1, -1};
  }
  if (code >= kOneLine0) {
    line = moved(line, code - kOneLine0);
    const int column = reader.byte();
    return {line, line, column, reader.byte()};
  }
  const int second = reader.byte();
  const int column = (code << 3) | (second >> 4);
  return {line, line, column, column + (second & 15)};
}

void write_big_endian_varint(std::string& table, uint32_t value, int first_bit) {
  int shift = 0;
  while (shift < 30 && (value >> (shift + 6)) != 0) shift += 6;
  for (; shift >= 0; shift -= 6) {
    const int more = shift > 0 ? 64 : 0;
    table.push_back(static_cast<char>(((value >> shift) & 63) | more | first_bit));
    first_bit = 0;
  }
}

}  // namespace

std::optional<std::vector<Position>> read_positions(std::string_view table, int first_line, size_t units) {
  std::vector<Position> positions;
  positions.reserve(units);
  Reader reader(table);
  int line = first_line;
  while (!reader.done() && positions.size() < units) {
    const int first = reader.byte();
    const Position position = read_position(reader, (first >> 3) & 15, line);
    positions.insert(positions.end(), (first & 7) + 1, position);
  }
  if (reader.failed()) return std::nullopt;
  positions.resize(units);
  return positions;
}

void PositionWriter::add(const Position& position, int units) {
  // Up to 3.11 each instruction has entries of its own; later ones join those of the same position.
  const bool joins = !layout::k311 && position == pending_;
  if (!joins) flush();
  pending_ = position;
  pending_units_ += units;
}

std::string PositionWriter::finish() {
  flush();
  return std::move(table_);
}

void PositionWriter::flush() {
  for (; pending_units_ > kUnitsInEntry; pending_units_ -= kUnitsInEntry) entry(pending_, kUnitsInEntry);
  if (pending_units_ > 0) entry(pending_, pending_units_);
  pending_units_ = 0;
}

void PositionWriter::entry(const Position& at, int units) {
  if (at.line < 0) return first_byte(kNone, units);
  const int delta = at.line - line_;
  line_ = at.line;
  const bool one_line = at.end_line == at.line;
  if (at.column < 0 || at.end_column < 0) {
    if (one_line || at.end_line == -1) {
      first_byte(kNoColumns, units);
      return signed_varint(delta);
    }
  } else if (one_line) {
    const int width = at.end_column - at.column;
    if (delta == 0 && at.column < 80 && width >= 0 && width < 16) {
      first_byte(at.column >> 3, units);
      return byte(((at.column & 7) << 4) | width);
    }
    if (delta >= 0 && delta < 3 && at.column < 128 && at.end_column < 128) {
      first_byte(kOneLine0 + delta, units);
      byte(at.column);
      return byte(at.end_column);
    }
  }
  first_byte(kLong, units);
  signed_varint(delta);
  varint(static_cast<unsigned>(at.end_line < at.line ? 0 : at.end_line - at.line));
  varint(static_cast<unsigned>(at.column + 1));
  varint(static_cast<unsigned>(at.end_column + 1));
}

void PositionWriter::varint(unsigned value) {
  for (; value >= 64; value >>= 6) byte(64 | (value & 63));
  byte(static_cast<int>(value));
}

void PositionWriter::signed_varint(int value) {
  varint(value < 0 ? (static_cast<unsigned>(-value) << 1) | 1 : static_cast<unsigned>(value) << 1);
}

std::optional<std::vector<ExceptionRow>> read_exception_table(std::string_view table) {
  std::vector<ExceptionRow> rows;
  Reader reader(table);
  while (!reader.done()) {
    ExceptionRow row;
    row.start = reader.big_endian_varint();
    row.size = reader.big_endian_varint();
    row.target = reader.big_endian_varint();
    row.depth_and_lasti = reader.big_endian_varint();
    rows.push_back(row);
  }
  if (reader.failed()) return std::nullopt;
  return rows;
}

std::string write_exception_table(const std::vector<ExceptionRow>& rows) {
  constexpr int kRowStarts = 128;
  std::string table;
  for (const ExceptionRow& row : rows) {
    write_big_endian_varint(table, row.start, kRowStarts);
    write_big_endian_varint(table, row.size, 0);
    write_big_endian_varint(table, row.target, 0);
    write_big_endian_varint(table, row.depth_and_lasti, 0);
  }
  return table;
}

}  // namespace evalframe::cpython
