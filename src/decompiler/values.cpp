// What instructions compute, as expressions on a stack of expressions.
#include <algorithm>
#include <iterator>

#include "bytecode/operators.h"
#include "bytecode/stack.h"
#include "core/ref.h"
#include "cpython/intrinsics.h"
#include "cpython/layout.h"
#include "decompiler/reader.h"

namespace evalframe::decompiler {

using bytecode::Instruction, bytecode::Op;
namespace layout = cpython::layout;

namespace {

// Transformed code puts texts together of variables, too.
void check_parts(const Nodes& parts) {
  for (const Node* part : parts) {
    const bool is_text = part->kind == Kind::Constant && PyUnicode_Check(part->constant);
    if (!is_text && part->kind != Kind::Formatted) throw Refused("a text that is put together of other than an f-string's parts");
  }
}

// Whether a dict can be written as keyword arguments.
bool are_keywords(const Node* dict) {
  for (size_t i = 0; i < dict->items.size(); i += 2) {
    const Node* const key = dict->items[i];
    if (key && (key->kind != Kind::Constant || !PyUnicode_Check(key->constant) || PyUnicode_IsIdentifier(key->constant) != 1)) return false;
  }
  return true;
}

// Keywords behind `**mapping` are a dict of their own.
bool has_unpacked(const Node* dict) {
  for (size_t i = 0; i < dict->items.size(); i += 2) if (dict->items[i] == nullptr) return true;
  return false;
}

// The values of a call, its keywords counted twice, that are pushed each for itself.
constexpr size_t kMostPushed = 30;

// Displays of fewer constants are built from each.
constexpr Py_ssize_t kFewestCollected = 3;

PyCodeObject* object(const bytecode::Code& code) { return code.code.as<PyCodeObject>(); }

}  // namespace

Node* Reader::pop(Stack& stack) const {
  if (stack.empty()) throw Refused("the stack runs empty");
  Node* const top = stack.back();
  stack.pop_back();
  return top;
}

Nodes Reader::pop(Stack& stack, size_t count) const {
  if (stack.size() < count) throw Refused("the stack runs empty");
  Nodes taken(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  stack.resize(stack.size() - count);
  return taken;
}

std::string Reader::local(int index) const {
  std::string text = name_text(PyTuple_GET_ITEM(object(code_)->co_localsplusnames, index));
  return text;
}
std::string Reader::global(int index) const { return name_text(PyTuple_GET_ITEM(object(code_)->co_names, index)); }
PyObject* Reader::constant(int index) const { return PyTuple_GET_ITEM(object(code_)->co_consts, index); }

void Reader::step(int node, Stack& stack, Nodes& out) {
  if (step_load(node, stack) || step_operator(node, stack) || step_build(node, stack, out) || step_call(node, stack) ||
      step_store(node, stack, out) || step_wait(node, stack) || step_rest(node, stack, out)) {
    return;
  }
  throw Refused(std::string("the instruction ") + bytecode::name(graph_.at(node).op) + " in a place that isn't understood");
}

bool Reader::step_load(int node, Stack& stack) {
  const Instruction& instruction = graph_.at(node);
  const int arg = instruction.arg;
  switch (instruction.op) {
    case Op::LOAD_CONST: {
      const auto named = constant_names_.find(arg);
      stack.push_back(named == constant_names_.end() ? tree_.constant(constant(arg)) : name(named->second));
      return true;
    }
    case Op::LOAD_FAST:
      // The first iterator of a comprehension is its argument.
      if (local(arg) == ".0") stack.push_back(tree_.make(Kind::Iterator, {name(".0")}, {}, (object(code_)->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0));
      else stack.push_back(name(local(arg)));
      return true;
    case Op::LOAD_FAST_CHECK:
    case Op::LOAD_DEREF:
    case Op::LOAD_CLOSURE:
    case Op::LOAD_CLASSDEREF: stack.push_back(name(local(arg))); return true;
    case Op::LOAD_FAST_AND_CLEAR: stack.push_back(tree_.make(Kind::Saved)); return true;
    case Op::LOAD_FROM_DICT_OR_DEREF: pop(stack); stack.push_back(name(local(arg))); return true;
    case Op::LOAD_FROM_DICT_OR_GLOBALS: pop(stack); stack.push_back(name(global(arg))); return true;
    case Op::LOAD_LOCALS: stack.push_back(tree_.make(Kind::Special)); return true;
    case Op::LOAD_NAME: stack.push_back(name(global(arg))); return true;
    case Op::LOAD_GLOBAL:
      if (instruction.arg2 == 1 && !layout::kGlobalThenNull) stack.push_back(tree_.make(Kind::Null));
      stack.push_back(name(global(arg)));
      if (instruction.arg2 == 1 && layout::kGlobalThenNull) stack.push_back(tree_.make(Kind::Null));
      return true;
    case Op::PUSH_NULL: stack.push_back(tree_.make(Kind::Null)); return true;
    case Op::LOAD_BUILD_CLASS: stack.push_back(tree_.make(Kind::BuildClass)); return true;
    case Op::LOAD_ASSERTION_ERROR: stack.push_back(tree_.make(Kind::AssertionError)); return true;
    case Op::LOAD_ATTR: stack.push_back(tree_.make(Kind::Attribute, {pop(stack)}, global(arg))); return true;
    case Op::LOAD_METHOD:
      stack.push_back(tree_.make(Kind::Attribute, {pop(stack)}, global(arg)));
      stack.push_back(tree_.make(Kind::Self));
      return true;
    case Op::LOAD_SUPER_ATTR: {
      const Nodes parts = pop(stack, 3);
      Node* const super = tree_.make(Kind::Call, {parts[0]});
      if (instruction.arg2 & 2) super->items.insert(super->items.end(), {parts[1], parts[2]});
      stack.push_back(tree_.make(Kind::Attribute, {super}, global(arg)));
      if (instruction.arg2 & 1) stack.push_back(tree_.make(Kind::Self));
      return true;
    }
    case Op::COPY:
      if (arg < 1 || static_cast<size_t>(arg) > stack.size()) throw Refused("the stack runs empty");
      stack.push_back(stack[stack.size() - static_cast<size_t>(arg)]);
      return true;
    case Op::SWAP:
      if (arg < 1 || static_cast<size_t>(arg) > stack.size()) throw Refused("the stack runs empty");
      std::swap(stack.back(), stack[stack.size() - static_cast<size_t>(arg)]);
      return true;
    default: return false;
  }
}

bool Reader::step_operator(int node, Stack& stack) {
  const Instruction& instruction = graph_.at(node);
  const int arg = instruction.arg;
  const auto compare = [&](const char* symbol) {
    Nodes operands = pop(stack, 2);
    Node* const made = tree_.make(Kind::Compare, std::move(operands));
    made->names = {symbol};
    stack.push_back(made);
    return true;
  };
  switch (instruction.op) {
    case Op::UNARY_POSITIVE: stack.push_back(tree_.make(Kind::Unary, {pop(stack)}, "+")); return true;
    case Op::UNARY_NEGATIVE: stack.push_back(tree_.make(Kind::Unary, {pop(stack)}, "-")); return true;
    case Op::UNARY_INVERT: stack.push_back(tree_.make(Kind::Unary, {pop(stack)}, "~")); return true;
    case Op::UNARY_NOT: stack.push_back(tree_.make(Kind::Not, {pop(stack)})); return true;
    case Op::TO_BOOL: return true;
    case Op::BINARY_OP: {
      if (arg >= 2 * bytecode::kBinaryOps) throw Refused("an operator that there isn't");
      Nodes operands = pop(stack, 2);
      stack.push_back(tree_.make(arg >= bytecode::kBinaryOps ? Kind::InPlace : Kind::Binary, std::move(operands), {}, arg));
      return true;
    }
    case Op::COMPARE_OP:
      if (static_cast<size_t>(arg) >= std::size(bytecode::kCompareSymbols)) throw Refused("an operator that there isn't");
      return compare(bytecode::kCompareSymbols[arg]);
    case Op::IS_OP: return compare(arg ? "is not" : "is");
    case Op::CONTAINS_OP: return compare(arg ? "not in" : "in");
    case Op::BINARY_SUBSCR: {
      Nodes operands = pop(stack, 2);
      stack.push_back(tree_.make(Kind::Subscript, std::move(operands)));
      return true;
    }
    case Op::BUILD_SLICE: {
      Nodes parts = pop(stack, arg == 3 ? 3 : 2);
      parts.resize(3, nullptr);
      stack.push_back(tree_.make(Kind::Slice, std::move(parts)));
      return true;
    }
    case Op::BINARY_SLICE: {
      const Nodes parts = pop(stack, 3);
      Node* const slice = tree_.make(Kind::Slice, {parts[1], parts[2], nullptr});
      stack.push_back(tree_.make(Kind::Subscript, {parts[0], slice}));
      return true;
    }
    default: return false;
  }
}

// The values of a constant that a display is extended by.
void Reader::append_elements(Node* collection, Node* value) {
  if (value->kind == Kind::Constant && collection->items.empty() && (PyTuple_Check(value->constant) || PyFrozenSet_Check(value->constant))) {
    const Ref elements = Ref::steal(PySequence_Tuple(value->constant));
    const Py_ssize_t count = elements ? PyTuple_GET_SIZE(elements.get()) : 0;
    for (Py_ssize_t i = 0; count >= kFewestCollected && i < count; i++) collection->items.push_back(tree_.constant(PyTuple_GET_ITEM(elements.get(), i)));
    if (count >= kFewestCollected) return;
  }
  collection->items.push_back(tree_.make(Kind::Starred, {value}));
}

bool Reader::step_build(int node, Stack& stack, Nodes& out) {
  const Instruction& instruction = graph_.at(node);
  const auto count = static_cast<size_t>(instruction.arg);
  const auto below = [&]() -> Node* {
    if (count < 1 || count > stack.size()) throw Refused("the stack runs empty");
    Node*& collection = stack[stack.size() - count];
    if (trying_ > 0) collection = tree_.copy(*collection);
    return collection;
  };
  const auto build = [&](Kind kind) {
    Nodes items = pop(stack, kind == Kind::Dict ? 2 * count : count);
    stack.push_back(tree_.make(kind, std::move(items)));
    return true;
  };
  // A display grows in place; in the loop of a comprehension its element is a statement.
  const auto add = [&](Nodes elements) {
    Node* const collection = below();
    if (count > 1 || (collection->kind != Kind::List && collection->kind != Kind::Set && collection->kind != Kind::Dict)) {
      out.push_back(tree_.make(Kind::Element, std::move(elements)));
    } else {
      collection->items.insert(collection->items.end(), elements.begin(), elements.end());
    }
    return true;
  };
  switch (instruction.op) {
    case Op::BUILD_TUPLE: return build(Kind::Tuple);
    case Op::BUILD_LIST: return build(Kind::List);
    case Op::BUILD_SET: return build(Kind::Set);
    case Op::BUILD_MAP: return build(Kind::Dict);
    case Op::BUILD_CONST_KEY_MAP: {
      const Node* const keys = pop(stack);
      const Nodes values = pop(stack, count);
      Node* const dict = tree_.make(Kind::Dict);
      if (keys->kind != Kind::Constant || !PyTuple_Check(keys->constant) || PyTuple_GET_SIZE(keys->constant) != static_cast<Py_ssize_t>(count)) throw Refused("a dict of keys that aren't a constant");
      for (size_t i = 0; i < count; i++) dict->items.insert(dict->items.end(), {tree_.constant(PyTuple_GET_ITEM(keys->constant, static_cast<Py_ssize_t>(i))), values[i]});
      stack.push_back(dict);
      return true;
    }
    case Op::BUILD_STRING: {
      Nodes parts = pop(stack, count);
      check_parts(parts);
      stack.push_back(tree_.make(Kind::Joined, std::move(parts)));
      return true;
    }
    case Op::LIST_APPEND:
    case Op::SET_ADD: {
      Node* const element = pop(stack);
      return add({element});
    }
    case Op::MAP_ADD: {
      const Nodes pair = pop(stack, 2);
      return add(pair);
    }
    case Op::LIST_EXTEND:
    case Op::SET_UPDATE: {
      Node* const value = pop(stack);
      Node* const collection = below();
      if (collection->kind != Kind::List && collection->kind != Kind::Set) throw Refused("a display that isn't one");
      append_elements(collection, value);
      return true;
    }
    case Op::DICT_UPDATE:
    case Op::DICT_MERGE: {
      Node* const value = pop(stack);
      Node* const collection = below();
      if (collection->kind != Kind::Dict) throw Refused("a display that isn't one");
      if (value->kind == Kind::Dict && !value->items.empty() && (instruction.op == Op::DICT_UPDATE || (has_unpacked(collection) && are_keywords(value)))) collection->items.insert(collection->items.end(), value->items.begin(), value->items.end());
      else collection->items.insert(collection->items.end(), {nullptr, value});
      return true;
    }
    case Op::LIST_TO_TUPLE: {
      stack.push_back(collected(pop(stack)));
      return true;
    }
    case Op::FORMAT_VALUE: {
      Node* const format = instruction.arg & 4 ? pop(stack) : nullptr;
      Node* const value = pop(stack);
      stack.push_back(formatted(value, instruction.arg & 3, format));
      return true;
    }
    case Op::CONVERT_VALUE:
      if (instruction.arg < 1 || instruction.arg > 3) throw Refused("a conversion that there isn't");
      stack.push_back(tree_.make(Kind::Formatted, {pop(stack)}, "converted", instruction.arg));
      return true;
    case Op::FORMAT_SIMPLE: stack.push_back(formatted(pop(stack), 0, nullptr)); return true;
    case Op::FORMAT_WITH_SPEC: {
      const Nodes parts = pop(stack, 2);
      stack.push_back(formatted(parts[0], 0, parts[1]));
      return true;
    }
    default: return false;
  }
}

// The tuple that a list is made.
Node* Reader::collected(Node* list) { return tree_.make(Kind::Tuple, list->kind == Kind::List ? list->items : Nodes{tree_.make(Kind::Starred, {list})}, {}, kCollected); }

Node* Reader::formatted(Node* value, int conversion, Node* format) {
  Node* const made = value->kind == Kind::Formatted && value->text == "converted" ? tree_.make(Kind::Formatted, value->items, {}, value->number)
                                                                                : tree_.make(Kind::Formatted, {value}, {}, conversion);
  if (format && format->kind != Kind::Joined) {
    check_parts({format});
    format = tree_.make(Kind::Joined, {format});
  }
  if (format) made->items.push_back(format);
  return made;
}

bool Reader::step_call(int node, Stack& stack) {
  const Instruction& instruction = graph_.at(node);
  std::vector<std::string> keywords;
  const auto read_names = [&](PyObject* tuple) {
    if (!PyTuple_Check(tuple)) throw Refused("keywords that aren't a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) keywords.push_back(name_text(PyTuple_GET_ITEM(tuple, i)));
  };
  switch (instruction.op) {
    case Op::CALL:
      if (instruction.arg2 >= 0 && layout::kKeywordNamesAreConstant) read_names(constant(instruction.arg2));
      break;
    case Op::CALL_KW: {
      const Node* const names = pop(stack);
      if (names->kind != Kind::Constant) throw Refused("keywords that aren't a constant");
      read_names(names->constant);
      break;
    }
    case Op::CALL_FUNCTION_EX: {
      Node* const keyword_dict = instruction.arg & 1 ? pop(stack) : nullptr;
      Node* const positional = pop(stack);
      const Nodes two = pop(stack, 2);
      Node* const function = two[0]->kind == Kind::Null ? two[1] : two[0];
      stack.push_back(starred_call(function, positional, keyword_dict));
      return true;
    }
    case Op::MAKE_FUNCTION: make_function(node, stack); return true;
    case Op::SET_FUNCTION_ATTRIBUTE: {
      Node* const function = pop(stack);
      set_attribute(function, instruction.arg, pop(stack));
      stack.push_back(function);
      return true;
    }
    default: return false;
  }
  Nodes arguments = pop(stack, static_cast<size_t>(instruction.arg));
  const Nodes two = pop(stack, 2);
  Node* function = two[0]->kind == Kind::Null ? two[1] : two[0];
  if (two[0]->kind != Kind::Null && two[1]->kind != Kind::Null && two[1]->kind != Kind::Self) arguments.insert(arguments.begin(), two[1]);
  // 3.12: [NULL, callable] and [callable, NULL] differ by version, never both.
  const bool bare = two[0]->kind != Kind::Null && two[1]->kind != Kind::Null && two[1]->kind != Kind::Self;
  Node* const made = call(function, std::move(arguments), keywords);
  if (bare && made->kind == Kind::Call) made->number = 1;
  stack.push_back(made);
  return true;
}

Node* Reader::call(Node* function, Nodes arguments, const std::vector<std::string>& keywords) {
  if (keywords.size() > arguments.size()) throw Refused("more keywords than arguments");
  for (size_t i = 0; i < keywords.size(); i++) {
    Node*& argument = arguments[arguments.size() - keywords.size() + i];
    argument = tree_.make(Kind::Keyword, {argument}, keywords[i]);
  }
  return finished_call(function, std::move(arguments));
}

Node* Reader::finished_call(Node* function, Nodes arguments) {
  if (function->kind == Kind::WithExit) return tree_.make(Kind::WithResult);
  if (function->kind == Kind::BuildClass) return class_of(arguments);
  if (function->kind == Kind::TypeScope) return made_by_type_scope(function, arguments);
  if (function->kind == Kind::Comprehension) {
    // A comprehension's function, called with the first iterator.
    if (arguments.size() != 1 || function->body.empty()) throw Refused("a comprehension that is called otherwise than the compiler does");
    Node* const made = tree_.make(Kind::Comprehension, function->items, function->text, function->number);
    for (Node* part : function->body) made->body.push_back(tree_.make(Kind::Generator, part->items, {}, part->number));
    Node* const first = arguments[0];
    made->body[0]->items[1] = first->kind == Kind::Iterator ? first->items[0] : first;
    return made;
  }
  Node* const made = tree_.make(Kind::Call, {function});
  made->items.insert(made->items.end(), arguments.begin(), arguments.end());
  return made;
}

Node* Reader::starred_call(Node* function, Node* positional, Node* keywords) {
  Nodes arguments;
  // f(*(a, b)): of what isn't starred the compiler makes a tuple where there is `**mapping`, or very much.
  const bool alone = keywords == nullptr || (keywords->kind == Kind::Dict && !has_unpacked(keywords) && positional->items.size() + keywords->items.size() <= kMostPushed);
  if (positional->kind == Kind::Tuple && (!alone || positional->number == kCollected)) {
    arguments = positional->items;
  } else if (positional->kind == Kind::Constant && PyTuple_Check(positional->constant) && !alone) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional->constant); i++) arguments.push_back(tree_.constant(PyTuple_GET_ITEM(positional->constant, i)));
  } else {
    arguments.push_back(tree_.make(Kind::Starred, {positional}));
  }
  if (keywords && keywords->kind == Kind::Dict) {
    for (size_t i = 0; i + 1 < keywords->items.size(); i += 2) {
      Node* const key = keywords->items[i];
      const bool named = key && key->kind == Kind::Constant && PyUnicode_Check(key->constant) && PyUnicode_IsIdentifier(key->constant) == 1;
      if (key && !named) throw Refused("keywords that aren't names");
      arguments.push_back(tree_.make(Kind::Keyword, {keywords->items[i + 1]}, key ? name_text(key->constant) : ""));
    }
  } else if (keywords) {
    arguments.push_back(tree_.make(Kind::Keyword, {keywords}));
  }
  return finished_call(function, std::move(arguments));
}

void Reader::make_function(int node, Stack& stack) {
  const Node* const code = pop(stack);
  if (code->kind != Kind::Constant || !PyCode_Check(code->constant)) throw Refused("a function of what isn't a code object");
  const std::string own = name_text(reinterpret_cast<PyCodeObject*>(code->constant)->co_name);
  const bool comprehension = own == "<listcomp>" || own == "<setcomp>" || own == "<dictcomp>" || own == "<genexpr>";
  const bool types = own.starts_with("<generic parameters of ");
  const Kind kind = comprehension ? Kind::Comprehension : types ? Kind::TypeScope : own == "<lambda>" ? Kind::Lambda : Kind::Function;
  Node* const function = tree_.make(kind, {nullptr, nullptr, nullptr}, own);
  function->constant = code->constant;
  if (layout::kMakeFunctionTakesAttributes) {
    for (const int flag : {8, 4, 2, 1}) if (graph_.at(node).arg & flag) set_attribute(function, flag, pop(stack));
  }
  if (comprehension) {
    nested_(function);
    Node* const made = comprehension_of(function->body, own == "<genexpr>" ? nullptr : tree_.make(own == "<listcomp>" ? Kind::List : Kind::Set));
    made->constant = code->constant;
    // One with await in it is awaited itself.
    made->number = (reinterpret_cast<PyCodeObject*>(code->constant)->co_flags & CO_COROUTINE) != 0;
    stack.push_back(made);
    return;
  }
  if (function->kind == Kind::Lambda) nested_(function);
  stack.push_back(function);
}

void Reader::set_attribute(Node* function, int flag, Node* value) {
  if (function->kind != Kind::Function && function->kind != Kind::Lambda) return;
  const auto as_tuple = [&](Node* node) {
    if (node->kind != Kind::Constant || !PyTuple_Check(node->constant)) return node;
    Node* const tuple = tree_.make(Kind::Tuple);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node->constant); i++) tuple->items.push_back(tree_.constant(PyTuple_GET_ITEM(node->constant, i)));
    return tuple;
  };
  if (flag <= 2 && value->kind == Kind::Name && value->text.starts_with(".")) {
    function->items[flag - 1] = value;  // an argument of what makes its type parameters
    return;
  }
  if (flag == 1) {
    function->items[0] = as_tuple(value);
    if (function->items[0]->kind != Kind::Tuple) throw Refused("defaults that aren't a tuple");
  } else if (flag == 2) {
    if (value->kind != Kind::Dict) throw Refused("keyword defaults that aren't a dict");
    for (size_t i = 0; i + 1 < value->items.size(); i += 2) {
      if (value->items[i] && value->items[i]->kind == Kind::Constant && PyUnicode_Check(value->items[i]->constant)) value->items[i]->text = name_text(value->items[i]->constant);
    }
    function->items[1] = value;
  } else if (flag == 4) {
    function->items[2] = annotations_of(as_tuple(value));
  }
}

