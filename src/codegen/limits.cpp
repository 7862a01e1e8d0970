#include "codegen/limits.h"

namespace evalframe::codegen {

Limit limit(CodegenLimit why) {
  static constexpr const char* kReasons[] = {
#define EVALFRAME_CODEGEN_LIMIT(name, reason) reason,
#include "codegen/limits.def"
#undef EVALFRAME_CODEGEN_LIMIT
  };
  return {kReasons[static_cast<int>(why)]};
}

}  // namespace evalframe::codegen
