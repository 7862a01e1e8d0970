// Loads kernels' object code without LLVM, which takes longer to import than most programs need for all their kernels.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace evalframe::native {

// The address of the function `name` of an ELF object for x86-64; resolve gives the address of a function that the object calls.
// The code lives as long as the process. Null where the object holds something that kernels usually don't: LLVM's own loader is
// there for these.
void* load_object(std::string_view object, std::string_view name, const std::function<void*(std::string_view)>& resolve);

}  // namespace evalframe::native
