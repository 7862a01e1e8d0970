// CPython's code objects to canonical instructions, for every version: what differs is the table of opcodes.
#include <string>

#include "cpython/codec.h"
#include "cpython/opcode_table.h"
#include "cpython/tables.h"

namespace evalframe::cpython {
namespace {

using bytecode::Code, bytecode::ExceptionRegion, bytecode::Instruction;

std::string_view bytes_of(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

// Decodes one code object.
class Decoder {
 public:
  Decoder(PyCodeObject* code, std::string_view bytes) : code_(code), bytes_(bytes), units_(bytes.size() / 2) {}

  std::unique_ptr<Code> decode() {
    if (!read_instructions() || !resolve_jumps() || !read_positions() || !read_regions()) return nullptr;
    result_->code = Borrowed(code_);
    result_->keep_alive = Ref::borrow(code_);
    return std::move(result_);
  }

 private:
  struct Jump {
    size_t instruction;
    int64_t unit;
  };

  bool fail(const char* what, int64_t unit) {
    PyErr_Format(PyExc_ValueError,
                 "can't decode code object %R: %s at byte offset %lld; pass bytecode made by this Python's compiler, "
                 "unchanged",
                 code_, what, static_cast<long long>(unit) * 2);
    return false;
  }

  bool read_instructions() {
    std::vector<int32_t>& index_of_unit = result_->index_of_unit;
    index_of_unit.resize(units_);
    result_->instructions.reserve(units_ / 2);  // with their caches, most take two or more
    own_unit_.reserve(units_ / 2);
    for (size_t unit = 0; unit < units_;) {
      const size_t start = unit;
      const auto index = static_cast<int32_t>(result_->instructions.size());
      if (!read_one(unit)) return false;
      for (size_t covered = start; covered < unit; covered++) index_of_unit[covered] = index;
    }
    return true;
  }

  // Reads one instruction with all that is folded into it, and moves `unit` behind it.
  bool read_one(size_t& unit) {
    const size_t start = unit;
    int64_t arg = 0;
    int32_t keyword_names = -1;
    for (;; ++unit) {
      if (unit >= units_) return fail("the code ends in the middle of an instruction", start);
      const Opcode& opcode = opcode_at(unit);
      arg = (arg << 8) | static_cast<uint8_t>(bytes_[2 * unit + 1]);
      if (arg > INT32_MAX) return fail("too large an argument", start);
      if (opcode.form == Form::extended_arg) continue;
      if (opcode.form == Form::keyword_names) {
        keyword_names = static_cast<int32_t>(arg);
        keyword_unit_ = unit;
      } else if (opcode.form != Form::precall) {
        return finish_one(opcode, static_cast<int32_t>(arg), keyword_names, start, unit);
      }
      unit += opcode.caches;
      arg = 0;
    }
  }

  bool finish_one(const Opcode& opcode, int32_t arg, int32_t keyword_names, size_t start, size_t& unit) {
    if (opcode.form == Form::unknown) return fail("an unknown instruction", unit);
    if (opcode.form == Form::cache) return fail("an inline cache without its instruction", unit);
    own_unit_.push_back(unit);
    unit += 1 + opcode.caches;
    if (unit > units_) return fail("the code ends in the middle of an instruction", start);

    Instruction instruction{.op = opcode.op, .arg = arg, .offset = static_cast<int32_t>(start), .end = static_cast<int32_t>(unit)};
    if (keyword_names >= 0) {
      if (opcode.op != Op::CALL) return fail("KW_NAMES without its CALL", start);
      instruction.arg2 = keyword_names;
      keyword_units_.push_back({result_->instructions.size(), keyword_unit_});
    }
    if (opcode.form == Form::pair) return add_pair(opcode, instruction);
    if (opcode.form != Form::plain) split_argument(opcode, instruction);
    add(instruction);
    return true;
  }

  bool add_pair(const Opcode& opcode, Instruction first) {
    Instruction second = first;
    first.arg >>= 4;
    first.flags = Instruction::kFusedWithNext;
    second.op = opcode.second;
    second.arg &= 15;
    add(first);
    own_unit_.push_back(own_unit_.back());
    add(second);
    return true;
  }

  void split_argument(const Opcode& opcode, Instruction& instruction) {
    const int32_t arg = instruction.arg;
    if (opcode.form == Form::attribute) {
      if (arg & 1) instruction.op = Op::LOAD_METHOD;
      instruction.arg = arg >> 1;
    } else if (opcode.form == Form::forward || opcode.form == Form::backward) {
      const int64_t distance = opcode.form == Form::forward ? arg : -static_cast<int64_t>(arg);
      jumps_.push_back({result_->instructions.size(), instruction.end + distance});
    } else if (const int bits = split_bits(opcode.form)) {
      instruction.arg = arg >> bits;
      instruction.arg2 = arg & ((1 << bits) - 1);
    }
  }

  void add(const Instruction& instruction) { result_->instructions.push_back(instruction); }

  const Opcode& opcode_at(size_t unit) const { return kByNumber[static_cast<uint8_t>(bytes_[2 * unit])]; }

  // The instruction that starts at `unit`, or -1.
  int32_t starting_at(int64_t unit) const {
    if (unit < 0 || unit >= static_cast<int64_t>(units_)) return -1;
    const int32_t index = result_->index_of_unit[unit];
    return result_->instructions[index].offset == unit ? index : -1;
  }
  // The same for the end of a range, which may be the end of the code.
  int32_t ending_at(int64_t unit) const {
    return unit == static_cast<int64_t>(units_) ? static_cast<int32_t>(result_->instructions.size()) : starting_at(unit);
  }

  bool resolve_jumps() {
    for (const Jump& jump : jumps_) {
      Instruction& instruction = result_->instructions[jump.instruction];
      instruction.target = starting_at(jump.unit);
      if (instruction.target < 0) return fail("a jump to where no instruction starts", instruction.offset);
      instruction.arg = 0;
    }
    return true;
  }

  bool read_positions() {
    const auto of_units = cpython::read_positions(bytes_of(code_->co_linetable), code_->co_firstlineno, units_);
    if (!of_units) return fail("a broken location table (co_linetable)", 0);
    result_->positions.reserve(own_unit_.size());
    for (const size_t unit : own_unit_) result_->positions.push_back((*of_units)[unit]);
    for (const auto& [index, unit] : keyword_units_) {
      if ((*of_units)[unit] == result_->positions[index]) continue;
      result_->keyword_positions.push_back({static_cast<int32_t>(index), (*of_units)[unit]});
    }
    return true;
  }

  bool read_regions() {
    const auto rows = read_exception_table(bytes_of(code_->co_exceptiontable));
    if (!rows) return fail("a broken exception table (co_exceptiontable)", 0);
    for (const ExceptionRow& row : *rows) {
      const int64_t row_end = static_cast<int64_t>(row.start) + row.size;
      const ExceptionRegion region{starting_at(row.start), ending_at(row_end), starting_at(row.target),
                                   row.depth_and_lasti >> 1, (row.depth_and_lasti & 1) != 0};
      const int32_t previous = result_->regions.empty() ? 0 : result_->regions.back().end;
      if (region.start < previous || region.end < region.start || region.target < 0 || region.depth < 0) {
        return fail("an exception table row that fits no instructions", row.start);
      }
      result_->regions.push_back(region);
    }
    return true;
  }

  PyCodeObject* code_;
  std::string_view bytes_;
  size_t units_;
  size_t keyword_unit_ = 0;
  std::unique_ptr<Code> result_ = std::make_unique<Code>();
  std::vector<Jump> jumps_;
  std::vector<size_t> own_unit_;                          // of each instruction: the unit of its opcode
  std::vector<std::pair<size_t, size_t>> keyword_units_;  // instruction, unit of its KW_NAMES
};

}  // namespace

std::unique_ptr<Code> decode(Borrowed code) {
  if (!PyCode_Check(code.get())) {
    PyErr_Format(PyExc_TypeError, "a code object is needed, not %.200s", Py_TYPE(code.get())->tp_name);
    return nullptr;
  }
  // Specialised and instrumented instructions are undone in this copy.
  const Ref bytes = Ref::steal(PyCode_GetCode(code.as<PyCodeObject>()));
  if (!bytes) return nullptr;
  return Decoder(code.as<PyCodeObject>(), bytes_of(bytes.get())).decode();
}

}  // namespace evalframe::cpython
