#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace evalframe {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "evalframe: internal check failed: %s (%s:%d). This is a bug in evalframe; please report it.\n",
               condition, file, line);
  std::abort();
}

}  // namespace evalframe
