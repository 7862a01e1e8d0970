#include "decompiler/unparse.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "bytecode/operators.h"
#include "core/ref.h"

namespace evalframe::decompiler {
namespace {

constexpr int kPrecedence[] = {
#define EVALFRAME_EXPRESSION(kind, precedence) precedence,
#define EVALFRAME_STATEMENT(kind) -1,
#define EVALFRAME_MARKER(kind) -1,
#include "decompiler/kinds.def"
#undef EVALFRAME_EXPRESSION
#undef EVALFRAME_STATEMENT
#undef EVALFRAME_MARKER
};
constexpr const char* kNames[] = {
#define EVALFRAME_EXPRESSION(kind, precedence) #kind,
#define EVALFRAME_STATEMENT(kind) #kind,
#define EVALFRAME_MARKER(kind) #kind,
#include "decompiler/kinds.def"
#undef EVALFRAME_EXPRESSION
#undef EVALFRAME_STATEMENT
#undef EVALFRAME_MARKER
};
constexpr int kYield = -1;  // where `yield` needs no parentheses
constexpr int kDeepestExpression = 250;

std::string text_of(PyObject* object) {
  Py_ssize_t size = 0;
  const char* const text = object ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (text) return {text, static_cast<size_t>(size)};
  PyErr_Clear();
  throw Refused("a name or constant that no source text can have");
}

std::string repr_of(PyObject* object) {
  const Ref text = Ref::steal(PyObject_Repr(object));
  if (text) return text_of(text.get());
  PyErr_Clear();
  // Python refuses to write integers of more than 4300 digits in base ten.
  const Ref hexadecimal = Ref::steal(PyLong_Check(object) ? PyNumber_ToBase(object, 16) : nullptr);
  return text_of(hexadecimal.get());
}

// `-1j` has a real part of minus zero, which is told otherwise; one of zero takes a subtraction.
std::string complex_text(PyObject* value) {
  const Py_complex number = PyComplex_AsCComplex(value);
  if (number.real != 0 || !std::signbit(number.imag)) return repr_of(value);
  const Ref positive = Ref::steal(PyComplex_FromDoubles(0.0, -number.imag));
  if (!positive) throw Refused("a number without a text");
  const std::string text = repr_of(positive.get());
  return std::signbit(number.real) ? "-" + text : "(0 - " + text + ")";
}

std::string float_text(PyObject* value, const std::string& text) {
  if (std::isinf(PyFloat_AS_DOUBLE(value))) return PyFloat_AS_DOUBLE(value) > 0 ? "1e309" : "-1e309";
  return text;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (&part == parts.data() ? "" : between) + part;
  return all;
}

std::string sequence_text(PyObject* items) {
  const Ref tuple = Ref::steal(PySequence_Tuple(items));
  std::vector<std::string> parts;
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple.get()); i++) parts.push_back(constant_text(PyTuple_GET_ITEM(tuple.get(), i)));
  // A set's own order changes from run to run, with the hashes of strings.
  if (PyFrozenSet_Check(items)) std::sort(parts.begin(), parts.end());
  return joined(parts, ", ") + (PyTuple_Check(items) && parts.size() == 1 ? "," : "");
}

int binary_precedence(int number) {
  using bytecode::BinaryOp;
  switch (bytecode::binary_op(number)) {
    case BinaryOp::kOr: return 8;
    case BinaryOp::kXor: return 9;
    case BinaryOp::kAnd: return 10;
    case BinaryOp::kLshift:
    case BinaryOp::kRshift: return 11;
    case BinaryOp::kAdd:
    case BinaryOp::kSubtract: return 12;
    case BinaryOp::kPower: return 16;
    case BinaryOp::kFloorDivide:
    case BinaryOp::kMatrixMultiply:
    case BinaryOp::kMultiply:
    case BinaryOp::kRemainder:
    case BinaryOp::kTrueDivide:
    case BinaryOp::kInPlace: return 13;
  }
  return 13;
}

