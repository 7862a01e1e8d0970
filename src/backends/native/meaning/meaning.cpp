// What a recorded node means for arrays, by NumPy's own rules for types (NEP 50, asked of the ufunc itself).
#include "backends/native/meaning/meaning.h"

#include <map>
#include <stdexcept>

#include "backends/native/code/scalar_lowering.h"
#include "backends/native/meaning/arguments.h"
#include "core/made_once.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

using graph::Form;
using graph::Graph;
using graph::Kind;
using graph::Meta;
using graph::Node;
using graph::Operand;

namespace {

enum class Function : uint8_t { kUfunc, kReduction, kWhere, kClip, kCast, kCopy, kCopyInCOrder, kView, kCreate, kFill, kRound };

struct Known {
  Function function;
  ScalarOp op = ScalarOp::add;
  ReduceOp reduce = ReduceOp::kNone;
  Statistic statistic = Statistic::kPlain;
  View view = View::kReshape;
  Filling filling = Filling::kZero;
};

// The callables that have a meaning, and the ufuncs of the operators. Lives as long as the process.
struct Names {
  std::unordered_map<PyObject*, Known> known;
  PyObject* by_binary[13];
  PyObject* by_unary[3];
  PyObject* by_compare[6];
  PyObject *clip, *maximum, *minimum, *rint;
};

Ref attribute_of(PyObject* object, const char* name) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

void add_known(Names& names, PyObject* from, const char* name, Known known) {
  Ref object = attribute_of(from, name);
  if (object) names.known.emplace(object.release(), known);
}

void add_view(Names& names, PyObject* from, const char* name, View view) {
  Known known{Function::kView};
  known.view = view;
  add_known(names, from, name, known);
}

Names load_names() {
  if (!numpy::load_api()) throw std::runtime_error("NumPy 2 can't be imported");
  const Ref module = Ref::steal(PyImport_ImportModule("numpy"));
  const Ref umath = Ref::steal(PyImport_ImportModule("numpy._core.umath"));
  if (!module || !umath) throw std::runtime_error("NumPy 2 can't be imported");
  PyObject* const array = reinterpret_cast<PyObject*>(&PyArray_Type);
  Names names;
#define EVALFRAME_UFUNC(name, op) add_known(names, module.get(), #name, {Function::kUfunc, ScalarOp::op});
#include "backends/native/meaning/ufuncs.def"
#undef EVALFRAME_UFUNC
#define EVALFRAME_REDUCTION(name, op, statistic)                                                                       \
  add_known(names, module.get(), #name, {Function::kReduction, ScalarOp::add, ReduceOp::op, Statistic::statistic}); \
  add_known(names, array, #name, {Function::kReduction, ScalarOp::add, ReduceOp::op, Statistic::statistic});
#include "backends/native/reduce/reductions.def"
#undef EVALFRAME_REDUCTION
#define EVALFRAME_VIEW(name, view) add_view(names, module.get(), #name, View::view), add_view(names, array, #name, View::view);
#include "backends/native/meaning/views.def"
#undef EVALFRAME_VIEW
  add_known(names, module.get(), "where", {Function::kWhere});
  add_known(names, module.get(), "clip", {Function::kClip});
  add_known(names, array, "clip", {Function::kClip});
  add_known(names, array, "astype", {Function::kCast});
  add_known(names, array, "copy", {Function::kCopyInCOrder});
  add_known(names, module.get(), "copy", {Function::kCopy});
  add_known(names, module.get(), "array", {Function::kCopy});
  add_known(names, module.get(), "round", {Function::kRound});
  add_known(names, array, "round", {Function::kRound});
  for (const char* name : {"empty", "empty_like", "arange"}) add_known(names, module.get(), name, {Function::kCreate});
  constexpr std::pair<const char*, Filling> kFillings[] = {
      {"zeros", Filling::kZero},           {"ones", Filling::kOne},           {"full", Filling::kGiven},
      {"zeros_like", Filling::kZeroLike}, {"ones_like", Filling::kOneLike}, {"full_like", Filling::kGivenLike}};
  for (const auto& [name, filling] : kFillings) {
    Known known{Function::kFill};
    known.filling = filling;
    add_known(names, module.get(), name, known);
  }
  constexpr const char* kBinary[] = {"add", "bitwise_and", "floor_divide", "left_shift", "matmul", "multiply", "remainder",
                                     "bitwise_or", "power", "right_shift", "subtract", "true_divide", "bitwise_xor"};
  constexpr const char* kUnary[] = {"negative", "positive", "invert"};
  constexpr const char* kCompare[] = {"less", "less_equal", "equal", "not_equal", "greater", "greater_equal"};
  for (int i = 0; i < 13; i++) names.by_binary[i] = attribute_of(module.get(), kBinary[i]).release();
  for (int i = 0; i < 3; i++) names.by_unary[i] = attribute_of(module.get(), kUnary[i]).release();
  for (int i = 0; i < 6; i++) names.by_compare[i] = attribute_of(module.get(), kCompare[i]).release();
  names.clip = attribute_of(umath.get(), "clip").release();
  names.maximum = attribute_of(umath.get(), "maximum").release();
  names.minimum = attribute_of(umath.get(), "minimum").release();
  names.rint = attribute_of(umath.get(), "rint").release();
  return names;
}

const Names& names() {
  static MadeOnce<Names> loaded;
  return loaded.get(load_names);
}

// scipy.special.erf, if the program has imported SciPy.
PyObject* scipy_erf() {
  const Ref name = Ref::steal(PyUnicode_FromString("scipy.special"));
  const Ref module = name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
  if (!module) {
    PyErr_Clear();
    return nullptr;
  }
  return attribute_of(module.get(), "erf").get();  // the module keeps it
}

std::optional<Known> find(PyObject* callable) {
  const auto found = names().known.find(callable);
  if (found != names().known.end()) return found->second;
  if (Py_TYPE(callable) == &PyUFunc_Type && callable == scipy_erf()) return Known{Function::kUfunc, ScalarOp::erf};
  return std::nullopt;
}

DType dtype_of_descr(PyObject* object) {
  if (!PyArray_DescrCheck(object)) return DType::kNone;
  const auto* descr = reinterpret_cast<PyArray_Descr*>(object);
  if (!PyArray_ISNBO(descr->byteorder)) return DType::kNone;
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) \
  if (descr->type_num == number) return DType::name;
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
  return DType::kNone;
}

// float64 from np.float64, "f8", float ... as NumPy reads a dtype argument.
DType dtype_argument(PyObject* object) {
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(object, &descr) != NPY_SUCCEED) {
    PyErr_Clear();
    return DType::kNone;
  }
  const Ref held = Ref::steal(descr);
  return dtype_of_descr(held.get());
}

Ref type_argument(const Meta& meta) {
  switch (meta.kind) {
    case Kind::kInt: return Ref::borrow(&PyLong_Type);
    case Kind::kFloat: return Ref::borrow(&PyFloat_Type);
    case Kind::kComplex: return Ref::borrow(&PyComplex_Type);
    case Kind::kBool: return Ref::steal(PyArray_DescrFromType(NPY_BOOL));
    case Kind::kArray: case Kind::kNumpyScalar: return Ref::steal(PyArray_DescrFromType(numpy::type_number(meta.dtype)));
    case Kind::kNone: case Kind::kObject: break;
  }
  return Ref();
}

struct Loop {
  DType in = DType::kNone;
  DType out = DType::kNone;
};

// The loop that the ufunc takes for these arguments and this `dtype` and `casting`, if any; none if it takes none or one whose inputs differ in
// type.
Loop resolve(PyObject* ufunc, const Meta* const* metas, int count, DType dtype, PyObject* casting) {
  const Ref types = Ref::steal(PyTuple_New(count + 1));
  for (int i = 0; i < count; i++) {
    Ref type = type_argument(*metas[i]);
    if (!type) return {};
    PyTuple_SET_ITEM(types.get(), i, type.release());
  }
  PyTuple_SET_ITEM(types.get(), count, Ref::borrow(Py_None).release());
  const Ref signature = Ref::steal(PyTuple_New(count + 1));
  for (int i = 0; i < count; i++) PyTuple_SET_ITEM(signature.get(), i, Ref::borrow(Py_None).release());
  Ref wanted = dtype == DType::kNone ? Ref::borrow(Py_None) : Ref::steal(PyArray_DescrFromType(numpy::type_number(dtype)));
  PyTuple_SET_ITEM(signature.get(), count, wanted.release());
  const Ref method = attribute_of(ufunc, "resolve_dtypes");
  const Ref positional = Ref::steal(PyTuple_Pack(1, types.get()));
  const Ref keywords = Ref::steal(PyDict_New());
  if (dtype != DType::kNone) PyDict_SetItemString(keywords.get(), "signature", signature.get());
  if (casting) PyDict_SetItemString(keywords.get(), "casting", casting);
  const Ref resolved = method ? Ref::steal(PyObject_Call(method.get(), positional.get(), keywords.get())) : Ref();
  if (!resolved) {
    PyErr_Clear();
    return {};
  }
  const Loop loop{dtype_of_descr(PyTuple_GET_ITEM(resolved.get(), 0)), dtype_of_descr(PyTuple_GET_ITEM(resolved.get(), count))};
  for (int i = 1; i < count; i++) {
    if (dtype_of_descr(PyTuple_GET_ITEM(resolved.get(), i)) != loop.in) return {};
  }
  return loop;
}

// resolve, remembered: a program uses few combinations.
Loop resolve_cached(PyObject* ufunc, const Meta* const* metas, int count, DType dtype = DType::kNone) {
  static std::map<std::pair<PyObject*, uint64_t>, Loop> cache;
  uint64_t key = count * 256 + static_cast<uint8_t>(dtype);
  for (int i = 0; i < count; i++) {
    const bool weak = metas[i]->kind != Kind::kArray && metas[i]->kind != Kind::kNumpyScalar;
    key = key * 256 + (weak ? 128 + static_cast<int>(metas[i]->kind) : static_cast<int>(metas[i]->dtype));
  }
  const auto found = cache.find({ufunc, key});
  if (found != cache.end()) return found->second;
  const Loop loop = resolve(ufunc, metas, count, dtype, nullptr);
  if (Py_TYPE(ufunc) == &PyUFunc_Type) cache.emplace(std::pair{Ref::borrow(ufunc).release(), key}, loop);
  return loop;
}

bool is_number(Kind kind) { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }
// Operations that kernels have for complex numbers.
bool has_complex(ScalarOp op) {
  switch (op) {
    case ScalarOp::add: case ScalarOp::subtract: case ScalarOp::multiply: case ScalarOp::divide: case ScalarOp::negative:
    case ScalarOp::positive: case ScalarOp::square: case ScalarOp::absolute: case ScalarOp::conjugate: case ScalarOp::equal:
    case ScalarOp::not_equal: return true;
    default: return false;
  }
}
bool is_integer(DType dtype) { return graph::kind_of(dtype) == 'i' || graph::kind_of(dtype) == 'u'; }

}  // namespace

