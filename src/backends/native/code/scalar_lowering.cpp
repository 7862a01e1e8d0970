// From one scalar operation to LLVM IR, with NumPy's semantics for each type.
#include "backends/native/code/scalar_lowering.h"

#include <stdexcept>

#include "backends/native/math/vector_math.h"

namespace evalframe::native {
namespace {

using Lowering = Value (*)(Emitter& emitter, DType result, const Operands& in);

[[noreturn]] void unsupported(DType dtype) {
  throw std::runtime_error(std::string("no native lowering for ") + graph::name(dtype));
}

Term sign_bit(const Term& x) { return compare("slt", as_bits(x), 0); }
Term magnitude(const Term& x) { return intrinsic("fabs", {x}); }
Term is_nan(const Term& x) { return compare("uno", x, x); }

// By the real parts, and where these are equal as the imaginary parts are.
Term ordered(const Value& a, const Value& b, const Term& imag_ordered) {
  const Term real_less = quiet_less(a.real, b.real) & !(is_nan(a.imag) | is_nan(b.imag));
  return real_less | (compare("oeq", a.real, b.real) & imag_ordered);
}

// a < b of any ordered type, without flags.
Term less(const Value& a, const Value& b) {
  if (a.dtype == DType::bool_) return (!a.real) & b.real;
  if (is_complex(a.dtype)) return ordered(a, b, quiet_less(a.imag, b.imag));
  if (is_float(a.dtype)) return quiet_less(a.real, b.real);
  return compare(is_signed(a.dtype) ? "slt" : "ult", a.real, b.real);
}

Term less_equal(const Value& a, const Value& b) {
  if (a.dtype == DType::bool_) return (!a.real) | b.real;
  if (is_complex(a.dtype)) return ordered(a, b, quiet_less_equal(a.imag, b.imag));
  if (is_float(a.dtype)) return quiet_less_equal(a.real, b.real);
  return compare(is_signed(a.dtype) ? "sle" : "ule", a.real, b.real);
}

Term same(const Value& a, const Value& b) {
  if (is_complex(a.dtype)) return compare("oeq", a.real, b.real) & compare("oeq", a.imag, b.imag);
  return compare(is_float(a.dtype) ? "oeq" : "eq", a.real, b.real);
}

Value choose(const Term& condition, const Value& yes, const Value& no) {
  Value chosen = {yes.dtype, select(condition, yes.real, no.real), {}};
  if (is_complex(yes.dtype)) chosen.imag = select(condition, yes.imag, no.imag);
  return chosen;
}

Value lower_cast(Emitter&, DType result, const Operands& in) { return cast(in[0], result); }

Value lower_add(Emitter&, DType result, const Operands& in) {
  if (result == DType::bool_) return exact(result, in[0].real | in[1].real);
  if (is_complex(result)) return make(result, in[0].real + in[1].real, in[0].imag + in[1].imag);
  return make(result, in[0].real + in[1].real);
}

Value lower_subtract(Emitter&, DType result, const Operands& in) {
  if (is_complex(result)) return make(result, in[0].real - in[1].real, in[0].imag - in[1].imag);
  return make(result, in[0].real - in[1].real);
}

Value lower_multiply(Emitter&, DType result, const Operands& in) {
  if (result == DType::bool_) return exact(result, in[0].real & in[1].real);
  const auto& [a, b, unused] = in;
  if (is_complex(result)) return make(result, a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
  return make(result, a.real * b.real);
}

Value lower_multiply_fused(Emitter&, DType result, const Operands& in) {
  if (!is_complex(result)) unsupported(result);
  const auto& [a, b, unused] = in;
  return make(result, fma(a.real, b.real, -(a.imag * b.imag)), fma(a.real, b.imag, a.imag * b.real));
}

// Smith's algorithm, the branches as selects: divides by the larger component first.
Value divide_complex(DType result, const Value& a, const Value& b) {
  const Term real_size = magnitude(b.real);
  const Term imag_size = magnitude(b.imag);
  const Term real_larger = quiet_less_equal(imag_size, real_size);
  Emitter& emitter = *a.real.emitter;
  const Term nothing = zero(emitter, result);
  const Term by_zero = compare("oeq", real_size, nothing) & compare("oeq", imag_size, nothing);
  // NumPy's comparison of the two raises it.
  emitter.report(Condition::kInvalid, is_nan(real_size) | is_nan(imag_size));
  const Term large = select(real_larger, b.real, b.imag);
  const Term small = select(real_larger, b.imag, b.real);
  const Term safe_large = select(by_zero, emitter.number(large.type, 1.0), large);
  const Term ratio = small / safe_large;
  const Term scale = 1.0 / (safe_large + small * ratio);
  const Term real = select(real_larger, a.real + a.imag * ratio, a.real * ratio + a.imag);
  const Term imag = select(real_larger, a.imag - a.real * ratio, a.imag * ratio - a.real);
  // LLVM would divide by either number, and choose behind it.
  const Term divisor = hidden(select(by_zero, nothing, emitter.number(large.type, 1.0)));
  const Term zero_real = select(by_zero, a.real, nothing) / divisor;
  const Term zero_imag = select(by_zero, a.imag, nothing) / divisor;
  return make(result, select(by_zero, zero_real, real * scale), select(by_zero, zero_imag, imag * scale));
}

Value lower_divide(Emitter&, DType result, const Operands& in) {
  if (is_complex(result)) return divide_complex(result, in[0], in[1]);
  if (!is_float(result)) unsupported(result);
  return make(result, in[0].real / in[1].real);
}

// The divisor made safe, with NumPy's conditions reported. `special`: where the division isn't done.
struct SafeDivision {
  Term divisor, by_zero, overflow;
};
SafeDivision safe_division(Emitter& emitter, DType dtype, const Term& a, const Term& b) {
  const Term by_zero = compare("eq", b, 0);
  emitter.report(Condition::kDivide, by_zero);
  const Term one = emitter.integer(b.type, 1);
  if (!is_signed(dtype)) return {select(by_zero, one, b), by_zero, {}};
  const int64_t lowest = -(int64_t{1} << (bits_of(dtype) - 2)) * 2;
  const Term overflow = compare("eq", a, lowest) & compare("eq", b, -1);
  return {select(by_zero | overflow, one, b), by_zero, overflow};
}

// C's fmod through the library, in the operand's own precision.
Term float_mod(const Term& a, const Term& b) {
  return call(a.type == "double" ? "evalframe_fmod" : "evalframe_fmodf", a.type, {a, b});
}

// `vanishes`: the quotient is zero, whose sign isn't told.
struct DivMod {
  Term quotient, vanishes, remainder;
};

// NumPy's npy_divmod for a divisor that isn't zero.
DivMod float_divmod(const Term& a, const Term& b) {
  Emitter& emitter = *a.emitter;
  const Term nothing = emitter.number(a.type, 0.0);
  const int64_t half = a.type == "double" ? 0x3fe0000000000000 : 0x3f000000;
  const Term mod = float_mod(a, b);
  const Term quotient = (a - mod) / b;
  const Term nonzero = compare("une", mod, nothing);
  // Signs and sizes are told from the bits: LLVM makes a comparison with a constant one that raises "invalid" on NaN.
  const Term adjust = nonzero & compare("slt", as_bits(b) ^ as_bits(mod), 0);
  const Term adjusted_mod = select(adjust, mod + b, mod);
  const Term adjusted = select(adjust, quotient - 1.0, quotient);
  const Term floored = intrinsic("floor", {adjusted});
  const Term rounded = select(compare("sgt", as_bits(adjusted - floored), half), floored + 1.0, floored);
  return {rounded, compare("oeq", adjusted, nothing), select(nonzero, adjusted_mod, intrinsic("copysign", {nothing, b}))};
}

Value lower_floor_divide(Emitter& emitter, DType result, const Operands& in) {
  const Term& a = in[0].real;
  const Term& b = in[1].real;
  if (is_float(result)) {
    const Term by_zero = compare("oeq", b, emitter.number(b.type, 0.0));
    const Term one = emitter.number(b.type, 1.0);
    const DivMod parts = float_divmod(select(by_zero, one, a), select(by_zero, one, b));
    // NumPy divides by zero, and for the sign of a quotient that is zero, which may underflow.
    const Term divided = a / hidden(b);
    const Term zero = intrinsic("copysign", {emitter.number(a.type, 0.0), divided});
    return make(result, select(by_zero, divided, select(parts.vanishes, zero, parts.quotient)));
  }
  if (!is_integer(result)) unsupported(result);
  const SafeDivision safe = safe_division(emitter, result, a, b);
  if (!is_signed(result)) {
    const Term quotient = binary("udiv", a, safe.divisor);
    return exact(result, select(safe.by_zero, emitter.integer(a.type, 0), quotient));
  }
  emitter.report(Condition::kOverflow, safe.overflow);
  const Term quotient = binary("sdiv", a, safe.divisor);
  const Term rest = a - quotient * safe.divisor;
  const Term adjust = compare("ne", rest, 0) & compare("slt", rest ^ safe.divisor, 0);
  const Term floored = quotient + convert("sext", adjust, a.type);
  return exact(result, select(safe.by_zero, emitter.integer(a.type, 0), select(safe.overflow, a, floored)));
}

Value lower_remainder(Emitter& emitter, DType result, const Operands& in) {
  const Term& a = in[0].real;
  const Term& b = in[1].real;
  if (is_float(result)) {
    const Term by_zero = compare("oeq", b, emitter.number(b.type, 0.0));
    emitter.report(Condition::kInvalid, by_zero & !is_nan(a));
    const Term safe = select(by_zero, emitter.number(b.type, 1.0), b);
    const Term nan = emitter.number(b.type, -__builtin_nan(""));
    return make(result, select(by_zero, select(is_nan(a), a, nan), float_divmod(a, safe).remainder));
  }
  if (!is_integer(result)) unsupported(result);
  const SafeDivision safe = safe_division(emitter, result, a, b);
  const Term nothing = emitter.integer(a.type, 0);
  if (!is_signed(result)) return exact(result, select(safe.by_zero, nothing, binary("urem", a, safe.divisor)));
  const Term rest = binary("srem", a, safe.divisor);
  const Term adjust = compare("ne", rest, 0) & compare("slt", rest ^ safe.divisor, 0);
  return exact(result, select(safe.by_zero, nothing, select(adjust, rest + safe.divisor, rest)));
}

// By squaring; a negative exponent is the caller's to refuse, as NumPy does.
Value lower_integer_power(Emitter& emitter, DType result, const Operands& in) {
  const Term& a = in[0].real;
  const Term& b = in[1].real;
  const std::string function = "evalframe_power_" + a.type;
  std::string text = "define internal TYPE @" + function + R"((TYPE %base, TYPE %exponent) #0 {
entry:
  br label %loop
loop:
  %b = phi TYPE [ %base, %entry ], [ %square, %loop ]
  %e = phi TYPE [ %exponent, %entry ], [ %half, %loop ]
  %r = phi TYPE [ 1, %entry ], [ %result, %loop ]
  %low = trunc TYPE %e to i1
  %product = mul TYPE %r, %b
  %result = select i1 %low, TYPE %product, TYPE %r
  %square = mul TYPE %b, %b
  %half = lshr TYPE %e, 1
  %done = icmp eq TYPE %half, 0
  br i1 %done, label %end, label %loop
end:
  ret TYPE %result
})";
  for (size_t at = text.find("TYPE"); at != std::string::npos; at = text.find("TYPE")) text.replace(at, 4, a.type);
  emitter.need(text);
  return exact(result, emitter.let(a.type, "call " + a.type + " @" + function + "(" + a.type + " " + a.ref + ", " + a.type + " " + b.ref + ")"));
}

// The bits of infinity, as an integer of the same size.
int64_t infinity_bits(const Term& x) { return x.type == "double" ? 0x7ff0000000000000 : 0x7f800000; }

// The bits of |x| as an integer: comparisons of them raise no flags.
Term magnitude_bits(const Term& x) {
  const Term bits = as_bits(x);
  return bits & x.emitter->integer(bits.type, x.type == "double" ? INT64_MAX : INT32_MAX);
}

// Of complex numbers: e^a (cos b + i sin b) alone, as C99's cexp(). Where e^a would be no ordinary number, or b isn't finite, it is NumPy's.
Value elementary_of_complex(Emitter& emitter, ScalarOp op, DType result, const Value& a) {
  if (op != ScalarOp::exp || !is_complex(result)) unsupported(result);
  const Term largest = emitter.number(a.real.type, a.real.type == "double" ? 700.0 : 85.0), nothing = zero(emitter, component(result));
  const Term is_ordinary = compare("ule", magnitude_bits(a.real), as_bits(largest)) & compare("ult", magnitude_bits(a.imag), infinity_bits(a.imag));
  emitter.report(Condition::kByPlace, !is_ordinary);
  const Term size = math::exp(select(is_ordinary, a.real, nothing)), angle = select(is_ordinary, a.imag, nothing);
  return make(result, size * math::cos(angle), size * math::sin(angle));
}

// The rows of vector_math.def.
#define EVALFRAME_MATH1(op, c_name)                                                            \
  Value lower_##op(Emitter& emitter, DType result, const Operands& in) {                       \
    if (!is_float(result)) return elementary_of_complex(emitter, ScalarOp::op, result, in[0]); \
    return make(result, math::op(in[0].real));                                                 \
  }
