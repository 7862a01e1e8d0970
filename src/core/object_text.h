// Texts about objects that run none of the program's code: no __repr__, __getattr__ or property of its classes.
#pragma once

#include <string>
#include <string_view>

#include "core/ref.h"

namespace evalframe {

// UTF-8 of a str, which holds it; "?" for all else, and for text that has none: names of files and attributes may have lone surrogates.
std::string_view utf8(Borrowed text);
// The qualified name of a class, function, method or built-in function; empty for all else.
std::string qualified_name(Borrowed object);
// That name, the repr of numbers, strings and tuples of such, and of all else its type. At most `limit` characters.
std::string object_text(Borrowed object, size_t limit = 60);

}  // namespace evalframe
