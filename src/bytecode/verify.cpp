#include "bytecode/verify.h"

#include <algorithm>
#include <vector>

#include "bytecode/assignment.h"
#include "cpython/layout.h"
#include "cpython/variables.h"

namespace evalframe::bytecode {
namespace {

std::string text_of(Borrowed unicode) {
  const char* text = PyUnicode_AsUTF8(unicode.get());
  if (text != nullptr) return text;
  PyErr_Clear();
  return "?";
}

std::string quoted(Borrowed unicode) { return std::string("'").append(text_of(unicode)).append("'"); }

// The limits of operator and kind numbers, of instructions that have them.
struct Range {
  Op op;
  int32_t lowest, highest;
};
constexpr Range kRanges[] = {
    {Op::COPY, 1, INT32_MAX},      {Op::SWAP, 1, INT32_MAX},     {Op::BINARY_OP, 0, 25},
    {Op::COMPARE_OP, 0, 5},        {Op::IS_OP, 0, 1},            {Op::CONTAINS_OP, 0, 1},
    {Op::BUILD_SLICE, 2, 3},       {Op::RAISE_VARARGS, 0, 2},    {Op::RERAISE, 0, 2},
    {Op::CALL_INTRINSIC_1, 1, 11}, {Op::CALL_INTRINSIC_2, 1, 5}, {Op::CONVERT_VALUE, 1, 3},
    {Op::LIST_APPEND, 1, INT32_MAX}, {Op::SET_ADD, 1, INT32_MAX}, {Op::MAP_ADD, 1, INT32_MAX},
    {Op::LIST_EXTEND, 1, INT32_MAX}, {Op::SET_UPDATE, 1, INT32_MAX}, {Op::DICT_UPDATE, 1, INT32_MAX},
    {Op::DICT_MERGE, 1, INT32_MAX},
};

class Verifier {
 public:
  Verifier(const Code& code, const Operands& operands) : code_(code), operands_(operands) {}

  std::optional<Problem> run(StackDepths& depths) {
    if (code_.instructions.empty()) return Problem{-1, "it has no instructions; it needs at least a return"};
    for (int32_t i = 0; i < count(); ++i) {
      if (auto text = check_argument(code_.instructions[i])) return Problem{i, *text};
    }
    for (const ExceptionRegion& region : code_.regions) {
      if (auto problem = check_region(region)) return problem;
    }
    if (auto problem = find_depths(code_, depths)) return problem;
    return find_unbound_read(code_);
  }

 private:
  using Text = std::optional<std::string>;

  int32_t count() const { return static_cast<int32_t>(code_.instructions.size()); }

  static Text check_index(int32_t index, Py_ssize_t size, const char* what, const char* table) {
    if (index >= 0 && index < size) return std::nullopt;
    return std::string("there is no ") + what + " " + std::to_string(index) + ": " + table + " has " + std::to_string(size) +
           "; add it there or correct the argument";
  }

  Text check_argument(const Instruction& instruction) const {
    const int32_t arg = instruction.arg;
    switch (argument_kind(instruction.op)) {
      case Argument::constant:
        return check_index(arg, PyTuple_GET_SIZE(operands_.constants.get()), "constant", "co_consts");
      case Argument::name:
        return check_index(arg, PyTuple_GET_SIZE(operands_.names.get()), "name", "co_names");
      case Argument::local: return check_variable(instruction);
      case Argument::jump:
        if (instruction.target >= 0 && instruction.target < count()) return check_end_of_loop(instruction);
        return "it jumps to instruction " + std::to_string(instruction.target) + " of " + std::to_string(count()) +
               "; give it a target in this code";
      case Argument::none:
      case Argument::count:
      case Argument::flags:
      case Argument::oparg: return check_number(instruction);
    }
    return std::nullopt;
  }

