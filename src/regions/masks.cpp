#include "regions/masks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "regions/gather.h"
#include "regions/rows.h"
#include "regions/views.h"

namespace evalframe::regions {

using native::ScalarOp;

bool is_mask(const Written& index) { return index.type.is_array() && index.type.dtype == DType::bool_; }

namespace {

// Of one or two dimensions, as rows.
Block::Rows rows_of(Block& block, const Strided& array) {
  return {array.data, array.sizes.size() == 2 ? array.strides[0] : block.emitter.integer("i64", 0), array.strides.back()};
}

Term row_count(Block& block, const Strided& array) { return array.sizes.size() == 2 ? array.sizes[0] : block.emitter.integer("i64", 1); }

// Takes what `which` keeps; where the number of it is stored.
Term call_keep(Block& block, const Strided& from, const Block::Rows& which, int rank, const Written& result) {
  const Term none = block.emitter.integer("i64", 0), count = block.number_at(3);
  const Routine routine{.kind = Routine::Kind::kKeep, .dtype = from.type.dtype, .rank = rank};
  block.call(routine, {rows_of(block, from), which, {result.words[0], none, none}, {count, none, none}}, row_count(block, from), from.sizes.back(), false);
  return count;
}

// Of the same sizes, or for the first axis alone.
std::pair<Strided, Strided> masked(Block& block, const Written& array, const Written& mask) {
  std::pair<Strided, Strided> both{strided(block, array), strided(block, mask)};
  const auto& [from, kept] = both;
  if (from.sizes.size() > 2 || kept.sizes.size() > from.sizes.size()) throw Unsupported("a mask of such an array");
  for (size_t axis = 0; axis < kept.sizes.size(); axis++) {
    if (from.sizes[axis].ref != kept.sizes[axis].ref) block.leave_unless(compare("eq", from.sizes[axis], kept.sizes[axis]));
  }
  for (const Term& size : from.sizes) block.leave_unless(compare("sgt", size, 0) & compare("ult", size, kMostSize));
  return both;
}

}  // namespace

Written gathered_by_mask(Block& block, const Written& array, const Written& mask) {
  const auto [from, kept] = masked(block, array, mask);
  const bool takes_rows = from.sizes.size() > kept.sizes.size();
  if (takes_rows) require_c_order(block, from);
  Written result = room_for(block, from.type.dtype, takes_rows ? from.sizes : std::vector{row_count(block, from) * from.sizes.back()});
  Block::Rows which = rows_of(block, kept);
  if (takes_rows) which = {kept.data, kept.strides[0], block.emitter.integer("i64", 0)};
  const Term count = call_keep(block, from, which, takes_rows ? 1 : 2, result);
  result.words[1] = block.emitter.let("i64", "load i64, ptr " + count.ref);
  return result;
}

// --- computed where they stand ----------------------------------------------------------------------------------------------

namespace {

ExpressionRef leaf_of(const Strided& array, const std::vector<Term>& sizes) {
  auto made = std::make_shared<Expression>(Expression{.dtype = array.type.dtype, .sizes = sizes});
  made->array = std::make_shared<Strided>(array);
  made->array->sizes = sizes;
  return made;
}

bool are_same(const Strided& a, const Strided& b) {
  return a.data.ref == b.data.ref && std::equal(a.strides.begin(), a.strides.end(), b.strides.begin(), b.strides.end(), [](const Term& x, const Term& y) { return x.ref == y.ref; });
}

// Whether it is made of what this very mask keeps, and numbers, and stands nowhere yet.
bool is_kept_by(const Expression& value, const Strided& mask) {
  if (value.made || value.is_rolled()) return false;
  if (value.is_kept) return are_same(*value.operands[1]->array, mask);
  if (value.is_leaf()) return !value.array;
  // Of a size of its own.
  const bool is_filled = !value.sizes.empty() && std::all_of(value.operands.begin(), value.operands.end(), [](const ExpressionRef& operand) { return operand->sizes.empty(); });
  return !is_filled && std::all_of(value.operands.begin(), value.operands.end(), [&](const ExpressionRef& operand) { return is_kept_by(*operand, mask); });
}

// Such a value, for all elements.
class WhereKept {
 public:
  WhereKept(Block& block, const Strided& to, const Strided& mask) : block_(block), to_(to), mask_(leaf_of(mask, to.sizes)) {}