int precedence(const Node* node) {
  if (node->kind == Kind::Binary) return binary_precedence(node->number);
  if (node->kind == Kind::Constant) {
    // Negative numbers are written with a sign, and complex ones in parentheses.
    const std::string text = constant_text(node->constant);
    return text.starts_with("-") ? 15 : 20;
  }
  return kPrecedence[static_cast<size_t>(node->kind)];
}

std::string in(const Node* node, int least) {
  std::string text = expression_text(node);
  if ((node->kind == Kind::And || node->kind == Kind::Or) && node->number == kOnItsOwnLine) return "(\n        " + text + ")";
  return precedence(node) < least ? "(" + text + ")" : text;
}

std::string items_text(const Nodes& items, size_t from = 0) {
  std::vector<std::string> parts;
  for (size_t i = from; i < items.size(); i++) parts.push_back(in(items[i], 1));
  return joined(parts, ", ");
}

std::string tuple_items(const Node* node) { return items_text(node->items) + (node->items.size() == 1 ? "," : ""); }

// Literal text inside an f-string with that quote.
std::string literal_part(PyObject* value, const std::string& quote) {
  std::string text = repr_of(value);
  const char used = text[0];
  text = text.substr(1, text.size() - 2);
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\') {
      if (text[i + 1] == used && used != quote[0]) i++;
      else result += text[i++];
      result += text[i];
    } else if (text[i] == '{' || text[i] == '}') {
      result += std::string(2, text[i]);
    } else if (text[i] == quote[0]) {
      result += std::string("\\") + text[i];
    } else {
      result += text[i];
    }
  }
  return result;
}

bool in_parts(const std::vector<std::string>& parts, const std::string& text) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) { return part.find(text) != std::string::npos; });
}

void replacement_texts(const Node* node, std::vector<std::string>& texts) {
  for (const Node* item : node->items) {
    if (item->kind == Kind::Constant) continue;
    texts.push_back(expression_text(item->items[0]));
    if (item->items.size() > 1 && item->items[1]->kind == Kind::Joined) replacement_texts(item->items[1], texts);
  }
}

std::string joined_parts(const Node* node, const std::string& quote) {
  std::string text;
  for (const Node* item : node->items) {
    if (item->kind == Kind::Constant) {
      text += literal_part(item->constant, quote);
      continue;
    }
    std::string inner = in(item->items[0], 3);
    if (inner.starts_with("{") || item->items[0]->kind == Kind::Lambda) inner = " " + inner;
    text += "{" + inner;
    if (item->number > 0) text += std::string("!") + "?sra"[item->number];
    if (item->items.size() > 1) {
      const Node* const format = item->items[1];
      Node whole{.kind = Kind::Joined, .items = {const_cast<Node*>(format)}};
      text += ":" + joined_parts(format->kind == Kind::Joined ? format : &whole, quote);
    }
    text += "}";
  }
  return text;
}

// '%s' % (x,) is compiled as f'{x!s}' is, and its values may have what the parts of an f-string can't (before 3.12).
std::string percent_text(const Node* node, const std::vector<std::string>& texts) {
  if (!in_parts(texts, "\\")) return "";
  std::string format, values;
  for (const Node* item : node->items) {
    if (item->kind == Kind::Constant) {
      for (const char c : repr_of(item->constant)) format += c == '%' ? std::string("%%") : std::string(1, c);
      format = format.substr(0, format.size());
    } else if (item->number == 0 || item->items.size() > 1) {
      return "";
    } else {
      format += std::string("'%") + "?sra"[item->number] + "'";
      values += in(item->items[0], 1) + ", ";
    }
    format += " ";
  }
  return "((" + format + ") % (" + values + "))";
}

std::string joined_text(const Node* node) {
  std::vector<std::string> texts;
  replacement_texts(node, texts);
  if (std::string text = percent_text(node, texts); !text.empty()) return text;
  // One without a backslash, if there is one: an f-string may stand in the parts of another.
  std::string first;
  for (const char* quote : {"'", "\"", "'''", "\"\"\""}) {
    if (in_parts(texts, quote)) continue;
    const std::string text = std::string("f") + quote + joined_parts(node, quote) + quote;
    if (text.find('\\') == std::string::npos) return text;
    if (first.empty()) first = text;
  }
  return first.empty() ? "f'" + joined_parts(node, "'") + "'" : first;
}

