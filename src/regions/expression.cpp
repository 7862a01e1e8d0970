#include "regions/expression.h"

#include <functional>
#include <map>

#include "regions/masks.h"
#include "regions/rolls.h"
#include "regions/views.h"

namespace evalframe::regions {

using native::Kernel, native::ScalarOp;

ExpressionRef leaf(Block& block, const Written& array) {
  if (array.expression && !array.expression->made) return array.expression;
  Strided all = strided(block, array);
  auto made = std::make_shared<Expression>(Expression{.dtype = all.type.dtype, .sizes = all.sizes});
  made->array = std::make_shared<Strided>(std::move(all));
  made->varies = array.varies;
  made->source = array.expression;
  return made;
}

ExpressionRef leaf(const native::Value& number) { return std::make_shared<Expression>(Expression{.dtype = number.dtype, .sizes = {}, .number = number}); }

ExpressionRef operation(ScalarOp op, DType dtype, std::vector<ExpressionRef> operands) {
  size_t weight = 1;
  for (const ExpressionRef& operand : operands) weight += operand->weight;
  return std::make_shared<Expression>(Expression{.dtype = dtype, .sizes = {}, .op = op, .operands = std::move(operands), .weight = weight});
}

ExpressionRef cast_to(ExpressionRef operand, DType dtype) {
  if (operand->dtype == dtype) return operand;
  ExpressionRef made = operation(ScalarOp::cast, dtype, {operand});
  made->sizes = operand->sizes;
  return made;
}

void broadcast(Block& block, Expression& expression) {
  size_t rank = 0;
  for (const ExpressionRef& operand : expression.operands) rank = std::max(rank, operand->sizes.size());
  for (size_t from_end = rank; from_end > 0; from_end--) {
    Term all = block.emitter.integer("i64", 1);
    for (const ExpressionRef& operand : expression.operands) {
      if (operand->sizes.size() < from_end) continue;
      const Term& size = operand->sizes[operand->sizes.size() - from_end];
      if (size.ref == all.ref || size.ref == "1") continue;
      if (all.ref == "1") {
        all = size;
        continue;
      }
      const Term is_one = compare("eq", all, 1);
      block.leave_unless(compare("eq", all, size) | is_one | compare("eq", size, 1));
      all = select(is_one, size, all);
    }
    expression.sizes.push_back(all);
  }
}

Term stretched(Block& block, const Term& size, const Term& stride, const Term& of) {
  if (size.ref == of.ref) return stride;
  return select(compare("eq", size, of), stride, block.emitter.integer("i64", 0));
}

std::vector<Term> strides_within(Block& block, const Expression& leaf, const std::vector<Term>& sizes) {
  const size_t missing = sizes.size() - leaf.sizes.size();
  std::vector<Term> strides(missing, block.emitter.integer("i64", 0));
  for (size_t axis = 0; axis < leaf.sizes.size(); axis++) strides.push_back(stretched(block, leaf.sizes[axis], leaf.array->strides[axis], sizes[missing + axis]));
  return strides;
}

Written written_array(ExpressionRef expression) {
  Written array{.type = fresh_type(expression->dtype, static_cast<int>(expression->sizes.size()))};
  array.expression = std::move(expression);
  return array;
}

namespace {

// From a tree of operations to a kernel and what it is called with.
class KernelOf {
 public:
  explicit KernelOf(Expression& root) : root_(root) {
    kernel_.rank = static_cast<int>(root.sizes.size());
    find_leaves(root);
    const int32_t value = add(root);
    kernel_.outputs.push_back({value, root.dtype});
    const size_t operands = leaves_.size() * (has_rolled_ ? 2 : 1) + 1;
    if (operands > kMostOperands || kernel_.ops.size() > kMostOperations) throw Unsupported("an operation on so many arrays");
  }

  const Kernel& kernel() const { return kernel_; }
  const std::vector<const Expression*>& leaves() const { return leaves_; }