  // An exhausted FOR_ITER skips a fixed number of instructions at its target without looking at them.
  Text check_end_of_loop(const Instruction& instruction) const {
    constexpr Op kSkipped[] = {Op::END_FOR, Op::POP_TOP};
    if (instruction.op != Op::FOR_ITER) return std::nullopt;
    for (int32_t i = 0; i < cpython::layout::kForIterSkip; ++i) {
      const int32_t at = instruction.target + i;
      if (at < count() && code_.instructions[at].op == kSkipped[i]) continue;
      return std::string("its target must be END_FOR") + (i > 0 ? ", directly followed by POP_TOP" : "") +
             ", which it skips; insert instructions behind the end of the loop instead";
    }
    return std::nullopt;
  }

  Text check_variable(const Instruction& instruction) const {
    const int slots = cpython::variable_count(code_.code);
    if (auto text = check_index(instruction.arg, slots, "variable", "the function")) return text;
    const uint8_t kind = cpython::variable_kind(code_.code, instruction.arg);
    const bool is_cell = kind & (cpython::kCellVariable | cpython::kFreeVariable);
    if (!needs_cell(instruction.op) || is_cell) return std::nullopt;
    return "variable " + quoted(cpython::variable_name(code_.code, instruction.arg)) +
           " is no cell or free variable; use the *_FAST instruction";
  }

  Text check_number(const Instruction& instruction) const {
    const int32_t arg = instruction.arg;
    if (arg < 0) return "its argument " + std::to_string(arg) + " is negative";
    if (arg > kMostEntries) return "its argument " + std::to_string(arg) + " is more than a stack has entries: " + std::to_string(kMostEntries) + " at most";
    for (const Range& range : kRanges) {
      if (range.op == instruction.op && (arg < range.lowest || arg > range.highest)) {
        return "its argument " + std::to_string(arg) + " is out of range; " + std::to_string(range.lowest) +
               (range.highest == INT32_MAX ? " or more" : " to " + std::to_string(range.highest)) + " are allowed";
      }
    }
    if (instruction.op == Op::COPY_FREE_VARS && arg != code_.code.as<PyCodeObject>()->co_nfreevars) {
      return "it must copy all " + std::to_string(code_.code.as<PyCodeObject>()->co_nfreevars) + " free variables";
    }
    if (instruction.op == Op::CALL && instruction.arg2 >= 0) return check_keyword_names(instruction);
    return std::nullopt;
  }

  Text check_keyword_names(const Instruction& instruction) const {
    PyObject* constants = operands_.constants.get();
    if (auto text = check_index(instruction.arg2, PyTuple_GET_SIZE(constants), "constant", "co_consts")) return text;
    PyObject* names = PyTuple_GET_ITEM(constants, instruction.arg2);
    bool fits = PyTuple_CheckExact(names) && PyTuple_GET_SIZE(names) <= instruction.arg;
    for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(names); ++i) fits = PyUnicode_Check(PyTuple_GET_ITEM(names, i));
    if (fits) return std::nullopt;
    return "constant " + std::to_string(instruction.arg2) +
           " can't be its keyword names; it must be a tuple of at most as many strings as there are arguments";
  }

  std::optional<Problem> check_region(const ExceptionRegion& region) {
    const bool fits = region.start >= last_end_ && region.start <= region.end && region.end <= count() &&
                      region.start < count() && region.target >= 0 && region.target < count() && region.depth >= 0;
    last_end_ = region.end;
    if (fits) return std::nullopt;
    return Problem{-1, "exception region [" + std::to_string(region.start) + ", " + std::to_string(region.end) + ") -> " +
                           std::to_string(region.target) +
                           " doesn't fit; regions must be sorted, not overlap and lie inside the code"};
  }

