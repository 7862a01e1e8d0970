// The table of one vector library's functions; included by the translation unit that is compiled for its instructions.
#pragma once

#include "backends/native/math/vector_library.h"
#include "backends/native/math/vector_power.h"

namespace evalframe::native {
namespace {

template <class W> struct Forms {
  using Float = typename W::Float;
  using Scalar = typename W::Scalar;
  template <Float (*function)(Float)> static Float vector(Float x) { return function(x); }
  template <Float (*function)(Float, Float)> static Float vector(Float x, Float y) { return function(x, y); }
  // x - 0 and not x + 0, which isn't x for -0.
  template <Float (*function)(Float)> static Scalar scalar(Scalar x) { return function(x - Float{})[0]; }
  template <Float (*function)(Float, Float)> static Scalar scalar(Scalar x, Scalar y) { return function(x - Float{}, y - Float{})[0]; }
};

// Half as many as fit: for loops over floats and doubles, and for the last few. The other half repeats them, so as to raise no
// other flags.
template <class W> struct Halves {
  using Float = typename W::Float;
  using Half = typename W::Half;
  template <Float (*function)(Float)> static Half vector(Half x) { return W::low(function(W::join(x, x))); }
  template <Float (*function)(Float, Float)> static Half vector(Half x, Half y) {
    return W::low(function(W::join(x, x), W::join(y, y)));
  }
};

template <class Function> void* address(Function function) { return reinterpret_cast<void*>(function); }
template <class W> using Vector1 = typename W::Float (*)(typename W::Float);
template <class W> using Vector2 = typename W::Float (*)(typename W::Float, typename W::Float);
template <class W> using Scalar1 = typename W::Scalar (*)(typename W::Scalar);
template <class W> using Scalar2 = typename W::Scalar (*)(typename W::Scalar, typename W::Scalar);
template <class W> using Half1 = typename W::Half (*)(typename W::Half);
template <class W> using Half2 = typename W::Half (*)(typename W::Half, typename W::Half);

#ifdef __AVX512F__
#define EVALFRAME_DOUBLES "_f64x8"
#define EVALFRAME_FLOATS "_f32x16"
#define EVALFRAME_HALF_DOUBLES "_f64x4"
#define EVALFRAME_HALF_FLOATS "_f32x8"
#else
#define EVALFRAME_DOUBLES "_f64x4"
#define EVALFRAME_FLOATS "_f32x8"
#define EVALFRAME_HALF_DOUBLES "_f64x2"
#define EVALFRAME_HALF_FLOATS "_f32x4"
#endif

const LibraryFunction kFunctions[] = {
#define EVALFRAME_ROWS(name, count)                                                                                           \
  {"evalframe_" #name "_f64", address(static_cast<Scalar##count<Doubles>>(Forms<Doubles>::scalar<Functions<Doubles>::name>))},  \
  {"evalframe_" #name "_f32", address(static_cast<Scalar##count<Floats>>(Forms<Floats>::scalar<Functions<Floats>::name>))},     \
  {"evalframe_" #name EVALFRAME_DOUBLES, address(static_cast<Vector##count<Doubles>>(Forms<Doubles>::vector<Functions<Doubles>::name>))}, \
  {"evalframe_" #name EVALFRAME_FLOATS, address(static_cast<Vector##count<Floats>>(Forms<Floats>::vector<Functions<Floats>::name>))}, \
  {"evalframe_" #name EVALFRAME_HALF_DOUBLES, address(static_cast<Half##count<Doubles>>(Halves<Doubles>::vector<Functions<Doubles>::name>))}, \
  {"evalframe_" #name EVALFRAME_HALF_FLOATS, address(static_cast<Half##count<Floats>>(Halves<Floats>::vector<Functions<Floats>::name>))},
#define EVALFRAME_MATH1(name, c_name) EVALFRAME_ROWS(name, 1)
#define EVALFRAME_MATH2(name, c_name) EVALFRAME_ROWS(name, 2)
#include "backends/native/math/vector_math.def"
#undef EVALFRAME_ROWS
};

constexpr Library kLibrary = {kFunctions, sizeof kFunctions / sizeof kFunctions[0]};

}  // namespace
}  // namespace evalframe::native