std::string comprehension_text(const Node* node) {
  std::string text = node->items.size() > 1 ? in(node->items[0], 1) + ": " + in(node->items[1], 1) : in(node->items[0], 1);
  for (const Node* part : node->body) {
    text += part->number ? " async for " : " for ";
    text += part->items[0]->kind == Kind::Tuple ? tuple_items(part->items[0]) : in(part->items[0], 4);
    text += " in " + in(part->items[1], 4);
    for (size_t i = 2; i < part->items.size(); i++) text += " if " + in(part->items[i], 4);
  }
  return node->text.substr(0, 1) + text + node->text.substr(1);
}

std::string dict_text(const Node* node) {
  std::vector<std::string> parts;
  for (size_t i = 0; i + 1 < node->items.size(); i += 2) {
    const std::string value = in(node->items[i + 1], node->items[i] ? 1 : 8);
    parts.push_back(node->items[i] ? in(node->items[i], 1) + ": " + value : "**" + value);
  }
  return "{" + joined(parts, ", ") + "}";
}

std::string compare_text(const Node* node) {
  std::string text = in(node->items[0], 8);
  for (size_t i = 0; i < node->names.size(); i++) text += " " + node->names[i] + " " + in(node->items[i + 1], 8);
  return text;
}

std::string slice_text(const Node* node) {
  // A missing bound is None; a missing step is none.
  const auto part = [&](size_t i) {
    const Node* const item = node->items[i];
    return item == nullptr || (i < 2 && item->kind == Kind::Constant && item->constant == Py_None) ? std::string() : in(item, 1);
  };
  std::string text = part(0) + ":" + part(1);
  if (node->items[2]) text += ":" + part(2);
  return text;
}

std::string index_text(const Node* index) {
  if (index->kind != Kind::Tuple || index->items.empty()) return in(index, index->kind == Kind::Slice ? 0 : 1);
  std::vector<std::string> parts;
  for (const Node* item : index->items) parts.push_back(in(item, item->kind == Kind::Slice ? 0 : 1));
  return joined(parts, ", ") + (parts.size() == 1 ? "," : "");
}

std::string type_parameter_text(const Node* node) {
  std::string text = std::string(static_cast<size_t>(node->number), '*') + node->text;
  if (node->items[0]) text += ": " + in(node->items[0], 1);
  if (node->items[1]) text += " = " + in(node->items[1], 1);
  return text;
}

std::string pattern_text(const Node* node) {
  if (node->items.empty()) return (node->number == 1 ? "*" : "") + (node->text.empty() ? "_" : node->text);
  return expression_text(node->items[0]) + (node->text.empty() ? "" : " as " + node->text);
}

std::string mapping_pattern_text(const Node* node) {
  std::vector<std::string> parts;
  for (size_t i = 0; i + 1 < node->items.size(); i += 2) parts.push_back(expression_text(node->items[i]) + ": " + expression_text(node->items[i + 1]));
  for (const Node* rest : node->last) parts.push_back("**" + rest->text);
  return "{" + joined(parts, ", ") + "}";
}

std::string class_pattern_text(const Node* node) {
  std::vector<std::string> parts;
  const auto positional = static_cast<size_t>(node->number);
  for (size_t i = 1; i < node->items.size(); i++) parts.push_back((i > positional ? node->names.at(i - 1 - positional) + "=" : "") + expression_text(node->items[i]));
  return expression_text(node->items[0]) + "(" + joined(parts, ", ") + ")";
}

std::string or_pattern_text(const Node* node) {
  std::vector<std::string> parts;
  for (const Node* one : node->items) {
    const bool whole = one->text.empty() || one->items.empty();
    parts.push_back(whole ? expression_text(one) : "(" + expression_text(one) + ")");
  }
  return joined(parts, " | ");
}

std::string call_text(const Node* node) {
  if (node->items.size() == 2 && node->items[1]->kind == Kind::Comprehension && node->items[1]->text == "()") {
    return in(node->items[0], 18) + expression_text(node->items[1]);
  }
  return in(node->items[0], 18) + "(" + items_text(node->items, 1) + ")";
}

