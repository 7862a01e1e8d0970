#include "regions/row_turns.h"

#include <algorithm>

#include "regions/recorded.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

constexpr int64_t kFewestTurns = 3, kMostTurns = 64;
constexpr int64_t kMostElements = int64_t{1} << 20;
// Of the kernel: with more, a call would have too many operands, or a row be changed by one turn at a time.
constexpr size_t kMostInputs = 8, kMostOperations = 16;

Term as_number(const Term& address) { return native::convert("ptrtoint", address, "i64"); }

}  // namespace

std::string RowTurns::write(const std::string& slow) {
  turns_.find_turns();
  if (turns_.straight_heads() != std::vector{head_}) throw OtherTurn();
  Block block(prefix(), slow, region_.region_);
  Emitter& emitter = block.emitter;
  const Term some = count(block), first = region_.read_slot(emitter, turns_.iterator() + 1, {Kind::kInt})[0];
  begin(block, first, some);
  for (const char* const variable : {"item", "done", "count"}) region_.variables_.insert(name(variable) + " = alloca i64");
  region_.variables_.insert(name("failed") + " = alloca i1");
  store(emitter, first, name("item"));
  store(emitter, emitter.integer("i64", 0), name("done"));
  store(emitter, some, name("count"));
  store(emitter, emitter.integer("i1", 0), name("failed"));
  emitter.line("br label %" + label("turn"));
  take(block);
  write_numbers();
  write_end();
  return text_;
}

const recorder::Recording& RowTurns::recording() const { return *region_.blocks_[static_cast<size_t>(head_)].recordings[0]; }

Term RowTurns::step(Emitter& emitter) const { return turns_.step(emitter, region_.read_slot(emitter, turns_.iterator(), {Kind::kRangeIterator})); }

Term RowTurns::count(Block& block) const {
  const Term all = turns_.turns_ahead(block, region_.read_slot(block.emitter, turns_.iterator(), {Kind::kRangeIterator}));
  const Term some = select(compare("slt", all, kMostTurns), all, block.emitter.integer("i64", kMostTurns));
  block.leave_unless(compare("sge", some, kFewestTurns));
  return some;
}

RowTurns::Change RowTurns::change_in(Block& block, const Term& item) const {
  block.pass = Pass::kProbe;
  block.puts_off_rows = true;
  RecordingWriter(region_, head_, recording(), block).write_turn(&item, true);
  block.pass = Pass::kTurn;
  std::vector<Block::Store> stores = std::exchange(block.stores, {});
  if (stores.size() != 1 || !stores[0].computes) throw OtherTurn();
  if (stores[0].varies != Varies::kNot || stores[0].to->sizes.size() > 2) throw OtherTurn();
  return {std::move(stores[0]), std::exchange(block.peeked, {})};
}

// What turns read is nothing that one before them has changed.
void RowTurns::require_apart(Block& block, const Change& first, const Change& last) const {
  Emitter& emitter = block.emitter;
  // None goes backwards.
  const auto bytes_of = [&](DType dtype, const std::vector<Term>& strides) {
    Term bytes = emitter.integer("i64", graph::size_of(dtype));
    for (size_t axis = 0; axis < strides.size(); axis++) {
      block.leave_unless(compare("sge", strides[axis], 0));
      bytes = bytes + (changed_.sizes[axis] - 1.0) * strides[axis];
    }
    return bytes;
  };
  const Term begin = as_number(changed_.data), end = begin + bytes_of(changed_.type.dtype, changed_.strides);
  const auto require = [&](const Term& one, const Term& other, const Term& bytes) {
    const Term is_forwards = compare("ule", one, other);
    const Term low = select(is_forwards, one, other), high = select(is_forwards, other, one) + bytes;
    block.leave_unless(compare("ule", high, begin) | compare("ule", end, low));
  };
  const std::vector<const Expression*> arrays = arrays_of(*first.store.computes), at_last = arrays_of(*last.store.computes);
  for (size_t i = 0; i < arrays.size(); i++) {
    if (i != changed_array_) require(as_number(arrays[i]->array->data), as_number(at_last[i]->array->data), bytes_of(arrays[i]->dtype, arrays_[i].strides));
  }
  for (size_t i = 0; i < first.elements.size(); i++) {
    require(as_number(first.elements[i].address), as_number(last.elements[i].address), emitter.integer("i64", graph::size_of(first.elements[i].dtype)));
  }
}

