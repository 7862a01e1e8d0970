// The library for processors without the vector instructions: the C library's functions.
#include <cmath>

#include "backends/native/math/vector_library.h"

namespace evalframe::native {
namespace {

template <class Function> void* address_of(Function function) { return reinterpret_cast<void*>(function); }

const LibraryFunction kScalarFunctions[] = {
#define EVALFRAME_MATH1(name, c_name)                                                  \
  {"evalframe_" #name "_f64", address_of(static_cast<double (*)(double)>(std::c_name))},   \
  {"evalframe_" #name "_f32", address_of(static_cast<float (*)(float)>(std::c_name))},
#define EVALFRAME_MATH2(name, c_name)                                                          \
  {"evalframe_" #name "_f64", address_of(static_cast<double (*)(double, double)>(std::c_name))},   \
  {"evalframe_" #name "_f32", address_of(static_cast<float (*)(float, float)>(std::c_name))},
#include "backends/native/math/vector_math.def"
};

}  // namespace

Library scalar_library() { return {kScalarFunctions, sizeof kScalarFunctions / sizeof kScalarFunctions[0]}; }

}  // namespace evalframe::native
