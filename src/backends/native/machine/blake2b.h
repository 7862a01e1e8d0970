// BLAKE2b (RFC 7693), for the names and checks of cached object code: a loop's IR is some megabytes before it is final, and this reads half a gigabyte a second or more.
#pragma once

#include <string>
#include <string_view>

namespace evalframe::native {

std::string blake2b(std::string_view data);  // 32 bytes
std::string hex(std::string_view bytes);

}  // namespace evalframe::native
