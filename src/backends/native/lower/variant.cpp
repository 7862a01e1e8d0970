// What is asked of a variant at each run: the values of its symbols, and whether its arrays have the order that it was made for.
#include "backends/native/lower/variant.h"

#include <Python.h>

#include <algorithm>
#include <cstdlib>

#include "backends/native/lower/axis_order.h"
#include "backends/native/lower/reshape.h"

namespace evalframe::native {
namespace {

int64_t slice_of(const Symbol& symbol, const int64_t* values, int64_t& start) {
  const int64_t size = values[symbol.a];
  start = symbol.b >= 0 ? values[symbol.b] : symbol.start;
  int64_t stop = symbol.c >= 0 ? values[symbol.c] : symbol.stop;
  if (start == IndexItem::kAbsent) start = symbol.step > 0 ? 0 : PY_SSIZE_T_MAX;
  if (stop == IndexItem::kAbsent) stop = symbol.step > 0 ? PY_SSIZE_T_MAX : PY_SSIZE_T_MIN;
  Py_ssize_t first = start, last = stop;
  const int64_t length = PySlice_AdjustIndices(size, &first, &last, symbol.step);
  // An empty slice stands nowhere.
  start = length ? first : 0;
  return length;
}

}  // namespace

std::vector<int64_t> c_strides(const std::vector<int>& dims, const int64_t* symbols) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(symbols[dims[i]], 1);
  return strides;
}

int64_t steps(const Axis& axis, const int64_t* symbols) { return axis.times < 0 ? axis.step : axis.step * symbols[axis.times]; }

// Strides of a box's storage: bytes of a leaf, elements of a buffer in C order.
static std::vector<int64_t> strides_of(const Variant& variant, const Box& box, const LeafShape* shapes, const int64_t* symbols) {
  const Storage& storage = variant.storages[box.storage];
  if (storage.kind != Storage::Kind::kLeaf) return c_strides(storage.dims, symbols);
  return {shapes[storage.source].strides, shapes[storage.source].strides + storage.dims.size()};
}

std::vector<int64_t> sizes_of(const Box& box, const int64_t* symbols) {
  std::vector<int64_t> sizes;
  for (const int size : box.dims) sizes.push_back(symbols[size]);
  return sizes;
}

std::vector<int64_t> strides_of_box(const Variant& variant, const Box& box, const LeafShape* shapes, const int64_t* symbols) {
  const std::vector<int64_t> storage = strides_of(variant, box, shapes, symbols);
  std::vector<int64_t> strides;
  for (const Axis& axis : box.axes) strides.push_back(axis.of < 0 ? 0 : storage[axis.of] * steps(axis, symbols));
  return strides;
}

bool is_in_c_order(const Variant& variant, const Box& box, const std::vector<int64_t>& strides, const std::vector<int64_t>& sizes) {
  const Storage& storage = variant.storages[box.storage];
  const int64_t unit = storage.kind == Storage::Kind::kLeaf ? graph::size_of(storage.dtype) : 1;
  return is_dense(strides.data(), sizes.data(), static_cast<int>(sizes.size()), unit, false);
}

bool is_in_one_piece(const Variant& variant, const Summed& summed, const LeafShape* shapes, const int64_t* symbols) {
  const std::vector<int64_t> sizes = sizes_of(summed.box, symbols), strides = strides_of_box(variant, summed.box, shapes, symbols);
  return !sums_in_pieces(strides.data(), sizes.data(), static_cast<int>(sizes.size()), summed.axes);
}

// Whether a box's dimensions of more than one element are in C order; strides: of the storage's axes.
static bool strides_fall(const Box& box, const int64_t* strides, const int64_t* symbols) {
  int64_t last = INT64_MAX;
  for (size_t i = 0; i < box.dims.size(); i++) {
    if (box.axes[i].of < 0 || symbols[box.dims[i]] == 1) continue;
    const int64_t stride = std::abs(strides[box.axes[i].of] * steps(box.axes[i], symbols));
    if (stride == 0) continue;
    if (stride > last) return false;
    last = stride;
  }
  return true;
}

bool is_dense(const int64_t* strides, const int64_t* sizes, int rank, int64_t unit, bool fortran) {
  for (int i = 0; i < rank; i++) {
    const int axis = fortran ? i : rank - 1 - i;
    if (sizes[axis] != 1 && strides[axis] != unit) return false;
    unit *= sizes[axis];
  }
  return true;
}

// What isn't dense, a copy has with its largest strides first, however many elements they are for.
static bool copies_in_c_order(const Box& box, const int64_t* strides, const int64_t* symbols, int64_t unit) {
  const int rank = static_cast<int>(box.dims.size());
  std::vector<int64_t> moves(rank), sizes(rank);
  for (int i = 0; i < rank; i++) {
    moves[i] = box.axes[i].of < 0 ? 0 : strides[box.axes[i].of] * steps(box.axes[i], symbols);
    sizes[i] = symbols[box.dims[i]];
  }
  if (is_dense(moves.data(), sizes.data(), rank, unit, false)) return true;
  return std::is_sorted(moves.begin(), moves.end(), [](int64_t a, int64_t b) { return std::abs(a) > std::abs(b); });
}