Node* Reader::annotations_of(Node* value) {
  if (value->kind != Kind::Tuple || value->items.size() % 2 != 0) throw Refused("annotations that aren't a tuple");
  Node* const made = tree_.make(Kind::Tuple, value->items);
  for (size_t i = 0; i < made->items.size(); i += 2) {
    const Node* const key = made->items[i];
    if (key->kind != Kind::Constant || !PyUnicode_Check(key->constant)) throw Refused("annotations that aren't a tuple");
    made->items[i] = tree_.make(Kind::Name, {}, name_text(key->constant));
    Node*& annotation = made->items[i + 1];
    if (annotation->kind == Kind::Slot && annotation->items[0]->body.size() == 1) annotation = tree_.make(Kind::Starred, annotation->items[0]->items);  // *args: *Ts
    if ((object(code_)->co_flags & CO_FUTURE_ANNOTATIONS) && annotation->kind == Kind::Constant && PyUnicode_Check(annotation->constant)) {
      annotation = tree_.make(Kind::Raw, {}, name_text(annotation->constant));
    }
  }
  return made;
}

bool Reader::step_wait(int node, Stack& stack) {
  const Instruction& instruction = graph_.at(node);
  switch (instruction.op) {
    case Op::GET_ITER: stack.push_back(tree_.make(Kind::Iterator, {pop(stack)})); return true;
    case Op::GET_AITER: stack.push_back(tree_.make(Kind::Iterator, {pop(stack)}, {}, 1)); return true;
    case Op::GET_AWAITABLE: stack.push_back(tree_.make(Kind::Awaiting, {pop(stack)}, {}, 1)); return true;
    case Op::GET_YIELD_FROM_ITER: stack.push_back(tree_.make(Kind::Awaiting, {pop(stack)}, {}, 2)); return true;
    case Op::SEND: {
      pop(stack);
      Node* const receiver = pop(stack);
      if (receiver->kind != Kind::Awaiting) throw Refused("a wait for what isn't awaited");
      Node* const value = receiver->items[0];
      Node* const made = value->kind == Kind::WithResult || value->kind == Kind::WithExit || value->kind == Kind::Incoming || (value->kind == Kind::Comprehension && value->number == 1)
                             ? value
                             : tree_.make(receiver->number == 1 ? Kind::Await : Kind::YieldFrom, {value});
      if (!layout::kSendPopsReceiver) stack.push_back(receiver);
      stack.push_back(made);
      return true;
    }
    case Op::END_SEND: {
      Node* const value = pop(stack);
      pop(stack);
      stack.push_back(value);
      return true;
    }
    case Op::ASYNC_GEN_WRAP: return true;
    case Op::YIELD_VALUE: stack.push_back(tree_.make(Kind::Yield, {pop(stack)})); return true;
    case Op::RETURN_GENERATOR: stack.push_back(tree_.make(Kind::Special)); return true;
    default: return false;
  }
}

