#include "runtime/entries.h"

#include <algorithm>

#include "core/object_text.h"
#include "cpython/codec.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

bool comes_to_loop(const Entries& entries) {
  const Place::Frame& at = entries.place.frames[0];
  const bytecode::Code* const code = cpython::decoded(at.code);
  if (!code || entries.place.frames.size() != 1) return PyErr_Clear(), false;
  for (size_t i = static_cast<size_t>(at.next); i < code->instructions.size(); i++) {
    if (code->instructions[i].target > at.next && code->instructions[i].target <= static_cast<int32_t>(i)) return true;
  }
  return false;
}

Place place_of(const Chain& chain) {
  Place place;
  for (cpython::Frame* frame : chain.frames()) {
    const bytecode::Code& code = *cpython::decoded(cpython::code_of(frame));
    const int unit = cpython::next_unit(frame);
    place.frames.push_back({cpython::code_of(frame).get(), code.index_of_unit[unit], cpython::depth_of(frame)});
  }
  return place;
}

bool stands_at(const Chain& chain, const Entries& entries) {
  const size_t count = chain.size();
  if (entries.units.size() != count || entries.place.frames.size() != count) return false;
  for (size_t k = 0; k < count; k++) {
    cpython::Frame* frame = chain.frames()[k];
    const Place::Frame& at = entries.place.frames[k];
    if (cpython::code_of(frame).get() != at.code || cpython::next_unit(frame) != entries.units[k] || cpython::depth_of(frame) != at.depth) return false;
  }
  return true;
}

namespace {

// Finds the innermost of the loops around the place.
void find_loop(Entries& entries) {
  const Place::Frame& inner = entries.place.frames.back();
  const bytecode::Code* code = cpython::decoded(inner.code);
  if (!code) return PyErr_Clear();
  entries.loop_is_inner = entries.place.frames.size() > 1;
  for (auto last = static_cast<int32_t>(code->instructions.size()) - 1; last >= inner.next; last--) {
    const int32_t first = code->instructions[last].target;
    if (first < 0 || first > inner.next) continue;
    // The outermost comes first; several jumps back to one head (`continue`) are one loop.
    if (first <= entries.loop_first) continue;
    entries.loop_is_inner = entries.loop_is_inner || entries.loop_first >= 0;
    entries.loop_first = first;
    entries.loop_last = last;
  }
}

}  // namespace

Held<Entries> make_entries(const Place& place) {
  Held<Entries> entries(new Entries);
  entries->place = place;
  find_loop(*entries);
  return entries;
}

static constexpr uint64_t kMostSpent = 16;  // behind them caches are emptied again and again

bool is_full(const Entries& entries, int most) {
  const auto room = static_cast<size_t>(most);
  return entries.runs_plain || entries.list.size() >= room || entries.replaced >= room || entries.spent >= kMostSpent;
}

namespace {

// The guards that fail are counted by what they look at: entries for the values 3, 4 and 5 of `n` are about one thing.
void add_failures(const std::vector<Held<Compilation>>& list, std::map<std::string, GuardFailures>& failures) {
  for (const Held<Compilation>& entry : list) {
    const std::vector<guards::GuardTable::Line> lines = entry->recording->guards.lines();
    const std::vector<guards::Failure>& failed = entry->failures.by_line();
    for (size_t i = 0; i < failed.size() && i < lines.size(); i++) {
      if (!failed[i].count) continue;
      GuardFailures& of = failures[lines[i].subject];
      of.count += failed[i].count;
      of.example = lines[i];
    }
  }
}

}  // namespace

size_t keep_only(Entries& entries, const std::function<bool(const Held<Compilation>&)>& stays) {
  const PendingException pending;
  const auto first = std::stable_partition(entries.list.begin(), entries.list.end(), stays);
  // They die last.
  const std::vector<Held<Compilation>> gone(std::make_move_iterator(first), std::make_move_iterator(entries.list.end()));
  if (gone.empty()) return 0;
  entries.list.erase(first, entries.list.end());
  entries.recent = 0;
  add_failures(gone, entries.failures_before);
  return gone.size();
}

void drop_spent(Entries& entries) {
  entries.spent += keep_only(entries, [](const Held<Compilation>& entry) { return !entry->is_spent; });
}

LimitNote limit_note(const Entries& entries) {
  std::map<std::string, GuardFailures> failures = entries.failures_before;
  add_failures(entries.list, failures);
  const auto most = std::max_element(failures.begin(), failures.end(), [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  const bool any = most != failures.end();
  const recorder::FrameStart& inner = entries.list.front()->recording->start.back();
  const auto* code = inner.code->code.as<PyCodeObject>();
  return {std::string(utf8(code->co_filename)),
          std::string(utf8(code->co_qualname)),
          inner.code->positions[inner.next].line,
          entries.list.size(),
          entries.replaced,
          entries.refused,
          any ? most->second.example.text : "sizes or overlaps that its kernels don't serve",
          any ? most->second.example.hint : "raise max_entries"};
}

}  // namespace evalframe::runtime
