#include "backends/native/math/power_memory.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace evalframe::native {

namespace {

struct Power {
  uint64_t x;
  double exponent;
  double power;  // 0: of nothing
};

constexpr uint64_t kKnown = 512;
// Where nothing is found so many times one behind the other, as of a base that is another each time, nothing is looked for that often.
constexpr int kMostMisses = 1024, kRest = 1 << 14;

struct Powers {
  std::array<Power, kKnown> known;
  int misses, rest;
};

// Whose code calls this holds the GIL.
constinit Powers memory{};

// Neighbouring exponents of one base have places of their own.
Power& place_of(uint64_t x, double exponent) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  constexpr double kToLowBits = 0x1.8p52;  // the sum's lowest bits are those of the whole number
  return memory.known[((x * kMix >> 55) + std::bit_cast<uint64_t>(exponent + kToLowBits)) % kKnown];
}

}  // namespace

double pow_of_whole(double x, double exponent) {
  if (memory.rest > 0) {
    memory.rest--;
    return std::pow(x, exponent);
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  Power& known = place_of(bits, exponent);
  if (known.x == bits && known.exponent == exponent && known.power != 0.0) {
    memory.misses = 0;
    return known.power;
  }
  if (++memory.misses > kMostMisses) {
    memory.misses = 0;
    memory.rest = kRest;
  }
  const double power = std::pow(x, exponent);
  // Others may raise a condition each time.
  if (std::isnormal(power)) known = {bits, exponent, power};
  return power;
}

}  // namespace evalframe::native
