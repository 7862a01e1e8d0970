// Tests of the decision whether a function pays.
#include "core/testing.h"
#include "runtime/call_trial.h"

using evalframe::runtime::CallTrial, evalframe::runtime::PlainSample;

namespace {

// Calls until the trial is decided; how many of them ran plainly.
int decide(CallTrial& trial, double served, double plain) {
  int plain_calls = 0;
  for (CallTrial::Turn turn = trial.next(); turn == CallTrial::Turn::kTimedServe || turn == CallTrial::Turn::kTimedPlain; turn = trial.next()) {
    const bool is_plain = turn == CallTrial::Turn::kTimedPlain;
    plain_calls += is_plain;
    trial.add(turn, is_plain ? plain : served);
  }
  return plain_calls;
}

int calls_at_rest(CallTrial& trial) {
  int calls = 1;
  while (trial.next() == (trial.serves() ? CallTrial::Turn::kServe : CallTrial::Turn::kPlain)) calls++;
  return calls;
}

}  // namespace

TEST(FunctionThatIsServedFasterIsServed) {
  CallTrial trial;
  const int plain_calls = decide(trial, 1e-6, 2e-6);
  EXPECT(plain_calls >= 4 && plain_calls <= 8);
  EXPECT(trial.serves());
}

TEST(FunctionThatRunsFasterIsLeftAloneAndTriedAgain) {
  CallTrial trial;
  decide(trial, 1.1e-6, 1e-6);
  EXPECT(!trial.serves());
  EXPECT(calls_at_rest(trial) == 2048);
  trial.add(CallTrial::Turn::kTimedServe, 1e-6);
  decide(trial, 1e-6, 5e-6);
  EXPECT(trial.serves());
  EXPECT(calls_at_rest(trial) == 4096);
}

TEST(CallsOfATimedCallAreRunAsItIs) {
  CallTrial trial;
  CallTrial::Turn turn = trial.next();
  while (turn == CallTrial::Turn::kTimedServe) {
    EXPECT(trial.next() == CallTrial::Turn::kServe);
    trial.add(turn, 1e-6);
    turn = trial.next();
  }
  EXPECT(turn == CallTrial::Turn::kTimedPlain);
  EXPECT(trial.next() == CallTrial::Turn::kPlain);
}

TEST(PlainSamplesServeWhatIsKnownToPayOnly) {
  CallTrial trial;
  {
    const PlainSample sample;
    for (int call = 0; call < 100; call++) EXPECT(trial.next() == CallTrial::Turn::kPlain);
  }
  EXPECT(trial.next() == CallTrial::Turn::kTimedServe);
  trial.add(CallTrial::Turn::kTimedServe, 1e-6);
  decide(trial, 1e-6, 2e-6);
  const PlainSample sample;
  EXPECT(trial.next() == CallTrial::Turn::kServe);
}

TEST(LongCallHasALimitBehindTwoServedOnes) {
  CallTrial trial;
  CallTrial::Turn turn = trial.next();
  int served = 0;
  for (; turn == CallTrial::Turn::kTimedServe; turn = trial.next(), served++) {
    EXPECT(!trial.limit());
    trial.add(turn, 0.01);
  }
  EXPECT(turn == CallTrial::Turn::kTimedPlain);
  EXPECT(served == 10);  // eight that warm up
  EXPECT(trial.limit() == 0.02);
  trial.add(turn, 0.0201);
  EXPECT(trial.next() == CallTrial::Turn::kServe);
}

TEST(LongCallThatDoesNotLoseAtOnceHasNoLimitFromThenOn) {
  CallTrial trial;
  CallTrial::Turn turn = trial.next();
  for (; turn == CallTrial::Turn::kTimedServe; turn = trial.next()) trial.add(turn, 0.01);
  EXPECT(trial.limit());
  trial.add(turn, 0.011);
  EXPECT(!trial.limit());
  const int plain_calls = decide(trial, 0.01, 0.0095);
  EXPECT(plain_calls >= 3);
  EXPECT(!trial.serves());
}

TEST(CallsServedBeforeMoreWasCompiledDoNotDecide) {
  CallTrial trial;
  constexpr int kBusy = 57;  // six behind those that warm up
  int served = 0, plain = 0;
  for (CallTrial::Turn turn = trial.next(); turn == CallTrial::Turn::kTimedServe || turn == CallTrial::Turn::kTimedPlain; turn = trial.next()) {
    const bool is_plain = turn == CallTrial::Turn::kTimedPlain;
    served += !is_plain;
    if (!is_plain && served == kBusy) trial.leave_out();
    else trial.add(turn, is_plain ? (plain++ % 2 ? 1e-6 : 1.6e-6) : served < kBusy ? 1.5e-6 : 0.8e-6);
  }
  EXPECT(served > kBusy);
  EXPECT(trial.serves());
}
