// Elementary functions as branch-free IR. Special cases are told by integer comparisons, which raise no flag on NaN.
#include "backends/native/vector_math.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace evalframe::native::math {
namespace {

constexpr int64_t kInfinity = 0x7ff0000000000000;

Term constant(const Term& like, double value) { return like.emitter->number(like.type, value); }

// c[0] + c[1] x + c[2] x^2 + ..., in Estrin's order: short chains for the vector units.
Term estrin(const Term& x, std::vector<Term> level) {
  Term power = x;
  while (level.size() > 1) {
    std::vector<Term> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(i + 1 < level.size() ? fma(level[i + 1], power, level[i]) : level[i]);
    }
    level = std::move(next);
    if (level.size() > 1) power = power * power;
  }
  return level[0];
}

Term polynomial(const Term& x, std::initializer_list<double> coefficients) {
  std::vector<Term> terms;
  for (double c : coefficients) terms.push_back(constant(x, c));
  return estrin(x, std::move(terms));
}

Term magnitude_bits(const Term& x) { return as_bits(x) & x.emitter->integer("i64", INT64_MAX); }

Term bits_above(const Term& bits, double limit) { return compare("ugt", bits, __builtin_bit_cast(int64_t, limit)); }

// 2^n for an integer held as i64, -1022 <= n <= 1023.
Term power_of_two(const Term& n) { return as_float((n + 1023) << 52); }

struct Reduced {
  Term n;         // integer, i64
  Term rest;      // x - n ln 2, |rest| <= ln 2 / 2
  Term lost;      // what rest lost in rounding
};

constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the rounded integer in the low bits

Reduced reduce_by_ln2(const Term& x) {
  const Term shifted = fma(x, constant(x, 1.4426950408889634), constant(x, kRound));
  const Term count = shifted - kRound;
  const Term n = as_bits(shifted) - as_bits(constant(x, kRound));
  const Term high = fma(-count, constant(x, 0x1.62e42fefa38p-1), x);
  const Term low = constant(x, 0x1.ef35793c7673p-45);
  const Term rest = fma(-count, low, high);
  return {n, rest, fma(-count, low, high - rest)};
}

// e^r - 1 - r for |r| <= ln 2 / 2, as r^2 times a polynomial.
Term exp_tail(const Term& r) {
  const Term p = polynomial(r, {0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
                                1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800});
  return r * r * p;
}

bool vector_form(const Term& x) { return x.emitter->vector_math(); }
Term library(const char* function, const Term& x) { return call(std::string("evalframe_") + function, "double", {x}); }
Term library(const char* function, const Term& x, const Term& y) {
  return call(std::string("evalframe_") + function, "double", {x, y});
}

Term sign_bits(const Term& x) { return as_bits(x) & x.emitter->integer("i64", INT64_MIN); }
Term is_negative(const Term& x) { return compare("slt", as_bits(x), 0); }
Term magnitude(const Term& x) { return as_float(magnitude_bits(x)); }
// min(|x|, limit), NaN -> limit: an integer minimum, which LLVM doesn't move arithmetic across (a select it would, and raise flags).
Term magnitude_up_to(const Term& x, double limit) {
  return as_float(intrinsic("umin", {magnitude_bits(x), as_bits(constant(x, limit))}));
}
Term with_sign_of(const Term& value, const Term& x) { return as_float(magnitude_bits(value) | sign_bits(x)); }

// 2^n e^r from value = e^r; `extreme` arguments, whose n doesn't fit, become 0 or infinity.
Term scale_exp(const Term& x, const Term& value, const Term& n, const Term& extreme) {
  const Term half = n >> 1;
  const Term scaled = (value * power_of_two(half)) * power_of_two(n - half);
  const Term size = magnitude_bits(x);
  const Term negative = is_negative(x);
  const Term finite = compare("ult", size, kInfinity);
  x.emitter->report(Condition::kOverflow, extreme & finite & !negative);
  x.emitter->report(Condition::kUnderflow, extreme & finite & negative);
  const Term infinite = select(negative, constant(x, 0.0), constant(x, __builtin_inf()));
  const Term nan = compare("ugt", size, kInfinity);
  return select(nan, x, select(extreme, infinite, scaled));
}

