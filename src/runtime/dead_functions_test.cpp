// Tests of when dead functions are looked for.
#include "core/testing.h"
#include "runtime/dead_functions.h"

TEST(LooksForDeadFunctionsTakeASmallPartOfWhatRecordingsTake) {
  evalframe::runtime::Looks looks;
  EXPECT(looks.are_due());
  looks.took(100);  // a small program: at each recording
  EXPECT(looks.are_due());
  looks.took(25'000);
  int recordings = 1;
  while (!looks.are_due()) recordings++;
  EXPECT(recordings == 50);
  EXPECT(looks.are_due());  // nobody has looked
}

TEST(LooksForDeadFunctionsMayBeHadAheadWhereThereIsNoRoomButNotWithoutEnd) {
  evalframe::runtime::Looks looks;
  int looked = 0;
  for (int recordings = 0; recordings < 1000; recordings++) {
    if (!looks.are_due(true)) continue;
    looked++;
    looks.took(5'000);
  }
  EXPECT(looked >= 100 && looked <= 105);  // as many as were paid for, and a few
  EXPECT(!looks.are_due());
}
