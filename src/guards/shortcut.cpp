// Makes of a check that held a shorter one.
#include "guards/shortcut.h"

#include <algorithm>
#include <unordered_set>

#include "guards/steps.h"

namespace evalframe::guards {

namespace {

// A shortcut that served no more often was made for something that changes; after so many of them no other is made.
constexpr uint32_t kFewServed = 4;
constexpr int32_t kMostTries = 16;

// Objects whose value can't change as long as they live.
bool is_constant(PyObject* object) {
  if (PyTuple_CheckExact(object)) return std::all_of(&PyTuple_GET_ITEM(object, 0), &PyTuple_GET_ITEM(object, 0) + PyTuple_GET_SIZE(object), is_constant);
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
         PyBytes_CheckExact(object);
}

// What a step of these ways reads from: a cell of its own, or its parent.
PyObject* holder_of(const Step& step, PyObject* const* items) { return step.reach == Reach::kCell && step.object ? step.object : items[step.parent]; }

// A pointer of an object.
Word field(PyObject* holder, Py_ssize_t offset) { return word_at(reinterpret_cast<const char*>(holder) + offset); }
bool points_to(const Word& word, PyObject* object) { return word.value == reinterpret_cast<uintptr_t>(object); }
Word class_of(PyObject* object) { return field(object, offsetof(PyObject, ob_type)); }

// Modules may be given a class of the program's.
bool keeps_its_class(PyObject* object) { return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE) && !PyModule_Check(object); }

// What is kept isn't owned before all marks hold. A collection, which 3.11 begins wherever an object is made, would run what the program
// has for the end of its objects.
class NoCollection {
 public:
  NoCollection() : was_enabled_(cpython::layout::k311 && PyGC_Disable()) {}
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;
  ~NoCollection() {
    if (was_enabled_) PyGC_Enable();
  }

 private:
  bool was_enabled_;
};

}  // namespace

class Shortcut::Maker {
 public:
  Maker(const std::vector<Step>& steps, int32_t sources, PyObject* const* items, const std::vector<uint8_t>& restless, const std::vector<uint8_t>& read)
      : steps_(steps), items_(items), restless_(restless), read_(read), states_(sources) {
    made_.kept.resize(sources);
    for (const Step& step : steps) {
      const bool through_dict = step.reach == Reach::kItem || step.reach == Reach::kAttribute || step.reach == Reach::kMethod;
      if (!step.again && step.parent >= 0 && through_dict) states_[step.parent].is_asked = true;
      if (step.check == Check::kApart) states_[step.other].is_asked = true;
      states_[step.source].is_asked |= asks_for_dict(step.check);
    }
  }

  Made run() {
    for (size_t i = 0; i < steps_.size(); i++) {
      const Step& step = steps_[i];
      const bool is_read = !step.again && !begin(step, static_cast<int32_t>(i));
      if (!is_read && !is_implied(step) && !tell_tensor(step)) mark({.what = What::kFact, .source = step.source, .step = static_cast<int32_t>(i)});
    }
    for (const Step& step : steps_) {
      if (step.again || step.reach == Reach::kSlot) continue;
      const bool is_read = read_.empty() || read_[step.source], is_kept = made_.kept[step.source];
      if (is_read && is_kept) made_.taken.push_back(step.source);
      if (!is_read && !is_kept) made_.dropped.push_back(step.source);
    }
    return std::move(made_);
  }

 private:
  struct State {
    bool is_asked = false;   // what it has is asked for
    bool is_stable = false;  // the very object, if the marks so far hold
    bool is_known = false;   // ... or one in its place
    bool tells_contents = false, tells_attributes = false, has_no_dict = false;
  };

  static bool asks_for_dict(Check check) {
    return check == Check::kLength || check == Check::kKeys || check == Check::kHas || check == Check::kHasNot || check == Check::kLacks || check == Check::kApart;
  }

  // The first step of a source. False: it is read in each call.
  bool begin(const Step& step, int32_t number) {
    State& state = states_[step.source];
    PyObject* const object = items_[step.source];
    state.is_stable = is_stable(step, object) || tell_field(step, object);
    state.is_known = state.is_stable;
    if (state.is_stable) made_.kept[step.source] = object;
    else mark({.what = What::kRead, .source = step.source, .step = number});
    if (!state.is_asked || restless_[step.source]) return state.is_stable;
    if (PyDict_Check(object)) tell_contents(step.source, object);
    else tell_attributes(step.source, object);
    return state.is_stable;
  }

