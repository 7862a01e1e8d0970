// What the operands of a segment are: sizes as symbols, leaves, numbers, and the order in memory of what is made.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <utility>

namespace evalframe::native::lowering {

int Lowering::symbol(const Symbol& wanted) {
  for (size_t i = 0; i < variant_.symbols.size(); i++) {
    if (variant_.symbols[i] == wanted) return static_cast<int>(i);
  }
  variant_.symbols.push_back(wanted);
  same_.push_back(static_cast<int>(same_.size()));
  examples_.resize(variant_.symbols.size());
  if (!evaluate(variant_.symbols, shapes_.data(), examples_.data())) throw Unsupported();
  return static_cast<int>(variant_.symbols.size()) - 1;
}

int Lowering::constant(int64_t value) { return symbol({Symbol::Kind::kConstant, -1, -1, value}); }

// The symbol of a Python int; -1 if there is none.
int Lowering::number(Operand operand) {
  if (!operand) return -1;
  const auto found = std::find(segment_.numbers.begin(), segment_.numbers.end(), operand);
  if (found == segment_.numbers.end()) throw Unsupported();
  return symbol({Symbol::Kind::kLeafSize, static_cast<int>(segment_.leaves.size()), static_cast<int>(found - segment_.numbers.begin())});
}

int Lowering::find(int s) const {
  while (same_[s] != s) s = same_[s];
  return s;
}

// From here on two sizes are one; each run checks it.
int Lowering::unite(int a, int b) {
  a = find(a), b = find(b);
  if (a == b) return a;
  if (examples_[a] != examples_[b]) throw Unsupported();
  variant_.equal.emplace_back(a, b);
  same_[std::max(a, b)] = std::min(a, b);
  return std::min(a, b);
}

std::vector<int> Lowering::unite(const std::vector<int>& a, const std::vector<int>& b) {
  if (a.size() != b.size()) throw Unsupported();
  std::vector<int> dims;
  for (size_t i = 0; i < a.size(); i++) dims.push_back(unite(a[i], b[i]));
  return dims;
}

std::vector<int> Lowering::canonical(std::vector<int> dims) const {
  for (int& dim : dims) dim = find(dim);
  return dims;
}

void Lowering::add_leaf(int leaf) {
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

int Lowering::layout_of(const Box& box) {
  if (box.dims.size() < 2) return -1;
  variant_.layouts.push_back({box, {}, box.dims});
  return static_cast<int>(variant_.layouts.size()) - 1;
}

// Of what an operation makes of these operands.
int Lowering::layout_of(const std::vector<Value>& operands, const std::vector<int>& space) {
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
int Lowering::layout_of_copy(const Value& operand, bool c_order) {
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

// Of what is left of an operand without these axes.
int Lowering::layout_of_reduced(const Value& operand, const std::vector<int>& dims, uint32_t axes) {
  if (dims.size() < 2) return -1;
  Layout layout;
  layout.dims = dims;
  if (axes && operand.layout >= 0) layout.operands.push_back(operand.layout), layout.reduced = axes;
  variant_.layouts.push_back(std::move(layout));
  return static_cast<int>(variant_.layouts.size()) - 1;
}

void Lowering::note_order(const Box& box) { add_once(variant_.falling, box); }

void Lowering::add_once(std::vector<Box>& boxes, const Box& box) {
  if (box.storage < 0) return;
  const auto same = [&](const Box& known) { return same_box(known, box); };
  if (std::none_of(boxes.begin(), boxes.end(), same)) boxes.push_back(box);
}

// Whether every operand's strides fall, for the example: then every result is in C order.
bool Lowering::is_plain() const { return has_order_of(variant_, shapes_.data(), examples_.data()); }

int Lowering::add_storage(Storage storage) {
  variant_.storages.push_back(std::move(storage));
  return static_cast<int>(variant_.storages.size()) - 1;
}

// The same number of a program's is one constant of its code, and may be several of the graph's.
bool Lowering::are_same(Operand a, Operand b) const {
  const bool are_constants = a.space == Operand::Space::kConstant && b.space == Operand::Space::kConstant;
  return a == b || (are_constants && graph_.constants[a.index].get() == graph_.constants[b.index].get());
}

// A number as a storage of one element. What is computed of one number twice is the same: LLVM computes it once.
Value Lowering::scalar(ScalarSource source) {
  Value value;
  value.dtype = source.dtype;
  for (size_t i = 0; i < variant_.scalars.size(); i++) {
    const ScalarSource& known = variant_.scalars[i];
    if (are_same(known.operand, source.operand) && known.symbol == source.symbol && known.dtype == source.dtype) {
      value.box.storage = scalar_storages_[i];
      return value;
    }
  }
  variant_.scalars.push_back(source);
  value.box.storage = add_storage({Storage::Kind::kScalar, static_cast<int>(variant_.scalars.size()) - 1, source.dtype});
  scalar_storages_.push_back(value.box.storage);
  return value;
}

bool Lowering::inside(Operand operand) const {
  return operand.space == Operand::Space::kNode && operand.index >= segment_.begin && operand.index < segment_.end;
}

Value& Lowering::value_at(int32_t node) { return values_[node - segment_.begin]; }

// An operand that is to stand somewhere, element by element.
Value Lowering::value_of(Operand operand, DType loop) {
  Value value = element_of(operand, loop);
  if (value.kept_by >= 0) throw Unsupported{value.kept_by};
  if (value.box.rolls.empty()) return value;
  return value_at(operand.index) = made_anew(value);
}

// One of which each element is read, which may be rolled.
Value Lowering::element_of(Operand operand, DType loop) {
  const Meta& meta = meanings_.meta(operand);
  if (inside(operand) && value_at(operand.index).dtype != DType::kNone) return as_read(value_at(operand.index));
  if (meta.kind == Kind::kNumpyScalar) return scalar({operand, -1, meta.dtype});
  if (meta.kind != Kind::kArray) return scalar({operand, -1, loop});
  const auto found = std::find(segment_.leaves.begin(), segment_.leaves.end(), operand);
  if (found == segment_.leaves.end()) throw Unsupported();
  return leaves_[found - segment_.leaves.begin()];
}

// A copy that is written later is read where what it copies stands: so its kernel needn't come before what writes into it.
Value Lowering::as_read(Value value) {
  if (value.source.storage < 0) return value;
  value.kernel = -1;
  value.box = value.source;
  return value;
}

// A storage that an operand was given in use is kept with it.
void Lowering::remember(Operand operand, const Value& value) {
  if (value.kernel >= 0 && inside(operand) && value_at(operand.index).kernel >= 0) value_at(operand.index).box = value.box;
}

// The value as it stands in a storage.
Value Lowering::in_memory(Operand operand, Value value) {
  if (value.kernel >= 0) store(value);
  remember(operand, value);
  value.kernel = -1;
  value.reduced = false;
  return value;
}

int Lowering::product(const std::vector<int>& sizes) {
  int product = -1;
  for (const int size : sizes) product = product < 0 ? size : symbol({Symbol::Kind::kProduct, product, size});
  return product < 0 ? constant(1) : product;
}

// The symbols of a shape that `base` is asked for.
std::vector<int> Lowering::shape_for(const Value& base, const std::vector<Extent>& extents) {
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

}  // namespace evalframe::native::lowering
