#include "regions/gather.h"

#include <algorithm>
#include <cstring>

#include "frontends/numpy/numpy_api.h"
#include "regions/elements.h"
#include "regions/expression.h"
#include "regions/masks.h"
#include "regions/numbers.h"
#include "regions/rows.h"
#include "regions/views.h"

namespace evalframe::regions {

using Kind = Type::Kind;

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

Block::Rows number_to_store(Block& block, const Written& number, DType dtype) {
  const Term at = block.number_at(0), none = block.emitter.integer("i64", 0);
  native::store_element(block.emitter, as_element(block, number, dtype), at.ref, "");
  return {at, none, none};
}

namespace {

constexpr size_t kMostIndices = 4;  // arrays of them in one index

bool is_row_of_ints(const Written& index) {
  return index.type.is_array() && index.type.rank == 1 && native::is_integer(index.type.dtype) && index.type.dtype != DType::uint64 && has_elements(index.type);
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

// What is stored: rows of elements of that type, or one for all.
Block::Rows to_store(Block& block, const Written& value, DType dtype, int rank, const Term& count, const Term& columns) {
  const Term none = block.emitter.integer("i64", 0);
  if (value.type.is_number()) return number_to_store(block, value, dtype);
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
  return routine.kind == Routine::Kind::kGather ? entry_for<GatherRoutine>(routine, owners) : entry_for<ScatterRoutine>(routine, owners);
}

}  // namespace evalframe::regions
