// Compares the numbers in v3XX/opcodes.def with the running version's own headers.
#include <Python.h>
#include <opcode.h>

#define EVALFRAME_OPCODE(name, number, caches, form, canonical) static_assert(name == number);
#define EVALFRAME_PAIR(name, number, first, second) static_assert(name == number);
#include "opcodes.def"
#undef EVALFRAME_OPCODE
#undef EVALFRAME_PAIR
