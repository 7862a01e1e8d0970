#include "regions/gather.h"

#include <cstring>

#include "regions/elements.h"
#include "regions/expression.h"
#include "regions/numbers.h"
#include "regions/views.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

constexpr size_t kMostIndices = 4;  // arrays of them in one index

bool is_row_of_ints(const Written& index) {
  return index.type.is_array() && index.type.rank == 1 && native::is_integer(index.type.dtype) && index.type.dtype != DType::uint64 && has_elements(index.type);
}
bool is_mask(const Written& index) { return index.type.is_array() && index.type.rank == 1 && index.type.dtype == DType::bool_; }

Block::Rows row_of(const Strided& array, const Term& outer) { return {array.data, outer, array.strides.back()}; }

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

// What is left of an array where its ints have chosen, and the rows of ints for the axes of that.
struct Chosen {
  Strided from;
  std::vector<Strided> rows;
};

Chosen choose(Block& block, const Written& array, const std::vector<Written>& indices) {
  if (indices.size() > static_cast<size_t>(array.type.rank)) throw Unsupported("too many indices");
  Chosen chosen;
  std::vector<Item> items;
  for (const Written& index : indices) {
    if (is_index(index)) {
      items.push_back({Item::Kind::kInteger, as_int(block, index)});
    } else if (is_row_of_ints(index)) {
      items.push_back({Item::Kind::kSlice});
      chosen.rows.push_back(strided(block, index));
    } else {
      throw Unsupported("an index of " + text_of(index.type));
    }
  }
  chosen.from = part_of(block, strided(block, array), Varies::kAnyhow, items);
  return chosen;
}

Written gathered_by_ints(Block& block, const Written& array, const std::vector<Written>& indices) {
  const Chosen chosen = choose(block, array, indices);
  const auto& [from, rows] = chosen;
  const size_t rank = from.sizes.size(), kept = rank - rows.size();
  if (rows.empty() || rows.size() > kMostIndices || kept > 1 || (kept == 1 && rank != indices.size() + 1)) throw Unsupported("an index of such arrays");
  const Term none = block.emitter.integer("i64", 0), count = rows[0].sizes[0];
  for (const Strided& row : rows) {
    if (row.sizes[0].ref != count.ref) block.leave_unless(compare("eq", row.sizes[0], count));
  }
  std::vector<Term> sizes{count};
  if (kept) {
    require_c_order(block, from);
    block.leave_unless(compare("sgt", from.sizes.back(), 0));
    sizes.push_back(from.sizes.back());
  }
  Written result = room_for(block, from.type.dtype, sizes);
  const Strided to = strided(block, result);
  Routine routine{.kind = Routine::Kind::kGather, .dtype = from.type.dtype};
  std::vector<Block::Rows> operands{{to.data, to.strides[0], kept ? to.strides[1] : none}, {from.data, none, kept ? from.strides.back() : none}};
  for (size_t axis = 0; axis < rows.size(); axis++) {
    routine.numbers.push_back({Kind::kNumpy, rows[axis].type.dtype});
    operands.push_back({from.data, from.sizes[axis], from.strides[axis]});
    operands.push_back({rows[axis].data, none, rows[axis].strides[0]});
  }
  block.call(routine, operands, count, kept ? from.sizes.back() : block.emitter.integer("i64", 1), true);
  return result;
}

Written gathered_by_mask(Block& block, const Written& array, const Written& mask) {
  const Strided from = strided(block, array), kept = strided(block, mask);
  if (from.sizes.size() != 1) throw Unsupported("a mask of an array of several dimensions");
  block.leave_unless(compare("eq", from.sizes[0], kept.sizes[0]));
  const Term none = block.emitter.integer("i64", 0), one = block.emitter.integer("i64", 1);
  Written result = room_for(block, from.type.dtype, {from.sizes[0]});
  const Term count = block.number_at(3);
  block.call({.kind = Routine::Kind::kKeep, .dtype = from.type.dtype}, {row_of(from, none), row_of(kept, none), {result.words[0], none, none}, {count, none, none}}, one, from.sizes[0], false);
  result.words[1] = block.emitter.let("i64", "load i64, ptr " + count.ref);
  return result;
}

// --- what is called -------------------------------------------------------------------------------------------------------

constexpr int32_t kRefused = 1;

