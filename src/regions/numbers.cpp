#include "regions/numbers.h"

#include <cmath>
#include <optional>

#include "backends/native/code/late.h"
#include "backends/native/code/scalar_lowering.h"
#include "backends/native/machine/processor.h"
#include "core/ref.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/elements.h"

namespace evalframe::regions {

using bytecode::BinaryOp, bytecode::UnaryOp;
using native::ScalarOp, native::Value;
using Kind = Type::Kind;

namespace {

bool is_python(const Written& a) { return a.type.is_number() && a.type.kind != Kind::kNumpy; }

void require_number(const Written& a) {
  if (!a.type.is_number()) throw Unsupported("arithmetic with " + (a.is_tuple ? std::string("a tuple") : text_of(a.type)));
}

Term within(const Term& x, int64_t low, int64_t high) {
  return compare("sge", x, low) & compare("sle", x, high);
}

}  // namespace

Term call_c(const std::string& function, std::initializer_list<Term> arguments) {
  Emitter& emitter = *arguments.begin()->emitter;
  const std::string& type = arguments.begin()->type;
  std::string types, values;
  for (const Term& argument : arguments) {
    types += (types.empty() ? "" : ", ") + type;
    values += (values.empty() ? "" : ", ") + type + " " + argument.ref;
  }
  emitter.need("declare " + type + " @" + function + "(" + types + ") #1");
  // #2: LLVM would put other operations in the place of some, which round in another way.
  return emitter.let(type, "call " + type + " @" + function + "(" + values + ") #2");
}

Term is_finite(Block& block, const Term& x) {
  const Term bits = native::as_bits(x);
  const bool wide = x.type == "double";
  return compare("ult", bits & block.emitter.integer(bits.type, wide ? INT64_MAX : INT32_MAX), wide ? 0x7ff0000000000000 : 0x7f800000);
}

Term floored_quotient(const Term& a, const Term& b) {
  const Term cut_off = binary("sdiv", a, b), rest = a - cut_off * b;
  return cut_off - convert("zext", compare("ne", rest, 0) & compare("slt", rest ^ b, 0), "i64");
}

Term checked(Block& block, const std::string& operation, bool is_signed, const Term& a, const Term& b) {
  const std::string pair = "{ " + a.type + ", i1 }";
  const std::string function = std::string("llvm.") + (is_signed ? "s" : "u") + operation + ".with.overflow." + a.type;
  block.emitter.need("declare " + pair + " @" + function + "(" + a.type + ", " + a.type + ")");
  const Term both = block.emitter.let(pair, "call " + pair + " @" + function + "(" + a.type + " " + a.ref + ", " + b.type + " " + b.ref + ")");
  block.leave_if(block.emitter.let("i1", "extractvalue " + pair + " " + both.ref + ", 1"));
  return block.emitter.let(a.type, "extractvalue " + pair + " " + both.ref + ", 0");
}

Term as_int(Block& block, const Written& a) {
  require_number(a);
  if (a.type.kind == Kind::kFloat || a.type.is_complex()) throw Unsupported("a float where an int is wanted");
  if (a.type.kind == Kind::kInt) return a.number.real;
  if (a.number.dtype == DType::bool_) return convert("zext", a.number.real, "i64");
  if (!native::is_integer(a.number.dtype)) throw Unsupported("a NumPy float where an int is wanted");
  if (a.number.dtype == DType::uint64) block.leave_if(compare("slt", a.number.real, 0));
  return convert(native::is_signed(a.number.dtype) ? "sext" : "zext", a.number.real, "i64");
}

Term as_double(Block& block, const Written& a) {
  require_number(a);
  if (a.number.dtype == DType::float64) return a.number.real;
  if (a.number.dtype == DType::float32) return convert("fpext", a.number.real, "double");
  const Term value = as_int(block, a);
  constexpr int64_t kExact = int64_t{1} << 53;
  if (a.number.dtype == DType::int64 || a.number.dtype == DType::uint64) block.expect(within(value, -kExact, kExact));
  return convert("sitofp", value, "double");
}

namespace {

// A Python int that an integer type has to hold.
Term int_of_width(Block& block, const Term& value, DType dtype) {
  const int bits = native::bits_of(dtype);
  if (dtype == DType::uint64) {
    block.leave_if(compare("slt", value, 0));
    return value;
  }
  if (bits == 64) return value;
  const bool is_signed = native::is_signed(dtype);
  const int64_t high = (int64_t{1} << (bits - is_signed)) - 1;
  block.expect(within(value, is_signed ? -high - 1 : 0, high));
  return convert("trunc", value, native::register_type(dtype));
}

// A float that isn't too large for its type, unless it was infinite before.
Term narrowed(Block& block, const Term& x) {
  const Term narrow = convert("fptrunc", x, "float");
  block.expect_not(is_finite(block, x) & !is_finite(block, narrow));
  return narrow;
}

// A number of Python's.
Value as_complex_operand(Block& block, const Written& a, DType dtype) {
  const DType part = native::component(dtype);
  if (!a.type.is_complex()) return native::make(dtype, as_operand(block, a, part).real, hidden(native::zero(block.emitter, part)));
  if (dtype == DType::complex128) return a.number;
  return native::make(dtype, narrowed(block, a.number.real), narrowed(block, a.number.imag));
}

}  // namespace

Value as_operand(Block& block, const Written& a, DType dtype) {
  require_number(a);
  if (!is_computed(dtype)) throw Unsupported(std::string("numbers of ") + graph::name(dtype));
  if (!is_python(a) || a.type.kind == Kind::kBool) {
    const bool loses = (native::is_float(a.number.dtype) && !native::is_float(native::component(dtype))) || (a.type.is_complex() && !native::is_complex(dtype));
    if (loses) throw Unsupported("a float among integers, or a complex number among others");
    return native::cast(a.number, dtype);
  }
  if (native::is_complex(dtype)) return as_complex_operand(block, a, dtype);
  if (a.type.is_complex()) throw Unsupported("a complex number among others");
  if (a.type.kind == Kind::kFloat) {
    if (!native::is_float(dtype)) throw Unsupported("a float among integers");
    return native::exact(dtype, dtype == DType::float64 ? a.number.real : narrowed(block, a.number.real));
  }
  if (native::is_integer(dtype)) return native::exact(dtype, int_of_width(block, a.number.real, dtype));
  if (dtype == DType::bool_) throw Unsupported("an int among bools");
  if (dtype == DType::float64) return native::exact(dtype, convert("sitofp", a.number.real, "double"));
  // Rounded once or twice: exact ones only.
  block.expect(within(a.number.real, -(1 << 24), 1 << 24));
  return native::exact(dtype, convert("sitofp", a.number.real, "float"));
}

Value as_element(Block& block, const Written& a, DType dtype) {
  require_number(a);
  if (!is_computed(dtype)) throw Unsupported(std::string("elements of ") + graph::name(dtype));
  if (dtype == DType::bool_) return native::exact(dtype, truth(block, a));
  if (native::is_complex(dtype) || a.type.is_complex()) {
    const Value value = as_operand(block, a, dtype);
    if (dtype == DType::complex64 && a.type.kind == Kind::kNumpy) block.watch(value);
    return value;
  }
  if (native::is_float(a.number.dtype) && !native::is_float(dtype)) {
    // NumPy cuts it off and warns where it doesn't fit.
    if (dtype == DType::uint64) throw Unsupported("a float stored as uint64");
    const Term x = native::cast(a.number, DType::float64).real;
    const bool is_signed = native::is_signed(dtype);
    const double high = std::ldexp(1.0, native::bits_of(dtype) - is_signed);
    const double low = is_signed ? -high : 0.0;
    block.leave_unless(compare("oge", x, block.emitter.number("double", low)) & compare("olt", x, block.emitter.number("double", high)));
    return native::exact(dtype, convert("trunc", convert("fptosi", x, "i64"), native::register_type(dtype)));
  }
  // Into some types NumPy wraps what doesn't fit, and for others it raises.
  if (a.type.kind == Kind::kNumpy && native::is_integer(a.number.dtype) && native::is_integer(dtype) && a.number.dtype != dtype) {
    return native::exact(dtype, int_of_width(block, as_int(block, a), dtype));
  }
  if (a.type.kind == Kind::kNumpy) {
    const Value value = native::cast(a.number, dtype);
    if (dtype == DType::float32 && a.number.dtype == DType::float64) block.watch(value.real);
    return value;
  }
  if (a.type.kind == Kind::kFloat && dtype == DType::float32) return native::exact(dtype, narrowed(block, a.number.real));
  return as_operand(block, a, dtype);
}

Term truth(Block& block, const Written& a) {
  require_number(a);
  return native::truth(block.emitter, a.number);
}

namespace {

// --- Python's ints ----------------------------------------------------------------------------------------------------

void leave_unless_divisible(Block& block, const Term& a, const Term& b) {
  block.leave_if(compare("eq", b, 0));
  block.leave_if(compare("eq", b, -1) & compare("eq", a, INT64_MIN));
}

Term floor_divide(Block& block, const Term& a, const Term& b, bool want_remainder) {
  leave_unless_divisible(block, a, b);
  const ScalarOp op = want_remainder ? ScalarOp::remainder : ScalarOp::floor_divide;
  return native::lower(block.emitter, op, DType::int64, {native::exact(DType::int64, a), native::exact(DType::int64, b), Value{}}).real;
}

Term shifted_left(Block& block, const Term& a, const Term& b) {
  block.leave_unless(within(b, 0, 62));
  const Term shifted = binary("shl", a, b);
  block.leave_unless(compare("eq", binary("ashr", shifted, b), a));
  return shifted;
}

Term shifted_right(Block& block, const Term& a, const Term& b) {
  block.leave_if(compare("slt", b, 0));
  const Term most = block.emitter.integer("i64", 63);
  return binary("ashr", a, select(compare("slt", b, 63), b, most));
}

Term power_of_int(Block& block, const Term& a, const Written& b) {
  // Of a known exponent: x ** 2, x ** 3.
  const Type type = b.constant ? type_of(b.constant) : Type{};
  const int64_t exponent = type.kind == Kind::kInt ? PyLong_AsLongLong(b.constant) : -1;
  if (exponent < 0 || exponent > 8) throw Unsupported("a power of ints");
  Term result = block.emitter.integer("i64", 1);
  for (int64_t i = 0; i < exponent; i++) result = checked(block, "mul", true, result, a);
  return result;
}

Term int_binary(Block& block, BinaryOp op, const Written& left, const Written& right) {
  const Term a = as_int(block, left), b = as_int(block, right);
  switch (op) {
    case BinaryOp::kAdd: return checked(block, "add", true, a, b);
    case BinaryOp::kSubtract: return checked(block, "sub", true, a, b);
    case BinaryOp::kMultiply: return checked(block, "mul", true, a, b);
    case BinaryOp::kAnd: return a & b;
    case BinaryOp::kOr: return a | b;
    case BinaryOp::kXor: return a ^ b;
    case BinaryOp::kFloorDivide: return floor_divide(block, a, b, false);
    case BinaryOp::kRemainder: return floor_divide(block, a, b, true);
    case BinaryOp::kLshift: return shifted_left(block, a, b);
    case BinaryOp::kRshift: return shifted_right(block, a, b);
    case BinaryOp::kPower: return power_of_int(block, a, right);
    default: throw Unsupported("this operator of ints");
  }
}

// --- Python's floats --------------------------------------------------------------------------------------------------

#ifdef __GLIBC__
constexpr bool kPowIsNear = true;
#else
constexpr bool kPowIsNear = false;
#endif

bool is_two(const Written& exponent) {
  if (!exponent.constant) return false;
  if (PyFloat_CheckExact(exponent.constant)) return PyFloat_AS_DOUBLE(exponent.constant) == 2.0;
  return type_of(exponent.constant).kind == Kind::kInt && PyLong_AsLongLong(exponent.constant) == 2;
}

// And whether it is finite.
struct Power {
  Term result, finite;
};

// By way of a function that keeps all registers, vectors, too: around a call of pow() itself all numbers of the turns would be in memory, for the sake of
// one square in thirty. It returns a vector, as LLVM would have any other function clear the upper halves of those registers at its end.
Term squared_by_pow(const Term& a) {
  Emitter& emitter = *a.emitter;
  emitter.need("declare double @pow(double, double) #1");
  emitter.need(
      "define internal preserve_allcc <4 x double> @squared_by_pow(double %a) #4 {\n  %power = call double @pow(double %a, double 2.0) #2\n"
      "  %powers = insertelement <4 x double> zeroinitializer, double %power, i64 0\n  ret <4 x double> %powers\n}");
  const Term powers = emitter.let("<4 x double>", "call preserve_allcc <4 x double> @squared_by_pow(double " + a.ref + ")");
  return emitter.let("double", "extractelement <4 x double> " + powers.ref + ", i64 0");
}

// pow(a, 2), which Python and NumPy call for one number. glibc's, with FMA, is within 0.509 ulp and 1.3 * 2^-15 ulp for each 1 that the result's
// logarithm is off 0 (sysdeps/ieee754/dbl-64/e_pow.c): for results from 2^-200 to 2^200 within 0.5146. What multiplying gives is the one where it is
// within 0.4844 ulp of the square: where it is still the nearest with 1.033 times as large an error. Of others that error isn't computed: it could
// underflow, or be that of infinities.
Power power_of_two(Block& block, const Term& a) {
  Emitter& emitter = block.emitter;
  const Term product = a * a;
  if (block.pass == Pass::kProbe) return {product, emitter.integer("i1", -1)};
  const Term is_ordinary = compare("oge", product, emitter.number("double", 0x1p-200)) & compare("olt", product, emitter.number("double", 0x1p200));
  const std::string looks = block.new_label(), sure = block.new_label(), calls = block.new_label(), behind = block.new_label();
  emitter.line("br i1 " + is_ordinary.ref + ", label %" + looks + ", label %" + calls);
  emitter.label(looks);
  const Term error = native::fma(a, a, -product);
  const Term is_sure = compare("oeq", native::fma(error, emitter.number("double", 1.033), product), product);
  emitter.line("br i1 " + is_sure.ref + ", label %" + sure + ", label %" + calls);
  emitter.label(sure);
  emitter.line("br label %" + behind);
  emitter.label(calls);
  const Term called = squared_by_pow(a);
  const Term finite = is_finite(block, called);
  emitter.line("br label %" + behind);
  emitter.label(behind);
  const auto either = [&](const char* type, const std::string& multiplied, const Term& other) {
    return emitter.let(type, std::string("phi ") + type + " [ " + multiplied + ", %" + sure + " ], [ " + other.ref + ", %" + calls + " ]");
  };
  return {either("double", product.ref, called), either("i1", "true", finite)};
}

Power power(Block& block, const Term& a, const Term& b, const Written& exponent) {
  if (kPowIsNear && native::vector_bytes() >= 32 && a.type == "double" && is_two(exponent)) return power_of_two(block, a);
  const bool is_whole = a.type == "double" && !exponent.constant && is_index(exponent);
  const Term result = call_c(is_whole ? "evalframe_pow_of_whole" : a.type == "double" ? "pow" : "powf", {a, b});
  return {result, is_finite(block, result)};
}

// Finite, of finite operands: all else raises, is complex, or has rules of its own.
Term power_of_float(Block& block, const Term& a, const Term& b, const Written& exponent) {
  const auto [result, finite] = power(block, a, b, exponent);
  // A square is finite only if the number is.
  block.expect(is_two(exponent) ? finite : is_finite(block, a) & is_finite(block, b) & finite);
  block.expect_not(compare("oeq", a, block.emitter.number("double", 0.0)) & compare("olt", b, block.emitter.number("double", 0.0)));
  return result;
}

// In many turns by a number that is known, LLVM may do several at once.
Term quotient(Block& block, const Term& a, const Term& b, const Written& divisor) {
  if (block.pass != Pass::kMany || a.type != "double" || !divisor.constant) return a / b;
  const double number = PyFloat_AsDouble(divisor.constant);
  if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), a / b;
  return native::quotient_by_fixed(a, block.emitter.number("double", number));
}

Term float_binary(Block& block, BinaryOp op, const Written& left, const Written& right) {
  const Term a = as_double(block, left), b = as_double(block, right);
  const auto lowered = [&](ScalarOp scalar) {
    block.leave_if(compare("oeq", b, block.emitter.number("double", 0.0)));
    return native::lower(block.emitter, scalar, DType::float64, {native::exact(DType::float64, a), native::exact(DType::float64, b), Value{}}).real;
  };
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSubtract: return a - b;
    case BinaryOp::kMultiply: return a * b;
    case BinaryOp::kTrueDivide: block.expect_not(compare("oeq", b, block.emitter.number("double", 0.0))); return quotient(block, a, b, right);
    case BinaryOp::kFloorDivide: block.leave_unless(is_finite(block, a) & is_finite(block, b)); return lowered(ScalarOp::floor_divide);
    case BinaryOp::kRemainder: block.leave_unless(is_finite(block, a) & is_finite(block, b)); return lowered(ScalarOp::remainder);
    case BinaryOp::kPower:
      if (left.type.kind != Kind::kFloat && right.type.kind != Kind::kFloat) throw Unsupported("a power of ints");
      return power_of_float(block, a, b, right);
    default: throw Unsupported("this operator of floats");
  }
}

