// Recordings in which calls of torch.utils.checkpoint are followed (frontends/torch/checkpoints.h).
#pragma once

#include <cstddef>

#include "recorder/recording.h"
#include "runtime/chain.h"

namespace evalframe::runtime {

// Whether the recording is of no use: it ends in the midst of such a call, or a call has operations that no module of a graph could run again:
// such as are run between two functions of a backend's, or write into what others have made. Then the function is left to torch from now on.
bool drop_for_checkpoints(const recorder::Recording& recording);
// How many of its calls the chain is in the midst of.
size_t checkpoints_within(const Chain& chain, const recorder::Recording& recording);

}  // namespace evalframe::runtime
