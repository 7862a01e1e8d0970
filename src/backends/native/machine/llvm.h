// LLVM, by the C functions of llvmlite's library and without Python: importing llvmlite takes five times as long as loading the library.
#pragma once

#include <cstdint>
#include <string>

namespace evalframe::native {

enum class Effort : uint8_t;

// Loads libllvmlite.so of that directory, of llvmlite 0.45 or newer, if that wasn't done. False where there is none, or one that lacks a function that is
// needed. Needs no GIL.
bool load_llvm(const std::string& directory);
// The same by a thread of its own, which nothing waits for but a compilation and wait_for_llvm: a process may neither fork nor end meanwhile. Needs the GIL.
void load_llvm_meanwhile(const std::string& directory);
void wait_for_llvm();
// The object code of a module for this processor; any threads at once, each on its own. kQuick: variables stay in memory, as without the optimiser's other
// passes code is slower where they are registers. Throws std::runtime_error with LLVM's message.
std::string compile_by_llvm(const std::string& ir, Effort effort);

}  // namespace evalframe::native
