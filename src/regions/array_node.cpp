#include "regions/array_node.h"

#include <algorithm>
#include <string_view>

#include "backends/native/code/scalar_lowering.h"
#include "backends/native/meaning/functions.h"
#include "bytecode/operators.h"
#include "core/object_text.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/contraction.h"
#include "regions/elements.h"
#include "regions/expression.h"
#include "regions/gather.h"
#include "regions/masks.h"
#include "regions/numbers.h"
#include "regions/rolls.h"
#include "regions/uses.h"
#include "regions/views.h"

namespace evalframe::regions {

using graph::Form, graph::Node, graph::Operand;
using native::IndexItem, native::Meaning, native::ReduceOp, native::ScalarOp, native::Seen, native::Sense, native::Statistic;
using Kind = Type::Kind;

namespace {

// Of rows, whatever ints the BLAS takes.
constexpr int64_t kMostBlasSize = int64_t{1} << 30;

class ArrayNode {
 public:
  ArrayNode(const ArrayNodes& nodes, int32_t index) : nodes_(nodes), block_(nodes.block), index_(index), node_(nodes.graph.nodes[index]), meaning_(nodes.meanings.of(index)) {}

  Written write() const {
    if (nodes_.exact && native::is_elementary(meaning_)) throw Unsupported("an elementary function that has to be NumPy's own");
    if (const std::optional<bool> is_dot = product()) return write_product(*is_dot);
    switch (meaning_.sense) {
      case Sense::kMap: return map();
      case Sense::kWhere: return where();
      case Sense::kClip: return clip();
      case Sense::kCast: return cast();
      case Sense::kFill: return fill();
      case Sense::kReduce: return reduce();
      case Sense::kView: return view();
      case Sense::kStore: return store();
      case Sense::kRolled:
      case Sense::kDifference:
      case Sense::kKept:
      case Sense::kMaskedStore:  // of graphs
      case Sense::kQuick:
      case Sense::kCall: break;
    }
    for (const auto& [name, write] : kFunctions) {
      if (is_numpys(name)) return (this->*write)();
    }
    if (node_.form == Form::kGetAttr) return component();
    if (node_.form == Form::kGetItem) return gather();
    throw Unsupported(std::string("an operation on arrays: ") + graph::name(node_.form) + callable_text());
  }

  void store_by_arrays() const {
    const Operand* const operands = nodes_.graph.operands_of(node_);
    scatter(block_, value(operands[0]), index_of_arrays(operands[1]), value(operands[2]));
  }

 private:
  Emitter& emitter() const { return block_.emitter; }
  std::string callable_text() const {
    if (node_.form != Form::kCall) return {};
    PyObject* const callable = nodes_.graph.constants[node_.callable].get();
    const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    const char* const text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (!text) PyErr_Clear();
    return text ? std::string(" of ") + text : std::string();
  }

  Written value(Operand operand) const {
    Written value = nodes_.operand(operand);
    if (value.type.is_array() && !agrees(value.type, nodes_.meanings.meta(operand))) throw Unsupported("another type of array");
    if (value.type.is_array() && !has_elements(value.type)) throw Unsupported("elements of " + text_of(value.type));
    return value;
  }

  Strided located(Operand operand) const {
    Written array = value(operand);
    if (array.expression && !array.expression->made) {
      nodes_.before_reading();
      array = value(operand);
    }
    return strided(block_, array);
  }

  // One operand of an element-wise operation.
  ExpressionRef element(Operand operand, DType dtype) const {
    const Written of = value(operand);
    if (!of.type.is_array()) return leaf(dtype == DType::bool_ && of.type.is_number() ? native::exact(dtype, truth(block_, of)) : as_operand(block_, of, dtype));
    nodes_.before_reading();
    return cast_to(leaf(block_, value(operand)), dtype);
  }

  Written mapped(ScalarOp op, DType dtype, std::vector<ExpressionRef> operands) const {
    ExpressionRef made = operation(op, dtype, std::move(operands));
    if (made->weight > kMostWeight) {
      for (ExpressionRef& operand : made->operands) {
        if (!operand->is_leaf() && !operand->sizes.empty()) operand = leaf(block_, computed(block_, written_array(operand)));
      }
      made = operation(op, dtype, std::move(made->operands));
    }
    broadcast(block_, *made);
    return finished(std::move(made));
  }

  // What is written into an array that is there is that array.
  Written finished(ExpressionRef made) const {
    made = cast_to(std::move(made), node_.meta.dtype);
    if (!meaning_.target) {
      if (static_cast<int>(made->sizes.size()) != node_.meta.rank) throw Unsupported("a result of another rank");
      return written_array(std::move(made));
    }
    const Written target = value(meaning_.target);
    if (target.expression && !target.expression->made && target.expression->sizes.size() == made->sizes.size()) {
      for (size_t axis = 0; axis < made->sizes.size(); axis++) {
        if (made->sizes[axis].ref != target.expression->sizes[axis].ref) block_.leave_unless(compare("eq", made->sizes[axis], target.expression->sizes[axis]));
      }
      Written changed = written_array(std::move(made));
      nodes_.becomes(target.expression.get(), changed);
      return changed;
    }
    put(located(meaning_.target), target.varies, made);
    return target;
  }

