// x to the power y, on vectors: the logarithm needs more digits than the others' results have.
#pragma once

#include "backends/native/math/vector_functions.h"

namespace evalframe::native {
namespace {

using Double = Functions<Doubles>;

// What a power is computed of: 1 to the power 1 where the case is an odd one, which the C library's function decides.
template <class T>
struct PowerOperands {
  typename T::Int odd;
  typename T::Float base;  // its magnitude
  typename T::Float exponent;
  typename T::Int sign;  // of the result, as a bit: that of a negative base where the exponent is odd
};

// whole: exponents up to twice this are told to be whole from the bits that adding a large number leaves.
template <class T>
EVALFRAME_ALWAYS_INLINE PowerOperands<T> operands_of_power(typename T::Float x, typename T::Float y, typename T::Scalar whole) {
  using F = Functions<T>;
  using V = typename T::Float;
  using I = typename T::Int;
  constexpr int kSignBit = 8 * sizeof(typename T::Scalar) - 1;
  const I size = F::size_bits(x);
  const I y_size = F::size_bits(y);
  const V shifted = F::choose(y_size > F::bits_of(whole), V{}, y) + T::kRound;
  const I fractional = (shifted - T::kRound) != F::choose(y_size > T::kInfinity, V{}, y);
  const I negative = F::is_negative(x);
  const I odd = (size < T::kSmallestNormal) | (size >= T::kInfinity) | (negative & fractional) | (y_size > F::bits_of(whole));
  return {odd, F::choose(odd, F::all(1), F::magnitude(x)), F::choose(odd, F::all(1), y), negative & (F::bits(shifted) << kSignBit)};
}

// log2 of a positive normal number as a sum of two, its relative error below 2^-64.
EVALFRAME_ALWAYS_INLINE Double::Split precise_log2(Doubles::Float x) {
  using D = Double;
  using V = Doubles::Float;
  static constexpr double kTail[] = {0.400000000000000278,   0.285714285713365473, 0.222222222719391064, 0.181818081176269241,
                                     0.153855838686966634,   0.132856666495177467, 0.129171003569298143};
  const D::Mantissa parts = D::mantissa(x);
  // s + s_low = (m - 1) / (m + 1)
  const V f = parts.m - 1;
  const V d = parts.m + 1;
  const V d_low = parts.m - (d - 1);
  const V inverse = 1 / d;
  const V s = f * inverse;
  const V s_low = (D::fma(-s, d, f) - s * d_low) * inverse;
  // ln m = 2 s + s z (2/3 + z tail), z = s^2
  const V z = s * s;
  const V z_low = D::fma(s + s, s_low, D::fma(s, s, -z));
  const V u = z * D::polynomial(z, kTail);
  const V q = u + 0.66666666666666663;
  const V q_low = ((0.66666666666666663 - q) + u) + 3.7007434154171883e-17;
  const V sz = s * z;
  const V sz_low = D::fma(s, z_low, D::fma(s_low, z, D::fma(s, z, -sz)));
  const V w = sz * q;
  const V w_low = D::fma(sz, q_low, D::fma(sz_low, q, D::fma(sz, q, -w)));
  const V two = s + s;
  const V ln = two + w;
  const V ln_low = ((two - ln) + w) + (w_low + (s_low + s_low));
  const V high = ln * 1.4426950408889634;
  const V low = D::fma(ln_low, D::all(1.4426950408889634), D::fma(ln, D::all(2.0355273740931033e-17), D::fma(ln, D::all(1.4426950408889634), -high)));
  const V sum = parts.k + high;
  return {sum, ((parts.k - sum) + high) + low};
}

template <> EVALFRAME_ALWAYS_INLINE Doubles::Float Functions<Doubles>::power(Doubles::Float x, Doubles::Float y) {
  using D = Double;
  using V = Doubles::Float;
  using I = Doubles::Int;
  auto [odd, base, exponent, sign] = operands_of_power<Doubles>(x, y, 0x1p50);
  const D::Split l = precise_log2(base);
  const V high = exponent * l.high;
  const V low = D::fma(exponent, l.low, D::fma(exponent, l.high, -high));
  const I extreme = D::beyond(high, 1020.0);
  odd |= extreme;
  const V bounded = D::choose(extreme, V{}, high);
  const V rounded = bounded + Doubles::kRound;
  const V fraction = (bounded - (rounded - Doubles::kRound)) + D::choose(extreme, V{}, low);
  const V r = D::fma(fraction, D::all(0.69314718055994529), fraction * 2.3190468138462996e-17);
  const V size_of_value = D::scaled((D::exp_tail(r) + r) + 1, D::bits(rounded) - D::bits_of(Doubles::kRound));
  const V value = D::from_bits(D::bits(size_of_value) | sign);
  if (!Doubles::any(odd)) return value;
  return D::patch(value, x, y, odd, [](double a, double b) { return __builtin_pow(a, b); });
}

// |x|^y for positive normal x, in double: the result is rounded once more.
EVALFRAME_ALWAYS_INLINE Doubles::Float wide_power(Doubles::Float x, Doubles::Float y) {
  using D = Double;
  using V = Doubles::Float;
  static constexpr double kTail[] = {0.666666666673916402, 0.399999987773631118, 0.285717582629268953, 0.221911801763885295, 0.193667075418665279};
  static constexpr double kExp[] = {0.500000001354641213,   0.166666667568247355, 0.041666464159702552,
                                    0.00833328589016831374, 0.00139337337346416358, 0.000199076679553601835};
  const D::Mantissa parts = D::mantissa(x);
  const V f = parts.m - 1;
  const V s = f / (parts.m + 1);
  const V z = s * s;
  const V ln = D::fma(s * z, D::polynomial(z, kTail), s + s);
  const V product = y * D::fma(ln, D::all(1.4426950408889634), parts.k);
  const V bounded = D::choose(D::beyond(product, 900.0), D::with_sign_of(D::all(900.0), product), product);
  const V rounded = bounded + Doubles::kRound;
  const V r = (bounded - (rounded - Doubles::kRound)) * 0.69314718055994529;
  return D::scaled(D::fma(r * r, D::polynomial(r, kExp), r) + 1, D::bits(rounded) - D::bits_of(Doubles::kRound));
}

template <> EVALFRAME_ALWAYS_INLINE Floats::Float Functions<Floats>::power(Floats::Float x, Floats::Float y) {
  using F = Functions<Floats>;
  using V = Floats::Float;
  const auto [odd, a, b, sign] = operands_of_power<Floats>(x, y, 0x1p21f);
  const Doubles::Float low = wide_power(Floats::widen(Floats::low(a)), Floats::widen(Floats::low(b)));
  const Doubles::Float high = wide_power(Floats::widen(Floats::high(a)), Floats::widen(Floats::high(b)));
  // Rounding to float raises overflow and underflow as it should.
  const V size_of_value = Floats::join(Floats::narrow(low), Floats::narrow(high));
  const V value = F::from_bits(F::bits(size_of_value) | sign);
  if (!Floats::any(odd)) return value;
  return F::patch(value, x, y, odd, [](float p, float q) { return __builtin_powf(p, q); });
}

}  // namespace
}  // namespace evalframe::native