// --- complex numbers --------------------------------------------------------------------------------------------------

Written complex_of(Block& block, const Written& a) {
  if (a.type.is_complex()) return a;
  return written_complex(as_double(block, a), hidden(block.emitter.number("double", 0.0)));
}

// As _Py_c_quot (Objects/complexobject.c) divides: first by the larger part of the divisor.
Written complex_quotient(Block& block, const Value& a, const Value& b) {
  block.leave_unless(is_finite(block, b.real) & is_finite(block, b.imag));
  const Term real_size = native::intrinsic("fabs", {b.real}), imag_size = native::intrinsic("fabs", {b.imag});
  block.leave_if(compare("oeq", real_size + imag_size, block.emitter.number("double", 0.0)));
  const Term by_real = compare("oge", real_size, imag_size);
  const Term large = select(by_real, b.real, b.imag), small = select(by_real, b.imag, b.real);
  const Term ratio = small / large;
  const Term divisor = large + small * ratio;
  const Term real = select(by_real, a.real, a.imag) + select(by_real, a.imag, a.real) * ratio;
  const Term imag = select(by_real, a.imag, a.imag * ratio) - select(by_real, a.real * ratio, a.real);
  return written_complex(real / divisor, imag / divisor);
}

Written complex_binary(Block& block, BinaryOp op, const Written& left, const Written& right) {
  const Value a = complex_of(block, left).number, b = complex_of(block, right).number;
  switch (op) {
    case BinaryOp::kAdd: return written_complex(a.real + b.real, a.imag + b.imag);
    case BinaryOp::kSubtract: return written_complex(a.real - b.real, a.imag - b.imag);
    case BinaryOp::kMultiply: return written_complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
    case BinaryOp::kTrueDivide: return complex_quotient(block, a, b);
    default: throw Unsupported("this operator of complex numbers");
  }
}