#define EVALFRAME_MATH2(op, c_name)                               \
  Value lower_##op(Emitter&, DType result, const Operands& in) { \
    if (!is_float(result)) unsupported(result);                  \
    return make(result, math::op(in[0].real, in[1].real));       \
  }
#include "backends/native/math/vector_math.def"

Value lower_negative(Emitter&, DType result, const Operands& in) {
  if (is_complex(result)) return make(result, -in[0].real, -in[0].imag);
  return exact(result, -in[0].real);
}

Value lower_positive(Emitter&, DType, const Operands& in) { return in[0]; }

Value lower_absolute(Emitter& emitter, DType result, const Operands& in) {
  const Value& a = in[0];
  if (is_complex(a.dtype)) {
    return lower_hypot(emitter, result, {exact(result, a.real), exact(result, a.imag)});
  }
  if (is_float(result)) return exact(result, magnitude(a.real));
  if (!is_signed(result)) return a;
  return exact(result, select(compare("slt", a.real, 0), emitter.integer(a.real.type, 0) - a.real, a.real));
}

Value lower_sign(Emitter& emitter, DType result, const Operands& in) {
  const Term& a = in[0].real;
  if (is_float(result)) {
    const Term unit = intrinsic("copysign", {emitter.number(a.type, 1.0), a});
    const Term nothing = emitter.number(a.type, 0.0);
    return exact(result, select(is_nan(a), a, select(compare("oeq", a, nothing), hidden(nothing), unit)));
  }
  if (!is_integer(result)) unsupported(result);
  const Term positive = convert("zext", compare(is_signed(result) ? "sgt" : "ugt", a, 0), a.type);
  return exact(result, is_signed(result) ? positive | (a >> (bits_of(result) - 1)) : positive);
}