// One after the other. A size that the compiler knows makes an instruction of each.
template <size_t size>
void copy_row(const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  for (int64_t i = 0; i < count; i++) std::memcpy(to + i * to_step, from + i * step, size);
}

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

class GatherRoutine final : public LoadedRoutine {
 public:
  explicit GatherRoutine(const Routine& routine) : run_(runner(graph::size_of(routine.dtype))) {
    for (const Type& type : routine.numbers) adders_.push_back(adder(type.dtype));
    is_one_row_of_int64_ = routine.numbers.size() == 1 && routine.numbers[0].dtype == DType::int64;
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    const auto& routine = *static_cast<GatherRoutine*>(self);
    return (routine.*routine.run_)(data, outer, inner, rows, columns);
  }

 private:
  using Run = int32_t (GatherRoutine::*)(char* const*, const int64_t*, const int64_t*, int64_t, int64_t) const;

  static Run runner(int size) {
    switch (size) {
      case 1: return &GatherRoutine::run<1>;
      case 2: return &GatherRoutine::run<2>;
      case 4: return &GatherRoutine::run<4>;
      case 8: return &GatherRoutine::run<8>;
      default: return &GatherRoutine::run<16>;
    }
  }

  static Axis axis(int number, char* const* data, const int64_t* outer, const int64_t* inner) {
    const int along = 2 + 2 * number;
    return {outer[along], inner[along], data[along + 1], inner[along + 1]};
  }

  template <size_t size>
  int32_t run(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) const {
    char* to = data[0];
    if (is_one_row_of_int64_ && columns == 1) {
      const Axis only = axis(0, data, outer, inner);
      for (int64_t i = 0; i < rows; i++) {
        int64_t offset = 0;
        if (!add_offset<int64_t>(only, i, offset)) return kRefused;
        std::memcpy(to + i * static_cast<int64_t>(size), data[1] + offset, size);
      }
      return 0;
    }
    Axis axes[kMostIndices];
    for (size_t i = 0; i < adders_.size(); i++) axes[i] = axis(static_cast<int>(i), data, outer, inner);
    for (int64_t i = 0; i < rows; i++, to += outer[0]) {
      int64_t offset = 0;
      for (size_t a = 0; a < adders_.size(); a++) {
        if (!adders_[a](axes[a], i, offset)) return kRefused;
      }
      copy_row<size>(data[1] + offset, inner[1], to, inner[0], columns);
    }
    return 0;
  }

  const Run run_;
  std::vector<Add> adders_;
  bool is_one_row_of_int64_ = false;
};

class KeepRoutine final : public LoadedRoutine {
 public:
  explicit KeepRoutine(const Routine& routine) : run_(runner(graph::size_of(routine.dtype))) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t* inner, int64_t, int64_t columns) {
    const int64_t kept = static_cast<KeepRoutine*>(self)->run_(data, inner, columns);
    std::memcpy(data[3], &kept, sizeof kept);
    return 0;
  }

 private:
  using Run = int64_t (*)(char* const*, const int64_t*, int64_t);

  static Run runner(int size) {
    switch (size) {
      case 1: return run<1>;
      case 2: return run<2>;
      case 4: return run<4>;
      case 8: return run<8>;
      default: return run<16>;
    }
  }

  // Each is written, and overwritten by the next one where it isn't kept: there is room for all.
  template <size_t size>
  static int64_t run(char* const* data, const int64_t* inner, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
      std::memcpy(data[2] + kept * static_cast<int64_t>(size), data[0] + i * inner[0], size);
      kept += data[1][i * inner[1]] != 0;
    }
    return kept;
  }

  const Run run_;
};

}  // namespace

Written gathered(Block& block, const Written& array, const Written& index) {
  if (!has_elements(array.type)) throw Unsupported("elements of " + text_of(array.type));
  if (is_mask(index)) return gathered_by_mask(block, array, index);
  return gathered_by_ints(block, array, index.is_tuple ? index.items : std::vector{index});
}

RoutineEntry gather_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  if (routine.kind == Routine::Kind::kKeep) {
    owners.push_back(std::make_unique<KeepRoutine>(routine));
    return {&KeepRoutine::call, owners.back().get()};
  }
  owners.push_back(std::make_unique<GatherRoutine>(routine));
  return {&GatherRoutine::call, owners.back().get()};
}

}  // namespace evalframe::regions
