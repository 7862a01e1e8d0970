// Many turns of an inner loop over a range at once, without looking at anything between them.
//
// Indices that vary evenly from turn to turn are in range in all turns if they are in the first and in the last one: the turn is
// written for these two, of which nothing is left but the checks. What is stored evenly is logged beforehand. Whatever else goes
// wrong leads back to the loop's last checkpoint, from where the turns are done one by one. So the turns themselves are plain code,
// which LLVM can put into vectors.
#include "regions/recorded.h"
#include "regions/writer.h"

namespace evalframe::regions {

using bytecode::Op;
using Kind = Type::Kind;

namespace {

constexpr int64_t kFewestAtOnce = 8;

// The recording isn't one turn of a loop, such as the first one, behind which variables have other types.
struct OtherTurn : std::runtime_error {
  OtherTurn() : std::runtime_error("no turn of a loop") {}
};

// Whether the instruction is the step of the loop, or leads there.
bool ends_turn(const bytecode::Code& code, int32_t instruction, int32_t for_iter) {
  const bytecode::Instruction& at = code.instructions[static_cast<size_t>(instruction)];
  const bool jumps = at.op == Op::JUMP_BACKWARD || at.op == Op::JUMP_BACKWARD_NO_INTERRUPT;
  return code.instructions[static_cast<size_t>(for_iter)].op == Op::FOR_ITER && (jumps ? at.target : instruction) == for_iter;
}

}  // namespace

bool RegionWriter::write_many_turns(int number, const recorder::Recording& recording, const std::string& slow, std::string& text) {
  const std::vector<Type>& types = blocks_[static_cast<size_t>(number)].state.types;
  if (types.size() < 2 || types.back().kind != Kind::kInt || types[types.size() - 2].kind != Kind::kRangeIterator) return false;
  const Mark before = mark(number);
  Block block("many" + std::to_string(number), slow, region_.routines);
  try {
    write_many_turns(number, recording, block);
  } catch (const OtherTurn&) {
    return back_to(number, before), false;
  } catch (const std::runtime_error& error) {
    region_.obstacles.push_back({blocks_[static_cast<size_t>(number)].state.instruction, std::string("one turn at a time: ") + error.what()});
    return back_to(number, before), false;
  } catch (const AsObjectCall&) {
    return back_to(number, before), false;
  }
  text = block.emitter.text();
  needed_ += block.emitter.needed();
  rolls_back_ = true;
  region_.at_once++;
  return true;
}

void RegionWriter::write_many_turns(int number, const recorder::Recording& recording, Block& block) {
  const State& state = blocks_[static_cast<size_t>(number)].state;
  const size_t item = state.types.size() - 1, iterator = item - 1;
  const auto item_slot = static_cast<int32_t>(item);
  Emitter& emitter = block.emitter;
  const auto load = [&](const std::string& type, const std::string& place) { return emitter.let(type, "load " + type + ", ptr " + place); };
  const auto store = [&](const Term& value, const std::string& place) { emitter.line("store " + value.type + " " + value.ref + ", ptr " + place); };

  // As many as there are until something is looked at, or the range ends.
  const std::vector<Term> range = read_slot(emitter, iterator, {Kind::kRangeIterator});
  const Term left = range[2] + 1.0, room = load("i64", "%due") - load("i64", "%turns");
  const Term count = select(compare("slt", room, left), room, left);
  block.leave_unless(compare("sge", count, kFewestAtOnce));
  block.leave_unless(compare("eq", range[1], 1));
  const Term first = read_slot(emitter, item, {Kind::kInt})[0], last = first + (count - 1.0);

  block.pass = Pass::kProbe;
  const auto stores_with = [&](const Term& number_of_turn) {
    RecordingWriter writer(*this, number, recording, block);
    writer.write_turn(item_slot, &number_of_turn);
    return std::exchange(block.stores, {});
  };
  const std::vector<Block::Store> at_first = stores_with(first), at_last = stores_with(last);
  for (size_t i = 0; i < at_first.size(); i++) {
    if (at_first[i].varies == Varies::kAnyhow) continue;
    const Term begin = convert("ptrtoint", at_first[i].address, "i64"), end = convert("ptrtoint", at_last[i].address, "i64");
    const Term step = binary("sdiv", end - begin, count - 1.0);
    const std::string size = std::to_string(graph::size_of(at_first[i].value.dtype));
    store(emitter.let("ptr", "call ptr %log.many(ptr " + load("ptr", "%log.top").ref + ", ptr " + at_first[i].address.ref + ", i64 " + step.ref + ", i64 " + size + ", i64 " + count.ref + ")"), "%log.top");
  }

  const std::string turn = block.new_label(), next = block.new_label(), end = block.new_label();
  const std::string to_do = "%many" + std::to_string(number) + ".left";
  variables_.insert(to_do + " = alloca i64");
  store(count, to_do);
  emitter.line("br label %" + turn);
  emitter.label(turn);
  block.pass = Pass::kMany;
  block.leave_for("rollback");
  RecordingWriter writer(*this, number, recording, block);
  writer.write_turn(item_slot, nullptr);
  Slots slots = writer.end();
  block.keep();
  if (!ends_turn(code_, writer.end_instruction(), state.instruction - 1) || slots.size() != item) throw OtherTurn();
  for (size_t i = 0; i < slots.size(); i++) {
    if (slots[i].value.type != state.types[i]) throw OtherTurn();
    if (slots[i].kept) continue;
    if (i == iterator) throw Unsupported("an iterator that is changed");
    region_.changed.insert(i);
    const std::vector<Term> words = words_of(slots[i].value);
    for (size_t w = 0; w < words.size(); w++) store(words[w], variable(i, w, words[w].type));
    slots[i].kept = true;
  }
  const Term still = load("i64", to_do) - 1.0;
  store(still, to_do);
  emitter.line("br i1 " + compare("sgt", still, 0).ref + ", label %" + next + ", label %" + end);
  emitter.label(next);
  store(read_slot(emitter, item, {Kind::kInt})[0] + 1.0, variable(item, 0, "i64"));
  const std::vector<Term> now = read_slot(emitter, iterator, {Kind::kRangeIterator});
  store(now[0] + 1.0, variable(iterator, 0, "i64"));
  store(now[2] - 1.0, variable(iterator, 2, "i64"));
  region_.changed.insert({item, iterator});
  emitter.line("br label %" + turn);

  emitter.label(end);
  store(load("i64", "%turns") + (count - 1.0), "%turns");
  block.pass = Pass::kTurn;
  go_on(block, number, std::move(slots), writer.end_instruction(), false);
}

}  // namespace evalframe::regions
