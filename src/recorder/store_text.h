// What the recorded code stores into things from outside, as text for people.
#pragma once

#include <string>

#include "recorder/recording.h"

namespace evalframe::recorder {

// Such as `store self.total`.
std::string store_text(const Recording& recording, const Name& name);

}  // namespace evalframe::recorder