// Finds where all is, and logs what is changed.
void RowTurns::begin(Block& block, const Term& first, const Term& count) {
  Emitter& emitter = block.emitter;
  const Change at_first = change_in(block, first), at_last = change_in(block, first + (count - 1.0) * step(emitter));
  changed_ = *at_first.store.to;
  const Expression& value = *at_first.store.computes;
  const std::vector<const Expression*> arrays = arrays_of(value), last = arrays_of(*at_last.store.computes);
  if (arrays.size() != last.size() || at_first.elements.size() != at_last.elements.size()) throw OtherTurn();
  const auto require_same = [&](const Term& one, const Term& other) {
    if (one.ref != other.ref) block.leave_unless(compare("eq", one, other));
  };
  Term elements = emitter.integer("i64", 1);
  for (size_t axis = 0; axis < changed_.sizes.size(); axis++) {
    require_same(value.sizes[axis], changed_.sizes[axis]);
    block.leave_unless(compare("ult", changed_.sizes[axis] - 1.0, kManyElements));
    elements = elements * changed_.sizes[axis];
  }
  block.leave_unless(compare("sle", elements, kMostElements));
  if (changed_.sizes.size() == 2) block.leave_unless(compare("sge", changed_.strides[0], changed_.sizes[1] * changed_.strides[1]));
  const auto is_changed = [&](const Expression* leaf) {
    const auto is_same = [](const Term& one, const Term& other) { return one.ref == other.ref; };
    return leaf->dtype == changed_.type.dtype && is_same(leaf->array->data, changed_.data) && std::ranges::equal(leaf->array->strides, changed_.strides, is_same);
  };
  if (std::ranges::count_if(arrays, is_changed) != 1) throw OtherTurn();
  changed_array_ = static_cast<size_t>(std::ranges::find_if(arrays, is_changed) - arrays.begin());
  for (size_t i = 0; i < arrays.size(); i++) {
    if (arrays[i]->varies == Varies::kAnyhow) throw OtherTurn();
    for (size_t axis = 0; axis < arrays[i]->sizes.size(); axis++) require_same(arrays[i]->sizes[axis], last[i]->sizes[axis]);
    const Term &data = arrays[i]->array->data, way = as_number(last[i]->array->data) - as_number(data);
    const Term to_next_turn = arrays[i]->varies == Varies::kNot ? emitter.integer("i64", 0) : native::binary("sdiv", way, count - 1.0);
    arrays_.push_back({data, to_next_turn, strides_within(block, *arrays[i], value.sizes)});
  }
  require_apart(block, at_first, at_last);
  block.leave_unless(block.logged(changed_));
}

Term RowTurns::place_of_number(Emitter& emitter, size_t input) const {
  return emitter.let("ptr", "getelementptr [" + std::to_string(kMostTurns * static_cast<int64_t>(kBytesOfNumber)) + " x i8], ptr " + name("numbers") + ", i64 " + std::to_string(input));
}

// The turns, of which nothing is left but their numbers and what variables get.
void RowTurns::write_numbers() {
  Block block(prefix() + "turn", "rollback", region_.region_);
  Emitter& emitter = block.emitter;
  block.pass = Pass::kMany;
  block.puts_off_rows = true;
  block.failed = name("failed");
  emitter.label(label("turn"));
  RecordingWriter writer(region_, head_, recording(), block);
  writer.watches([&](const std::vector<Term>& results) {
    for (const Term& result : results) emitter.line("call void asm sideeffect \"\", \"x\"(" + result.type + " " + result.ref + ")");
  });
  writer.write_turn(nullptr, true);
  const std::vector<Block::Store> stores = std::exchange(block.stores, {});
  if (stores.size() != 1 || !stores[0].computes) throw OtherTurn();
  const KernelOfArrays all = kernel_of(*stores[0].computes);
  if (all.inputs.size() > kMostInputs || all.kernel.ops.size() > kMostOperations) throw Unsupported("a row that comes of so much");
  kernel_ = std::make_shared<const native::Kernel>(all.kernel);
  region_.variables_.insert(name("numbers") + " = alloca [" + std::to_string(kMostInputs * kMostTurns * kBytesOfNumber) + " x i8], align 32");
  const Term done = load(emitter, "i64", name("done"));
  for (size_t i = 0; i < all.inputs.size(); i++) {
    is_array_.push_back(all.inputs[i]->array != nullptr);
    if (is_array_.back()) continue;
    const Term offset = done * emitter.integer("i64", kBytesOfNumber);
    native::store_element(emitter, all.inputs[i]->number, emitter.let("ptr", "getelementptr i8, ptr " + place_of_number(emitter, i).ref + ", i64 " + offset.ref).ref, "");
  }
  if (std::count(is_array_.begin(), is_array_.end(), true) != static_cast<std::ptrdiff_t>(arrays_.size())) throw OtherTurn();
  writer.finish_turn();
  take(block);
}

