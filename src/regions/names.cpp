#include "regions/names.h"

#include <algorithm>

#include "regions/block.h"

namespace evalframe::regions {

using bytecode::Instruction, bytecode::Op;
using guards::Reach, guards::Source;

std::optional<size_t> Names::find(Borrowed of, Borrowed name) const {
  if (of.get() != dict.get()) return std::nullopt;
  // Names in code are interned.
  const auto found = std::find_if(names.begin(), names.end(), [&](const Ref& one) { return one.get() == name.get(); });
  return found == names.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names.begin()));
}

PyObject* Names::value(size_t name) const {
  PyObject* const value = PyDict_GetItemWithError(dict.get(), names[name].get());
  if (!value) PyErr_Clear();
  return value;
}

int Names::traverse(visitproc visit, void* arg) const {
  Py_VISIT(dict.get());
  return 0;
}

Names names_of(const bytecode::Code& code, int32_t instruction, Borrowed globals) {
  if (!PyDict_CheckExact(globals.get())) return {};
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
  Names names;
  for (int32_t i = first; i <= last; i++) {
    const Instruction& one = all[static_cast<size_t>(i)];
    if (one.op != Op::STORE_NAME && one.op != Op::STORE_GLOBAL) continue;
    PyObject* const name = PyTuple_GET_ITEM(code.code.as<PyCodeObject>()->co_names, one.arg);
    if (!names.dict) names.dict = Ref::borrow(globals.get());
    if (!names.find(globals, name)) names.names.push_back(Ref::borrow(name));
  }
  return names;
}

std::optional<size_t> Variables::slot_of(const recorder::Recording& recording, int32_t index) const {
  const Source& source = recording.guards.sources[static_cast<size_t>(index)];
  if (source.reach == Reach::kSlot && source.frame == 0) {
    const auto slot = static_cast<size_t>(source.index);
    return slot < own_ ? slot : slot + names_.count();
  }
  if (source.reach != Reach::kItem || source.parent < 0 || !source.object) return std::nullopt;
  const Source& parent = recording.guards.sources[static_cast<size_t>(source.parent)];
  if (parent.reach != Reach::kObject) return std::nullopt;
  const std::optional<size_t> name = names_.find(parent.object.get(), source.object.get());
  return name ? std::optional(own_ + *name) : std::nullopt;
}

std::vector<uint32_t> Variables::with_names(const std::vector<uint32_t>& slots) const {
  std::vector<uint32_t> all = slots;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(own_), names_.count(), kKept);
  return all;
}

std::vector<uint32_t> Variables::initial(const recorder::Recording& recording) const { return with_names(recording.initial[0]); }

std::vector<uint32_t> Variables::values_at(const recorder::Recording& recording, int32_t node) const {
  std::vector<uint32_t> all = with_names(recording.state_at(node)[0].slots);
  for (const recorder::PendingStore& store : recording.stores_at(node)) {
    const recorder::Name& into = recording.names[static_cast<size_t>(store.name)];
    const std::optional<size_t> name = into.kind == recorder::Name::Kind::kName ? names_.find(into.dict.get(), into.name.get()) : std::nullopt;
    if (!name) throw Unsupported("a store into an attribute, a name or an item of a container");
    all[own_ + *name] = store.value;
  }
  return all;
}

}  // namespace evalframe::regions
