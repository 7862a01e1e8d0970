// Canonical instructions to CPython's code objects, for every version: what differs is the table of opcodes.
#include <algorithm>
#include <string>

#include "core/check.h"
#include "cpython/codec.h"
#include "cpython/opcode_table.h"
#include "cpython/tables.h"

namespace evalframe::cpython {
namespace {

using bytecode::Code, bytecode::ExceptionRegion, bytecode::Instruction, bytecode::Position;

// Encodes instructions into the three tables of a code object.
class Encoder {
 public:
  explicit Encoder(const Code& code) : code_(code), instructions_(code.instructions) {}

  bool encode() {
    CHECK(code_.positions.size() == instructions_.size());
    find_entries();
    if (!choose_opcodes()) return false;
    lay_out();
    write_code();
    write_positions();
    write_regions();
    return true;
  }

  std::string bytes, line_table, exception_table;

 private:
  bool fail(size_t index, const char* what) {
    PyErr_Format(PyExc_ValueError, "can't encode instruction %zu (%s) of %R: %s", index,
                 bytecode::name(instructions_[index].op), code_.code.get(), what);
    return false;
  }

  int32_t count() const { return static_cast<int32_t>(instructions_.size()); }

  bool choose_opcodes() {
    opcodes_.resize(instructions_.size());
    for (int32_t i = 0; i < count(); ++i) {
      const Instruction& instruction = instructions_[i];
      if (i > 0 && opcodes_[i - 1] != nullptr && opcodes_[i - 1]->form == Form::pair) continue;  // its second half
      if (const Opcode* pair = fused(i)) {
        opcodes_[i] = pair;
        continue;
      }
      const bool is_jump = bytecode::argument_kind(instruction.op) == bytecode::Argument::jump;
      if (is_jump && (instruction.target < 0 || instruction.target >= count())) {
        return fail(i, "its jump target is not an instruction of this code");
      }
      const bool backward = is_jump && instruction.target <= i;
      opcodes_[i] = opcode_of(instruction.op, backward);
      if (opcodes_[i] == nullptr && is_jump && opcode_of(instruction.op, !backward) != nullptr) {
        return fail(i, backward ? "this Python version can jump only forwards with it; jump over a JUMP_BACKWARD"
                                : "it can jump only backwards; use JUMP_FORWARD");
      }
      if (opcodes_[i] == nullptr) return fail(i, "this Python version has no such instruction");
      if (instruction.arg < 0) return fail(i, "its argument is negative");
      const int bits = split_bits(opcodes_[i]->form);
      if (bits && instruction.arg2 >= 1 << bits) return fail(i, "its second argument (arg2) is out of range");
      if (instruction.arg > INT32_MAX >> std::max(bits, 1)) return fail(i, "its argument is too large");
      if (instruction.op == Op::CALL && instruction.arg2 >= 0 && !exists(kKeywordNames)) {
        return fail(i, "this Python version takes keyword names from the stack; use CALL_KW");
      }
    }
    return true;
  }

  // The opcode for instructions `i` and `i + 1` in one, or null where they must stay two.
  const Opcode* fused(int32_t i) const {
    const Instruction& first = instructions_[i];
    if (!(first.flags & Instruction::kFusedWithNext) || i + 1 >= count()) return nullptr;
    const Instruction& second = instructions_[i + 1];
    if (first.arg < 0 || first.arg > 15 || second.arg < 0 || second.arg > 15 || entered_[i + 1]) return nullptr;
    return pair_of(first.op, second.op);
  }

  // Marks where control, or the border of an exception region, comes from elsewhere than the instruction before.
  void find_entries() {
    entered_.assign(instructions_.size() + 1, false);
    for (const Instruction& each : instructions_) {
      if (each.target >= 0 && each.target < count()) entered_[each.target] = true;
    }
    for (const ExceptionRegion& region : code_.regions) {
      entered_[region.start] = entered_[region.end] = entered_[region.target] = true;
    }
  }