Value lower_square(Emitter& emitter, DType result, const Operands& in) { return lower_multiply(emitter, result, {in[0], in[0]}); }

Value lower_square_fused(Emitter& emitter, DType result, const Operands& in) {
  return lower_multiply_fused(emitter, result, {in[0], in[0]});
}

Value lower_sqrt(Emitter&, DType result, const Operands& in) {
  if (!is_float(result)) unsupported(result);
  return make(result, intrinsic("sqrt", {in[0].real}));
}

Value lower_reciprocal(Emitter& emitter, DType result, const Operands& in) {
  if (is_float(result)) return make(result, 1.0 / in[0].real);
  if (is_complex(result)) return divide_complex(result, make(result, emitter.number(in[0].real.type, 1.0), zero(emitter, result)), in[0]);
  const Value wide = cast(in[0], DType::float64);
  return cast(exact(DType::float64, 1.0 / wide.real), result);
}

Value round_with(const char* name, DType result, const Operands& in) {
  return is_float(result) ? exact(result, intrinsic(name, {in[0].real})) : in[0];
}
Value lower_floor(Emitter&, DType result, const Operands& in) { return round_with("floor", result, in); }
Value lower_ceil(Emitter&, DType result, const Operands& in) { return round_with("ceil", result, in); }
Value lower_trunc(Emitter&, DType result, const Operands& in) { return round_with("trunc", result, in); }
Value lower_rint(Emitter&, DType result, const Operands& in) { return round_with("rint", result, in); }

