// LLVM, by the C functions of llvmlite's library and without Python: importing llvmlite takes five times as long as loading the library.
#pragma once

#include <cstdint>
#include <string>

namespace evalframe::native {

enum class Effort : uint8_t;

// Loads libllvmlite.so of that directory, of llvmlite 0.45 or newer. False where there is none, or one that lacks a function that is
// needed. Without the GIL, too.
bool load_llvm(const std::string& directory);
// The object code of a module for this processor; any threads at once, each on its own. Quickly: variables stay in memory, as without the optimiser's other
// passes code is slower where they are registers. Throws std::runtime_error with LLVM's message.
std::string compile_by_llvm(const std::string& ir, Effort effort);

}  // namespace evalframe::native