void Reader::intrinsic(int node, Stack& stack, Nodes& out) {
  switch (graph_.at(node).arg) {
    case cpython::kAsyncGenWrap: return;
    case cpython::kUnaryPositive: stack.push_back(tree_.make(Kind::Unary, {pop(stack)}, "+")); return;
    case cpython::kListToTuple: {
      stack.push_back(collected(pop(stack)));
      return;
    }
    case cpython::kImportStar: {
      Node* const module = pop(stack);
      if (module->kind != Kind::ImportedModule) throw Refused("an import that isn't one");
      Node* const statement = tree_.make(Kind::ImportFrom, {}, module->text, module->number);
      statement->names = {"*", "*"};
      out.push_back(statement);
      stack.push_back(tree_.make(Kind::Special));
      return;
    }
    case cpython::kTypeVar: stack.push_back(type_parameter(pop(stack), 0, nullptr)); return;
    case cpython::kTypeVarTuple: stack.push_back(type_parameter(pop(stack), 1, nullptr)); return;
    case cpython::kParamSpec: stack.push_back(type_parameter(pop(stack), 2, nullptr)); return;
    case cpython::kSubscriptGeneric: return;
    case cpython::kTypeAlias: stack.push_back(type_alias(pop(stack))); return;
    default: throw Refused("an intrinsic function (CALL_INTRINSIC_1 " + std::to_string(graph_.at(node).arg) + ") in a place that isn't understood");
  }
}