// (e^x - 1) / 4 and e^x / 4 for -40 <= x <= 710.6: the quarter keeps all powers of two in range.
struct Quarters {
  Term minus_one, full;
};
Quarters exp_quarters(const Term& x) {
  const Reduced reduced = reduce_by_ln2(x);
  const Term grown = (exp_tail(reduced.rest) + reduced.lost) + reduced.rest;
  const Term scale = power_of_two(reduced.n - 2);
  return {fma(scale, grown, scale - 0.25), fma(scale, grown, scale)};
}

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt 2]; ln(1 + f) = f - (half_square - tail).
struct Logarithm {
  Term k, f, half_square, tail;
};

// For positive finite x.
Logarithm logarithm(const Term& x) {
  Emitter& emitter = *x.emitter;
  const Term tiny = compare("ult", as_bits(x), 0x0010000000000000);
  const Term scaled = as_bits(x * select(tiny, constant(x, 0x1p54), constant(x, 1.0)));
  const Term offset = scaled - emitter.integer("i64", 0x3fe6a09e667f3bcd);
  const Term exponent_bits = offset & emitter.integer("i64", static_cast<int64_t>(0xfff0000000000000));
  const Term mantissa = as_float(scaled - exponent_bits);
  const Term exponent = (offset >> 52) - select(tiny, emitter.integer("i64", 54), emitter.integer("i64", 0));
  const Term k = as_float(exponent + as_bits(constant(x, kRound))) - kRound;
  const Term f = mantissa - 1.0;
  const Term s = f / (f + 2.0);
  const Term z = s * s;
  const Term r = z * polynomial(z, {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                    1.479819860511658591e-01});
  const Term half_square = (f * 0.5) * f;
  return {k, f, half_square, s * (half_square + r)};
}

// Applies `finish` to the logarithm of x, and gives zero, negative, infinite and NaN arguments what they need.
template <class Finish>
Term any_logarithm(const Term& x, Finish finish) {
  Emitter& emitter = *x.emitter;
  const Term size = magnitude_bits(x);
  const Term zero = compare("eq", size, 0);
  const Term negative = is_negative(x);
  const Term nan = compare("ugt", size, kInfinity);
  const Term odd = compare("uge", as_bits(x) - emitter.integer("i64", 1), kInfinity - 1);  // zero, negative, infinite or NaN
  emitter.report(Condition::kDivide, zero);
  emitter.report(Condition::kInvalid, negative & !(zero | nan));
  const Term value = finish(logarithm(select(odd, constant(x, 1.0), x)));
  const Term special = select(zero, constant(x, -__builtin_inf()), select(negative, constant(x, __builtin_nan("")), x));
  return select(odd, select(nan, x, special), value);
}

constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;

// ln(1 + f) as a sum of two: the high part has its low 32 bits clear, so that products with short constants are exact.
struct Split {
  Term high, low;
};
Split split_log(const Logarithm& l) {
  const Term high = as_float(as_bits(l.f - l.half_square) & l.f.emitter->integer("i64", static_cast<int64_t>(0xffffffff00000000)));
  return {high, ((l.f - high) - l.half_square) + l.tail};
}

// x = q pi/2 + (high + low), |high| <= pi/4; `quadrant` is q as an integer.
struct Angle {
  Term quadrant, high, low;
};

