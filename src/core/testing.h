// C++ unit tests without a system package: TEST(Name) { EXPECT(...); } registers a test that pytest lists and runs.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace evalframe::testing {

struct Test {
  const char* name;
  void (*run)();
};

// All tests of this binary, in order of registration.
inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

// Thrown by a failed EXPECT; its text has the condition and the place.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace evalframe::testing

#define TEST(test_name)                                                                     \
  static void test_name();                                                                  \
  static const ::evalframe::testing::Registration register_##test_name(#test_name, &test_name); \
  static void test_name()

#define EXPECT(condition)                                                                                      \
  do {                                                                                                         \
    if (!(condition))                                                                                          \
      throw ::evalframe::testing::Failure(std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " #condition); \
  } while (false)