  // The argument as CPython has it. That of a jump depends on the layout so far.
  uint32_t real_argument(int32_t i) const {
    const Instruction& instruction = instructions_[i];
    const Opcode& opcode = *opcodes_[i];
    const uint32_t arg = static_cast<uint32_t>(instruction.arg);
    switch (opcode.form) {
      case Form::pair: return arg << 4 | static_cast<uint32_t>(instructions_[i + 1].arg);
      case Form::attribute: return arg << 1 | (instruction.op == Op::LOAD_METHOD);
      case Form::forward: return static_cast<uint32_t>(starts_[instruction.target] - starts_[i + 1]);
      case Form::backward: return static_cast<uint32_t>(starts_[i + 1] - starts_[instruction.target]);
      default: break;
    }
    const int bits = split_bits(opcode.form);
    return bits ? arg << bits | static_cast<uint32_t>(std::max(instruction.arg2, 0)) : arg;
  }

  static int32_t units_of(const Opcode& opcode, uint32_t arg) {
    return 1 + (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF) + opcode.caches;
  }

  int32_t keyword_units(int32_t i) const {
    const bool has_names = instructions_[i].op == Op::CALL && instructions_[i].arg2 >= 0;
    return has_names ? units_of(kKeywordNames, instructions_[i].arg2) : 0;
  }
  int32_t precall_units(int32_t i) const {
    return instructions_[i].op == Op::CALL && exists(kPrecall) ? units_of(kPrecall, instructions_[i].arg) : 0;
  }
  int32_t size_of(int32_t i) const {
    if (opcodes_[i] == nullptr) return 0;  // the second half of a pair
    return keyword_units(i) + precall_units(i) + units_of(*opcodes_[i], real_argument(i));
  }

  // Where each instruction starts. A jump may fit with and without an EXTENDED_ARG where that itself makes the distance
  // longer, and compilers took either; so the layout of the original stays where it fits, and else jumps grow until all do.
  void lay_out() {
    starts_ = original_starts();
    if (starts_with_these_sizes() == starts_) return;
    starts_.assign(count() + 1, 0);
    for (std::vector<int32_t> starts = starts_with_these_sizes(); starts != starts_; starts = starts_with_these_sizes()) {
      starts_ = std::move(starts);
    }
  }

  std::vector<int32_t> original_starts() const {
    std::vector<int32_t> starts;
    for (int32_t i = 0; i < count(); ++i) {
      starts.push_back(opcodes_[i] == nullptr ? instructions_[i].end : instructions_[i].offset);
    }
    starts.push_back(count() == 0 ? 0 : instructions_.back().end);
    return starts;
  }

  // The starts that follow from the sizes of the instructions if jumps are as far as `starts_` says.
  std::vector<int32_t> starts_with_these_sizes() const {
    std::vector<int32_t> starts(1, 0);
    for (int32_t i = 0; i < count(); ++i) starts.push_back(starts[i] + size_of(i));
    return starts;
  }

  void write_unit(const Opcode& opcode, uint32_t arg) {
    for (int shift = 24; shift > 0; shift -= 8) {
      if (arg >> shift) put(kExtendedArg.number, (arg >> shift) & 0xFF);
    }
    put(opcode.number, arg & 0xFF);
    bytes.append(2 * opcode.caches, '\0');
  }
  void put(uint32_t number, uint32_t arg) {
    bytes.push_back(static_cast<char>(number));
    bytes.push_back(static_cast<char>(arg));
  }

  void write_code() {
    for (int32_t i = 0; i < count(); ++i) {
      if (opcodes_[i] == nullptr) continue;
      if (keyword_units(i)) write_unit(kKeywordNames, instructions_[i].arg2);
      if (precall_units(i)) write_unit(kPrecall, instructions_[i].arg);
      write_unit(*opcodes_[i], real_argument(i));
    }
  }

