// Calls of torch.utils.checkpoint in recordings, which are followed between two marks (frontends/torch/checkpoints.h).
#pragma once

#include "core/ref.h"

namespace evalframe::recorder {

// Whether those that this code makes are followed: not where it is known that a recording ends in one.
bool follows_checkpoints(Borrowed code);
void follow_no_checkpoints(Borrowed code);

}  // namespace evalframe::recorder