// a + b + c + ... is as deep as it is long: its left operands are gone down one after the other.
std::string binary_text(const Node* node) {
  const int own = binary_precedence(node->number);
  const bool power = own == 16;  // powers bind from the right, and tighter than a sign on their left
  Nodes chain{const_cast<Node*>(node)};
  while (!power && chain.back()->items[0]->kind == Kind::Binary && binary_precedence(chain.back()->items[0]->number) == own) chain.push_back(chain.back()->items[0]);
  std::string text = in(chain.back()->items[0], power ? 17 : own);
  for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
    text += std::string(" ") + bytecode::kBinarySymbols[(*one)->number % bytecode::kBinaryOps] + " " + in((*one)->items[1], power ? 15 : own + 1);
  }
  return text;
}

std::string list_of(const Nodes& items, const char* between, int least) {
  std::vector<std::string> parts;
  for (const Node* item : items) parts.push_back(in(item, least));
  return joined(parts, between);
}

std::string plain_text(const Node* node);

// How many expressions around one are being written, on this thread.
struct Deeper {
  static thread_local int depth;
  Deeper() {
    if (depth >= kDeepestExpression) throw Refused("expressions nested too deeply");
    depth++;
  }
  ~Deeper() { depth--; }
};
thread_local int Deeper::depth = 0;

std::string plain_text(const Node* node) {
  switch (node->kind) {
    case Kind::Name:
    case Kind::Raw: return node->text;
    case Kind::Constant: return constant_text(node->constant);
    case Kind::Attribute: {
      const Node* const value = node->items[0];
      // 1.real would be a float and a name.
      if (value->kind == Kind::Constant && PyLong_CheckExact(value->constant)) return "(" + expression_text(value) + ")." + node->text;
      return in(value, 18) + "." + node->text;
    }
    case Kind::Subscript: return in(node->items[0], 18) + "[" + index_text(node->items[1]) + "]";
    case Kind::Slice: return slice_text(node);
    case Kind::Call: return call_text(node);
    case Kind::Keyword: return node->text.empty() ? "**" + in(node->items[0], 8) : node->text + "=" + in(node->items[0], 1);
    case Kind::Starred: return "*" + in(node->items[0], 8);
    case Kind::Binary: return binary_text(node);
    case Kind::Unary: return node->text + in(node->items[0], 15);
    case Kind::Not: return "not " + in(node->items[0], 6);
    case Kind::Compare: return compare_text(node);
    case Kind::And: return list_of(node->items, " and ", 6);
    case Kind::Or: return list_of(node->items, " or ", 5);
    case Kind::IfExp: return in(node->items[1], 4) + " if " + in(node->items[0], 4) + " else " + in(node->items[2], 3);
    case Kind::Tuple: return "(" + tuple_items(node) + ")";
    case Kind::List: return "[" + items_text(node->items) + "]";
    case Kind::Set: return node->items.empty() ? "{*()}" : "{" + items_text(node->items) + "}";
    case Kind::Dict: return dict_text(node);
    case Kind::Joined: return joined_text(node);
    case Kind::Formatted: {
      Node whole{.kind = Kind::Joined, .items = {const_cast<Node*>(node)}};
      return joined_text(&whole);
    }
    case Kind::NamedExpr: return node->items[0]->text + " := " + in(node->items[1], 1);
    case Kind::Yield: return node->items[0]->kind == Kind::Constant && node->items[0]->constant == Py_None ? "yield" : "yield " + in(node->items[0], 1);
    case Kind::YieldFrom: return "yield from " + in(node->items[0], 1);
    case Kind::Await: return "await " + in(node->items[0], 18);
    case Kind::Lambda: {
      const std::string parameters = parameters_text(*node);
      return "lambda" + (parameters.empty() ? "" : " " + parameters) + ": " + in(node->body[0], 2);
    }
    case Kind::Comprehension: return comprehension_text(node);
    case Kind::Pattern: return pattern_text(node);
    case Kind::SequencePattern: return "[" + items_text(node->items) + "]";
    case Kind::MappingPattern: return mapping_pattern_text(node);
    case Kind::ClassPattern: return class_pattern_text(node);
    case Kind::OrPattern: return or_pattern_text(node);
    case Kind::TypeParameter: return type_parameter_text(node);
    default: throw Refused(std::string("a value that no expression has: ") + kNames[static_cast<size_t>(node->kind)]);
  }
}