bool is_elementary(const Meaning& meaning) {
  if (meaning.sense != Sense::kMap) return false;
  switch (meaning.op) {
#define EVALFRAME_MATH1(name, c_name) case ScalarOp::name:
#define EVALFRAME_MATH2(name, c_name) case ScalarOp::name:
#include "backends/native/math/vector_math.def"
      return !is_integer(meaning.result);  // integers have powers
    case ScalarOp::absolute:
      return is_complex(meaning.loop);
    default:
      return false;
  }
}

Meanings::Meanings(const Graph& graph) : graph_(graph) {
  std::vector<int64_t> sizes;
  for (const Ref& constant : graph.constants) {
    Meta meta = graph::meta_of(constant.get(), sizes);
    // A constant array's sizes stand elsewhere than in the graph: it is read by calls only.
    if (meta.kind == Kind::kArray) meta = Meta{};
    constants_.push_back(meta);
  }
}

const Meta& Meanings::meta(Operand operand) const {
  static const Meta none;
  if (operand.space == Operand::Space::kConstant) return constants_[operand.index];
  const Meta* found = graph_.meta_of(operand);
  return found ? *found : none;
}

PyObject* Meanings::constant(Operand operand) const {
  return operand.space == Operand::Space::kConstant ? graph_.constants[operand.index].get() : nullptr;
}