  Written map() const {
    if (meaning_.masked) throw Unsupported("an operation where a mask says so");
    // NumPy has shorter ways for some numbers.
    const bool is_any_power = meaning_.op == ScalarOp::power && meaning_.args[1].space != Operand::Space::kConstant && !value(meaning_.args[1]).type.is_array();
    if (is_any_power) throw Unsupported("a power that varies");
    std::vector<ExpressionRef> operands;
    for (int i = 0; i < meaning_.count; i++) operands.push_back(element(meaning_.args[i], meaning_.loop));
    return mapped(meaning_.op, meaning_.result, std::move(operands));
  }

  Written where() const {
    return mapped(ScalarOp::select, meaning_.result, {element(meaning_.args[0], DType::bool_), element(meaning_.args[1], meaning_.loop), element(meaning_.args[2], meaning_.loop)});
  }

  // Of zeros of two signs NumPy takes the element's where neither bound moves along its inner loop, else the bound's.
  Written clip() const {
    const auto bounded = [&](ScalarOp op, const ExpressionRef& number, const ExpressionRef& bound) {
      ExpressionRef made = operation(op, meaning_.result, {bound, number});
      broadcast(block_, *made);
      return made;
    };
    for (int i = 1; i < 3; i++) {
      if (value(meaning_.args[i]).type.is_array()) throw Unsupported("clip() with arrays as bounds");
    }
    const ExpressionRef low = bounded(ScalarOp::maximum, element(meaning_.args[0], meaning_.loop), element(meaning_.args[1], meaning_.loop));
    return finished(bounded(ScalarOp::minimum, low, element(meaning_.args[2], meaning_.loop)));
  }

  Written cast() const {
    if (meaning_.flattened) throw Unsupported("a copy in another shape");
    const Written from = value(meaning_.args[0]);
    if (!from.type.is_array()) throw Unsupported("a copy of a number");
    return mapped(ScalarOp::cast, meaning_.result, {element(meaning_.args[0], from.type.dtype)});
  }

  Written fill() const {
    ExpressionRef number;
    if (meaning_.count) {
      const Written given = value(meaning_.args[0]);
      if (!given.type.is_number()) throw Unsupported("an array filled with an array");
      number = leaf(as_element(block_, given, meaning_.result));
    } else {
      number = leaf(native::cast(native::exact(DType::int64, emitter().integer("i64", meaning_.number)), meaning_.result));
    }
    ExpressionRef made = operation(ScalarOp::cast, meaning_.result, {std::move(number)});
    for (const native::Extent& extent : meaning_.shape) {
      if (extent.kind == native::Extent::Kind::kRest) throw Unsupported("a size that is left open");
      if (extent.kind == native::Extent::Kind::kShapeOf) {
        const Written like = value(extent.at);
        if (meaning_.like && like.type.rank > 1) require_c_order(block_, strided(block_, like));
        for (const Term& size : sizes_of(block_, like)) made->sizes.push_back(size);
        continue;
      }
      made->sizes.push_back(extent.at ? as_int(block_, value(extent.at)) : emitter().integer("i64", extent.size));
      if (extent.at) block_.leave_unless(compare("sge", made->sizes.back(), 0));
    }
    if (made->sizes.empty() || static_cast<int>(made->sizes.size()) != node_.meta.rank) throw Unsupported("a new array of another rank");
    return written_array(std::move(made));
  }

  // --- sums -------------------------------------------------------------------------------------------------------------

  bool is_position() const { return meaning_.reduce == ReduceOp::kArgMin || meaning_.reduce == ReduceOp::kArgMax; }

  // Nothing comes of none.
  void require_some(const Term& count) const {
    constexpr ReduceOp kOfNone[] = {ReduceOp::kAdd, ReduceOp::kMultiply, ReduceOp::kAny, ReduceOp::kAll};
    if (std::find(std::begin(kOfNone), std::end(kOfNone), meaning_.reduce) == std::end(kOfNone)) block_.leave_unless(compare("sgt", count, 0));
  }

  native::Value folded(const Term& data, DType dtype, const Term& count) const {
    const Term none = emitter().integer("i64", 0), to = block_.number_at(1);
    require_some(count);
    block_.call({.kind = Routine::Kind::kFold, .dtype = dtype, .fold = meaning_.reduce}, {{data, none, none}, {to, none, none}}, emitter().integer("i64", 1), count, false);
    return native::load_element(emitter(), is_position() ? DType::int64 : dtype, to.ref, "");
  }

  // NumPy divides a sum by its count as float64, and then goes back to the sum's type.
  native::Value divided(const native::Value& sum, const Term& count) const {
    const native::Value by = native::exact(DType::float64, convert("sitofp", count, "double"));
    return native::cast(native::lower(emitter(), ScalarOp::divide, DType::float64, {native::cast(sum, DType::float64), by, {}}), sum.dtype);
  }