// The smaller of two (the second where they are equal, the first of halves); `nan_wins`: a NaN is the result, else the other operand.
Value extreme(const Value& left, const Value& right, bool smaller, bool nan_wins) {
  const bool half = left.dtype == DType::float16;
  const Value& a = half ? right : left;
  const Value& b = half ? left : right;
  const Value& first = smaller ? a : b;
  const Value& second = smaller ? b : a;
  Value chosen = choose(less(first, second), a, b);
  if (!is_float(component(a.dtype))) return chosen;
  // Nothing is less than NaN, so that b was chosen. Where that isn't right all is computed again; else min and max are one instruction.
  if (is_float(a.dtype) && !a.real.emitter->must_be_quiet()) {
    a.real.emitter->report(Condition::kInvalid, is_nan(nan_wins ? a.real : b.real));
    return chosen;
  }
  Term a_nan = is_nan(a.real);
  Term b_nan = is_nan(b.real);
  if (is_complex(a.dtype)) {
    a_nan = a_nan | is_nan(a.imag);
    b_nan = b_nan | is_nan(b.imag);
  }
  if (!nan_wins) return choose(a_nan, b, choose(b_nan, a, chosen));
  return choose(half ? a_nan & !b_nan : a_nan, a, chosen);  // of two NaNs the left one; one in b was chosen
}
Value lower_minimum(Emitter&, DType, const Operands& in) { return extreme(in[0], in[1], true, true); }
Value lower_maximum(Emitter&, DType, const Operands& in) { return extreme(in[0], in[1], false, true); }
Value lower_fmin(Emitter&, DType, const Operands& in) { return extreme(in[0], in[1], true, false); }
Value lower_fmax(Emitter&, DType, const Operands& in) { return extreme(in[0], in[1], false, false); }

