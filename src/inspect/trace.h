// What a recording of steps holds: for each step where it was and what had changed, from which the whole state is put together.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/ref.h"

namespace evalframe::inspect {

enum class StepKind : uint8_t { kInstruction, kReturned, kYielded, kRaised, kHandedOver, kCaptured };

// The value of a place at a step.
struct Entry {
  static constexpr uint32_t kRestated = 1u << 31;  // has not changed: said again, so that states needn't be put together from the start
  static constexpr uint32_t kName = 1u << 30;      // a name of the namespace (index into co_names), not a slot
  uint32_t place;  // with these bits
  uint32_t text;
};

struct Step {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t node;         // the activation
  uint32_t instruction;  // index in the canonical code; of the other kinds: the last one that ran
  uint32_t entries;      // the first of its own; they go up to the next step's
  uint32_t previous;     // step of the same frame, or kNone
  uint32_t note;         // text of what was returned, yielded, raised or (kInstruction) has just been caught, or (kCaptured) runs it; or kNone
  uint32_t depth;        // slots in use, localsplus and stack
  StepKind kind;
  bool full;             // its entries are the whole state
};

// A frame that runs, up to its end or where it yields.
struct Node {
  uint32_t frame;   // number; generators keep theirs
  uint32_t parent;  // node, or Step::kNone
  uint32_t parent_step;  // where the parent stood, or Step::kNone
  uint32_t code;    // index in codes
};

// Each text once.
class Texts {
 public:
  uint32_t add(std::string text);
  std::vector<std::string> all() const { return {texts_.begin(), texts_.end()}; }
  size_t bytes() const { return bytes_; }

 private:
  // A number, and the hash of its text: most texts that are looked for are new, and so are told apart without a look at others.
  struct Place {
    uint32_t number = UINT32_MAX;
    uint32_t hash = 0;
  };
  size_t place_of(uint32_t hash, std::string_view text) const;
  void grow();
  std::deque<std::string> texts_;
  std::vector<Place> places_ = std::vector<Place>(1024);  // open addressing, at most half full
  size_t bytes_ = 0;
};

// A state, put together.
struct State {
  std::vector<uint32_t> slots;                             // texts
  std::vector<std::pair<uint32_t, uint32_t>> names;        // index into co_names, text
  std::vector<uint32_t> changed;                           // places, with kName
};

struct Trace {
  std::vector<Step> steps;
  std::vector<Entry> entries;
  std::vector<Node> nodes;
  std::vector<Ref> codes;
  Texts texts;
  uint32_t null_text = 0;
  std::string stopped;  // by what the recording was ended before the program: "", "steps" or "memory"

  size_t bytes() const;
  uint32_t entries_end(uint32_t step) const;
  // `changed_names_only`: a module may have thousands of names, and whoever goes through all steps would go through all names at each.
  State state(uint32_t step, bool changed_names_only) const;
  // The step of the same frame, this one or before, at which the place (a slot, or an index into co_names with kName) has last changed; the
  // first of the frame where it hasn't.
  uint32_t last_change(uint32_t step, uint32_t place) const;
  // For pages: each step as variable-length numbers (docs of the format: bind_inspect.cpp).
  std::string packed() const;
};

}  // namespace evalframe::inspect
