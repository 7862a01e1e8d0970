// Elementary functions on vectors, at most 2 ulp off. What is outside a function's ordinary range goes, lane by lane, to the C
// library's function, which also raises the flags that NumPy reports; the vector part raises none of them by mistake.
#pragma once

#include "backends/native/math/log_tables.h"
#include "backends/native/math/vector_coefficients.h"
#include "backends/native/math/vector_lanes.h"

namespace evalframe::native {
namespace {

template <class W> struct Functions {
  using Scalar = typename W::Scalar;
  using Bits = typename W::Bits;
  using Float = typename W::Float;
  using Int = typename W::Int;
  using C = Coefficients<W>;
  using Library1 = Scalar (*)(Scalar);
  using Library2 = Scalar (*)(Scalar, Scalar);

  // --- small parts ---
  static EVALFRAME_ALWAYS_INLINE Float all(Scalar value) { return Float{} + value; }
  static EVALFRAME_ALWAYS_INLINE Float number(double value) { return all(static_cast<Scalar>(value)); }
  static EVALFRAME_ALWAYS_INLINE Int whole(Bits value) { return Int{} + value; }
  static EVALFRAME_ALWAYS_INLINE Float fma(Float a, Float b, Float c) { return W::fma(a, b, c); }
  static EVALFRAME_ALWAYS_INLINE Int bits(Float x) { return reinterpret_cast<Int>(x); }
  static EVALFRAME_ALWAYS_INLINE Float from_bits(Int x) { return reinterpret_cast<Float>(x); }
  static constexpr Bits kMagnitude = static_cast<Bits>(~(Bits{1} << (sizeof(Bits) * 8 - 1)));
  static constexpr Bits bits_of(Scalar x) { return __builtin_bit_cast(Bits, x); }
  static EVALFRAME_ALWAYS_INLINE Int size_bits(Float x) { return bits(x) & kMagnitude; }
  static EVALFRAME_ALWAYS_INLINE Float magnitude(Float x) { return from_bits(size_bits(x)); }
  static EVALFRAME_ALWAYS_INLINE Float with_sign_of(Float value, Float x) { return from_bits(size_bits(value) | (bits(x) & ~kMagnitude)); }
  static EVALFRAME_ALWAYS_INLINE Int is_negative(Float x) { return bits(x) < 0; }
  static EVALFRAME_ALWAYS_INLINE Float choose(Int mask, Float yes, Float no) { return mask ? yes : no; }
  // min(|x|, limit), NaN -> limit; without an arithmetic comparison, which would raise "invalid" on NaN.
  static EVALFRAME_ALWAYS_INLINE Float size_up_to(Float x, Scalar limit) {
    const Int size = size_bits(x);
    const Int most = whole(bits_of(limit));
    return from_bits(size > most ? most : size);
  }
  static EVALFRAME_ALWAYS_INLINE Float power_of_two(Int n) { return from_bits((n + W::kBias) << W::kMantissaBits); }

  // c[0] + c[1] x + c[2] x^2 + ... in Estrin's order: short chains for the vector units. at(i) gives c[i].
  template <int kFirst, int kCount, class At>
  static EVALFRAME_ALWAYS_INLINE Float estrin(const Float* powers, At at) {
    if constexpr (kCount == 1) {
      return at(kFirst);
    } else {
      constexpr int kLow = kCount > 16 ? 16 : kCount > 8 ? 8 : kCount > 4 ? 4 : kCount > 2 ? 2 : 1;
      constexpr int kLevel = kLow == 16 ? 4 : kLow == 8 ? 3 : kLow == 4 ? 2 : kLow == 2 ? 1 : 0;
      return fma(estrin<kFirst + kLow, kCount - kLow>(powers, at), powers[kLevel], estrin<kFirst, kLow>(powers, at));
    }
  }
  template <int kCount, class At> static EVALFRAME_ALWAYS_INLINE Float estrin(Float x, At at) {
    const Float x2 = x * x;
    const Float x4 = x2 * x2;
    const Float x8 = x4 * x4;
    const Float powers[] = {x, x2, x4, x8, x8 * x8};
    return estrin<0, kCount>(powers, at);
  }
  template <int kCount> static EVALFRAME_ALWAYS_INLINE Float polynomial(Float x, const Scalar (&c)[kCount]) {
    return estrin<kCount>(x, [&c](int i) __attribute__((always_inline)) { return all(c[i]); });
  }

  template <class Exact> static __attribute__((noinline, cold)) Float patch(Float value, Float x, Int odd, Exact exact) {
    for (int i = 0; i < W::kLanes; ++i) {
      if (odd[i]) value[i] = x[i] != x[i] ? x[i] : exact(x[i]);
    }
    return value;
  }
  template <class Exact> static __attribute__((noinline, cold)) Float patch(Float value, Float x, Float y, Int odd, Exact exact) {
    for (int i = 0; i < W::kLanes; ++i) {
      if (odd[i]) value[i] = exact(x[i], y[i]);
    }
    return value;
  }
#define EVALFRAME_PATCH(value, x, odd, name) \
  (W::any(odd) ? patch(value, x, odd, [](Scalar v) -> Scalar { return sizeof(Scalar) == 4 ? __builtin_##name##f(static_cast<float>(v)) : __builtin_##name(v); }) : (value))

  // --- exponentials ---
  struct Reduced {
    Int n;       // x = n ln 2 + rest + lost
    Float rest;  // |rest| <= ln 2 / 2
    Float lost;
  };
  static EVALFRAME_ALWAYS_INLINE Reduced reduce_by_ln2(Float x) {
    const Float shifted = fma(x, number(1.4426950408889634), all(W::kRound));
    const Float count = shifted - W::kRound;
    const Float high = fma(-count, all(C::kReduceLn2High), x);
    const Float low = all(C::kReduceLn2Low);
    const Float rest = fma(-count, low, high);
    return {bits(shifted) - bits_of(W::kRound), rest, fma(-count, low, high - rest)};
  }
  // e^r - 1 - r for |r| <= ln 2 / 2
  static EVALFRAME_ALWAYS_INLINE Float exp_tail(Float r) { return (r * r) * polynomial(r, C::kExpTail); }
  static EVALFRAME_ALWAYS_INLINE Float scaled(Float near_one, Int n) { return from_bits(bits(near_one) + (n << W::kMantissaBits)); }
  static EVALFRAME_ALWAYS_INLINE Float bounded_exp(Float x) {
    const Reduced r = reduce_by_ln2(x);
    return scaled((exp_tail(r.rest) + r.rest) + 1, r.n);
  }
  // e^x - 1 for |x| <= kExpRange, as a sum of two
  struct Grown {
    Float value, low;
  };
  static EVALFRAME_ALWAYS_INLINE Grown bounded_expm1(Float x) {
    const Reduced r = reduce_by_ln2(x);
    const Float tail = exp_tail(r.rest) + r.lost;
    const Float grown = tail + r.rest;
    const Float scale = power_of_two(r.n);
    const Float less_one = scale - 1;
    const Float value = fma(scale, grown, less_one);
    return {value, fma(scale, grown, less_one - value) + scale * ((r.rest - grown) + tail)};
  }
  static EVALFRAME_ALWAYS_INLINE Int beyond(Float x, Scalar limit) { return size_bits(x) > bits_of(limit); }

  static EVALFRAME_ALWAYS_INLINE Float exp(Float x) {
    const Int odd = beyond(x, C::kExpRange);
    const Float value = bounded_exp(choose(odd, Float{}, x));
    return EVALFRAME_PATCH(value, x, odd, exp);
  }
  static EVALFRAME_ALWAYS_INLINE Float bounded_exp2(Float x) {
    const Float shifted = x + W::kRound;
    const Float fraction = x - (shifted - W::kRound);
    const Float r = fma(fraction, all(C::kLn2), fraction * C::kLn2Rest);
    return scaled((exp_tail(r) + r) + 1, bits(shifted) - bits_of(W::kRound));
  }
  static EVALFRAME_ALWAYS_INLINE Float exp2(Float x) {
    const Int odd = beyond(x, C::kExp2Range);
    const Float value = bounded_exp2(choose(odd, Float{}, x));
    return EVALFRAME_PATCH(value, x, odd, exp2);
  }
  static EVALFRAME_ALWAYS_INLINE Float expm1(Float x) {
    const Int odd = beyond(x, C::kExpRange);
    const Float value = with_sign_of(bounded_expm1(choose(odd, Float{}, x)).value, x);
    return EVALFRAME_PATCH(value, x, odd, expm1);
  }
  static EVALFRAME_ALWAYS_INLINE Float sinh(Float x) {
    const Int odd = beyond(x, C::kExpRange);
    const Grown grown = bounded_expm1(choose(odd, Float{}, magnitude(x)));
    const Float inverse = 1 / (grown.value + 1);
    const Float rest = fma(grown.value, inverse, grown.low * fma(inverse, inverse, all(1)));
    const Float value = with_sign_of((grown.value + rest) * static_cast<Scalar>(0.5), x);
    return EVALFRAME_PATCH(value, x, odd, sinh);
  }
  static EVALFRAME_ALWAYS_INLINE Float cosh(Float x) {
    const Int odd = beyond(x, C::kExpRange);
    const Float half = bounded_exp(choose(odd, Float{}, magnitude(x))) * static_cast<Scalar>(0.5);
    const Float value = half + static_cast<Scalar>(0.25) / half;
    return EVALFRAME_PATCH(value, x, odd, cosh);
  }
  static EVALFRAME_ALWAYS_INLINE Float tanh(Float x) {
    const Float a = size_up_to(x, C::kTanhOne);
    const Float grown = bounded_expm1(a + a).value;
    const Int large = beyond(x, static_cast<Scalar>(0.55));
    const Float numerator = choose(large, all(2), grown);
    const Float denominator = grown + 2;
    const Float lost = (2 - denominator) + grown;
    const Float inverse = 1 / denominator;
    const Float first = numerator * inverse;
    const Float rest = fma(-first, denominator, numerator) - first * lost;
    const Float quotient = fma(rest, inverse, first);
    return choose(size_bits(x) > W::kInfinity, x, with_sign_of(choose(large, 1 - quotient, quotient), x));
  }

  // --- logarithms ---
  // x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt 2]; ln(1 + f) = f - (half_square - tail).
  struct Logarithm {
    Float k, f, half_square, tail;
  };
  struct Mantissa {
    Float k, m;
  };
  static EVALFRAME_ALWAYS_INLINE Mantissa mantissa(Float x) {
    const Int offset = bits(x) - W::kRootHalf;
    const Int exponent_bits = offset & static_cast<Bits>(~Bits{0} << W::kMantissaBits);
    const Int exponent = offset >> W::kMantissaBits;
    return {from_bits(exponent + bits_of(W::kRound)) - W::kRound, from_bits(bits(x) - exponent_bits)};
  }
  // For positive normal finite x.
  static EVALFRAME_ALWAYS_INLINE Logarithm logarithm(Float x) {
    const Mantissa parts = mantissa(x);
    const Float f = parts.m - 1;
    const Float s = f / (f + 2);
    const Float z = s * s;
    const Float half_square = (f * static_cast<Scalar>(0.5)) * f;
    return {parts.k, f, half_square, s * fma(z, polynomial(z, C::kLog), half_square)};
  }
  // Zero, negative, subnormal, infinite, NaN.
  static EVALFRAME_ALWAYS_INLINE Int is_odd_for_log(Float x) {
    const Int b = bits(x);
    return (b < W::kSmallestNormal) | (b >= W::kInfinity);
  }
  static EVALFRAME_ALWAYS_INLINE Float natural(const Logarithm& l, Float lost) {
    const Float low = l.tail + fma(l.k, all(C::kLn2Low), lost);
    return fma(l.k, all(C::kLn2High), l.f - (l.half_square - low));
  }
#ifdef __AVX512F__
  // By tables in registers: a division takes longer than all of this.
  template <bool kNatural, int kTail> static EVALFRAME_ALWAYS_INLINE Float tabled(Float x, const LogTable<Scalar, kTail>& table) {
    constexpr int kIndexBits = 4;
    const Int index = (bits(x) - W::kRootHalf) >> (W::kMantissaBits - kIndexBits);
    const Mantissa parts = mantissa(x);
    const Float r = fma(parts.m, W::lookup(LogTables<W>::kInverse, index), all(-1));
    // Exact, and no smaller than what is added to it, or zero.
    const Float base = fma(parts.k, all(table.exponent[0]), W::lookup(table.high, index));
    const Float short_of = fma(parts.k, all(table.exponent[1]), W::lookup(table.low, index));
    const Float first = kNatural ? r : r * table.scale[0];
    const Float lost = kNatural ? short_of : short_of + fma(r, all(table.scale[1]), fma(r, all(table.scale[0]), -first));
    const Float sum = base + first;
    return sum + (((base - sum) + first) + fma(r * r, polynomial(r, table.tail), lost));
  }
#endif
  static EVALFRAME_ALWAYS_INLINE Float log(Float x) {
    const Int odd = is_odd_for_log(x);
#ifdef __AVX512F__
    const Float value = tabled<true>(choose(odd, all(1), x), LogTables<W>::kNatural);
#else
    const Float value = natural(logarithm(choose(odd, all(1), x)), Float{});
#endif
    return EVALFRAME_PATCH(value, x, odd, log);
  }
  static EVALFRAME_ALWAYS_INLINE Float log1p(Float x) {
    const Int odd = (bits(x) >= W::kInfinity) | (is_negative(x) & (size_bits(x) >= bits_of(1)));
    const Float bounded = choose(odd, Float{}, x);
    const Float u = bounded + 1;
    // What 1 + x lost in rounding.
    const Float lost = choose(bits(u) >= bits_of(2), 1 - (u - bounded), bounded - (u - 1)) / u;
    const Float value = with_sign_of(natural(logarithm(u), lost), x);
    return EVALFRAME_PATCH(value, x, odd, log1p);
  }
  // ln(1 + f) as a sum of two: the high part has its low bits clear, so that products with short constants are exact.
  struct Split {
    Float high, low;
  };
  static EVALFRAME_ALWAYS_INLINE Split split_log(const Logarithm& l) {
    const Float high = from_bits(bits(l.f - l.half_square) & W::kHighPart);
    return {high, ((l.f - high) - l.half_square) + l.tail};
  }
  static EVALFRAME_ALWAYS_INLINE Float log2(Float x) {
    const Int odd = is_odd_for_log(x);
#ifdef __AVX512F__
    const Float value = tabled<false>(choose(odd, all(1), x), LogTables<W>::kBinary);
#else
    const Logarithm l = logarithm(choose(odd, all(1), x));
    const Split s = split_log(l);
    const Float high = s.high * C::kLog2High;
    const Float low = fma(s.low + s.high, all(C::kLog2Low), s.low * C::kLog2High);
    const Float sum = l.k + high;
    const Float value = (low + ((l.k - sum) + high)) + sum;
#endif
    return EVALFRAME_PATCH(value, x, odd, log2);
  }
  static EVALFRAME_ALWAYS_INLINE Float log10(Float x) {
    const Int odd = is_odd_for_log(x);
#ifdef __AVX512F__
    const Float value = tabled<false>(choose(odd, all(1), x), LogTables<W>::kDecimal);
#else
    const Logarithm l = logarithm(choose(odd, all(1), x));
    const Split s = split_log(l);
    const Float high = s.high * C::kLog10High;
    const Float exponent = l.k * C::kLog10Of2High;
    const Float low = fma(s.low, all(C::kLog10High), fma(l.k, all(C::kLog10Of2Low), (s.low + s.high) * C::kLog10Low));
    const Float sum = exponent + high;
    const Float value = (low + ((exponent - sum) + high)) + sum;
#endif
    return EVALFRAME_PATCH(value, x, odd, log10);
  }

  // --- angles ---
  // x = q pi/2 + (high + low), |high| <= pi/4; `quadrant` is q as an integer.
  struct Angle {
    Int quadrant;
    Float high, low;
  };
  static EVALFRAME_ALWAYS_INLINE Angle reduce_by_half_pi(Float x) {
    const Float shifted = fma(x, number(0.63661977236758134), all(W::kRound));
    const Float q = shifted - W::kRound;
    // Exact: both sides are multiples of the constant's last place, and the difference is below 1.
    const Float first = fma(-q, all(C::kHalfPi), x);
    const Float second = q * C::kHalfPiLow;
    const Float rest = first - second;
    const Float second_low = fma(q, all(C::kHalfPiLow), -second);
    const Float low = fma(-q, all(C::kHalfPiRest), ((first - rest) - second) - second_low);
    const Float high = rest + low;
    return {bits(shifted) - bits_of(W::kRound), high, (rest - high) + low};
  }
  // Each as a sum of two.
  struct SineCosine {
    Float sine, sine_low, cosine, cosine_low;
  };
  static EVALFRAME_ALWAYS_INLINE SineCosine sine_cosine(const Angle& angle) {
    const Float r = angle.high;
    const Float z = r * r;
    const Float half = z * static_cast<Scalar>(0.5);
    const Float near_one = 1 - half;
    const Float sine_rest = fma(r * z, polynomial(z, C::kSine), angle.low * near_one);
    const Float cosine_rest = ((1 - near_one) - half) + fma(z * z, polynomial(z, C::kCosine), -(r * angle.low));
    const Float sine = r + sine_rest;
    const Float cosine = near_one + cosine_rest;
    return {sine, (r - sine) + sine_rest, cosine, (near_one - cosine) + cosine_rest};
  }
  // sin(x + shift pi/2)
  static EVALFRAME_ALWAYS_INLINE Float shifted_sine(Float x, Bits shift) {
    const Angle angle = reduce_by_half_pi(x);
    const SineCosine both = sine_cosine(angle);
    const Int quadrant = angle.quadrant + shift;
    const Int flip = (quadrant & 2) << (sizeof(Bits) * 8 - 2);
    return from_bits(bits(choose((quadrant & 1) != 0, both.cosine, both.sine)) ^ flip);
  }
  static EVALFRAME_ALWAYS_INLINE Float sin(Float x) {
    const Int odd = beyond(x, C::kAngles);
    const Float value = choose(size_bits(x) == 0, x, shifted_sine(choose(odd, Float{}, x), 0));
    return EVALFRAME_PATCH(value, x, odd, sin);
  }
  static EVALFRAME_ALWAYS_INLINE Float cos(Float x) {
    const Int odd = beyond(x, C::kAngles);
    const Float value = shifted_sine(choose(odd, Float{}, x), 1);
    return EVALFRAME_PATCH(value, x, odd, cos);
  }
  static EVALFRAME_ALWAYS_INLINE Float tan(Float x) {
    const Int odd = beyond(x, C::kAngles);
    const Angle angle = reduce_by_half_pi(choose(odd, Float{}, x));
    const SineCosine both = sine_cosine(angle);
    const Int flip = (angle.quadrant & 1) != 0;
    const Float above = choose(flip, -both.cosine, both.sine);
    const Float above_low = choose(flip, -both.cosine_low, both.sine_low);
    const Float below = choose(flip, both.sine, both.cosine);
    const Float below_low = choose(flip, both.sine_low, both.cosine_low);
    const Float inverse = 1 / below;
    const Float ratio = above * inverse;
    const Float rest = (fma(-ratio, below, above) + above_low) - ratio * below_low;
    const Float value = choose(size_bits(x) == 0, x, fma(rest, inverse, ratio));
    return EVALFRAME_PATCH(value, x, odd, tan);
  }

  // (arctan t - t) for |t| <= tan(pi/8)
  static EVALFRAME_ALWAYS_INLINE Float arctan_tail(Float t) {
    const Float z = t * t;
    return (t * z) * polynomial(z, C::kArctan);
  }
  static constexpr Scalar kQuarterPi = C::kHalfPi / 2, kQuarterPiLow = C::kHalfPiLow / 2;

  static EVALFRAME_ALWAYS_INLINE Float arctan(Float x) {
    const Float a = magnitude(x);
    const Int steep = beyond(x, static_cast<Scalar>(2.414213562373095));
    const Int middle = beyond(x, static_cast<Scalar>(0.41421356237309503));
    const Float numerator = choose(steep, all(-1), choose(middle, a - 1, a));
    const Float denominator = choose(steep, a, choose(middle, a + 1, all(1)));
    const Float t = numerator / denominator;
    const Float high = choose(steep, all(C::kHalfPi), choose(middle, all(kQuarterPi), Float{}));
    const Float low = choose(steep, all(C::kHalfPiLow), choose(middle, all(kQuarterPiLow), Float{}));
    return with_sign_of(high + (t + (arctan_tail(t) + low)), x);
  }
  static EVALFRAME_ALWAYS_INLINE Float arctan2(Float y, Float x) {
    const Int x_bits = size_bits(x);
    const Int y_bits = size_bits(y);
    const Int nan = (x_bits > W::kInfinity) | (y_bits > W::kInfinity);
    const Int steep = y_bits > x_bits;
    const Int high_bits = steep ? y_bits : x_bits;
    const Int low_bits = steep ? x_bits : y_bits;
    const Int infinite = high_bits >= W::kInfinity;
    // Infinite: 1 against 0, or against 1 where both are; NaN takes the same way and is put in at the end.
    const Float low_raw = choose(infinite, choose(low_bits >= W::kInfinity, all(1), Float{}), from_bits(low_bits));
    const Float high_raw = choose(infinite | (high_bits == 0), all(1), from_bits(high_bits));
    constexpr Scalar kNearMax = sizeof(Scalar) == 8 ? static_cast<Scalar>(0x1p1000) : static_cast<Scalar>(0x1p120);
    constexpr Scalar kNearMin = sizeof(Scalar) == 8 ? static_cast<Scalar>(0x1p-900) : static_cast<Scalar>(0x1p-90);
    constexpr Scalar kUp = static_cast<Scalar>(sizeof(Scalar) == 8 ? 0x1p100 : 0x1p30);
    const Int huge = bits(high_raw) > bits_of(kNearMax);
    const Int tiny = bits(high_raw) < bits_of(kNearMin);
    const Float scale = choose(huge, all(1 / kUp), choose(tiny, all(kUp), all(1)));
    const Float high = high_raw * scale;
    const Float low = low_raw * scale;
    const Int middle = low > high * static_cast<Scalar>(0.41421356237309503);
    const Float t = choose(middle, low - high, low) / choose(middle, low + high, high);
    const Float arc = t + arctan_tail(t);
    // The angle is `turns` quarters of pi plus or minus the arc.
    const Float quarter = choose(middle, all(1), Float{});
    const Float upright = choose(steep, 2 - quarter, quarter);
    const Int left = is_negative(x);
    const Float turns = choose(left, 4 - upright, upright);
    const Int backward = steep ^ left;
    const Float base = turns * kQuarterPi;
    const Float rest = fma(turns, all(kQuarterPi), -base) + turns * kQuarterPiLow;
    const Float signed_arc = from_bits(bits(arc) ^ (backward & ~kMagnitude));
    return choose(nan, choose(x_bits > W::kInfinity, x, y), with_sign_of(base + (signed_arc + rest), y));
  }

  // What arcsin and arccos share: s + tail = arcsin |x|, or where `large` (|x| >= 1/2) arcsin sqrt((1 - |x|) / 2).
  struct ArcSine {
    Int large;
    Float s, tail;
  };
  static EVALFRAME_ALWAYS_INLINE ArcSine arcsine(Float x) {
    const Float a = size_up_to(x, 1);
    const Int large = bits(a) >= bits_of(static_cast<Scalar>(0.5));
    const Float z = choose(large, (1 - a) * static_cast<Scalar>(0.5), a * a);
    const Float s = choose(large, W::sqrt(z), a);
    return {large, s, (s * z) * polynomial(z, C::kArcsin)};
  }
  static EVALFRAME_ALWAYS_INLINE Float arcsin(Float x) {
    const ArcSine a = arcsine(x);
    const Float twice = a.s + a.s;
    const Float high = C::kHalfPi - twice;
    const Float lost = (C::kHalfPi - high) - twice;
    const Float far = high - (a.tail + a.tail - (lost + C::kHalfPiLow));
    const Float value = with_sign_of(choose(a.large, far, a.s + a.tail), x);
    const Int odd = beyond(x, 1);
    return EVALFRAME_PATCH(value, x, odd, asin);
  }
  static EVALFRAME_ALWAYS_INLINE Float arccos(Float x) {
    const ArcSine a = arcsine(x);
    const Float twice = (a.s + a.tail) * 2;
    const Float flipped = 2 * C::kHalfPi - (twice - 2 * C::kHalfPiLow);
    const Float centre = C::kHalfPi - (with_sign_of(a.s, x) - (C::kHalfPiLow - from_bits(bits(a.tail) ^ (bits(x) & ~kMagnitude))));
    const Float value = choose(a.large, choose(is_negative(x), flipped, twice), centre);
    const Int odd = beyond(x, 1);
    return EVALFRAME_PATCH(value, x, odd, acos);
  }

  // --- others ---
  static EVALFRAME_ALWAYS_INLINE Float hypot(Float x, Float y) {
    const Int x_bits = size_bits(x);
    const Int y_bits = size_bits(y);
    const Int y_larger = y_bits > x_bits;
    const Int infinite = (x_bits == W::kInfinity) | (y_bits == W::kInfinity);
    const Int high_bits = y_larger ? y_bits : x_bits;
    const Float high = choose(infinite, all(1), from_bits(high_bits));
    const Float low = choose(infinite, all(1), from_bits(y_larger ? x_bits : y_bits));
    const Int huge = bits(high) > bits_of(C::kHuge);
    const Int tiny = bits(high) < bits_of(C::kTiny);
    const Float down = choose(huge, all(1 / C::kScale), choose(tiny, all(C::kScale), all(1)));
    const Float up = choose(huge, all(C::kScale), choose(tiny, all(1 / C::kScale), all(1)));
    const Float a = high * down;
    const Float b = low * down;
    return choose(infinite, from_bits(whole(W::kInfinity)), W::sqrt(fma(a, a, b * b)) * up);
  }

  // About the cube root: a third of the exponent, to 5 bits.
  static EVALFRAME_ALWAYS_INLINE Float rough_cbrt(Float a) {
    if constexpr (sizeof(Scalar) == 8) {
      return from_bits(((((bits(a) >> 32) * 0x55555556) >> 32) + 715094163) << 32);
    } else {
      const Float third = __builtin_convertvector(bits(a), Float) * static_cast<Scalar>(1.0 / 3);
      return from_bits(__builtin_convertvector(third, Int) + 709958130);
    }
  }
  // From t, right to 23 bits: for double one step of Halley's method, for float of Newton's, whose residual has twice the precision.
  static EVALFRAME_ALWAYS_INLINE Float better_cbrt(Float t, Float a) {
    if constexpr (sizeof(Scalar) == 8) {
      const Float rounded = from_bits((bits(t) + Bits{0x80000000}) & static_cast<Bits>(0xffffffffc0000000));
      const Float quotient = a / (rounded * rounded);
      return fma(rounded, (quotient - rounded) / ((rounded + rounded) + quotient), rounded);
    } else {
      const Float square = t * t;
      const Float residual = fma(-square, t, a) - fma(t, t, -square) * t;
      return t + residual / (square * 3);
    }
  }
  static EVALFRAME_ALWAYS_INLINE Float cbrt(Float x) {
    const Int size = size_bits(x);
    const Int odd = (size < W::kSmallestNormal) | (size >= W::kInfinity);
    const Float a = choose(odd, all(1), magnitude(x));
    const Float rough = rough_cbrt(a);
    static constexpr Scalar kBetter[] = {static_cast<Scalar>(1.87595182427177009643), static_cast<Scalar>(-1.88497979543377169875),
                                         static_cast<Scalar>(1.621429720105354466140), static_cast<Scalar>(-0.758397934778766047437),
                                         static_cast<Scalar>(0.145996192886612446982)};
    const Float t = rough * polynomial((rough * rough) * (rough / a), kBetter);
    const Float value = with_sign_of(better_cbrt(t, a), x);
    return EVALFRAME_PATCH(value, x, odd, cbrt);
  }

  static EVALFRAME_ALWAYS_INLINE Float erf(Float x) {
    const Float a = size_up_to(x, C::kErfOne);
    const Float near = fma(a, polynomial(a * a, C::kErfNear), a);
    Int piece = Int{};
    for (const Scalar border : C::kErfBorders) piece -= bits(a) > bits_of(border);
    const Float t = a - W::lookup(C::kErfCentre, piece);
    constexpr int kCount = sizeof C::kErfFar / sizeof C::kErfFar[0];
    const Float slope = estrin<kCount>(t, [&](int i) __attribute__((always_inline)) { return W::lookup(C::kErfFar[i], piece); });
    // The first coefficient goes last, in one rounding: it is nearly all of the value.
    const Float far = fma(t, slope, W::lookup(C::kErfFirst, piece));
    const Float value = choose(bits(a) > bits_of(static_cast<Scalar>(0.875)), far, near);
    return choose(size_bits(x) > W::kInfinity, x, with_sign_of(value, x));
  }

  static Float power(Float x, Float y);  // in vector_power.h
};

}  // namespace
}  // namespace evalframe::native
