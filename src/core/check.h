// CHECK: states a fact that no input can make false. A failed one is a bug of evalframe, never a user's error.
#pragma once

namespace evalframe {

// Prints the failed condition with its place and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace evalframe

// On in every build: cheap conditions that guard memory safety.
#define CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::evalframe::check_failed(#condition, __FILE__, __LINE__))

// On in dev and sanitizer builds only: conditions on hot paths.
#ifdef EVALFRAME_ASSERTIONS
#define DCHECK(condition) CHECK(condition)
#else
#define DCHECK(condition) ((void)0)
#endif