Angle reduce_by_half_pi(const Term& x) {
  const Term size = magnitude_bits(x);
  const Term large = bits_above(size, 500000.0);
  x.emitter->report(Condition::kInvalid, compare("eq", size, kInfinity));
  x.emitter->report(Condition::kRetry, large & compare("ult", size, kInfinity));
  const Term bounded = select(large, constant(x, 0.0), x);
  const Term shifted = fma(bounded, constant(x, 0.63661977236758134), constant(x, kRound));
  const Term q = shifted - kRound;
  // Two constants of 33 bits, so that their products with q are exact, then the tail.
  const Term first = fma(-q, constant(x, 1.57079632673412561417e+00), bounded);
  const Term second = q * 6.07710050630396597660e-11;
  const Term rest = first - second;
  const Term lost = (first - rest) - second;
  const Term low = fma(q, constant(x, 2.02226624879595063154e-21), -lost);
  const Term high = rest - low;
  return {as_bits(shifted) - as_bits(constant(x, kRound)), high, (rest - high) - low};
}

struct SineCosine {
  Term sine, cosine;
};
SineCosine sine_cosine(const Angle& angle) {
  const Term& r = angle.high;
  const Term z = r * r;
  const Term s = polynomial(z, {-0.16666666666666666, 0.008333333333333331, -0.0001984126984126504, 2.755731921932058e-06,
                                -2.5052106225994385e-08, 1.6058530596643994e-10, -7.586636882727422e-13});
  const Term c = polynomial(z, {0.041666666666666664, -0.0013888888888888887, 2.4801587301584632e-05, -2.755731922139246e-07,
                                2.0876755787484188e-09, -1.1470460318119097e-11, 4.74583835819591e-14});
  const Term half = z * 0.5;
  const Term near_one = 1.0 - half;
  const Term sine = r + fma(r * z, s, angle.low * near_one);
  const Term cosine = near_one + (((1.0 - near_one) - half) + fma(z * z, c, -(r * angle.low)));
  return {sine, cosine};
}

// sin(x + shift pi/2)
Term shifted_sine(const Term& x, int shift) {
  Emitter& emitter = *x.emitter;
  const Angle angle = reduce_by_half_pi(x);
  const SineCosine both = sine_cosine(angle);
  const Term quadrant = angle.quadrant + emitter.integer("i64", shift);
  const Term odd = compare("ne", quadrant & emitter.integer("i64", 1), 0);
  const Term flip = (quadrant & emitter.integer("i64", 2)) << 62;
  const Term value = as_float(as_bits(select(odd, both.cosine, both.sine)) ^ flip);
  const Term finite = compare("ult", magnitude_bits(x), kInfinity);
  return select(finite, value, select(compare("eq", magnitude_bits(x), kInfinity), constant(x, __builtin_nan("")), x));
}

Term keep_zero(const Term& x, const Term& value) { return select(compare("eq", magnitude_bits(x), 0), x, value); }

// (arctan t - t) for |t| <= tan(pi/8)
Term arctan_tail(const Term& t) {
  const Term z = t * t;
  const Term p = polynomial(z, {-0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106704,
                                -0.09090908751076597, 0.07692296304973549, -0.0666642362805528, 0.058789145442614446,
                                -0.052303478721123314, 0.045511081226396584, -0.03455809246572812, 0.016271944664995413});
  return (t * z) * p;
}

// (arcsin s - s) for s^2 = z <= 1/4
Term arcsin_tail(const Term& s, const Term& z) {
  const Term p = polynomial(z, {0.16666666666666669, 0.07499999999998425, 0.04464285714637338, 0.030381944137085167,
                                0.022372173002007063, 0.017352391265880077, 0.013971235301502854, 0.011478952686959197,
                                0.010324318308209832, 0.005450878110995214, 0.01741935815831295, -0.014881409674851229,
                                0.02877844279349127});
  return (s * z) * p;
}

constexpr double kHalfPi = 1.5707963267948966;
constexpr double kHalfPiLow = 6.123233995736766e-17;
constexpr double kQuarterPi = 0.78539816339744828;
constexpr double kQuarterPiLow = 3.061616997868383e-17;