Value numpy_complex(Block& block, BinaryOp op, DType dtype, const Value& a, const Value& b) {
  const auto lowered = [&](ScalarOp scalar) { return native::lower(block.emitter, scalar, dtype, {a, b, Value{}}); };
  switch (op) {
    case BinaryOp::kAdd: return lowered(ScalarOp::add);
    case BinaryOp::kSubtract: return lowered(ScalarOp::subtract);
    case BinaryOp::kMultiply: return lowered(ScalarOp::multiply);
    case BinaryOp::kTrueDivide:
      for (const Value& operand : {a, b}) block.leave_unless(is_finite(block, operand.real) & is_finite(block, operand.imag));
      block.leave_if(!native::truth(block.emitter, b));
      // NumPy computes both of its ways, and warns of either: LLVM would choose one where it knows the divisor.
      return native::lower(block.emitter, ScalarOp::divide, dtype, {a, native::make(dtype, hidden(b.real), hidden(b.imag)), Value{}});
    default: throw Unsupported("this operator of NumPy's complex numbers");
  }
}

// --- NumPy's scalars --------------------------------------------------------------------------------------------------

Value numpy_integer(Block& block, BinaryOp op, DType dtype, const Value& a, const Value& b) {
  const bool is_signed = native::is_signed(dtype);
  const auto lowered = [&](ScalarOp scalar) { return native::lower(block.emitter, scalar, dtype, {a, b, Value{}}); };
  const auto divided = [&](ScalarOp scalar) {
    block.leave_if(compare("eq", b.real, 0));
    const int64_t lowest = is_signed ? -(int64_t{1} << (native::bits_of(dtype) - 2)) * 2 : 0;
    if (is_signed) block.leave_if(compare("eq", b.real, -1) & compare("eq", a.real, lowest));
    return lowered(scalar);
  };
  const auto shifted = [&](ScalarOp scalar) {
    block.leave_unless(compare("ult", b.real, native::bits_of(dtype)));
    return lowered(scalar);
  };
  switch (op) {
    case BinaryOp::kAdd: return native::exact(dtype, checked(block, "add", is_signed, a.real, b.real));
    case BinaryOp::kSubtract: return native::exact(dtype, checked(block, "sub", is_signed, a.real, b.real));
    case BinaryOp::kMultiply: return native::exact(dtype, checked(block, "mul", is_signed, a.real, b.real));
    case BinaryOp::kAnd: return native::exact(dtype, a.real & b.real);
    case BinaryOp::kOr: return native::exact(dtype, a.real | b.real);
    case BinaryOp::kXor: return native::exact(dtype, a.real ^ b.real);
    case BinaryOp::kFloorDivide: return divided(ScalarOp::floor_divide);
    case BinaryOp::kRemainder: return divided(ScalarOp::remainder);
    case BinaryOp::kLshift: return shifted(ScalarOp::left_shift);
    case BinaryOp::kRshift: return shifted(ScalarOp::right_shift);
    default: throw Unsupported("this operator of NumPy's integers");
  }
}

