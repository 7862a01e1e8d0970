#include "decompiler/bodies.h"

#include <algorithm>
#include <set>

#include "cpython/codec.h"
#include "cpython/intrinsics.h"
#include "cpython/variables.h"
#include "decompiler/compare.h"

namespace evalframe::decompiler {
namespace {

using bytecode::Op;

bool is_function(const PyCodeObject* code) { return (code->co_flags & CO_OPTIMIZED) != 0; }

bool returns_nothing(const Node* statement) {
  return statement->kind == Kind::Return && (statement->items.empty() || (statement->items[0]->kind == Kind::Constant && statement->items[0]->constant == Py_None));
}

bool assigns(const Node* statement, const char* name) {
  return statement->kind == Kind::Assign && statement->items.size() == 2 && statement->items[0]->kind == Kind::Name && statement->items[0]->text == name;
}

void drop_last_return(Nodes& body) {
  if (!body.empty() && returns_nothing(body.back())) body.pop_back();
}

// A way out of the last loop of a module.
void break_at_returns(Tree& tree, Nodes& body) {
  for (Node*& statement : body) {
    if (returns_nothing(statement)) statement = tree.make(Kind::Break);
    if (statement->kind == Kind::While || statement->kind == Kind::For || statement->kind == Kind::Function || statement->kind == Kind::Class) continue;
    for (Nodes* part : {&statement->body, &statement->orelse, &statement->last}) break_at_returns(tree, *part);
    for (Node* const handler : statement->handlers) break_at_returns(tree, handler->body);
  }
}

// Those of a module, in which no `return` can be written: the compiler puts one behind each last statement, in handlers too.
void drop_returns_at_end(Tree& tree, Nodes& body) {
  drop_last_return(body);
  const auto ends = std::find_if(body.begin(), body.end(), [](const Node* one) { return one->kind == Kind::If && one->orelse.empty() && !one->body.empty() && returns_nothing(one->body.back()); });
  if (ends != body.end()) {  // what follows is its else clause
    (*ends)->orelse.assign(ends + 1, body.end());
    body.erase(ends + 1, body.end());
  }
  if (body.empty()) return;
  Node* const last = body.back();
  if ((last->kind == Kind::While || last->kind == Kind::For) && last->orelse.empty()) break_at_returns(tree, last->body);
  const bool goes_on = last->kind == Kind::If || last->kind == Kind::With || (last->kind == Kind::Try && last->last.empty()) || last->kind == Kind::MatchStatement;
  if (!goes_on) return;
  if (last->kind != Kind::Try || last->orelse.empty()) drop_returns_at_end(tree, last->body);
  drop_returns_at_end(tree, last->orelse);
  for (Node* const handler : last->handlers) drop_returns_at_end(tree, handler->body);
}

std::string local(const PyCodeObject* code, int index) { return name_text(PyTuple_GET_ITEM(code->co_localsplusnames, index)); }
// The names of slots up to `end`.
std::vector<std::string> locals(const PyCodeObject* code, int first, int end) {
  std::vector<std::string> names;
  for (int i = first; i < end; i++) names.push_back(local(code, i));
  return names;
}
std::vector<std::string> free_variables(const PyCodeObject* code) { return locals(code, first_free(code), code->co_nlocalsplus); }

bool has_variable(const PyCodeObject* code, int first, const std::string& wanted) {
  const std::vector<std::string> names = locals(code, first, code->co_nlocalsplus);
  return std::find(names.begin(), names.end(), wanted) != names.end();
}

// Names that need `global` and `nonlocal`.
class Declarations {
 public:
  Declarations(PyCodeObject* code, const std::vector<PyCodeObject*>& around) : code_(code), around_(around) {}

  void add_to(Tree& tree, Nodes& body) {
    scan(code_, false);
    if (is_function(code_)) add_unused();
    Nodes lines;
    for (const std::string& name : globals_) lines.push_back(tree.make(Kind::Global, {}, name));
    for (const std::string& name : nonlocals_) lines.push_back(tree.make(Kind::Nonlocal, {}, name));
    body.insert(body.begin(), lines.begin(), lines.end());
  }

