// Functions that stand for others, so that the frames of the generators that they make tell whose they are. A hook sees these frames
// as long as one of them lives.
#pragma once

#include <memory>

#include "cpython/hook.h"

namespace evalframe::cpython {

// A function that does what `function` does, whose generators are the owner's: they hold both. The hook is told when they go on.
// Null with an exception.
Ref function_for_generators(Borrowed function, Borrowed owner, const std::shared_ptr<FrameHook>& hook);
// Null: it is no such function.
Borrowed owner_of_generators(Borrowed function);
// The function that it stands for; of others itself.
Borrowed original_function(Borrowed function);

}  // namespace evalframe::cpython
