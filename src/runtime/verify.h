// EVALFRAME_VERIFY: calls that a graph serves are now and then run by CPython, too, and the two compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guards/program.h"
#include "runtime/compile.h"

namespace evalframe::runtime {

class Verification {
 public:
  // Reads what the environment variable says: "1" now and then, "all" every hit, nothing or "0" never. False: something else.
  static bool configure(const char* wanted);
  static bool is_on() { return on_; }
  // Whether this hit is to be run both ways: the first, second, fourth and so on, and each hundredth.
  static bool is_due(uint64_t hit);
  // Whether running it twice does nothing twice: it returns, and does nothing but to compute and to write into arrays from outside.
  static bool can_be_run_twice(const recorder::Recording& recording);

 private:
  static bool on_, always_;
};

// The arrays among the sources of a recording that may be written into, as they stand. Errors stay set.
class ArraySnapshot {
 public:
  // The objects are of the recording's sources, `count` of them.
  bool take(const guards::Objects& objects, size_t count);
  // Puts the contents back, and keeps those that were there.
  bool exchange();
  const std::vector<Ref>& arrays() const { return arrays_; }
  const std::vector<Ref>& contents() const { return contents_; }

 private:
  std::vector<Ref> arrays_, contents_;
};

// While it is there, errors of floating-point operations that NumPy would warn of are passed over: CPython's run warns of them.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;
  explicit operator bool() const { return static_cast<bool>(state_); }  // false: with an exception

 private:
  Ref state_;  // numpy.errstate
};

// What a call came to: a result, or the exception that it raised.
struct CameOfIt {
  Ref result, raised;
  // Takes the exception that is set, if there is no result.
  static CameOfIt of(Ref result);
};

// Compares (evalframe.verify); false: they differ, which has been told. No exception is left set.
bool verify(const Compilation& compilation, Borrowed function, PyObject* const* parameters, const CameOfIt& served, const CameOfIt& plain,
            const ArraySnapshot& written);

}  // namespace evalframe::runtime
