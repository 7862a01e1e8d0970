// Python's builtins as they were when evalframe was imported, whatever a program later puts in their place, for one module or for all.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/ref.h"

namespace evalframe {

// Called once, when the module is made.
void remember_builtins();
// Null if there is none of that name. Lives as long as the process.
Borrowed builtin(const char* name);

// The same of a name that is written down, which is looked up once: rules compare what is called with a dozen of them.
template <size_t size>
struct BuiltinName {
  consteval BuiltinName(const char (&name)[size]) { std::copy_n(name, size, text); }
  char text[size];
};
template <BuiltinName name>
Borrowed builtin() {
  static PyObject* const found = builtin(name.text).get();
  return found;
}

}  // namespace evalframe