  ExpressionRef stored(const ExpressionRef& value) {
    ExpressionRef made = chosen(of(*cast_to(value, to_.type.dtype)), array(to_));
    made->skips = true;
    return made;
  }

 private:
  // Of elements that aren't kept all begins with ones, and so meets no condition here.
  static bool is_harmless(ScalarOp op) {
    switch (op) {
      case ScalarOp::cast:
      case ScalarOp::add:
      case ScalarOp::subtract:
      case ScalarOp::multiply:
      case ScalarOp::multiply_fused:
      case ScalarOp::square:
      case ScalarOp::square_fused:
      case ScalarOp::absolute: return true;
      default: return native::flags_of(op) == native::Flags::none || native::flags_of(op) == native::Flags::passes;
    }
  }

  ExpressionRef of(const Expression& value) {
    ExpressionRef& made = made_[&value];
    if (made) return made;
    if (value.is_kept) return made = harmless(array(*value.operands[0]->array));
    if (value.is_leaf()) return made = leaf(value.number);
    std::vector<ExpressionRef> operands;
    for (const ExpressionRef& operand : value.operands) operands.push_back(is_harmless(value.op) ? of(*operand) : harmless(of(*operand)));
    made = operation(value.op, value.dtype, std::move(operands));
    const bool is_number = std::all_of(made->operands.begin(), made->operands.end(), [](const ExpressionRef& operand) { return operand->sizes.empty(); });
    if (!is_number) made->sizes = to_.sizes;
    return made;
  }

  // One leaf for each array.
  ExpressionRef array(const Strided& array) {
    for (const ExpressionRef& known : arrays_) {
      if (known->dtype == array.type.dtype && are_same(*known->array, array)) return known;
    }
    return arrays_.emplace_back(leaf_of(array, to_.sizes));
  }

  ExpressionRef chosen(const ExpressionRef& value, const ExpressionRef& elsewhere) {
    ExpressionRef made = operation(ScalarOp::select, value->dtype, {mask_, value, elsewhere});
    made->sizes = to_.sizes;
    return made;
  }

  ExpressionRef harmless(const ExpressionRef& value) {
    if (value->sizes.empty()) return value;
    return chosen(value, leaf(native::cast(native::exact(DType::float64, block_.emitter.number("double", 1.0)), value->dtype)));
  }