// What arcsin and arccos share: s + tail = arcsin |x|, or where `large` (|x| >= 1/2) arcsin sqrt((1 - |x|) / 2).
struct ArcSine {
  Term large, s, tail;
};
ArcSine arcsine(const Term& x) {
  const Term a = magnitude_up_to(x, 1.0);
  const Term large = compare("uge", as_bits(a), __builtin_bit_cast(int64_t, 0.5));
  const Term z = select(large, (1.0 - a) * 0.5, a * a);
  const Term s = select(large, intrinsic("sqrt", {z}), a);
  return {large, s, arcsin_tail(s, z)};
}

// `value` for |x| <= 1; NaN stays, anything else is invalid.
Term within_one(const Term& x, const Term& value) {
  const Term size = magnitude_bits(x);
  const Term outside = bits_above(size, 1.0);
  const Term nan = compare("ugt", size, kInfinity);
  x.emitter->report(Condition::kInvalid, outside & !nan);
  return select(nan, x, select(outside, constant(x, __builtin_nan("")), value));
}

}  // namespace

Term exp(const Term& x) {
  if (!vector_form(x)) return library("exp", x);
  const Term extreme = bits_above(magnitude_bits(x), 746.0);
  const Reduced reduced = reduce_by_ln2(select(extreme, constant(x, 0.0), x));
  return scale_exp(x, (exp_tail(reduced.rest) + reduced.rest) + 1.0, reduced.n, extreme);
}

Term exp2(const Term& x) {
  if (!vector_form(x)) return library("exp2", x);
  const Term extreme = bits_above(magnitude_bits(x), 1076.0);
  const Term bounded = select(extreme, constant(x, 0.0), x);
  const Term shifted = bounded + kRound;
  const Term fraction = bounded - (shifted - kRound);
  const Term r = fma(fraction, constant(x, 0.69314718055994529), fraction * 2.3190468138462996e-17);
  return scale_exp(x, (exp_tail(r) + r) + 1.0, as_bits(shifted) - as_bits(constant(x, kRound)), extreme);
}

Term expm1(const Term& x) {
  if (!vector_form(x)) return library("expm1", x);
  const Term size = magnitude_bits(x);
  const Term negative = is_negative(x);
  const Term special = compare("uge", size, kInfinity);
  Term bounded = select(special, constant(x, 0.0), x);
  bounded = select(negative & bits_above(size, 40.0), constant(x, -40.0), bounded);
  bounded = select(compare("sgt", as_bits(bounded), __builtin_bit_cast(int64_t, 710.6)), constant(x, 710.6), bounded);
  const Term value = with_sign_of(exp_quarters(bounded).minus_one * 4.0, x);
  const Term minus_one = compare("eq", as_bits(x), __builtin_bit_cast(int64_t, -__builtin_inf()));
  return select(special, select(minus_one, constant(x, -1.0), x), value);
}

Term log(const Term& x) {
  if (!vector_form(x)) return library("log", x);
  return any_logarithm(x, [](const Logarithm& l) {
    const Term low = fma(l.k, constant(l.k, kLn2Low), l.tail);
    return fma(l.k, constant(l.k, kLn2High), l.f - (l.half_square - low));
  });
}

Term log2(const Term& x) {
  if (!vector_form(x)) return library("log2", x);
  return any_logarithm(x, [](const Logarithm& l) {
    const Split s = split_log(l);
    const Term high = s.high * 1.44269504072144627571e+00;
    const Term low = (s.low + s.high) * 1.67517131648865118353e-10 + s.low * 1.44269504072144627571e+00;
    const Term sum = l.k + high;
    return (low + ((l.k - sum) + high)) + sum;
  });
}

Term log10(const Term& x) {
  if (!vector_form(x)) return library("log10", x);
  return any_logarithm(x, [](const Logarithm& l) {
    const Split s = split_log(l);
    const Term high = s.high * 4.34294481878168880939e-01;
    const Term exponent = l.k * 3.01029995663611771306e-01;
    const Term low = (l.k * 3.69423907715893078616e-13 + (s.low + s.high) * 2.50829467116452752298e-11) + s.low * 4.34294481878168880939e-01;
    const Term sum = exponent + high;
    return (low + ((exponent - sum) + high)) + sum;
  });
}

