// The vector libraries against the C library's functions, on whichever of them this processor can run.
#include "backends/native/math/vector_library.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/testing.h"

namespace evalframe::native {
namespace {

void* find(const Library& library, const std::string& name) {
  for (int i = 0; i < library.count; ++i) {
    if (name == library.functions[i].name) return library.functions[i].address;
  }
  return nullptr;
}

// Within four units in the last place: two of each side's.
template <class T> bool near(T got, T want) {
  if (std::isnan(want)) return std::isnan(got);
  if (got == want) return true;
  const T unit = std::nextafter(std::fabs(want), std::numeric_limits<T>::infinity()) - std::fabs(want);
  return std::fabs(got - want) <= 4 * unit;
}

template <class T> void expect_near(const std::string& name, T x, T got, T want) {
  if (near(got, want)) return;
  throw testing::Failure(name + "(" + std::to_string(x) + "...) is " + std::to_string(got) + ", not " + std::to_string(want));
}

template <class T> void compare(const Library& library, const std::string& name, int arguments) {
  const Library exact = scalar_library();
  for (const double value : {0.0, -0.0, 0.3, -0.7, 1.0, 2.5, -3.0, 12.0, 1e-5, 1e5, 1e30, -1e30, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    const T x = static_cast<T>(value);
    if (arguments == 1) {
      using Function = T (*)(T);
      const T got = reinterpret_cast<Function>(find(library, name))(x);
      expect_near(name, x, got, reinterpret_cast<Function>(find(exact, name))(x));
      continue;
    }
    for (const double other : {0.0, -0.0, 1.0, -2.0, 0.5, 3.3, -HUGE_VAL, std::nan("")}) {
      using Function = T (*)(T, T);
      const T y = static_cast<T>(other);
      const T got = reinterpret_cast<Function>(find(library, name))(x, y);
      expect_near(name, x, got, reinterpret_cast<Function>(find(exact, name))(x, y));
    }
  }
}

void compare_all(const Library& library) {
#define EVALFRAME_MATH1(name, c_name)                     \
  compare<double>(library, "evalframe_" #name "_f64", 1); \
  compare<float>(library, "evalframe_" #name "_f32", 1);
#define EVALFRAME_MATH2(name, c_name)                     \
  compare<double>(library, "evalframe_" #name "_f64", 2); \
  compare<float>(library, "evalframe_" #name "_f32", 2);
#include "backends/native/math/vector_math.def"
}

TEST(Avx2LibraryAgreesWithTheCLibrary) {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) compare_all(avx2_library());
}

TEST(Avx512LibraryAgreesWithTheCLibrary) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    compare_all(avx512_library());
  }
}

}  // namespace
}  // namespace evalframe::native