 private:
  void scan(PyCodeObject* code, bool comprehension) {
    const bytecode::Code* const decoded = decoded_if_possible(code);
    if (decoded == nullptr) return;
    // A module's comprehension that is no function (3.12) looks other names up as functions do.
    const bool has_comprehensions = std::any_of(decoded->instructions.begin(), decoded->instructions.end(), [](const auto& i) { return i.op == Op::LOAD_FAST_AND_CLEAR; });
    for (const auto& instruction : decoded->instructions) {
      const Op op = instruction.op;
      const bytecode::Argument argument = bytecode::argument_kind(op);
      const Py_ssize_t known = argument == bytecode::Argument::name ? PyTuple_GET_SIZE(code->co_names) : argument == bytecode::Argument::local ? code->co_nlocalsplus : 0;
      if (instruction.arg >= known) continue;  // not one of those below, or damaged
      if (op == Op::STORE_GLOBAL || op == Op::DELETE_GLOBAL) {
        if (!comprehension || is_function(code_)) globals_.insert(name_text(PyTuple_GET_ITEM(code->co_names, instruction.arg)));
      } else if (op == Op::LOAD_GLOBAL && !comprehension) {
        // In a class or module other names are looked up in its namespace first.
        const std::string name = name_text(PyTuple_GET_ITEM(code->co_names, instruction.arg));
        if (is_function(code_) ? is_shadowed(name) : !has_comprehensions) globals_.insert(name);
      } else if ((op == Op::STORE_DEREF || op == Op::DELETE_DEREF) && instruction.arg >= first_free(code)) {
        const std::string name = local(code, instruction.arg);
        if (name == "__class__" && !is_function(code_)) continue;
        if (!comprehension || has_variable(code_, first_free(code_), name)) nonlocals_.insert(name);
      }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
      PyObject* const inner = PyTuple_GET_ITEM(code->co_consts, i);
      if (!PyCode_Check(inner)) continue;
      const std::string name = name_text(reinterpret_cast<PyCodeObject*>(inner)->co_name);
      if (name == "<listcomp>" || name == "<setcomp>" || name == "<dictcomp>" || name == "<genexpr>") scan(reinterpret_cast<PyCodeObject*>(inner), true);
    }
  }

  // `nonlocal x` without a use of x makes a cell, too.
  void add_unused() {
    const bytecode::Code* const decoded = decoded_if_possible(code_);
    std::vector<bool> used(static_cast<size_t>(code_->co_nlocalsplus), decoded == nullptr);
    for (size_t i = 0; decoded && i < decoded->instructions.size(); i++) {
      const auto& instruction = decoded->instructions[i];
      if (bytecode::argument_kind(instruction.op) == bytecode::Argument::local && static_cast<size_t>(instruction.arg) < used.size()) used[static_cast<size_t>(instruction.arg)] = true;
    }
    for (int i = first_free(code_); i < code_->co_nlocalsplus; i++) {
      const std::string name = local(code_, i);
      if (!used[static_cast<size_t>(i)] && PyUnicode_IsIdentifier(PyTuple_GET_ITEM(code_->co_localsplusnames, i)) == 1 && !name.starts_with("__class")) nonlocals_.insert(name);
    }
  }

  // A function around has a variable of that name.
  bool is_shadowed(const std::string& name) const {
    return std::any_of(around_.begin(), around_.end(), [&](const PyCodeObject* code) { return is_function(code) && code != code_ && has_variable(code, 0, name); });
  }