// Writes statements, one level of indentation at a time.
class Writer {
 public:
  std::string text;
  std::vector<Lines>* lines = nullptr;
  std::vector<std::pair<int, int>>* places = nullptr;

  void block(const Nodes& statements, int indent) {
    if (indent > 95) throw Refused("blocks nested too deeply");
    bool any = false;
    for (const Node* statement : statements) {
      write(statement, indent);
      any = any || statement->kind != Kind::Comment;
    }
    if (!any) line(indent, "pass");
  }

  void top(const Nodes& statements, int indent) {
    for (const Node* statement : statements) write(statement, indent);
  }

 private:
  void line(int indent, const std::string& what) {
    text += std::string(4 * static_cast<size_t>(indent), ' ') + what + "\n";
    line_ += 1 + static_cast<int>(std::count(what.begin(), what.end(), '\n'));
  }
  int line_ = 1;

  // The body of a function or class, and on which lines it stands.
  void body(const Node* node, int first, int indent) {
    block(node->body, indent + 1);
    if (lines) lines->push_back({node->constant, first, line_ - 1});
  }

  void write(const Node* node, int indent) {
    if (places && node->from >= 0) places->push_back({node->from, line_});
    switch (node->kind) {
      case Kind::If: return write_if(node, indent, "if ");
      case Kind::While:
        line(indent, "while " + in(node->items[0], 0) + ":");
        block(node->body, indent + 1);
        return otherwise("else:", node->orelse, indent);
      case Kind::For:
        line(indent, std::string(node->number ? "async " : "") + "for " + target(node->items[0]) + " in " + iterable(node->items[1]) + ":");
        block(node->body, indent + 1);
        return otherwise("else:", node->orelse, indent);
      case Kind::With:
        line(indent, (node->number ? "async with " : "with ") + with_items(node) + ":");
        return block(node->body, indent + 1);
      case Kind::Try: return write_try(node, indent);
      case Kind::MatchStatement: return write_match(node, indent);
      case Kind::Lines: return write_lines(node->text, indent);
      case Kind::Function: return write_function(node, indent);
      case Kind::Class: return write_class(node, indent);
      default: line(indent, simple(node));
    }
  }

  static std::string type_parameters(const Node* node) {
    Nodes parameters;
    for (Node* named : node->last) parameters.push_back(named->kind == Kind::NamedExpr ? named->items[1] : named);
    return parameters.empty() ? "" : "[" + items_text(parameters) + "]";
  }

  static std::string with_items(const Node* node) {
    return in(node->items[0], 1) + (node->items[1] ? " as " + target(node->items[1]) : "");
  }

  static std::string iterable(const Node* node) { return in(node, 1); }

  static std::string target(const Node* node) {
    if (node == nullptr) throw Refused("a value that is bound to nothing");
    return node->kind == Kind::Tuple && !node->items.empty() ? "(" + tuple_items(node) + ")" : expression_text(node);
  }

  void otherwise(const char* word, const Nodes& statements, int indent) {
    if (statements.empty()) return;
    line(indent, word);
    block(statements, indent + 1);
  }

  void write_if(const Node* node, int indent, const char* word) {
    for (;;) {
      line(indent, word + in(node->items[0], 0) + ":");
      block(node->body, indent + 1);
      if (node->orelse.size() != 1 || node->orelse[0]->kind != Kind::If) return otherwise("else:", node->orelse, indent);
      node = node->orelse[0];
      word = "elif ";
    }
  }

  void write_lines(const std::string& text, int indent) {
    std::istringstream all(text);
    for (std::string one; std::getline(all, one);) line(indent, one);
  }

