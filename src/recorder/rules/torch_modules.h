// What torch.nn.Module's own methods do is known, so they needn't be followed.
#pragma once

#include <optional>

#include "recorder/rules/rules.h"

namespace evalframe::recorder {

// module.name, where neither the module nor its class has it and the class asks `hook`, its __getattr__. None: another hook, or it isn't known
// what that gives: it is followed.
std::optional<Plan> attribute_of_module(Recorder& recorder, const Asked& asked, PyObject* hook);

}  // namespace evalframe::recorder