  PyCodeObject* code_;
  const std::vector<PyCodeObject*>& around_;
  std::set<std::string> globals_, nonlocals_;
};

bool has_yield(PyCodeObject* code) {
  const bytecode::Code* const decoded = decoded_if_possible(code);
  // What waits yields, too, but not a value of the generator's.
  const bool async = (code->co_flags & CO_ASYNC_GENERATOR) != 0;
  return decoded && std::any_of(decoded->instructions.begin(), decoded->instructions.end(), [&](const auto& i) { return async ? i.op == Op::ASYNC_GEN_WRAP || (i.op == Op::CALL_INTRINSIC_1 && i.arg == cpython::kAsyncGenWrap) : i.op == Op::YIELD_VALUE; });
}

// Behind what has to come first: the docstring and what is declared.
Nodes::iterator behind_declarations(Nodes& body) {
  const auto comes_first = [](const Node* one) {
    return one->kind == Kind::Global || one->kind == Kind::Nonlocal || one->kind == Kind::Comment || (one->kind == Kind::Expr && one->items[0]->kind == Kind::Constant && PyUnicode_Check(one->items[0]->constant));
  };
  return std::find_if_not(body.begin(), body.end(), comes_first);
}

// A variable that is used and never set: all that sets it has been left out by the compiler, as `x: int` and `if False: x = 1`.
void keep_unset_variables(Tree& tree, PyCodeObject* code, Nodes& body) {
  const bytecode::Code* const decoded = decoded_if_possible(code);
  if (decoded == nullptr) return;
  std::vector<bool> used(static_cast<size_t>(code->co_nlocalsplus)), set(used);
  for (const auto& instruction : decoded->instructions) {
    if (bytecode::argument_kind(instruction.op) != bytecode::Argument::local || instruction.arg >= code->co_nlocalsplus) continue;
    const auto index = static_cast<size_t>(instruction.arg);
    const bool sets = instruction.op == Op::STORE_FAST || instruction.op == Op::STORE_DEREF || instruction.op == Op::DELETE_FAST || instruction.op == Op::DELETE_DEREF || instruction.op == Op::LOAD_FAST_AND_CLEAR;
    (sets ? set : used)[index] = true;
  }
  Node* const all = tree.make(Kind::Assign);
  for (int i = cpython::argument_count(code); i < first_free(code); i++) {
    if (used[static_cast<size_t>(i)] && !set[static_cast<size_t>(i)]) all->items.push_back(tree.make(Kind::Name, {}, local(code, i)));
  }
  if (all->items.empty()) return;
  all->items.push_back(tree.constant(Py_None));
  Node* const never = tree.make(Kind::If, {tree.constant(Py_False)});
  never->body = {tree.make(Kind::Comment, {}, "never run: so that what is never set is a variable of the function, as it was"), all};
  body.insert(behind_declarations(body), never);
}

bool mentions(const Nodes& nodes, const std::string& name) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    if (node == nullptr) return false;
    if (node->kind == Kind::Name && node->text == name) return true;
    return mentions(node->items, name) || mentions(node->body, name) || mentions(node->handlers, name) || mentions(node->orelse, name) || mentions(node->last, name);
  });
}

// A string that the code stores as `__doc__` first of all.
bool begins_with_docstring(const Nodes& body) { return !body.empty() && assigns(body[0], "__doc__") && body[0]->items[1]->kind == Kind::Constant && PyUnicode_Check(body[0]->items[1]->constant); }

}  // namespace

const bytecode::Code* decoded_if_possible(PyCodeObject* code) {
  const bytecode::Code* const decoded = cpython::decoded(code);
  if (decoded == nullptr) PyErr_Clear();
  return decoded;
}

void finish_function(Tree& tree, PyCodeObject* code, const std::vector<PyCodeObject*>& around, Nodes& body) {
  drop_last_return(body);
  keep_unset_variables(tree, code, body);
  if ((code->co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)) && !has_yield(code)) {
    Node* const never = tree.make(Kind::If, {tree.constant(Py_False)});
    never->body = {tree.make(Kind::Expr, {tree.make(Kind::Yield, {tree.constant(Py_None)})})};
    body.push_back(never);
  }
  Declarations(code, around).add_to(tree, body);
  if (PyObject* const docstring = docstring_of(code)) body.insert(body.begin(), tree.make(Kind::Expr, {tree.constant(docstring)}));
}

void finish_class(Tree& tree, PyCodeObject* code, const std::vector<PyCodeObject*>& around, Nodes& body) {
  if (!body.empty() && body.back()->kind == Kind::Return) body.pop_back();
  const auto drop_last = [&](const char* name) {
    if (!body.empty() && assigns(body.back(), name)) body.pop_back();
  };
  drop_last("__classdictcell__");
  drop_last("__classcell__");
  drop_last("__classdictcell__");
  drop_last("__static_attributes__");
  size_t first = 0;
  for (const char* const name : {"__module__", "__qualname__", "__firstlineno__"}) {
    if (first < body.size() && assigns(body[first], name)) first++;
  }
  if (first < body.size() && assigns(body[first], "__type_params__") && body[first]->items[1]->kind == Kind::Name && body[first]->items[1]->text == kTypeParameters) first++;
  body.erase(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(first));
  Node* docstring = nullptr;
  if (begins_with_docstring(body)) {
    docstring = tree.make(Kind::Expr, {body[0]->items[1]});
    body.erase(body.begin());
  }
  Declarations(code, around).add_to(tree, body);
  if (docstring) body.insert(body.begin(), docstring);
}

