#include "regions/gather.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "frontends/numpy/numpy_api.h"
#include "regions/elements.h"
#include "regions/expression.h"
#include "regions/numbers.h"
#include "regions/rows.h"
#include "regions/views.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

constexpr size_t kMostIndices = 4;  // arrays of them in one index

bool is_row_of_ints(const Written& index) {
  return index.type.is_array() && index.type.rank == 1 && native::is_integer(index.type.dtype) && index.type.dtype != DType::uint64 && has_elements(index.type);
}
bool is_mask(const Written& index) { return index.type.is_array() && index.type.dtype == DType::bool_; }

// Of one or two dimensions, as rows.
Block::Rows rows_of(Block& block, const Strided& array) {
  return {array.data, array.sizes.size() == 2 ? array.strides[0] : block.emitter.integer("i64", 0), array.strides.back()};
}

// Room for a new array of so many elements, or rows of them.
Written room_for(Block& block, DType dtype, const std::vector<Term>& sizes) {
  Term bytes = block.emitter.integer("i64", graph::size_of(dtype));
  for (const Term& size : sizes) {
    block.leave_unless(compare("ult", size, kMostSize));
    bytes = bytes * size;
  }
  Written result{.type = fresh_type(dtype, static_cast<int>(sizes.size())), .words = {block.allocate(bytes)}};
  result.words.insert(result.words.end(), sizes.begin(), sizes.end());
  return result;
}

// What is left of an array where the ints of an index have chosen, and the rows of ints for the first axes of that.
struct Chosen {
  Strided from;
  std::vector<Strided> rows;
  bool takes_rows() const { return from.sizes.size() > rows.size(); }
  const Term& count() const { return rows[0].sizes[0]; }
};

Chosen choose(Block& block, const Written& array, const Written& index) {
  const std::vector<Written> indices = index.is_tuple ? index.items : std::vector{index};
  if (indices.size() > static_cast<size_t>(array.type.rank)) throw Unsupported("too many indices");
  Chosen chosen;
  std::vector<Item> items;
  for (const Written& one : indices) {
    if (is_index(one)) {
      items.push_back({Item::Kind::kInteger, as_int(block, one), {}});
    } else if (is_row_of_ints(one)) {
      items.push_back({Item::Kind::kSlice, {}, {}});
      chosen.rows.push_back(strided(block, one));
    } else {
      throw Unsupported("an index of " + text_of(one.type));
    }
  }
  chosen.from = part_of(block, strided(block, array), Varies::kAnyhow, items);
  const size_t rank = chosen.from.sizes.size(), named = chosen.rows.size();
  // Of an index with ints NumPy has rows in another place.
  if (named == 0 || named > kMostIndices || rank > named + 1 || (rank > named && named != indices.size())) throw Unsupported("an index of such arrays");
  for (const Strided& row : chosen.rows) {
    if (row.sizes[0].ref != chosen.count().ref) block.leave_unless(compare("eq", row.sizes[0], chosen.count()));
  }
  if (chosen.takes_rows()) block.leave_unless(compare("sgt", chosen.from.sizes.back(), 0));
  return chosen;
}

// Between what the index names and `beside`, which has it in a row.
void call_for(Block& block, Routine::Kind kind, const Chosen& chosen, const Block::Rows& beside) {
  const auto& [from, rows] = chosen;
  const Term none = block.emitter.integer("i64", 0);
  Routine routine{.kind = kind, .dtype = from.type.dtype};
  std::vector<Block::Rows> operands{beside, {from.data, none, chosen.takes_rows() ? from.strides.back() : none}};
  for (size_t axis = 0; axis < rows.size(); axis++) {
    routine.numbers.push_back({Kind::kNumpy, rows[axis].type.dtype});
    operands.push_back({from.data, from.sizes[axis], from.strides[axis]});
    operands.push_back({rows[axis].data, none, rows[axis].strides[0]});
  }
  block.call(routine, operands, chosen.count(), chosen.takes_rows() ? from.sizes.back() : block.emitter.integer("i64", 1), true);
}