  Block& block_;
  const Strided& to_;
  const ExpressionRef mask_;
  std::map<const Expression*, ExpressionRef> made_;
  std::vector<ExpressionRef> arrays_;
};

Term count_of_kept(Block& block, const Strided& mask) {
  const Block::Rows which = rows_of(block, mask);
  const auto [known, is_new] = block.kept_counts.try_emplace(which.data.ref + " " + which.outer.ref + " " + which.inner.ref);
  if (!is_new) return known->second;
  const Term none = block.emitter.integer("i64", 0), count = block.number_at(3);
  block.call({.kind = Routine::Kind::kCount}, {which, {count, none, none}}, row_count(block, mask), mask.sizes.back(), false);
  return known->second = block.emitter.let("i64", "load i64, ptr " + count.ref);
}

void mark_computed(Expression& value) {
  value.is_computed = true;
  for (const ExpressionRef& operand : value.operands) mark_computed(*operand);
}

}  // namespace

Written kept(Block& block, const Written& array, const Written& mask) {
  const auto [from, which] = masked(block, array, mask);
  if (from.sizes.size() != which.sizes.size()) throw Unsupported("rows of an array that is stored into");
  ExpressionRef made = operation(ScalarOp::cast, from.type.dtype, {leaf_of(from, from.sizes), leaf_of(which, from.sizes)});
  made->is_kept = true;
  made->sizes = {count_of_kept(block, which)};
  return written_array(std::move(made));
}

Written kept_copy(Block& block, const Expression& kept) {
  const Strided &from = *kept.operands[0]->array, &which = *kept.operands[1]->array;
  Written result = room_for(block, kept.dtype, {kept.sizes[0]});
  call_keep(block, from, rows_of(block, which), 2, result);
  return result;
}

void leave_to_store(Block& block, const Written& mask, const Written& value) {
  if (is_mask(mask) && !mask.expression && value.expression && is_kept_by(*value.expression, strided(block, mask))) mark_computed(*value.expression);
}

// Computed beside it, and put there once there was no condition.
static void store_kept(Block& block, const Strided& to, const Strided& mask, const ExpressionRef& value) {
  const Strided made = strided(block, computed(block, written_array(WhereKept(block, to, mask).stored(value))));
  block.look_at_conditions();
  block.call({.kind = Routine::Kind::kPutKept, .dtype = to.type.dtype}, {rows_of(block, to), rows_of(block, mask), rows_of(block, made)}, row_count(block, to), to.sizes.back(), false);
}

void put_by_mask(Block& block, const Written& array, const Written& mask, const Written& value) {
  const auto [to, kept] = masked(block, array, mask);
  if (to.sizes.size() != kept.sizes.size()) throw Unsupported("rows stored by a mask");
  Block::Rows from{};
  if (value.type.is_number()) {
    from = number_to_store(block, value, to.type.dtype);
    from.outer = block.emitter.integer("i64", 1);
  } else {
    if (!value.type.is_array() || value.type.rank != 1) throw Unsupported("a store of " + text_of(value.type) + " by a mask");
    if (value.expression && is_kept_by(*value.expression, kept)) return store_kept(block, to, kept, value.expression);
    const Strided row = strided(block, computed(block, written_array(cast_to(leaf(block, value), to.type.dtype))));
    from = {row.data, row.sizes[0], row.strides[0]};
  }
  block.look_at_conditions();
  block.call({.kind = Routine::Kind::kPut, .dtype = to.type.dtype}, {rows_of(block, to), rows_of(block, kept), from}, row_count(block, to), to.sizes.back(), false);
}

// --- what is called -------------------------------------------------------------------------------------------------------

namespace {

constexpr int32_t kNotPut = 1;

// Of eight bytes of a mask: the highest bit of each that is set.
constexpr uint64_t kAllSet = 0x8080808080808080;

uint64_t set_of(const char* mask, int64_t step, int64_t count) {
  uint64_t bytes = 0;
  if (step == 1 && count == 8) std::memcpy(&bytes, mask, sizeof bytes);
  else for (int64_t i = 0; i < count; i++) bytes |= uint64_t{static_cast<unsigned char>(mask[i * step])} << 8 * i;
  return (((bytes & ~kAllSet) + ~kAllSet) | bytes) & kAllSet;
}

int64_t count_of(uint64_t set) { return static_cast<int64_t>((set >> 7) * 0x0101010101010101 >> 56); }

// Of memory that doesn't overlap.
template <size_t element>
void copy_row(const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  constexpr auto kSize = static_cast<int64_t>(element);
  if (step == kSize && to_step == kSize) std::memcpy(to, from, static_cast<size_t>(count) * element);
  else copy_elements_of<element>(from, step, to, to_step, count);
}

// Masks have long runs more often than not: what isn't kept costs an eighth of a look.
template <class Visit>
void for_each_eight(const char* mask, int64_t step, int64_t count, Visit visit) {
  for (int64_t first = 0; first < count; first += 8) {
    const int64_t size = std::min<int64_t>(8, count - first);
    visit(first, size, set_of(mask + first * step, step, size));
  }
}

// How many elements a mask keeps.
int64_t count_in(const char* mask, int64_t outer, int64_t inner, int64_t rows, int64_t columns) {
  int64_t kept = 0;
  for (int64_t r = 0; r < rows; r++) {
    for_each_eight(mask + r * outer, inner, columns, [&](int64_t, int64_t, uint64_t set) { kept += count_of(set); });
  }
  return kept;
}

// Of the first operand of a store, and whether the second one, the mask, has some of its memory.
Extent extent_of(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns, int64_t size) {
  return Extent(data[0], size).along(rows, outer[0]).along(columns, inner[0]);
}
bool is_on_mask(const Extent& to, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
  return to.meets(Extent(data[1], 1).along(rows, outer[1]).along(columns, inner[1]));
}

template <size_t element>
class KeepRoutine final : public LoadedRoutine {
 public:
  explicit KeepRoutine(const Routine& routine) : keeps_rows_(routine.rank == 1) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    const bool keeps_rows = static_cast<KeepRoutine*>(self)->keeps_rows_;
    int64_t kept = 0;
    for (int64_t r = 0; r < rows; r++) {
      const char *const from = data[0] + r * outer[0], *const mask = data[1] + r * outer[1];
      if (!keeps_rows) kept += keep(from, inner[0], mask, inner[1], data[2] + kept * kSize, columns);
      else if (*mask) copy_elements_of<element>(from, inner[0], data[2] + kept++ * columns * kSize, kSize, columns);
    }
    std::memcpy(data[3], &kept, sizeof kept);
    return 0;
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(element);

