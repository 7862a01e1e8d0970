// Lowers reductions, and the means and variances that are made of sums.
#include "backends/native/lower/lowering.h"

#include <bit>
#include <utility>

#include "backends/native/lower/variant.h"

namespace evalframe::native::lowering {

bool Lowering::order_shows(ReduceOp reduce, DType dtype) {
  const bool sum = reduce == ReduceOp::kAdd || reduce == ReduceOp::kMultiply;
  return sum && (graph::kind_of(dtype) == 'f' || graph::kind_of(dtype) == 'c');
}

void Lowering::lower_reduce(int32_t node, const Meaning& meaning) {
  Value operand = value_of(meaning.args[0], meaning.loop);
  const bool spread = meaning.statistic == Statistic::kVariance || meaning.statistic == Statistic::kDeviation;
  int count = -1;
  Value value = reduce(node, operand, meaning, meaning.keepdims || spread, count);
  remember(meaning.args[0], operand);
  if (spread) value = squared_differences(node, operand, divide_by_count(std::move(value), count), meaning, count);
  if (meaning.ddof) count = symbol({Symbol::Kind::kLess, count, -1, meaning.ddof});
  if (meaning.statistic != Statistic::kPlain) value = divide_by_count(std::move(value), count);
  if (meaning.statistic == Statistic::kDeviation) value = apply(ScalarOp::sqrt, value.dtype, {value});
  value_at(node) = std::move(value);
}

// The sum that a variance is made of, in NumPy's steps.
Value Lowering::squared_differences(int32_t node, const Value& operand, const Value& mean, const Meaning& meaning, int& count) {
  const Value difference = apply(ScalarOp::subtract, meaning.loop, {operand, mean});
  Value square = apply(ScalarOp::multiply, meaning.loop, {difference, difference});
  square.layout = difference.layout;
  return reduce(node, square, meaning, meaning.keepdims, count);
}

Value Lowering::apply(ScalarOp op, DType dtype, std::vector<Value> operands) {
  Value value;
  value.dims = broadcast(operands);
  value.dtype = dtype;
  value.kernel = choose_kernel(operands, value.dims, 0, false);
  KernelOp operation_{op, dtype};
  operation_.a = use(value.kernel, operands[0], dtype);
  operation_.b = operands.size() > 1 ? use(value.kernel, operands[1], dtype) : kNoValue;
  value.index = operation(value.kernel, operation_);
  value.layout = operands.size() > 1 ? layout_of(operands, value.dims) : operands[0].layout;
  return value;
}

// Reduces over meaning.axes; `count` becomes the number of elements of each sum.
Value Lowering::reduce(int32_t node, Value& operand, const Meaning& meaning, bool keepdims, int& count) {
  const bool position = meaning.reduce == ReduceOp::kArgMin || meaning.reduce == ReduceOp::kArgMax;
  const std::vector<int> space = canonical(operand.dims);
  layout_of({operand}, space);
  const int k = kernel_for_sum(node, operand, space, meaning);
  variant_.kernels[k].kernel.reduced = meaning.axes;
  Value value;
  value.kernel = k;
  value.reduced = true;
  value.dtype = position ? meaning.result : meaning.loop;
  value.index = use(k, operand, meaning.loop);
  Box box;
  count = -1;
  for (size_t i = 0; i < space.size(); i++) {
    if (meaning.axes >> i & 1) {
      count = count < 0 ? space[i] : symbol({Symbol::Kind::kProduct, count, space[i]});
      box.axes.push_back({});
      if (keepdims) value.dims.push_back(constant(1));
    } else {
      box.axes.push_back({static_cast<int>(value.dims.size()), 1});
      value.dims.push_back(space[i]);
    }
  }
  value.layout = layout_of_reduced(operand, value.dims, position ? 0 : meaning.axes);
  value.box.storage = add_storage({Storage::Kind::kBuffer, -1, value.dtype, value.dims, value.layout});
  writer_[value.box.storage] = k;
  outputs_.push_back({k, value.index, value.box.storage, meaning.reduce, std::move(box)});
  value.box.dims = value.dims;
  value.box.complete = true;
  value.box.axes = whole_box(value.dims.size()).axes;
  return value;
}

// The kernel that reduces `operand`. The order in which NumPy sums shows in the last bits: it walks an array as it lies in memory, and
// what lies there as one row, it sums as one.
int Lowering::kernel_for_sum(int32_t node, Value& operand, const std::vector<int>& space, const Meaning& meaning) {
  if (!order_shows(meaning.reduce, meaning.loop)) return choose_kernel({operand}, space, meaning.axes, false);
  const bool whole = space.size() > 1 && meaning.axes == (1u << space.size()) - 1;
  const bool several = std::popcount(meaning.axes) > 1;
  if (space.size() > 1 && (!variant_.plain || (several && !whole))) return kernel_in_memory_order(node, operand, space, meaning.axes);
  if (!whole) return choose_kernel({operand}, space, meaning.axes, false);
  if (operand.kernel < 0 && !is_flat(operand, space)) return kernel_in_memory_order(node, operand, space, meaning.axes);
  int k = choose_kernel({operand}, space, meaning.axes, true);
  if (!building_[k].flat) {
    store(operand);
    k = add_kernel(space, false);
  }
  building_[k].keep_flat = true;
  return k;
}

// A kernel of its own, that reads `operand` from memory.
int Lowering::kernel_in_memory_order(int32_t node, Value& operand, const std::vector<int>& space, uint32_t axes) {
  // What is written has the order of the array that it goes into, which its buffer hasn't.
  const bool goes_elsewhere = operand.layout >= 0 && variant_.layouts[operand.layout].box.storage >= 0;
  if (operand.kernel >= 0 && goes_elsewhere && !variant_.plain) throw Unsupported{node};
  if (operand.kernel >= 0) store(operand);
  // A buffer has no gaps, but its strides only while it is run.
  const bool buffer = variant_.storages[operand.box.storage].kind == Storage::Kind::kBuffer;
  if (buffer && !variant_.plain && !operand.box.complete) throw Unsupported{node};
  Summed summed{operand.box, axes};
  summed.box.dims = operand.dims;
  if (!buffer || variant_.plain) {
    if (!is_in_one_piece(variant_, summed, shapes_.data(), examples_.data())) throw Unsupported{node};
    variant_.summed.push_back(std::move(summed));
  }
  const int k = add_kernel(space, false);
  building_[k].alone = true;
  variant_.kernels[k].kernel.in_memory_order = true;
  return k;
}

// NumPy divides a sum by its count as float64, and then goes back to the sum's type.
Value Lowering::divide_by_count(Value sum, int count) {
  const std::vector<int> space = canonical(sum.dims);
  Value divisor = scalar({Operand{}, count, DType::float64});
  const int k = choose_kernel({sum, divisor}, space, 0, false);
  const DType dtype = sum.dtype;
  const int a = use(k, sum, DType::float64), b = use(k, divisor, DType::float64);
  Value mean;
  mean.layout = sum.layout;
  mean.dims = sum.dims;
  mean.kernel = k;
  mean.dtype = dtype;
  mean.index = operation(k, {ScalarOp::divide, DType::float64, a, b});
  if (dtype != DType::float64) mean.index = operation(k, {ScalarOp::cast, dtype, mean.index});
  return mean;
}

}  // namespace evalframe::native::lowering
