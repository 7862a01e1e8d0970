// Functions and variables of torch's libraries, by their symbols.
#pragma once

#include <dlfcn.h>

namespace evalframe::torch {

// Null: there is none.
template <class Address>
void find_symbol(Address& address, const char* name, const char* library_name = "libtorch_cpu.so") {
  address = reinterpret_cast<Address>(dlsym(RTLD_DEFAULT, name));
  if (address) return;
  // Python loads extension modules so that others don't see their symbols.
  void* const library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return;
  address = reinterpret_cast<Address>(dlsym(library, name));
  dlclose(library);  // torch has it open
}

}  // namespace evalframe::torch