Value numpy_float(Block& block, BinaryOp op, DType dtype, const Value& a, const Value& b, const Written& right) {
  const auto lowered = [&](ScalarOp scalar) {
    block.leave_unless(is_finite(block, a.real) & is_finite(block, b.real));
    block.leave_if(compare("oeq", b.real, native::zero(block.emitter, dtype)));
    return native::lower(block.emitter, scalar, dtype, {a, b, Value{}});
  };
  switch (op) {
    case BinaryOp::kAdd: return native::exact(dtype, a.real + b.real);
    case BinaryOp::kSubtract: return native::exact(dtype, a.real - b.real);
    case BinaryOp::kMultiply: return native::exact(dtype, a.real * b.real);
    case BinaryOp::kTrueDivide: return native::exact(dtype, quotient(block, a.real, b.real, right));
    case BinaryOp::kFloorDivide: return lowered(ScalarOp::floor_divide);
    case BinaryOp::kRemainder: return lowered(ScalarOp::remainder);
    case BinaryOp::kPower: {
      const auto [result, finite] = power(block, a.real, b.real, right);
      block.expect(finite);
      return native::exact(dtype, result);
    }
    default: throw Unsupported("this operator of NumPy's floats");
  }
}

Value numpy_bool(BinaryOp op, const Value& a, const Value& b) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kOr: return native::exact(DType::bool_, a.real | b.real);
    case BinaryOp::kMultiply:
    case BinaryOp::kAnd: return native::exact(DType::bool_, a.real & b.real);
    case BinaryOp::kXor: return native::exact(DType::bool_, a.real ^ b.real);
    default: throw Unsupported("this operator of NumPy's bools");
  }
}

