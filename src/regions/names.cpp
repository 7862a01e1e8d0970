#include "regions/names.h"

#include <algorithm>

#include "bytecode/operators.h"
#include "cpython/attributes.h"
#include "regions/block.h"

namespace evalframe::regions {

using bytecode::Instruction, bytecode::Op;
using guards::Reach, guards::Source;

namespace {

template <typename Is>
std::optional<size_t> find_one(const std::vector<Names::One>& all, Is is) {
  const auto found = std::find_if(all.begin(), all.end(), is);
  return found == all.end() ? std::nullopt : std::optional(static_cast<size_t>(found - all.begin()));
}

// The frame's variable that the source reads.
std::optional<size_t> variable_of(const recorder::Recording& recording, int32_t index, size_t own) {
  const Source& source = recording.guards.sources[static_cast<size_t>(index)];
  const bool is_own = source.reach == Reach::kSlot && source.frame == 0 && static_cast<size_t>(source.index) < own;
  return is_own ? std::optional(static_cast<size_t>(source.index)) : std::nullopt;
}

std::optional<size_t> owner_of(const recorder::Recording& recording, const recorder::Name& into, size_t own) {
  const recorder::Value& owner = recording.values[into.owner];
  if (into.kind != recorder::Name::Kind::kAttribute || owner.kind != recorder::Value::Kind::kSource) return std::nullopt;
  return variable_of(recording, owner.a, own);
}

bool is_text(PyObject* name, const char* text) { return PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, text) == 0; }

}  // namespace

Names Names::copy() const {
  Names names{Ref::borrow(dict.get()), {}};
  for (const One& one : all) names.all.push_back({Ref::borrow(one.name.get()), one.owner});
  return names;
}

std::optional<size_t> Names::find(Borrowed of, Borrowed name) const {
  if (of.get() != dict.get()) return std::nullopt;
  // Names in code are interned.
  return find_one(all, [&](const One& one) { return one.owner == kDict && one.name.get() == name.get(); });
}

std::optional<size_t> Names::find_attribute(size_t owner, Borrowed name) const {
  return find_one(all, [&](const One& one) { return one.owner == owner && one.name.get() == name.get(); });
}

bool Names::has_attribute(Borrowed name) const {
  return find_one(all, [&](const One& one) { return one.owner != kDict && one.name.get() == name.get(); }).has_value();
}

PyObject* Names::value(size_t name, PyObject* const* variables) const {
  const One& one = all[name];
  if (one.owner != kDict) return variables[one.owner] ? cpython::own_value(variables[one.owner], one.name.get()) : nullptr;
  PyObject* const value = PyDict_GetItemWithError(dict.get(), one.name.get());
  if (!value) PyErr_Clear();
  return value;
}

bool Names::store(size_t name, PyObject* const* variables, Borrowed value) const {
  const One& one = all[name];
  if (one.owner != kDict) return PyObject_SetAttr(variables[one.owner], one.name.get(), value.get()) == 0;
  return PyDict_SetItem(dict.get(), one.name.get(), value.get()) == 0;
}

bool Names::are_alone(PyObject* const* variables) const {
  return std::all_of(all.begin(), all.end(), [&](const One& one) {
    PyObject* const owner = one.owner == kDict ? nullptr : variables[one.owner];
    PyObject* const own = owner ? cpython::own_dict(owner) : nullptr;
    return !own || Py_REFCNT(own) == 1;
  });
}

int Names::traverse(visitproc visit, void* arg) const {
  Py_VISIT(dict.get());
  return 0;
}

std::pair<int32_t, int32_t> outermost_loop(const bytecode::Code& code, int32_t instruction) {
  const std::vector<Instruction>& all = code.instructions;
  int32_t first = instruction, last = instruction;
  for (bool grows = true; grows;) {
    grows = false;
    for (auto i = static_cast<int32_t>(all.size()) - 1; i >= first; i--) {
      const int32_t target = all[static_cast<size_t>(i)].target;
      if (target < 0 || target > i || target > last || (target >= first && i <= last)) continue;
      first = std::min(first, target), last = std::max(last, i);
      grows = true;
    }
  }
  return {first, last};
}

Names names_of(const bytecode::Code& code, int32_t instruction, Borrowed globals) {
  if (!PyDict_CheckExact(globals.get())) return {};
  const auto [first, last] = outermost_loop(code, instruction);
  Names names;
  for (int32_t i = first; i <= last; i++) {
    const Instruction& one = code.instructions[static_cast<size_t>(i)];
    if (one.op != Op::STORE_NAME && one.op != Op::STORE_GLOBAL) continue;
    PyObject* const name = PyTuple_GET_ITEM(code.code.as<PyCodeObject>()->co_names, one.arg);
    if (!names.dict) names.dict = Ref::borrow(globals.get());
    if (!names.find(globals, name)) names.all.push_back({Ref::borrow(name)});
  }
  return names;
}

