// The check program: a guard table in the flat form that a call runs, over borrowed objects and without lists.
#pragma once

#include <iterator>
#include <memory>

#include "cpython/attributes.h"
#include "frontends/torch/thread_words.h"
#include "guards/failures.h"
#include "guards/guards.h"
#include "guards/shortcut.h"

namespace evalframe::guards {

class Program;

// One fact: how its object is reached, and what is asked of it. Pointers are borrowed from the table.
struct Step {
  Reach reach;
  Check check;
  bool again;         // another fact of the source before
  bool fixes_number;  // Fact::fixes_number
  int8_t rank;
  int32_t source, parent, frame, index, array_flags, other;
  mutable uint32_t type_version;  // re-armed when a store that doesn't matter has changed it
  const ClassContents* contents;
  PyObject* object;
  PyObject* want;
  Py_ssize_t length;
  const torch::Facts* tensor;
  mutable cpython::AttributeHint hint = {};  // kAttribute
};

// The objects of a program's sources in one call. What came from a slot is the caller's, all else is owned, or of that what the call
// will read (Program::keep_only).
class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() { clear(); }

  PyObject* operator[](size_t source) const { return items_[source]; }
  // Null where nothing behind the check reads it: what stands there may be anything.
  PyObject* read(size_t source) const;
  PyObject* const* data() const { return items_; }
  // Takes references to what came from slots: their frames are about to go.
  void own_slots();
  // The program that filled it must still be there, then and when this goes.
  void clear();

 private:
  friend class Program;
  static constexpr int32_t kFew = 24;
  void prepare(const Program& program);
  void drop_owned(int32_t count);

  PyObject* few_[kFew];
  PyObject** items_ = few_;
  std::unique_ptr<PyObject*[]> many_;
  int32_t room_ = kFew;
  int32_t count_ = 0;
  bool slots_owned_ = false, has_all_ = true;
  const Program* program_ = nullptr;
  Held<Sources> owned_;
};

class Program {
 public:
  // The table must outlive the program and not change any more.
  explicit Program(const GuardTable& table);

  // Checks everything. frames[k]: the slots of frame k of the chain. On success `objects` has an object for each source.
  // On failure it is empty, and `failures`, if any, is told which guard it was and what it found.
  // Runs no Python code; no exception is left set.
  bool check(PyObject* const* const* frames, Objects& objects, Failures* failures) const;
  // Whether it takes time to own all objects.
  bool reaches_many() const;
  // Sources, by number, that are read behind a check: from here on it need not leave others.
  void keep_only(std::vector<uint8_t> read);
  // What a check of these frames, which holds, costs. Takes some hundred times as long.
  Costs costs(PyObject* const* const* frames) const;
  // All objects are in slots, `Objects` owns none, and each is looked at alone.
  bool has_only_slots() const { return only_slots_; }
  // Whether what is asked besides the sources holds.
  bool surroundings_hold() const;
  // The same as check where there are only slots, of one frame, for a caller who wants to know no more.
  bool check_slots(PyObject* const* slots) const;
  // Adds the paths of numbers and lengths that are asked to equal something and don't any more.
  // only_given: sizes of tensors, and ints that the frames' variables hold, or containers in them.
  void collect_changed(PyObject* const* const* frames, Paths& changed, bool only_given) const;
  // Whether it is a dict's keys or what is in a set that says no, and of which.
  void collect_changed_keys(PyObject* const* const* frames, Paths& changed) const;

 private:
  void collect_names(Paths& changed) const;
  bool collect_sizes(const Step& step, PyObject* object, Paths& changed) const;
  bool collect_given(const Step& step, PyObject* object, Paths& changed) const;
  // Goes through the steps that don't hold, until `visit`, which gets each one with its object, is false or an object can't be reached.
  template <class Visit>
  void visit_failed(PyObject* const* const* frames, Visit visit) const;
  friend class Objects;
  bool check_steps(PyObject* const* const* frames, Objects& objects, Failures* failures, int32_t line) const;
  bool check_surroundings(int32_t& line) const;
  bool check_functions(int32_t& line) const;
  bool check_states(int32_t& line) const;
  bool check_names(int32_t& line) const;
  void learn_surroundings() const;
  void note_surroundings(int32_t line, Failures& failures) const;
  void add_costs_of_surroundings(Costs& costs) const;
  bool is_slot(int32_t source) const { return table_.sources[source].reach == Reach::kSlot; }

  const GuardTable& table_;
  std::vector<Step> steps_;
  int32_t count_;  // sources
  Held<Sources> owned_{new Sources};  // those of them that aren't slots
  bool only_slots_ = true;
  const bool asks_thread_;  // some of the states are told by its words
  mutable WordRows surroundings_;  // as functions, modules and dicts of names lay when they held, in one; none: they have to be looked at
  mutable int32_t surroundings_count_ = 0;  // how many they and the states are
  mutable torch::ThreadWords thread_;  // of the last one in which all states held
  mutable Shortcut shortcut_;
  mutable std::unique_ptr<PyObject*[]> spare_;  // memory that one call's objects leave to the next one's
};

}  // namespace evalframe::guards
