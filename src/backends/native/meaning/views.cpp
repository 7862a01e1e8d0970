// What the functions that see an array in another shape mean: an order of axes, or a shape.
#include <algorithm>
#include <numeric>

#include "backends/native/meaning/arguments.h"

namespace evalframe::native {

// How many sizes are left to be found out.
static auto rests_of(const std::vector<Extent>& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const Extent& extent) { return extent.kind == Extent::Kind::kRest; });
}

Meaning Meanings::view(const Node& node, View view) const {
  if (node.count == node.keywords || !is_typed(node.meta) || node.meta.kind != Kind::kArray) return {};
  const Operand array = graph_.operands_of(node)[0];
  const Meta& known = meta(array);
  if (known.kind != Kind::kArray || !is_typed(known) || known.dtype != node.meta.dtype) return {};
  Meaning meaning;
  if (!read_view(node, view, meaning)) return {};
  meaning.sense = Sense::kView;
  meaning.args[0] = array;
  meaning.count = 1;
  if (meaning.seen == Seen::kTurned && static_cast<int>(meaning.order.size()) != node.meta.rank) return {};
  meaning.may_copy = meaning.seen == Seen::kReshaped;
  if (view != View::kFlatten) return meaning;
  Meaning copied = copy(node);
  copied.c_order = copied.flattened = true;
  return copied;
}

bool Meanings::read_view(const Node& node, View view, Meaning& meaning) const {
  Arguments arguments{graph_, node};
  const int rank = meta(arguments.get(0, {})).rank;
  const auto turned = [&](bool read) {
    meaning.seen = Seen::kTurned;
    return read && arguments.all_known();
  };
  switch (view) {
    case View::kReshape:
      meaning.seen = Seen::kReshaped;
      return read_new_shape(arguments, meaning.shape) && is_c_order(arguments.get(-1, "order")) && arguments.all_known();
    case View::kRavel:
    case View::kFlatten:
      meaning.seen = Seen::kReshaped;
      meaning.ravelled = true;
      meaning.shape.push_back({Extent::Kind::kRest});
      return is_c_order(arguments.get(1, "order")) && arguments.all_known();
    case View::kSqueeze: {
      const Operand axis = arguments.get(1, "axis");
      if (axis && constant(axis) != Py_None) return turned(read_removal(axis, rank, meaning.order));
      meaning.seen = Seen::kSqueezed;
      return arguments.all_known();
    }
    case View::kExpandDims: return turned(read_insertion(arguments.get(1, "axis"), rank, meaning.order));
    case View::kTranspose: return turned(read_new_order(arguments, rank, meaning.order));
    case View::kSwapAxes: {
      const Operand one = arguments.get(1, "axis1"), other = arguments.get(2, "axis2");
      return turned(read_swap(one, other, rank, meaning.order));
    }
    case View::kMoveAxis: {
      const Operand from = arguments.get(1, "source"), to = arguments.get(2, "destination");
      return turned(read_move(from, to, rank, meaning.order));
    }
    case View::kMatrixTranspose:
      if (rank < 2) return false;
      meaning.order.resize(rank);
      std::iota(meaning.order.begin(), meaning.order.end(), 0);
      std::swap(meaning.order[rank - 1], meaning.order[rank - 2]);
      return turned(true);
    case View::kBroadcastTo:
      meaning.seen = Seen::kStretched;
      return read_shape(arguments.get(1, "shape"), meaning.shape) && arguments.all_known() && rests_of(meaning.shape) == 0;
  }
  return false;
}

// reshape(shape) or reshape(size, size ...).
bool Meanings::read_new_shape(Arguments& arguments, std::vector<Extent>& shape) const {
  if (arguments.positional() <= 2) return read_shape(arguments.get(1, "shape"), shape) && rests_of(shape) <= 1;
  for (int i = 1; i < arguments.positional(); i++) {
    if (!read_extent(arguments.get(i, {}), shape)) return false;
  }
  return rests_of(shape) <= 1;
}

// transpose(axes) or transpose(axis, axis ...).
bool Meanings::read_new_order(Arguments& arguments, int rank, std::vector<int>& order) const {
  if (arguments.positional() <= 2) return read_order(arguments.get(1, "axes"), rank, order);
  for (int i = 1; i < arguments.positional(); i++) {
    if (!read_axis_list(arguments.get(i, {}), rank, order)) return false;
  }
  return static_cast<int>(order.size()) == rank;
}

bool Meanings::is_c_order(Operand order) const {
  PyObject* const object = constant(order);
  return !order || (object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "C") == 0);
}

// An axis or a tuple of axes, all of them different.
bool Meanings::read_axis_list(Operand axes, int rank, std::vector<int>& list) const {
  PyObject* const object = constant(axes);
  if (!object) return false;
  const bool tuple = PyTuple_CheckExact(object);
  for (Py_ssize_t i = 0; i < (tuple ? PyTuple_GET_SIZE(object) : 1); i++) {
    int64_t axis = 0;
    if (!read_int(tuple ? PyTuple_GET_ITEM(object, i) : object, axis) || axis < -rank || axis >= rank) return false;
    const int place = static_cast<int>(axis < 0 ? axis + rank : axis);
    if (std::find(list.begin(), list.end(), place) != list.end()) return false;
    list.push_back(place);
  }
  return true;
}

