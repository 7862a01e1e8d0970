// Object code, and what else later processes are to find, on disk, by the hash of everything it depends on: private to the user, written atomically, verified before use.
#pragma once

#include <optional>
#include <string>

namespace evalframe::native {

// key: 32 bytes. Nothing where the cache is off, has no such file, or the file is not one that this user's evalframe wrote.
// suffix: of the file's name.
std::optional<std::string> cached_object(const std::string& key, const char* suffix = ".o");
// Best effort: a directory that can't be written leaves the program without a cache.
void cache_object(const std::string& key, const std::string& object, const char* suffix = ".o");

}  // namespace evalframe::native
