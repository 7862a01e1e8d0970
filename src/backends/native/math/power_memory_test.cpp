// Tests of powers that are remembered.
#include "backends/native/math/power_memory.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/testing.h"

namespace evalframe::native {
namespace {

void expect_same(double x, double exponent) {
  const double got = pow_of_whole(x, exponent), want = std::pow(x, exponent);
  EXPECT(std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(want));
}

TEST(PowersOfWholeExponentsAreThoseOfPow) {
  for (int round = 0; round < 3; round++) {
    for (const double x : {0.0, -0.0, 1.0, -1.0, 0.5, 1.01, -1.01, 1e200, 5e-324, HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()}) {
      for (int exponent = -700; exponent <= 700; exponent += 7) expect_same(x, exponent);
      for (const double exponent : {0x1p53, -0x1p53, 0x1p62, -0x1p63}) expect_same(x, exponent);
    }
  }
}

// Beyond what is looked for without finding any.
TEST(PowersOfManyBasesAreThoseOfPow) {
  for (int i = 0; i < 40'000; i++) expect_same(1.0 + i * 1e-5, i % 37 - 18);
  for (int i = 0; i < 40'000; i++) expect_same(1.03, i % 37 - 18);
}

TEST(ConditionsOfPowersAreMetEachTime) {
  for (int round = 0; round < 2; round++) {
    std::feclearexcept(FE_ALL_EXCEPT);
    volatile double unused = pow_of_whole(1e200, 3.0);
    EXPECT(std::fetestexcept(FE_OVERFLOW) != 0);
    unused = pow_of_whole(0.0, -3.0);
    EXPECT(std::fetestexcept(FE_DIVBYZERO) != 0);
    unused = pow_of_whole(1e-200, 2.0);
    EXPECT(std::fetestexcept(FE_UNDERFLOW) != 0);
    static_cast<void>(unused);
  }
  std::feclearexcept(FE_ALL_EXCEPT);
}

}  // namespace
}  // namespace evalframe::native