// Of a transposition; none or None turns all round.
bool Meanings::read_order(Operand axes, int rank, std::vector<int>& order) const {
  if (axes && constant(axes) != Py_None) return read_axis_list(axes, rank, order) && static_cast<int>(order.size()) == rank;
  order.resize(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return true;
}

bool Meanings::read_swap(Operand one, Operand other, int rank, std::vector<int>& order) const {
  std::vector<int> first, second;
  if (!read_axis_list(one, rank, first) || !read_axis_list(other, rank, second) || first.size() != 1 || second.size() != 1) return false;
  order.resize(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[first[0]], order[second[0]]);
  return true;
}

bool Meanings::read_move(Operand from, Operand to, int rank, std::vector<int>& order) const {
  std::vector<int> source, destination;
  if (!read_axis_list(from, rank, source) || !read_axis_list(to, rank, destination) || source.size() != destination.size()) return false;
  for (int axis = 0; axis < rank; axis++) {
    if (std::find(source.begin(), source.end(), axis) == source.end()) order.push_back(axis);
  }
  std::vector<std::pair<int, int>> moves;
  for (size_t i = 0; i < source.size(); i++) moves.emplace_back(destination[i], source[i]);
  std::sort(moves.begin(), moves.end());
  for (const auto& [place, axis] : moves) order.insert(order.begin() + place, axis);
  return true;
}

bool Meanings::read_insertion(Operand axis, int rank, std::vector<int>& order) const {
  PyObject* const object = constant(axis);
  if (!object) return false;
  const int added = PyTuple_CheckExact(object) ? static_cast<int>(PyTuple_GET_SIZE(object)) : 1;
  std::vector<int> places;
  if (!read_axis_list(axis, rank + added, places)) return false;
  for (int place = 0, next = 0; place < rank + added; place++) {
    order.push_back(std::find(places.begin(), places.end(), place) == places.end() ? next++ : -1);
  }
  return true;
}

bool Meanings::read_removal(Operand axis, int rank, std::vector<int>& order) const {
  std::vector<int> places;
  if (!read_axis_list(axis, rank, places)) return false;
  for (int i = 0; i < rank; i++) {
    if (std::find(places.begin(), places.end(), i) == places.end()) order.push_back(i);
  }
  return true;
}

// A size, a tuple or list of sizes, or the shape of an array.
bool Meanings::read_shape(Operand shape, std::vector<Extent>& extents) const {
  PyObject* const object = constant(shape);
  if (object && PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      int64_t size = 0;
      if (!read_int(PyTuple_GET_ITEM(object, i), size) || size < -1) return false;
      extents.push_back({size < 0 ? Extent::Kind::kRest : Extent::Kind::kSize, size, {}});
    }
    return true;
  }
  if (shape.space != Operand::Space::kNode) return read_extent(shape, extents);
  const Node& node = graph_.nodes[shape.index];
  const Operand* operands = graph_.operands_of(node);
  if (node.form == Form::kTuple || node.form == Form::kList) {
    for (uint32_t i = 0; i < node.count; i++) {
      if (!read_extent(operands[i], extents)) return false;
    }
    return true;
  }
  if (node.form != Form::kGetAttr) return read_extent(shape, extents);
  PyObject* const name = graph_.constants[node.callable].get();
  if (PyUnicode_CompareWithASCIIString(name, "shape") != 0 || meta(operands[0]).kind != Kind::kArray || !is_typed(meta(operands[0]))) return false;
  extents.push_back({Extent::Kind::kShapeOf, 0, operands[0]});
  return true;
}

bool Meanings::read_extent(Operand operand, std::vector<Extent>& extents) const {
  Extent extent{Extent::Kind::kSize};
  PyObject* const known = constant(operand);
  if (known) {
    if (!read_int(known, extent.size) || extent.size < -1) return false;
    if (extent.size < 0) extent.kind = Extent::Kind::kRest;
  } else {
    if (!operand || meta(operand).kind != Kind::kInt) return false;
    extent.at = operand;
  }
  extents.push_back(extent);
  return true;
}

// A view, but of other elements than its array's: kernels compute it.
Meaning Meanings::part_of_complex(const Node& node, ScalarOp op) const {
  const Operand operand = graph_.operands_of(node)[0];
  if (!is_complex(meta(operand).dtype) || reader_ != Reader::kGraph) return {};
  Meaning meaning;
  meaning.sense = Sense::kMap;
  meaning.op = op;
  meaning.args[0] = operand;
  meaning.count = 1;
  meaning.loop = meta(operand).dtype;
  meaning.result = node.meta.dtype;
  return meaning;
}

Meaning Meanings::attribute(const Node& node) const {
  const Operand operand = graph_.operands_of(node)[0];
  const int rank = meta(operand).rank;
  if (meta(operand).kind != Kind::kArray || !is_typed(meta(operand)) || node.meta.kind != Kind::kArray) return {};
  PyObject* const name = graph_.constants[node.callable].get();
  const auto is_named = [&](const char* known) { return PyUnicode_CompareWithASCIIString(name, known) == 0; };
  if (is_named("real")) return part_of_complex(node, ScalarOp::real);
  if (is_named("imag")) return part_of_complex(node, ScalarOp::imag);
  const bool all = is_named("T");
  if (!all && !is_named("mT")) return {};
  Meaning meaning;
  meaning.sense = Sense::kView;
  meaning.seen = Seen::kTurned;
  meaning.args[0] = operand;
  meaning.count = 1;
  meaning.order.resize(rank);
  std::iota(meaning.order.begin(), meaning.order.end(), 0);
  std::reverse(meaning.order.begin() + (all ? 0 : std::max(rank - 2, 0)), meaning.order.end());
  return meaning;
}

}  // namespace evalframe::native
