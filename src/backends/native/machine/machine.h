// IR text to callable machine code: through the disk cache, else through LLVM.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace evalframe::native {

// What kernel_codegen.h writes; loops (regions/region.h) have functions of their own.
using KernelFunction = int32_t (*)(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns);

// What object code depends on besides the IR: the processor and the llvmlite that is installed. Needs the GIL. Throws
// std::runtime_error where there is none.
const std::string& target();
// kQuick: instructions are chosen one by one, and variables stay in memory, which takes a tenth of the time; such code runs up to ten times as long.
// kOptimised: that is done behind LLVM's optimiser. It takes half of the time, and kernels run nearly as fast where rows are long.
enum class Effort : uint8_t { kQuick, kOptimised, kFull };
inline Effort more_than(Effort effort) { return effort == Effort::kQuick ? Effort::kOptimised : Effort::kFull; }
// The address of the function that the IR calls @evalframe_kernel. Takes the GIL. Throws std::runtime_error with LLVM's message. The code lives as long as the process.
void* machine_code(std::string ir, Effort effort = Effort::kFull);
// The same, of what needn't be compiled in full any more, in this process or an earlier one; null where it has to be.
void* machine_code_at_hand(const std::string& ir);
// Whether it, or what is made with less effort of it, is in this process or on disk.
bool is_at_hand(const std::string& ir);
// What is compiled quickly, and with more effort once that is worth it.
struct Code {
  void* function = nullptr;
  Effort effort = Effort::kFull;
};
// What was made with most effort and is at hand, else made quickly.
Code code_at_first(std::string ir);
// Seconds that compiling a kernel takes, about, LLVM once loaded; the time by which it then runs longer, as part of that of code made in full.
inline constexpr double kSecondsOfKernel[] = {0.001, 0.008, 0.016}, kLonger[] = {2.5, 0.5, 0};
inline double seconds_of_kernel(Effort effort) { return kSecondsOfKernel[static_cast<int>(effort)]; }
inline double longer_by(Effort effort) { return kLonger[static_cast<int>(effort)]; }
// Seconds that compiling begins with, for all of the process; whether they are over.
inline constexpr double kSecondsOfLoading = 0.015;
bool llvm_is_loaded();
// Where this will be compiled soon: LLVM is loaded while the program goes on.
void will_compile(const std::string& ir);

// What is thrown in the place of compiling.
struct NotCompiled : std::runtime_error {
  NotCompiled() : std::runtime_error("it isn't worth compiling, yet") {}
};
// As long as it lives, this thread compiles nothing.
class CompilesLater {
 public:
  explicit CompilesLater(bool on) : before_(std::exchange(is_on, is_on || on)) {}
  ~CompilesLater() { is_on = before_; }
  CompilesLater(const CompilesLater&) = delete;
  CompilesLater& operator=(const CompilesLater&) = delete;
  static thread_local bool is_on;

 private:
  const bool before_;
};

// As long as it lives, it does, whatever is around it: what is compiled has been found to be worth it.
class CompilesNow {
 public:
  CompilesNow() : before_(std::exchange(CompilesLater::is_on, false)) {}
  ~CompilesNow() { CompilesLater::is_on = before_; }
  CompilesNow(const CompilesNow&) = delete;
  CompilesNow& operator=(const CompilesNow&) = delete;

 private:
  const bool before_;
};

// For tests: what has been compiled is compiled again where it is asked for; nothing is compiled in full, or kernels are at once.
void forget_machine_code();
enum class Efforts : uint8_t { kAsItPays, kQuick, kFull };
void set_efforts(Efforts efforts);

}  // namespace evalframe::native
