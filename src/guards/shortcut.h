// What a check has found, for the next one: where no dict and no class on the way has another version, all that was reached through
// them is as it was, and isn't looked at again.
#pragma once

#include <utility>
#include <vector>

#include "core/word.h"
#include "guards/guards.h"

namespace evalframe::guards {

struct Step;

// Objects are borrowed from a check that is over. None is touched before what holds it has been found unchanged: versions of dicts
// and classes are never given twice (cpython/versions.h), so that they also tell that nothing was freed meanwhile.
class Shortcut {
 public:
  // Whether everything holds that the steps ask for, as far as this can tell; fills `items` as the steps would. False: they
  // have to be gone through, and `items` owns nothing. Else it owns what the steps have reached, or of that what `keep_only` says.
  bool holds(const std::vector<Step>& steps, PyObject* const* const* frames, PyObject** items) const;
  bool is_made() const { return !made_.marks.empty(); }
  // Sources, by number, that are read behind the check, and the only ones that have to be there then.
  void keep_only(std::vector<uint8_t> read);
  // The steps hold, with these objects.
  void learn(const std::vector<Step>& steps, int32_t sources, PyObject* const* items);

 private:
  enum class What : uint8_t {
    kRead,    // of `step` the object, and what it asks
    kFact,    // what `step` asks
    kSame,    // the source is `object`
    kWords,   // `count` batches of words from `first` on, of objects that are the very ones
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
    std::vector<Word> words;  // versions of dicts and classes, pointers, the numbers of tensors: those of a batch are there if the batches before are as they were
    std::vector<int32_t> of_words;  // their sources
    std::vector<int32_t> ends;      // of batches, in `words`
    std::vector<std::pair<int32_t, PyObject*>> kept;  // sources that aren't read anew, of which marks or who calls want the objects
    size_t owned = 0;                                 // the first of these, which `items` is to own
    std::vector<int32_t> dropped;                     // sources that are reached, and that it isn't to own
  };
  class Maker;

  void give_up();
  const Word* changed_in(const Mark& mark) const;
  void release(const std::vector<Step>& steps, const Mark& until, PyObject** items) const;

  Made made_;
  std::vector<uint8_t> read_;  // see keep_only; empty: all
  std::vector<uint8_t> restless_;   // by source: changes all the time, and so nothing is told by it
  mutable uint32_t served_ = 0;     // since it was made
  mutable int32_t failed_ = -1;     // the source at which it failed last
  int32_t tries_ = 0;               // that served little
};

}  // namespace evalframe::guards