void add_attributes(Names& names, const recorder::Recording& recording, const bytecode::Code& code, PyObject* const* variables) {
  const auto own = static_cast<size_t>(code.code.as<PyCodeObject>()->co_nlocalsplus);
  for (const recorder::Name& into : recording.names) {
    const std::optional<size_t> owner = owner_of(recording, into, own);
    PyObject* const object = owner ? variables[*owner] : nullptr;
    if (!object || PyType_Check(object) || PyModule_Check(object) || names.find_attribute(*owner, into.name.get())) continue;
    if (cpython::is_plain_to_store(object, into.name.get()) && cpython::own_value(object, into.name.get())) names.all.push_back({Ref::borrow(into.name.get()), *owner});
  }
}

std::optional<size_t> Variables::slot_of(const recorder::Recording& recording, int32_t index) const {
  const Source& source = recording.guards.sources[static_cast<size_t>(index)];
  if (source.reach == Reach::kSlot && source.frame == 0) {
    const auto slot = static_cast<size_t>(source.index);
    return slot < own_ ? slot : slot + names_.count();
  }
  if (source.parent < 0 || !source.object) return std::nullopt;
  std::optional<size_t> name;
  if (source.reach == Reach::kAttribute) {
    const std::optional<size_t> owner = variable_of(recording, source.parent, own_);
    if (owner) name = names_.find_attribute(*owner, source.object.get());
  } else if (source.reach == Reach::kItem) {
    const Source& parent = recording.guards.sources[static_cast<size_t>(source.parent)];
    if (parent.reach == Reach::kObject) name = names_.find(parent.object.get(), source.object.get());
  }
  return name ? std::optional(own_ + *name) : std::nullopt;
}

const char* Variables::mistakes(const recorder::Recording& recording) const {
  for (const Source& source : recording.guards.sources) {
    if (source.reach != Reach::kAttribute || !source.object) continue;
    // Objects in two variables are two, where the loop is entered.
    const bool may_be_stored = names_.has_attribute(source.object.get()) && !variable_of(recording, source.parent, own_);
    if (may_be_stored || is_text(source.object.get(), "__dict__")) return "an attribute that may be one that the loop stores into";
  }
  return nullptr;
}

std::vector<uint32_t> Variables::with_names(const std::vector<uint32_t>& slots) const {
  std::vector<uint32_t> all = slots;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(own_), names_.count(), kKept);
  return all;
}

std::vector<uint32_t> Variables::initial(const recorder::Recording& recording) const { return with_names(recording.initial[0]); }

// total += row
bool Variables::is_changed_in_place(const recorder::Recording& recording, size_t slot, uint32_t value) const {
  using graph::Form, graph::Operand;
  const recorder::Value& last = recording.values[value];
  if (last.kind != recorder::Value::Kind::kNode) return false;
  Operand from = Operand::node(last.a);
  while (from.space == Operand::Space::kNode) {
    const graph::Node& node = recording.graph.nodes[static_cast<size_t>(from.index)];
    if (node.form != Form::kBinary || node.code < bytecode::kBinaryOps || node.meta.kind != graph::Kind::kArray) return false;
    from = recording.graph.operands_of(node)[0];
  }
  return from.space == Operand::Space::kInput && slot_of(recording, recording.input_sources[static_cast<size_t>(from.index)]) == slot;
}

std::vector<uint32_t> Variables::values_at(const recorder::Recording& recording, int32_t node) const {
  std::vector<uint32_t> all = with_names(recording.state_at(node)[0].slots);
  const std::vector<uint32_t> before = initial(recording);
  for (size_t slot = 0; slot < std::min(own_, before.size()); slot++) {
    if (all[slot] != before[slot] && is_changed_in_place(recording, slot, all[slot])) all[slot] = before[slot];
  }
  for (const recorder::PendingStore& store : recording.stores_at(node)) {
    const recorder::Name& into = recording.names[static_cast<size_t>(store.name)];
    if (into.kind == recorder::Name::Kind::kAppend) continue;
    const std::optional<size_t> owner = owner_of(recording, into, own_);
    std::optional<size_t> name = owner ? names_.find_attribute(*owner, into.name.get()) : std::nullopt;
    if (into.kind == recorder::Name::Kind::kName) name = names_.find(into.dict.get(), into.name.get());
    if (!name) throw Unsupported("a store into an attribute, a name or an item of a container");
    if (!is_changed_in_place(recording, own_ + *name, store.value)) all[own_ + *name] = store.value;
  }
  return all;
}

std::vector<recorder::PendingStore> appended_at(const recorder::Recording& recording, int32_t node) {
  std::vector<recorder::PendingStore> all = recording.stores_at(node);
  std::erase_if(all, [&](const recorder::PendingStore& store) { return recording.names[static_cast<size_t>(store.name)].kind != recorder::Name::Kind::kAppend; });
  return all;
}

}  // namespace evalframe::regions
