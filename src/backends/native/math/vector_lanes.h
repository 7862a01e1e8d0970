// Vectors of floats and doubles in the compiler's vector types, for translation units compiled for AVX-512 or for AVX2 and FMA.
// Includes no header of the C++ library: an inline function of it, compiled here, could be the one that the linker keeps.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace evalframe::native {
namespace {

#ifdef __AVX512F__
constexpr int kVectorBytes = 64;
#else
constexpr int kVectorBytes = 32;
#endif

#define EVALFRAME_ALWAYS_INLINE inline __attribute__((always_inline))

// A comparison gives -1 or 0 in each lane of the integer type; `mask ? a : b` selects.
template <class OneScalar, class ItsBits> struct Lanes {
  using Scalar = OneScalar;
  using Bits = ItsBits;
  typedef Scalar Float __attribute__((vector_size(kVectorBytes)));
  typedef Bits Int __attribute__((vector_size(kVectorBytes)));
  typedef Scalar Half __attribute__((vector_size(kVectorBytes / 2)));
  static constexpr int kLanes = kVectorBytes / sizeof(Scalar);
};

struct Doubles : Lanes<double, int64_t> {
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kBias = 1023;
  static constexpr Bits kInfinity = 0x7ff0000000000000;
  static constexpr Bits kSmallestNormal = 0x0010000000000000;
  static constexpr Bits kRootHalf = 0x3fe6a09e667f3bcd;
  static constexpr Bits kHighPart = static_cast<Bits>(0xffffffff00000000);
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the rounded integer in the low bits

#ifdef __AVX512F__
  static EVALFRAME_ALWAYS_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_pd(a, b, c); }
  static EVALFRAME_ALWAYS_INLINE Float sqrt(Float a) { return _mm512_sqrt_pd(a); }
  static EVALFRAME_ALWAYS_INLINE bool any(Int mask) { return _mm512_movepi64_mask(reinterpret_cast<__m512i>(mask)); }
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[4], Int index) {
    return _mm512_permutexvar_pd(reinterpret_cast<__m512i>(index), _mm512_castpd256_pd512(_mm256_loadu_pd(table)));
  }
  // Only the four low bits of the index count.
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[16], Int index) {
    return _mm512_permutex2var_pd(_mm512_loadu_pd(table), reinterpret_cast<__m512i>(index), _mm512_loadu_pd(table + 8));
  }
  static EVALFRAME_ALWAYS_INLINE Half low(Float a) { return _mm512_castpd512_pd256(a); }
  static EVALFRAME_ALWAYS_INLINE Float join(Half a, Half b) { return _mm512_insertf64x4(_mm512_castpd256_pd512(a), b, 1); }
#else
  static EVALFRAME_ALWAYS_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_pd(a, b, c); }
  static EVALFRAME_ALWAYS_INLINE Float sqrt(Float a) { return _mm256_sqrt_pd(a); }
  static EVALFRAME_ALWAYS_INLINE bool any(Int mask) { return _mm256_movemask_pd(reinterpret_cast<__m256d>(mask)); }
  // By halves of the numbers. A gather takes as long as a load for each lane, and on some processors several times that.
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[4], Int index) {
    const Int halves = (index << 1) | (((index << 1) | 1) << 32);
    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(_mm256_loadu_pd(table)), reinterpret_cast<__m256i>(halves)));
  }
  static EVALFRAME_ALWAYS_INLINE Half low(Float a) { return _mm256_castpd256_pd128(a); }
  static EVALFRAME_ALWAYS_INLINE Float join(Half a, Half b) { return _mm256_set_m128d(b, a); }
#endif
};

struct Floats : Lanes<float, int32_t> {
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kBias = 127;
  static constexpr Bits kInfinity = 0x7f800000;
  static constexpr Bits kSmallestNormal = 0x00800000;
  static constexpr Bits kRootHalf = 0x3f3504f3;
  static constexpr Bits kHighPart = static_cast<Bits>(0xfffff000);
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23

#ifdef __AVX512F__
  static EVALFRAME_ALWAYS_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static EVALFRAME_ALWAYS_INLINE Float sqrt(Float a) { return _mm512_sqrt_ps(a); }
  static EVALFRAME_ALWAYS_INLINE bool any(Int mask) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)); }
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[8], Int index) {
    return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), _mm512_castps256_ps512(_mm256_loadu_ps(table)));
  }
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[16], Int index) {
    return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), _mm512_loadu_ps(table));
  }
  static EVALFRAME_ALWAYS_INLINE Half low(Float a) { return _mm512_castps512_ps256(a); }
  static EVALFRAME_ALWAYS_INLINE Half high(Float a) { return _mm512_extractf32x8_ps(a, 1); }
  static EVALFRAME_ALWAYS_INLINE Float join(Half a, Half b) { return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1); }
  static EVALFRAME_ALWAYS_INLINE Doubles::Float widen(Half a) { return _mm512_cvtps_pd(a); }
  static EVALFRAME_ALWAYS_INLINE Half narrow(Doubles::Float a) { return _mm512_cvtpd_ps(a); }
#else
  static EVALFRAME_ALWAYS_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static EVALFRAME_ALWAYS_INLINE Float sqrt(Float a) { return _mm256_sqrt_ps(a); }
  static EVALFRAME_ALWAYS_INLINE bool any(Int mask) { return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)); }
  static EVALFRAME_ALWAYS_INLINE Float lookup(const Scalar (&table)[8], Int index) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), reinterpret_cast<__m256i>(index));
  }
  static EVALFRAME_ALWAYS_INLINE Half low(Float a) { return _mm256_castps256_ps128(a); }
  static EVALFRAME_ALWAYS_INLINE Half high(Float a) { return _mm256_extractf128_ps(a, 1); }
  static EVALFRAME_ALWAYS_INLINE Float join(Half a, Half b) { return _mm256_set_m128(b, a); }
  static EVALFRAME_ALWAYS_INLINE Doubles::Float widen(Half a) { return _mm256_cvtps_pd(a); }
  static EVALFRAME_ALWAYS_INLINE Half narrow(Doubles::Float a) { return _mm256_cvtpd_ps(a); }
#endif
};

}  // namespace
}  // namespace evalframe::native