  void mark(Mark mark) { made_.marks.push_back(mark); }

  // Of many objects one class's version is asked for once.
  void tell(int32_t source, const Word& word) {
    if (!told_.insert(word.at).second) return;
    if (made_.marks.empty() || made_.marks.back().what != What::kWords) mark({.what = What::kWords, .source = source, .first = static_cast<int32_t>(made_.words.size())});
    made_.marks.back().count++;
    made_.words.push_back(word);
    made_.of_words.push_back(source);
  }

  bool tell_field(const Step& step, PyObject* object) {
    if (restless_[step.source] || (step.reach != Reach::kCell && step.reach != Reach::kAttribute)) return false;
    PyObject* const holder = holder_of(step, items_);
    const Py_ssize_t offset = step.reach == Reach::kCell ? offsetof(PyCellObject, ob_ref) : offset_of_field(step, holder);
    if (offset < 0 || !points_to(field(holder, offset), object)) return false;
    if (holder != step.object) {
      if (restless_[step.parent]) return false;
      know(step.parent, holder);
    }
    tell(step.source, field(holder, offset));
    return true;
  }

  // Of the very tensor. Its class isn't told by how it lies.
  bool tell_tensor(const Step& step) {
    if (step.check != Check::kTensor || !states_[step.source].is_stable || restless_[step.source]) return false;
    PyObject* const tensor = items_[step.source];
    const std::vector<Word> words = torch::words_of(tensor, *step.tensor);
    if (words.empty()) return false;
    tell(step.source, class_of(tensor));
    for (const Word& word : words) tell(step.source, word);
    return true;
  }

  Py_ssize_t offset_of_field(const Step& step, PyObject* holder) const {
    return states_[step.parent].tells_attributes || keeps_its_class(holder) ? cpython::offset_of_field(holder, step.object) : -1;
  }

  void know(int32_t source, PyObject* object) {
    if (!states_[source].is_known) mark({.what = What::kSame, .source = source, .object = object});
    states_[source].is_known = true;
  }

  void tell_contents(int32_t source, PyObject* dict) {
    if (!cpython::version_tells_all(dict)) return;
    states_[source].tells_contents = true;
    know(source, dict);
    const bool keeps_class = states_[source].is_stable && (PyDict_CheckExact(dict) || PyODict_CheckExact(dict));
    if (!keeps_class) tell(source, class_of(dict));
    tell(source, cpython::word_of_version(dict));
  }

  void tell_attributes(int32_t source, PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    const std::optional<cpython::DictPlace> place = PyType_Check(object) ? std::nullopt : cpython::dict_place(object);
    if (!place || !cpython::type_version(type)) return tell_values(source, object);
    know(source, object);
    states_[source].tells_attributes = true;
    tell(source, class_of(object));
    tell(source, cpython::word_of_version(type));
    if (place->offset) tell(source, field(object, place->offset));
    if (place->dict) tell(source, cpython::word_of_version(place->dict));
  }

  void tell_values(int32_t source, PyObject* object) {
    if (!cpython::may_have_values_alone(object)) return;
    know(source, object);
    states_[source].has_no_dict = true;
    mark({.what = What::kNoDict, .source = source, .object = object, .type = Py_TYPE(object)});
  }

  bool is_stable(const Step& step, PyObject* object) const {
    if (step.reach == Reach::kObject) return true;
    if (step.parent < 0) return false;
    const State& parent = states_[step.parent];
    PyObject* const container = items_[step.parent];
    switch (step.reach) {
      case Reach::kItem: return PyDict_Check(container) ? parent.tells_contents : PyTuple_Check(container) && parent.is_stable;
      case Reach::kMethod: return parent.tells_attributes;
      case Reach::kAttribute: return parent.tells_attributes && is_of_dict(container, step.object, object);
      default: return false;
    }
  }

  static bool is_of_dict(PyObject* container, PyObject* name, PyObject* object) {
    PyObject* const dict = cpython::own_dict(container);
    if (object == dict && cpython::gives_its_dict(Py_TYPE(container))) return PyUnicode_CompareWithASCIIString(name, "__dict__") == 0;
    return dict && cpython::dict_comes_first(Py_TYPE(container), name) && cpython::item_of_key(dict, name) == object;
  }