Term log1p(const Term& x) {
  if (!vector_form(x)) return library("log1p", x);
  Emitter& emitter = *x.emitter;
  const Term size = magnitude_bits(x);
  const Term nan = compare("ugt", size, kInfinity);
  const Term minus_one = compare("eq", as_bits(x), __builtin_bit_cast(int64_t, -1.0));
  const Term below = is_negative(x) & bits_above(size, 1.0) & !nan;
  emitter.report(Condition::kDivide, minus_one);
  emitter.report(Condition::kInvalid, below);
  const Term odd = minus_one | below | compare("uge", size, kInfinity);
  const Term bounded = select(odd, constant(x, 0.0), x);
  const Term u = bounded + 1.0;
  const Logarithm l = logarithm(u);
  // What 1 + x lost in rounding.
  const Term large = compare("uge", as_bits(u), __builtin_bit_cast(int64_t, 2.0));
  const Term lost = select(large, 1.0 - (u - bounded), bounded - (u - 1.0)) / u;
  const Term low = l.tail + fma(l.k, constant(x, kLn2Low), lost);
  const Term value = with_sign_of(fma(l.k, constant(x, kLn2High), l.f - (l.half_square - low)), x);
  const Term special = select(minus_one, constant(x, -__builtin_inf()), select(below, constant(x, __builtin_nan("")), x));
  return select(odd, special, value);
}

Term sin(const Term& x) { return vector_form(x) ? keep_zero(x, shifted_sine(x, 0)) : library("sin", x); }
Term cos(const Term& x) { return vector_form(x) ? shifted_sine(x, 1) : library("cos", x); }

Term tan(const Term& x) {
  if (!vector_form(x)) return library("tan", x);
  Emitter& emitter = *x.emitter;
  const Angle angle = reduce_by_half_pi(x);
  const SineCosine both = sine_cosine(angle);
  const Term odd = compare("ne", angle.quadrant & emitter.integer("i64", 1), 0);
  const Term value = select(odd, -both.cosine, both.sine) / select(odd, both.sine, both.cosine);
  const Term special = select(compare("eq", magnitude_bits(x), kInfinity), constant(x, __builtin_nan("")), x);
  return keep_zero(x, select(compare("ult", magnitude_bits(x), kInfinity), value, special));
}

Term arcsin(const Term& x) {
  if (!vector_form(x)) return library("arcsin", x);
  const ArcSine a = arcsine(x);
  const Term twice = a.s * 2.0;
  const Term high = kHalfPi - twice;
  const Term lost = (kHalfPi - high) - twice;
  const Term far = high - (a.tail * 2.0 - (lost + kHalfPiLow));
  return within_one(x, with_sign_of(select(a.large, far, a.s + a.tail), x));
}

Term arccos(const Term& x) {
  if (!vector_form(x)) return library("arccos", x);
  const ArcSine a = arcsine(x);
  const Term twice = (a.s + a.tail) * 2.0;
  const Term flipped = 2 * kHalfPi - (twice - 2 * kHalfPiLow);
  const Term centre = kHalfPi - (with_sign_of(a.s, x) - (kHalfPiLow - with_sign_of(a.tail, x)));
  return within_one(x, select(a.large, select(is_negative(x), flipped, twice), centre));
}

Term arctan(const Term& x) {
  if (!vector_form(x)) return library("arctan", x);
  const Term a = magnitude(x);
  const Term steep = bits_above(as_bits(a), 2.414213562373095);
  const Term middle = bits_above(as_bits(a), 0.41421356237309503);
  const Term numerator = select(steep, constant(x, -1.0), select(middle, a - 1.0, a));
  const Term denominator = select(steep, a, select(middle, a + 1.0, constant(x, 1.0)));
  const Term t = numerator / denominator;
  const Term high = select(steep, constant(x, kHalfPi), select(middle, constant(x, kQuarterPi), constant(x, 0.0)));
  const Term low = select(steep, constant(x, kHalfPiLow), select(middle, constant(x, kQuarterPiLow), constant(x, 0.0)));
  return with_sign_of(high + (t + (arctan_tail(t) + low)), x);
}

