// Tests of when dead functions are looked for.
#include "core/testing.h"
#include "runtime/dead_functions.h"

TEST(LooksForDeadFunctionsTakeASmallPartOfWhatRecordingsTake) {
  evalframe::runtime::Looks looks;
  EXPECT(looks.are_due());
  looks.took(100);  // a small program: at each recording
  EXPECT(looks.are_due());
  looks.took(100'000);
  int recordings = 1;
  while (!looks.are_due()) recordings++;
  EXPECT(recordings == 50);
  EXPECT(looks.are_due());  // nobody has looked
}