  void write_match(const Node* node, int indent) {
    line(indent, "match " + in(node->items[0], 0) + ":");
    for (const Node* one : node->handlers) {
      line(indent + 1, "case " + expression_text(one->items[0]) + (one->items[1] ? " if " + in(one->items[1], 0) : "") + ":");
      block(one->body, indent + 2);
    }
  }

  void write_try(const Node* node, int indent) {
    line(indent, "try:");
    block(node->body, indent + 1);
    if (node->handlers.empty() && node->last.empty()) throw Refused("a try statement without clauses");
    for (const Node* handler : node->handlers) {
      std::string head = node->number ? "except*" : "except";
      if (!handler->items.empty()) head += " " + in(handler->items[0], 1);
      if (!handler->text.empty()) head += " as " + handler->text;
      line(indent, head + ":");
      block(handler->body, indent + 1);
    }
    otherwise("else:", node->orelse, indent);
    otherwise("finally:", node->last, indent);
  }

  void write_decorators(const Node* node, int indent) {
    for (const Node* decorator : node->handlers) line(indent, "@" + in(decorator, 0));
  }

  void write_class(const Node* node, int indent) {
    const int first = line_;
    write_decorators(node, indent);
    line(indent, "class " + node->text + type_parameters(node) + (node->items.empty() ? "" : "(" + items_text(node->items) + ")") + ":");
    body(node, first, indent);
  }

  void write_function(const Node* node, int indent) {
    const auto* const code = reinterpret_cast<const PyCodeObject*>(node->constant);
    const int first = line_;
    write_decorators(node, indent);
    const bool async = (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    std::string head = (async ? "async def " : "def ") + node->text + type_parameters(node) + "(" + parameters_text(*node) + ")";
    if (const Node* const annotation = annotation_of(*node, "return")) head += " -> " + in(annotation, 1);
    line(indent, head + ":");
    body(node, first, indent);
  }

 public:
  static const Node* annotation_of(const Node& function, const std::string& name) {
    const Node* const all = function.items.size() > 2 ? function.items[2] : nullptr;
    for (size_t i = 0; all && i + 1 < all->items.size(); i += 2) {
      if (all->items[i]->text == name) return all->items[i + 1];
    }
    return nullptr;
  }

 private:
  static std::string simple(const Node* node) {
    switch (node->kind) {
      case Kind::Expr: {
        // A string alone would be a docstring or nothing; a named expression wants parentheses.
        return in(node->items[0], node->items[0]->kind == Kind::NamedExpr ? 1 : kYield);
      }
      case Kind::Assign: return assign(node);
      case Kind::AugAssign:
        return expression_text(node->items[0]) + " " + bytecode::kBinarySymbols[node->number % bytecode::kBinaryOps] + "= " + in(node->items[1], kYield);
      case Kind::AnnAssign: {
        const std::string name = node->number ? "(" + expression_text(node->items[0]) + ")" : expression_text(node->items[0]);
        return name + ": " + in(node->items[1], 1) + (node->items.size() > 2 ? " = " + in(node->items[2], kYield) : "");
      }
      case Kind::Return: return node->items.empty() ? "return" : "return " + in(node->items[0], 0);
      case Kind::Delete: return "del " + expression_text(node->items[0]);
      case Kind::Pass: return "pass";
      case Kind::Break: return "break";
      case Kind::Continue: return "continue";
      case Kind::Raise:
        return "raise" + (node->items.empty() ? "" : " " + in(node->items[0], 1)) + (node->items.size() > 1 ? " from " + in(node->items[1], 1) : "");
      case Kind::Assert: return "assert " + in(node->items[0], 1) + (node->items.size() > 1 ? ", " + in(node->items[1], 1) : "");
      case Kind::TypeAlias: return "type " + node->text + type_parameters(node) + " = " + in(node->items[0], 1);
      case Kind::Import: return "import " + node->text + (node->names.empty() ? "" : " as " + node->names[0]);
      case Kind::ImportFrom: return import_from(node);
      case Kind::Global: return "global " + node->text;
      case Kind::Nonlocal: return "nonlocal " + node->text;
      case Kind::Comment: return "# " + node->text;
      default: throw Refused(std::string("instructions that no statement is compiled to: ") + kNames[static_cast<size_t>(node->kind)]);
    }
  }

  static std::string assign(const Node* node) {
    std::string all;
    for (size_t i = 0; i + 1 < node->items.size(); i++) all += bare(node->items[i]) + " = ";
    return all + bare(node->items.back());
  }

  static std::string bare(const Node* node) {
    if (node == nullptr) throw Refused("a value that is bound to nothing");
    return node->kind == Kind::Tuple && !node->items.empty() ? tuple_items(node) : in(node, node->kind == Kind::NamedExpr ? 1 : kYield);
  }

  static std::string import_from(const Node* node) {
    std::string all = "from " + std::string(static_cast<size_t>(node->number), '.') + node->text + " import ";
    for (size_t i = 0; i + 1 < node->names.size(); i += 2) {
      const std::string& name = node->names[i];
      const std::string& bound = node->names[i + 1];
      all += (i ? ", " : "") + name + (bound == name || name == "*" ? "" : " as " + bound);
    }
    return all;
  }
};

}  // namespace

