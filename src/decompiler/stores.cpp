// What instructions bind, delete, return and raise, as statements.
#include <algorithm>
#include <string_view>

#include "bytecode/operators.h"
#include "core/ref.h"
#include "decompiler/reader.h"

namespace evalframe::decompiler {

using bytecode::Instruction, bytecode::Op;

namespace {

bool structural(Kind kind) {
  return kind == Kind::Iterator || kind == Kind::WithExit || kind == Kind::Saved || kind == Kind::Exception || kind == Kind::Special;
}

}  // namespace

// Values on the stack that a statement has yet to use.
size_t Reader::pending(const Stack& stack) const {
  size_t count = 0;
  for (size_t i = floor_; i < stack.size(); i++) count += structural(stack[i]->kind) ? 0 : 1;
  return count;
}

bool Reader::step_store(int node, Stack& stack, Nodes& out) {
  const Instruction& instruction = graph_.at(node);
  const int arg = instruction.arg;
  const auto bind = [&](Node* target) {
    Node* const value = pop(stack);
    const int next = graph_.next[node];
    if (value->kind == Kind::Constant && value->constant == Py_None && next >= 0 && target->kind == Kind::Name && graph_.at(next).arg == arg &&
        std::string_view(bytecode::name(graph_.at(next).op)).starts_with("DELETE_")) {
      // The end of `except E as target`, where a value to return may wait.
      out.push_back(tree_.make(Kind::Assign, {target, value}));
      return true;
    }
    assign(target, value, stack, out);
    return true;
  };
  const auto remove = [&](Node* target) {
    out.push_back(tree_.make(Kind::Delete, {target}));
    return true;
  };
  switch (instruction.op) {
    case Op::STORE_FAST:
    case Op::STORE_DEREF: return bind(name(local(arg)));
    case Op::STORE_NAME:
    case Op::STORE_GLOBAL: return bind(name(global(arg)));
    case Op::STORE_ATTR: {
      Node* const object = pop(stack);
      return bind(tree_.make(Kind::Attribute, {object}, global(arg)));
    }
    case Op::STORE_SUBSCR: {
      const Nodes parts = pop(stack, 2);
      if (!stack.empty() && annotated_assignment(parts[0], parts[1], stack.back(), out)) {
        stack.pop_back();
        return true;
      }
      return bind(tree_.make(Kind::Subscript, parts));
    }
    case Op::STORE_SLICE: {
      const Nodes parts = pop(stack, 3);
      return bind(tree_.make(Kind::Subscript, {parts[0], tree_.make(Kind::Slice, {parts[1], parts[2], nullptr})}));
    }
    case Op::UNPACK_SEQUENCE:
    case Op::UNPACK_EX: {
      const bool starred = instruction.op == Op::UNPACK_EX;
      const int before = arg & 0xFF, count = starred ? before + 1 + (arg >> 8) : arg;
      if (count > 100'000) throw Refused("it unpacks too many values");
      Node* const unpack = tree_.make(Kind::Unpack, {pop(stack)}, {}, starred ? before : -1);
      unpack->body.assign(static_cast<size_t>(count), nullptr);
      for (int i = count - 1; i >= 0; i--) stack.push_back(tree_.make(Kind::Slot, {unpack}, {}, i));
      if (count == 0) {
        Node* const value = unpack->items[0];
        assign(tree_.make(Kind::List), value, stack, out);
      }
      return true;
    }
    case Op::DELETE_FAST:
    case Op::DELETE_DEREF: return remove(name(local(arg)));
    case Op::DELETE_NAME:
    case Op::DELETE_GLOBAL: return remove(name(global(arg)));
    case Op::DELETE_ATTR: return remove(tree_.make(Kind::Attribute, {pop(stack)}, global(arg)));
    case Op::DELETE_SUBSCR: return remove(tree_.make(Kind::Subscript, pop(stack, 2)));
    default: return false;
  }
}

// __annotations__['x'] = int, behind x = 1 if there is a value.
bool Reader::annotated_assignment(Node* object, Node* index, Node* value, Nodes& out) {
  if (object->kind != Kind::Name || object->text != "__annotations__" || index->kind != Kind::Constant || !PyUnicode_Check(index->constant)) return false;
  if (value->kind == Kind::Constant && PyUnicode_Check(value->constant) && (code_.code.as<PyCodeObject>()->co_flags & CO_FUTURE_ANNOTATIONS)) {
    value = tree_.make(Kind::Raw, {}, name_text(value->constant));
  }
  const std::string bound = name_text(index->constant);
  Node* const previous = out.empty() ? nullptr : out.back();
  if (previous && previous->kind == Kind::Assign && previous->items.size() == 2 && previous->items[0]->kind == Kind::Name && previous->items[0]->text == bound) {
    out.back() = tree_.make(Kind::AnnAssign, {previous->items[0], value, previous->items[1]});
  } else {
    out.push_back(tree_.make(Kind::AnnAssign, {name(bound), value}));
  }
  return true;
}

void Reader::assign(Node* target, Node* value, Stack& stack, Nodes& out) {
  switch (value->kind) {
    case Kind::Incoming: value->items = {target}; return;
    case Kind::Slot: return assign_slot(target, value, stack, out);
    case Kind::Saved: return;
    case Kind::Exception: out.push_back(tree_.make(Kind::BindException, {}, target->text)); return;
    case Kind::ImportedModule: {
      if (!stack.empty() && stack.back() == value) break;
      Node* const statement = tree_.make(Kind::Import, {}, value->text);
      const std::string first = value->text.substr(0, value->text.find('.'));
      if (target->text != first || !value->names.empty()) statement->names = {target->text};
      out.push_back(statement);
      return;
    }
    case Kind::ImportedName: {
      Node* const module = value->items[0];
      if (!stack.empty() && stack.back() == module && module->constant != nullptr && module->constant != Py_None) {
        module->names.insert(module->names.end(), {value->text, target->text});
        return;
      }
      // import a.b.c as target
      Node* const statement = tree_.make(Kind::Import, {}, module->text);
      statement->names = {target->text};
      out.push_back(statement);
      return;
    }
    default: break;
  }
  if (target->kind == Kind::Name && (target->text == kGenericBase || (value->kind == Kind::Special && target->text == "__classdict__"))) return;
  if (!stack.empty() && stack.back() == value) {
    // The value is used once more: a = b = value, or f(name := value).
    stack.back() = tree_.make(Kind::NamedExpr, {target, value});
    return;
  }
  if (Node* const defined = definition(target, value)) {
    out.push_back(defined);
    return;
  }
  if (value->kind == Kind::InPlace && pending(stack) == 0) {
    out.push_back(tree_.make(Kind::AugAssign, {target, value->items[1]}, {}, value->number));
    return;
  }
  if (pending(stack) > 0 || !several_.empty()) {
    several_.push_back({target, value});
    if (pending(stack) == 0) assign_several(out);
    return;
  }
  Node* const statement = tree_.make(Kind::Assign);
  for (; value->kind == Kind::NamedExpr; value = value->items[1]) statement->items.insert(statement->items.begin(), value->items[0]);
  statement->items.insert(statement->items.end(), {target, value});
  out.push_back(statement);
}

// a, b = x, y: without a tuple, values are stored in some order; they were computed in that of the source.
void Reader::assign_several(Nodes& out) {
  std::stable_sort(several_.begin(), several_.end(), [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  Node* const targets = tree_.make(Kind::Tuple);
  Node* const values = tree_.make(Kind::Tuple);
  for (const auto& [target, value] : several_) {
    targets->items.push_back(target);
    values->items.push_back(value);
  }
  several_.clear();
  out.push_back(tree_.make(Kind::Assign, {targets, values}));
}

void Reader::assign_slot(Node* target, Node* slot, Stack& stack, Nodes& out) {
  Node* const unpack = slot->items[0];
  if (unpack->number == slot->number) target = tree_.make(Kind::Starred, {target});
  unpack->body[static_cast<size_t>(slot->number)] = target;
  if (std::find(unpack->body.begin(), unpack->body.end(), nullptr) != unpack->body.end()) return;
  for (size_t i = unpack->body.size() - 1; i-- > 0;) {
    Node*& own = unpack->body[i];
    Node* const next = unpack->body[i + 1];
    const bool starred = own->kind == Kind::Starred;
    if ((starred ? own->items[0] : own)->kind != Kind::Incoming) continue;
    Node* const named = next->kind == Kind::Starred ? next->items[0] : next;
    own = starred ? tree_.make(Kind::Starred, {named}) : named;
  }
  assign(tree_.make(Kind::Tuple, unpack->body), unpack->items[0], stack, out);
}

// def and class statements: what is bound is a function or class of that name, or what decorators made of one.
Node* Reader::definition(Node* target, Node* value) {
  if (target->kind != Kind::Name) return nullptr;
  Nodes decorators;
  while (value->kind == Kind::Call && value->number == 1 && value->items.size() == 2) {
    decorators.push_back(value->items[0]);
    value = value->items[1];
  }
  if (value->kind == Kind::TypeAlias && target->text == value->text && decorators.empty()) return value;
  if (value->kind != Kind::Function && value->kind != Kind::Class) return nullptr;
  if (target->text != value->text && !(value->text.starts_with("__") && target->text.ends_with(value->text))) return nullptr;
  value->handlers = decorators;
  nested_(value);
  return value;
}

Node* Reader::class_of(const Nodes& items) {
  if (items.size() < 2 || items[0]->kind != Kind::Function || items[1]->kind != Kind::Constant || !PyUnicode_Check(items[1]->constant)) throw Refused("a class that isn't made as the compiler does");
  Node* const made = tree_.make(Kind::Class, Nodes(items.begin() + 2, items.end()), name_text(items[1]->constant));
  made->constant = items[0]->constant;
  return made;
}

// What POP_TOP takes away.
void Reader::drop(Node* value, Stack& stack, Nodes& out) {
  if (structural(value->kind)) return;
  switch (value->kind) {
    case Kind::Slot:
      // a, _, _ = value: of two stores in a row into one variable only the last is left.
      assign_slot(tree_.make(Kind::Incoming), value, stack, out);
      return;
    case Kind::Incoming:
    case Kind::WithResult:
    case Kind::Null:
    case Kind::ImportedName: return;
    case Kind::ImportedModule: {
      if (value->names.empty()) return;
      Node* const statement = tree_.make(Kind::ImportFrom, {}, value->text, value->number);
      statement->names = value->names;
      out.push_back(statement);
      return;
    }
    default: break;
  }
  if (!stack.empty() && stack.back() == value) return;
  if (value->kind == Kind::Constant) {
    // The compiler leaves a constant alone out; one that is matched with anything stays.
    Node* const match = tree_.make(Kind::MatchStatement, {value});
    match->handlers = {tree_.make(Kind::Case, {tree_.make(Kind::Pattern), nullptr})};
    out.push_back(match);
    return;
  }
  out.push_back(tree_.make(Kind::Expr, {value}));
}

bool Reader::step_rest(int node, Stack& stack, Nodes& out) {
  const Instruction& instruction = graph_.at(node);
  switch (instruction.op) {
    case Op::POP_TOP: {
      Node* const value = pop(stack);
      drop(value, stack, out);
      return true;
    }
    case Op::RETURN_VALUE: out.push_back(tree_.make(Kind::Return, {pop(stack)})); return true;
    case Op::RETURN_CONST: out.push_back(tree_.make(Kind::Return, {tree_.constant(constant(instruction.arg))})); return true;
    case Op::RAISE_VARARGS: {
      Nodes items = pop(stack, static_cast<size_t>(instruction.arg));
      if (items.size() == 1 && (items[0]->kind == Kind::AssertionError || (items[0]->kind == Kind::Call && items[0]->items[0]->kind == Kind::AssertionError && items[0]->items.size() == 2))) {
        Node* const assertion = tree_.make(Kind::Assert, {tree_.constant(Py_False)});
        if (items[0]->kind == Kind::Call) assertion->items.push_back(items[0]->items[1]);
        out.push_back(assertion);
        return true;
      }
      out.push_back(tree_.make(Kind::Raise, std::move(items)));
      return true;
    }
    case Op::RERAISE: out.push_back(tree_.make(Kind::Reraise)); return true;
    case Op::PUSH_EXC_INFO:
      if (stack.empty()) throw Refused("the stack runs empty");
      stack.insert(stack.end() - 1, tree_.make(Kind::Saved));
      return true;
    case Op::POP_EXCEPT: pop(stack); return true;
    case Op::CHECK_EXC_MATCH: {
      Node* const type = pop(stack);
      stack.push_back(tree_.make(Kind::Match, {type}));
      return true;
    }
    case Op::IMPORT_NAME: {
      Node* const names = pop(stack);
      const Node* const level = pop(stack);
      if (level->kind != Kind::Constant || !PyLong_Check(level->constant) || names->kind != Kind::Constant) throw Refused("an import that isn't one");
      int overflow = 0;
      const long dots = PyLong_AsLongAndOverflow(level->constant, &overflow);
      if (overflow || dots < 0 || dots > 200) throw Refused("an import that isn't one");
      Node* const module = tree_.make(Kind::ImportedModule, {}, global(instruction.arg), static_cast<int>(dots));
      module->constant = names->constant;
      stack.push_back(module);
      return true;
    }
    case Op::IMPORT_FROM: {
      if (stack.empty()) throw Refused("the stack runs empty");
      Node* module = stack.back();
      if (module->kind == Kind::ImportedName) module = module->items[0];
      if (module->kind != Kind::ImportedModule) throw Refused("an import that isn't one");
      stack.push_back(tree_.make(Kind::ImportedName, {module}, global(instruction.arg)));
      return true;
    }
    case Op::IMPORT_STAR: {
      Node* const module = pop(stack);
      if (module->kind != Kind::ImportedModule) throw Refused("an import that isn't one");
      Node* const statement = tree_.make(Kind::ImportFrom, {}, module->text, module->number);
      statement->names = {"*", "*"};
      out.push_back(statement);
      return true;
    }
    case Op::SETUP_ANNOTATIONS: return true;
    case Op::CALL_INTRINSIC_1: intrinsic(node, stack, out); return true;
    case Op::CALL_INTRINSIC_2: binary_intrinsic(node, stack); return true;
    case Op::END_FOR: return true;
    case Op::JUMP_BACKWARD:
    case Op::JUMP_FORWARD:
    case Op::JUMP_BACKWARD_NO_INTERRUPT: return true;  // to itself
    default: return false;
  }
}

}  // namespace evalframe::decompiler