  bool is_implied(const Step& step) const {
    const State& state = states_[step.source];
    PyObject* const object = items_[step.source];
    switch (step.check) {
      case Check::kNone: return true;
      case Check::kIdentity: return state.is_stable;
      case Check::kEqual: return state.is_stable && is_constant(step.want);
      case Check::kType: return state.tells_attributes || state.has_no_dict || (state.is_stable && keeps_its_class(object));
      case Check::kTypeVersion: return state.tells_attributes;
      case Check::kLength: return (state.tells_contents && (PyDict_CheckExact(object) || PyODict_CheckExact(object))) || (state.is_stable && PyTuple_CheckExact(object));
      case Check::kKeys: case Check::kHas: case Check::kHasNot: return state.tells_contents;
      case Check::kLacks: return state.tells_attributes;
      case Check::kSame: case Check::kDistinct: return state.is_known && states_[step.other].is_known;
      case Check::kApart: return has_known_dict(step.source) && has_known_dict(step.other);
      default: return false;
    }
  }

  // An OrderedDict can't be given a dict of attributes.
  bool has_known_dict(int32_t source) const {
    const State& state = states_[source];
    PyObject* const object = items_[source];
    const bool keeps_class = state.tells_contents || (state.is_stable && keeps_its_class(object));
    return state.tells_attributes || state.has_no_dict || (keeps_class && (has_no_dict(object) || PyODict_CheckExact(object)));
  }

  static bool has_no_dict(PyObject* object) {
    const std::optional<cpython::DictPlace> place = cpython::dict_place(object);
    return place && !place->offset;
  }

  const std::vector<Step>& steps_;
  PyObject* const* items_;
  const std::vector<uint8_t>& restless_;
  const std::vector<uint8_t>& read_;
  std::vector<State> states_;
  std::unordered_set<const void*> told_;
  Made made_;
};

void Shortcut::learn(const std::vector<Step>& steps, int32_t sources, PyObject* const* items) {
  if (tries_ > kMostTries) return;
  restless_.resize(sources);
  if (failed_ >= 0 && served_ < kFewServed) {
    restless_[failed_] = 1;
    tries_++;
  }
  failed_ = -1;
  served_ = 0;
  made_ = Maker(steps, sources, items, restless_, read_).run();
  if (made_.marks.size() >= steps.size() || tries_ > kMostTries) give_up();
}

void Shortcut::keep_only(std::vector<uint8_t> read) {
  read_ = std::move(read);
  made_ = {};
}

void Shortcut::give_up() {
  *this = {};
  tries_ = kMostTries + 1;
}

// The place of the first that has changed, or `count`.
inline int32_t Shortcut::changed(const Word* words, int32_t count) {
  int32_t at = 0;
  while (at < count && is_unchanged(words[at])) at++;
  return at;
}

void Shortcut::release(const std::vector<Step>& steps, const Mark& until, PyObject** items) const {
  for (const Mark& mark : made_.marks) {
    if (mark.what == What::kRead && steps[mark.step].reach != Reach::kSlot) Py_XDECREF(std::exchange(items[mark.source], nullptr));
    if (&mark == &until) return;
  }
}

bool Shortcut::holds(const std::vector<Step>& steps, PyObject* const* const* frames, PyObject** items) const {
  const NoCollection no_collection;
  std::copy(made_.kept.begin(), made_.kept.end(), items);
  cpython::OwnNames names;
  for (const Mark& mark : made_.marks) {
    bool good = false;
    failed_ = mark.source;
    switch (mark.what) {
      case What::kWords: {
        const int32_t place = changed(&made_.words[mark.first], mark.count);
        good = place == mark.count;
        if (!good) failed_ = made_.of_words[mark.first + place];
        break;
      }
      case What::kRead: {
        const Step& step = steps[mark.step];
        PyObject* const object = items[mark.source] = step.reach == Reach::kSlot ? frames[step.frame][step.index] : reach(step, frames, items, names);
        good = object && evalframe::guards::holds(step, object, items);
        break;
      }
      case What::kFact: good = evalframe::guards::holds(steps[mark.step], items[mark.source], items); break;
      case What::kSame: good = items[mark.source] == mark.object; break;
      case What::kNoDict: good = Py_TYPE(mark.object) == mark.type && cpython::has_values_alone(mark.object); break;
    }
    if (good) [[likely]] continue;
    PyErr_Clear();
    release(steps, mark, items);
    return false;
  }
  for (const int32_t source : made_.taken) Py_INCREF(items[source]);
  for (const int32_t source : made_.dropped) Py_DECREF(items[source]);
  failed_ = -1;
  served_++;
  return true;
}

}  // namespace evalframe::guards
