// The border for bytecode: CPython's code objects to canonical instructions and back.
// One algorithm for all versions (decode.cpp, encode.cpp), driven by the version's own table (v3XX/opcodes.def).
#pragma once

#include <memory>

#include "bytecode/instruction.h"

namespace evalframe::cpython {

// Decodes `code` (a PyCodeObject). Null with a Python exception (ValueError naming the offset) for bytecode that the
// running version's compiler can't have made.
std::unique_ptr<bytecode::Code> decode(Borrowed code);

// What is kept with a code object at indices of co_extra. The layout is private (Objects/codeobject.c).
struct CodeExtra {
  Py_ssize_t size;
  void* values[1];
};
// Or null. Takes a quarter of the API's time.
inline void* extra_of(PyCodeObject* code, Py_ssize_t index) {
  const auto* const extra = static_cast<const CodeExtra*>(code->co_extra);
  return extra && index >= 0 && index < extra->size ? extra->values[index] : nullptr;
}
// Keeps a value where there is none; false with MemoryError. The API makes room for the values of all users, and the functions
// of those who have room are called when the code object goes, even if they have left the process by then.
bool set_extra(PyCodeObject* code, Py_ssize_t index, void* value);

// The decoded form of `code`, made on first use and kept with the code object (co_extra); null with an exception as above.
const bytecode::Code* decoded(Borrowed code);
// The same, null (no exception) where it wasn't made yet.
inline Py_ssize_t decoded_index = -1;  // of co_extra; -1 before the first
inline const bytecode::Code* decoded_before(PyCodeObject* code) { return static_cast<const bytecode::Code*>(extra_of(code, decoded_index)); }

// Encodes instructions, positions and regions into a code object that has all else from `code.code`, and the given
// constants, names and stack size. Jumps are by instruction index; EXTENDED_ARG, caches and tables are made anew.
// Null with a Python exception (ValueError) where an instruction doesn't exist on the running version.
struct EncodeOptions {
  Borrowed constants;   // tuple, or null: as they are
  Borrowed names;       // tuple, or null: as they are
  int stack_size = -1;  // -1: as it is
};
Ref encode(const bytecode::Code& code, const EncodeOptions& options = {});

// The running version's own name of the instruction at `index` (for `dis`), e.g. LOAD_FAST_LOAD_FAST for both halves; null
// where the version has none.
const char* real_name(const bytecode::Code& code, int32_t index);

}  // namespace evalframe::cpython
