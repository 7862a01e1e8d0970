#include "regions/calls.h"

#include <algorithm>
#include <string_view>

#include "backends/native/code/scalar_lowering.h"
#include "backends/native/math/vector_math.h"
#include "core/object_text.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/elements.h"
#include "regions/numbers.h"

namespace evalframe::regions {

using native::ScalarOp, native::Value;
using Kind = Type::Kind;

namespace {

struct Call {
  Block& block;
  std::span<const Written> arguments;
  const graph::Meta& meta;
  bool exact;
  Emitter& emitter() const { return block.emitter; }
  const Written& only() const {
    if (arguments.size() != 1) throw Unsupported("a call with as many arguments");
    return arguments[0];
  }
};

Term number(Block& block, double value) { return block.emitter.number("double", value); }

// --- builtins ---------------------------------------------------------------------------------------------------------

Written to_int(const Call& call) {
  const Written& a = call.only();
  if (!a.type.is_number() || !native::is_float(a.number.dtype)) return written_int(as_int(call.block, a));
  const Term x = native::cast(a.number, DType::float64).real;
  call.block.leave_unless(compare("ogt", x, number(call.block, -0x1p63)) & compare("olt", x, number(call.block, 0x1p63)));
  return written_int(convert("fptosi", x, "i64"));
}

Written to_float(const Call& call) {
  const Written& a = call.only();
  if (a.type.is_number() && !native::is_float(a.number.dtype)) return written_float(convert("sitofp", as_int(call.block, a), "double"));
  return written_float(as_double(call.block, a));
}

Written to_bool(const Call& call) { return written_bool(truth(call.block, call.only())); }

Written to_complex(const Call& call) {
  Emitter& emitter = call.emitter();
  if (call.arguments.size() > 2) throw Unsupported("complex() of as many");
  std::vector<Term> parts;
  for (const Written& part : call.arguments) parts.push_back(as_double(call.block, part));
  while (parts.size() < 2) parts.push_back(emitter.number("double", 0.0));
  return written_complex(parts[0], parts[1]);
}

// As C's hypot; infinite parts, and what is too large, are left to Python and NumPy.
Written complex_size(const Call& call, const Written& a) {
  const Value& z = a.number;
  const bool wide = native::component(z.dtype) == DType::float64;
  const Term size = call_c(wide ? "hypot" : "hypotf", {z.real, z.imag});
  call.block.expect(is_finite(call.block, size));
  return a.type.kind == Kind::kComplex ? written_float(size) : written_scalar(native::exact(native::component(z.dtype), size));
}

Written absolute(const Call& call) {
  const Written& a = call.only();
  if (a.type.is_complex()) return complex_size(call, a);
  if (!a.type.is_number() || a.number.dtype == DType::bool_) throw Unsupported("abs() of this");
  Written result = a;
  result.constant = nullptr;
  result.varies = Varies::kAnyhow;
  const Term& x = a.number.real;
  if (native::is_float(a.number.dtype)) {
    result.number.real = native::intrinsic("fabs", {x});
  } else if (native::is_signed(a.number.dtype)) {
    const Term negative = checked(call.block, "sub", true, call.emitter().integer(x.type, 0), select(compare("slt", x, 0), x, call.emitter().integer(x.type, 0)));
    result.number.real = select(compare("slt", x, 0), negative, x);
  }
  return result;
}

Written length(const Call& call) {
  Written result = written_int(length_of(call.block, call.only()));
  result.varies = call.only().varies;
  return result;
}

Written range(const Call& call) {
  const size_t count = call.arguments.size();
  if (count < 1 || count > 3) throw Unsupported("range() with as many arguments");
  Emitter& emitter = call.emitter();
  const auto argument = [&](size_t i) {
    if (call.arguments[i].type.kind == Kind::kFloat || call.arguments[i].number.dtype == DType::bool_) throw Unsupported("range() of this");
    return as_int(call.block, call.arguments[i]);
  };
  const Term start = count == 1 ? emitter.integer("i64", 0) : argument(0), stop = argument(count == 1 ? 0 : 1);
  const Term step = count == 3 ? argument(2) : emitter.integer("i64", 1);
  call.block.leave_if(compare("eq", step, 0) | compare("eq", step, INT64_MIN));
  const Term forward = compare("sgt", step, 0);
  const Term from = select(forward, start, stop), to = select(forward, stop, start);
  const Term size = select(forward, step, emitter.integer("i64", 0) - step);
  // The distance is less than 2^63, or left to Python.
  const Term any = compare("slt", from, to);
  const Term distance = checked(call.block, "sub", true, select(any, to, from), from);
  // How many steps there are: a division by 1 is known to be none.
  const Term last = select(any, distance - 1.0, emitter.integer("i64", 0));
  const Term length = select(any, binary("udiv", last, size) + 1.0, emitter.integer("i64", 0));
  return {.type = {Kind::kRange}, .words = {start, step, length, stop}};
}

// Whether min() and max() take the second of two: the first of equal ones is kept.
Term takes_second(Block& block, bool smaller, const Written& a, const Written& b) {
  const graph::Meta meta{.kind = a.type.kind == Kind::kNumpy || b.type.kind == Kind::kNumpy ? graph::Kind::kNumpyScalar : graph::Kind::kBool, .dtype = DType::bool_};
  return compare_numbers(block, smaller ? Py_LT : Py_GT, b, a, meta).number.real;
}

bool are_alike(std::span<const Written> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](const Written& number) { return number.type == numbers[0].type; });
}

