// Groups operations into kernels over equal spaces, and gives values that leave a kernel their memory.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <utility>

#include "backends/native/lower/variant.h"

namespace evalframe::native::lowering {

// Inputs and operations get their numbers when the kernel is finished: until then an input is -1 - i.
int Lowering::input_number(size_t i) { return -1 - static_cast<int>(i); }

std::vector<int> Lowering::broadcast(const std::vector<Value>& operands) {
  size_t rank = 0;
  for (const Value& value : operands) rank = std::max(rank, value.dims.size());
  std::vector<int> space(rank);
  for (size_t i = 0; i < rank; i++) space[i] = broadcast_dimension(operands, rank - i);
  return space;
}

// The size of the dimension that is `from_end` from the end (1: the last).
int Lowering::broadcast_dimension(const std::vector<Value>& operands, size_t from_end) {
  int size = -1;
  for (const Value& value : operands) {
    if (value.dims.size() < from_end) continue;
    const int dim = find(value.dims[value.dims.size() - from_end]);
    if (size < 0 || (examples_[size] == 1 && examples_[dim] != 1)) size = dim;
  }
  for (const Value& value : operands) {
    if (value.dims.size() < from_end) continue;
    const int dim = find(value.dims[value.dims.size() - from_end]);
    if (examples_[dim] == 1 && examples_[size] != 1) {
      unite(dim, constant(1));
    } else {
      size = unite(size, dim);
    }
  }
  return find(size);
}

// The box of `value` over `space`.
Box Lowering::spread(const Value& value, const std::vector<int>& space) const {
  Box box = value.box;
  box.axes.assign(space.size(), Axis{});
  if (!box.rolls.empty()) box.rolls.assign(space.size(), -1);
  const size_t missing = space.size() - value.dims.size();
  for (size_t i = 0; i < value.dims.size(); i++) {
    const bool stretched = find(value.dims[i]) != find(space[missing + i]);
    if (!stretched) box.axes[missing + i] = value.box.axes[i];
    if (!stretched && !value.box.rolls.empty()) box.rolls[missing + i] = value.box.rolls[i];
  }
  box.dims.clear();
  return box;
}

bool Lowering::whole(const Value& value, const std::vector<int>& space) const {
  if (!variant_.plain && space.size() > 1) return false;
  return value.dims.empty() || canonical(value.dims) == canonical(space);
}

bool Lowering::is_flat(const Value& value, const std::vector<int>& space) const {
  if (value.dims.empty()) return true;
  const Storage& storage = variant_.storages[value.box.storage];
  if (!variant_.plain && space.size() > 1) return false;
  if (!value.box.complete || canonical(value.dims) != canonical(space)) return false;
  return storage.kind != Storage::Kind::kLeaf || contiguous(storage.source);
}

bool Lowering::is_dense(const std::vector<int64_t>& strides, const Box& box) const {
  return is_in_c_order(variant_, box, strides, sizes_of(box, examples_.data()));
}

bool Lowering::contiguous(int leaf) const {
  const int rank = meanings_.meta(segment_.leaves[leaf]).rank;
  int64_t expected = graph::size_of(meanings_.meta(segment_.leaves[leaf]).dtype);
  for (int axis = rank - 1; axis >= 0; axis--) {
    const int64_t size = shapes_[leaf].sizes[axis];
    if (size != 1 && shapes_[leaf].strides[axis] != expected) return false;
    expected *= size;
  }
  return true;
}

// The first kernel that can come after `value` is computed.
int Lowering::earliest(const Value& value, const std::vector<int>& space) const {
  if (value.kernel < 0) return value.box.storage >= 0 ? storage_ready(value.box.storage) : 0;
  if (!space.empty() && is_repeatable(value)) return single(value.kernel, value.index).ready;
  return !value.reduced && canonical(value.dims) == space ? value.kernel : value.kernel + 1;
}

int Lowering::storage_ready(int storage) const {
  const auto found = writer_.find(storage);
  return found == writer_.end() || building_[found->second].copies ? 0 : found->second + 1;
}

int Lowering::choose_copy_kernel(const std::vector<int>& space) {
  for (size_t k = 0; k < building_.size(); k++) {
    const size_t ports = building_[k].inputs.size() + variant_.kernels[k].kernel.outputs.size();
    if (building_[k].copies && building_[k].space == space && ports <= kMaxPorts) return static_cast<int>(k);
  }
  return add_kernel(space, true);
}

int Lowering::add_kernel(const std::vector<int>& space, bool copies) {
  Building made;
  made.space = space;
  made.copies = copies;
  building_.push_back(std::move(made));
  variant_.kernels.emplace_back();
  return static_cast<int>(building_.size()) - 1;
}

int Lowering::choose_kernel(const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat) {
  int first = 0;
  for (const Value& value : operands) first = std::max(first, earliest(value, space));
  for (int k = first; k < static_cast<int>(building_.size()); k++) {
    if (fits(k, operands, space, reduced, want_flat)) return k;
  }
  return add_kernel(space, false);
}

bool Lowering::fits(int k, const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat) const {
  const Building& kernel = building_[k];
  const Kernel& body = variant_.kernels[k].kernel;
  if (kernel.alone || kernel.copies || canonical(kernel.space) != space) return false;
  if (reduced && body.reduced && body.reduced != reduced) return false;
  const bool rolled = kernel.rolled || std::any_of(operands.begin(), operands.end(), [](const Value& value) { return !value.box.rolls.empty(); });
  if (rolled && (reduced || body.reduced)) return false;
  if (body.ops.size() > kMaxOperations || kernel.inputs.size() + body.outputs.size() > kMaxPorts) return false;
  bool flat = kernel.flat;
  for (const Value& value : operands) flat &= value.box.storage < 0 ? whole(value, space) : is_flat(value, space);
  return flat || !(want_flat || kernel.keep_flat);
}

// The number of `value` in the body of kernel k, as `dtype`.
int Lowering::use(int k, Value& value, DType dtype) {
  int number = value.index;
  if (value.kernel != k && is_repeatable(value)) number = repeat(k, value.kernel, value.index);
  else if (value.kernel != k || value.reduced) number = input(k, value);
  Building& kernel = building_[k];
  if (value.dtype == dtype) return number;
  const auto found = kernel.casts.find({number, static_cast<int>(dtype)});
  if (found != kernel.casts.end()) return found->second;
  const int cast = operation(k, {ScalarOp::cast, dtype, number});
  kernel.casts.emplace(std::pair{number, static_cast<int>(dtype)}, cast);
  return cast;
}

// A single number whose computation is short.
bool Lowering::is_repeatable(const Value& value) const {
  return value.kernel >= 0 && !value.reduced && value.dims.empty() && single(value.kernel, value.index).operations <= kMaxRepeated;
}

// Of a value of a kernel over a single point.
Single Lowering::single(int k, int number) const {
  const Building& kernel = building_[k];
  if (number >= 0) return kernel.singles[number];
  return {storage_ready(kernel.inputs[-1 - number].box.storage), 0};
}

// Computes what is value `number` of kernel `from`, over a single point, in kernel k.
int Lowering::repeat(int k, int from, int number) {
  if (number < 0) {
    Value read = building_[from].inputs[-1 - number];
    return input(k, read);
  }
  const auto known = building_[k].repeated.find({from, number});
  if (known != building_[k].repeated.end()) return known->second;
  KernelOp op = variant_.kernels[from].kernel.ops[number];
  int32_t* const operands[] = {&op.a, &op.b, &op.c};
  for (int i = 0; i < arity(op.op); i++) *operands[i] = repeat(k, from, *operands[i]);
  return building_[k].repeated[{from, number}] = operation(k, op);
}

int Lowering::input(int k, Value& value) {
  if (value.kernel >= 0) store(value);
  Building& kernel = building_[k];
  const Box box = spread(value, kernel.space);
  for (size_t i = 0; i < kernel.inputs.size(); i++) {
    if (kernel.inputs[i].dtype == value.dtype && same_box(kernel.inputs[i].box, box)) return input_number(i);
  }
  kernel.flat &= is_flat(value, kernel.space);
  kernel.rolled |= !box.rolls.empty();
  Value entry;
  entry.dtype = value.dtype;
  entry.dims = value.dims;
  entry.box = box;
  kernel.inputs.push_back(std::move(entry));
  return input_number(kernel.inputs.size() - 1);
}

bool Lowering::same_box(const Box& a, const Box& b) {
  auto same_axis = [](const Axis& x, const Axis& y) { return x.of == y.of && (x.of < 0 || (x.step == y.step && x.times == y.times)); };
  auto same_offset = [](const Offset& x, const Offset& y) {
    return x.symbol == y.symbol && x.axis == y.axis && x.step == y.step && x.times == y.times;
  };
  return a.storage == b.storage && a.rolls == b.rolls && std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(), same_axis) &&
         std::equal(a.offsets.begin(), a.offsets.end(), b.offsets.begin(), b.offsets.end(), same_offset);
}

