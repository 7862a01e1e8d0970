// Lowers a segment: finds the shape of each value in symbols, and groups the operations into kernels over equal spaces.
#include "backends/native/lower.h"

#include <Python.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "backends/native/reshape.h"

namespace evalframe::native {

using graph::Graph;
using graph::Kind;
using graph::Meta;
using graph::Operand;

namespace {

constexpr size_t kMaxOperations = 256;
constexpr size_t kMaxPorts = 24;
// A number is computed again by each kernel that uses it, before its loop, rather than by a kernel of its own, up to this length.
constexpr int kMaxRepeated = 32;

// Thrown inside lower() only: these shapes or this combination stay with NumPy; for a layout, the node does.
struct Unsupported {
  int32_t node = -1;
};

// What is known of an operand inside the segment.
struct Value {
  DType dtype = DType::kNone;
  std::vector<int> dims;
  int kernel = -1;  // that computes it, or -1
  int index = -1;   // its value in the kernel's body
  bool reduced = false;
  Box box;          // where it stands, if box.storage >= 0
  bool fixed = false;  // a view that may not be written
  Box source;       // a copy that is written later: where what it copies stands
  Box place;        // a view of such a copy: where it is written; it is read where the source stands
  int layout = -1;  // of the array that it is for the program; -1: C order, or less than two dimensions
};

// What it takes to compute one number of a kernel over a single point again.
struct Single {
  int ready = 0;       // the first kernel that can come behind what it reads
  int operations = 0;
};

std::vector<int64_t> c_strides(const std::vector<int>& dims, const int64_t* symbols) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(symbols[dims[i]], 1);
  return strides;
}

int64_t steps(const Axis& axis, const int64_t* symbols) { return axis.times < 0 ? axis.step : axis.step * symbols[axis.times]; }

// Strides of a box's storage: bytes of a leaf, elements of a buffer in C order.
std::vector<int64_t> strides_of(const Variant& variant, const Box& box, const LeafShape* shapes, const int64_t* symbols) {
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

// A write into an array.
struct Stored {
  int32_t node;
  Value value;
  Value target;
  bool direct = false;  // by the kernel that computes the value, else at the segment's end
};

class Lowering {
 public:
  Lowering(const Graph& graph, const Meanings& meanings, const Segment& segment, const std::vector<LeafShape>& shapes)
      : graph_(graph), meanings_(meanings), segment_(segment), shapes_(shapes) {}

  // Sizes turn out to be one only while the nodes are read, and only operations over one space share a kernel: once all
  // is known of the sizes, the segment is lowered again.
  Variant run() {
    Lowering again(graph_, meanings_, segment_, shapes_);
    lower_all();
    again.variant_.plain = is_plain();
    again.variant_.symbols = std::move(variant_.symbols);
    again.variant_.equal = std::move(variant_.equal);
    again.same_ = std::move(same_);
    again.examples_ = std::move(examples_);
    again.lower_all();
    if (!again.variant_.plain) again.variant_.falling.clear(), again.variant_.copied.clear();
    return std::move(again.variant_);
  }

 private:
  void lower_all() {
    for (size_t i = 0; i < segment_.leaves.size(); i++) add_leaf(static_cast<int>(i));
    values_.resize(segment_.end - segment_.begin);
    for (int32_t node = segment_.begin; node < segment_.end; node++) lower_node(node);
    for (const int32_t node : segment_.kept) keep(node);
    for (Stored& stored : stores_) write_directly(stored);
    for (Stored& stored : stores_) {
      if (stored.value.kernel >= 0 && !stored.direct) store(stored.value);
    }
    // What is overwritten before anything has read it may still warn.
    for (Value& value : overwritten_) {
      if (value.kernel >= 0 && !is_used(value)) store(value);
    }
    for (size_t k = 0; k < variant_.kernels.size(); k++) find_hole(static_cast<int>(k));
    for (size_t k = 0; k < variant_.kernels.size(); k++) finish(static_cast<int>(k));
    order_kernels();
    for (const Stored& store : stores_) {
      if (!store.direct) commit(store);
    }
  }

  // --- symbols ---------------------------------------------------------------------------------------------------
  int symbol(const Symbol& wanted) {
    for (size_t i = 0; i < variant_.symbols.size(); i++) {
      if (variant_.symbols[i] == wanted) return static_cast<int>(i);
    }
    variant_.symbols.push_back(wanted);
    same_.push_back(static_cast<int>(same_.size()));
    examples_.resize(variant_.symbols.size());
    if (!evaluate(variant_.symbols, shapes_.data(), examples_.data())) throw Unsupported();
    return static_cast<int>(variant_.symbols.size()) - 1;
  }
  int constant(int64_t value) { return symbol({Symbol::Kind::kConstant, -1, -1, value}); }

  // The symbol of a Python int; -1 if there is none.
  int number(Operand operand) {
    if (!operand) return -1;
    const auto found = std::find(segment_.numbers.begin(), segment_.numbers.end(), operand);
    if (found == segment_.numbers.end()) throw Unsupported();
    return symbol({Symbol::Kind::kLeafSize, static_cast<int>(segment_.leaves.size()), static_cast<int>(found - segment_.numbers.begin())});
  }

  int find(int s) const {
    while (same_[s] != s) s = same_[s];
    return s;
  }
  // From here on two sizes are one; each run checks it.
  int unite(int a, int b) {
    a = find(a), b = find(b);
    if (a == b) return a;
    if (examples_[a] != examples_[b]) throw Unsupported();
    variant_.equal.emplace_back(a, b);
    same_[std::max(a, b)] = std::min(a, b);
    return std::min(a, b);
  }
  std::vector<int> unite(const std::vector<int>& a, const std::vector<int>& b) {
    if (a.size() != b.size()) throw Unsupported();
    std::vector<int> dims;
    for (size_t i = 0; i < a.size(); i++) dims.push_back(unite(a[i], b[i]));
    return dims;
  }
  std::vector<int> canonical(std::vector<int> dims) const {
    for (int& dim : dims) dim = find(dim);
    return dims;
  }

  // --- operands --------------------------------------------------------------------------------------------------
  void add_leaf(int leaf) {
    const Meta& meta = meanings_.meta(segment_.leaves[leaf]);
    Value value;
    value.dtype = meta.dtype;
    Storage storage{Storage::Kind::kLeaf, leaf, meta.dtype};
    for (int axis = 0; axis < meta.rank; axis++) {
      storage.dims.push_back(symbol({Symbol::Kind::kLeafSize, leaf, axis}));
      value.box.axes.push_back({axis, 1});
    }
    value.dims = value.box.dims = storage.dims;
    value.box.complete = true;
    value.box.storage = add_storage(std::move(storage));
    value.layout = layout_of(value.box);
    leaves_.push_back(std::move(value));
  }

  // --- orders in memory ------------------------------------------------------------------------------------------
  int layout_of(const Box& box) {
    if (box.dims.size() < 2) return -1;
    variant_.layouts.push_back({box, {}, box.dims});
    return static_cast<int>(variant_.layouts.size()) - 1;
  }

  // Of what an operation makes of these operands.
  int layout_of(const std::vector<Value>& operands, const std::vector<int>& space) {
    if (space.size() < 2) return -1;
    Layout layout;
    layout.dims = space;
    for (const Value& value : operands) {
      if (value.layout < 0) continue;
      layout.operands.push_back(value.layout);
      note_order(variant_.layouts[value.layout].box);
    }
    if (layout.operands.empty()) return -1;
    variant_.layouts.push_back(std::move(layout));
    return static_cast<int>(variant_.layouts.size()) - 1;
  }

  // Of a copy.
  int layout_of_copy(const Value& operand, bool c_order) {
    if (operand.dims.size() < 2 || (operand.layout < 0 && !c_order)) return -1;
    Layout layout;
    layout.dims = operand.dims;
    if (!c_order) {
      layout.operands.push_back(operand.layout);
      layout.keeps = true;
      add_once(variant_.copied, variant_.layouts[operand.layout].box);
    }
    variant_.layouts.push_back(std::move(layout));
    return static_cast<int>(variant_.layouts.size()) - 1;
  }

  void note_order(const Box& box) { add_once(variant_.falling, box); }

  static void add_once(std::vector<Box>& boxes, const Box& box) {
    if (box.storage < 0) return;
    const auto same = [&](const Box& known) { return same_box(known, box); };
    if (std::none_of(boxes.begin(), boxes.end(), same)) boxes.push_back(box);
  }

  // Whether every operand's strides fall, for the example: then every result is in C order.
  bool is_plain() const { return has_order_of(variant_, shapes_.data(), examples_.data()); }

  int add_storage(Storage storage) {
    variant_.storages.push_back(std::move(storage));
    return static_cast<int>(variant_.storages.size()) - 1;
  }

  // A number as a storage of one element.
  Value scalar(ScalarSource source) {
    Value value;
    value.dtype = source.dtype;
    for (size_t i = 0; i < variant_.scalars.size(); i++) {
      const ScalarSource& known = variant_.scalars[i];
      if (known.operand == source.operand && known.symbol == source.symbol && known.dtype == source.dtype) {
        value.box.storage = scalar_storages_[i];
        return value;
      }
    }
    variant_.scalars.push_back(source);
    value.box.storage = add_storage({Storage::Kind::kScalar, static_cast<int>(variant_.scalars.size()) - 1, source.dtype});
    scalar_storages_.push_back(value.box.storage);
    return value;
  }

  bool inside(Operand operand) const {
    return operand.space == Operand::Space::kNode && operand.index >= segment_.begin && operand.index < segment_.end;
  }

  Value& value_at(int32_t node) { return values_[node - segment_.begin]; }

  Value value_of(Operand operand, DType loop) {
    const Meta& meta = meanings_.meta(operand);
    if (inside(operand) && value_at(operand.index).dtype != DType::kNone) return as_read(value_at(operand.index));
    if (meta.kind == Kind::kNumpyScalar) return scalar({operand, -1, meta.dtype});
    if (meta.kind != Kind::kArray) return scalar({operand, -1, loop});
    const auto found = std::find(segment_.leaves.begin(), segment_.leaves.end(), operand);
    if (found == segment_.leaves.end()) throw Unsupported();
    return leaves_[found - segment_.leaves.begin()];
  }

  // A copy that is written later is read where what it copies stands: so its kernel needn't come before what writes into it.
  static Value as_read(Value value) {
    if (value.source.storage < 0) return value;
    value.kernel = -1;
    value.box = value.source;
    return value;
  }

  // The array that a node writes; what the segment makes itself gets its memory here.
  Value target_of(Operand operand, DType dtype) {
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

  // --- kernels ---------------------------------------------------------------------------------------------------
  struct Building {
    std::vector<int> space;
    bool copies = false;      // only copies what enters the segment, or a number, for others to write into: comes before all others
    std::map<std::pair<int, int>, int> casts;     // (value, dtype) -> value
    std::map<std::pair<int, int>, int> repeated;  // (kernel, its value) -> value
    std::vector<Single> singles;                  // beside the operations, where the space is a single point
    std::vector<Value> inputs;
    bool flat = true;         // every operand is a contiguous storage of the whole space, or a scalar
    bool keep_flat = false;   // and must stay so
    std::vector<int> result;  // operations' values are numbered after all inputs: fixed in finish()
  };

  // Inputs and operations get their numbers when the kernel is finished: until then an input is -1 - i.
  static int input_number(size_t i) { return -1 - static_cast<int>(i); }

  std::vector<int> broadcast(const std::vector<Value>& operands) {
    size_t rank = 0;
    for (const Value& value : operands) rank = std::max(rank, value.dims.size());
    std::vector<int> space(rank);
    for (size_t i = 0; i < rank; i++) space[i] = broadcast_dimension(operands, rank - i);
    return space;
  }

  // The size of the dimension that is `from_end` from the end (1: the last).
  int broadcast_dimension(const std::vector<Value>& operands, size_t from_end) {
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
  Box spread(const Value& value, const std::vector<int>& space) const {
    Box box = value.box;
    box.axes.assign(space.size(), Axis{});
    const size_t missing = space.size() - value.dims.size();
    for (size_t i = 0; i < value.dims.size(); i++) {
      const bool stretched = find(value.dims[i]) != find(space[missing + i]);
      if (!stretched) box.axes[missing + i] = value.box.axes[i];
    }
    box.dims.clear();
    return box;
  }

  bool whole(const Value& value, const std::vector<int>& space) const {
    if (!variant_.plain && space.size() > 1) return false;
    return value.dims.empty() || canonical(value.dims) == canonical(space);
  }

  bool is_flat(const Value& value, const std::vector<int>& space) const {
    if (value.dims.empty()) return true;
    const Storage& storage = variant_.storages[value.box.storage];
    if (!variant_.plain && space.size() > 1) return false;
    if (!value.box.complete || canonical(value.dims) != canonical(space)) return false;
    return storage.kind != Storage::Kind::kLeaf || contiguous(storage.source);
  }

  bool is_dense(const std::vector<int64_t>& strides, const Box& box) const {
    return is_in_c_order(variant_, box, strides, sizes_of(box, examples_.data()));
  }

  bool contiguous(int leaf) const {
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
  int earliest(const Value& value, const std::vector<int>& space) const {
    if (value.kernel < 0) return value.box.storage >= 0 ? storage_ready(value.box.storage) : 0;
    if (!space.empty() && is_repeatable(value)) return single(value.kernel, value.index).ready;
    return !value.reduced && canonical(value.dims) == space ? value.kernel : value.kernel + 1;
  }
  int storage_ready(int storage) const {
    const auto found = writer_.find(storage);
    return found == writer_.end() || building_[found->second].copies ? 0 : found->second + 1;
  }

  int choose_copy_kernel(const std::vector<int>& space) {
    for (size_t k = 0; k < building_.size(); k++) {
      const size_t ports = building_[k].inputs.size() + variant_.kernels[k].kernel.outputs.size();
      if (building_[k].copies && building_[k].space == space && ports <= kMaxPorts) return static_cast<int>(k);
    }
    return add_kernel(space, true);
  }

  int add_kernel(const std::vector<int>& space, bool copies) {
    Building made;
    made.space = space;
    made.copies = copies;
    building_.push_back(std::move(made));
    variant_.kernels.emplace_back();
    return static_cast<int>(building_.size()) - 1;
  }

  int choose_kernel(const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat) {
    int first = 0;
    for (const Value& value : operands) first = std::max(first, earliest(value, space));
    for (int k = first; k < static_cast<int>(building_.size()); k++) {
      if (fits(k, operands, space, reduced, want_flat)) return k;
    }
    return add_kernel(space, false);
  }

  bool fits(int k, const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat) const {
    const Building& kernel = building_[k];
    const Kernel& body = variant_.kernels[k].kernel;
    if (kernel.copies || canonical(kernel.space) != space) return false;
    if (reduced && body.reduced && body.reduced != reduced) return false;
    if (body.ops.size() > kMaxOperations || kernel.inputs.size() + body.outputs.size() > kMaxPorts) return false;
    bool flat = kernel.flat;
    for (const Value& value : operands) flat &= value.box.storage < 0 ? whole(value, space) : is_flat(value, space);
    return flat || !(want_flat || kernel.keep_flat);
  }

  // The number of `value` in the body of kernel k, as `dtype`.
  int use(int k, Value& value, DType dtype) {
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
  bool is_repeatable(const Value& value) const {
    return value.kernel >= 0 && !value.reduced && value.dims.empty() && single(value.kernel, value.index).operations <= kMaxRepeated;
  }

  // Of a value of a kernel over a single point.
  Single single(int k, int number) const {
    const Building& kernel = building_[k];
    if (number >= 0) return kernel.singles[number];
    return {storage_ready(kernel.inputs[-1 - number].box.storage), 0};
  }

  // Computes what is value `number` of kernel `from`, over a single point, in kernel k.
  int repeat(int k, int from, int number) {
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

  int input(int k, Value& value) {
    if (value.kernel >= 0) store(value);
    Building& kernel = building_[k];
    const Box box = spread(value, kernel.space);
    for (size_t i = 0; i < kernel.inputs.size(); i++) {
      if (kernel.inputs[i].dtype == value.dtype && same_box(kernel.inputs[i].box, box)) return input_number(i);
    }
    kernel.flat &= is_flat(value, kernel.space);
    Value entry;
    entry.dtype = value.dtype;
    entry.dims = value.dims;
    entry.box = box;
    kernel.inputs.push_back(std::move(entry));
    return input_number(kernel.inputs.size() - 1);
  }

  static bool same_box(const Box& a, const Box& b) {
    auto same_axis = [](const Axis& x, const Axis& y) { return x.of == y.of && (x.of < 0 || (x.step == y.step && x.times == y.times)); };
    auto same_offset = [](const Offset& x, const Offset& y) {
      return x.symbol == y.symbol && x.axis == y.axis && x.step == y.step && x.times == y.times;
    };
    return a.storage == b.storage && std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(), same_axis) &&
           std::equal(a.offsets.begin(), a.offsets.end(), b.offsets.begin(), b.offsets.end(), same_offset);
  }

  int operation(int k, KernelOp op) {
    std::vector<KernelOp>& ops = variant_.kernels[k].kernel.ops;
    ops.push_back(op);
    if (building_[k].space.empty()) note_single(k, op);
    return static_cast<int>(ops.size()) - 1;
  }

  void note_single(int k, const KernelOp& op) {
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
  void store(Value& value) {
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

  static Box whole_box(size_t rank) {
    Box box;
    for (size_t i = 0; i < rank; i++) box.axes.push_back({static_cast<int>(i), 1});
    return box;
  }

  // --- nodes -----------------------------------------------------------------------------------------------------
  void lower_node(int32_t node) {
    const Meaning& meaning = segment_.meanings[node - segment_.begin];
    switch (meaning.sense) {
      case Sense::kMap: case Sense::kWhere: case Sense::kClip: case Sense::kCast: lower_map(node, meaning); break;
      case Sense::kFill: lower_fill(node, meaning); break;
      case Sense::kReduce: lower_reduce(node, meaning); break;
      case Sense::kView: lower_view(node, meaning); break;
      case Sense::kStore: return lower_store(node, meaning);
      case Sense::kQuick: case Sense::kCall: return;
    }
    if (static_cast<int>(value_at(node).dims.size()) != graph_.nodes[node].meta.rank) throw Unsupported();
  }

  void lower_map(int32_t node, const Meaning& meaning) {
    std::vector<Value> operands;
    for (int i = 0; i < meaning.count; i++) operands.push_back(value_of(meaning.args[i], meaning.loop));
    if (meaning.flattened) operands[0] = flattened(node, meaning, std::move(operands[0]));
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
    }
    if (meaning.masked) harmless_elsewhere(k, meaning, numbers);
    if (meaning.sense == Sense::kMap && inputs_of(meaning) == 2 && are_equal(k, numbers[0], numbers[1], 0) && is_constant_of_equals(meaning)) throw Unsupported{node};
    Value value;
    value.dims = space;
    value.kernel = k;
    value.dtype = meaning.result;
    value.index = meaning.sense == Sense::kClip ? clip(k, meaning, numbers, operands) : body(k, meaning, numbers);
    if (meaning.in_place) value.layout = operands[0].layout;
    else if (meaning.sense == Sense::kCast) value.layout = layout_of_copy(operands[0], meaning.c_order);
    else value.layout = layout_of(operands, space);
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

  static int inputs_of(const Meaning& meaning) { return meaning.masked ? meaning.count - 2 : meaning.count; }

  // Where a masked operation isn't done, it is done on ones: they raise no flags.
  void harmless_elsewhere(int k, const Meaning& meaning, std::vector<int>& numbers) {
    Value one = scalar({Operand{}, constant(1), DType::float64});
    const int number = use(k, one, meaning.loop);
    for (int i = 0; i < inputs_of(meaning); i++) {
      numbers[i] = operation(k, {ScalarOp::select, meaning.loop, numbers[meaning.count - 2], numbers[i], number});
    }
  }

  void lower_fill(int32_t node, const Meaning& meaning) {
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

  // Whether LLVM sees that two values of a kernel are the same.
  bool are_equal(int k, int a, int b, int depth) const {
    constexpr int kDepth = 6;
    const std::vector<KernelOp>& ops = variant_.kernels[k].kernel.ops;
    while (a >= 0 && ops[a].op == ScalarOp::positive) a = ops[a].a;
    while (b >= 0 && ops[b].op == ScalarOp::positive) b = ops[b].a;
    if (a == b || a < 0 || b < 0 || depth == kDepth) return a == b;
    if (ops[a].op != ops[b].op || ops[a].dtype != ops[b].dtype) return false;
    const int32_t in_a[] = {ops[a].a, ops[a].b, ops[a].c}, in_b[] = {ops[b].a, ops[b].b, ops[b].c};
    for (int i = 0; i < arity(ops[a].op); i++) {
      if (!are_equal(k, in_a[i], in_b[i], depth + 1)) return false;
    }
    return true;
  }

  // LLVM makes a constant of `x - x`, and then of a division by it, without the flags that NumPy warns of.
  static bool is_constant_of_equals(const Meaning& meaning) {
    const char kind = graph::kind_of(meaning.loop);
    switch (meaning.op) {
      case ScalarOp::less: case ScalarOp::greater: case ScalarOp::bitwise_xor: case ScalarOp::logical_xor: return true;
      case ScalarOp::subtract: case ScalarOp::less_equal: case ScalarOp::greater_equal: case ScalarOp::equal: case ScalarOp::not_equal:
      case ScalarOp::floor_divide: case ScalarOp::remainder: return kind != 'f' && kind != 'c';
      default: return false;
    }
  }

  // Whether a node copies a leaf, or a part of one, for the segment to write into.
  bool is_written_copy(int32_t node, const Meaning& meaning, const Value& from) const {
    if (meaning.sense != Sense::kCast || meaning.loop != meaning.result || from.kernel >= 0) return false;
    return variant_.storages[from.box.storage].kind == Storage::Kind::kLeaf && is_written(node);
  }

  bool is_written(int32_t node) const {
    return std::any_of(segment_.meanings.begin(), segment_.meanings.end(), [&](const Meaning& other) {
      return other.target && owner(other.target) == Operand::node(node);
    });
  }

  // The node, or the array that enters the segment, whose memory an operand is.
  Operand owner(Operand operand) const {
    while (inside(operand)) {
      const Meaning& meaning = segment_.meanings[operand.index - segment_.begin];
      if (!meaning.target && meaning.sense != Sense::kView) break;
      operand = meaning.target ? meaning.target : meaning.args[0];
    }
    return operand;
  }

  // Remembers that `value` goes into the place of `target`.
  void add_store(int32_t node, const Value& value, const Value& target) {
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

  bool is_used(const Value& value) const {
    const std::vector<KernelOp>& ops = variant_.kernels[value.kernel].kernel.ops;
    return value.reduced || std::any_of(ops.begin(), ops.end(), [&](const KernelOp& op) {
      const int32_t operands[] = {op.a, op.b, op.c};
      return std::find(operands, operands + arity(op.op), value.index) != operands + arity(op.op);
    });
  }

  // A part of an array, written with a value that may be broadcast.
  void lower_store(int32_t node, const Meaning& meaning) {
    const Value base = target_of(meaning.target, meaning.loop);
    Value part;
    part.dtype = base.dtype;
    part.fixed = base.fixed;
    part.box.storage = base.box.storage;
    part.box.offsets = base.box.offsets;
    index(base, meaning.items, part);
    part.box.dims = part.dims;
    Value value = value_of(meaning.args[0], part.dtype);
    if (is_written_back(meaning.args[0], part)) return;
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

  // `a[k] += b` ends by storing the part into itself.
  bool is_written_back(Operand operand, const Value& part) const {
    const auto same = [&](const Stored& store) { return operand == Operand::node(store.node) && same_box(store.target.box, part.box); };
    return std::any_of(stores_.begin(), stores_.end(), same);
  }

  Value copied(Value value, DType dtype, Operand operand) {
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

  int body(int k, const Meaning& meaning, const std::vector<int>& numbers) {
    switch (meaning.sense) {
      case Sense::kWhere: return operation(k, {ScalarOp::select, meaning.result, numbers[0], numbers[1], numbers[2]});
      case Sense::kCast: return operation(k, {ScalarOp::cast, meaning.result, numbers[0]});
      default: return operation(k, {meaning.op, meaning.result, numbers[0], inputs_of(meaning) > 1 ? numbers[1] : kNoValue});
    }
  }

  // Of zeros of two signs NumPy takes the element's where neither bound moves along its inner loop, else the bound's.
  int clip(int k, const Meaning& meaning, const std::vector<int>& numbers, const std::vector<Value>& operands) {
    const std::vector<int> space = broadcast(operands);
    const auto stays = [&](const Value& bound) { return bound.dims.empty() || find(bound.dims.back()) != space.back(); };
    const bool single = stays(operands[1]) && stays(operands[2]) && meaning.loop != DType::float16;
    const auto bounded = [&](ScalarOp op, int number, int bound) {
      return operation(k, {op, meaning.result, single ? bound : number, single ? number : bound});
    };
    return bounded(ScalarOp::minimum, bounded(ScalarOp::maximum, numbers[0], numbers[1]), numbers[2]);
  }

  // A storage that an operand was given in use is kept with it.
  void remember(Operand operand, const Value& value) {
    if (value.kernel >= 0 && inside(operand) && value_at(operand.index).kernel >= 0) value_at(operand.index).box = value.box;
  }

  static bool order_shows(ReduceOp reduce, DType dtype) {
    const bool sum = reduce == ReduceOp::kAdd || reduce == ReduceOp::kMultiply;
    return sum && (graph::kind_of(dtype) == 'f' || graph::kind_of(dtype) == 'c');
  }

  void lower_reduce(int32_t node, const Meaning& meaning) {
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
  Value squared_differences(int32_t node, const Value& operand, const Value& mean, const Meaning& meaning, int& count) {
    const Value difference = apply(ScalarOp::subtract, meaning.loop, {operand, mean});
    Value square = apply(ScalarOp::multiply, meaning.loop, {difference, difference});
    return reduce(node, square, meaning, meaning.keepdims, count);
  }

  Value apply(ScalarOp op, DType dtype, std::vector<Value> operands) {
    Value value;
    value.dims = broadcast(operands);
    value.dtype = dtype;
    value.kernel = choose_kernel(operands, value.dims, 0, false);
    KernelOp operation_{op, dtype};
    operation_.a = use(value.kernel, operands[0], dtype);
    operation_.b = operands.size() > 1 ? use(value.kernel, operands[1], dtype) : kNoValue;
    value.index = operation(value.kernel, operation_);
    return value;
  }

  // Reduces over meaning.axes; `count` becomes the number of elements of each sum.
  Value reduce(int32_t node, Value& operand, const Meaning& meaning, bool keepdims, int& count) {
    const bool position = meaning.reduce == ReduceOp::kArgMin || meaning.reduce == ReduceOp::kArgMax;
    const std::vector<int> space = canonical(operand.dims);
    // In which order NumPy sums, and makes the result, depends on the operand's.
    if (!variant_.plain && space.size() > 1) throw Unsupported{node};
    layout_of({operand}, space);
    const uint32_t all = (1u << space.size()) - 1;
    // The order of a sum shows in its last bits: NumPy sums a whole contiguous array as one dimension.
    const bool want_flat = order_shows(meaning.reduce, meaning.loop) && space.size() > 1 && meaning.axes == all;
    // What isn't contiguous it sums in an order that depends on its strides.
    if (want_flat && operand.kernel < 0 && !is_flat(operand, space)) throw Unsupported{node};
    const int k = choose_kernel({operand}, space, meaning.axes, want_flat);
    if (want_flat && !building_[k].flat) throw Unsupported{node};
    building_[k].keep_flat |= want_flat;
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
    value.box.storage = add_storage({Storage::Kind::kBuffer, -1, value.dtype, value.dims});
    writer_[value.box.storage] = k;
    outputs_.push_back({k, value.index, value.box.storage, meaning.reduce, std::move(box)});
    value.box.dims = value.dims;
    value.box.complete = true;
    value.box.axes = whole_box(value.dims.size()).axes;
    return value;
  }

  // NumPy divides a sum by its count as float64, and then goes back to the sum's type.
  Value divide_by_count(Value sum, int count) {
    const std::vector<int> space = canonical(sum.dims);
    Value divisor = scalar({Operand{}, count, DType::float64});
    const int k = choose_kernel({sum, divisor}, space, 0, false);
    const DType dtype = sum.dtype;
    const int a = use(k, sum, DType::float64), b = use(k, divisor, DType::float64);
    Value mean;
    mean.dims = sum.dims;
    mean.kernel = k;
    mean.dtype = dtype;
    mean.index = operation(k, {ScalarOp::divide, DType::float64, a, b});
    if (dtype != DType::float64) mean.index = operation(k, {ScalarOp::cast, dtype, mean.index});
    return mean;
  }

  void lower_view(int32_t node, const Meaning& meaning) {
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

  Value view_of(const Value& base, const Meaning& meaning) {
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

  // The value as it stands in a storage.
  Value in_memory(Operand operand, Value value) {
    if (value.kernel >= 0) store(value);
    remember(operand, value);
    value.kernel = -1;
    value.reduced = false;
    return value;
  }

  void turn(const Value& base, const std::vector<int>& order, Value& view) {
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

  std::vector<int> axes_of_several(const Value& base) {
    std::vector<int> order;
    for (size_t i = 0; i < base.dims.size(); i++) {
      if (examples_[base.dims[i]] == 1) continue;
      symbol({Symbol::Kind::kSeveral, base.dims[i]});
      order.push_back(static_cast<int>(i));
    }
    return order;
  }

  void stretch(const Value& base, const std::vector<int>& shape, Value& view) {
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

  int product(const std::vector<int>& sizes) {
    int product = -1;
    for (const int size : sizes) product = product < 0 ? size : symbol({Symbol::Kind::kProduct, product, size});
    return product < 0 ? constant(1) : product;
  }

  // The symbols of a shape that `base` is asked for.
  std::vector<int> shape_for(const Value& base, const std::vector<Extent>& extents) {
    std::vector<int> shape, known;
    size_t rest = SIZE_MAX;
    for (const Extent& extent : extents) {
      switch (extent.kind) {
        case Extent::Kind::kRest:
          rest = shape.size();
          shape.push_back(-1);
          continue;
        case Extent::Kind::kSize:
          // What is negative isn't a size.
          shape.push_back(extent.at ? symbol({Symbol::Kind::kLess, number(extent.at), -1, 0}) : constant(extent.size));
          break;
        case Extent::Kind::kShapeOf: {
          const std::vector<int> dims = value_of(extent.at, DType::kNone).dims;
          shape.insert(shape.end(), dims.begin(), dims.end());
          known.insert(known.end(), dims.begin(), dims.end());
          continue;
        }
      }
      known.push_back(shape.back());
    }
    if (rest == SIZE_MAX) return shape;
    const int all = product(base.dims);
    shape[rest] = known.empty() ? all : symbol({Symbol::Kind::kQuotient, all, product(known)});
    return shape;
  }

  Value flattened(int32_t node, const Meaning& meaning, Value value) {
    value = in_memory(meaning.args[0], std::move(value));
    return reshaped(node, value, {product(value.dims)}, meaning);
  }

  // `base`, which stands in a storage, in another shape: a view where NumPy has one, else of a copy in C order.
  Value reshaped(int32_t node, const Value& base, const std::vector<int>& shape, const Meaning& meaning) {
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
  Box regrouped_buffer(const Box& from, const std::vector<int>& shape) {
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

  Value in_c_order(Value value, Operand operand) {
    Value copy;
    copy.dims = canonical(value.dims);
    copy.dtype = value.dtype;
    copy.kernel = choose_kernel({value}, copy.dims, 0, false);
    // An operation of its own, so that the copy doesn't share a storage with one in another order.
    copy.index = operation(copy.kernel, {ScalarOp::cast, copy.dtype, use(copy.kernel, value, copy.dtype)});
    remember(operand, value);
    store(copy);
    copy.kernel = -1;
    return copy;
  }

  // Whether `to` is `from` in another shape; its axes are filled in.
  bool regrouped(const Box& from, const std::vector<int>& shape, Box& to) {
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

  void index(const Value& base, const std::vector<IndexItem>& items, Value& view) {
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

  void slice(const Value& base, size_t dimension, const IndexItem& item, Value& view) {
    const int size = base.dims[dimension];
    const Axis& axis = base.box.axes[dimension];
    const int start = number(item.start_at), stop = number(item.stop_at);
    view.dims.push_back(symbol({Symbol::Kind::kSliceLength, size, start, item.start, item.stop, item.step, stop}));
    view.box.axes.push_back({axis.of, axis.step * item.step, axis.times});
    if (item.start == IndexItem::kAbsent && start < 0 && item.step > 0) return;
    add_offset(view, base, dimension, symbol({Symbol::Kind::kSliceStart, size, start, item.start, item.stop, item.step, stop}));
  }

  void add_offset(Value& view, const Value& base, size_t dimension, int start) {
    const Axis& axis = base.box.axes[dimension];
    if (axis.of >= 0) view.box.offsets.push_back({start, axis.of, axis.step, axis.times});
  }

  void keep(int32_t node) {
    Value& value = value_at(node);
    if (value.kernel < 0) throw Unsupported();
    store(value);
    int32_t& owner = variant_.storages[value.box.storage].node;
    // Two nodes of one value (an operation that does nothing) would share an array.
    if (owner >= 0) throw Unsupported();
    owner = node;
  }

  // --- writes ----------------------------------------------------------------------------------------------------
  // Lets the kernel that computes a value write it where it belongs, if all that is read there is read before or at the same point.
  void write_directly(Stored& stored) {
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

  bool can_write_directly(const Stored& stored) const {
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
  bool is_read_by_calls(const Stored& stored) const {
    const Operand target = owner(segment_.meanings[stored.node - segment_.begin].target);
    return std::any_of(segment_.late.begin(), segment_.late.end(), [&](int32_t node) {
      const Meaning& meaning = segment_.meanings[node - segment_.begin];
      if (meaning.sense != Sense::kView || owner(meaning.args[0]) != target) return false;
      return meaning.may_copy || graph_.nodes[node].meta.kind != Kind::kArray;
    });
  }

  size_t outputs_of(int k) const {
    return static_cast<size_t>(std::count_if(outputs_.begin(), outputs_.end(), [&](const Written& output) { return output.kernel == k; }));
  }

  // Whether the order in which kernels run, or the segment's end, lets something read the place of `stored` when it is written.
  bool is_read_later(const Stored& stored) const {
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
  int source_of(const Value& value) const {
    if (value.box.storage >= 0) return value.box.storage;
    const auto known = stored_.find({value.kernel, value.index});
    return known == stored_.end() ? -1 : known->second;
  }

  bool comes_before(int k, int other) const {
    return building_[k].copies == building_[other].copies ? k < other : building_[k].copies;
  }

  // Whether a leaf is an array that a call of this segment has made: where the segment is dropped, so is the array.
  bool is_fresh(int leaf) const {
    const Operand operand = segment_.leaves[leaf];
    return inside(operand) && graph_.nodes[operand.index].form == graph::Form::kCall;
  }

  // What stands in the place before it is written is kept, bit by bit, until nothing can go wrong any more.
  void keep_old(int k, const Value& target) {
    const DType dtype = bits_of(target.dtype);
    Value old = target;
    old.dtype = dtype;
    const int kept = add_storage({Storage::Kind::kBuffer, -1, dtype, target.dims});
    outputs_.push_back({k, input(k, old), kept, ReduceOp::kNone, whole_box(target.dims.size())});
    variant_.undo.push_back({k, target.box, target.dims, kept});
  }

  // A type whose elements are moved as they are.
  static DType bits_of(DType dtype) {
    return dtype == DType::bool_ ? DType::uint8 : dtype == DType::float16 ? DType::uint16 : dtype;
  }

  // Copies need no part that is written anyway before it is read.
  void find_hole(int k) {
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

  bool is_read(int storage) const {
    return std::any_of(building_.begin(), building_.end(), [&](const Building& building) {
      return std::any_of(building.inputs.begin(), building.inputs.end(), [&](const Value& input) { return input.box.storage == storage; });
    });
  }

  // A part of a storage that a kernel writes, as a range of each dimension; none if there is no such part.
  std::vector<Range> written_part(int storage) const {
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

  // --- finishing -------------------------------------------------------------------------------------------------
  void finish(int k) {
    Building& building = building_[k];
    KernelPlan& plan = variant_.kernels[k];
    add_outputs(k);
    number_values(building, plan);
    if (!plan.hole.empty()) plan.copied = copied_inputs(plan.kernel);
    plan.space = canonical(building.space);
    if (plan.space.empty()) {
      plan.space.push_back(constant(1));
      for (Box& port : plan.ports) port.axes.push_back({});
    }
    plan.kernel.rank = static_cast<int>(plan.space.size());
    if (plan.kernel.rank > 1) collapse(building, plan);
  }

  static std::vector<int> copied_inputs(const Kernel& kernel) {
    const int inputs = static_cast<int>(kernel.inputs.size());
    std::vector<int> copied;
    for (const KernelOutput& output : kernel.outputs) {
      int value = output.value;
      while (value >= inputs && kernel.ops[value - inputs].op == ScalarOp::cast) value = kernel.ops[value - inputs].a;
      if (value >= inputs || kernel.inputs[value].scalar || kernel.inputs[value].dtype != output.dtype) return {};
      copied.push_back(value);
    }
    return copied;
  }

  void add_outputs(int k) {
    Building& building = building_[k];
    KernelPlan& plan = variant_.kernels[k];
    for (const Value& input : building.inputs) {
      const bool scalar = std::all_of(input.box.axes.begin(), input.box.axes.end(), [](const Axis& axis) { return axis.of < 0; });
      plan.kernel.inputs.push_back({input.dtype, scalar});
      plan.ports.push_back(input.box);
    }
    for (const Written& output : outputs_) {
      if (output.kernel != k) continue;
      Box box = output.box;
      box.storage = output.storage;
      plan.sums_floats |= order_shows(output.reduce, variant_.storages[output.storage].dtype);
      plan.kernel.outputs.push_back({output.value, variant_.storages[output.storage].dtype, output.reduce});
      plan.ports.push_back(std::move(box));
    }
  }

  void number_values(const Building& building, KernelPlan& plan) {
    const int inputs = static_cast<int>(building.inputs.size());
    auto renumber = [&](int32_t& value) {
      if (value == kNoValue) value = -1;
      else value = value < 0 ? -1 - value : value + inputs;
    };
    for (KernelOp& op : plan.kernel.ops) {
      renumber(op.a);
      if (arity(op.op) > 1) renumber(op.b); else op.b = -1;
      if (arity(op.op) > 2) renumber(op.c); else op.c = -1;
    }
    for (KernelOutput& output : plan.kernel.outputs) renumber(output.value);
  }

  static int arity(ScalarOp op) {
    switch (op) {
#define EVALFRAME_SCALAR_OP(name, arity) \
  case ScalarOp::name: return arity;
#include "backends/native/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
    }
    return 0;
  }

  // A space whose operands are all contiguous is one dimension.
  void collapse(const Building& building, KernelPlan& plan) {
    const uint32_t all = (1u << plan.space.size()) - 1;
    if (!building.flat || (plan.kernel.reduced && plan.kernel.reduced != all)) return;
    int size = plan.space[0];
    for (size_t i = 1; i < plan.space.size(); i++) size = symbol({Symbol::Kind::kProduct, size, plan.space[i]});
    plan.space = {size};
    plan.kernel.rank = 1;
    plan.kernel.reduced = plan.kernel.reduced ? 1 : 0;
    for (Box& port : plan.ports) {
      const bool moves = std::any_of(port.axes.begin(), port.axes.end(), [](const Axis& axis) { return axis.of >= 0; });
      port.axes = {Axis{moves ? Axis::kFlat : Axis::kBroadcast, 1}};
      const Storage& storage = variant_.storages[port.storage];
      const bool leaf = moves && storage.kind == Storage::Kind::kLeaf;
      std::vector<int>& required = variant_.contiguous;
      if (leaf && std::find(required.begin(), required.end(), storage.source) == required.end()) required.push_back(storage.source);
    }
  }

  // Copies first. A kernel that nothing is read from still raises floating-point flags; one without operations does nothing at all.
  void order_kernels() {
    std::vector<KernelPlan> used;
    std::vector<int> place(building_.size());
    for (const bool copies : {true, false}) {
      for (size_t k = 0; k < building_.size(); k++) {
        KernelPlan& plan = variant_.kernels[k];
        if (building_[k].copies != copies || plan.kernel.outputs.empty()) continue;
        place[k] = static_cast<int>(used.size());
        used.push_back(std::move(plan));
      }
    }
    variant_.kernels = std::move(used);
    for (Undo& undo : variant_.undo) undo.kernel = place[static_cast<size_t>(undo.kernel)];
  }

  // The kernel that brings a stored value to its place.
  void commit(const Stored& store) {
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

  static constexpr int kNoValue = INT32_MIN;
  struct Written {
    int kernel;
    int value;
    int storage;
    ReduceOp reduce;
    Box box;  // over the kernel's space
  };

  const Graph& graph_;
  const Meanings& meanings_;
  const Segment& segment_;
  const std::vector<LeafShape>& shapes_;
  Variant variant_;
  std::vector<int> same_;           // union-find over symbols
  std::vector<int64_t> examples_;   // values of the symbols for these shapes
  std::vector<Value> leaves_;
  std::vector<int> scalar_storages_;
  std::vector<Value> values_;       // of the segment's nodes
  std::vector<Building> building_;  // beside variant_.kernels
  std::map<int, int> writer_;       // storage -> kernel
  std::map<std::pair<int, int>, int> stored_;
  std::vector<Written> outputs_;
  std::vector<Stored> stores_;
  std::set<int> late_;              // storages that are written at the end
  std::vector<Value> overwritten_;  // what would have been stored where another value was stored later
};

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
  return std::all_of(variant.falling.begin(), variant.falling.end(), falls) &&
         std::all_of(variant.copied.begin(), variant.copied.end(), copies) &&
         std::all_of(variant.reshaped.begin(), variant.reshaped.end(), shapes_hold);
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
    }
  }
  return true;
}

std::optional<Variant> lower(const Graph& graph, const Meanings& meanings, const Segment& segment,
                             const std::vector<LeafShape>& shapes, int32_t& obstacle) {
  obstacle = -1;
  try {
    return Lowering(graph, meanings, segment, shapes).run();
  } catch (const Unsupported& unsupported) {
    obstacle = unsupported.node;
    return std::nullopt;
  }
}

std::string print(const Variant& variant) {
  std::string text;
  for (const KernelPlan& plan : variant.kernels) text += print(plan.kernel);
  return text;
}

}  // namespace evalframe::native
