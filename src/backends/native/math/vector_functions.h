// Elementary functions on vectors, at most 2 ulp off. What is outside a function's ordinary range goes, lane by lane, to the C
// library's function, which also raises the flags that NumPy reports; the vector part raises none of them by mistake.
#pragma once

#include "backends/native/math/log_tables.h"
#include "backends/native/math/vector_lanes.h"

namespace evalframe::native {
namespace {

template <class W> struct Coefficients;

template <> struct Coefficients<Doubles> {
  static constexpr double kExpTail[] = {0.500000000000000103,    0.166666666666666746,    0.0416666666666238115,
                                        0.00833333333332212691,  0.00138888889173708475,  0.000198412698868363916,
                                        0.000024801521052860205, 2.75572420593404259e-6,  2.7620203671600249e-7,
                                        2.51101543404620492e-8};
  static constexpr double kLog[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                    1.479819860511658591e-01};
  static constexpr double kSine[] = {-0.16666666666666666,   0.008333333333333331,   -0.0001984126984126504, 2.755731921932058e-06,
                                     -2.5052106225994385e-08, 1.6058530596643994e-10, -7.586636882727422e-13};
  static constexpr double kCosine[] = {0.041666666666666664,   -0.0013888888888888887, 2.4801587301584632e-05, -2.755731922139246e-07,
                                       2.0876755787484188e-09, -1.1470460318119097e-11, 4.74583835819591e-14};
  static constexpr double kArctan[] = {-0.3333333333333333,   0.199999999999998,    -0.14285714285659326, 0.11111111105106704,
                                       -0.09090908751076597,  0.07692296304973549,  -0.0666642362805528,  0.058789145442614446,
                                       -0.052303478721123314, 0.045511081226396584, -0.03455809246572812, 0.016271944664995413};
  static constexpr double kArcsin[] = {0.16666666666666669,  0.07499999999998425,  0.04464285714637338,  0.030381944137085167,
                                       0.022372173002007063, 0.017352391265880077, 0.013971235301502854, 0.011478952686959197,
                                       0.010324318308209832, 0.005450878110995214, 0.01741935815831295,  -0.014881409674851229,
                                       0.02877844279349127};
  static constexpr double kErfNear[] = {0.12837916709551256,     -0.37612638903183754,    0.11283791670955125,
                                        -0.02686617064513079,    0.005223977625435316,    -0.0008548327022838275,
                                        0.00012055332946381701,  -1.4925648967632514e-05, 1.6462076234011593e-06,
                                        -1.6365106322983374e-07, 1.4797118160993395e-08,  -1.219544623522492e-09,
                                        8.82670611925463e-11,    -4.429077118429384e-12};
  static constexpr double kErfBorders[] = {1.875, 2.875, 4.125};
  static constexpr double kErfOne = 6.0;  // erf rounds to 1 from 5.93 on
  static constexpr double kErfCentre[8] = {1.375, 2.375, 3.5, 5.0625};
  static constexpr double kErfFirst[8] = {0.9481700727820903, 0.9992170617821089, 0.9999992569016276, 0.99999999999919};
  // For each power of t, the coefficients of the four pieces.
  static constexpr double kErfFar[][8] = {
      {0.1703597736875156, 0.004006477861670219, 5.399426777384488e-06, 8.355308230007382e-12},
      {-0.23424468882033045, -0.009515384921466282, -1.889799372050847e-05, -4.229846194544996e-11},
      {0.1579377068561338, 0.013730533505099006, 4.2295509756302843e-05, 1.3997325620391e-10},
      {-0.03050061052385496, -0.0131332135635351, -6.771781085618942e-05, -3.4021631994640194e-10},
      {-0.030605976268880012, 0.008357392833776414, 8.211628223107355e-05, 6.469259476880399e-10},
      {0.022161235278228608, -0.0031140790409943625, -7.774424577874856e-05, -1.0008655387098357e-09},
      {-0.0014190623625447724, 0.00012326962848155737, 5.819275083727131e-05, 1.2938271500956878e-09},
      {-0.004261033758185252, 0.0005941112658710861, -3.425918354364055e-05, -1.4235919709209102e-09},
      {0.0015779112716351774, -0.0003375278435923098, 1.533076540548207e-05, 1.3491189330109693e-09},
      {0.0003235951401667316, 5.470645115114615e-05, -4.640956869097461e-06, -1.1110716965649428e-09},
      {-0.00033910197552248546, 3.160883465500354e-05, 4.4472472386212195e-07, 8.043087362141027e-10},
      {2.8656705214673626e-05, -2.0804117059593314e-05, 4.435042447367003e-07, -5.137831535118564e-10},
      {4.175781931892965e-05, 3.1424077763315617e-06, -3.017599768915504e-07, 2.8265252614263926e-10},
      {-1.188410913405148e-05, 1.6907814494771403e-06, 9.302220999676697e-08, -1.3277458343284096e-10},
      {-2.9850675512576684e-06, -9.194407016117871e-07, -5.507400779860935e-09, 5.878635702847361e-11},
      {1.692277389359902e-06, 4.6811732070266673e-08, -9.295436301992035e-09, -2.405240511943737e-11},
      {4.673545347264434e-08, 7.867489202035099e-08, 3.742877785925716e-09, 5.516483641870126e-12}};
  static constexpr double kReduceLn2High = 0x1.62e42fefa38p-1, kReduceLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kLog2High = 1.44269504072144627571e+00, kLog2Low = 1.67517131648865118353e-10;
  static constexpr double kLog10High = 4.34294481878168880939e-01, kLog10Low = 2.50829467116452752298e-11;
  static constexpr double kLog10Of2High = 3.01029995663611771306e-01, kLog10Of2Low = 3.69423907715893078616e-13;
  static constexpr double kLn2 = 0.69314718055994529, kLn2Rest = 2.3190468138462996e-17;
  static constexpr double kHalfPi = 1.5707963267948966, kHalfPiLow = 6.123233995736766e-17, kHalfPiRest = -1.4973849048591833e-33;
  static constexpr double kExpRange = 707.0, kExp2Range = 1020.0, kAngles = 500000.0, kTanhOne = 22.0;
  static constexpr double kHuge = 0x1p500, kTiny = 0x1p-400, kScale = 0x1p600;
};

template <> struct Coefficients<Floats> {
  static constexpr float kExpTail[] = {0.5000000014f, 0.1666666676f, 0.04166646416f, 0.00833328589f, 0.001393373373f, 0.0001990766796f};
  static constexpr float kLog[] = {0.6666666655f, 0.4000012347f, 0.2855065645f, 0.2333457099f};
  static constexpr float kSine[] = {-0.1666666666f, 0.008333331868f, -0.0001984008272f, 2.724939007e-6f};
  static constexpr float kCosine[] = {0.04166666666f, -0.001388888767f, 2.480059694e-5f, -2.730050297e-7f};
  static constexpr float kArctan[] = {-0.3333333185f, 0.1999955628f, -0.1426439365f, 0.1074761857f, -0.06462693086f};
  static constexpr float kArcsin[] = {0.1666666629f, 0.07500103408f, 0.04459653341f, 0.03113307542f, 0.0169999138f, 0.03393142261f};
  static constexpr float kErfNear[] = {0.1283791669f,   -0.3761263629f,   0.1128373642f,  -0.02686177337f,
                                       0.005207218809f, -0.000821654126f, 8.69893985e-5f};
  static constexpr float kErfBorders[] = {2.0f};
  static constexpr float kErfOne = 4.0f;
  static constexpr float kErfCentre[8] = {1.4375f, 3.0f};
  static constexpr float kErfFirst[8] = {0.9579406078f, 0.9999779506f};
  static constexpr float kErfFar[][8] = {{0.1428975085f, 0.0001390672361f},  {-0.2054161389f, -0.0004198216818f},
                                         {0.1492463264f, 0.0007922814144f},  {-0.0387780725f, -0.001028002454f},
                                         {-0.0227230278f, 0.001000817397f},  {0.02107056702f, -0.0007830528354f},
                                         {-0.002205908692f, 0.0004231653772f}, {-0.003217467117f, -8.599399416e-5f},
                                         {0.0f, -1.647164288e-5f}};
  static constexpr float kReduceLn2High = 0x1.62e400p-1f, kReduceLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kLn2High = 6.9313812256e-01f, kLn2Low = 9.0580006145e-06f;
  static constexpr float kLog2High = 1.4428710938e+00f, kLog2Low = -1.7605285393e-04f;
  static constexpr float kLog10High = 4.3432617188e-01f, kLog10Low = -3.1689971365e-05f;
  static constexpr float kLog10Of2High = 3.0102920532e-01f, kLog10Of2Low = 7.9034151668e-07f;
  static constexpr float kLn2 = 0.693147182f, kLn2Rest = -1.904654e-9f;
  static constexpr float kHalfPi = 0x1.921fb6p+0f, kHalfPiLow = -0x1.777a5cp-25f, kHalfPiRest = -0x1.ee59dap-50f;
  static constexpr float kExpRange = 86.0f, kExp2Range = 124.0f, kAngles = 30000.0f, kTanhOne = 10.0f;
  static constexpr float kHuge = 0x1p60f, kTiny = 0x1p-50f, kScale = 0x1p98f;
};

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

