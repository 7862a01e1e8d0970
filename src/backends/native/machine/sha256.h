// SHA-256 (FIPS 180-4), for the names and checks of cached object code.
#pragma once

#include <string>
#include <string_view>

namespace evalframe::native {

std::string sha256(std::string_view data);  // 32 bytes
std::string hex(std::string_view bytes);

}  // namespace evalframe::native