void finish_module(Tree& tree, PyCodeObject* code, Nodes& body) {
  drop_returns_at_end(tree, body);
  if (begins_with_docstring(body)) body[0] = tree.make(Kind::Expr, {body[0]->items[1]});
  Nodes lines;
  Declarations(code, {}).add_to(tree, lines);
  // Behind what has to come first.
  auto first = body.begin();
  if (!body.empty() && body[0]->kind == Kind::Expr && body[0]->items[0]->kind == Kind::Constant) ++first;
  while (first != body.end() && (*first)->kind == Kind::ImportFrom && (*first)->text == "__future__") ++first;
  body.insert(first, lines.begin(), lines.end());
}

bool keeps_free_variables(PyCodeObject* code, const Nodes& body) {
  const std::vector<std::string> names = free_variables(code);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return mentions(body, name); });
}

void keep_variables(Tree& tree, PyCodeObject* code, Nodes& body) {
  const int first = cpython::argument_count(code);
  std::set<std::string> known;
  Node* const all = tree.make(Kind::Assign);
  for (int i = 0; i < first_free(code); i++) {
    if (known.insert(local(code, i)).second && i >= first) all->items.push_back(tree.make(Kind::Name, {}, local(code, i)));
  }
  Node* const never = tree.make(Kind::If, {tree.constant(Py_False)});
  never->body = {tree.make(Kind::Comment, {}, "never run: so all variables of the function are variables here, in their order")};
  for (const std::string& name : free_variables(code)) {
    if (!mentions(body, name)) never->body.push_back(tree.make(Kind::Expr, {tree.make(Kind::Name, {}, name)}));
  }
  if (!all->items.empty()) {
    all->items.push_back(tree.constant(Py_None));
    never->body.push_back(all);
  }
  if (never->body.size() == 1) return;
  body.insert(behind_declarations(body), never);
}

void finish_lambda(Nodes& body) {
  if (body.size() != 1 || body[0]->kind != Kind::Return || body[0]->items.empty()) throw Refused("a lambda of statements");
  body = {body[0]->items[0]};
}

void finish_comprehension(Nodes& body) {
  if (!body.empty() && body.back()->kind == Kind::Return) body.pop_back();
}

Node* refused_expression(Tree& tree, PyCodeObject* code, const std::string& reason) {
  const Ref text = Ref::steal(PyUnicode_FromString(("evalframe can't decompile this: " + reason).c_str()));
  const Ref quoted = Ref::steal(text ? PyObject_Repr(text.get()) : nullptr);
  Node* const all = tree.make(Kind::Tuple);
  for (const std::string& name : free_variables(code)) all->items.push_back(tree.make(Kind::Name, {}, name));
  all->items.push_back(tree.make(Kind::Raw, {}, "(_ for _ in ()).throw(NotImplementedError(" + name_text(quoted.get()) + "))"));
  return all->items.size() > 1 ? all : all->items[0];
}

Nodes refused_body(Tree& tree, PyCodeObject* code, const std::string& reason) {
  std::string line = reason;
  std::replace(line.begin(), line.end(), '\n', ' ');
  Nodes body{tree.make(Kind::Comment, {}, "evalframe can't decompile this: " + line)};
  // Its variables of functions around it stay so.
  for (const std::string& name : free_variables(code)) {
    if (name != kTypeParameters) body.push_back(tree.make(Kind::Expr, {tree.make(Kind::Name, {}, name)}));
  }
  body.push_back(tree.make(Kind::Raise, {tree.make(Kind::Name, {}, "NotImplementedError")}));
  return body;
}

}  // namespace evalframe::decompiler