bool Meanings::is_element(Operand operand) const {
  const Meta& known = meta(operand);
  return is_typed(known) || is_number(known.kind) || known.kind == Kind::kComplex;
}

Meaning Meanings::of(int32_t index) const {
  const Node& node = graph_.nodes[index];
  const Operand* operands = graph_.operands_of(node);
  const Names& table = names();
  Meaning meaning;
  switch (node.form) {
    case Form::kCall: meaning = call(node); break;
    case Form::kBinary:
      meaning = map(node, table.by_binary[node.code % 13], operands, 2, node.code >= 13 ? operands[0] : Operand{});
      break;
    case Form::kUnary: meaning = map(node, table.by_unary[node.code], operands, 1, {}); break;
    case Form::kCompare: meaning = map(node, table.by_compare[node.code], operands, 2, {}); break;
    case Form::kGetItem: meaning = subscript(node); break;
    case Form::kGetAttr: meaning = attribute(node); break;
    case Form::kSetItem: meaning = store(node); break;
    case Form::kTuple: case Form::kSlice: case Form::kCheck: case Form::kTruth: case Form::kList:
    case Form::kIterator: case Form::kCheckMeta: break;
  }
  if (meaning.sense == Sense::kCall && quick(node)) meaning.sense = Sense::kQuick;
  return meaning;
}