  Routine routine(Routine::Kind kind) const { return {.kind = kind, .kernel = std::make_shared<const Kernel>(kernel_), .text = std::string(has_rolled_ ? kRolled : root_.skips ? kSkipping : "") + native::print(kernel_)}; }

  // Of any dimensions.
  std::vector<Block::Place> places(Block& block) const {
    std::vector<Block::Place> all;
    for (const Expression* leaf : leaves_) {
      if (leaf->array) all.push_back({leaf->array->data, strides_within(block, *leaf, root_.sizes)});
      else all.push_back({number(block, *leaf, all.size()), std::vector<Term>(root_.sizes.size(), block.emitter.integer("i64", 0))});
    }
    return all;
  }

  std::vector<Block::Rows> operands(Block& block) const {
    std::vector<Block::Rows> all;
    const Term none = block.emitter.integer("i64", 0);
    for (const Expression* leaf : leaves_) {
      const Expression& from = leaf->is_rolled() ? *leaf->operands[0] : *leaf;
      if (!from.array) {
        all.push_back({number(block, from, all.size()), none, none});
        continue;
      }
      const size_t rank = root_.sizes.size();
      all.push_back({from.array->data, rank == 2 ? stride(block, from, 2) : none, stride(block, from, 1)});
    }
    return all;
  }

  // Behind the operands, if any is rolled: by how many rows and columns each is.
  std::vector<Block::Rows> moves(Block& block, const Term& place) const {
    std::vector<Block::Rows> all;
    const Term none = block.emitter.integer("i64", 0);
    for (const Expression* leaf : leaves_) {
      if (!has_rolled_) break;
      all.push_back({place, leaf->moved.size() == 2 ? leaf->moved[0] : none, leaf->is_rolled() ? leaf->moved.back() : none});
    }
    return all;
  }

 private:
  static constexpr size_t kMostOperations = 64;

  static Term number(Block& block, const Expression& leaf, size_t operand) {
    const Term at = block.number_at(static_cast<int>(operand));
    native::store_element(block.emitter, leaf.number, at.ref, "");
    return at;
  }

  Term stride(Block& block, const Expression& leaf, size_t from_end) const {
    if (leaf.sizes.size() < from_end) return block.emitter.integer("i64", 0);
    const size_t axis = leaf.sizes.size() - from_end;
    return stretched(block, leaf.sizes[axis], leaf.array->strides[axis], root_.sizes[root_.sizes.size() - from_end]);
  }

  // Inputs stand before all operations.
  void find_leaves(const Expression& expression) {
    if (numbers_.count(&expression)) return;
    if (const Expression* const same = same_number(expression)) {
      numbers_[&expression] = numbers_[same];
      return;
    }
    if (expression.is_leaf() || expression.is_rolled()) {
      has_rolled_ |= expression.is_rolled();
      numbers_[&expression] = static_cast<int32_t>(leaves_.size());
      leaves_.push_back(&expression);
      kernel_.inputs.push_back({expression.dtype, expression.is_leaf() && !expression.array});
      return;
    }
    for (const ExpressionRef& operand : expression.operands) find_leaves(*operand);
  }

  // What is computed of one number twice is the same: LLVM computes it once.
  const Expression* same_number(const Expression& expression) const {
    const auto is_number = [](const Expression& of) { return of.is_leaf() && !of.array; };
    if (!is_number(expression)) return nullptr;
    const auto is_same = [&](const Expression* leaf) {
      return is_number(*leaf) && leaf->dtype == expression.dtype && leaf->number.real.ref == expression.number.real.ref && leaf->number.imag.ref == expression.number.imag.ref;
    };
    const auto found = std::find_if(leaves_.begin(), leaves_.end(), is_same);
    return found == leaves_.end() ? nullptr : *found;
  }

