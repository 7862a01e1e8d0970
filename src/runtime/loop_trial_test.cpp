// Tests of the decision whether a loop pays.
#include "core/testing.h"
#include "runtime/loop_trial.h"

using evalframe::runtime::LoopTrial;

namespace {

int turns_to_trial(LoopTrial& trial) {
  int turns = 1;
  while (!trial.is_due()) turns++;
  return turns;
}

void decide(LoopTrial& trial, double served, double run) {
  trial.begin();
  while (!trial.add(trial.runs_next() ? run : served)) {
  }
}

}  // namespace

TEST(LoopThatIsServedFasterIsServed) {
  LoopTrial trial;
  EXPECT(turns_to_trial(trial) == 32);
  decide(trial, 1.0, 2.0);
  EXPECT(!trial.skips());
  EXPECT(turns_to_trial(trial) == 32);
}

TEST(LoopThatIsRunFasterIsLeftAloneAndTriedAgain) {
  LoopTrial trial;
  turns_to_trial(trial);
  decide(trial, 2.0, 1.0);
  for (int i = 0; i < 15; i++) EXPECT(trial.skips());
  EXPECT(!trial.skips());
  EXPECT(turns_to_trial(trial) == 4);
}

TEST(OneTurnThatWasHeldUpDoesNotDecide) {
  LoopTrial trial;
  turns_to_trial(trial);
  trial.begin();
  int sample = 0;
  while (!trial.add(sample == 4 ? 1000.0 : trial.runs_next() ? 2.0 : 1.0)) sample++;
  EXPECT(!trial.skips());
}

TEST(OneInThirteenTurnsThatAreLeftAloneIsASample) {
  LoopTrial trial;
  turns_to_trial(trial);
  decide(trial, 2.0, 1.0);
  int samples = 0;
  for (int i = 0; i < 15; i++) {
    EXPECT(trial.skips());
    samples += trial.is_sample();
  }
  EXPECT(samples == 1);
}
