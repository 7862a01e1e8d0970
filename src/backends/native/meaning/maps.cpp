// What ufuncs, operators, and the functions that act on each element alone mean.
#include <algorithm>

#include "backends/native/meaning/arguments.h"
#include "backends/native/meaning/functions.h"
#include "backends/native/meaning/loops.h"
#include "backends/native/meaning/products.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {
namespace {

bool has_complex(ScalarOp op) {
  constexpr bool real = false, complex = true;
  constexpr bool kHas[] = {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) numbers,
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
  };
  return kHas[static_cast<int>(op)];
}

// A product of complex numbers, rounded as NumPy does.
ScalarOp product_of(ScalarOp op, DType dtype) {
  if (products_of(dtype) == Products::kSeparate) return op;
  return op == ScalarOp::square ? ScalarOp::square_fused : ScalarOp::multiply_fused;
}

}  // namespace

Meaning Meanings::ufunc_call(const Node& node, PyObject* ufunc, ScalarOp op) const {
  const int inputs = reinterpret_cast<PyUFuncObject*>(ufunc)->nin;
  Arguments arguments{graph_, node};
  if (static_cast<int>(node.count - node.keywords) < inputs) return {};
  for (int i = 0; i < inputs; i++) arguments.get(i, {});
  const Operand out = arguments.get(inputs, "out");
  const Operand dtype = arguments.get(-1, "dtype");
  const Operand casting = arguments.get(-1, "casting"), where = arguments.get(-1, "where");
  if (!arguments.all_known() || (out && meta(out).kind != Kind::kArray)) return {};
  // What isn't written without an `out` is whatever the memory holds.
  const bool masked = where && constant(where) != Py_True;
  if (masked && (!out || meta(where).kind != Kind::kArray || meta(where).dtype != DType::bool_)) return {};
  if (casting && !(constant(casting) && PyUnicode_CheckExact(constant(casting)))) return {};
  const Operand* const operands = graph_.operands_of(node);
  DType wanted = DType::kNone;
  if (dtype && constant(dtype) != Py_None && (op == ScalarOp::power || !read_dtype(dtype, operands, inputs, wanted))) return {};
  Meaning meaning = map(node, ufunc, operands, inputs, out, wanted, casting ? constant(casting) : nullptr);
  if (meaning.sense != Sense::kMap || !masked) return meaning;
  // What stands there goes through the loop's type, and may warn on the way.
  if (meta(out).dtype != meaning.result) return {};
  meaning.args[meaning.count++] = where;
  meaning.args[meaning.count++] = out;
  meaning.masked = true;
  return meaning;
}

// A ufunc's argument of that name.
bool Meanings::read_dtype(Operand dtype, const Operand* operands, int count, DType& read) const {
  if (constant(dtype)) read = dtype_argument(constant(dtype));
  if (read == DType::kNone) return false;
  // Python numbers are looked at by value where the type isn't one that holds them all.
  return std::all_of(operands, operands + count, [&](const Operand operand) {
    return is_typed(meta(operand)) && !warns_of_cast(meta(operand).dtype, read);
  });
}

Meaning Meanings::map(const Node& node, PyObject* ufunc, const Operand* operands, int count, Operand target, DType dtype,
                      PyObject* casting) const {
  const std::optional<Known> known = ufunc ? known_function(ufunc) : std::nullopt;
  if (!known || known->function != Function::kUfunc || !is_typed(node.meta)) return {};
  const Meta* metas[2];
  bool typed = false, array = false;
  for (int i = 0; i < count; i++) {
    metas[i] = &meta(operands[i]);
    if (!is_element(operands[i])) return {};
    typed |= is_typed(*metas[i]);
    array |= metas[i]->kind == Kind::kArray;
  }
  if (!typed && node.form != Form::kCall) return {};
  const Loop loop = loop_of(ufunc, metas, count, dtype, casting);
  if (loop.in == DType::kNone || loop.out == DType::kNone) return {};
  for (int i = 0; i < count; i++) {
    if (is_typed(*metas[i]) && warns_of_cast(metas[i]->dtype, loop.in)) return {};
  }
  // Python's bools become halves, which no Python number is written as.
  if (!typed && loop.in == DType::float16) return {};
  const bool may_be_square = known->op == ScalarOp::power && array && node.form == Form::kBinary;
  if (is_complex(loop.in) && !has_complex(known->op) && !may_be_square) return {};
  // LLVM knows the answer, and then what is computed of it, without the flags that NumPy warns of.
  const bool asks = known->op == ScalarOp::isnan || known->op == ScalarOp::isinf;
  if (asks && !is_float(loop.in) && !is_complex(loop.in)) return {};
  // NumPy multiplies single complex numbers by other code than arrays.
  const bool product = is_complex(loop.in) && (known->op == ScalarOp::multiply || known->op == ScalarOp::square);
  if (product && !array) return {};
  // Operators on NumPy's integer scalars warn of overflow, which the loops for arrays don't.
  if (!array && node.form != Form::kCall && !is_float(loop.in)) return {};
  Meaning meaning;
  meaning.sense = Sense::kMap;
  meaning.op = product ? product_of(known->op, loop.in) : known->op;
  meaning.count = count;
  meaning.loop = loop.in;
  meaning.result = loop.out;
  std::copy(operands, operands + count, meaning.args);
  if (target && meta(target).kind == Kind::kArray) meaning.target = target;
  if (meaning.target ? !is_typed(meta(target)) || warns_of_cast(loop.out, meta(target).dtype) : loop.out != node.meta.dtype) return {};
  if (meaning.op == ScalarOp::power && !shorten_power(node, meaning)) return {};
  if (is_complex(loop.in) && meaning.op == ScalarOp::square && known->op == ScalarOp::power) meaning.op = product_of(meaning.op, loop.in);
  if (is_complex(loop.in) && !has_complex(meaning.op)) return {};
  return meaning;
}