// Nodes that neither make arrays nor warn nor change anything.
bool Meanings::quick(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  switch (node.form) {
    case Form::kTuple: case Form::kSlice: case Form::kList: case Form::kCheckMeta: return true;
    case Form::kCheck: case Form::kTruth: return is_number(meta(operands[0]).kind);
    case Form::kUnary: return is_number(meta(operands[0]).kind);
    case Form::kBinary: case Form::kCompare: return is_number(meta(operands[0]).kind) && is_number(meta(operands[1]).kind);
    case Form::kGetAttr: {
      if (meta(operands[0]).kind != Kind::kArray) return false;
      PyObject* const name = graph_.constants[node.callable].get();
      for (const char* quiet : {"shape", "ndim", "size", "dtype", "T", "itemsize", "nbytes", "strides"}) {
        if (PyUnicode_CompareWithASCIIString(name, quiet) == 0) return true;
      }
      return false;
    }
    case Form::kGetItem: {
      // An item of a tuple that the graph itself made: a size of a shape.
      if (operands[0].space != Operand::Space::kNode || meta(operands[1]).kind != Kind::kInt) return false;
      const Node& container = graph_.nodes[operands[0].index];
      return node.meta.kind == Kind::kInt && (container.form == Form::kTuple || container.form == Form::kGetAttr);
    }
    case Form::kCall: {
      // A new array of no interest until it is written.
      const std::optional<Known> known = find(graph_.constants[node.callable].get());
      return known && (known->function == Function::kCreate || known->function == Function::kFill) && is_typed(node.meta);
    }
    case Form::kSetItem: case Form::kIterator: return false;
  }
  return false;
}

Meaning Meanings::call(const Node& node) const {
  PyObject* const callable = graph_.constants[node.callable].get();
  const std::optional<Known> known = find(callable);
  if (!known) return {};
  switch (known->function) {
    case Function::kUfunc: return ufunc_call(node, callable, known->op);
    case Function::kReduction: return reduction(node, known->reduce, known->statistic);
    case Function::kWhere: return where(node);
    case Function::kClip: return clip(node);
    case Function::kCast: return cast(node);
    case Function::kCopy: return copy(node);
    case Function::kCopyInCOrder: {
      Meaning meaning = copy(node);
      meaning.c_order = true;
      return meaning;
    }
    case Function::kCreate: return {};
    case Function::kFill: return fill(node, known->filling);
    case Function::kRound: return round(node);
    case Function::kView: return view(node, known->view);
  }
  return {};
}

// Whether NumPy warns of casts between these types (it drops an imaginary part), or kernels have none.
static bool warns_of_cast(DType from, DType to) { return graph::kind_of(from) == 'c' && graph::kind_of(to) != 'c'; }

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
  if (dtype && constant(dtype) != Py_None) {
    if (constant(dtype)) wanted = dtype_argument(constant(dtype));
    if (wanted == DType::kNone || op == ScalarOp::power) return {};
    for (int i = 0; i < inputs; i++) {
      // Python numbers are looked at by value where the type isn't one that holds them all.
      if (!is_typed(meta(operands[i])) || warns_of_cast(meta(operands[i]).dtype, wanted)) return {};
    }
  }
  Meaning meaning = map(node, ufunc, operands, inputs, out, wanted, casting ? constant(casting) : nullptr);
  if (meaning.sense != Sense::kMap || !masked) return meaning;
  // What stands there goes through the loop's type, and may warn on the way.
  if (meta(out).dtype != meaning.result) return {};
  meaning.args[meaning.count++] = where;
  meaning.args[meaning.count++] = out;
  meaning.masked = true;
  return meaning;
}