// The first of the smallest or greatest of numbers of one type, one by one as Python has it.
Written first_of(Block& block, std::span<const Written> numbers, bool smaller) {
  if (!are_alike(numbers) || !numbers[0].type.is_number() || numbers[0].type.is_complex()) throw Unsupported("min() or max() of unlike or complex numbers");
  Written result = numbers[0];
  result.constant = nullptr;
  result.varies = Varies::kAnyhow;
  for (const Written& number : numbers.subspan(1)) result.number.real = select(takes_second(block, smaller, result, number), number.number.real, result.number.real);
  return result;
}

Written first_of(const Call& call, bool smaller) {
  if (call.arguments.size() < 2) throw Unsupported("min() or max() of one");
  return first_of(call.block, call.arguments, smaller);
}
Written smallest(const Call& call) { return first_of(call, true); }
Written largest(const Call& call) { return first_of(call, false); }

Written type_of_value(const Call& call) {
  PyTypeObject* const type = python_type(call.only().type);
  if (!type || call.only().is_tuple) throw Unsupported("type() of this");
  Written result{.type = {Kind::kObject}};
  result.names_type = type;
  return result;
}

// --- math -------------------------------------------------------------------------------------------------------------

Term math_argument(const Call& call, size_t i = 0) {
  const Written& a = call.arguments[i];
  return as_double(call.block, a);
}

// Finite, of a finite number: whatever else raises, or is left to the library's rules.
Written finite(const Call& call, const Term& argument, const Term& result) {
  call.block.expect(is_finite(call.block, argument) & is_finite(call.block, result));
  return written_float(result);
}

template <const auto* kName>
Written of_library(const Call& call) {
  const Term x = (call.only(), math_argument(call));
  return finite(call, x, call_c(*kName, {x}));
}
constexpr const char *kExp = "exp", *kExpm1 = "expm1", *kSin = "sin", *kCos = "cos", *kTan = "tan", *kAsin = "asin", *kAcos = "acos", *kAtan = "atan",
                     *kSinh = "sinh", *kCosh = "cosh", *kTanh = "tanh", *kAsinh = "asinh", *kAcosh = "acosh", *kAtanh = "atanh", *kLog1p = "log1p", *kCbrt = "cbrt", *kExp2 = "exp2",
                     *kErf = "erf", *kErfc = "erfc";

Written math_sqrt(const Call& call) {
  const Term x = (call.only(), math_argument(call));
  call.block.expect(compare("oge", x, number(call.block, 0.0)));
  return finite(call, x, native::intrinsic("sqrt", {x}));
}
Written math_fabs(const Call& call) { return call.only(), written_float(native::intrinsic("fabs", {math_argument(call)})); }