  const Code& code_;
  const Operands& operands_;
  int32_t last_end_ = 0;
};

// Names of the variables of one kind, in order of their slots.
std::vector<std::string> names_of_kind(Borrowed code, uint8_t kind) {
  std::vector<std::string> names;
  for (int slot = 0; slot < cpython::variable_count(code); ++slot) {
    if (cpython::variable_kind(code, slot) & kind) names.push_back(text_of(cpython::variable_name(code, slot)));
  }
  return names;
}

constexpr const char* kKeep = " (a replacement keeps all variables of the original, in order, and adds its own behind them)";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Every name of the original stands at the same place.
std::optional<std::string> compare_variables(Borrowed original, Borrowed replacement, uint8_t kind, const char* what) {
  const auto wanted = names_of_kind(original, kind);
  const auto found = names_of_kind(replacement, kind);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i < found.size() && found[i] == wanted[i]) continue;
    if (i >= found.size() || !contains(found, wanted[i])) {
      return std::string("it lacks the ") + what + " variable '" + wanted[i] + "'" + kKeep;
    }
    return std::string("where the original has the ") + what + " variable '" + wanted[i] + "' (place " + std::to_string(i) +
           "), it has '" + found[i] + "'" + kKeep;
  }
  if (kind == cpython::kFreeVariable && found.size() > wanted.size()) {
    return "it has the free variable '" + found[wanted.size()] +
           "', for which the function's closure has no cell; pass the value as a constant instead";
  }
  return std::nullopt;
}

// A local variable may have become a cell, which moves the cells behind it: their order counts, not their places.
std::optional<std::string> compare_cells(Borrowed original, Borrowed replacement) {
  const auto found = names_of_kind(replacement, cpython::kCellVariable);
  auto from = found.begin();
  for (const std::string& name : names_of_kind(original, cpython::kCellVariable)) {
    from = std::find(from, found.end(), name);
    if (from == found.end()) return "it lacks the cell variable '" + name + "', or has it in another order" + kKeep;
    ++from;
  }
  return std::nullopt;
}

// Who fills the parameters, where names are looked up, and what a call gives.
std::optional<std::string> compare_signature(Borrowed original, Borrowed replacement) {
  const PyCodeObject* a = original.as<PyCodeObject>();
  const PyCodeObject* b = replacement.as<PyCodeObject>();
  if (a->co_argcount != b->co_argcount) return "it takes another number of positional parameters";
  if (a->co_posonlyargcount != b->co_posonlyargcount) return "it takes another number of positional-only parameters";
  if (a->co_kwonlyargcount != b->co_kwonlyargcount) return "it takes another number of keyword-only parameters";
  const int flags = a->co_flags ^ b->co_flags;
  if (flags & (CO_OPTIMIZED | CO_NEWLOCALS | CO_VARARGS | CO_VARKEYWORDS)) {
    return "its co_flags differ in CO_OPTIMIZED, CO_NEWLOCALS, CO_VARARGS or CO_VARKEYWORDS";
  }
  if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
    return "one of them is a generator or coroutine, the other isn't, or is another kind";
  }
  return std::nullopt;
}

}  // namespace

Operands operands_of(const Code& code) { return {code.code.as<PyCodeObject>()->co_consts, code.code.as<PyCodeObject>()->co_names}; }

std::optional<Problem> verify(const Code& code, const Operands& operands, StackDepths& depths) {
  return Verifier(code, operands).run(depths);
}

std::optional<std::string> verify_replacement(Borrowed original, Borrowed replacement) {
  auto problem = compare_signature(original, replacement);
  if (!problem) problem = compare_variables(original, replacement, cpython::kLocalVariable, "local");
  if (!problem) problem = compare_cells(original, replacement);
  if (!problem) problem = compare_variables(original, replacement, cpython::kFreeVariable, "free");
  if (!problem) return std::nullopt;
  return "the replacement can't run in a frame of " + text_of(original.as<PyCodeObject>()->co_qualname) + "(): " + *problem;
}

std::string describe(const Code& code, const Problem& problem) {
  std::string text = text_of(code.code.as<PyCodeObject>()->co_qualname);
  if (problem.index >= 0) {
    const int32_t line = code.positions[problem.index].line;
    text += ", instruction " + std::to_string(problem.index) + " (" + name(code.instructions[problem.index].op);
    text += line >= 0 ? ", line " + std::to_string(line) + ")" : ")";
  }
  return text + ": " + problem.text;
}

}  // namespace evalframe::bytecode