Meaning Meanings::map(const Node& node, PyObject* ufunc, const Operand* operands, int count, Operand target, DType dtype,
                      PyObject* casting) const {
  const std::optional<Known> known = ufunc ? find(ufunc) : std::nullopt;
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
  const Loop loop = casting ? resolve(ufunc, metas, count, dtype, casting) : resolve_cached(ufunc, metas, count, dtype);
  if (loop.in == DType::kNone || loop.out == DType::kNone) return {};
  for (int i = 0; i < count; i++) {
    if (is_typed(*metas[i]) && warns_of_cast(metas[i]->dtype, loop.in)) return {};
  }
  // Python's bools become halves, which no Python number is written as.
  if (!typed && loop.in == DType::float16) return {};
  if (graph::kind_of(loop.in) == 'c' && !has_complex(known->op)) return {};
  // LLVM knows the answer, and then what is computed of it, without the flags that NumPy warns of.
  const bool asks = known->op == ScalarOp::isnan || known->op == ScalarOp::isinf;
  if (asks && graph::kind_of(loop.in) != 'f' && graph::kind_of(loop.in) != 'c') return {};
  // Operators on NumPy's integer scalars warn of overflow, which the loops for arrays don't.
  if (!array && node.form != Form::kCall && graph::kind_of(loop.in) != 'f') return {};
  Meaning meaning;
  meaning.sense = Sense::kMap;
  meaning.op = known->op;
  meaning.count = count;
  meaning.loop = loop.in;
  meaning.result = loop.out;
  std::copy(operands, operands + count, meaning.args);
  if (target && meta(target).kind == Kind::kArray) meaning.target = target;
  if (meaning.target ? !is_typed(meta(target)) || warns_of_cast(loop.out, meta(target).dtype) : loop.out != node.meta.dtype) return {};
  if (meaning.op == ScalarOp::power) {
    // NumPy takes a short way for a few exponents, and refuses negative ones of integers.
    int64_t exponent = 0;
    PyObject* const value = constant(operands[1]);
    const bool two = value && ((read_int(value, exponent) && exponent == 2) ||
                               (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 2.0));
    if (two && (array || node.form == Form::kCall)) {
      meaning.op = ScalarOp::square;
      meaning.count = 1;
    } else if (is_integer(loop.in) && !(value && read_int(value, exponent) && exponent >= 0)) {
      return {};
    } else if (value && PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 0.5 && graph::kind_of(loop.in) == 'f' &&
               node.form == Form::kBinary && array) {
      meaning.op = ScalarOp::sqrt;
      meaning.count = 1;
    }
  }
  return meaning;
}

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
  if (statistic != Statistic::kPlain && graph::kind_of(meaning.result) != 'f') return {};
  if (spread && graph::kind_of(known.dtype) != 'f' && !is_integer(known.dtype)) return {};
  if (graph::kind_of(meaning.loop) == 'c' && op != ReduceOp::kAdd) return {};
  if (meaning.result == DType::float16 || known.dtype == DType::float16) return {};
  return meaning;
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
    return map(node, low ? names().maximum : names().minimum, operands, 2, {});
  }
  const Meta* metas[] = {&meta(array), &meta(low), &meta(high)};
  for (const Operand operand : {low, high}) {
    if (!is_element(operand)) return {};
  }
  const Loop loop = resolve_cached(names().clip, metas, 3);
  if (loop.in == DType::kNone || loop.out != node.meta.dtype || graph::kind_of(loop.in) == 'c') return {};
  Meaning meaning;
  meaning.sense = Sense::kClip;
  meaning.count = 3;
  meaning.args[0] = array;
  meaning.args[1] = low;
  meaning.args[2] = high;
  meaning.loop = meaning.result = loop.in;
  return meaning;
}

// Whether a number of this kind becomes an element of `dtype` as it is.
static bool fits(Kind number, DType dtype) {
  switch (graph::kind_of(dtype)) {
    case 'b': return number == Kind::kBool;
    case 'i': case 'u': return number == Kind::kInt || number == Kind::kBool;
    default: return is_number(number);
  }
}