std::string constant_text(PyObject* value) {
  const Deeper deeper;
  if (value == Py_Ellipsis) return "...";
  if (PyTuple_Check(value)) return "(" + sequence_text(value) + ")";
  if (PyFrozenSet_Check(value)) return "{" + sequence_text(value) + "}";
  if (PyFloat_Check(value)) return float_text(value, repr_of(value));
  if (PyComplex_Check(value)) return complex_text(value);
  if (PyUnicode_Check(value) || PyBytes_Check(value) || PyLong_Check(value) || value == Py_None) return repr_of(value);
  throw Refused("a constant that no source text can have: " + std::string(Py_TYPE(value)->tp_name));
}

std::string expression_text(const Node* node) {
  const Deeper deeper;
  if (node == nullptr) throw Refused("a value that is missing");
  return plain_text(node);
}

std::string parameters_text(const Node& function) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(function.constant);
  const Node* const defaults = function.items.empty() ? nullptr : function.items[0];
  const Node* const keywords = function.items.size() > 1 ? function.items[1] : nullptr;
  const auto name = [&](int i) { return text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i)); };
  const auto annotated = [&](int i) {
    const Node* const annotation = Writer::annotation_of(function, name(i));
    return name(i) + (annotation ? ": " + in(annotation, 1) : "");
  };
  std::vector<std::string> parts;
  const int positional = code->co_argcount, all = positional + code->co_kwonlyargcount;
  const int with_default = defaults ? static_cast<int>(defaults->items.size()) : 0;
  for (int i = 0; i < positional; i++) {
    const int number = i - (positional - with_default);
    parts.push_back(annotated(i) + (number >= 0 ? "=" + in(defaults->items[number], 1) : ""));
    if (i + 1 == code->co_posonlyargcount) parts.push_back("/");
  }
  const bool star = (code->co_flags & CO_VARARGS) != 0;
  if (star) parts.push_back("*" + annotated(all));
  else if (code->co_kwonlyargcount) parts.push_back("*");
  for (int i = positional; i < all; i++) {
    std::string part = annotated(i);
    for (size_t k = 0; keywords && k + 1 < keywords->items.size(); k += 2) {
      if (keywords->items[k] && keywords->items[k]->text == name(i)) part += "=" + in(keywords->items[k + 1], 1);
    }
    parts.push_back(part);
  }
  if (code->co_flags & CO_VARKEYWORDS) parts.push_back("**" + annotated(all + star));
  return joined(parts, ", ");
}

std::string statements_text(const Nodes& statements, int indent, std::vector<Lines>* lines, std::vector<std::pair<int, int>>* places) {
  Writer writer;
  writer.lines = lines;
  writer.places = places;
  writer.top(statements, indent);
  return writer.text;
}

std::string name_text(PyObject* name) {
  const char* const characters = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (characters) return characters;
  PyErr_Clear();
  throw Refused("a name that no source text can have");
}

}  // namespace evalframe::decompiler
