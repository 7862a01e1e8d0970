// Turns of a loop that are written together, otherwise than one by one.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "regions/writer.h"

namespace evalframe::regions {

class Turns {
 public:
  // It isn't a loop whose turns can be.
  struct OtherTurn {};

  virtual ~Turns() = default;
  // The code, which goes to the label where it isn't done. Throws Unsupported, OtherTurn.
  virtual std::string write(const std::string& slow) = 0;
  std::string needed() const { return needed_; }
  // What the slot has at the beginning of a block. item: the number of the turn, where its addresses are asked for.
  virtual Written slot_value(Emitter& emitter, int block, size_t slot, const Type& type, const Term* item) const = 0;
  // Whether a turn begins with it.
  virtual bool is_head(int block) const = 0;
  // Whether it has the same in all turns.
  virtual bool is_fixed_slot(size_t slot) const = 0;
  // Whether what the part of a turn that is written leaves in the slot is what that part of the next turn begins with.
  virtual bool carries(size_t) const { return true; }
  // The block's label, if it belongs to the turn and is entered from the other one.
  virtual std::string label_of(int block) = 0;
  // In front of what follows where the turns end.
  virtual void leave(Emitter& emitter) = 0;
  // At a loop's step.
  virtual void end_turn(Block& block, int number, Slots slots, int32_t instruction) = 0;
  // The code stores into a word of the slot.
  virtual void stores(size_t, const std::string& /*variable*/, const std::string& /*type*/) {}

 protected:
  std::string needed_;
};

// A variable of the function.
inline Term load(Emitter& emitter, const std::string& type, const std::string& place) { return emitter.let(type, "load " + type + ", ptr " + place); }
inline void store(Emitter& emitter, const Term& value, const std::string& place) { emitter.line("store " + value.type + " " + value.ref + ", ptr " + place); }
// What another part of the code has computed.
inline Term in(Emitter& emitter, const Term& term) { return {&emitter, term.type, term.ref}; }
// A number of the type, where it isn't known what there will be.
Written written_zero(Emitter& emitter, const Type& type);

// Of the range that the code makes in front of the loop; none: any.
std::optional<int64_t> known_step(const bytecode::Code& code, int32_t for_iter);

// Logs what so many turns are about to store evenly: in the first one, and where in the last one. Leaves where the log has no room.
void log_stores(Block& block, const std::vector<std::pair<Block::Store, Term>>& evenly, const Term& count);

}  // namespace evalframe::regions