Term sinh(const Term& x) {
  if (!vector_form(x)) return library("sinh", x);
  const Term size = magnitude_bits(x);
  const Term special = compare("uge", size, kInfinity);
  Term a = select(special, constant(x, 0.0), magnitude(x));
  a = select(bits_above(as_bits(a), 710.6), constant(x, 710.6), a);
  const Term half = exp_quarters(a).minus_one * 2.0;
  const Term grown = select(bits_above(as_bits(a), 40.0), constant(x, 1e300), half) * 2.0;
  const Term value = half + (grown / (grown + 1.0)) * 0.5;
  return select(special, x, with_sign_of(value, x));
}

Term cosh(const Term& x) {
  if (!vector_form(x)) return library("cosh", x);
  const Term special = compare("uge", magnitude_bits(x), kInfinity);
  Term a = select(special, constant(x, 0.0), magnitude(x));
  a = select(bits_above(as_bits(a), 710.6), constant(x, 710.6), a);
  const Term half = exp_quarters(a).full * 2.0;
  return select(special, magnitude(x), half + 0.25 / half);
}

Term tanh(const Term& x) {
  if (!vector_form(x)) return library("tanh", x);
  const Term size = magnitude_bits(x);
  const Term nan = compare("ugt", size, kInfinity);
  const Term a = magnitude_up_to(x, 22.0);
  const Term grown = exp_quarters(a * 2.0).minus_one * 4.0;
  const Term large = bits_above(size, 0.55);
  const Term numerator = select(large, constant(x, 2.0), grown);
  const Term denominator = grown + 2.0;
  const Term lost = (2.0 - denominator) + grown;
  const Term inverse = 1.0 / denominator;
  const Term first = numerator * inverse;
  const Term rest = fma(-first, denominator, numerator) - first * lost;
  const Term quotient = fma(rest, inverse, first);
  return select(nan, x, with_sign_of(select(large, 1.0 - quotient, quotient), x));
}

Term hypot(const Term& x, const Term& y) {
  if (!vector_form(x)) return library("hypot", x, y);
  const Term x_bits = magnitude_bits(x);
  const Term y_bits = magnitude_bits(y);
  const Term y_larger = compare("ugt", y_bits, x_bits);
  const Term infinite = compare("eq", x_bits, kInfinity) | compare("eq", y_bits, kInfinity);
  const Term high = as_float(select(y_larger, y_bits, x_bits));
  const Term low = as_float(select(y_larger, x_bits, y_bits));
  const Term one = constant(x, 1.0);
  const Term huge = bits_above(as_bits(high), 0x1p500);
  const Term tiny = compare("ult", as_bits(high), __builtin_bit_cast(int64_t, 0x1p-400));
  const Term down = select(huge, constant(x, 0x1p-600), select(tiny, constant(x, 0x1p600), one));
  const Term up = select(huge, constant(x, 0x1p600), select(tiny, constant(x, 0x1p-600), one));
  const Term a = select(infinite, one, high) * down;
  const Term b = select(infinite, one, low) * down;
  const Term value = intrinsic("sqrt", {fma(a, a, b * b)}) * select(infinite, one, up);
  return select(infinite, constant(x, __builtin_inf()), value);
}