// Whether NumPy comes to the strides that the reshaped array has, or to a copy.
static bool comes_out(const Variant& variant, const Reshaped& reshaped, const LeafShape* shapes, const int64_t* symbols) {
  const std::vector<int64_t> sizes = sizes_of(reshaped.from, symbols), wanted = sizes_of(reshaped.to, symbols);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  const std::vector<int64_t> strides = strides_of_box(variant, reshaped.from, shapes, symbols);
  const bool dense = !reshaped.ravelled || is_in_c_order(variant, reshaped.from, strides, sizes);
  const auto groups = dense ? regroup(sizes, strides, wanted) : std::nullopt;
  if (!groups || reshaped.copied) return !groups && reshaped.copied;
  const std::vector<int64_t> made = strides_of_box(variant, reshaped.to, shapes, symbols);
  for (size_t i = 0; i < wanted.size(); i++) {
    const Regrouped& group = (*groups)[i];
    if (group.of < 0) continue;
    int64_t stride = strides[group.of];
    for (int behind = static_cast<int>(i) + 1; behind < group.end; behind++) stride *= wanted[behind];
    if (made[i] != stride) return false;
  }
  return true;
}

bool has_order_of(const Variant& variant, const LeafShape* shapes, const int64_t* symbols) {
  const auto falls = [&](const Box& box) {
    return strides_fall(box, strides_of(variant, box, shapes, symbols).data(), symbols);
  };
  const auto copies = [&](const Box& box) {
    const Storage& storage = variant.storages[box.storage];
    const int64_t unit = storage.kind == Storage::Kind::kLeaf ? graph::size_of(storage.dtype) : 1;
    return copies_in_c_order(box, strides_of(variant, box, shapes, symbols).data(), symbols, unit);
  };
  const auto shapes_hold = [&](const Reshaped& reshaped) { return comes_out(variant, reshaped, shapes, symbols); };
  const auto in_one_piece = [&](const Summed& summed) { return is_in_one_piece(variant, summed, shapes, symbols); };
  return std::all_of(variant.falling.begin(), variant.falling.end(), falls) &&
         std::all_of(variant.copied.begin(), variant.copied.end(), copies) &&
         std::all_of(variant.reshaped.begin(), variant.reshaped.end(), shapes_hold) &&
         std::all_of(variant.summed.begin(), variant.summed.end(), in_one_piece);
}

// From 0 to the size less one; 0 for nothing.
static int64_t rolled(const Symbol& symbol, const int64_t* values) {
  const int64_t size = values[symbol.a], by = symbol.b >= 0 ? values[symbol.b] : symbol.start, before = symbol.c >= 0 ? values[symbol.c] : 0;
  return size > 0 ? (by % size + size + before) % size : 0;
}

bool evaluate(const std::vector<Symbol>& symbols, const LeafShape* shapes, int64_t* values) {
  for (size_t i = 0; i < symbols.size(); i++) {
    const Symbol& symbol = symbols[i];
    int64_t start = 0;
    switch (symbol.kind) {
      case Symbol::Kind::kLeafSize: values[i] = shapes[symbol.a].sizes[symbol.b]; break;
      case Symbol::Kind::kConstant: values[i] = symbol.start; break;
      case Symbol::Kind::kSliceLength: values[i] = slice_of(symbol, values, start); break;
      case Symbol::Kind::kSliceStart:
        slice_of(symbol, values, start);
        values[i] = start;
        break;
      case Symbol::Kind::kIndex:
        values[i] = symbol.b >= 0 ? values[symbol.b] : symbol.start;
        if (values[i] < 0) values[i] += values[symbol.a];
        if (values[i] < 0 || values[i] >= values[symbol.a]) return false;
        break;
      case Symbol::Kind::kProduct:
        if (__builtin_mul_overflow(values[symbol.a], values[symbol.b], &values[i])) return false;
        break;
      case Symbol::Kind::kLess:
        values[i] = values[symbol.a] - symbol.start;
        if (values[i] <= 0) return false;
        break;
      case Symbol::Kind::kQuotient:
        if (values[symbol.b] <= 0 || values[symbol.a] % values[symbol.b] != 0) return false;
        values[i] = values[symbol.a] / values[symbol.b];
        break;
      case Symbol::Kind::kSeveral:
        values[i] = values[symbol.a];
        if (values[i] == 1) return false;
        break;
      case Symbol::Kind::kRolled:
        values[i] = rolled(symbol, values);
        break;
    }
  }
  return true;
}

}  // namespace evalframe::native