  Written reduce() const {
    const Written of = value(meaning_.args[0]);
    if (meaning_.keepdims) throw Unsupported("a reduction that keeps its dimensions");
    nodes_.before_reading();
    ExpressionRef elements = cast_to(leaf(block_, value(meaning_.args[0])), meaning_.loop);
    const uint32_t all = (1u << of.type.rank) - 1;
    if (meaning_.axes != all) return reduce_axes(elements);
    if (of.type.rank > 1 && meaning_.statistic != Statistic::kPlain) throw Unsupported("a reduction of " + text_of(of.type));
    // All of them in a row, one element beside the other.
    if (of.type.rank > 1) {
      require_one_row(elements);
    } else if (elements->is_leaf() && elements->array->type.kind != Kind::kFresh) {
      ExpressionRef copy = operation(ScalarOp::cast, meaning_.loop, {elements});
      broadcast(block_, *copy);
      elements = copy;
    }
    Term count = elements->sizes[0];
    for (size_t axis = 1; axis < elements->sizes.size(); axis++) count = count * elements->sizes[axis];
    const Strided row = elements->is_leaf() ? *elements->array : strided(block_, computed(block_, written_array(elements)));
    native::Value result = folded(row.data, elements->dtype, count);
    if (meaning_.statistic != Statistic::kPlain) {
      block_.leave_unless(compare("sgt", count, meaning_.ddof));
      result = divided(result, count);
      if (meaning_.statistic != Statistic::kMean) {
        ExpressionRef difference = operation(ScalarOp::subtract, meaning_.loop, {leaf(block_, computed(block_, written_array(elements))), leaf(result)});
        broadcast(block_, *difference);
        ExpressionRef square = operation(ScalarOp::multiply, meaning_.loop, {difference, difference});
        broadcast(block_, *square);
        const Term squares = strided(block_, computed(block_, written_array(square))).data;
        result = divided(folded(squares, square->dtype, count), count - static_cast<double>(meaning_.ddof));
      }
      if (meaning_.statistic == Statistic::kDeviation) result = native::lower(emitter(), ScalarOp::sqrt, result.dtype, {result, {}, {}});
      block_.watch(result);
    }
    if (result.dtype != node_.meta.dtype) throw Unsupported("a reduction to another type");
    return written_scalar(result);
  }

  // What NumPy walks as one row: an array without gaps, or a new one, whose order is that of what it is made of.
  void require_one_row(const ExpressionRef& elements) const {
    require_c_order(block_, written_array(elements));
    if (!elements->is_leaf() || elements->array->type.kind == Kind::kFresh) return;
    const Strided& array = *elements->array;
    Term step = emitter().integer("i64", graph::size_of(array.type.dtype));
    for (size_t axis = array.sizes.size(); axis-- > 0; step = step * array.sizes[axis]) block_.leave_unless(compare("eq", array.strides[axis], step));
  }

  // Of each row, column and so on.
  Written reduce_axes(const ExpressionRef& elements) const {
    const bool averages = meaning_.statistic == Statistic::kMean;
    if ((meaning_.statistic != Statistic::kPlain && !averages) || is_position() || meaning_.axes == 0) throw Unsupported("such a reduction of rows or columns");
    require_c_order(block_, written_array(elements));
    const DType dtype = meaning_.loop;
    const size_t rank = elements->sizes.size();
    const bool contracts = meaning_.reduce == ReduceOp::kAdd && !(meaning_.axes >> (rank - 1) & 1) && rank <= kMostDimensions && is_product(*elements);
    std::optional<Strided> from;
    if (!contracts) from = elements->is_leaf() ? *elements->array : strided(block_, computed(block_, written_array(elements)));
    const std::vector<Term>& sizes = elements->sizes;
    const auto is_gone = [&](size_t axis) { return (meaning_.axes >> axis & 1) != 0; };
    std::vector<Term> kept;
    const Term one = emitter().integer("i64", 1), none = emitter().integer("i64", 0);
    Term count = one, gone = one;
    for (size_t axis = 0; axis < rank; axis++) {
      block_.leave_unless(compare("sgt", sizes[axis], 0) & compare("ult", sizes[axis], kMostSize));
      if (is_gone(axis)) {
        gone = gone * sizes[axis];
      } else {
        kept.push_back(sizes[axis]);
        count = count * sizes[axis];
        block_.leave_unless(compare("ult", count, kMostSize));
      }
    }
    Written result{.type = fresh_type(dtype, static_cast<int>(kept.size()))};
    if (dtype != node_.meta.dtype || node_.meta.rank != result.type.rank) throw Unsupported("a reduction to another type");
    result.words = {block_.allocate(count * emitter().integer("i64", graph::size_of(dtype)))};
    result.words.insert(result.words.end(), kept.begin(), kept.end());
    Block::Place to{result.words[0], {}};
    const std::vector<Term> strides = strided(block_, result).strides;
    for (size_t axis = 0, next = 0; axis < rank; axis++) to.strides.push_back(is_gone(axis) ? none : strides[next++]);
    contracts ? contract(block_, *elements, meaning_.axes, to) : fold_axes(*from, to);
    if (!averages) return result;
    const native::Value number = native::exact(DType::float64, convert("sitofp", gone, "double"));
    ExpressionRef mean = operation(ScalarOp::divide, DType::float64, {cast_to(leaf(block_, result), DType::float64), leaf(number)});
    broadcast(block_, *mean);
    return written_array(cast_to(std::move(mean), dtype));
  }

