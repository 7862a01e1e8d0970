// What a check has found, for the next one: where no dict and no class on the way has another version, all that was reached through
// them is as it was, and isn't looked at again.
#pragma once

#include <utility>
#include <vector>

#include "core/held.h"
#include "core/word_rows.h"
#include "guards/guards.h"

namespace evalframe::guards {

struct Step;

// Numbers of sources, in order.
struct Sources : Holdable {
  std::vector<int32_t> numbers;
};

// Objects are borrowed from a check that is over. None is touched before what holds it has been found unchanged: versions of dicts
// and classes are never given twice (cpython/versions.h), so that they also tell that nothing was freed meanwhile. A pointer doesn't: another
// object may have come to where one was freed. So a number or text that was reached by a pointer is held, and of all else what is
// taken of it is looked at.
class Shortcut {
 public:
  // Whether everything holds that the steps ask for, as far as this can tell; fills `items` as the steps would. False: they
  // have to be gone through, and `items` owns nothing. Else it has what the steps have reached, or of that what `keep_only` says, and owns of it
  // what `owned` says, while the guards hold the rest.
  bool holds(const std::vector<Step>& steps, PyObject* const* const* frames, PyObject** items) const;
  bool is_made() const { return !made_.marks.empty(); }
  const Held<Sources>& owned() const { return made_.owned; }
  bool leaves(int32_t source) const { return read_.empty() || read_[source]; }
  // Sources, by number, that are read behind the check, and the only ones that have to be there then.
  void keep_only(std::vector<uint8_t> read);
  // The steps hold, with these objects.
  void learn(const std::vector<Step>& steps, int32_t sources, PyObject* const* items);

 private:
  enum class What : uint8_t {
    kRead,    // of `step` the object, and what it asks
    kFact,    // what `step` asks
    kSame,    // the source is `object`
    kWords,   // `count` rows of words from `first` on, of objects that are the very ones
    kNoDict,  // of `object` its class, and that it has its attributes in itself
  };
  struct Mark {
    What what;
    int32_t source, step = -1;
    int32_t first = 0, count = 0;
    PyObject* object = nullptr;
    PyTypeObject* type = nullptr;
  };
  struct Made {
    std::vector<Mark> marks;  // in the order of the sources
    WordRows rows;            // of versions of dicts and classes, pointers, the numbers of tensors
    std::vector<std::pair<const void*, int32_t>> of_words;  // where each lies, and its source
    using Known = std::vector<std::pair<int32_t, PyObject*>>;  // sources that aren't read anew
    Known seen;                                       // of which marks want the objects
    Known taken, lent;                                // which `items` is to have: to own, and as the guards hold them
    Held<Sources> owned;                              // those taken, and those reached that `items` is to have
    std::vector<int32_t> dropped;                     // sources that are reached, and that it isn't to have
    std::vector<Ref> constants;                       // numbers and texts reached by pointers
  };
  class Maker;

  void give_up();
  bool are_unchanged(const Mark& mark) const;
  int32_t source_of_change(const Mark& mark) const;
  void release(const std::vector<Step>& steps, const Mark& until, PyObject** items) const;

  Made made_;
  std::vector<uint8_t> read_;  // see keep_only; empty: all
  std::vector<uint8_t> restless_;   // by source: changes all the time, and so nothing is told by it
  mutable uint32_t served_ = 0;     // since it was made
  mutable int32_t failed_ = -1;     // the source at which it failed last
  int32_t tries_ = 0;               // that served little
};

}  // namespace evalframe::guards