Written gathered_by_ints(Block& block, const Written& array, const Written& index) {
  const Chosen chosen = choose(block, array, index);
  std::vector<Term> sizes{chosen.count()};
  if (chosen.takes_rows()) {
    require_c_order(block, chosen.from);
    sizes.push_back(chosen.from.sizes.back());
  }
  Written result = room_for(block, chosen.from.type.dtype, sizes);
  const Strided to = strided(block, result);
  const Term none = block.emitter.integer("i64", 0);
  call_for(block, Routine::Kind::kGather, chosen, {to.data, to.strides[0], chosen.takes_rows() ? to.strides[1] : none});
  return result;
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

Written gathered_by_mask(Block& block, const Written& array, const Written& mask) {
  const auto [from, kept] = masked(block, array, mask);
  const bool is_matrix = from.sizes.size() == 2, takes_rows = from.sizes.size() > kept.sizes.size();
  if (takes_rows) require_c_order(block, from);
  const Term none = block.emitter.integer("i64", 0), one = block.emitter.integer("i64", 1);
  const Term rows = is_matrix ? from.sizes[0] : one, columns = from.sizes.back();
  Written result = room_for(block, from.type.dtype, takes_rows ? from.sizes : std::vector{rows * columns});
  Block::Rows which = rows_of(block, kept);
  if (takes_rows) which = {kept.data, kept.strides[0], none};
  const Term count = block.number_at(3);
  const Routine routine{.kind = Routine::Kind::kKeep, .dtype = from.type.dtype, .rank = takes_rows ? 1 : 2};
  block.call(routine, {rows_of(block, from), which, {result.words[0], none, none}, {count, none, none}}, rows, columns, false);
  result.words[1] = block.emitter.let("i64", "load i64, ptr " + count.ref);
  return result;
}

// What is stored: rows of elements of that type, or one for all.
Block::Rows to_store(Block& block, const Written& value, DType dtype, int rank, const Term& count, const Term& columns) {
  const Term none = block.emitter.integer("i64", 0);
  if (value.type.is_number()) {
    const Term at = block.number_at(0);
    native::store_element(block.emitter, as_element(block, value, dtype), at.ref, "");
    return {at, none, none};
  }
  if (!value.type.is_array() || value.type.rank != rank) throw Unsupported("a store of " + text_of(value.type) + " by an index");
  const Strided from = strided(block, computed(block, written_array(cast_to(leaf(block, value), dtype))));
  const auto fits = [&](size_t axis, const Term& size) { block.leave_unless(compare("eq", from.sizes[axis], size) | compare("eq", from.sizes[axis], 1)); };
  fits(0, count);
  if (rank == 2) fits(1, columns);
  return {from.data, stretched(block, from.sizes[0], from.strides[0], count), rank == 2 ? stretched(block, from.sizes[1], from.strides[1], columns) : none};
}

void scatter_by_ints(Block& block, const Written& array, const Written& index, const Written& value) {
  const Chosen chosen = choose(block, array, index);
  const int rank = chosen.takes_rows() ? 2 : 1;
  const Block::Rows from = to_store(block, value, chosen.from.type.dtype, rank, chosen.count(), chosen.from.sizes.back());
  block.look_at_conditions();
  call_for(block, Routine::Kind::kScatter, chosen, from);
}

void put_by_mask(Block& block, const Written& array, const Written& mask, const Written& value) {
  const auto [to, kept] = masked(block, array, mask);
  if (to.sizes.size() != kept.sizes.size()) throw Unsupported("rows stored by a mask");
  const Term one = block.emitter.integer("i64", 1), none = block.emitter.integer("i64", 0);
  Block::Rows from{};
  if (value.type.is_number()) {
    from = to_store(block, value, to.type.dtype, 1, none, none);
    from.outer = one;
  } else {
    if (!value.type.is_array() || value.type.rank != 1) throw Unsupported("a store of " + text_of(value.type) + " by a mask");
    const Strided row = strided(block, computed(block, written_array(cast_to(leaf(block, value), to.type.dtype))));
    from = {row.data, row.sizes[0], row.strides[0]};
  }
  block.look_at_conditions();
  block.call({.kind = Routine::Kind::kPut, .dtype = to.type.dtype}, {rows_of(block, to), rows_of(block, kept), from}, to.sizes.size() == 2 ? to.sizes[0] : one, to.sizes.back(), false);
}

// --- what is called -------------------------------------------------------------------------------------------------------

constexpr int32_t kNotGathered = 1;

// An axis, and the row of indices along it.
struct Axis {
  int64_t size, stride;
  const char* indices;
  int64_t step;
};

// How far from the first element those are that the indices name. False: one is out of range.
template <class Index>
bool add_offset(const Axis& axis, int64_t number, int64_t& offset) {
  Index index;
  std::memcpy(&index, axis.indices + number * axis.step, sizeof index);
  auto at = static_cast<int64_t>(index);
  at += at < 0 ? axis.size : 0;
  offset += at * axis.stride;
  return static_cast<uint64_t>(at) < static_cast<uint64_t>(axis.size);
}

using Add = bool (*)(const Axis&, int64_t, int64_t&);

// What adds the offsets of indices of such a type.
Add adder(DType dtype) {
  switch (dtype) {
    case DType::int8: return add_offset<int8_t>;
    case DType::int16: return add_offset<int16_t>;
    case DType::int32: return add_offset<int32_t>;
    case DType::uint8: return add_offset<uint8_t>;
    case DType::uint16: return add_offset<uint16_t>;
    case DType::uint32: return add_offset<uint32_t>;
    default: return add_offset<int64_t>;
  }
}

// Elements that are named one by one, and `beside` them those in a row.
template <size_t element, bool stores>
class NamedRoutine final : public LoadedRoutine {
 public:
  explicit NamedRoutine(const Routine& routine) : is_row_of_int64_(routine.numbers.size() == 1 && routine.numbers[0].dtype == DType::int64) {
    for (const Type& type : routine.numbers) {
      adders_.push_back(adder(type.dtype));
      index_sizes_.push_back(graph::size_of(type.dtype));
    }
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<const NamedRoutine*>(self)->run(data, outer, inner, rows, columns);
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(element);

  int32_t run(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) const {
    Axis axes[kMostIndices];
    for (size_t i = 0; i < adders_.size(); i++) axes[i] = {outer[2 + 2 * i], inner[2 + 2 * i], data[3 + 2 * i], inner[3 + 2 * i]};
    if constexpr (stores) {
      if (overlaps(axes, data, outer, inner, rows, columns)) return kNotGathered;
      for (int64_t i = 0; i < rows; i++) {
        int64_t offset = 0;
        if (!add_offsets(axes, i, offset)) return kNotGathered;
      }
    }
    const auto move = [&](char* named, char* beside) {
      stores ? copy_elements_of<element>(beside, inner[0], named, inner[1], columns) : copy_elements_of<element>(named, inner[1], beside, inner[0], columns);
    };
    if (is_row_of_int64_ && columns == 1) {
      for (int64_t i = 0; i < rows; i++) {
        int64_t offset = 0;
        if (!add_offset<int64_t>(axes[0], i, offset)) return kNotGathered;
        stores ? std::memcpy(data[1] + offset, data[0] + i * outer[0], element) : std::memcpy(data[0] + i * kSize, data[1] + offset, element);
      }
      return 0;
    }
    for (int64_t i = 0; i < rows; i++) {
      int64_t offset = 0;
      if (!add_offsets(axes, i, offset)) return kNotGathered;
      move(data[1] + offset, data[0] + i * outer[0]);
    }
    return 0;
  }

  bool add_offsets(const Axis* axes, int64_t number, int64_t& offset) const {
    for (size_t a = 0; a < adders_.size(); a++) {
      if (!adders_[a](axes[a], number, offset)) return false;
    }
    return true;
  }

  bool overlaps(const Axis* axes, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) const {
    Extent named = Extent(data[1], kSize).along(columns, inner[1]);
    for (size_t a = 0; a < adders_.size(); a++) named = named.along(axes[a].size, axes[a].stride);
    for (size_t a = 0; a < adders_.size(); a++) {
      if (named.meets(Extent(axes[a].indices, index_sizes_[a]).along(rows, axes[a].step))) return true;
    }
    return named.meets(Extent(data[0], kSize).along(rows, outer[0]).along(columns, inner[0]));
  }

  std::vector<Add> adders_;
  std::vector<int64_t> index_sizes_;
  const bool is_row_of_int64_;
};

template <size_t element>
using GatherRoutine = NamedRoutine<element, false>;
template <size_t element>
using ScatterRoutine = NamedRoutine<element, true>;

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
void copy_eight(const char* from, int64_t step, char* to, int64_t to_step) {
  constexpr auto kSize = static_cast<int64_t>(element);
  if (step == kSize && to_step == kSize) std::memcpy(to, from, 8 * element);
  else copy_elements_of<element>(from, step, to, to_step, 8);
}

// Masks have long runs more often than not: what isn't kept costs an eighth of a look.
template <class Visit>
void for_each_eight(const char* mask, int64_t step, int64_t count, Visit visit) {
  for (int64_t first = 0; first < count; first += 8) {
    const int64_t size = std::min<int64_t>(8, count - first);
    visit(first, size, set_of(mask + first * step, step, size));
  }
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
        copy_eight<element>(from + first * step, step, to + kept * kSize, kSize);
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
    const Extent to = Extent(data[0], kSize).along(rows, outer[0]).along(columns, inner[0]);
    if (to.meets(Extent(data[1], 1).along(rows, outer[1]).along(columns, inner[1]))) return kNotGathered;
    const bool one_for_all = outer[2] == 1;
    if (outer[2] > 0 && to.meets(Extent(data[2], kSize).along(outer[2], inner[2]))) return kNotGathered;
    if (!one_for_all) {
      int64_t kept = 0;
      for (int64_t r = 0; r < rows; r++) {
        for_each_eight(data[1] + r * outer[1], inner[1], columns, [&](int64_t, int64_t, uint64_t set) { kept += count_of(set); });
      }
      if (kept != outer[2]) return kNotGathered;
    }
    const char* next = data[2];
    const int64_t step = one_for_all ? 0 : inner[2];
    for (int64_t r = 0; r < rows; r++) {
      for_each_eight(data[1] + r * outer[1], inner[1], columns, [&](int64_t first, int64_t, uint64_t set) {
        char* const place = data[0] + r * outer[0] + first * inner[0];
        if (set == kAllSet) {
          copy_eight<element>(next, step, place, inner[0]);
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

template <template <size_t> class Loaded, size_t element>
RoutineEntry entry_of(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  owners.push_back(std::make_unique<Loaded<element>>(routine));
  return {&Loaded<element>::call, owners.back().get()};
}

template <template <size_t> class Loaded>
RoutineEntry entry_for(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (graph::size_of(routine.dtype)) {
    case 1: return entry_of<Loaded, 1>(routine, owners);
    case 2: return entry_of<Loaded, 2>(routine, owners);
    case 4: return entry_of<Loaded, 4>(routine, owners);
    case 8: return entry_of<Loaded, 8>(routine, owners);
    default: return entry_of<Loaded, 16>(routine, owners);
  }
}

}  // namespace

Written gathered(Block& block, const Written& array, const Written& index) {
  if (!has_elements(array.type)) throw Unsupported("elements of " + text_of(array.type));
  return is_mask(index) ? gathered_by_mask(block, array, index) : gathered_by_ints(block, array, index);
}

void scatter(Block& block, const Written& array, const Written& index, const Written& value) {
  if (!has_elements(array.type)) throw Unsupported("elements of " + text_of(array.type));
  if (!(array.type.flags & NPY_ARRAY_WRITEABLE)) throw Unsupported("a store into an array that is read-only");
  is_mask(index) ? put_by_mask(block, array, index, value) : scatter_by_ints(block, array, index, value);
}

RoutineEntry gather_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (routine.kind) {
    case Routine::Kind::kGather: return entry_for<GatherRoutine>(routine, owners);
    case Routine::Kind::kScatter: return entry_for<ScatterRoutine>(routine, owners);
    case Routine::Kind::kKeep: return entry_for<KeepRoutine>(routine, owners);
    default: return entry_for<PutRoutine>(routine, owners);
  }
}

}  // namespace evalframe::regions