  void write_positions() {
    PositionWriter writer(code_.code.as<PyCodeObject>()->co_firstlineno);
    auto own = code_.keyword_positions.begin();
    for (int32_t i = 0; i < count(); ++i) {
      const Position& position = code_.positions[i];
      while (own != code_.keyword_positions.end() && own->first < i) ++own;
      const bool has_own = own != code_.keyword_positions.end() && own->first == i;
      if (keyword_units(i)) writer.add(has_own ? own->second : position, keyword_units(i));
      if (precall_units(i)) writer.add(position, precall_units(i));
      const int32_t rest = size_of(i) - keyword_units(i) - precall_units(i);
      if (rest) writer.add(position, rest);
    }
    line_table = writer.finish();
  }

  void write_regions() {
    std::vector<ExceptionRow> rows;
    for (const ExceptionRegion& region : code_.regions) {
      const int32_t start = starts_[region.start];
      rows.push_back({start, starts_[region.end] - start, starts_[region.target], region.depth * 2 + region.push_lasti});
    }
    exception_table = write_exception_table(rows);
  }

  const Code& code_;
  const std::vector<Instruction>& instructions_;
  std::vector<bool> entered_;
  std::vector<const Opcode*> opcodes_;  // of each instruction; null for the second half of a pair
  std::vector<int32_t> starts_;         // code unit at which each instruction starts, and the end
};

bool set_bytes(PyObject* dict, const char* key, const std::string& value) {
  const Ref bytes = Ref::steal(PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  return bytes && PyDict_SetItemString(dict, key, bytes.get()) == 0;
}

// replace() makes the kinds of variables anew and forgets which are hidden (3.12: those of inlined comprehensions).
void keep_variable_kinds(PyCodeObject* original, PyCodeObject* encoded) {
  if (original->co_nlocalsplus != encoded->co_nlocalsplus) return;
  Ref dropped = Ref::steal(encoded->co_localspluskinds);
  encoded->co_localspluskinds = Ref::borrow(original->co_localspluskinds).release();
}

}  // namespace

Ref encode(const Code& code, const EncodeOptions& options) {
  Encoder encoder(code);
  if (!encoder.encode()) return {};
  const Ref changes = Ref::steal(PyDict_New());
  if (!changes || !set_bytes(changes.get(), "co_code", encoder.bytes) ||
      !set_bytes(changes.get(), "co_linetable", encoder.line_table) ||
      !set_bytes(changes.get(), "co_exceptiontable", encoder.exception_table)) {
    return {};
  }
  const auto set = [&](const char* key, PyObject* value) {
    return value == nullptr || PyDict_SetItemString(changes.get(), key, value) == 0;
  };
  const Ref stack_size = options.stack_size < 0 ? Ref() : Ref::steal(PyLong_FromLong(options.stack_size));
  if (!set("co_consts", options.constants.get()) || !set("co_names", options.names.get()) ||
      !set("co_stacksize", stack_size.get())) {
    return {};
  }
  const Ref replace = Ref::steal(PyObject_GetAttrString(code.code.get(), "replace"));
  const Ref none = Ref::steal(PyTuple_New(0));
  if (!replace || !none) return {};
  Ref encoded = Ref::steal(PyObject_Call(replace.get(), none.get(), changes.get()));
  if (encoded) keep_variable_kinds(code.code.as<PyCodeObject>(), encoded.as<PyCodeObject>());
  return encoded;
}

const char* real_name(const Code& code, int32_t index) {
  const Instruction& instruction = code.instructions[index];
  const auto is_fused = [&](int32_t at) {
    return at >= 0 && (code.instructions[at].flags & Instruction::kFusedWithNext) != 0;
  };
  const int32_t first = is_fused(index - 1) ? index - 1 : index;
  if (is_fused(first) && first + 1 < static_cast<int32_t>(code.instructions.size())) {
    const Opcode* pair = pair_of(code.instructions[first].op, code.instructions[first + 1].op);
    if (pair != nullptr) return pair->name;
  }
  const Opcode* opcode = opcode_of(instruction.op, instruction.target >= 0 && instruction.target <= index);
  return opcode == nullptr ? nullptr : opcode->name;
}

}  // namespace evalframe::cpython
