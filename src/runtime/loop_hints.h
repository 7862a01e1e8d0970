// What had been recorded of a function when earlier processes made its loops native: once as much has been recorded again, their code is on disk, and nothing
// is gained by waiting.
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace evalframe::runtime {

// Of one code object. Kept where object code is (object_cache.h); without that there are none.
class LoopHints {
 public:
  // Whether the loop at the instruction became native with so many recordings of the function: told once. code: the same each time.
  bool has(PyObject* code, int32_t instruction, uint64_t recordings);
  void add(PyObject* code, int32_t instruction, uint64_t recordings);
  static bool are_used;

 private:
  using Hint = std::pair<int32_t, uint64_t>;
  void read(PyObject* code);

  std::optional<std::string> key_;  // empty: there is no place for them
  std::set<Hint> known_, untold_;
};

}  // namespace evalframe::runtime