Term arctan2(const Term& y, const Term& x) {
  if (!vector_form(x)) return library("arctan2", y, x);
  const Term nan = compare("uno", x, y);
  const Term one = constant(x, 1.0);
  const Term zero = constant(x, 0.0);
  const Term x_bits = magnitude_bits(x);
  const Term y_bits = magnitude_bits(y);
  const Term steep = compare("ugt", y_bits, x_bits);
  const Term high_bits = select(steep, y_bits, x_bits);
  const Term low_bits = select(steep, x_bits, y_bits);
  const Term infinite = compare("uge", high_bits, kInfinity);
  const Term no_high = compare("eq", high_bits, 0);
  // Infinite: 1 against 0, or against 1 where both are; NaN takes the same way and is put in at the end.
  const Term both_infinite = compare("uge", low_bits, kInfinity);
  const Term low_raw = select(infinite, select(both_infinite, one, zero), as_float(low_bits));
  const Term high_raw = select(infinite | no_high, one, as_float(high_bits));
  const Term huge = bits_above(as_bits(high_raw), 0x1p1000);
  const Term tiny = compare("ult", as_bits(high_raw), __builtin_bit_cast(int64_t, 0x1p-900));
  const Term scale = select(huge, constant(x, 0x1p-100), select(tiny, constant(x, 0x1p100), one));
  const Term high = high_raw * scale;
  const Term low = low_raw * scale;
  const Term middle = compare("ogt", low, high * 0.41421356237309503);
  const Term t = select(middle, low - high, low) / select(middle, low + high, high);
  const Term arc = t + arctan_tail(t);
  // The angle is `turns` quarters of pi plus or minus the arc.
  const Term quarter = select(middle, one, zero);
  const Term upright = select(steep, 2.0 - quarter, quarter);
  const Term left = is_negative(x);
  const Term turns = select(left, 4.0 - upright, upright);
  const Term backward = steep ^ left;
  const Term base = turns * kQuarterPi;
  const Term rest = fma(turns, constant(x, kQuarterPi), -base) + turns * kQuarterPiLow;
  const Term signed_arc = as_float(as_bits(arc) ^ select(backward, x.emitter->integer("i64", INT64_MIN), x.emitter->integer("i64", 0)));
  return select(nan, select(compare("uno", x, x), x, y), with_sign_of(base + (signed_arc + rest), y));
}

Term cbrt(const Term& x) {
  if (!vector_form(x)) return library("cbrt", x);
  Emitter& emitter = *x.emitter;
  const Term size = magnitude_bits(x);
  const Term odd = compare("uge", size - emitter.integer("i64", 1), kInfinity - 1);  // zero, infinite or NaN
  const Term bounded = select(odd, constant(x, 1.0), magnitude(x));
  const Term tiny = compare("ult", as_bits(bounded), 0x0010000000000000);
  const Term a = bounded * select(tiny, constant(x, 0x1p54), constant(x, 1.0));
  // A third of the exponent, to 5 bits; then a polynomial to 23 bits; then one step of Halley's method.
  const Term third = ((as_bits(a) >> 32) * emitter.integer("i64", 0x55555556)) >> 32;
  const Term offset = select(tiny, emitter.integer("i64", 696219795), emitter.integer("i64", 715094163));
  const Term rough = as_float((third + offset) << 32);
  const Term r = (rough * rough) * (rough / bounded);
  const Term p = polynomial(r, {1.87595182427177009643, -1.88497979543377169875, 1.621429720105354466140, -0.758397934778766047437,
                                0.145996192886612446982});
  const Term better = rough * p;
  const Term rounded = as_float((as_bits(better) + emitter.integer("i64", 0x80000000)) &
                                emitter.integer("i64", static_cast<int64_t>(0xffffffffc0000000)));
  const Term quotient = bounded / (rounded * rounded);
  const Term step = (quotient - rounded) / ((rounded + rounded) + quotient);
  return select(odd, x, with_sign_of(fma(rounded, step, rounded), x));
}