void RowTurns::end_turn(Block& block, int, Slots slots, int32_t instruction) {
  if (instruction != for_iter() || turns_.next_head(slots) != size_t{0}) throw OtherTurn();
  Emitter& emitter = block.emitter;
  region_.store_slots(block, slots, turns_.types(0));
  // The slot may have had something else meanwhile. It goes on in the last turn, too: where it stays, LLVM's vectoriser takes it for one that goes on.
  const size_t slot = turns_.iterator() + 1;
  const Term done = load(emitter, "i64", name("done")) + 1.0, item = load(emitter, "i64", name("item")) + step(emitter);
  store(emitter, done, name("done"));
  store(emitter, item, name("item"));
  store(emitter, item, region_.written_variable(slot, 0, "i64"));
  region_.region_.changed.insert(slot);
  emitter.line("br i1 " + compare("eq", done, load(emitter, "i64", name("count"))).ref + ", label %" + label("end") + ", label %" + label("turn"));
}

// Changes the rows, and goes on behind the turns.
void RowTurns::write_end() {
  Block block(prefix() + "end", "rollback", region_.region_);
  Emitter& emitter = block.emitter;
  emitter.label(label("end"));
  block.leave_if(load(emitter, "i1", name("failed")));
  const Term none = emitter.integer("i64", 0), count = load(emitter, "i64", name("count"));
  Routine routine{.kind = Routine::Kind::kTurns, .rank = static_cast<int>(changed_.sizes.size()), .kernel = kernel_};
  std::vector<Block::Rows> operands, rows;
  const auto add = [&](const Term& data, const Term& to_next_turn, const std::vector<Term>& strides) {
    operands.push_back({in(emitter, data), in(emitter, to_next_turn), in(emitter, strides.back())});
    rows.push_back({in(emitter, data), in(emitter, strides[0]), in(emitter, changed_.sizes[0])});
  };
  const std::vector<Term> same(changed_.sizes.size(), none);
  size_t array = 0;
  for (size_t i = 0; i < is_array_.size(); i++) {
    if (!is_array_[i]) {
      add(place_of_number(emitter, i), emitter.integer("i64", kBytesOfNumber), same);
      continue;
    }
    if (array == changed_array_) routine.input = static_cast<int>(i);
    add(arrays_[array].data, arrays_[array].to_next_turn, arrays_[array].strides);
    array++;
  }
  add(changed_.data, none, changed_.strides);
  if (routine.rank == 2) operands.insert(operands.end(), rows.begin(), rows.end());
  routine.text = native::print(*kernel_);
  block.call(routine, operands, count, in(emitter, changed_.sizes.back()), false);
  // The iterator isn't looked at between the turns; the step of the loop counts one of them.
  const Term before = count - 1.0;
  const std::vector<Term> range = region_.read_slot(emitter, turns_.iterator(), {Kind::kRangeIterator});
  region_.set_range(emitter, turns_.iterator(), load(emitter, "i64", name("item")), range[2] - before);
  store(emitter, load(emitter, "i64", "%turns") + before, "%turns");
  Slots slots = turns_.slots_behind(emitter, 0);
  region_.many_ = nullptr;
  region_.go_on(block, head_, std::move(slots), for_iter(), false);
  region_.many_ = this;
  take(block);
}

void RowTurns::take(const Block& block) {
  text_ += block.emitter.text();
  needed_ += block.emitter.needed();
}

}  // namespace evalframe::regions
