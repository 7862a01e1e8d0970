// Decode and encode, for every version: what differs is the table of opcodes (v3XX/opcodes.def).
#include "cpython/codec.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/check.h"
#include "cpython/layout.h"
#include "cpython/tables.h"

namespace evalframe::cpython {
namespace {

using bytecode::Code;
using bytecode::ExceptionRegion;
using bytecode::Instruction;
using bytecode::Op;
using bytecode::Position;

// How the argument of a CPython instruction becomes that of the canonical one.
enum class Form : uint8_t {
  unknown,        // not an instruction that the compiler emits
  plain,          // as it is
  split1,         // the lowest bit goes to arg2,
  split2,         // the lowest two,
  split4,         // four,
  split5,         // five bits
  attribute,      // the lowest bit says LOAD_METHOD
  forward,        // a jump, in code units from behind the caches
  backward,
  pair,           // two instructions, with four bits of argument each
  keyword_names,  // becomes arg2 of the CALL behind it
  precall,        // dropped: it always stands before its CALL
  extended_arg,
  cache,
};

struct Opcode {
  const char* name = nullptr;
  uint8_t number = 0;
  uint8_t caches = 0;
  Form form = Form::unknown;
  Op op = Op::NOP;
  Op second = Op::NOP;  // of a pair
};

constexpr Opcode kOpcodes[] = {
#define EVALFRAME_OPCODE(name, number, caches, form, canonical) {#name, number, caches, Form::form, Op::canonical},
#define EVALFRAME_PAIR(name, number, first, second) {#name, number, 0, Form::pair, Op::first, Op::second},
#include "opcodes.def"
#undef EVALFRAME_OPCODE
#undef EVALFRAME_PAIR
};

constexpr std::array<Opcode, 256> by_number() {
  std::array<Opcode, 256> table{};
  for (const Opcode& opcode : kOpcodes) table[opcode.number] = opcode;
  return table;
}
constexpr std::array<Opcode, 256> kByNumber = by_number();

// The one opcode of this form; Form::unknown where the version has none.
constexpr Opcode of_form(Form form) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.form == form) return opcode;
  }
  return {};
}
constexpr bool exists(const Opcode& opcode) { return opcode.form != Form::unknown; }
constexpr Opcode kKeywordNames = of_form(Form::keyword_names);
constexpr Opcode kPrecall = of_form(Form::precall);
constexpr Opcode kExtendedArg = of_form(Form::extended_arg);
constexpr Opcode kAttribute = of_form(Form::attribute);

bool is_own_instruction(Form form) {
  return form != Form::unknown && form != Form::keyword_names && form != Form::precall && form != Form::extended_arg &&
         form != Form::cache && form != Form::pair;
}

// The opcode that stands for `op`; null where the version has none. Jumps have up to two, one for each direction.
const Opcode* opcode_of(Op op, bool backward) {
  if (op == Op::LOAD_METHOD && exists(kAttribute)) return &kAttribute;
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.op != op || !is_own_instruction(opcode.form)) continue;
    const bool is_jump = opcode.form == Form::forward || opcode.form == Form::backward;
    if (!is_jump || (opcode.form == Form::backward) == backward) return &opcode;
  }
  return nullptr;
}

const Opcode* pair_of(Op first, Op second) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.form == Form::pair && opcode.op == first && opcode.second == second) return &opcode;
  }
  return nullptr;
}

constexpr int split_bits(Form form) {
  switch (form) {
    case Form::split1: return 1;
    case Form::split2: return 2;
    case Form::split4: return 4;
    case Form::split5: return 5;
    default: return 0;
  }
}

PyCodeObject* as_code(Borrowed code) { return reinterpret_cast<PyCodeObject*>(code.get()); }

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
    index_of_unit.reserve(units_);
    for (size_t unit = 0; unit < units_;) {
      const size_t start = unit;
      const size_t index = result_->instructions.size();
      if (!read_one(unit)) return false;
      index_of_unit.insert(index_of_unit.end(), unit - start, static_cast<int32_t>(index));
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
    if (keyword_names >= 0 && opcode.op != Op::CALL) return fail("KW_NAMES without its CALL", start);
    own_unit_.push_back(unit);
    unit += 1 + opcode.caches;
    if (unit > units_) return fail("the code ends in the middle of an instruction", start);

    Instruction instruction;
    instruction.op = opcode.op;
    instruction.arg = arg;
    instruction.offset = static_cast<int32_t>(start);
    instruction.end = static_cast<int32_t>(unit);
    if (keyword_names >= 0) {
      instruction.arg2 = keyword_names;
      keyword_units_.push_back({result_->instructions.size(), keyword_unit_});
    }
    if (opcode.form == Form::pair) return add_pair(opcode, instruction);
    split_argument(opcode, instruction);
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
    PositionWriter writer(as_code(code_.code)->co_firstlineno);
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

// co_extra: a slot of evalframe's own in every code object, asked for once.
void free_decoded(void* extra) { delete static_cast<Code*>(extra); }

Py_ssize_t extra_index() {
#if PY_VERSION_HEX >= 0x030C0000
  static const Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(free_decoded);
#else
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(free_decoded);
#endif
  return index;
}

bool keep(PyCodeObject* code, Code* decoded) {
  auto* object = reinterpret_cast<PyObject*>(code);
  if (extra_index() < 0) {
    PyErr_SetString(PyExc_RuntimeError, "CPython has no co_extra slot left: too many libraries use them in this process");
    return false;
  }
#if PY_VERSION_HEX >= 0x030C0000
  return PyUnstable_Code_SetExtra(object, extra_index(), decoded) == 0;
#else
  return _PyCode_SetExtra(object, extra_index(), decoded) == 0;
#endif
}

}  // namespace

std::unique_ptr<Code> decode(Borrowed code) {
  if (!PyCode_Check(code.get())) {
    PyErr_Format(PyExc_TypeError, "a code object is needed, not %.200s", Py_TYPE(code.get())->tp_name);
    return nullptr;
  }
  // Specialised and instrumented instructions are undone in this copy.
  const Ref bytes = Ref::steal(PyCode_GetCode(as_code(code)));
  if (!bytes) return nullptr;
  return Decoder(as_code(code), bytes_of(bytes.get())).decode();
}

const Code* decoded_before(PyCodeObject* code) {
  return static_cast<const Code*>(extra_of(code, extra_index()));
}

const Code* decoded(Borrowed code) {
  if (const Code* known = PyCode_Check(code.get()) ? decoded_before(as_code(code)) : nullptr) return known;
  std::unique_ptr<Code> made = decode(code);
  if (made == nullptr || !keep(as_code(code), made.get())) return nullptr;
  made->keep_alive.reset();
  return made.release();
}

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
  if (encoded) keep_variable_kinds(as_code(code.code), as_code(encoded.get()));
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