  void fold_axes(const Strided& from, const Block::Place& to) const {
    const DType dtype = meaning_.loop;
    native::Kernel kernel{.rank = static_cast<int>(from.sizes.size()), .reduced = meaning_.axes, .inputs = {{dtype, false}}, .outputs = {{0, dtype, meaning_.reduce}}};
    const Routine routine{.kind = Routine::Kind::kSpace, .kernel = std::make_shared<const native::Kernel>(kernel), .text = native::print(kernel)};
    block_.call_over(routine, from.sizes, {{from.data, from.strides}, to});
  }

  // --- matrices ---------------------------------------------------------------------------------------------------------

  // Whether the node calls this function of NumPy's.
  bool is_numpys(const char* name) const {
    if (node_.form != Form::kCall) return false;
    return numpy::own_attribute(name).get() == nodes_.graph.constants[node_.callable].get();
  }

  bool is_dot_method() const {
    if (node_.form != Form::kCall) return false;
    const Ref method = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyArray_Type), "dot"));
    return method.get() == nodes_.graph.constants[node_.callable].get();
  }

  // None: it is no product. True: numpy.dot's.
  std::optional<bool> product() const {
    PyObject* const matmul = native::ufuncs().by_binary[static_cast<int>(bytecode::BinaryOp::kMatrixMultiply)];
    if (node_.form == Form::kBinary && node_.code == static_cast<int>(bytecode::BinaryOp::kMatrixMultiply)) return false;
    if (node_.form != Form::kCall || node_.keywords || node_.count != 2) return std::nullopt;
    if (nodes_.graph.constants[node_.callable].get() == matmul) return false;
    if (is_dot_method() || is_numpys("dot")) return true;
    return std::nullopt;
  }

  Written write_product(bool is_dot) const {
    const Operand* const operands = nodes_.graph.operands_of(node_);
    const Written a = value(operands[0]), b = value(operands[1]);
    if (!a.type.is_array() || !b.type.is_array()) throw Unsupported("a product of a number");
    nodes_.before_reading();
    // How BLAS adds up depends on the order in memory.
    for (int i = 0; i < 2; i++) require_c_order(block_, value(operands[i]));
    const Strided left = strided(block_, value(operands[0])), right = strided(block_, value(operands[1]));
    const DType dtype = left.type.dtype;
    if (dtype != right.type.dtype || dtype != node_.meta.dtype || dtype == DType::bool_) throw Unsupported("a product of unlike arrays");
    const size_t rows = left.sizes.size() - 1, columns = right.sizes.size() - 1;
    if (rows > 1 || columns > 1 || (is_dot && rows + columns > 0)) throw Unsupported("a product of " + text_of(a.type) + " and " + text_of(b.type));
    const Term none = emitter().integer("i64", 0), one = emitter().integer("i64", 1);
    const Term size = emitter().integer("i64", graph::size_of(dtype));
    const Term k = left.sizes.back();
    block_.leave_unless(compare("eq", k, right.sizes[0]));
    const Term n = rows ? left.sizes[0] : one, m = columns ? right.sizes[1] : one;
    Written result;
    Term to = block_.number_at(2);
    if (rows + columns > 0) {
      result.type = fresh_type(dtype, static_cast<int>(rows + columns));
      for (const Term& extent : {n, m}) block_.leave_unless(compare("ult", extent, kMostSize));
      to = block_.allocate(n * m * size);
      result.words = {to};
      if (rows) result.words.push_back(n);
      if (columns) result.words.push_back(m);
    }
    // numpy.matmul gives two rows that are not too long for BLAS to what numpy.dot calls (NumPy's matmul.c.src).
    const bool is_dot_of_matmul = rows + columns == 0 && (dtype == DType::float64 || dtype == DType::float32);
    if (is_dot_of_matmul && !is_dot) block_.leave_unless(compare("ult", k, kMostBlasSize));
    if (is_dot || is_dot_of_matmul) {
      block_.call({.kind = is_dot ? Routine::Kind::kDot : Routine::Kind::kDotOfMatmul, .dtype = dtype}, {{left.data, none, left.strides[0]}, {right.data, none, right.strides[0]}, {to, none, none}}, one, k, false);
    } else {
      if (!has_product(dtype)) throw Unsupported("a product of " + text_of(a.type));
      const std::vector<Block::Rows> matrices = {{left.data, rows ? left.strides[0] : none, left.strides.back()},
                                                 {right.data, right.strides[0], columns ? right.strides[1] : none},
                                                 {to, rows ? (columns ? m * size : size) : none, columns ? size : none},
                                                 {to, k, none}};
      block_.call({.kind = Routine::Kind::kProduct, .dtype = dtype}, matrices, n, m, false);
    }
    return rows + columns > 0 ? result : written_scalar(native::load_element(emitter(), dtype, to.ref, ""));
  }

  // Each element of one by each of the other.
  Written outer() const {
    const Operand* const operands = nodes_.graph.operands_of(node_);
    if (node_.count != 2 || node_.keywords) throw Unsupported("an outer product into an array");
    std::vector<ExpressionRef> factors;
    for (int i = 0; i < 2; i++) {
      const Written of = value(operands[i]);
      if (!of.type.is_array() || of.type.rank != 1 || of.type.dtype != node_.meta.dtype || native::is_complex(of.type.dtype)) throw Unsupported("an outer product of " + text_of(of.type));
      nodes_.before_reading();
      const Strided row = strided(block_, value(operands[i]));
      factors.push_back(leaf(block_, view_of(block_, turned(block_, row, i == 0 ? std::vector<int>{0, -1} : std::vector<int>{-1, 0}))));
    }
    return mapped(ScalarOp::multiply, node_.meta.dtype, std::move(factors));
  }

  Written flip() const {
    const Strided array = located(nodes_.graph.operands_of(node_)[0]);
    if (node_.count != 1 || node_.keywords) throw Unsupported("flip() along an axis");
    return view_of(block_, part_of(block_, array, Varies::kAnyhow, std::vector<Item>(array.sizes.size(), Item{Item::Kind::kSlice, {}, {}, -1})));
  }

  // The operand of that place, or the one keyword that may stand for it; none: it isn't given.
  Operand argument(uint32_t place, const char* keyword) const {
    const Operand* const operands = nodes_.graph.operands_of(node_);
    const uint32_t positional = node_.count - node_.keywords;
    if (place < positional) return operands[place];
    PyObject* const names = node_.keywords ? nodes_.graph.constants[static_cast<size_t>(node_.keyword_names)].get() : nullptr;
    if (names && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), keyword) == 0) return operands[positional];
    return {};
  }

  // The end of an axis before its beginning: two copies into a new array.
  Written roll() const {
    const Operand along = argument(2, "axis");
    if (node_.keywords > 1 || (node_.keywords && !along) || node_.count != (along ? 3 : 2)) throw Unsupported("such a call of roll()");
    nodes_.before_reading();
    const Operand rolls = nodes_.graph.operands_of(node_)[0];
    const auto is_rolled = [](const Written& array) { return array.expression && !array.expression->made && array.expression->is_rolled(); };
    if (!is_rolled(value(rolls))) computed(block_, value(rolls));
    const Written array = value(rolls);
    const int rank = array.type.rank;
    int64_t axis = 0;
    if (along) {
      PyObject* const known = along.space == Operand::Space::kConstant ? nodes_.graph.constants[static_cast<size_t>(along.index)].get() : nullptr;
      if (!known || type_of(known).kind != Kind::kInt) throw Unsupported("roll() along an axis that varies");
      axis = PyLong_AsLongLong(known);
      if (axis < 0) axis += rank;
    }
    if (!array.type.is_array() || rank > 2 || (rank == 2 && !along) || axis < 0 || axis >= rank) throw Unsupported("such a call of roll()");
    const std::vector<Term> sizes = sizes_of(block_, array);
    if (!is_rolled(array)) {
      require_c_order(block_, strided(block_, array));
      for (const Term& size : sizes) block_.leave_unless(compare("ult", size - 1.0, kMostSize));
    }
    const Term &length = sizes[static_cast<size_t>(axis)], rest = binary("srem", as_int(block_, value(nodes_.graph.operands_of(node_)[1])), length);
    return written_array(rolled(block_, array, static_cast<size_t>(axis), select(compare("slt", rest, 0), rest + length, rest)));
  }

  Written median() const {
    const Written of = value(nodes_.graph.operands_of(node_)[0]);
    const DType dtype = of.type.dtype;
    const bool is_known = node_.count == 1 && of.type.is_array() && (of.type.rank == 1 || of.type.rank == 2) && dtype == node_.meta.dtype;
    if (!is_known || node_.meta.kind != graph::Kind::kNumpyScalar || (dtype != DType::float64 && dtype != DType::float32)) throw Unsupported("such a call of median()");
    nodes_.before_reading();
    ExpressionRef copy = operation(ScalarOp::cast, dtype, {leaf(block_, value(nodes_.graph.operands_of(node_)[0]))});
    broadcast(block_, *copy);
    const Strided row = strided(block_, computed(block_, written_array(copy)));
    Term count = row.sizes[0];
    if (of.type.rank == 2) count = count * row.sizes[1];
    block_.leave_unless(compare("sgt", count, 0));
    const Term none = emitter().integer("i64", 0), to = block_.number_at(1);
    block_.call({.kind = Routine::Kind::kMedian, .dtype = dtype}, {{row.data, none, none}, {to, none, none}}, emitter().integer("i64", 1), count, false);
    return written_scalar(native::load_element(emitter(), dtype, to.ref, ""));
  }

  // --- parts ------------------------------------------------------------------------------------------------------------

  std::vector<Item> items() const {
    std::vector<Item> all;
    const auto number = [&](Item& made, int64_t known, Operand at) -> std::optional<Term> {
      if (at) {
        const Written index = value(at);
        made.varies = std::max(made.varies, index.varies);
        return as_int(block_, index);
      }
      if (known == IndexItem::kAbsent) return std::nullopt;
      return emitter().integer("i64", known);
    };
    for (const IndexItem& item : meaning_.items) {
      Item made{static_cast<Item::Kind>(item.kind), {}, {}, item.step, {}, Varies::kNot};
      static_assert(static_cast<int>(Item::Kind::kEllipsis) == static_cast<int>(IndexItem::Kind::kEllipsis));
      made.start = number(made, item.start, item.start_at);
      if (item.kind == IndexItem::Kind::kSlice) made.stop = number(made, item.stop, item.stop_at);
      if (item.step_at) made.step_at = number(made, IndexItem::kAbsent, item.step_at);
      all.push_back(std::move(made));
    }
    return all;
  }

  Written view() const {
    const Strided from = located(meaning_.args[0]);
    Varies varies = value(meaning_.args[0]).varies;
    Strided part;
    if (meaning_.seen == Seen::kIndexed) {
      const std::vector<Item> index = items();
      part = part_of(block_, from, varies, index);
      varies = part_varies(block_, varies, index);
    } else if (meaning_.seen == Seen::kTurned) {
      part = turned(block_, from, meaning_.order);
    } else {
      throw Unsupported("an array in another shape");
    }
    if (static_cast<int>(part.sizes.size()) != node_.meta.rank || node_.meta.kind != graph::Kind::kArray) throw Unsupported("an array of no dimensions");
    Written view = view_of(block_, part);
    view.varies = varies;
    return view;
  }

  // The real or the imaginary numbers among complex ones.
  Written component() const {
    const std::string_view name = utf8(nodes_.graph.constants[static_cast<size_t>(node_.callable)].get());
    const Strided from = located(nodes_.graph.operands_of(node_)[0]);
    if ((name != "real" && name != "imag") || !native::is_complex(from.type.dtype)) throw Unsupported("the attribute " + std::string(name) + " of an array");
    Strided part = from;
    part.type.dtype = native::component(from.type.dtype);
    if (name == "imag") part.data = emitter().let("ptr", "getelementptr i8, ptr " + part.data.ref + ", i64 " + std::to_string(graph::size_of(part.type.dtype)));
    return view_of(block_, part);
  }

  // Whether two operands are the same value, or tuples and slices of the same.
  const Node* node_of(Operand of) const { return of.space == Operand::Space::kNode ? &nodes_.graph.nodes[static_cast<size_t>(of.index)] : nullptr; }

  Written store() const {
    if (stores_itself(nodes_.graph, node_)) return {};
    const Varies of_target = value(meaning_.target).varies;
    const std::vector<Item> index = items();
    const Strided part = part_of(block_, located(meaning_.target), of_target, index);
    const Written from = value(meaning_.args[0]);
    if (part.sizes.empty()) throw Unsupported("an array stored as an element");
    if (const Node* const made = node_of(meaning_.args[0]); made && (made->form == Form::kTuple || made->form == Form::kList)) return store_items(part, *made), Written{};
    if (from.type.is_array()) {
      nodes_.before_reading();
      put(part, part_varies(block_, of_target, index), cast_to(leaf(block_, value(meaning_.args[0])), part.type.dtype));
      return {};
    }
    check_writable(part);
    store(part, {{}, as_element(block_, from, part.type.dtype), std::make_shared<Strided>(part), {}});
    return {};
  }

  // np.array() of numbers, or of rows of them: nothing but their elements is made.
  Written array() const {
    if (block_.pass != Pass::kTurn) throw Unsupported("a new array in each of many turns");
    if (node_.count != 1) throw Unsupported("such a call of array()");
    const auto packed = [&](Operand operand) {
      const Node* const made = node_of(operand);
      return made && (made->form == Form::kTuple || made->form == Form::kList) ? made : nullptr;
    };
    const Node* const outer = packed(nodes_.graph.operands_of(node_)[0]);
    if (!outer || node_.meta.rank < 1 || node_.meta.rank > 2) throw Unsupported("array() of such an object");
    std::vector<const Node*> rows{outer};
    if (node_.meta.rank == 2) {
      rows.clear();
      for (uint32_t i = 0; i < outer->count; i++) rows.push_back(packed(nodes_.graph.operands_of(*outer)[i]));
    }
    std::vector<Written> numbers;
    for (const Node* const row : rows) {
      if (!row || row->count != rows[0]->count) throw Unsupported("array() of such rows");
      for (uint32_t i = 0; i < row->count; i++) numbers.push_back(value(nodes_.graph.operands_of(*row)[i]));
    }
    const DType dtype = node_.meta.dtype;
    if (!std::all_of(numbers.begin(), numbers.end(), [&](const Written& number) { return becomes(number, dtype); })) throw Unsupported("array() of such numbers");
    return array_of(numbers, dtype, node_.meta.rank, rows[0]->count);
  }

  // A new one, of rows of so many.
  Written array_of(const std::vector<Written>& numbers, DType dtype, int rank, int64_t columns) const {
    Written result{.type = fresh_type(dtype, rank)};
    const auto count = static_cast<int64_t>(numbers.size());
    const int size = graph::size_of(dtype);
    result.words = {block_.allocate(emitter().integer("i64", count * size))};
    if (rank == 2) result.words.push_back(emitter().integer("i64", count / columns));
    result.words.push_back(emitter().integer("i64", columns));
    for (size_t i = 0; i < numbers.size(); i++) {
      const Term address = emitter().let("ptr", "getelementptr i8, ptr " + result.words[0].ref + ", i64 " + std::to_string(i * static_cast<size_t>(size)));
      native::store_element(emitter(), as_element(block_, numbers[i], dtype), address.ref, "");
    }
    return result;
  }

  // Whether NumPy makes such an element of the number, and tells of nothing.
  static bool becomes(const Written& number, DType dtype) {
    if (!number.type.is_number()) return false;
    const DType from = number.type.kind == Kind::kBool ? DType::bool_ : number.number.dtype;
    if (from == dtype) return true;
    const bool is_real = from == DType::int64 || from == DType::float32 || from == DType::float64;
    return is_real && (dtype == DType::complex128 || dtype == DType::float64);
  }

  // As many numbers as there are elements. NumPy makes an array of them first, which comes to the same for these types.
  void store_items(const Strided& part, const Node& made) const {
    check_writable(part);
    std::vector<Written> numbers;
    for (uint32_t i = 0; i < made.count; i++) numbers.push_back(value(nodes_.graph.operands_of(made)[i]));
    const DType dtype = part.type.dtype;
    const auto fits = [&](const Written& number) { return becomes(number, dtype); };
    if (part.sizes.size() != 1 || !std::all_of(numbers.begin(), numbers.end(), fits)) throw Unsupported("a tuple or list stored in such an array");
    block_.leave_unless(compare("eq", part.sizes[0], static_cast<int64_t>(numbers.size())));
    for (size_t i = 0; i < numbers.size(); i++) {
      const Term offset = part.strides[0] * emitter().integer("i64", static_cast<int64_t>(i));
      const Term address = emitter().let("ptr", "getelementptr i8, ptr " + part.data.ref + ", i64 " + offset.ref);
      store(part, {.address = address, .value = as_element(block_, numbers[i], dtype)});
    }
  }

  static void check_writable(const Strided& to) {
    if (!(to.type.flags & NPY_ARRAY_WRITEABLE)) throw Unsupported("a store into an array that is read-only");
  }

  // Is to be stored, as soon as nothing can fail.
  void put(const Strided& to, Varies varies, const ExpressionRef& elements) const {
    check_writable(to);
    if (elements->sizes.size() > to.sizes.size()) throw Unsupported("a store of an array of more dimensions");
    const bool may_wait = block_.pass == Pass::kTurn || block_.puts_off_rows;
    const bool waits = may_wait && block_.stores.empty() && !block_.is_own(to.memory) && may_compute_for(elements, to);
    if (waits) return store(to, {.to = std::make_shared<Strided>(to), .varies = varies, .computes = elements});
    // Copied from where it stands if it does; the copy keeps what overlaps.
    const bool stands = elements->is_leaf() && elements->array;
    const Strided from = stands ? *elements->array : strided(block_, computed(block_, written_array(elements)));
    store(to, {{}, {}, std::make_shared<Strided>(to), std::make_shared<Strided>(spread(block_, from, to))});
  }

  void store(const Strided& to, Block::Store store) const {
    if (block_.is_own(to.memory)) nodes_.before_writing();
    block_.store(std::move(store), to.memory, to.base);
  }

  // NumPy makes an array of a list in an index. Of bools it is a mask, and of none a row of no ints.
  Written index_of_list(const Node& list) const {
    std::vector<Written> numbers;
    for (uint32_t i = 0; i < list.count; i++) {
      const Written number = value(nodes_.graph.operands_of(list)[i]);
      if (!is_index(number) || number.number.dtype == DType::uint64) throw Unsupported("a list of " + text_of(number.type) + " as an index");
      numbers.push_back(written_int(as_int(block_, number)));
    }
    if (numbers.empty()) throw Unsupported("an empty list as an index");
    return array_of(numbers, DType::int64, 1, list.count);
  }

  Written index_of_arrays(Operand operand) const {
    const Node* const made = node_of(operand);
    if (made && made->form == Form::kList) return index_of_list(*made);
    Written index = nodes_.operand(operand);
    if (index.type.is_array()) return computed(block_, index);
    for (size_t i = 0; i < index.items.size(); i++) {
      if (made && made->form == Form::kTuple) index.items[i] = index_of_arrays(nodes_.graph.operands_of(*made)[i]);
    }
    return index;
  }

  static bool is_by_element(const Meaning& meaning) {
    switch (meaning.sense) {
      case Sense::kMap: return !meaning.masked;
      case Sense::kCast: return !meaning.flattened;
      case Sense::kWhere:
      case Sense::kClip: return true;
      default: return false;
    }
  }

  // Whether all that comes of what a mask keeps is computed element by element, and stored by the same mask.
  bool is_stored_as_kept() const {
    const std::vector<Node>& nodes = nodes_.graph.nodes;
    const Operand mask = nodes_.graph.operands_of(node_)[1];
    const auto is_kept_alike = [&](const Node* node) { return node && node->form == Form::kGetItem && are_same(nodes_.graph, nodes_.graph.operands_of(*node)[1], mask); };
    std::vector<bool> of_it(nodes.size());
    of_it[static_cast<size_t>(index_)] = true;
    bool is_stored = false;
    for (int32_t next = index_ + 1; next < static_cast<int32_t>(nodes.size()); next++) {
      const Node& node = nodes[static_cast<size_t>(next)];
      const Operand* const operands = nodes_.graph.operands_of(node);
      const auto is_of_it = [&](Operand operand) { return operand.space == Operand::Space::kNode && of_it[static_cast<size_t>(operand.index)]; };
      if (node.form == Form::kCheckMeta || std::none_of(operands, operands + node.count, is_of_it)) continue;
      if (node.form == Form::kSetItem) {
        if (is_of_it(operands[0]) || !are_same(nodes_.graph, operands[1], mask)) return false;
        is_stored = true;
        continue;
      }
      const Meaning meaning = nodes_.meanings.of(next);
      if (!is_by_element(meaning)) return false;
      if (meaning.target && !is_of_it(meaning.target) && !is_kept_alike(node_of(meaning.target))) return false;
      of_it[static_cast<size_t>(next)] = true;
    }
    return is_stored;
  }

  // What an index that is an array takes, or one that has arrays.
  Written gather() const {
    const Operand* const operands = nodes_.graph.operands_of(node_);
    nodes_.before_reading();
    const Written array = computed(block_, value(operands[0])), index = index_of_arrays(operands[1]);
    Written taken = is_mask(index) && index.type.rank == array.type.rank && is_stored_as_kept() ? kept(block_, array, index) : gathered(block_, array, index);
    if (!agrees(taken.type, node_.meta)) throw Unsupported("an index that takes something else");
    return taken;
  }

  // Functions of NumPy's that have no meaning for graphs.
  struct Function {
    const char* name;
    Written (ArrayNode::*write)() const;
  };
  static constexpr Function kFunctions[] = {{"array", &ArrayNode::array}, {"outer", &ArrayNode::outer}, {"flip", &ArrayNode::flip}, {"roll", &ArrayNode::roll}, {"median", &ArrayNode::median}};

  const ArrayNodes& nodes_;
  Block& block_;
  const int32_t index_;
  const Node& node_;
  const Meaning meaning_;
};