int Lowering::operation(int k, KernelOp op) {
  std::vector<KernelOp>& ops = variant_.kernels[k].kernel.ops;
  ops.push_back(op);
  if (building_[k].space.empty()) note_single(k, op);
  return static_cast<int>(ops.size()) - 1;
}

void Lowering::note_single(int k, const KernelOp& op) {
  Single all{0, 1};
  const int32_t operands[] = {op.a, op.b, op.c};
  for (int i = 0; i < arity(op.op); i++) {
    const Single one = single(k, operands[i]);
    all.ready = std::max(all.ready, one.ready);
    all.operations = std::min(all.operations + one.operations, kMaxRepeated + 1);
  }
  building_[k].singles.push_back(all);
}

// Gives a computed value a storage of its own, written by its kernel.
void Lowering::store(Value& value) {
  if (value.box.storage >= 0) return;
  // The same value may be held by copies: the storage is remembered by where it is computed.
  const auto known = stored_.find({value.kernel, value.index});
  if (known != stored_.end() && !value.reduced) {
    value.box.storage = known->second;
  } else {
    value.box.storage = add_storage({Storage::Kind::kBuffer, -1, value.dtype, value.dims, value.layout});
    writer_[value.box.storage] = value.kernel;
    if (!value.reduced) stored_[{value.kernel, value.index}] = value.box.storage;
    outputs_.push_back({value.kernel, value.index, value.box.storage, ReduceOp::kNone, whole_box(value.dims.size())});
  }
  value.box.dims = value.dims;
  value.box.complete = true;
  value.box.axes = whole_box(value.dims.size()).axes;
}

Box Lowering::whole_box(size_t rank) {
  Box box;
  for (size_t i = 0; i < rank; i++) box.axes.push_back({static_cast<int>(i), 1});
  return box;
}

}  // namespace evalframe::native::lowering
