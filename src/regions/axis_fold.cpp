#include "regions/axis_fold.h"

#include <algorithm>
#include <cstring>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/lower/axis_order.h"
#include "backends/native/run/float_flags.h"

namespace evalframe::regions {

using native::Kernel, native::ReduceOp;

namespace {

// Of one result: more are for kernels, which have threads.
constexpr int64_t kMostRows = 1 << 12;

// Whether the order of the elements shows in a result.
bool sums_floats(const Kernel& kernel) {
  const native::KernelOutput& output = kernel.outputs[0];
  return (output.reduce == ReduceOp::kAdd || output.reduce == ReduceOp::kMultiply) && (native::is_float(output.dtype) || native::is_complex(output.dtype));
}

}  // namespace

bool AxisFold::is_one(const Kernel& kernel) {
  if (!kernel.reduced || !kernel.ops.empty() || kernel.inputs.size() != 1 || kernel.outputs.size() != 1) return false;
  const native::KernelOutput& output = kernel.outputs[0];
  const bool has_position = output.reduce == ReduceOp::kArgMin || output.reduce == ReduceOp::kArgMax;
  return !has_position && !kernel.inputs[0].scalar && kernel.inputs[0].dtype != graph::DType::bool_ && kernel.inputs[0].dtype == native::stored_dtype(kernel, output);
}

AxisFold::AxisFold(const Kernel& kernel)
    : rank_(kernel.rank), reduced_(kernel.reduced), sums_floats_(sums_floats(kernel)), reducer_(native::reducer(kernel.outputs[0].reduce, kernel.inputs[0].dtype)), size_(graph::size_of(kernel.inputs[0].dtype)) {}

bool AxisFold::fits(const int64_t* extents) {
  const size_t words = static_cast<size_t>(rank_) * 3;
  if (seen_.size() != words || !std::equal(seen_.begin(), seen_.end(), extents)) {
    seen_.assign(extents, extents + words);
    fits_ = find_axes(extents);
  }
  return fits_;
}

bool AxisFold::find_axes(const int64_t* extents) {
  if (sums_floats_ && native::sums_in_pieces(extents + rank_, extents, rank_, reduced_)) return false;
  std::vector<Axis> gone;
  kept_.clear();
  has_columns_ = false;
  for (int i = 0; i < rank_; i++) {
    if (extents[i] == 1) continue;
    // Where such an axis stands is the iterator's choice.
    if (extents[rank_ + i] == 0) return false;
    has_columns_ = !(reduced_ >> i & 1);
    (has_columns_ ? kept_ : gone).push_back({extents[i], extents[rank_ + i], extents[2 * rank_ + i]});
  }
  return has_columns_ ? find_columns(std::move(gone)) : find_row(std::move(gone));
}

bool AxisFold::find_columns(std::vector<Axis> gone) {
  const Axis columns = kept_.back();
  kept_.pop_back();
  if (columns.from != size_ || columns.to != size_) return false;
  count_ = columns.size;
  places_.assign(1, 0);
  for (const Axis& axis : gone) {
    if (static_cast<int64_t>(places_.size()) * axis.size > kMostRows) return false;
    std::vector<int64_t> all;
    for (const int64_t place : places_) {
      for (int64_t i = 0; i < axis.size; i++) all.push_back(place + i * axis.from);
    }
    places_ = std::move(all);
  }
  if (count_ > kMostRows) return false;
  starts_.resize(static_cast<size_t>(count_ * size_));
  for (int64_t i = 0; i < count_; i++) reducer_.start(starts_.data() + i * size_);
  return true;
}

// Axes that are one in memory are one row.
bool AxisFold::find_row(std::vector<Axis> gone) {
  if (gone.empty() || gone.back().from != size_) return false;
  count_ = 1;
  for (; !gone.empty() && gone.back().from == count_ * size_; gone.pop_back()) count_ *= gone.back().size;
  return gone.empty() && count_ <= kMostRows;
}

native::FloatFlags AxisFold::run(const char* from, char* to) const {
  native::FloatFlags met = 0;
  native::without_flags([&] {
    native::clear_flags();
    fold_from(0, from, to);
    if (!reducer_.quiet) met = native::raised_flags();
  });
  return met;
}

void AxisFold::fold_from(size_t first, const char* from, char* to) const {
  if (first == kept_.size()) return fold(from, to);
  const Axis& axis = kept_[first];
  if (!has_columns_ && first + 1 == kept_.size()) return reducer_.fold_rows(to, axis.to, from, axis.from, axis.size, count_);
  for (int64_t i = 0; i < axis.size; i++) fold_from(first + 1, from + i * axis.from, to + i * axis.to);
}

void AxisFold::fold(const char* from, char* to) const {
  if (!has_columns_) return reducer_.fold_rows(to, 0, from, 0, 1, count_);
  std::memcpy(to, starts_.data(), starts_.size());
  for (const int64_t place : places_) reducer_.accumulate(to, size_, from + place, count_, 0);
}

}  // namespace evalframe::regions