// Whether all items of an index are ints, as many as the array has dimensions.
bool is_of_one_element(const Written& array, const Written& index) {
  if (!index.is_tuple) return array.type.rank == 1 && is_index(index);
  return static_cast<int>(index.items.size()) == array.type.rank && std::all_of(index.items.begin(), index.items.end(), is_index);
}

}  // namespace

std::optional<Written> array_node(const ArrayNodes& nodes, int32_t index) {
  const Node& node = nodes.graph.nodes[index];
  const Operand* const operands = nodes.graph.operands_of(node);
  const auto is_array = [&](Operand operand) { return nodes.operand(operand).type.is_array(); };
  switch (node.form) {
    case Form::kBinary:
    case Form::kUnary:
    case Form::kCompare:
      if (std::none_of(operands, operands + node.count, is_array)) return std::nullopt;
      break;
    case Form::kCall: {
      const bool makes = node.meta.kind == graph::Kind::kArray;
      const bool takes = std::any_of(operands, operands + node.count, is_array);
      // len() and the like need no elements.
      if (!makes && (!takes || node.meta.kind != graph::Kind::kNumpyScalar)) return std::nullopt;
      break;
    }
    case Form::kGetItem:
      if (!is_array(operands[0]) || is_of_one_element(nodes.operand(operands[0]), nodes.operand(operands[1]))) return std::nullopt;
      break;
    case Form::kSetItem:
      if (!is_array(operands[0]) || (!is_array(operands[2]) && is_of_one_element(nodes.operand(operands[0]), nodes.operand(operands[1])))) return std::nullopt;
      break;
    case Form::kGetAttr:
      if (!is_array(operands[0]) || node.meta.kind != graph::Kind::kArray) return std::nullopt;
      break;
    default: return std::nullopt;
  }
  return ArrayNode(nodes, index).write();
}

bool store_by_arrays(const ArrayNodes& nodes, int32_t index) {
  try {
    ArrayNode(nodes, index).store_by_arrays();
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace evalframe::regions