// As an int.
Written rounded(const Call& call, const char* how) {
  if (call.only().type.kind != Kind::kFloat && call.only().number.dtype != DType::float64) throw Unsupported("rounding this");
  const Term x = native::intrinsic(how, {math_argument(call)});
  call.block.leave_unless(compare("oge", x, number(call.block, -0x1p62)) & compare("ole", x, number(call.block, 0x1p62)));
  return written_int(convert("fptosi", x, "i64"));
}
Written math_floor(const Call& call) { return rounded(call, "floor"); }
Written math_ceil(const Call& call) { return rounded(call, "ceil"); }
Written math_trunc(const Call& call) { return rounded(call, "trunc"); }
Written to_nearest(const Call& call) { return rounded(call, "rint"); }

Written asked(const Call& call, ScalarOp op) {
  const Value x = native::exact(DType::float64, (call.only(), math_argument(call)));
  return written_bool(native::lower(call.emitter(), op, DType::bool_, {x, Value{}, Value{}}).real);
}
Written math_isnan(const Call& call) { return asked(call, ScalarOp::isnan); }
Written math_isinf(const Call& call) { return asked(call, ScalarOp::isinf); }
Written math_isfinite(const Call& call) { return asked(call, ScalarOp::isfinite); }

Written of_positive(const Call& call, const char* name) {
  const Term x = (call.only(), math_argument(call));
  call.block.expect(compare("ogt", x, number(call.block, 0.0)));
  return finite(call, x, call_c(name, {x}));
}
Written math_log(const Call& call) { return of_positive(call, "log"); }
Written math_log2(const Call& call) { return of_positive(call, "log2"); }
Written math_log10(const Call& call) { return of_positive(call, "log10"); }

Written of_two(const Call& call, const char* name) {
  if (call.arguments.size() != 2) throw Unsupported("a call with as many arguments");
  const Term x = math_argument(call, 0), y = math_argument(call, 1);
  call.block.expect(is_finite(call.block, y));
  return finite(call, x, call_c(name, {x, y}));
}
Written math_atan2(const Call& call) { return of_two(call, "atan2"); }
Written math_pow(const Call& call) { return of_two(call, "pow"); }
Written math_fmod(const Call& call) { return of_two(call, "evalframe_fmod"); }

Written math_copysign(const Call& call) {
  if (call.arguments.size() != 2) throw Unsupported("a call with as many arguments");
  return written_float(native::intrinsic("copysign", {math_argument(call, 0), math_argument(call, 1)}));
}

constexpr double kPi = 3.141592653589793238462643383279502884197;
Written math_degrees(const Call& call) { return call.only(), written_float(math_argument(call) * (180.0 / kPi)); }
Written math_radians(const Call& call) { return call.only(), written_float(math_argument(call) * (kPi / 180.0)); }

Written math_gcd(const Call& call) {
  if (call.arguments.size() != 2) throw Unsupported("a call with as many arguments");
  const Term a = as_int(call.block, call.arguments[0]), b = as_int(call.block, call.arguments[1]);
  call.block.leave_if(compare("eq", a, INT64_MIN) | compare("eq", b, INT64_MIN));
  return written_int(call_c("evalframe_gcd", {a, b}));
}

Written math_isqrt(const Call& call) {
  const Term a = as_int(call.block, call.only());
  call.block.leave_unless(compare("sge", a, 0));
  return written_int(call_c("evalframe_isqrt", {a}));
}

// --- NumPy ------------------------------------------------------------------------------------------------------------

constexpr bool is_elementary(ScalarOp op) {
  switch (op) {
#define EVALFRAME_MATH1(name, c_name) case ScalarOp::name:
#define EVALFRAME_MATH2(name, c_name)
#include "backends/native/math/vector_math.def"
    return true;
    default: return false;
  }
}

