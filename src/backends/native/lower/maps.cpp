// Lowers operations on elements, with or without a mask, and arrays of one value.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace evalframe::native::lowering {

void Lowering::lower_map(int32_t node, const Meaning& meaning) {
  std::vector<Value> operands;
  const bool is_seen = meaning.flattened || !meaning.order.empty();
  for (int i = 0; i < meaning.count; i++) operands.push_back(i == 0 && is_seen ? value_of(meaning.args[i], meaning.loop) : element_of(meaning.args[i], meaning.loop));
  if (meaning.flattened) operands[0] = flattened(node, meaning, std::move(operands[0]));
  if (!meaning.order.empty()) operands[0] = view_of(in_memory(meaning.args[0], std::move(operands[0])), meaning);
  const auto kept = std::find_if(operands.begin(), operands.end(), [](const Value& value) { return value.kept_by >= 0; });
  const int32_t kept_by = kept == operands.end() ? -1 : kept->kept_by;
  for (const Value& value : operands) {
    if (kept_by >= 0 && value.kept_by < 0 && !value.dims.empty()) throw Unsupported{kept_by};
  }
  std::vector<int> space = broadcast(operands);
  if (meaning.target) space = unite(space, value_of(meaning.target, meaning.result).dims);
  if (meaning.in_place) space = unite(space, operands[0].dims);
  const bool copy = is_written_copy(node, meaning, operands[0]);
  const int k = copy ? choose_copy_kernel(space) : choose_kernel(operands, space, 0, false);
  const DType wanted = graph_.nodes[node].meta.dtype;
  std::vector<int> numbers;
  for (int i = 0; i < meaning.count; i++) {
    const bool condition = meaning.sense == Sense::kWhere ? i == 0 : meaning.masked && i == meaning.count - 2;
    const bool elsewhere = meaning.masked && i == meaning.count - 1;
    numbers.push_back(use(k, operands[i], condition ? DType::bool_ : elsewhere ? wanted : meaning.loop));
    if (!meaning.flattened) remember(meaning.args[i], operands[i]);
    if (operands[i].kept_by >= 0) numbers[i] = kept_or_one(k, kept_by, numbers[i], meaning.loop);
  }
  if (meaning.masked) harmless_elsewhere(k, meaning, numbers);
  Value value;
  value.dims = space;
  value.kernel = k;
  value.kept_by = kept_by;
  value.dtype = meaning.result;
  value.index = meaning.sense == Sense::kClip ? clip(k, meaning, numbers, operands) : body(k, meaning, numbers);
  if (meaning.in_place) value.layout = operands[0].layout;
  else if (meaning.sense == Sense::kCast) value.layout = layout_of_copy(operands[0], meaning.c_order);
  else value.layout = layout_of(operands, space);
  if (meaning.sense == Sense::kWhere && value.layout >= 0) variant_.layouts[value.layout].walked = true;
  if (value.dtype != wanted) {
    value.index = operation(k, {ScalarOp::cast, wanted, value.index});
    value.dtype = wanted;
  }
  if (meaning.masked) {
    const int where = numbers[meaning.count - 2], elsewhere = numbers[meaning.count - 1];
    value.index = operation(k, {ScalarOp::select, wanted, where, value.index, elsewhere});
  }
  if (copy) value.source = operands[0].box;
  if (meaning.target) {
    const Value target = target_of(meaning.target, wanted);
    add_store(node, value, target);
    value.layout = target.layout;
  }
  value_at(node) = std::move(value);
}

int Lowering::inputs_of(const Meaning& meaning) { return meaning.masked ? meaning.count - 2 : meaning.count; }

// Where a masked operation isn't done, it is done on ones: they raise no flags.
void Lowering::harmless_elsewhere(int k, const Meaning& meaning, std::vector<int>& numbers) {
  Value one = scalar({Operand{}, constant(1), DType::float64});
  const int number = use(k, one, meaning.loop);
  for (int i = 0; i < inputs_of(meaning); i++) {
    numbers[i] = operation(k, {ScalarOp::select, meaning.loop, numbers[meaning.count - 2], numbers[i], number});
  }
}

