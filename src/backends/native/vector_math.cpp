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
Term polynomial(const Term& x, std::vector<double> coefficients) {
  std::vector<Term> level;
  Term power = x;
  for (double c : coefficients) level.push_back(constant(x, c));
  while (true) {
    std::vector<Term> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(i + 1 < level.size() ? fma(level[i + 1], power, level[i]) : level[i]);
    }
    if (next.size() == 1) return next[0];
    level = std::move(next);
    power = power * power;
  }
}

Term magnitude_bits(const Term& x) { return as_bits(x) & x.emitter->integer("i64", INT64_MAX); }

Term bits_above(const Term& bits, double limit) { return compare("ugt", bits, __builtin_bit_cast(int64_t, limit)); }

// 2^n for an integer held as i64, -1022 <= n <= 1023.
Term power_of_two(const Term& n) { return as_float((n + 1023) << 52); }

struct Reduced {
  Term n;         // integer, i64
  Term rest;      // x - n ln 2, |rest| <= ln 2 / 2
};

constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the rounded integer in the low bits

Reduced reduce_by_ln2(const Term& x) {
  const Term shifted = fma(x, constant(x, 1.4426950408889634), constant(x, kRound));
  const Term count = shifted - kRound;
  const Term n = as_bits(shifted) - as_bits(constant(x, kRound));
  const Term high = fma(-count, constant(x, 0x1.62e42fefa38p-1), x);
  return {n, fma(-count, constant(x, 0x1.ef35793c7673p-45), high)};
}

// e^r - 1 - r for |r| <= ln 2 / 2, as r^2 times a polynomial.
Term exp_tail(const Term& r) {
  const Term p = polynomial(r, {0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
                                1.0 / 39916800, 1.0 / 479001600});
  return r * r * p;
}

}  // namespace

Term exp(const Term& x) {
  if (!x.emitter->has_fma()) return library("exp", x);
  const Term size = magnitude_bits(x);
  const Term extreme = bits_above(size, 746.0);
  const Term bounded = select(extreme, constant(x, 0.0), x);
  const Reduced reduced = reduce_by_ln2(bounded);
  const Term half = reduced.n >> 1;
  const Term value = (exp_tail(reduced.rest) + reduced.rest) + 1.0;
  const Term scaled = (value * power_of_two(half)) * power_of_two(reduced.n - half);
  const Term negative = compare("slt", as_bits(x), 0);
  const Term finite = compare("ult", size, kInfinity);
  x.emitter->report(Condition::kOverflow, extreme & finite & !negative);
  x.emitter->report(Condition::kUnderflow, extreme & finite & negative);
  const Term infinite = select(negative, constant(x, 0.0), constant(x, __builtin_inf()));
  const Term nan = compare("ugt", size, kInfinity);
  return select(nan, x, select(extreme, infinite, scaled));
}

Term log(const Term& x) {
  if (!x.emitter->has_fma()) return library("log", x);
  Emitter& emitter = *x.emitter;
  const Term bits = as_bits(x);
  const Term size = bits & emitter.integer("i64", INT64_MAX);
  const Term zero = compare("eq", size, 0);
  const Term negative = compare("slt", bits, 0);
  const Term nan = compare("ugt", size, kInfinity);
  const Term infinite = compare("eq", size, kInfinity);
  const Term odd = compare("uge", bits - 1, kInfinity - 1);  // zero, negative, infinite or NaN
  const Term bounded = select(odd, constant(x, 1.0), x);
  const Term tiny = compare("ult", as_bits(bounded), 0x0010000000000000);
  const Term scaled = as_bits(select(tiny, bounded * 0x1p54, bounded));
  const Term offset = scaled - 0x3fe6a09e667f3bcd;
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
  const Term low = fma(s, half_square + r, k * 1.90821492927058770002e-10);
  const Term value = fma(k, constant(x, 6.93147180369123816490e-01), f - (half_square - low));
  emitter.report(Condition::kDivide, zero);
  emitter.report(Condition::kInvalid, negative & !zero & !nan);
  const Term special = select(zero, constant(x, -__builtin_inf()), select(negative, constant(x, __builtin_nan("")), x));
  return select(odd, select(nan, x, select(infinite & !negative, x, special)), value);
}

Term library(const char* function, const Term& x) { return call(std::string("evalframe_") + function, "double", {x}); }
Term library(const char* function, const Term& x, const Term& y) {
  return call(std::string("evalframe_") + function, "double", {x, y});
}

}  // namespace evalframe::native::math
