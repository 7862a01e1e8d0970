// What basic indexing means: which part of an array is seen or written.
#include "backends/native/meaning/arguments.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

Meaning Meanings::subscript(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  const Meta& from = meta(operands[0]);
  if (from.kind != Kind::kArray || !is_typed(from) || !is_typed(node.meta)) return {};
  Meaning meaning;
  if (!read_index(operands[1], meaning.items)) return kept(node);
  int used = 0, added = 0, taken = 0;
  for (const IndexItem& item : meaning.items) {
    used += item.kind == IndexItem::Kind::kInteger || item.kind == IndexItem::Kind::kSlice;
    added += item.kind == IndexItem::Kind::kNewAxis;
    taken += item.kind == IndexItem::Kind::kInteger;
  }
  if (used > from.rank || from.rank - taken + added != node.meta.rank) return {};
  meaning.sense = Sense::kView;
  meaning.args[0] = operands[0];
  meaning.count = 1;
  return meaning;
}

Meaning Meanings::store(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  const Meta& to = meta(operands[0]);
  const Meta& from = meta(operands[2]);
  if (to.kind != Kind::kArray || !is_typed(to)) return {};
  if (!is_items(operands[2]) && (is_typed(from) ? is_complex(from.dtype) && !is_complex(to.dtype) : !fits(from.kind, to.dtype))) return {};
  // NumPy raises where a single number is out of a signed type's range; kernels would wrap it.
  if (from.kind == Kind::kNumpyScalar && is_signed(to.dtype) && !PyArray_CanCastSafely(numpy::type_number(from.dtype), numpy::type_number(to.dtype))) return {};
  Meaning meaning;
  if (!read_index(operands[1], meaning.items)) return masked_store(node);
  int used = 0;
  for (const IndexItem& item : meaning.items) used += item.kind == IndexItem::Kind::kInteger || item.kind == IndexItem::Kind::kSlice;
  if (used > to.rank) return {};
  meaning.sense = Sense::kStore;
  meaning.target = operands[0];
  meaning.args[0] = operands[2];
  meaning.count = 1;
  meaning.loop = meaning.result = to.dtype;
  return meaning;
}

// By an array of bools for all elements of one that isn't of such itself.
bool Meanings::is_masked(const Node& node) const {
  const Meta &array = meta(graph_.operands_of(node)[0]), &mask = meta(graph_.operands_of(node)[1]);
  if (reader_ == Reader::kLoop || mask.kind != Kind::kArray || mask.dtype != DType::bool_ || mask.rank != array.rank) return false;
  return array.dtype != DType::bool_ && array.dtype != DType::float16;
}

Meaning Meanings::kept(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  if (!is_masked(node) || node.meta.kind != Kind::kArray || node.meta.rank != 1 || node.meta.dtype != meta(operands[0]).dtype) return {};
  Meaning meaning;
  meaning.sense = Sense::kKept;
  meaning.args[0] = operands[0];
  meaning.args[1] = operands[1];
  meaning.count = 2;
  meaning.loop = meaning.result = node.meta.dtype;
  return meaning;
}

// Of what is an element as it is: NumPy converts none where the mask holds nowhere.
Meaning Meanings::masked_store(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  const Meta &to = meta(operands[0]), &from = meta(operands[2]);
  if (!is_masked(node) || (is_typed(from) && from.dtype != to.dtype) || (from.kind == Kind::kArray && !is_typed(from))) return {};
  Meaning meaning;
  meaning.sense = Sense::kMaskedStore;
  meaning.target = meaning.args[2] = operands[0];
  meaning.args[0] = operands[1];
  meaning.args[1] = operands[2];
  meaning.count = 3;
  meaning.loop = meaning.result = to.dtype;
  return meaning;
}

bool Meanings::read_index(Operand key, std::vector<IndexItem>& items) const {
  int ellipses = 0;
  bool ok = true;
  PyObject* const object = constant(key);
  if (object && PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object) && ok; i++) ok = read_constant_item(PyTuple_GET_ITEM(object, i), items);
  } else if (key.space == Operand::Space::kNode && graph_.nodes[key.index].form == Form::kTuple) {
    const Node& tuple = graph_.nodes[key.index];
    for (uint32_t i = 0; i < tuple.count && ok; i++) ok = read_item(graph_.operands_of(tuple)[i], items);
  } else {
    ok = read_item(key, items);
  }
  for (const IndexItem& item : items) ellipses += item.kind == IndexItem::Kind::kEllipsis;
  return ok && ellipses <= 1;
}

bool Meanings::read_item(Operand operand, std::vector<IndexItem>& items) const {
  if (constant(operand)) return read_constant_item(constant(operand), items);
  IndexItem item{IndexItem::Kind::kInteger};
  if (operand.space == Operand::Space::kNode && graph_.nodes[operand.index].form == Form::kSlice) {
    const Operand* parts = graph_.operands_of(graph_.nodes[operand.index]);
    PyObject* const step = constant(parts[2]);
    item.kind = IndexItem::Kind::kSlice;
    if (step && step != Py_None && (!read_int(step, item.step) || item.step == 0)) return false;
    if (!step) {
      if (reader_ != Reader::kLoop || !is_index(parts[2])) return false;
      item.step_at = parts[2];
    }
    if (!read_bound(parts[0], item.start, item.start_at) || !read_bound(parts[1], item.stop, item.stop_at)) return false;
  } else if (is_index(operand)) {
    item.start_at = operand;
  } else {
    return false;
  }
  items.push_back(item);
  return true;
}

bool Meanings::read_bound(Operand operand, int64_t& bound, Operand& at) const {
  PyObject* const known = constant(operand);
  if (known) return known == Py_None || read_int(known, bound);
  at = operand;
  return is_index(operand);
}

bool Meanings::is_items(Operand operand) const {
  if (reader_ != Reader::kLoop || operand.space != Operand::Space::kNode) return false;
  const Form form = graph_.nodes[operand.index].form;
  return form == Form::kTuple || form == Form::kList;
}

bool Meanings::is_index(Operand operand) const {
  const Meta& of = meta(operand);
  return of.kind == Kind::kInt || (reader_ == Reader::kLoop && of.kind == Kind::kNumpyScalar && is_integer(of.dtype));
}

bool Meanings::read_constant_item(PyObject* object, std::vector<IndexItem>& items) const {
  IndexItem item{IndexItem::Kind::kInteger};
  if (object == Py_None) {
    item.kind = IndexItem::Kind::kNewAxis;
  } else if (object == Py_Ellipsis) {
    item.kind = IndexItem::Kind::kEllipsis;
  } else if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    item.kind = IndexItem::Kind::kSlice;
    if (slice->start != Py_None && !read_int(slice->start, item.start)) return false;
    if (slice->stop != Py_None && !read_int(slice->stop, item.stop)) return false;
    if (slice->step != Py_None && (!read_int(slice->step, item.step) || item.step == 0)) return false;
  } else if (!read_int(object, item.start)) {
    return false;
  }
  items.push_back(item);
  return true;
}

}  // namespace evalframe::native