// NumPy takes a short way for a few exponents, and refuses negative ones of integers: then false. A power of numbers is false, too: NumPy
// calls the C library's pow(), as Python does, and programs compare numbers.
bool Meanings::shorten_power(const Node& node, Meaning& meaning) const {
  const bool array = meta(meaning.args[0]).kind == Kind::kArray || meta(meaning.args[1]).kind == Kind::kArray;
  PyObject* const value = constant(meaning.args[1]);
  int64_t whole = -1;
  if (value) read_int(value, whole);
  const double real = value && PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : 0;
  // Of complex numbers, not for 2.0.
  if ((whole == 2 || (real == 2 && !is_complex(meaning.loop))) && (array || node.form == Form::kCall)) {
    meaning.op = ScalarOp::square;
    meaning.count = 1;
    return true;
  }
  if (is_integer(meaning.loop)) {
    meaning.op = ScalarOp::integer_power;
    return whole >= 0;
  }
  const bool is_inverse = real == -1 || (value && PyLong_CheckExact(value) && whole == -1);
  if ((real == 0.5 || is_inverse) && is_float(meaning.loop) && node.form == Form::kBinary && array) {
    meaning.op = is_inverse ? ScalarOp::reciprocal : ScalarOp::sqrt;
    meaning.count = 1;
    return true;
  }
  return array || node.form == Form::kCall;
}

Meaning Meanings::where(const Node& node) const {
  if (node.count != 3 || node.keywords || !is_typed(node.meta) || node.meta.kind != Kind::kArray) return {};
  const Operand* operands = graph_.operands_of(node);
  Meaning meaning;
  meaning.sense = Sense::kWhere;
  meaning.count = 3;
  for (int i = 0; i < 3; i++) {
    if (!is_element(operands[i])) return {};
    meaning.args[i] = operands[i];
  }
  if (!is_typed(meta(operands[0]))) return {};
  meaning.loop = meaning.result = node.meta.dtype;
  return meaning;
}

Meaning Meanings::clip(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a");
  Operand low = arguments.get(1, "a_min"), high = arguments.get(2, "a_max");
  if (!low) low = arguments.get(-1, "min");
  if (!high) high = arguments.get(-1, "max");
  if (low && constant(low) == Py_None) low = {};
  if (high && constant(high) == Py_None) high = {};
  if (!array || (!low && !high) || !arguments.all_known() || !is_typed(node.meta) || meta(array).kind != Kind::kArray) return {};
  // With one bound it is a maximum or minimum.
  if (!high || !low) {
    const Operand operands[] = {array, low ? low : high};
    return map(node, low ? ufuncs().maximum : ufuncs().minimum, operands, 2, {});
  }
  const Meta* metas[] = {&meta(array), &meta(low), &meta(high)};
  for (const Operand operand : {low, high}) {
    if (!is_element(operand)) return {};
  }
  const Loop loop = loop_of(ufuncs().clip, metas, 3);
  if (loop.in == DType::kNone || loop.out != node.meta.dtype || is_complex(loop.in)) return {};
  Meaning meaning;
  meaning.sense = Sense::kClip;
  meaning.count = 3;
  meaning.args[0] = array;
  meaning.args[1] = low;
  meaning.args[2] = high;
  meaning.loop = meaning.result = loop.in;
  return meaning;
}

