// Rules for building and taking apart tuples, lists and slices.
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using graph::Form;
using graph::Operand;

std::vector<uint32_t> labels_from(const Site& site, int first, int count) {
  std::vector<uint32_t> labels;
  for (int i = 0; i < count; i++) labels.push_back(site.recorder.label(first + i));
  return labels;
}

Plan build(const Site& site, Value::Kind kind) {
  const int count = site.instruction.arg;
  return plan_value(site.recorder.container(kind, labels_from(site, site.depth - count, count)));
}
Plan build_tuple(const Site& site) { return build(site, Value::Kind::kTuple); }
Plan build_list(const Site& site) { return build(site, Value::Kind::kList); }

Plan build_slice(const Site& site) {
  const int count = site.instruction.arg;
  std::vector<uint32_t> parts = labels_from(site, site.depth - count, count);
  if (count == 2) parts.push_back(site.recorder.constant(Py_None));
  return plan_value(site.recorder.container(Value::Kind::kSlice, std::move(parts)));
}

Plan list_append(const Site& site) {
  const int list = site.depth - 1 - site.instruction.arg;
  if (site.recorder.value_at(list).kind != Value::Kind::kList) return plan_break(Break::kStore, "append to a list");
  return {};
}
void list_append_after(const Site& site, const Plan&) {
  const int list = site.depth - 1 - site.instruction.arg;
  site.recorder.append(site.recorder.value_at(list), site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

// [*a] and the like on things known here: LIST_EXTEND of a constant tuple.
Plan list_extend(const Site& site) {
  PyObject* items = site.frame.slot(site.depth - 1);
  const int list = site.depth - 1 - site.instruction.arg;
  const bool constant = site.recorder.value_at(site.depth - 1).kind == Value::Kind::kConstant && PyTuple_CheckExact(items);
  if (!constant || site.recorder.value_at(list).kind != Value::Kind::kList) return plan_break(Break::kInstruction, "LIST_EXTEND");
  return {};
}
void list_extend_after(const Site& site, const Plan&) {
  // The tuple was a constant: its elements are the list's last ones.
  const int list = site.depth - 1 - site.instruction.arg;
  PyObject* live = site.frame.slot(list);
  const Value value = site.recorder.value_at(list);
  for (auto i = static_cast<Py_ssize_t>(site.recorder.elements(value).size()); i < PyList_GET_SIZE(live); i++) {
    site.recorder.append(value, site.recorder.constant(PyList_GET_ITEM(live, i)));
  }
  site.recorder.set_label(site.depth - 1, 0);
}

Plan unpack_sequence(const Site& site) {
  Recorder& recorder = site.recorder;
  PyObject* object = site.frame.slot(site.depth - 1);
  const Value value = recorder.value_at(site.depth - 1);
  const bool sequence = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (sequence && PySequence_Fast_GET_SIZE(object) != site.instruction.arg) return plan_break(Break::kException, "wrong number of values to unpack");
  switch (value.kind) {
    case Value::Kind::kTuple:
    case Value::Kind::kList: return {};
    case Value::Kind::kConstant:
      if (PyTuple_CheckExact(object)) return {};
      break;
    case Value::Kind::kSource:
      if (!sequence) break;
      recorder.guards().require_length(value.a, object);
      return {};
    case Value::Kind::kNode:
      if (PyTuple_CheckExact(object) && value.of_shapes) return {};
      break;
    default: break;
  }
  return plan_break(Break::kUnknownObject, "unpacking of " + type_name(object));
}

uint32_t unpacked_label(const Site& site, uint32_t whole, int i, PyObject* element) {
  Recorder& recorder = site.recorder;
  const Value value = recorder.value(whole);
  switch (value.kind) {
    case Value::Kind::kTuple:
    case Value::Kind::kList: return recorder.elements(value)[i];
    case Value::Kind::kSource: {
      guards::Source source{guards::Reach::kItem};
      source.parent = value.a;
      source.index = i;
      return recorder.source(std::move(source));
    }
    case Value::Kind::kNode: {
      Ref index = Ref::steal(PyLong_FromLong(i));
      const Operand key = Operand::constant(recorder.value(recorder.constant(index.get())).a);
      return recorder.node_value(recorder.add_plain_node(Form::kGetItem, 0, nullptr, {Operand::node(value.a), key}, element), true);
    }
    case Value::Kind::kConstant:
    default: break;
  }
  return recorder.constant(element);
}

void unpack_sequence_after(const Site& site, const Plan&) {
  const uint32_t whole = site.recorder.label(site.depth - 1);
  const int count = site.instruction.arg;
  // The first element ends up on top of the stack.
  std::vector<uint32_t> labels;
  for (int i = 0; i < count; i++) labels.push_back(unpacked_label(site, whole, i, site.frame.slot(site.depth - 1 + count - 1 - i)));
  if (count == 0) site.recorder.set_label(site.depth - 1, 0);
  for (int i = 0; i < count; i++) site.recorder.set_label(site.depth - 1 + count - 1 - i, labels[i]);
}

// a, *b, c = items: what stands in the middle becomes a new list. The last ends up lowest on the stack.
int before_star(const Site& site) { return site.instruction.arg & 0xFF; }
int behind_star(const Site& site) { return site.instruction.arg >> 8; }

Plan unpack_ex(const Site& site) {
  const Value::Kind kind = site.recorder.value_at(site.depth - 1).kind;
  if (kind != Value::Kind::kTuple && kind != Value::Kind::kList) return plan_break(Break::kUnknownObject, "unpacking of " + type_name(site.frame.slot(site.depth - 1)));
  const auto count = static_cast<int>(site.recorder.elements(site.recorder.value_at(site.depth - 1)).size());
  return count < before_star(site) + behind_star(site) ? plan_break(Break::kException, "too few values to unpack") : Plan{};
}

void unpack_ex_after(const Site& site, const Plan&) {
  Recorder& recorder = site.recorder;
  const std::vector<uint32_t> all = recorder.copied_elements(recorder.value_at(site.depth - 1));
  const auto first = all.begin() + before_star(site), last = all.end() - behind_star(site);
  int slot = site.depth - 1;
  for (auto item = all.end(); item != last;) recorder.set_label(slot++, *--item);
  recorder.set_label(slot++, recorder.container(Value::Kind::kList, std::vector<uint32_t>(first, last)));
  for (auto item = first; item != all.begin();) recorder.set_label(slot++, *--item);
}

}  // namespace

void add_container_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, Plan (*before)(const Site&), void (*after)(const Site&, const Plan&) = nullptr) {
    table[static_cast<size_t>(op)] = {before, after};
  };
  using enum bytecode::Op;
  add(BUILD_TUPLE, build_tuple);
  add(BUILD_LIST, build_list);
  add(BUILD_SLICE, build_slice);
  add(LIST_APPEND, list_append, list_append_after);
  add(LIST_EXTEND, list_extend, list_extend_after);
  add(UNPACK_SEQUENCE, unpack_sequence, unpack_sequence_after);
  add(UNPACK_EX, unpack_ex, unpack_ex_after);
}

}  // namespace evalframe::recorder
