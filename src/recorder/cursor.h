// The journal read forwards: what recording.cpp and rebuild.cpp know of a state.
#pragma once

#include <utility>

#include "recorder/recording.h"

namespace evalframe::recorder {

// The state while the journal is read: frames with their slots, and how far each list has grown.
struct Recording::Cursor {
  struct Live {
    const FrameStart* frame;
    int32_t next, depth;
    uint32_t names;
  };
  uint32_t position = 0;
  std::vector<Live> frames;
  std::vector<uint32_t> slots;
  std::vector<Window> windows;  // of each container
  std::vector<PendingStore> stores;
  int32_t advanced = 0;
  uint32_t handled = 0;
  struct GeneratorState {
    enum class Phase : uint8_t { kUnmade, kWaiting, kRunning, kFinished };
    Phase phase = Phase::kUnmade;
    uint32_t handled = 0;
    Suspension suspension{};
  };
  std::vector<GeneratorState> generators;

  void store(int32_t name, uint32_t value) {
    for (PendingStore& known : stores) {
      if (known.name == name) {
        known.value = value;
        return;
      }
    }
    stores.push_back({name, value});
  }

  std::vector<uint8_t> sources;  // those met in all searches, if anyone asks: one for each

  // Values met in the present search carry its number: marking costs nothing for those that aren't met.
  std::vector<uint32_t> met;
  uint32_t search = 0;

  void begin_search(size_t values) {
    met.resize(values);
    search++;
  }
  bool is_first(uint32_t value) { return std::exchange(met[value], search) != search; }

  void set(int32_t slot, uint32_t value) {
    if (static_cast<size_t>(slot) >= slots.size()) slots.resize(slot + 1);
    slots[slot] = value;
  }

  void start(const Recording& recording) {
    for (size_t k = 0; k < recording.start.size(); k++) {
      const FrameStart& frame = recording.start[k];
      frames.push_back({&frame, frame.next, frame.depth, frame.names});
      for (size_t i = 0; i < recording.initial[k].size(); i++) set(frame.base + static_cast<int32_t>(i), recording.initial[k][i]);
    }
    for (const Container& container : recording.containers) windows.push_back(container.initial);
    generators.resize(recording.generators.size());
  }

  void apply(const Recording& recording, const Change& change) {
    switch (change.kind) {
      case Change::Kind::kSlot: return set(change.where, change.value);
      case Change::Kind::kPush: {
        const FrameStart& pushed = recording.pushes[change.where];
        frames.back().next = pushed.next;
        frames.back().depth = pushed.depth;
        frames.push_back({&pushed, 0, 0, pushed.names});
        if (pushed.generator >= 0) generators[pushed.generator].phase = GeneratorState::Phase::kRunning;
        return;
      }
      case Change::Kind::kPop:
        if (const int32_t of = frames.back().frame->generator; of >= 0) generators[of] = {GeneratorState::Phase::kFinished};
        frames.pop_back();
        return;
      case Change::Kind::kSuspend:
        generators[change.where].phase = GeneratorState::Phase::kWaiting;
        generators[change.where].suspension = recording.suspensions[change.value];
        frames.pop_back();
        return;
      case Change::Kind::kAppend: windows[change.where].length++; return;
      case Change::Kind::kWindow: windows[change.where] = recording.windows[change.value]; return;
      case Change::Kind::kAdvance: advanced++; return;
      case Change::Kind::kNames: frames.back().names = change.value; return;
      case Change::Kind::kHandled: (change.where < 0 ? handled : generators[change.where].handled) = change.value; return;
      case Change::Kind::kStore: return store(change.where, change.value);
    }
  }
};

}  // namespace evalframe::recorder