Value lower_copysign(Emitter&, DType result, const Operands& in) {
  return exact(result, intrinsic("copysign", {in[0].real, in[1].real}));
}
Value lower_bitwise_and(Emitter&, DType result, const Operands& in) { return exact(result, in[0].real & in[1].real); }
Value lower_bitwise_or(Emitter&, DType result, const Operands& in) { return exact(result, in[0].real | in[1].real); }
Value lower_bitwise_xor(Emitter&, DType result, const Operands& in) { return exact(result, in[0].real ^ in[1].real); }
Value lower_invert(Emitter&, DType result, const Operands& in) { return exact(result, !in[0].real); }

// Shift counts outside the width (negative ones too) give what a shift by the width would.
Value lower_left_shift(Emitter& emitter, DType result, const Operands& in) {
  if (!is_integer(result)) unsupported(result);
  const Term inside = compare("ult", in[1].real, bits_of(result));
  const Term nothing = emitter.integer(in[0].real.type, 0);
  return exact(result, select(inside, binary("shl", in[0].real, select(inside, in[1].real, nothing)), nothing));
}
Value lower_right_shift(Emitter& emitter, DType result, const Operands& in) {
  if (!is_integer(result)) unsupported(result);
  const Term& a = in[0].real;
  const Term inside = compare("ult", in[1].real, bits_of(result));
  const Term nothing = emitter.integer(a.type, 0);
  if (is_signed(result)) return exact(result, binary("ashr", a, select(inside, in[1].real, emitter.integer(a.type, bits_of(result) - 1))));
  return exact(result, select(inside, binary("lshr", a, select(inside, in[1].real, nothing)), nothing));
}

