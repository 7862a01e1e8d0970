#include "regions/views.h"

#include <algorithm>

#include "regions/expression.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

Term size_of_element(Block& block, const Type& array) { return block.emitter.integer("i64", graph::size_of(array.dtype)); }

// A stride that LLVM knows is part of an address, and others are multiplied by it.
std::vector<Term> known_strides(Block& block, const Type& array, std::vector<Term> strides) {
  if (array.is_close) strides.back() = size_of_element(block, array);
  return strides;
}

Strided of_view(Block& block, const Written& view) {
  const auto sizes = view.words.begin() + 3, strides = sizes + view.type.rank;
  return {view.type, view.is_of_fresh ? Term() : view.words[0], view.words[2], {sizes, strides}, known_strides(block, view.type, {strides, strides + view.type.rank}), view.memory};
}

Strided of_object(Block& block, const Written& array) {
  const auto sizes = array.words.begin() + 2, strides = sizes + array.type.rank;
  return {.type = array.type, .base = array.words[0], .data = array.words[1], .sizes = {sizes, strides}, .strides = known_strides(block, array.type, {strides, array.words.end()}), .holder = array.holder};
}

Strided of_fresh(Block& block, const Written& array) {
  Strided all{array.type, {}, array.words[0], {array.words.begin() + 1, array.words.end()}, {}, array.words[0].ref};
  Term step = size_of_element(block, array.type);
  for (int axis = array.type.rank - 1; axis >= 0; axis--) {
    all.strides.insert(all.strides.begin(), step);
    step = step * all.sizes[axis];
  }
  return all;
}

// Steps from which on one is left to NumPy, so that nothing wraps around.
constexpr int64_t kMostStep = int64_t{1} << 32;

Term smaller(const Term& a, const Term& b) { return select(compare("slt", a, b), a, b); }
Term larger(const Term& a, const Term& b) { return select(compare("sgt", a, b), a, b); }

// A bound of a slice, as an index in low ... high.
Term bound(const Term& given, const Term& size, const Term& low, const Term& high) {
  const Term counted = select(compare("slt", given, 0), given + size, given);
  return smaller(larger(counted, low), high);
}

}  // namespace

Strided strided(Block& block, const Written& array) {
  if (array.expression) return strided(block, computed(block, array));
  switch (array.type.kind) {
    case Kind::kArray:
    case Kind::kHeld: return of_object(block, array);
    case Kind::kView: return of_view(block, array);
    case Kind::kFresh: return of_fresh(block, array);
    default: throw Unsupported("items of " + (array.is_tuple ? std::string("a tuple") : text_of(array.type)));
  }
}

std::vector<Term> sizes_of(Block& block, const Written& array) { return array.expression ? array.expression->sizes : strided(block, array).sizes; }

Written view_of(Block& block, const Strided& part) {
  Written view{.type = {Kind::kView, part.type.dtype, static_cast<int8_t>(part.sizes.size()), part.type.flags}};
  if (part.sizes.size() > kMostDimensions || part.sizes.empty()) throw Unsupported("a part of as many dimensions");
  view.type.is_close = part.strides.back().ref == size_of_element(block, part.type).ref;
  view.is_of_fresh = part.base.type.empty();
  view.memory = part.memory;
  view.words = {view.is_of_fresh ? Term{&block.emitter, "ptr", "null"} : part.base, block.new_serial(), part.data};
  view.words.insert(view.words.end(), part.sizes.begin(), part.sizes.end());
  view.words.insert(view.words.end(), part.strides.begin(), part.strides.end());
  return view;
}

Varies index_varies(const Block& block, Varies array, Varies index) {
  return block.pass == Pass::kTurn || array == Varies::kAnyhow ? Varies::kAnyhow : index;
}

// Indices that are counted from the end are rare: a branch that is never taken costs less than what would have to be computed for both. LLVM
// knows of numbers in front of it and behind it that they are no large ones.
static Term index_anyhow(Block& block, const Term& number, const Term& size) {
  Emitter& emitter = block.emitter;
  constexpr int64_t kLeast = -(int64_t{1} << 62);
  const std::string from = block.new_label(), negative = block.new_label(), behind = block.new_label();
  emitter.line("br label %" + from);
  emitter.label(from);
  emitter.line("br i1 " + compare("ult", number, size).ref + ", label %" + behind + ", label %" + negative + ", !prof !0");
  emitter.label(negative);
  const Term counted = number + size;
  block.leave_unless(compare("ugt", number, kLeast) & compare("ult", counted, size));
  const std::string sound = block.new_label();
  emitter.line("br label %" + sound);
  emitter.label(sound);
  emitter.line("br label %" + behind);
  emitter.label(behind);
  return emitter.let("i64", "phi i64 [ " + number.ref + ", %" + from + " ], [ " + counted.ref + ", %" + sound + " ]");
}

// What the loop doesn't change LLVM computes in front of it, and so it knows that the element is the same in all turns: what one stores the next one
// needn't load.
static Term index_of_loop(Block& block, const Term& number, const Term& size) {
  const Term at = select(compare("slt", number, 0), number + size, number);
  block.leave_unless(compare("ult", at, size));
  return at;
}

// What is in range in the first and in the last of many turns is in those between.
Term index_in(Block& block, const Term& number, const Term& size, Varies varies, Varies number_varies) {
  if (block.pass == Pass::kTurn && number_varies == Varies::kNot) return index_of_loop(block, number, size);
  if (varies == Varies::kAnyhow && block.pass != Pass::kProbe) return index_anyhow(block, number, size);
  const Term at = varies == Varies::kEvenly ? number : select(compare("slt", number, 0), number + size, number);
  if (block.pass == Pass::kProbe && varies != Varies::kAnyhow) block.require(compare("ult", at, size));
  return at;
}