// A power of Python's float by an int of NumPy's is an operation of arrays (convert_to_double in NumPy's scalarmath.c.src), and so is one of two numbers of
// NumPy's that the type of neither can hold (float32 and int64), or of a bool. On some processors (AVX-512) these don't call pow(). Asked of NumPy: in one
// of twenty cases their last bits differ.
bool calls_pow_for_ints_of_numpy() {
  static const bool calls = [] {
    for (int exponent = 3; exponent < 20; exponent++) {
      const Ref number = Ref::steal(PyArrayScalar_New(Long));
      if (!number) return PyErr_Clear(), false;
      PyArrayScalar_ASSIGN(number.get(), Long, exponent);
      for (double base = 1.01; base < 24; base++) {
        const Ref of_python = Ref::steal(PyFloat_FromDouble(base));
        const Ref power = of_python ? Ref::steal(PyNumber_Power(of_python.get(), number.get(), Py_None)) : Ref();
        if (!power || PyFloat_AsDouble(power.get()) != std::pow(base, exponent)) return PyErr_Clear(), false;
      }
    }
    return true;
  }();
  return calls;
}

bool is_power_of_arrays(const Written& left, const Written& right, DType dtype) {
  if (!native::is_float(dtype) || right.type.kind != Kind::kNumpy) return false;
  if (left.type.kind == Kind::kFloat) return graph::kind_of(right.type.dtype) != 'f';
  return left.type.kind == Kind::kNumpy && left.type.dtype != dtype && (left.type.dtype == DType::bool_ || right.type.dtype != dtype);
}

