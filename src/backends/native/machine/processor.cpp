// What the processor can do, asked of it by CPUID: the source from which LLVM takes its name and features too.
#include "backends/native/machine/processor.h"

#include <cpuid.h>

#include <cstdint>
#include <cstdio>

namespace evalframe::native {
namespace {

struct Leaf {
  unsigned leaf, subleaf;
  unsigned registers;  // those that don't differ between cores: bits 0 .. 3 for eax .. edx
};

// Vendor; model and features; features; vector states; features of AMD's.
constexpr Leaf kLeaves[] = {{0, 0, 0xf},   {1, 0, 0xd},          {7, 0, 0xf},          {7, 1, 0xf},         {0xd, 1, 0x1},
                            {0x19, 0, 0x2}, {0x80000001, 0, 0xc}, {0x80000008, 0, 0x2}};

uint64_t enabled_states() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

}  // namespace

std::string processor_description() {
  std::string text;
  bool has_states = false;
  for (const Leaf& leaf : kLeaves) {
    unsigned values[4] = {};
    __get_cpuid_count(leaf.leaf, leaf.subleaf, &values[0], &values[1], &values[2], &values[3]);
    if (leaf.leaf == 1) has_states = values[2] >> 27 & 1;
    char number[16];
    for (int i = 0; i < 4; i++) {
      std::snprintf(number, sizeof number, "%x ", leaf.registers >> i & 1 ? values[i] : 0);
      text += number;
    }
  }
  return text + std::to_string(has_states ? enabled_states() : 0);
}

int vector_bytes() {
  static const int bytes = [] {
    __builtin_cpu_init();
    const bool fma = __builtin_cpu_supports("fma");
    if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return 64;
    return fma && __builtin_cpu_supports("avx2") ? 32 : 0;
  }();
  return bytes;
}

}  // namespace evalframe::native
