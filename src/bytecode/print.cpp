#include "bytecode/print.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "bytecode/operators.h"
#include "cpython/codec.h"
#include "cpython/variables.h"

namespace evalframe::bytecode {
namespace {

std::string utf8_or_mark(Borrowed unicode) {
  const char* text = unicode ? PyUnicode_AsUTF8(unicode.get()) : nullptr;
  if (text != nullptr) return text;
  PyErr_Clear();
  return "?";
}

std::string item(Borrowed tuple, int32_t index) {
  if (index < 0 || index >= PyTuple_GET_SIZE(tuple.get())) return "?";
  return utf8_or_mark(PyTuple_GET_ITEM(tuple.get(), index));
}

std::string constant_text(PyObject* value);

// In the order of their texts: that of the set changes from run to run with the hashes of strings.
std::string frozenset_text(PyObject* value) {
  const Ref elements = Ref::steal(PySequence_Tuple(value));
  if (!elements) PyErr_Clear();
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; elements && i < PyTuple_GET_SIZE(elements.get()); i++) texts.push_back(constant_text(PyTuple_GET_ITEM(elements.get(), i)));
  std::sort(texts.begin(), texts.end());
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "frozenset()" : "frozenset({" + all + "})";
}

// repr() without addresses: code objects and functions by their name, others that have one by their type.
std::string constant_text(PyObject* value) {
  if (PyFrozenSet_CheckExact(value)) return frozenset_text(value);
  if (PyCode_Check(value)) return "<code " + utf8_or_mark(reinterpret_cast<PyCodeObject*>(value)->co_qualname) + ">";
  const Ref repr = Ref::steal(PyObject_Repr(value));
  const std::string text = repr ? utf8_or_mark(repr.get()) : "";
  if (repr && (PyUnicode_Check(value) || text.find(" at 0x") == std::string::npos)) return text;
  const Ref name = Ref::steal(PyCallable_Check(value) ? PyObject_GetAttrString(value, "__name__") : nullptr);
  if (name && PyUnicode_Check(name.get())) return utf8_or_mark(name.get());
  PyErr_Clear();
  return std::string("<").append(Py_TYPE(value)->tp_name).append(">");
}

std::string constant_text(Borrowed constants, int32_t index) {
  const bool is_there = index >= 0 && index < PyTuple_GET_SIZE(constants.get());
  return is_there ? constant_text(PyTuple_GET_ITEM(constants.get(), index)) : "?";
}

template <size_t N>
std::string word(const char* const (&words)[N], int32_t index) {
  return index >= 0 && index < static_cast<int32_t>(N) ? words[index] : "?";
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}
std::string right(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

class Printer {
 public:
  explicit Printer(const Code& code) : code_(code) { find_labels(); }

  std::string print() {
    const PyCodeObject* object = code_.code.as<PyCodeObject>();
    text_ = "code " + utf8_or_mark(object->co_qualname) + ", " + utf8_or_mark(object->co_filename) + ":" +
            std::to_string(object->co_firstlineno) + "\n";
    int32_t line = -1;
    for (int32_t i = 0; i < static_cast<int32_t>(code_.instructions.size()); ++i) {
      const int32_t own = code_.positions[i].line;
      print_instruction(i, own != line && own >= 0 ? std::to_string(own) : "");
      line = own;
    }
    print_regions();
    return std::move(text_);
  }

 private:
  // Labels number the instructions that are jumped to, or are handlers or borders of regions, from the top.
  void find_labels() {
    for (const Instruction& instruction : code_.instructions) {
      if (instruction.target >= 0) labels_[instruction.target] = "";
    }
    for (const ExceptionRegion& region : code_.regions) {
      labels_[region.start] = labels_[region.end] = labels_[region.target] = "";
    }
    int number = 0;
    for (auto& [index, label] : labels_) {
      label = index == static_cast<int32_t>(code_.instructions.size()) ? "end" : std::string("L").append(std::to_string(++number));
    }
  }

  void print_instruction(int32_t index, const std::string& line) {
    const Instruction& instruction = code_.instructions[index];
    const auto label = labels_.find(index);
    const bool is_jump = instruction.target >= 0;
    const bool has_argument = argument_kind(instruction.op) != Argument::none && !is_jump;
    const std::string offset = instruction.offset < 0 ? "-" : std::to_string(2 * instruction.offset);
    std::string refers_to = is_jump ? "-> " + labels_[instruction.target] : argument_text(code_, instruction);
    std::string row = right(line, 5) + right(offset, 6) + "  " + padded(label == labels_.end() ? "" : label->second + ":", 5);
    row += padded(name(instruction.op), 28) + right(has_argument ? std::to_string(instruction.arg) : "", 4);
    row += "  " + refers_to;
    const char* real = cpython::real_name(code_, index);
    if (real != nullptr && std::strcmp(real, name(instruction.op)) != 0) {
      row = padded(std::move(row), 74).append("  [").append(real).append("]");
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text_ += row + "\n";
  }

  void print_regions() {
    if (!code_.regions.empty()) text_ += "exceptions:\n";
    for (const ExceptionRegion& region : code_.regions) {
      text_ += "  " + labels_[region.start] + " up to " + labels_[region.end] + " -> " + labels_[region.target] + ", depth " +
               std::to_string(region.depth) + (region.push_lasti ? ", with lasti\n" : "\n");
    }
  }

  const Code& code_;
  std::map<int32_t, std::string> labels_;
  std::string text_;
};

}  // namespace

std::string argument_text(const Code& code, const Instruction& instruction) {
  const PyCodeObject* object = code.code.as<PyCodeObject>();
  switch (instruction.op) {
    case Op::BINARY_OP:
    case Op::COMPARE_OP: return operator_text(instruction.op, instruction.arg);
    case Op::IS_OP: return instruction.arg ? "is not" : "is";
    case Op::CONTAINS_OP: return instruction.arg ? "not in" : "in";
    case Op::LOAD_GLOBAL: return item(object->co_names, instruction.arg) + (instruction.arg2 == 1 ? ", NULL" : "");
    case Op::CALL:
      return instruction.arg2 < 0 ? "" : "keywords " + constant_text(object->co_consts, instruction.arg2);
    default: break;
  }
  switch (argument_kind(instruction.op)) {
    case Argument::constant: return constant_text(object->co_consts, instruction.arg);
    case Argument::name: return item(object->co_names, instruction.arg);
    case Argument::local:
      if (instruction.arg < 0 || instruction.arg >= cpython::variable_count(code.code)) return "?";
      return utf8_or_mark(cpython::variable_name(code.code, instruction.arg));
    default: return "";
  }
}

std::string operator_text(Op op, int32_t arg) { return op == Op::BINARY_OP ? word(kBinarySymbols, arg) : word(kCompareSymbols, arg); }

std::string print(const Code& code) { return Printer(code).print(); }

}  // namespace evalframe::bytecode