Written numpy_binary(Block& block, BinaryOp op, const Written& left, const Written& right, DType dtype) {
  if (!is_computed(dtype)) throw Unsupported(std::string("numbers of ") + graph::name(dtype));
  if (op == BinaryOp::kPower && is_power_of_arrays(left, right, dtype) && !calls_pow_for_ints_of_numpy()) throw Unsupported("a power that NumPy computes as those of arrays, on this processor");
  const Value a = as_operand(block, left, dtype), b = as_operand(block, right, dtype);
  if (dtype == DType::bool_) return written_scalar(numpy_bool(op, a, b));
  const bool complex = native::is_complex(dtype);
  if (!native::is_float(dtype) && !complex) return written_scalar(numpy_integer(block, op, dtype, a, b));
  const Value result = complex ? numpy_complex(block, op, dtype, a, b) : numpy_float(block, op, dtype, a, b, right);
  block.watch(result);
  return written_scalar(result);
}

// The type in which two numbers are compared, one of them NumPy's.
DType compared_in(const Written& a, const Written& b) {
  const auto weak = [](const Written& python, DType other) {
    if (python.type.is_complex() && !native::is_complex(other)) throw Unsupported("a complex number compared with others");
    if (python.type.kind == Kind::kFloat) return native::is_float(other) || native::is_complex(other) ? other : DType::float64;
    if (python.type.kind == Kind::kInt && other == DType::bool_) throw Unsupported("an int compared with a NumPy bool");
    return other;
  };
  if (is_python(a) && a.type.kind != Kind::kBool) return weak(a, b.number.dtype);
  if (is_python(b) && b.type.kind != Kind::kBool) return weak(b, a.number.dtype);
  const Ref one = numpy::dtype_object(a.number.dtype);
  const Ref two = numpy::dtype_object(b.number.dtype);
  const Ref both = Ref::steal(reinterpret_cast<PyObject*>(PyArray_PromoteTypes(one.as<PyArray_Descr>(), two.as<PyArray_Descr>())));
  const DType dtype = numpy::dtype_of(both.get());
  const bool mixes_signs = native::is_float(dtype) && !native::is_float(a.number.dtype) && !native::is_float(b.number.dtype);
  if (mixes_signs) throw Unsupported("uint64 compared with a signed integer");
  return dtype;
}

