// Which words a row says have changed.
#include "core/word_rows.h"

#include "core/testing.h"

using evalframe::word_at, evalframe::Word, evalframe::WordRows;

TEST(WordRowSeesEachWordChange) {
  uint64_t memory[12] = {};
  // Alone, two and three one behind the other, in any order.
  const std::vector<size_t> places = {9, 0, 4, 2, 8, 3, 7};
  WordRows rows;
  std::vector<Word> row;
  for (const size_t place : places) row.push_back(word_at(memory + place));
  rows.add(row);
  EXPECT(rows.count() == 1 && rows.is_unchanged(0) && !rows.changed_in(0));
  for (size_t place = 0; place < std::size(memory); place++) {
    memory[place] = 1;
    const bool is_in_it = std::ranges::find(places, place) != places.end();
    EXPECT(rows.is_unchanged(0) == !is_in_it);
    EXPECT(rows.changed_in(0) == (is_in_it ? memory + place : nullptr));
    memory[place] = 0;
  }
}

TEST(WordRowsAreComparedOneByOne) {
  uint64_t memory[40] = {};
  WordRows rows;
  for (size_t size = 0; size <= 8; size++) {
    std::vector<Word> row;
    for (size_t i = 0; i < size; i++) row.push_back(word_at(memory + 4 * i + size % 2));
    rows.add(row);
  }
  EXPECT(rows.count() == 9);
  memory[4 * 7] = 1;  // in the last row alone
  for (int32_t row = 0; row < 8; row++) EXPECT(rows.is_unchanged(row));
  EXPECT(!rows.is_unchanged(8));
  rows.learn_anew();
  EXPECT(rows.is_unchanged(8));
}