// Floats to whole numbers; integers are copied, and of what is rounded to decimals the steps are NumPy's own.
Meaning Meanings::round(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a"), decimals = arguments.get(1, "decimals");
  int64_t places = 0;
  if (!array || !arguments.all_known() || (decimals && !(constant(decimals) && read_int(constant(decimals), places)))) return {};
  if (places != 0 || meta(array).kind != Kind::kArray || !is_float(meta(array).dtype)) return {};
  return map(node, ufuncs().rint, &array, 1, {});
}

// Of two vectors: the one as a column times the other as a row. Loops, whose parts of arrays are short, have NumPy do it.
Meaning Meanings::outer(const Node& node) const {
  const Operand* const operands = graph_.operands_of(node);
  const auto is_vector = [&](const Operand operand) { return meta(operand).kind == Kind::kArray && meta(operand).rank == 1; };
  if (reader_ == Reader::kLoop || node.count != 2 || node.keywords || !std::all_of(operands, operands + 2, is_vector)) return {};
  Meaning meaning = map(node, ufuncs().by_binary[static_cast<int>(bytecode::BinaryOp::kMultiply)], operands, 2, {});
  meaning.seen = Seen::kTurned;
  meaning.order = {0, -1};
  return meaning;
}

// Without anything put in front or behind. The differences of bools are others.
Meaning Meanings::difference(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a"), times = arguments.get(1, "n"), along = arguments.get(2, "axis");
  const Meta& known = meta(array);
  if (reader_ == Reader::kLoop || !arguments.all_known() || known.kind != Kind::kArray || !is_typed(known) || known.rank < 1 || known.dtype == DType::bool_) return {};
  if (node.meta.kind != Kind::kArray || node.meta.dtype != known.dtype || node.meta.rank != known.rank) return {};
  constexpr int64_t kMostTimes = 4;
  Meaning meaning;
  meaning.number = 1;
  std::vector<int> axes;
  if (times && (!constant(times) || !read_int(constant(times), meaning.number) || meaning.number < 1 || meaning.number > kMostTimes)) return {};
  if (!along) axes.push_back(known.rank - 1);
  else if (!constant(along) || PyTuple_Check(constant(along)) || !read_axis_list(along, known.rank, axes)) return {};
  meaning.sense = Sense::kDifference;
  meaning.args[0] = array;
  meaning.count = 1;
  meaning.axes = 1u << axes[0];
  meaning.loop = meaning.result = known.dtype;
  return meaning;
}

// Loops have their own way to roll what is in their caches.
Meaning Meanings::roll(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a"), by = arguments.get(1, "shift"), axis = arguments.get(2, "axis");
  const Meta& known = meta(array);
  if (reader_ == Reader::kLoop || !by || !arguments.all_known() || known.kind != Kind::kArray || !is_typed(known) || known.rank < 1) return {};
  if (node.meta.kind != Kind::kArray || node.meta.dtype != known.dtype || node.meta.rank != known.rank) return {};
  std::vector<int> axes;
  // Without an axis, all elements move, in C order.
  if (!axis || constant(axis) == Py_None) axes.resize(known.rank == 1);
  else if (!read_axis_list(axis, known.rank, axes)) return {};
  if (axes.empty()) return {};
  Meaning meaning;
  meaning.items.assign(static_cast<size_t>(known.rank), {.kind = IndexItem::Kind::kInteger, .start = 0});
  PyObject* const several = constant(by) && PyTuple_CheckExact(constant(by)) ? constant(by) : nullptr;
  if (several && PyTuple_GET_SIZE(several) != static_cast<Py_ssize_t>(axes.size())) return {};
  for (size_t i = 0; i < axes.size(); i++) {
    IndexItem& item = meaning.items[static_cast<size_t>(axes[i])];
    item.start = IndexItem::kAbsent;
    const bool is_read = several ? read_int(PyTuple_GET_ITEM(several, static_cast<Py_ssize_t>(i)), item.start) : read_bound(by, item.start, item.start_at);
    if (!is_read || (item.start == IndexItem::kAbsent && !item.start_at)) return {};
  }
  meaning.sense = Sense::kRolled;
  meaning.args[0] = array;
  meaning.count = 1;
  meaning.loop = meaning.result = known.dtype;
  return meaning;
}

}  // namespace evalframe::native