DType loop_type(const Written& a, const graph::Meta& meta) {
  if (!a.type.is_number()) throw Unsupported("a ufunc of this");
  const bool asks = meta.dtype == DType::bool_;
  if (!asks) return meta.dtype;
  if (!native::is_float(a.number.dtype)) throw Unsupported("this ufunc of integers");
  return a.number.dtype;
}

// The C library's function of complex numbers, as NumPy calls it for each.
const char* complex_name(ScalarOp op) {
  switch (op) {
    case ScalarOp::sqrt: return "csqrt";
    case ScalarOp::exp: return "cexp";
    case ScalarOp::log: return "clog";
    case ScalarOp::sin: return "csin";
    case ScalarOp::cos: return "ccos";
    case ScalarOp::sinh: return "csinh";
    case ScalarOp::cosh: return "ccosh";
    case ScalarOp::tanh: return "ctanh";
    default: throw Unsupported("this ufunc of complex numbers");
  }
}

Written complex_ufunc(const Call& call, ScalarOp op) {
  if (call.meta.dtype != DType::complex128) throw Unsupported("this ufunc of complex64");
  const std::string name = complex_name(op);
  const Value z = as_operand(call.block, call.only(), DType::complex128);
  Emitter& emitter = call.emitter();
  // Two doubles, as the C calling convention of this processor has them.
  emitter.need("declare { double, double } @" + name + "(double, double) #1");
  const Term both = emitter.let("{ double, double }", "call { double, double } @" + name + "(double " + z.real.ref + ", double " + z.imag.ref + ") nobuiltin");
  const auto part = [&](int i) { return emitter.let("double", "extractvalue { double, double } " + both.ref + ", " + std::to_string(i)); };
  const Value result = native::make(DType::complex128, part(0), part(1));
  call.block.watch(result);
  return written_scalar(result);
}

template <ScalarOp kOp>
Written ufunc(const Call& call) {
  if (kOp == ScalarOp::absolute && call.only().type.is_complex()) return complex_size(call, call.only());
  if (call.meta.kind == graph::Kind::kNumpyScalar && native::is_complex(call.meta.dtype) && !call.exact) return complex_ufunc(call, kOp);
  if (call.meta.kind != graph::Kind::kNumpyScalar || (call.exact && is_elementary(kOp))) throw Unsupported("this ufunc");
  const DType dtype = loop_type(call.only(), call.meta);
  if (!native::is_float(dtype)) throw Unsupported("this ufunc of integers");
  const Value x = as_operand(call.block, call.only(), dtype);
  const Value result = is_elementary(kOp) ? native::exact(dtype, native::math::of_one(kOp, x.real)) : native::lower(call.emitter(), kOp, call.meta.dtype, {x, Value{}, Value{}});
  if (native::is_float(result.dtype)) call.block.watch(result.real);
  return written_scalar(result);
}

template <ScalarOp kOp>
Written ufunc_of_two(const Call& call) {
  const bool is_bitwise = kOp == ScalarOp::copysign;
  if (call.arguments.size() != 2 || call.meta.kind != graph::Kind::kNumpyScalar || !native::is_float(call.meta.dtype) || (call.exact && !is_bitwise)) throw Unsupported("this ufunc");
  const Value a = as_operand(call.block, call.arguments[0], call.meta.dtype), b = as_operand(call.block, call.arguments[1], call.meta.dtype);
  const Value result = native::lower(call.emitter(), kOp, call.meta.dtype, {a, b, Value{}});
  call.block.watch(result.real);
  return written_scalar(result);
}

template <ScalarOp kOp>
Written extreme(const Call& call) {
  if (call.arguments.size() != 2 || call.meta.kind != graph::Kind::kNumpyScalar) throw Unsupported("this ufunc");
  const Value a = as_operand(call.block, call.arguments[0], call.meta.dtype), b = as_operand(call.block, call.arguments[1], call.meta.dtype);
  if (native::is_float(call.meta.dtype)) call.block.expect_not(compare("uno", a.real, b.real));
  return written_scalar(native::lower(call.emitter(), kOp, call.meta.dtype, {a, b, Value{}}));
}