void Reader::binary_intrinsic(int node, Stack& stack) {
  const int id = graph_.at(node).arg;
  const Nodes two = pop(stack, 2);
  switch (id) {
    case cpython::kTypeVarWithBound:
    case cpython::kTypeVarWithConstraints: stack.push_back(type_parameter(two[0], 0, evaluated(two[1]))); return;
    case cpython::kSetTypeParameterDefault:
      if (two[0]->kind != Kind::TypeParameter) throw Refused("a default of what isn't a type parameter");
      two[0]->items[1] = evaluated(two[1]);
      stack.push_back(two[0]);
      return;
    case cpython::kSetFunctionTypeParameters:
      if (two[0]->kind != Kind::Function || two[1]->kind != Kind::Tuple) throw Refused("type parameters of what isn't a function");
      two[0]->last = two[1]->items;
      stack.push_back(two[0]);
      return;
    default: throw Refused("an intrinsic function (CALL_INTRINSIC_2 " + std::to_string(id) + ") in a place that isn't understood");
  }
}

Node* Reader::type_parameter(Node* named, int stars, Node* bound) {
  if (named->kind != Kind::Constant || !PyUnicode_Check(named->constant)) throw Refused("a type parameter without a name");
  return tree_.make(Kind::TypeParameter, {bound, nullptr}, name_text(named->constant), stars);
}