// x[k : k + n], in turns that look at the first and the last one: what is in range there, as it is written, is so in all.
static bool moves_evenly(const Block& block, const Item& item) {
  return block.puts_off_rows && item.varies == Varies::kEvenly && item.start && item.stop && item.step > 0 && !item.step_at;
}

Varies part_varies(const Block& block, Varies array, const std::vector<Item>& items) {
  Varies result = block.pass == Pass::kTurn ? Varies::kAnyhow : array;
  for (const Item& item : items) {
    const bool is_slice = item.kind == Item::Kind::kSlice;
    if (is_slice && item.varies != Varies::kNot && !moves_evenly(block, item)) return Varies::kAnyhow;
    if (is_slice || item.kind == Item::Kind::kInteger) result = std::max(result, item.varies);
  }
  return result;
}

static Strided new_part(Block& block, const Strided& array, Varies varies, const std::vector<Item>& items) {
  Emitter& emitter = block.emitter;
  const Term zero = emitter.integer("i64", 0), one = emitter.integer("i64", 1);
  Strided part{array.type, array.base, array.data, {}, {}, array.memory};
  part.type.kind = Kind::kView;
  size_t used = 0, axis = 0;
  for (const Item& item : items) used += item.kind == Item::Kind::kInteger || item.kind == Item::Kind::kSlice;
  if (used > array.sizes.size()) throw Unsupported("too many indices");
  const auto keep = [&](size_t end) {
    for (; axis < end; axis++) {
      part.sizes.push_back(array.sizes[axis]);
      part.strides.push_back(array.strides[axis]);
    }
  };
  const auto move = [&](const Term& index) {
    part.data = emitter.let("ptr", "getelementptr i8, ptr " + part.data.ref + ", i64 " + (index * array.strides[axis]).ref);
  };
  for (const Item& item : items) {
    switch (item.kind) {
      case Item::Kind::kNewAxis:
        part.sizes.push_back(one);
        part.strides.push_back(zero);
        continue;
      case Item::Kind::kEllipsis: keep(axis + array.sizes.size() - used); continue;
      default: break;
    }
    const Term& size = array.sizes[axis];
    if (item.kind == Item::Kind::kInteger) {
      move(index_in(block, *item.start, size, index_varies(block, varies, item.varies), item.varies));
    } else if (!item.start && !item.stop && item.step == 1 && !item.step_at) {
      keep(axis + 1);
      continue;
    } else {
      const bool rises = item.step > 0;
      if (block.pass == Pass::kProbe && moves_evenly(block, item)) block.require(compare("ule", *item.start, *item.stop) & compare("ule", *item.stop, size));
      const Term last = size - 1.0, low = rises ? zero : emitter.integer("i64", -1), high = rises ? size : last;
      const Term first = item.start ? bound(*item.start, size, low, high) : rises ? zero : last;
      const Term stop = item.stop ? bound(*item.stop, size, low, high) : rises ? size : low;
      const Term width = larger(rises ? stop - first : first - stop, zero);
      if (item.step_at) block.leave_unless(compare("sgt", *item.step_at, 0) & compare("slt", *item.step_at, kMostStep));
      const Term step = item.step_at ? *item.step_at : emitter.integer("i64", item.step), distance = rises ? step : emitter.integer("i64", -item.step);
      const bool is_one = item.step == 1 && !item.step_at;
      const Term length = is_one ? width : binary("udiv", width + distance - 1.0, distance);
      // An empty slice stands at the first element.
      const Term any = compare("sgt", length, 0);
      move(select(any, first, zero));
      part.sizes.push_back(length);
      part.strides.push_back(is_one ? array.strides[axis] : array.strides[axis] * select(any, step, one));
    }
    axis++;
  }
  keep(array.sizes.size());
  return part;
}

Strided part_of(Block& block, const Strided& array, Varies varies, const std::vector<Item>& items) {
  std::string name = array.data.ref + " " + std::to_string(static_cast<int>(varies));
  for (const Term& size : array.sizes) name += " " + size.ref;
  for (const Term& stride : array.strides) name += " " + stride.ref;
  const auto ref_of = [](const std::optional<Term>& term) { return term ? " " + term->ref : std::string(" -"); };
  for (const Item& item : items) {
    name += ", " + std::to_string(static_cast<int>(item.kind)) + ref_of(item.start) + ref_of(item.stop) + " " + std::to_string(item.step) + ref_of(item.step_at) + " " + std::to_string(static_cast<int>(item.varies));
  }
  const auto known = block.parts.find(name);
  return known != block.parts.end() ? known->second : block.parts[name] = new_part(block, array, varies, items);
}

Strided turned(Block& block, const Strided& array, const std::vector<int>& order) {
  Strided result{array.type, array.base, array.data, {}, {}, array.memory};
  result.type.kind = Kind::kView;
  for (const int axis : order) {
    result.sizes.push_back(axis < 0 ? block.emitter.integer("i64", 1) : array.sizes[static_cast<size_t>(axis)]);
    result.strides.push_back(axis < 0 ? block.emitter.integer("i64", 0) : array.strides[static_cast<size_t>(axis)]);
  }
  return result;
}

}  // namespace evalframe::regions
