// What reductions mean: over which axes, and in which types.
#include "backends/native/meaning/arguments.h"

namespace evalframe::native {

bool Meanings::read_axes(Operand axis, int rank, uint32_t& axes) const {
  axes = (1u << rank) - 1;
  PyObject* const object = constant(axis);
  if (!axis || object == Py_None) return true;
  if (!object) return false;
  const bool tuple = PyTuple_CheckExact(object);
  axes = 0;
  for (Py_ssize_t i = 0; i < (tuple ? PyTuple_GET_SIZE(object) : 1); i++) {
    int64_t value = 0;
    if (!read_int(tuple ? PyTuple_GET_ITEM(object, i) : object, value) || value < -rank || value >= rank) return false;
    axes |= 1u << (value < 0 ? value + rank : value);
  }
  return axes != 0;
}

Meaning Meanings::reduction(const Node& node, ReduceOp op, Statistic statistic) const {
  const bool spread = statistic == Statistic::kVariance || statistic == Statistic::kDeviation;
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a");
  const Operand axis = arguments.get(1, "axis");
  const Operand keepdims = arguments.get(-1, "keepdims");
  const Operand ddof = spread ? arguments.get(-1, "ddof") : Operand{};
  if (!array || !arguments.all_known()) return {};
  const Meta& known = meta(array);
  if (known.kind != Kind::kArray || !is_typed(known) || known.rank == 0 || !is_typed(node.meta)) return {};
  Meaning meaning;
  meaning.sense = Sense::kReduce;
  meaning.args[0] = array;
  meaning.count = 1;
  meaning.reduce = op;
  meaning.statistic = statistic;
  if (!read_axes(axis, known.rank, meaning.axes)) return {};
  if (ddof && (!constant(ddof) || !read_int(constant(ddof), meaning.ddof))) return {};
  if (keepdims) {
    if (!constant(keepdims) || !PyBool_Check(constant(keepdims))) return {};
    meaning.keepdims = constant(keepdims) == Py_True;
  }
  const bool logical = op == ReduceOp::kAny || op == ReduceOp::kAll;
  const bool position = op == ReduceOp::kArgMin || op == ReduceOp::kArgMax;
  meaning.loop = logical ? DType::bool_ : position ? known.dtype : node.meta.dtype;
  meaning.result = node.meta.dtype;
  if (logical && node.meta.dtype != DType::bool_) return {};
  if (position && (node.meta.dtype != DType::int64 || known.dtype == DType::bool_)) return {};
  // A mean of halves is summed in singles, one of complex numbers divides otherwise.
  if (statistic != Statistic::kPlain && !is_float(meaning.result)) return {};
  if (spread && !is_float(known.dtype) && !is_integer(known.dtype)) return {};
  if (is_complex(meaning.loop) && op != ReduceOp::kAdd) return {};
  if (meaning.result == DType::float16 || known.dtype == DType::float16) return {};
  return meaning;
}

}  // namespace evalframe::native