// Numbers that the type of neither can hold (complex64 and int64), and such behind a bool. Of NaNs in these NumPy warns.
bool are_compared_as_arrays(const Written& a, const Written& b, DType dtype) {
  const auto is_numpys = [](const Written& number, DType of) { return number.type.kind == Kind::kNumpy && number.number.dtype == of; };
  return is_numpys(a, DType::bool_) || (!is_numpys(a, dtype) && !is_numpys(b, dtype));
}

// A NaN as imaginary part counts only where the real parts are equal; in arrays it always does.
Term complex_less(const Value& a, const Value& b, bool or_equal) {
  const Term imag_less = or_equal ? native::quiet_less_equal(a.imag, b.imag) : native::quiet_less(a.imag, b.imag);
  return native::quiet_less(a.real, b.real) | (compare("oeq", a.real, b.real) & imag_less);
}

// By Py_LT ... Py_GE.
constexpr ScalarOp kComparisons[] = {ScalarOp::less, ScalarOp::less_equal, ScalarOp::equal, ScalarOp::not_equal, ScalarOp::greater, ScalarOp::greater_equal};

}  // namespace

namespace {

Varies varies_of(BinaryOp op, const Written& a, const Written& b) {
  const Varies more = std::max(a.varies, b.varies), less = std::min(a.varies, b.varies);
  if (more == Varies::kNot) return Varies::kNot;
  const bool is_sum = op == BinaryOp::kAdd || op == BinaryOp::kSubtract;
  return is_sum || (op == BinaryOp::kMultiply && less == Varies::kNot) ? more : Varies::kAnyhow;
}

// What is the same in the first and in the last turn is so in those between: (i + 1) % n is i + 1 in all turns but the last one.
Written by_shared_quotient(Block& block, BinaryOp op, const Written& a, const Written& b) {
  const Term x = as_int(block, a), y = as_int(block, b);
  std::optional<Term> quotient;
  if (block.pass == Pass::kProbe && !block.peeks) {
    const bool strict_before = std::exchange(block.is_strict, true);
    leave_unless_divisible(block, x, y);
    block.is_strict = strict_before;
    quotient = floored_quotient(x, y);
  } else {
    quotient = block.emitter.let("i64", "load i64, ptr " + block.quotients + std::to_string(block.shared_quotients.size()));
  }
  block.shared_quotients.push_back({*quotient, x, y});
  const bool wants_rest = op == BinaryOp::kRemainder;
  Written result = written_int(wants_rest ? x - *quotient * y : *quotient);
  result.varies = wants_rest ? a.varies : Varies::kNot;
  return result;
}

Written python_int(Block& block, BinaryOp op, const Written& a, const Written& b) {
  const bool divides = op == BinaryOp::kFloorDivide || op == BinaryOp::kRemainder;
  // By a number that is known LLVM multiplies.
  if (divides && block.pass != Pass::kTurn && a.varies != Varies::kAnyhow && b.varies == Varies::kNot && !b.constant) {
    block.divides = true;
    if (!block.quotients.empty()) return by_shared_quotient(block, op, a, b);
  }
  const Varies varies = varies_of(op, a, b);
  // What fits in the first and in the last turn fits in those between.
  const bool fits = (block.pass == Pass::kMany || block.peeks) && varies != Varies::kAnyhow;
  const auto plain = [&] {
    const Term x = as_int(block, a), y = as_int(block, b);
    return op == BinaryOp::kAdd ? x + y : op == BinaryOp::kSubtract ? x - y : x * y;
  };
  const bool is_plain = fits && (op == BinaryOp::kAdd || op == BinaryOp::kSubtract || op == BinaryOp::kMultiply);
  const bool strict_before = std::exchange(block.is_strict, block.is_strict || varies != Varies::kAnyhow);
  Written result = written_int(is_plain ? plain() : int_binary(block, op, a, b));
  block.is_strict = strict_before;
  result.varies = varies;
  return result;
}

}  // namespace

