// Why there is no code object for something: thrown while code is made, caught by whoever asked for it.
#pragma once

#include <cstdint>

namespace evalframe::codegen {

enum class CodegenLimit : uint8_t {
#define EVALFRAME_CODEGEN_LIMIT(name, reason) name,
#include "codegen/limits.def"
#undef EVALFRAME_CODEGEN_LIMIT
};

struct Limit {
  const char* reason;
};

Limit limit(CodegenLimit why);

}  // namespace evalframe::codegen