// erf around one centre: coefficients of (|x| - centre)^k.
struct ErfPiece {
  double centre;
  double coefficients[18];
};
constexpr ErfPiece kErf[] = {
    {1.375,
     {0.9481700727820903, 0.1703597736875156, -0.23424468882033045, 0.1579377068561338, -0.03050061052385496,
      -0.030605976268880012, 0.022161235278228608, -0.0014190623625447724, -0.004261033758185252,
      0.0015779112716351774, 0.0003235951401667316, -0.00033910197552248546, 2.8656705214673626e-05,
      4.175781931892965e-05, -1.188410913405148e-05, -2.9850675512576684e-06, 1.692277389359902e-06,
      4.673545347264434e-08}},
    {2.375,
     {0.9992170617821089, 0.004006477861670219, -0.009515384921466282, 0.013730533505099006, -0.0131332135635351,
      0.008357392833776414, -0.0031140790409943625, 0.00012326962848155737, 0.0005941112658710861,
      -0.0003375278435923098, 5.470645115114615e-05, 3.160883465500354e-05, -2.0804117059593314e-05,
      3.1424077763315617e-06, 1.6907814494771403e-06, -9.194407016117871e-07, 4.6811732070266673e-08,
      7.867489202035099e-08}},
    {3.5,
     {0.9999992569016276, 5.399426777384488e-06, -1.889799372050847e-05, 4.2295509756302843e-05,
      -6.771781085618942e-05, 8.211628223107355e-05, -7.774424577874856e-05, 5.819275083727131e-05,
      -3.425918354364055e-05, 1.533076540548207e-05, -4.640956869097461e-06, 4.4472472386212195e-07,
      4.435042447367003e-07, -3.017599768915504e-07, 9.302220999676697e-08, -5.507400779860935e-09,
      -9.295436301992035e-09, 3.742877785925716e-09}},
    {5.0625,
     {0.99999999999919, 8.355308230007382e-12, -4.229846194544996e-11, 1.3997325620391e-10, -3.4021631994640194e-10,
      6.469259476880399e-10, -1.0008655387098357e-09, 1.2938271500956878e-09, -1.4235919709209102e-09,
      1.3491189330109693e-09, -1.1110716965649428e-09, 8.043087362141027e-10, -5.137831535118564e-10,
      2.8265252614263926e-10, -1.3277458343284096e-10, 5.878635702847361e-11, -2.405240511943737e-11,
      5.516483641870126e-12}},
};
constexpr double kErfBorders[] = {1.875, 2.875, 4.125};

Term erf(const Term& x) {
  if (!vector_form(x)) return library("erf", x);
  const Term a = magnitude_up_to(x, 6.0);  // erf rounds to 1 from 5.93 on
  const Term bits = as_bits(a);
  const Term z = a * a;
  const Term near = fma(a, polynomial(z, {0.12837916709551256, -0.37612638903183754, 0.11283791670955125, -0.02686617064513079,
                                        0.005223977625435316, -0.0008548327022838275, 0.00012055332946381701,
                                        -1.4925648967632514e-05, 1.6462076234011593e-06, -1.6365106322983374e-07,
                                        1.4797118160993395e-08, -1.219544623522492e-09, 8.82670611925463e-11,
                                        -4.429077118429384e-12}), a);
  Term beyond[3];
  for (int i = 0; i < 3; ++i) beyond[i] = bits_above(bits, kErfBorders[i]);
  const auto chosen = [&](auto member) {
    Term value = constant(x, member(kErf[0]));
    for (int i = 0; i < 3; ++i) value = select(beyond[i], constant(x, member(kErf[i + 1])), value);
    return value;
  };
  const Term t = a - chosen([](const ErfPiece& piece) { return piece.centre; });
  // The first coefficient goes last, in one rounding: it is nearly all of the value.
  std::vector<Term> coefficients;
  for (int k = 1; k < 18; ++k) coefficients.push_back(chosen([k](const ErfPiece& piece) { return piece.coefficients[k]; }));
  const Term first = chosen([](const ErfPiece& piece) { return piece.coefficients[0]; });
  const Term far = fma(t, estrin(t, std::move(coefficients)), first);
  const Term value = select(bits_above(bits, 0.875), far, near);
  return select(compare("uno", x, x), x, with_sign_of(value, x));
}
Term power(const Term& x, const Term& y) { return library("pow", x, y); }

}  // namespace evalframe::native::math
