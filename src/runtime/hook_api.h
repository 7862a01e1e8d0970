// The table of functions behind the installed header evalframe/hook.h.
#pragma once

#include "evalframe/hook.h"

namespace evalframe::runtime {

const evalframe_hook_api& hook_api();

}  // namespace evalframe::runtime