Value lower_logical_and(Emitter& emitter, DType, const Operands& in) {
  return exact(DType::bool_, truth(emitter, in[0]) & truth(emitter, in[1]));
}
Value lower_logical_or(Emitter& emitter, DType, const Operands& in) {
  return exact(DType::bool_, truth(emitter, in[0]) | truth(emitter, in[1]));
}
Value lower_logical_xor(Emitter& emitter, DType, const Operands& in) {
  return exact(DType::bool_, truth(emitter, in[0]) ^ truth(emitter, in[1]));
}
Value lower_logical_not(Emitter& emitter, DType, const Operands& in) { return exact(DType::bool_, !truth(emitter, in[0])); }

Value lower_equal(Emitter&, DType, const Operands& in) { return exact(DType::bool_, same(in[0], in[1])); }
Value lower_not_equal(Emitter&, DType, const Operands& in) { return exact(DType::bool_, !same(in[0], in[1])); }
Value lower_less(Emitter&, DType, const Operands& in) { return exact(DType::bool_, less(in[0], in[1])); }
Value lower_less_equal(Emitter&, DType, const Operands& in) { return exact(DType::bool_, less_equal(in[0], in[1])); }
Value lower_greater(Emitter&, DType, const Operands& in) { return exact(DType::bool_, less(in[1], in[0])); }
Value lower_greater_equal(Emitter&, DType, const Operands& in) { return exact(DType::bool_, less_equal(in[1], in[0])); }

// Asks one question of a float or of both parts of a complex number; other types answer `otherwise`.
template <class Question>
Value ask(Emitter& emitter, const Value& a, bool all_parts, bool otherwise, Question question) {
  if (!is_float(component(a.dtype))) return exact(DType::bool_, emitter.integer("i1", otherwise ? -1 : 0));
  if (!is_complex(a.dtype)) return exact(DType::bool_, question(a.real));
  const Term real = question(a.real);
  const Term imag = question(a.imag);
  return exact(DType::bool_, all_parts ? real & imag : real | imag);
}

Value lower_isnan(Emitter& emitter, DType, const Operands& in) { return ask(emitter, in[0], false, false, is_nan); }
Value lower_isinf(Emitter& emitter, DType, const Operands& in) {
  return ask(emitter, in[0], false, false, [](const Term& x) { return compare("eq", magnitude_bits(x), infinity_bits(x)); });
}
Value lower_isfinite(Emitter& emitter, DType, const Operands& in) {
  return ask(emitter, in[0], true, true, [](const Term& x) { return compare("ult", magnitude_bits(x), infinity_bits(x)); });
}
Value lower_signbit(Emitter&, DType, const Operands& in) { return exact(DType::bool_, sign_bit(in[0].real)); }

Value lower_select(Emitter&, DType, const Operands& in) { return choose(in[0].real, in[1], in[2]); }

Value lower_real(Emitter&, DType result, const Operands& in) { return exact(result, in[0].real); }
Value lower_imag(Emitter& emitter, DType result, const Operands& in) {
  return exact(result, is_complex(in[0].dtype) ? in[0].imag : hidden(zero(emitter, result)));
}
Value lower_conjugate(Emitter&, DType result, const Operands& in) {
  return is_complex(result) ? make(result, in[0].real, -in[0].imag) : in[0];
}

constexpr Lowering kLowerings[] = {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) lower_##name,
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
};

}  // namespace

Value lower(Emitter& emitter, ScalarOp op, DType result, const Operands& operands) {
  try {
    return kLowerings[static_cast<int>(op)](emitter, result, operands);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string(name(op)) + ": " + error.what());
  }
}

}  // namespace evalframe::native