template <DType kTo>
Written to_numpy(const Call& call) {
  const Written& a = call.only();
  const bool cuts = a.type.is_complex() || (a.type.is_number() && native::is_float(a.number.dtype) && !native::is_float(kTo));
  if (!agrees({Kind::kNumpy, kTo}, call.meta) || cuts) throw Unsupported("this conversion");
  if (a.type.kind == Kind::kNumpy && a.type.dtype != kTo) throw Unsupported("this conversion");
  return written_scalar(as_operand(call.block, a, kTo));
}

struct Row {
  const char *module, *name;
  Written (*write)(const Call& call);
};
constexpr Row kRows[] = {
#define EVALFRAME_REGION_CALL(module, name, function) {module, name, function},
#include "regions/calls.def"
#undef EVALFRAME_REGION_CALL
};

// A program may have put anything under the module's name: the object has to be a type or function of C's, or NumPy's own, of that name.
bool is_named(Borrowed callable, const Row& row) {
  const Ref module = Ref::steal(PyImport_GetModule(Ref::steal(PyUnicode_FromString(row.module)).get()));
  PyObject* const dict = module && PyModule_Check(module.get()) ? PyModule_GetDict(module.get()) : nullptr;
  if (!dict || PyDict_GetItemString(dict, row.name) != callable.get()) return false;
  if (PyCFunction_CheckExact(callable.get())) return std::string_view(callable.as<PyCFunctionObject>()->m_ml->ml_name) == row.name;
  if (PyObject_TypeCheck(callable.get(), &PyUFunc_Type)) return std::string_view(callable.as<PyUFuncObject>()->name) == row.name;
  if (std::string_view(Py_TYPE(callable.get())->tp_name) == "numpy._ArrayFunctionDispatcher") {
    const Ref name = Ref::steal(PyObject_GetAttrString(callable.get(), "__name__"));
    if (!name) PyErr_Clear();
    return name && PyUnicode_Check(name.get()) && PyUnicode_CompareWithASCIIString(name.get(), row.name) == 0;
  }
  return PyType_Check(callable.get()) && !PyType_HasFeature(callable.as<PyTypeObject>(), Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

Written call(Block& block, Borrowed callable, std::span<const Written> arguments, const graph::Meta& meta, bool exact) {
  for (const Row& row : kRows) {
    if (!is_named(callable, row)) continue;
    Written result = row.write({block, arguments, meta, exact});
    const bool is_range = result.type.kind == Kind::kRange;
    if (!is_range && !result.names_type && !agrees(result.type, meta)) throw Unsupported("a call of " + object_text(callable) + " with another result");
    return result;
  }
  throw Unsupported("a call of " + object_text(callable));
}

std::optional<Choice> choice_between(Block& block, Borrowed callable, std::span<const Written> numbers) {
  if (numbers.size() < 2 || are_alike(numbers) || !std::all_of(numbers.begin(), numbers.end(), [](const Written& number) { return number.type.is_number(); })) return std::nullopt;
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return (row.write == smallest || row.write == largest) && is_named(callable, row); });
  if (row == std::end(kRows)) return std::nullopt;
  const bool smaller = row->write == smallest;
  // All but the first, or all but the last, are alike.
  const bool first_differs = are_alike(numbers.subspan(1));
  if (!first_differs && !are_alike(numbers.first(numbers.size() - 1))) return std::nullopt;
  const std::span<const Written> alike = first_differs ? numbers.subspan(1) : numbers.first(numbers.size() - 1);
  // Among themselves they come to the same as one by one behind the first, but for NaN.
  for (size_t i = 0; first_differs && alike.size() > 1 && i < alike.size(); i++) {
    if (native::is_float(alike[i].number.dtype)) block.expect_not(compare("uno", alike[i].number.real, alike[i].number.real));
  }
  const Written best = first_of(block, alike, smaller);
  const Written &one = first_differs ? numbers[0] : best, &other = first_differs ? best : numbers.back();
  return Choice{one, other, !takes_second(block, smaller, one, other)};
}

}  // namespace evalframe::regions