  static Float power(Float x, Float y);
};

// --- power ---
using Double = Functions<Doubles>;

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
  const I size = D::size_bits(x);
  const I y_size = D::size_bits(y);
  // Whole exponents up to 2^51 are told from the bits that adding a large number leaves.
  const V shifted = D::choose(y_size > D::bits_of(0x1p50), V{}, y) + Doubles::kRound;
  const I fractional = (shifted - Doubles::kRound) != D::choose(y_size > Doubles::kInfinity, V{}, y);
  const I negative = D::is_negative(x);
  I odd = (size < Doubles::kSmallestNormal) | (size >= Doubles::kInfinity) | (negative & fractional) | (y_size > D::bits_of(0x1p50));
  const D::Split l = precise_log2(D::choose(odd, D::all(1), D::magnitude(x)));
  const V exponent = D::choose(odd, D::all(1), y);
  const V high = exponent * l.high;
  const V low = D::fma(exponent, l.low, D::fma(exponent, l.high, -high));
  const I extreme = D::beyond(high, 1020.0);
  odd |= extreme;
  const V bounded = D::choose(extreme, V{}, high);
  const V rounded = bounded + Doubles::kRound;
  const V fraction = (bounded - (rounded - Doubles::kRound)) + D::choose(extreme, V{}, low);
  const V r = D::fma(fraction, D::all(0.69314718055994529), fraction * 2.3190468138462996e-17);
  const V size_of_value = D::scaled((D::exp_tail(r) + r) + 1, D::bits(rounded) - D::bits_of(Doubles::kRound));
  const V value = D::from_bits(D::bits(size_of_value) | (negative & (D::bits(shifted) << 63)));
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
  using I = Floats::Int;
  const I size = F::size_bits(x);
  const I y_size = F::size_bits(y);
  const V shifted = F::choose(y_size > F::bits_of(0x1p21f), V{}, y) + Floats::kRound;
  const I fractional = (shifted - Floats::kRound) != F::choose(y_size > Floats::kInfinity, V{}, y);
  const I negative = F::is_negative(x);
  I odd = (size < Floats::kSmallestNormal) | (size >= Floats::kInfinity) | (negative & fractional) | (y_size > F::bits_of(0x1p21f));
  const V a = F::choose(odd, F::all(1), F::magnitude(x));
  const V b = F::choose(odd, F::all(1), y);
  const Doubles::Float low = wide_power(Floats::widen(Floats::low(a)), Floats::widen(Floats::low(b)));
  const Doubles::Float high = wide_power(Floats::widen(Floats::high(a)), Floats::widen(Floats::high(b)));
  // Rounding to float raises overflow and underflow as it should.
  const V size_of_value = Floats::join(Floats::narrow(low), Floats::narrow(high));
  const V value = F::from_bits(F::bits(size_of_value) | (negative & (F::bits(shifted) << 31)));
  if (!Floats::any(odd)) return value;
  return F::patch(value, x, y, odd, [](float p, float q) { return __builtin_powf(p, q); });
}

}  // namespace
}  // namespace evalframe::native