  int32_t add(Expression& expression) {
    expression.is_computed = true;
    if (const auto found = numbers_.find(&expression); found != numbers_.end()) return found->second;
    native::KernelOp op{expression.op, expression.dtype};
    int32_t* const places[] = {&op.a, &op.b, &op.c};
    for (size_t i = 0; i < expression.operands.size(); i++) *places[i] = add(*expression.operands[i]);
    kernel_.ops.push_back(op);
    return numbers_[&expression] = static_cast<int32_t>(leaves_.size() + kernel_.ops.size()) - 1;
  }

  Expression& root_;
  Kernel kernel_;
  std::vector<const Expression*> leaves_;
  std::map<const Expression*, int32_t> numbers_;
  bool has_rolled_ = false;
};

void visit_arrays(const Expression& expression, const std::function<void(const Strided&)>& visit) {
  if (expression.source) return visit_arrays(*expression.source, visit);
  if (expression.array) return visit(*expression.array);
  for (const ExpressionRef& operand : expression.operands) visit_arrays(*operand, visit);
}

// How many elements; leaves where that may be more than 64 bits hold.
Term count_of(Block& block, const std::vector<Term>& sizes) {
  Term all = block.emitter.integer("i64", 1);
  for (size_t axis = 0; axis < sizes.size(); axis++) {
    block.leave_unless(compare("ult", sizes[axis], kMostSize));
    all = all * sizes[axis];
    if (axis > 0 && sizes.size() > 2) block.leave_unless(compare("ult", all, kMostSize));
  }
  return all;
}

size_t count_leaves(const Expression& expression) {
  if (expression.is_leaf() || expression.is_rolled()) return 1;
  size_t all = 0;
  for (const ExpressionRef& operand : expression.operands) all += count_leaves(*operand);
  return all;
}

// Kernels of more dimensions, or of very many operands, aren't computed in parts.
void copy_where(Block& block, Expression& expression, bool (*has_to_be)(const Expression&)) {
  for (ExpressionRef& operand : expression.operands) {
    if (!has_to_be(*operand)) {
      copy_where(block, *operand, has_to_be);
      continue;
    }
    computed(block, written_array(operand));
    operand = leaf(block, written_array(operand));
  }
}

// Those that are arrays.
void find_arrays(const Expression& expression, std::vector<const Expression*>& leaves) {
  if (expression.array && std::find(leaves.begin(), leaves.end(), &expression) == leaves.end()) leaves.push_back(&expression);
  for (const ExpressionRef& operand : expression.operands) find_arrays(*operand, leaves);
}

// Statements that read several neighbours of what they change are those that read it elsewhere.
bool reads_neighbours(const Expression& expression, const Strided& to) {
  const std::vector<const Expression*> leaves = arrays_of(expression);
  return std::count_if(leaves.begin(), leaves.end(), [&](const Expression* leaf) { return leaf->array->base.ref == to.base.ref && leaf->array->data.ref != to.data.ref; }) > 1;
}

// Whether elements stand in other places than those of what is computed of them.
bool has_moved(const Expression& expression) {
  return expression.is_rolled() || expression.is_kept || std::any_of(expression.operands.begin(), expression.operands.end(), [](const ExpressionRef& operand) { return has_moved(*operand); });
}

// Where the elements of an array are from, and up to.
struct Bytes {
  Term low, high;
};

// holds: whether no step goes backwards.
Bytes bytes_of(const Strided& array, const std::vector<Term>& strides, const std::vector<Term>& sizes, Term& holds) {
  Term low = native::convert("ptrtoint", array.data, "i64"), high = low;
  for (size_t axis = 0; axis < sizes.size(); axis++) {
    holds = holds & compare("sge", strides[axis], 0);
    high = high + (sizes[axis] - 1.0) * strides[axis];
  }
  return {low, high + static_cast<double>(graph::size_of(array.type.dtype))};
}

// Whether the elements are those of the target, each for itself, or none of them is one of it.
Term is_beside(Block& block, const Expression& leaf, const Strided& to) {
  Term forwards = block.emitter.integer("i1", -1), is_same = compare("eq", native::convert("ptrtoint", leaf.array->data, "i64"), native::convert("ptrtoint", to.data, "i64"));
  const std::vector<Term> strides = strides_within(block, leaf, to.sizes);
  for (size_t axis = 0; axis < strides.size(); axis++) {
    if (strides[axis].ref != to.strides[axis].ref) is_same = is_same & compare("eq", strides[axis], to.strides[axis]);
  }
  const bool is_of_size = graph::size_of(leaf.dtype) == graph::size_of(to.type.dtype);
  const Bytes read = bytes_of(*leaf.array, strides, to.sizes, forwards), written = bytes_of(to, to.strides, to.sizes, forwards);
  const Term is_apart = forwards & (compare("ule", read.high, written.low) | compare("ule", written.high, read.low));
  return is_of_size ? is_same | is_apart : is_apart;
}

}  // namespace

std::vector<const Expression*> arrays_of(const Expression& expression) {
  std::vector<const Expression*> leaves;
  find_arrays(expression, leaves);
  return leaves;
}

KernelOfArrays kernel_of(Expression& expression) {
  const KernelOf all(expression);
  return {all.kernel(), all.leaves()};
}

void require_c_order(Block& block, const Strided& array) {
  if (array.type.kind == Type::Kind::kFresh) return;
  const auto size_of = [](const Term& stride) { return select(compare("slt", stride, 0), -stride, stride); };
  for (size_t one = 0; one < array.sizes.size(); one++) {
    for (size_t other = one + 1; other < array.sizes.size(); other++) {
      if (array.sizes[one].ref == "1" || array.sizes[other].ref == "1") continue;
      // Axes of one element have no place in it.
      const Term single = compare("eq", array.sizes[one], 1) | compare("eq", array.sizes[other], 1);
      block.leave_unless(single | compare("sge", size_of(array.strides[one]), size_of(array.strides[other])));
    }
  }
}

void require_c_order(Block& block, const Written& array) {
  if (array.type.rank < 2 || !array.expression) return;
  visit_arrays(*array.expression, [&](const Strided& part) { require_c_order(block, part); });
}

Written computed(Block& block, const Written& array) {
  if (!array.expression) return array;
  Expression& expression = *array.expression;
  if (expression.made) return *expression.made;
  const size_t rank = expression.sizes.size();
  if (rank == 0 || rank > kMostDimensions) throw Unsupported("arrays of " + std::to_string(rank) + " dimensions");
  Emitter& emitter = block.emitter;
  const Term count = count_of(block, expression.sizes);
  if (expression.is_rolled()) {
    expression.is_computed = true;
    expression.made = std::make_shared<Written>(rolled_copy(block, expression));
    return *expression.made;
  }
  if (expression.is_kept) {
    expression.is_computed = true;
    expression.made = std::make_shared<Written>(kept_copy(block, expression));
    return *expression.made;
  }
  copy_where(block, expression, [](const Expression& operand) { return operand.is_kept; });
  if (rank > 2 || 2 * count_leaves(expression) + 1 > kMostOperands) copy_where(block, expression, [](const Expression& operand) { return operand.is_rolled(); });
  const KernelOf kernel(expression);
  Written made{.type = array.type};
  const Term size = emitter.integer("i64", graph::size_of(expression.dtype));
  made.words = {block.allocate(count * size)};
  made.words.insert(made.words.end(), expression.sizes.begin(), expression.sizes.end());
  expression.made = std::make_shared<Written>(made);
  if (rank > 2) {
    std::vector<Block::Place> places = kernel.places(block);
    places.push_back({made.words[0], strided(block, made).strides});
    block.call_over(kernel.routine(Routine::Kind::kSpace), expression.sizes, places);
    return made;
  }
  std::vector<Block::Rows> operands = kernel.operands(block);
  const Term rows = rank == 2 ? expression.sizes[0] : emitter.integer("i64", 1);
  const std::vector<Block::Rows> moves = kernel.moves(block, made.words[0]);
  operands.push_back({made.words[0], expression.sizes.back() * size, size});
  operands.insert(operands.end(), moves.begin(), moves.end());
  block.call(kernel.routine(Routine::Kind::kKernel), operands, rows, expression.sizes.back(), true);
  return made;
}

bool may_compute_for(const ExpressionRef& expression, const Strided& to) {
  const bool is_open = !expression->is_leaf() && !expression->made && !has_moved(*expression) && !reads_neighbours(*expression, to);
  const bool is_close = !to.strides.empty() && to.strides.back().ref == std::to_string(graph::size_of(to.type.dtype));
  if (!is_open || !is_close || expression->sizes.size() != to.sizes.size() || to.sizes.size() > kMostDimensions) return false;
  KernelOf unused(*expression);  // says what it is computed with
  return true;
}

Strided spread(Block& block, Strided from, const Strided& to) {
  const size_t missing = to.sizes.size() - from.sizes.size();
  std::vector<Term> strides(missing, block.emitter.integer("i64", 0));
  for (size_t axis = 0; axis < from.sizes.size(); axis++) {
    const Term &size = from.sizes[axis], &of = to.sizes[missing + axis];
    if (size.ref != of.ref) block.leave_unless(compare("eq", size, of) | compare("eq", size, 1));
    strides.push_back(stretched(block, size, from.strides[axis], of));
  }
  from.sizes = to.sizes;
  from.strides = std::move(strides);
  return from;
}

Term may_compute_in(Block& block, const Expression& expression, const Strided& to) {
  Emitter& emitter = block.emitter;
  const std::vector<Term>& sizes = expression.sizes;
  Term may = emitter.integer("i1", -1);
  for (size_t axis = 0; axis + 1 < sizes.size(); axis++) may = may & compare("sge", to.strides[axis], sizes[axis + 1] * to.strides[axis + 1]);
  for (size_t axis = 0; axis < sizes.size(); axis++) {
    if (sizes[axis].ref != to.sizes[axis].ref) may = may & compare("eq", sizes[axis], to.sizes[axis]);
  }
  for (const Expression* const leaf : arrays_of(expression)) {
    if (!block.is_taken(leaf->array->memory)) may = may & is_beside(block, *leaf, to);
  }
  return may;
}

Strided computed_for(Block& block, const ExpressionRef& expression, const Strided& to, const Term& in_place) {
  Emitter& emitter = block.emitter;
  const std::vector<Term>& sizes = expression->sizes;
  const Term size = emitter.integer("i64", graph::size_of(expression->dtype));
  const Term rows = sizes.size() == 2 ? sizes[0] : emitter.integer("i64", 1), row = sizes.back() * size;
  const KernelOf kernel(*expression);
  Written made;
  made.type = fresh_type(expression->dtype, static_cast<int>(sizes.size()));
  made.words = {block.allocate(count_of(block, sizes) * size)};
  made.words.insert(made.words.end(), sizes.begin(), sizes.end());
  if (sizes.size() > 2) {
    std::vector<Block::Place> places = kernel.places(block);
    const std::vector<Term> own = strided(block, made).strides;
    Block::Place& result = places.emplace_back(select(in_place, to.data, made.words[0]));
    for (size_t axis = 0; axis < sizes.size(); axis++) result.strides.push_back(select(in_place, to.strides[axis], own[axis]));
    block.call_over(kernel.routine(Routine::Kind::kSpace), sizes, places, in_place);
    return spread(block, strided(block, made), to);
  }
  std::vector<Block::Rows> operands = kernel.operands(block);
  operands.push_back({select(in_place, to.data, made.words[0]), sizes.size() == 2 ? select(in_place, to.strides[0], row) : row, size});
  block.call(kernel.routine(Routine::Kind::kKernel), operands, rows, sizes.back(), true, in_place);
  return spread(block, strided(block, made), to);
}

}  // namespace evalframe::regions
