#include "inspect/trace.h"

#include <functional>
#include <map>

namespace evalframe::inspect {

size_t Texts::place_of(uint32_t hash, std::string_view text) const {
  const size_t mask = places_.size() - 1;
  size_t at = hash & mask;
  while (places_[at].number != UINT32_MAX && !(places_[at].hash == hash && texts_[places_[at].number] == text)) at = (at + 1) & mask;
  return at;
}

void Texts::grow() {
  std::vector<Place> old(2 * places_.size());
  old.swap(places_);
  for (const Place& place : old) {
    if (place.number != UINT32_MAX) places_[place_of(place.hash, texts_[place.number])] = place;
  }
}

uint32_t Texts::add(std::string text) {
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(text));
  if (const Place& place = places_[place_of(hash, text)]; place.number != UINT32_MAX) return place.number;
  if (2 * (texts_.size() + 1) > places_.size()) grow();
  const auto number = static_cast<uint32_t>(texts_.size());
  places_[place_of(hash, text)] = {number, hash};
  bytes_ += (text.size() > 15 ? text.size() + 16 : 0) + sizeof text + 4 * sizeof(Place);  // with what the table has for one
  texts_.push_back(std::move(text));
  return number;
}

size_t Trace::bytes() const {
  return steps.size() * sizeof(Step) + entries.size() * sizeof(Entry) + nodes.size() * sizeof(Node) + texts.bytes();
}

uint32_t Trace::entries_end(uint32_t step) const { return step + 1 < steps.size() ? steps[step + 1].entries : static_cast<uint32_t>(entries.size()); }

State Trace::state(uint32_t step, bool changed_names_only) const {
  std::vector<uint32_t> chain{step};
  while (!steps[chain.back()].full && steps[chain.back()].previous != Step::kNone) chain.push_back(steps[chain.back()].previous);
  State state;
  std::map<uint32_t, uint32_t> names;
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    state.slots.resize(steps[*at].depth, null_text);
    for (uint32_t index = steps[*at].entries; index < entries_end(*at); ++index) {
      const Entry& entry = entries[index];
      const uint32_t place = entry.place & ~(Entry::kRestated | Entry::kName);
      const bool is_change = *at == step && !(entry.place & Entry::kRestated);
      if (is_change) state.changed.push_back(entry.place);
      if (!(entry.place & Entry::kName)) {
        state.slots[place] = entry.text;
      } else if (is_change || !changed_names_only) {
        names[place] = entry.text;
      }
    }
  }
  state.names.assign(names.begin(), names.end());
  return state;
}

uint32_t Trace::last_change(uint32_t step, uint32_t place) const {
  for (uint32_t at = step;; at = steps[at].previous) {
    for (uint32_t index = steps[at].entries; index < entries_end(at); ++index) {
      if (entries[index].place == place) return at;
    }
    if (steps[at].previous == Step::kNone) return at;
  }
}

namespace {

void put(std::string& out, uint64_t number) {
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  out += static_cast<char>(number);
}
// Small for small differences of either sign.
void put_difference(std::string& out, int64_t difference) { put(out, static_cast<uint64_t>(difference < 0 ? -2 * difference - 1 : 2 * difference)); }

}  // namespace

std::string Trace::packed() const {
  std::string out;
  int64_t node = 0, text = 0;
  std::vector<int64_t> instruction(nodes.size(), -1), depth(nodes.size(), 0);
  for (uint32_t number = 0; number < steps.size(); ++number) {
    const Step& step = steps[number];
    uint32_t own = 0;
    for (uint32_t index = step.entries; index < entries_end(number); ++index) own += step.previous == Step::kNone || !(entries[index].place & Entry::kRestated);
    put(out, static_cast<uint64_t>(step.kind) | (step.note != Step::kNone ? 8u : 0u) | (static_cast<uint64_t>(own) << 4));
    put_difference(out, step.node - node);
    put_difference(out, step.instruction - instruction[step.node] - 1);
    put_difference(out, step.depth - depth[step.node]);
    if (step.note != Step::kNone) put(out, step.note);
    for (uint32_t index = step.entries; index < entries_end(number); ++index) {
      const Entry& entry = entries[index];
      if (step.previous != Step::kNone && (entry.place & Entry::kRestated)) continue;
      const bool restated = (entry.place & Entry::kRestated) != 0, name = (entry.place & Entry::kName) != 0;
      put(out, static_cast<uint64_t>(entry.place & ~(Entry::kRestated | Entry::kName)) << 2 | (name ? 2u : 0u) | (restated ? 1u : 0u));
      put_difference(out, entry.text - text);
      text = entry.text;
    }
    node = step.node;
    instruction[step.node] = step.instruction;
    depth[step.node] = step.depth;
  }
  return out;
}

}  // namespace evalframe::inspect