// Bounds, defaults and values of `type` statements are functions that are called once they're asked for.
Node* Reader::evaluated(Node* function) {
  if (function->kind != Kind::Function) throw Refused("a value that is evaluated later and isn't a function");
  Node* const expression = tree_.make(Kind::Lambda, {nullptr, nullptr, nullptr}, function->text);
  expression->constant = function->constant;
  nested_(expression);
  return expression->body[0];
}

// (name, type parameters or None, function)
Node* Reader::type_alias(Node* parts) {
  if (parts->kind != Kind::Tuple || parts->items.size() != 3 || parts->items[0]->kind != Kind::Constant || !PyUnicode_Check(parts->items[0]->constant)) throw Refused("a type statement that isn't one");
  Node* const made = tree_.make(Kind::TypeAlias, {evaluated(parts->items[2])}, name_text(parts->items[0]->constant));
  if (parts->items[1]->kind == Kind::Tuple) made->last = parts->items[1]->items;
  return made;
}

// The function, class or type alias that such a code object returns. Defaults of a function are its arguments.
Node* Reader::made_by_type_scope(Node* scope, const Nodes& arguments) {
  nested_(scope);
  const auto* const code = reinterpret_cast<PyCodeObject*>(scope->constant);
  if (scope->body.empty() || scope->body.back()->kind != Kind::Return || scope->body.back()->items.empty()) throw Refused("type parameters of nothing");
  Node* const made = scope->body.back()->items[0];
  if (made->kind == Kind::Class) {
    for (const Node* const statement : scope->body) {
      if (statement->kind == Kind::Assign && statement->items[0]->kind == Kind::Name && statement->items[0]->text == kTypeParameters) made->last = statement->items[1]->items;
    }
    std::erase_if(made->items, [](const Node* base) { return base && base->kind == Kind::Name && base->text == kGenericBase; });
  } else if (made->kind != Kind::Function && made->kind != Kind::TypeAlias) {
    throw Refused("type parameters of what has none");
  }
  if (static_cast<int>(arguments.size()) != code->co_argcount) throw Refused("type parameters with other arguments than the compiler gives");
  if (!arguments.empty() && made->kind != Kind::Function) throw Refused("defaults of what isn't a function");
  for (Node* const argument : arguments) set_attribute(made, argument->kind == Kind::Dict ? 2 : 1, argument);
  return made;
}

}  // namespace evalframe::decompiler