// Floats to whole numbers; integers are copied, and of what is rounded to decimals the steps are NumPy's own.
Meaning Meanings::round(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, "a"), decimals = arguments.get(1, "decimals");
  int64_t places = 0;
  if (!array || !arguments.all_known() || (decimals && !(constant(decimals) && read_int(constant(decimals), places)))) return {};
  if (places != 0 || meta(array).kind != Kind::kArray || graph::kind_of(meta(array).dtype) != 'f') return {};
  return map(node, names().rint, &array, 1, {});
}

Meaning Meanings::fill(const Node& node, Filling filling) const {
  const bool like = filling == Filling::kZeroLike || filling == Filling::kOneLike || filling == Filling::kGivenLike;
  const bool given = filling == Filling::kGiven || filling == Filling::kGivenLike;
  Arguments arguments{graph_, node};
  const Operand from = arguments.get(0, like ? "a" : "shape");
  const Operand value = given ? arguments.get(1, "fill_value") : Operand{};
  const Operand dtype = arguments.get(given ? 2 : 1, "dtype");
  if (!from || !arguments.all_known() || (dtype && !constant(dtype)) || node.meta.kind != Kind::kArray || !is_typed(node.meta)) return {};
  Meaning meaning;
  if (like) {
    if (meta(from).kind != Kind::kArray || !is_typed(meta(from))) return {};
    meaning.shape.push_back({Extent::Kind::kShapeOf, 0, from});
  } else if (!read_shape(from, meaning.shape)) {
    return {};
  }
  for (const Extent& extent : meaning.shape) {
    if (extent.kind == Extent::Kind::kRest) return {};
  }
  if (given) {
    const Meta& known = meta(value);
    const bool number = is_typed(known) ? known.kind == Kind::kNumpyScalar : is_element(value);
    // Python numbers that no kernel can read as this type.
    const bool unread = !is_typed(known) && (node.meta.dtype == DType::float16 || node.meta.dtype == DType::complex64);
    if (!number || unread || (is_typed(known) ? warns_of_cast(known.dtype, node.meta.dtype) : !fits(known.kind, node.meta.dtype))) return {};
    meaning.args[0] = value;
    meaning.count = 1;
  }
  meaning.number = filling == Filling::kOne || filling == Filling::kOneLike;
  meaning.sense = Sense::kFill;
  meaning.like = like;
  meaning.loop = meaning.result = node.meta.dtype;
  return meaning;
}

// Whether a copy has the bits of the original: kernels read bytes as truth values, and halves as floats.
static bool keeps_bits(DType dtype) { return dtype != DType::bool_ && dtype != DType::float16; }

Meaning Meanings::copy(const Node& node) const {
  const Operand from = graph_.operands_of(node)[0];
  const Meta& known = meta(from);
  if (node.count != 1 || known.kind != Kind::kArray || !is_typed(known) || !keeps_bits(known.dtype)) return {};
  if (node.meta.kind != Kind::kArray || node.meta.dtype != known.dtype) return {};
  Meaning meaning;
  meaning.sense = Sense::kCast;
  meaning.count = 1;
  meaning.args[0] = from;
  meaning.loop = meaning.result = known.dtype;
  return meaning;
}

Meaning Meanings::cast(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, ""), dtype = arguments.get(1, "dtype"), always = arguments.get(-1, "copy");
  if (!array || !constant(dtype) || (always && constant(always) != Py_True) || !arguments.all_known()) return {};
  const Meta& from = meta(array);
  const DType to = dtype_argument(constant(dtype));
  if (from.dtype == to && !keeps_bits(to)) return {};
  if (from.kind != Kind::kArray || !is_typed(from) || to == DType::kNone || to != node.meta.dtype) return {};
  // Dropping the imaginary part warns.
  if (graph::kind_of(from.dtype) == 'c' && graph::kind_of(to) != 'c') return {};
  if (node.meta.kind != Kind::kArray) return {};
  Meaning meaning;
  meaning.sense = Sense::kCast;
  meaning.count = 1;
  meaning.args[0] = array;
  meaning.loop = from.dtype;
  meaning.result = to;
  return meaning;
}