void Lowering::lower_fill(int32_t node, const Meaning& meaning) {
  Value value;
  value.dims = canonical(shape_for({}, meaning.shape));
  value.dtype = meaning.result;
  Value number = meaning.count ? value_of(meaning.args[0], meaning.result) : scalar({Operand{}, constant(meaning.number), DType::float64});
  value.kernel = number.kernel < 0 && is_written(node) ? choose_copy_kernel(value.dims) : choose_kernel({number}, value.dims, 0, false);
  // An operation, so that two arrays of one number are two arrays.
  value.index = operation(value.kernel, {ScalarOp::cast, value.dtype, use(value.kernel, number, value.dtype)});
  const Value like = meaning.like ? value_of(meaning.shape[0].at, DType::kNone) : value;
  value.layout = layout_of_copy(like, !meaning.like);
  value_at(node) = std::move(value);
}

// Of differences of elements, not of what is stored of them: these have the same bits.
void Lowering::lower_difference(int32_t node, const Meaning& meaning) {
  const Value array = in_memory(meaning.args[0], value_of(meaning.args[0], meaning.loop));
  const auto times = static_cast<size_t>(meaning.number);
  std::vector<Value> parts;
  for (int64_t first = 0; first <= meaning.number; first++) {
    const int64_t behind = meaning.number - first;
    Meaning seen;
    seen.items.assign(static_cast<size_t>(std::countr_zero(meaning.axes)), {IndexItem::Kind::kSlice});
    seen.items.push_back({.kind = IndexItem::Kind::kSlice, .start = first ? first : IndexItem::kAbsent, .stop = behind ? -behind : IndexItem::kAbsent});
    parts.push_back(view_of(array, seen));
    parts.back().layout = layout_of(parts.back().box);
  }
  Value value;
  value.dims = broadcast(parts);
  value.dtype = meaning.result;
  value.kernel = choose_kernel(parts, value.dims, 0, false);
  value.layout = layout_of(parts, value.dims);
  std::vector<int> numbers;
  for (Value& part : parts) numbers.push_back(use(value.kernel, part, meaning.loop));
  for (size_t left = times; left > 0; left--) {
    for (size_t i = 0; i < left; i++) numbers[i] = operation(value.kernel, {ScalarOp::subtract, meaning.result, numbers[i + 1], numbers[i]});
  }
  value.index = numbers[0];
  value_at(node) = std::move(value);
}

int Lowering::body(int k, const Meaning& meaning, const std::vector<int>& numbers) {
  switch (meaning.sense) {
    case Sense::kWhere: return operation(k, {ScalarOp::select, meaning.result, numbers[0], numbers[1], numbers[2]});
    case Sense::kCast: return operation(k, {ScalarOp::cast, meaning.result, numbers[0]});
    default: return operation(k, {meaning.op, meaning.result, numbers[0], inputs_of(meaning) > 1 ? numbers[1] : kNoValue});
  }
}

// Of zeros of two signs NumPy takes the element's where neither bound moves along its inner loop, else the bound's.
int Lowering::clip(int k, const Meaning& meaning, const std::vector<int>& numbers, const std::vector<Value>& operands) {
  const std::vector<int> space = broadcast(operands);
  const auto stays = [&](const Value& bound) { return bound.dims.empty() || find(bound.dims.back()) != space.back(); };
  const bool single = stays(operands[1]) && stays(operands[2]) && meaning.loop != DType::float16;
  const auto bounded = [&](ScalarOp op, int number, int bound) {
    return operation(k, {op, meaning.result, single ? bound : number, single ? number : bound});
  };
  return bounded(ScalarOp::minimum, bounded(ScalarOp::maximum, numbers[0], numbers[1]), numbers[2]);
}

}  // namespace evalframe::native::lowering
