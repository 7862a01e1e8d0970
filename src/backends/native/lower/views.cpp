// Lowers views: boxes of what stands in memory, with dimensions of their own.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <utility>

#include "backends/native/lower/reshape.h"
#include "backends/native/lower/variant.h"

namespace evalframe::native::lowering {

void Lowering::lower_view(int32_t node, const Meaning& meaning) {
  const bool copy = inside(meaning.args[0]) && value_at(meaning.args[0].index).source.storage >= 0;
  const Value seen = value_of(meaning.args[0], DType::kNone);
  Value base = in_memory(meaning.args[0], seen);
  const Value place = copy || seen.place.storage >= 0 ? target_of(meaning.args[0], seen.dtype) : Value();
  if (meaning.seen == Seen::kReshaped) {
    if (place.box.storage >= 0) base = place;
    value_at(node) = reshaped(node, base, shape_for(base, meaning.shape), meaning);
    return;
  }
  Value view = view_of(base, meaning);
  if (place.box.storage >= 0) view.place = view_of(place, meaning).box;
  view.layout = layout_of(view.place.storage >= 0 ? view.place : view.box);
  value_at(node) = std::move(view);
}

Value Lowering::view_of(const Value& base, const Meaning& meaning) {
  Value view;
  view.dtype = base.dtype;
  view.fixed = base.fixed || meaning.seen == Seen::kStretched;
  view.box.storage = base.box.storage;
  view.box.offsets = base.box.offsets;
  switch (meaning.seen) {
    case Seen::kIndexed: index(base, meaning.items, view); break;
    case Seen::kTurned: turn(base, meaning.order, view); break;
    case Seen::kSqueezed: turn(base, axes_of_several(base), view); break;
    case Seen::kStretched: stretch(base, shape_for(base, meaning.shape), view); break;
    case Seen::kReshaped: break;
  }
  view.box.dims = view.dims;
  return view;
}

void Lowering::turn(const Value& base, const std::vector<int>& order, Value& view) {
  int last = -1;
  bool keeps = base.box.complete;
  std::vector<bool> taken(base.dims.size());
  for (const int axis : order) {
    view.dims.push_back(axis < 0 ? constant(1) : base.dims[axis]);
    view.box.axes.push_back(axis < 0 ? Axis{} : base.box.axes[axis]);
    if (axis < 0) continue;
    taken[axis] = true;
    keeps &= axis > last;
    last = axis;
  }
  view.box.complete = keeps;
  for (size_t i = 0; i < taken.size(); i++) {
    if (!taken[i]) unite(base.dims[i], constant(1));
  }
}

std::vector<int> Lowering::axes_of_several(const Value& base) {
  std::vector<int> order;
  for (size_t i = 0; i < base.dims.size(); i++) {
    if (examples_[base.dims[i]] == 1) continue;
    symbol({Symbol::Kind::kSeveral, base.dims[i]});
    order.push_back(static_cast<int>(i));
  }
  return order;
}

void Lowering::stretch(const Value& base, const std::vector<int>& shape, Value& view) {
  if (shape.size() < base.dims.size()) throw Unsupported();
  const size_t added = shape.size() - base.dims.size();
  for (size_t i = 0; i < shape.size(); i++) {
    view.dims.push_back(shape[i]);
    view.box.axes.push_back(i < added ? Axis{} : base.box.axes[i - added]);
    if (i < added) continue;
    const int from = base.dims[i - added];
    const bool stretched = examples_[from] == 1 && examples_[shape[i]] != 1;
    unite(from, stretched ? constant(1) : shape[i]);
    if (stretched) view.box.axes.back() = {};
  }
}

Value Lowering::flattened(int32_t node, const Meaning& meaning, Value value) {
  value = in_memory(meaning.args[0], std::move(value));
  return reshaped(node, value, {product(value.dims)}, meaning);
}

// `base`, which stands in a storage, in another shape: a view where NumPy has one, else of a copy in C order.
Value Lowering::reshaped(int32_t node, const Value& base, const std::vector<int>& shape, const Meaning& meaning) {
  unite(product(base.dims), product(shape));
  // A buffer in another order has its strides only while it is run.
  if (!variant_.plain && base.dims.size() > 1 && variant_.storages[base.box.storage].kind == Storage::Kind::kBuffer) throw Unsupported{node};
  Value view;
  view.dtype = base.dtype;
  view.fixed = base.fixed;
  view.dims = shape;
  const bool buffer = variant_.storages[base.box.storage].kind == Storage::Kind::kBuffer;
  if (buffer && base.box.complete) {
    view.box = regrouped_buffer(base.box, shape);
  } else {
    Reshaped made{base.box, {}, meaning.ravelled, false};
    made.from.dims = base.dims;
    const bool dense = !made.ravelled || is_dense(strides_of_box(variant_, made.from, shapes_.data(), examples_.data()), made.from);
    made.copied = !dense || !regrouped(made.from, shape, made.to);
    if (made.copied) made.to.dims = shape;
    view.box = made.to;
    variant_.reshaped.push_back(made);
    if (made.copied) view.box = regrouped_buffer(in_c_order(base, meaning.args[0]).box, shape);
  }
  view.layout = layout_of(view.box);
  return view;
}

// A buffer in C order as one in another shape.
Box Lowering::regrouped_buffer(const Box& from, const std::vector<int>& shape) {
  Box to;
  to.storage = from.storage;
  to.dims = shape;
  to.complete = true;
  const int last = static_cast<int>(variant_.storages[from.storage].dims.size()) - 1;
  int times = -1;
  for (size_t i = shape.size(); i-- > 0;) {
    to.axes.insert(to.axes.begin(), last < 0 ? Axis{} : Axis{last, 1, times});
    times = times < 0 ? shape[i] : symbol({Symbol::Kind::kProduct, times, shape[i]});
  }
  return to;
}

// A copy, by an operation of its own: it shares a storage neither with another one nor with what it copies.
Value Lowering::made_anew(Value& value) {
  Value copy;
  copy.dims = canonical(value.dims);
  copy.dtype = value.dtype;
  copy.layout = value.layout;
  copy.kernel = choose_kernel({value}, copy.dims, 0, false);
  copy.index = operation(copy.kernel, {ScalarOp::cast, copy.dtype, use(copy.kernel, value, copy.dtype)});
  return copy;
}

Value Lowering::in_c_order(Value value, Operand operand) {
  Value copy = made_anew(value);
  copy.layout = -1;
  remember(operand, value);
  store(copy);
  copy.kernel = -1;
  return copy;
}

// Whether `to` is `from` in another shape; its axes are filled in.
bool Lowering::regrouped(const Box& from, const std::vector<int>& shape, Box& to) {
  const std::vector<int64_t> sizes = sizes_of(from, examples_.data());
  const std::vector<int64_t> strides = strides_of_box(variant_, from, shapes_.data(), examples_.data());
  std::vector<int64_t> wanted;
  for (const int size : shape) wanted.push_back(examples_[size]);
  to.storage = from.storage;
  to.dims = shape;
  to.offsets = from.offsets;
  to.complete = from.complete;
  to.axes.assign(shape.size(), Axis{});
  // An array without elements has none that could stand wrong.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  const auto groups = regroup(sizes, strides, wanted);
  if (!groups) return false;
  for (size_t i = 0; i < shape.size(); i++) {
    const Regrouped& group = (*groups)[i];
    if (group.of < 0 || from.axes[group.of].of < 0) continue;
    Axis axis = from.axes[group.of];
    for (int behind = static_cast<int>(i) + 1; behind < group.end; behind++) {
      axis.times = axis.times < 0 ? shape[behind] : symbol({Symbol::Kind::kProduct, axis.times, shape[behind]});
    }
    to.axes[i] = axis;
  }
  return true;
}

void Lowering::index(const Value& base, const std::vector<IndexItem>& items, Value& view) {
  size_t used = 0;
  for (const IndexItem& item : items) used += item.kind == IndexItem::Kind::kInteger || item.kind == IndexItem::Kind::kSlice;
  size_t next = 0;
  auto whole = [&](size_t count) {
    for (; count > 0; count--, next++) {
      view.dims.push_back(base.dims[next]);
      view.box.axes.push_back(base.box.axes[next]);
    }
  };
  for (const IndexItem& item : items) {
    switch (item.kind) {
      case IndexItem::Kind::kEllipsis: whole(base.dims.size() - used); break;
      case IndexItem::Kind::kNewAxis:
        view.dims.push_back(constant(1));
        view.box.axes.push_back({});
        break;
      case IndexItem::Kind::kInteger:
        add_offset(view, base, next, symbol({Symbol::Kind::kIndex, base.dims[next], number(item.start_at), item.start}));
        next++;
        break;
      case IndexItem::Kind::kSlice: slice(base, next++, item, view); break;
    }
  }
  whole(base.dims.size() - next);
}

void Lowering::slice(const Value& base, size_t dimension, const IndexItem& item, Value& view) {
  const int size = base.dims[dimension];
  const Axis& axis = base.box.axes[dimension];
  const int start = number(item.start_at), stop = number(item.stop_at);
  view.dims.push_back(symbol({Symbol::Kind::kSliceLength, size, start, item.start, item.stop, item.step, stop}));
  view.box.axes.push_back({axis.of, axis.step * item.step, axis.times});
  if (item.start == IndexItem::kAbsent && start < 0 && item.step > 0) return;
  add_offset(view, base, dimension, symbol({Symbol::Kind::kSliceStart, size, start, item.start, item.stop, item.step, stop}));
}

void Lowering::add_offset(Value& view, const Value& base, size_t dimension, int start) {
  const Axis& axis = base.box.axes[dimension];
  if (axis.of >= 0) view.box.offsets.push_back({start, axis.of, axis.step, axis.times});
}

}  // namespace evalframe::native::lowering