Written binary(Block& block, int code, const Written& a, const Written& b, const graph::Meta& meta) {
  const BinaryOp op = bytecode::binary_op(code);
  require_number(a);
  require_number(b);
  switch (meta.kind) {
    case graph::Kind::kInt: return python_int(block, op, a, b);
    case graph::Kind::kFloat: return written_float(float_binary(block, op, a, b));
    case graph::Kind::kComplex: return complex_binary(block, op, a, b);
    case graph::Kind::kBool: return written_bool(numpy_bool(op, a.number, b.number).real);
    case graph::Kind::kNumpyScalar: return numpy_binary(block, op, a, b, meta.dtype);
    default: throw Unsupported("this operator");
  }
}

Written unary(Block& block, int code, const Written& a, const graph::Meta& meta) {
  require_number(a);
  const auto op = static_cast<UnaryOp>(code);
  const bool is_float = native::is_float(native::component(a.number.dtype));
  if (a.number.dtype == DType::bool_) {
    if (a.type.kind == Kind::kNumpy && op == UnaryOp::kInvert) return written_scalar(native::exact(DType::bool_, !a.number.real));
    throw Unsupported("this operator of bools");
  }
  Term result = a.number.real;
  switch (op) {
    case UnaryOp::kPositive: break;
    case UnaryOp::kInvert:
      if (is_float) throw Unsupported("this operator of floats");
      result = !result;
      break;
    case UnaryOp::kNegative:
      if (!is_float && a.type.kind == Kind::kNumpy && !native::is_signed(a.number.dtype)) throw Unsupported("the negative of an unsigned integer");
      result = is_float ? -result : checked(block, "sub", true, block.emitter.integer(result.type, 0), result);
  }
  Written value = a;
  value.constant = nullptr;
  value.number.real = result;
  if (value.type.is_complex() && op == UnaryOp::kNegative) value.number.imag = -value.number.imag;
  if (!agrees(value.type, meta)) throw Unsupported("this operator");
  return value;
}

Written compare_numbers(Block& block, int code, const Written& a, const Written& b, const graph::Meta& meta) {
  require_number(a);
  require_number(b);
  const ScalarOp op = kComparisons[code];
  if (is_python(a) && is_python(b) && (a.type.is_complex() || b.type.is_complex())) {
    if (code != Py_EQ && code != Py_NE) throw Unsupported("complex numbers in order");
    return written_bool(native::lower(block.emitter, op, DType::bool_, {complex_of(block, a).number, complex_of(block, b).number, Value{}}).real);
  }
  if (is_python(a) && is_python(b)) {
    const bool floats = a.type.kind == Kind::kFloat || b.type.kind == Kind::kFloat;
    const DType dtype = floats ? DType::float64 : DType::int64;
    const Value left = native::exact(dtype, floats ? as_double(block, a) : as_int(block, a));
    const Value right = native::exact(dtype, floats ? as_double(block, b) : as_int(block, b));
    return written_bool(native::lower(block.emitter, op, DType::bool_, {left, right, Value{}}).real);
  }
  if (meta.kind != graph::Kind::kNumpyScalar || meta.dtype != DType::bool_) throw Unsupported("this comparison");
  const DType dtype = compared_in(a, b);
  const Value left = as_operand(block, a, dtype), right = as_operand(block, b, dtype);
  if (native::is_complex(dtype) && code != Py_EQ && code != Py_NE) {
    if (are_compared_as_arrays(a, b, dtype)) throw Unsupported("complex numbers in the order of arrays");
    const bool swaps = code == Py_GT || code == Py_GE;
    return written_scalar(native::exact(DType::bool_, complex_less(swaps ? right : left, swaps ? left : right, code == Py_LE || code == Py_GE)));
  }
  return written_scalar(native::lower(block.emitter, op, DType::bool_, {left, right, Value{}}));
}

}  // namespace evalframe::regions
