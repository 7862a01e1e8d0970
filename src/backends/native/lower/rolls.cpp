// Lowers what is rolled: read where its elements were, in as many parts of a kernel's space as it takes.
#include "backends/native/lower/lowering.h"

#include <utility>

namespace evalframe::native::lowering {

void Lowering::lower_rolled(int32_t node, const Meaning& meaning) {
  if (is_written(node)) throw Unsupported{node};
  Value value = element_of(meaning.args[0], meaning.loop);
  const int layout = layout_of_copy(value, false);
  value = in_memory(meaning.args[0], std::move(value));
  value.fixed = true;
  value.place = {};
  value.layout = layout;
  value.box.complete = false;
  value.box.rolls.resize(value.dims.size(), -1);
  for (size_t axis = 0; axis < meaning.items.size(); axis++) {
    const IndexItem& by = meaning.items[axis];
    if (by.start == 0) continue;
    int& roll = value.box.rolls[axis];
    roll = symbol({.kind = Symbol::Kind::kRolled, .a = value.dims[axis], .b = number(by.start_at), .start = by.start, .c = roll});
  }
  value_at(node) = std::move(value);
}

}  // namespace evalframe::native::lowering