Meaning Meanings::subscript(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  const Meta& from = meta(operands[0]);
  if (from.kind != Kind::kArray || !is_typed(from) || !is_typed(node.meta)) return {};
  Meaning meaning;
  if (!read_index(operands[1], meaning.items)) return {};
  int used = 0, added = 0, taken = 0;
  for (const IndexItem& item : meaning.items) {
    used += item.kind == IndexItem::Kind::kInteger || item.kind == IndexItem::Kind::kSlice;
    added += item.kind == IndexItem::Kind::kNewAxis;
    taken += item.kind == IndexItem::Kind::kInteger;
  }
  if (used > from.rank || from.rank - taken + added != node.meta.rank) return {};
  meaning.sense = Sense::kView;
  meaning.args[0] = operands[0];
  meaning.count = 1;
  return meaning;
}

Meaning Meanings::store(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  const Meta& to = meta(operands[0]);
  const Meta& from = meta(operands[2]);
  if (to.kind != Kind::kArray || !is_typed(to)) return {};
  if (is_typed(from) ? graph::kind_of(from.dtype) == 'c' && graph::kind_of(to.dtype) != 'c' : !fits(from.kind, to.dtype)) return {};
  Meaning meaning;
  if (!read_index(operands[1], meaning.items)) return {};
  int used = 0;
  for (const IndexItem& item : meaning.items) used += item.kind == IndexItem::Kind::kInteger || item.kind == IndexItem::Kind::kSlice;
  if (used > to.rank) return {};
  meaning.sense = Sense::kStore;
  meaning.target = operands[0];
  meaning.args[0] = operands[2];
  meaning.count = 1;
  meaning.loop = meaning.result = to.dtype;
  return meaning;
}

bool Meanings::read_index(Operand key, std::vector<IndexItem>& items) const {
  int ellipses = 0;
  bool ok = true;
  PyObject* const object = constant(key);
  if (object && PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object) && ok; i++) ok = read_constant_item(PyTuple_GET_ITEM(object, i), items);
  } else if (key.space == Operand::Space::kNode && graph_.nodes[key.index].form == Form::kTuple) {
    const Node& tuple = graph_.nodes[key.index];
    for (uint32_t i = 0; i < tuple.count && ok; i++) ok = read_item(graph_.operands_of(tuple)[i], items);
  } else {
    ok = read_item(key, items);
  }
  for (const IndexItem& item : items) ellipses += item.kind == IndexItem::Kind::kEllipsis;
  return ok && ellipses <= 1;
}

bool Meanings::read_item(Operand operand, std::vector<IndexItem>& items) const {
  if (constant(operand)) return read_constant_item(constant(operand), items);
  IndexItem item{IndexItem::Kind::kInteger};
  if (operand.space == Operand::Space::kNode && graph_.nodes[operand.index].form == Form::kSlice) {
    const Operand* parts = graph_.operands_of(graph_.nodes[operand.index]);
    PyObject* const step = constant(parts[2]);
    item.kind = IndexItem::Kind::kSlice;
    if (!step || (step != Py_None && (!read_int(step, item.step) || item.step == 0))) return false;
    if (!read_bound(parts[0], item.start, item.start_at) || !read_bound(parts[1], item.stop, item.stop_at)) return false;
  } else if (meta(operand).kind == Kind::kInt) {
    item.start_at = operand;
  } else {
    return false;
  }
  items.push_back(item);
  return true;
}

bool Meanings::read_bound(Operand operand, int64_t& bound, Operand& at) const {
  PyObject* const known = constant(operand);
  if (known) return known == Py_None || read_int(known, bound);
  at = operand;
  return meta(operand).kind == Kind::kInt;
}

bool Meanings::read_constant_item(PyObject* object, std::vector<IndexItem>& items) const {
  IndexItem item{IndexItem::Kind::kInteger};
  if (object == Py_None) {
    item.kind = IndexItem::Kind::kNewAxis;
  } else if (object == Py_Ellipsis) {
    item.kind = IndexItem::Kind::kEllipsis;
  } else if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    item.kind = IndexItem::Kind::kSlice;
    if (slice->start != Py_None && !read_int(slice->start, item.start)) return false;
    if (slice->stop != Py_None && !read_int(slice->stop, item.stop)) return false;
    if (slice->step != Py_None && (!read_int(slice->step, item.step) || item.step == 0)) return false;
  } else if (!read_int(object, item.start)) {
    return false;
  }
  items.push_back(item);
  return true;
}

}  // namespace evalframe::native
