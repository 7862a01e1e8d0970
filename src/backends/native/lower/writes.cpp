// Lowers writes into arrays: by the kernel that computes the value where that is right, else by a copy at the segment's end.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <utility>

namespace evalframe::native::lowering {

// The array that a node writes; what the segment makes itself gets its memory here.
Value Lowering::target_of(Operand operand, DType dtype) {
  Value target = inside(operand) && value_at(operand.index).kernel >= 0 ? value_at(operand.index) : value_of(operand, dtype);
  if (target.reduced) throw Unsupported();
  if (target.kernel >= 0) store(target), remember(operand, target);
  if (target.place.storage >= 0) target.box = target.place;
  target.kernel = -1;
  // What is written into a reshaped view that had to be a copy isn't seen in the array.
  const Operand of = owner(operand);
  const bool copied = inside(of) && value_at(of.index).kernel >= 0 ? target.box.storage != value_at(of.index).box.storage
                                                                   : variant_.storages[target.box.storage].kind != Storage::Kind::kLeaf;
  if (copied) throw Unsupported();
  return target;
}

// Whether a node copies a leaf, or a part of one, for the segment to write into.
bool Lowering::is_written_copy(int32_t node, const Meaning& meaning, const Value& from) const {
  if (meaning.sense != Sense::kCast || meaning.loop != meaning.result || from.kernel >= 0 || !from.box.rolls.empty()) return false;
  return variant_.storages[from.box.storage].kind == Storage::Kind::kLeaf && is_written(node);
}

bool Lowering::is_written(int32_t node) const {
  return std::any_of(segment_.meanings.begin(), segment_.meanings.end(), [&](const Meaning& other) {
    return other.target && owner(other.target) == Operand::node(node);
  });
}

// The node, or the array that enters the segment, whose memory an operand is.
Operand Lowering::owner(Operand operand) const {
  while (inside(operand)) {
    const Meaning& meaning = segment_.meanings[operand.index - segment_.begin];
    if (!meaning.target && meaning.sense != Sense::kView) break;
    operand = meaning.target ? meaning.target : meaning.args[0];
  }
  return operand;
}

// Remembers that `value` goes into the place of `target`.
void Lowering::add_store(int32_t node, const Value& value, const Value& target) {
  if (target.fixed) throw Unsupported();
  // What read the place in between was given the value itself.
  const auto replaced = [&](const Stored& store) {
    const bool same = same_box(store.target.box, target.box) && canonical(store.target.dims) == canonical(target.dims);
    if (same) overwritten_.push_back(store.value);
    return same;
  };
  std::erase_if(stores_, replaced);
  stores_.push_back({node, value, target});
}

bool Lowering::is_used(const Value& value) const {
  const std::vector<KernelOp>& ops = variant_.kernels[value.kernel].kernel.ops;
  return value.reduced || std::any_of(ops.begin(), ops.end(), [&](const KernelOp& op) {
    const int32_t operands[] = {op.a, op.b, op.c};
    return std::find(operands, operands + arity(op.op), value.index) != operands + arity(op.op);
  });
}

// A part of an array, written with a value that may be broadcast.
void Lowering::lower_store(int32_t node, const Meaning& meaning) {
  const Value base = target_of(meaning.target, meaning.loop);
  Value part;
  part.dtype = base.dtype;
  part.fixed = base.fixed;
  part.box.storage = base.box.storage;
  part.box.offsets = base.box.offsets;
  index(base, meaning.items, part);
  part.box.dims = part.dims;
  Value value = value_of(meaning.args[0], part.dtype);
  if (value.dims.size() > part.dims.size()) throw Unsupported();
  for (size_t i = 1; i <= value.dims.size(); i++) {
    const int from = find(value.dims[value.dims.size() - i]), to = find(part.dims[part.dims.size() - i]);
    unite(from, examples_[from] == 1 && examples_[to] != 1 ? constant(1) : to);
  }
  const bool itself = value.box.storage == part.box.storage;
  if (itself) value.kernel = -1;
  if (value.dtype != part.dtype || itself) value = copied(value, part.dtype, meaning.args[0]);
  add_store(node, value, part);
}

void Lowering::lower_kept(int32_t node, const Meaning& meaning) {
  Value array = element_of(meaning.args[0], meaning.loop), mask = element_of(meaning.args[1], DType::bool_);
  if (array.kept_by >= 0 || mask.kept_by >= 0) throw Unsupported{node};
  Value value;
  value.dims = unite(mask.dims, array.dims);
  value.dtype = meaning.result;
  value.kept_by = node;
  value.kernel = choose_kernel({array, mask}, value.dims, 0, false);
  const int number = use(value.kernel, array, meaning.loop);
  remember(meaning.args[0], array);
  value.index = kept_or_one(value.kernel, node, number, meaning.loop);
  value_at(node) = std::move(value);
}

// Of a value of kernel k: a one where the mask doesn't hold, so that no operation meets a condition there.
int Lowering::kept_or_one(int k, int32_t kept_by, int number, DType dtype) {
  const Operand of = segment_.meanings[kept_by - segment_.begin].args[1];
  Value mask = element_of(of, DType::bool_), one = scalar({Operand{}, constant(1), DType::float64});
  const int where = use(k, mask, DType::bool_);
  remember(of, mask);
  return operation(k, {ScalarOp::select, dtype, where, number, use(k, one, dtype)});
}

// The array with the number where the mask holds, and as it was elsewhere, is written into it.
void Lowering::lower_masked_store(int32_t node, const Meaning& meaning) {
  const Value target = target_of(meaning.target, meaning.result);
  Value mask = element_of(meaning.args[0], DType::bool_), number = element_of(meaning.args[1], meaning.loop), old = value_of(meaning.args[2], meaning.loop);
  if (number.dtype != meaning.loop || (number.kept_by < 0 && !number.dims.empty())) throw Unsupported{node};
  Value value;
  value.dims = unite(unite(mask.dims, old.dims), target.dims);
  if (number.kept_by >= 0) value.dims = unite(value.dims, number.dims);
  value.dtype = meaning.result;
  value.layout = target.layout;
  value.kernel = choose_kernel({mask, number, old}, value.dims, 0, false);
  const int where = use(value.kernel, mask, DType::bool_), new_one = use(value.kernel, number, meaning.loop), old_one = use(value.kernel, old, meaning.loop);
  remember(meaning.args[0], mask);
  remember(meaning.args[1], number);
  remember(meaning.args[2], old);
  value.index = operation(value.kernel, {ScalarOp::select, value.dtype, where, new_one, old_one});
  add_store(node, value, target);
  value_at(node) = std::move(value);
}

Value Lowering::copied(Value value, DType dtype, Operand operand) {
  const std::vector<int> space = canonical(value.dims);
  Value copy;
  copy.kernel = choose_kernel({value}, space, 0, false);
  copy.index = use(copy.kernel, value, dtype);
  copy.dims = space;
  copy.dtype = dtype;
  copy.layout = layout_of({value}, space);
  remember(operand, value);
  return copy;
}

// Lets the kernel that computes a value write it where it belongs, if all that is read there is read before or at the same point.
void Lowering::write_directly(Stored& stored) {
  const Value& value = stored.value;
  const int storage = stored.target.box.storage;
  stored.direct = can_write_directly(stored) && !late_.contains(storage);
  if (!stored.direct) {
    late_.insert(storage);
    return;
  }
  const int k = value.kernel;
  outputs_.push_back({k, value.index, storage, ReduceOp::kNone, stored.target.box});
  building_[k].flat &= is_flat(stored.target, building_[k].space);
  writer_[storage] = k;
  const Storage& written = variant_.storages[storage];
  if (written.kind == Storage::Kind::kLeaf && !is_fresh(written.source)) keep_old(k, stored.target);
}

bool Lowering::can_write_directly(const Stored& stored) const {
  const Value& value = stored.value;
  const int storage = stored.target.box.storage;
  if (value.kernel < 0 || value.reduced || value.dtype != stored.target.dtype) return false;
  const Building& building = building_[value.kernel];
  if (canonical(value.dims) != canonical(stored.target.dims) || canonical(building.space) != canonical(value.dims)) return false;
  if (building.inputs.size() + outputs_of(value.kernel) + 3 > kMaxPorts) return false;
  const bool sums = variant_.kernels[value.kernel].kernel.reduced;
  if ((sums || building.keep_flat) && !is_flat(stored.target, building.space)) return false;
  const auto writer = writer_.find(storage);
  if (writer != writer_.end() && !comes_before(writer->second, value.kernel)) return false;
  const Storage& written = variant_.storages[storage];
  if (written.kind == Storage::Kind::kLeaf && !is_fresh(written.source) && !shapes_[written.source].alone) return false;
  return !is_read_later(stored) && !is_read_by_calls(stored);
}

// Whether a call behind the kernels reads elements that the program has read before it wrote them: single numbers, and reshaped
// views, which may be copies.
bool Lowering::is_read_by_calls(const Stored& stored) const {
  const Operand target = owner(segment_.meanings[stored.node - segment_.begin].target);
  return std::any_of(segment_.late.begin(), segment_.late.end(), [&](int32_t node) {
    const Meaning& meaning = segment_.meanings[node - segment_.begin];
    if (meaning.sense != Sense::kView || owner(meaning.args[0]) != target) return false;
    return meaning.may_copy || graph_.nodes[node].meta.kind != Kind::kArray;
  });
}

size_t Lowering::outputs_of(int k) const {
  return static_cast<size_t>(std::count_if(outputs_.begin(), outputs_.end(), [&](const Written& output) { return output.kernel == k; }));
}

// Whether the order in which kernels run, or the segment's end, lets something read the place of `stored` when it is written.
bool Lowering::is_read_later(const Stored& stored) const {
  const int storage = stored.target.box.storage;
  const Box place = spread(stored.target, building_[stored.value.kernel].space);
  for (const Stored& other : stores_) {
    if (&other != &stored && !other.direct && source_of(other.value) == storage) return true;
  }
  for (int k = 0; k < static_cast<int>(building_.size()); k++) {
    if (comes_before(k, stored.value.kernel)) continue;
    for (const Value& input : building_[k].inputs) {
      const bool same = k == stored.value.kernel && same_box(input.box, place);
      if (input.box.storage == storage && !same) return true;
    }
  }
  return false;
}

// The storage that a value is read from at the segment's end.
int Lowering::source_of(const Value& value) const {
  if (value.box.storage >= 0) return value.box.storage;
  const auto known = stored_.find({value.kernel, value.index});
  return known == stored_.end() ? -1 : known->second;
}

bool Lowering::comes_before(int k, int other) const {
  return building_[k].copies == building_[other].copies ? k < other : building_[k].copies;
}

// Whether a leaf is an array that a call of this segment has made: where the segment is dropped, so is the array.
bool Lowering::is_fresh(int leaf) const {
  const Operand operand = segment_.leaves[leaf];
  return inside(operand) && graph_.nodes[operand.index].form == Form::kCall;
}

// What stands in the place before it is written is kept, bit by bit, until nothing can go wrong any more.
void Lowering::keep_old(int k, const Value& target) {
  const DType dtype = bits_of(target.dtype);
  Value old = target;
  old.dtype = dtype;
  const int kept = add_storage({Storage::Kind::kBuffer, -1, dtype, target.dims});
  outputs_.push_back({k, input(k, old), kept, ReduceOp::kNone, whole_box(target.dims.size())});
  variant_.undo.push_back({k, target.box, target.dims, kept});
  variant_.alone.push_back(variant_.storages[target.box.storage].source);
}

// A type whose elements are moved as they are.
DType Lowering::bits_of(DType dtype) {
  return dtype == DType::bool_ ? DType::uint8 : dtype == DType::float16 ? DType::uint16 : dtype;
}

// Copies need no part that is written anyway before it is read.
void Lowering::find_hole(int k) {
  if (!building_[k].copies) return;
  std::vector<Range> hole;
  for (const Written& output : outputs_) {
    if (output.kernel != k) continue;
    const std::vector<Range> part = written_part(output.storage);
    if (part.empty() || is_read(output.storage) || (!hole.empty() && part != hole)) return;
    hole = part;
  }
  if (hole.empty()) return;
  variant_.kernels[k].hole = std::move(hole);
  building_[k].flat = false;
}

bool Lowering::is_read(int storage) const {
  return std::any_of(building_.begin(), building_.end(), [&](const Building& building) {
    return std::any_of(building.inputs.begin(), building.inputs.end(), [&](const Value& input) { return input.box.storage == storage; });
  });
}

// A part of a storage that a kernel writes, as a range of each dimension; none if there is no such part.
std::vector<Range> Lowering::written_part(int storage) const {
  for (const Stored& stored : stores_) {
    const Box& box = stored.target.box;
    if (!stored.direct || box.storage != storage || box.axes.size() != variant_.storages[storage].dims.size()) continue;
    std::vector<Range> part;
    bool is_range = true;
    for (size_t i = 0; i < box.axes.size(); i++) {
      is_range &= box.axes[i].of == static_cast<int>(i) && box.axes[i].step == 1 && box.axes[i].times < 0;
      part.push_back({-1, find(box.dims[i])});
    }
    for (const Offset& offset : box.offsets) {
      is_range &= part[static_cast<size_t>(offset.axis)].start < 0 && offset.step == 1 && offset.times < 0;
      part[static_cast<size_t>(offset.axis)].start = offset.symbol;
    }
    if (is_range) return part;
  }
  return {};
}

// Whether rows of the value may be stored while others are computed: the kernel is the only one that reads what is there from then on, and
// nothing but this store reads the value.
bool Lowering::may_lag(const Stored& stored) const {
  const Value& value = stored.value;
  const int k = value.kernel, storage = stored.target.box.storage;
  const Storage& written = variant_.storages[storage];
  if (k < 0 || value.reduced || value.dtype != stored.target.dtype || building_[k].copies || building_[k].rolled) return false;
  if (canonical(value.dims) != canonical(stored.target.dims) || canonical(building_[k].space) != canonical(value.dims)) return false;
  if (written.kind != Storage::Kind::kLeaf || !shapes_[written.source].alone || is_read_by_calls(stored)) return false;
  const int own = source_of(value);
  if (variant_.storages[own].node >= 0 || is_read(own)) return false;
  for (const Stored& other : stores_) {
    if (&other != &stored && (source_of(other.value) == own || source_of(other.value) == storage || other.target.box.storage == storage)) return false;
  }
  for (int other = 0; other < static_cast<int>(building_.size()); other++) {
    if (other == k || comes_before(other, k)) continue;
    for (const Value& input : building_[other].inputs) {
      if (input.box.storage == storage) return false;
    }
  }
  return true;
}

// The kernel that brings a stored value to its place.
void Lowering::commit(const Stored& store) {
  const Storage& from = variant_.storages[store.value.box.storage];
  KernelPlan plan;
  plan.commits = true;
  plan.space = canonical(store.target.dims);
  plan.ports = {spread(store.value, plan.space), store.target.box};
  if (plan.space.empty()) {
    plan.space.push_back(constant(1));
    for (Box& port : plan.ports) port.axes.push_back({});
  }
  const std::vector<Axis>& axes = plan.ports[0].axes;
  const bool scalar = std::all_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.of < 0; });
  plan.kernel.rank = static_cast<int>(plan.space.size());
  plan.kernel.inputs.push_back({from.dtype, scalar});
  plan.kernel.outputs.push_back({0, store.target.dtype});
  variant_.kernels.push_back(std::move(plan));
}

}  // namespace evalframe::native::lowering