  static int64_t keep(const char* from, int64_t step, const char* mask, int64_t mask_step, char* to, int64_t count) {
    int64_t kept = 0;
    for_each_eight(mask, mask_step, count, [&](int64_t first, int64_t size, uint64_t set) {
      if (set == kAllSet) {
        copy_row<element>(from + first * step, step, to + kept * kSize, kSize, 8);
        kept += 8;
      } else if (set) {
        // Each is written, and overwritten by the next one where it isn't kept: there is room for all.
        for (int64_t i = 0; i < size; i++) {
          std::memcpy(to + kept * kSize, from + (first + i) * step, element);
          kept += static_cast<int64_t>(set >> (8 * i + 7) & 1);
        }
      }
    });
    return kept;
  }

  const bool keeps_rows_;
};

template <size_t element>
class PutRoutine final : public LoadedRoutine {
 public:
  explicit PutRoutine(const Routine&) {}

  static int32_t call(LoadedRoutine*, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    const Extent to = extent_of(data, outer, inner, rows, columns, kSize);
    if (is_on_mask(to, data, outer, inner, rows, columns)) return kNotPut;
    const bool one_for_all = outer[2] == 1;
    if (outer[2] > 0 && to.meets(Extent(data[2], kSize).along(outer[2], inner[2]))) return kNotPut;
    if (!one_for_all && count_in(data[1], outer[1], inner[1], rows, columns) != outer[2]) return kNotPut;
    const char* next = data[2];
    const int64_t step = one_for_all ? 0 : inner[2];
    for (int64_t r = 0; r < rows; r++) {
      for_each_eight(data[1] + r * outer[1], inner[1], columns, [&](int64_t first, int64_t, uint64_t set) {
        char* const place = data[0] + r * outer[0] + first * inner[0];
        if (set == kAllSet) {
          copy_row<element>(next, step, place, inner[0], 8);
          next += 8 * step;
        }
        for (uint64_t rest = set == kAllSet ? 0 : set; rest; rest &= rest - 1, next += step) std::memcpy(place + std::countr_zero(rest) / 8 * inner[0], next, element);
      });
    }
    return 0;
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(element);
};

class CountRoutine final : public LoadedRoutine {
 public:
  static int32_t call(LoadedRoutine*, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    const int64_t kept = count_in(data[0], outer[0], inner[0], rows, columns);
    std::memcpy(data[1], &kept, sizeof kept);
    return 0;
  }
};

template <size_t element>
class PutKeptRoutine final : public LoadedRoutine {
 public:
  explicit PutKeptRoutine(const Routine&) {}

  static int32_t call(LoadedRoutine*, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    if (is_on_mask(extent_of(data, outer, inner, rows, columns, kSize), data, outer, inner, rows, columns)) return kNotPut;
    join_rows(outer, inner, 3, rows, columns);
    return for_each_kept_part(data[1], outer[1], inner[1], rows, columns, [&](int64_t row, int64_t column, int64_t some_rows, int64_t some_columns) {
      for (int64_t r = row; r < row + some_rows; r++) copy_row<element>(data[2] + r * outer[2] + column * inner[2], inner[2], data[0] + r * outer[0] + column * inner[0], inner[0], some_columns);
      return 0;
    });
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(element);
};

}  // namespace

RoutineEntry mask_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (routine.kind) {
    case Routine::Kind::kKeep: return entry_for<KeepRoutine>(routine, owners);
    case Routine::Kind::kPut: return entry_for<PutRoutine>(routine, owners);
    case Routine::Kind::kPutKept: return entry_for<PutKeptRoutine>(routine, owners);
    default: owners.push_back(std::make_unique<CountRoutine>()); return {&CountRoutine::call, owners.back().get()};
  }
}

}  // namespace evalframe::regions
