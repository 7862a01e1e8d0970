#include "codegen/builder.h"

#include <algorithm>

#include "bytecode/verify.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "cpython/layout.h"
#include "cpython/variables.h"

namespace evalframe::codegen {

using bytecode::Argument;
using bytecode::Instruction;
using bytecode::Op;

namespace {

// Slots of new variables while code is made.
constexpr int32_t kNew = 1 << 24;

std::vector<Ref> items(PyObject* tuple) {
  std::vector<Ref> all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) all.push_back(Ref::borrow(PyTuple_GET_ITEM(tuple, i)));
  return all;
}

Ref tuple_of(const std::vector<Ref>& objects) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (size_t i = 0; tuple && i < objects.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, Ref::borrow(objects[i].get()).release());
  return tuple;
}

}  // namespace

Ref text_object(const std::string& text) { return Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))); }

Ref replaced(Borrowed code, std::vector<std::pair<const char*, Ref>> changes) {
  Ref keywords = Ref::steal(PyDict_New()), none = Ref::steal(PyTuple_New(0));
  const Ref replace = Ref::steal(PyObject_GetAttrString(code.get(), "replace"));
  if (!keywords || !none || !replace) return Ref();
  for (const auto& [name, value] : changes) {
    if (!value || PyDict_SetItemString(keywords.get(), name, value.get()) < 0) return Ref();
  }
  return Ref::steal(PyObject_Call(replace.get(), none.get(), keywords.get()));
}

std::vector<std::string> variable_names(Borrowed code) {
  std::vector<std::string> names;
  for (int i = 0; i < cpython::variable_count(code); i++) {
    names.emplace_back(utf8(cpython::variable_name(code, i)));
  }
  return names;
}

std::string unlike(std::string wanted, const std::vector<std::string>& others) {
  while (std::find(others.begin(), others.end(), wanted) != others.end()) wanted += "_";
  return wanted;
}

Builder::Builder(Ref base) : base_(std::move(base)) {
  const auto* object = base_.as<PyCodeObject>();
  constants_ = items(object->co_consts);
  names_ = items(object->co_names);
  locals_ = object->co_nlocals;
}

int32_t Builder::emit(Op op, int32_t arg, int32_t arg2) {
  Instruction instruction;
  instruction.op = op;
  instruction.arg = arg;
  instruction.arg2 = arg2;
  return emit(instruction);
}

int32_t Builder::emit(Instruction instruction) {
  instruction.offset = instruction.end = -1;
  code_.instructions.push_back(instruction);
  code_.positions.push_back(position_);
  return next() - 1;
}

int32_t Builder::constant(Borrowed object) {
  for (size_t i = 0; i < constants_.size(); i++) {
    if (constants_[i].get() == object.get()) return static_cast<int32_t>(i);
  }
  constants_.push_back(Ref::borrow(object));
  return static_cast<int32_t>(constants_.size()) - 1;
}

int32_t Builder::name(const char* text) { return name(Borrowed(Ref::steal(PyUnicode_InternFromString(text)).get())); }

int32_t Builder::name(Borrowed text) {
  for (size_t i = 0; i < names_.size(); i++) {
    if (PyUnicode_Compare(names_[i].get(), text.get()) == 0) return static_cast<int32_t>(i);
  }
  names_.push_back(Ref::borrow(text));
  return static_cast<int32_t>(names_.size()) - 1;
}

int32_t Builder::variable(const std::string& wanted) {
  std::vector<std::string> others = variable_names(base_.get());
  others.insert(others.end(), variables_.begin(), variables_.end());
  variables_.push_back(unlike(wanted, others));
  return kNew + static_cast<int32_t>(variables_.size()) - 1;
}

bool Builder::take_back_store(int32_t slot) {
  if (code_.instructions.empty()) return false;
  const Instruction& last = code_.instructions.back();
  if (last.op != Op::STORE_FAST || last.arg != slot) return false;
  code_.instructions.pop_back();
  code_.positions.pop_back();
  const bool is_last = slot == kNew + static_cast<int32_t>(variables_.size()) - 1;
  const bool used = std::any_of(code_.instructions.begin(), code_.instructions.end(), [&](const Instruction& each) {
    return bytecode::argument_kind(each.op) == Argument::local && each.arg == slot;
  });
  if (is_last && !used) variables_.pop_back();
  return true;
}

void Builder::load_cell(int32_t slot) { emit(cpython::layout::kLoadFastLoadsCells ? Op::LOAD_FAST : Op::LOAD_CLOSURE, slot); }

void Builder::begin_call() {
  if (!cpython::layout::kSelfAfterCallable) emit(Op::PUSH_NULL);
}

void Builder::end_callable() {
  if (cpython::layout::kSelfAfterCallable) emit(Op::PUSH_NULL);
}

// New variables stand behind the other locals, before cells and free variables.
int32_t Builder::final_slot(int32_t slot) const {
  if (slot >= kNew) return locals_ + slot - kNew;
  return slot < locals_ ? slot : slot + static_cast<int32_t>(variables_.size());
}

Ref Builder::base_with_variables() const {
  if (variables_.empty()) return Ref::borrow(base_.get());
  const Ref present = Ref::steal(PyCode_GetVarnames(base_.as<PyCodeObject>()));
  if (!present) return Ref();
  std::vector<Ref> all = items(present.get());
  for (const std::string& name : variables_) {
    all.push_back(text_object(name));
    if (!all.back()) return Ref();
  }
  std::vector<std::pair<const char*, Ref>> changes;
  changes.emplace_back("co_nlocals", Ref::steal(PyLong_FromSize_t(all.size())));
  changes.emplace_back("co_varnames", tuple_of(all));
  return replaced(base_.get(), std::move(changes));
}

Ref Builder::finish() {
  Ref base = base_with_variables();
  const Ref constants = tuple_of(constants_), names = tuple_of(names_);
  if (!base || !constants || !names) return Ref();
  for (Instruction& instruction : code_.instructions) {
    if (bytecode::argument_kind(instruction.op) == Argument::local) instruction.arg = final_slot(instruction.arg);
  }
  std::sort(code_.regions.begin(), code_.regions.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  code_.code = base.get();
  code_.keep_alive = std::move(base);
  bytecode::StackDepths depths;
  if (const auto problem = bytecode::verify(code_, {constants.get(), names.get()}, depths)) {
    PyErr_Format(PyExc_SystemError, "evalframe made code that it refuses itself: %s", bytecode::describe(code_, *problem).c_str());
    return Ref();
  }
  return cpython::encode(code_, {constants.get(), names.get(), depths.maximum});
}

}  // namespace evalframe::codegen
