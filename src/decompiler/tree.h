// The syntax tree that code is read into, before it is written as source.
#pragma once

#include <Python.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::decompiler {

enum class Kind : uint8_t {
#define EVALFRAME_EXPRESSION(kind, precedence) kind,
#define EVALFRAME_STATEMENT(kind) kind,
#define EVALFRAME_MARKER(kind) kind,
#include "decompiler/kinds.def"
#undef EVALFRAME_EXPRESSION
#undef EVALFRAME_STATEMENT
#undef EVALFRAME_MARKER
};

struct Node;
using Nodes = std::vector<Node*>;

// What the fields mean depends on the kind: see the table.
struct Node {
  Kind kind;
  int number = 0;
  int from = -1;                  // a statement of a state machine: the instruction at which it was written
  int order = 0;                  // when it was made: values are made in the order in which they're evaluated
  PyObject* constant = nullptr;   // owned by the code object that is read
  std::string text;
  std::vector<std::string> names;
  Nodes items, body, handlers, orelse, last;
  bytecode::Position at;
};

// Owns the nodes.
class Tree {
 public:
  Node* make(Kind kind, Nodes items = {}, std::string text = {}, int number = 0) {
    Node& node = nodes_.emplace_back();
    node.kind = kind;
    node.number = number;
    node.order = static_cast<int>(nodes_.size());
    node.text = std::move(text);
    node.items = std::move(items);
    return &node;
  }
  Node* copy(const Node& node) { return &nodes_.emplace_back(node); }
  Node* constant(PyObject* value) {
    Node* node = make(Kind::Constant);
    node->constant = value;
    return node;
  }

 private:
  std::deque<Node> nodes_;
};

// Variables of the compiler's own in the code that makes what has type parameters.
constexpr const char* kGenericBase = ".generic_base";
constexpr const char* kTypeParameters = ".type_params";

// Of an `and` or `or` inside of another: the two begin on different lines.
constexpr int kOnItsOwnLine = 1;

// Of a tuple: the compiler has collected its items in a list.
constexpr int kCollected = 1;

// Why a code object can't be written as source.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Refused where no source text can have the name.
std::string name_text(PyObject* name);

}  // namespace evalframe::decompiler
