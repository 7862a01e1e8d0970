// The mode in which every Python frame of the process runs in our evaluator.
#pragma once

namespace evalframe::evaluator {

// False with RuntimeError where the frame hook can't be installed. Switching on again does nothing.
bool evaluate_all_frames();
// Frames that run now go on as they are; their callees, and they themselves when generators, are CPython's again.
void stop_evaluating_all_frames();
bool evaluates_all_frames();

}  // namespace evalframe::evaluator
