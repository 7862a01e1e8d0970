// IR text to callable machine code: through the disk cache, else through llvmlite.
#pragma once

#include <cstdint>
#include <string>

namespace evalframe::native {

using KernelFunction = int32_t (*)(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns);

// What the code is made for: "<CPU name> <features> llvmlite ... LLVM ...". Needs the GIL.
const std::string& target();
// Width of the vectors for which there are elementary functions; 0: only scalar ones. Needs the GIL where target was not asked for before.
int vector_bytes();
// Takes the GIL. Throws std::runtime_error with LLVM's message. The code lives as long as the process.
KernelFunction machine_code(std::string ir);

}  // namespace evalframe::native
