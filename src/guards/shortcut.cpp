// Makes of a check that held a shorter one.
#include "guards/shortcut.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "guards/steps.h"

namespace evalframe::guards {

namespace {

// A shortcut that served no more often was made for something that changes; after so many of them no other is made.
constexpr uint32_t kFewServed = 4;
constexpr int32_t kMostTries = 16;

// The guards have it as long as they are there.
bool holds_object(const Step& step, PyObject* object) {
  return step.reach == Reach::kObject || ((step.check == Check::kEqual || step.check == Check::kIdentity) && step.want == object);
}

// The object is of the very class that it was of.
bool tells_class(Check check) {
  return check == Check::kType || check == Check::kTypeVersion || check == Check::kTensor || check == Check::kKeys || check == Check::kOrderedKeys || check == Check::kElements;
}

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
      : steps_(steps), items_(items), restless_(restless), read_(read), states_(sources), kept_(sources) {
    for (const Step& step : steps) {
      states_[step.source].is_held |= holds_object(step, items[step.source]);
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
      if (!is_read && !is_implied(step) && !tell_tensor(step) && !tell_class(step)) mark({.what = What::kFact, .source = step.source, .step = static_cast<int32_t>(i)});
      states_[step.source].has_class |= tells_class(step.check);
    }
    end_words();
    own();
    keep();
    return std::move(made_);
  }

 private:
  // How many words of a run of them, each leading to the next, have to be as they were before something is read.
  struct Depth {
    int32_t run = -1, value = 0;
  };
  struct State {
    bool is_asked = false;   // what it has is asked for
    bool is_stable = false;  // the very object, if the marks so far hold
    bool by_pointer = false;  // ... or another one of its class at its place, as nobody holds it
    bool is_known = false;   // ... or one in its place
    bool tells_contents = false, tells_attributes = false, has_no_dict = false;
    bool has_values = false;  // its attributes are told by pointers
    bool has_class = false;  // that it had
    bool is_held = false;    // by the guards
    Depth object = {}, contents = {};  // of its own memory; of what is in the dict or has been found in its attributes
  };

  void own() {
    made_.owned = Held<Sources>(new Sources);
    for (const Step& step : steps_) {
      if (step.again || step.reach == Reach::kSlot) continue;
      const bool is_read = read_.empty() || read_[step.source], is_lent = states_[step.source].is_held;
      PyObject* const kept = kept_[step.source];
      if (is_read && kept) (is_lent ? made_.lent : made_.taken).emplace_back(step.source, kept);
      if (is_read && !(kept && is_lent)) made_.owned->numbers.push_back(step.source);
      if (!is_read && !kept) made_.dropped.push_back(step.source);
    }
  }

  // What the marks look at.
  void keep() {
    const auto keep_one = [&](int32_t source) {
      if (source >= 0 && kept_[source]) made_.seen.emplace_back(source, std::exchange(kept_[source], nullptr));
    };
    for (const Mark& mark : made_.marks) {
      if (mark.what != What::kWords) keep_one(mark.source);
      if (mark.step < 0) continue;
      keep_one(steps_[mark.step].parent);
      keep_one(steps_[mark.step].other);
    }
  }

  static bool asks_for_dict(Check check) {
    return check == Check::kLength || check == Check::kKeys || check == Check::kHas || check == Check::kHasNot || check == Check::kLacks || check == Check::kApart;
  }

  // The first step of a source. False: it is read in each call.
  bool begin(const Step& step, int32_t number) {
    State& state = states_[step.source];
    PyObject* const object = items_[step.source];
    if ((state.is_stable = is_stable(step, object))) {
      state.object = depth_of(step);
      state.by_pointer = step.reach == Reach::kAttribute && states_[step.parent].has_values;
    } else {
      state.is_stable = state.by_pointer = tell_field(step, object);
    }
    if (state.by_pointer) tell_place(step.source, object);
    state.is_known = state.is_stable;
    if (state.is_stable) kept_[step.source] = object;
    else mark({.what = What::kRead, .source = step.source, .step = number});
    if (!state.is_asked || restless_[step.source]) return state.is_stable;
    if (PyDict_Check(object)) tell_contents(step.source, object);
    if (PyTuple_Check(object) && state.by_pointer) tell_size(step.source, object);
    if (PyList_CheckExact(object)) tell_elements(step.source, object);
    else if (!PyDict_CheckExact(object) && !PyODict_CheckExact(object)) tell_attributes(step.source, object);
    return state.is_stable;
  }

  // Of what stands where a pointer leads.
  void tell_place(int32_t source, PyObject* object) {
    State& state = states_[source];
    state.by_pointer = !state.is_held && (PyTuple_CheckExact(object) || !is_constant(object));
    if (state.by_pointer) state.object = behind(tell(source, class_of(object), value(state.object)));
    else if (!state.is_held) made_.constants.push_back(Ref::borrow(object));
  }

  void mark(Mark mark) {
    if (mark.what != What::kWords) end_words();
    made_.marks.push_back(mark);
  }

  // Before the run of words that ends here all others have been looked at.
  int32_t value(const Depth& depth) const { return depth.run == run_ ? depth.value : 0; }
  Depth behind(int32_t depth) const { return {run_, depth + 1}; }

  // Of many objects one class's version is asked for once. Gives the depth at which it is.
  int32_t tell(int32_t source, const Word& word, int32_t depth) {
    const auto [found, is_new] = told_.try_emplace(word.at, Depth{run_, depth});
    if (!is_new) return found->second.run == run_ ? found->second.value : -1;
    waiting_.push_back({word, source, depth});
    return depth;
  }

  // A run of words is looked at in rows, by depth.
  void end_words() {
    if (waiting_.empty()) return;
    std::ranges::stable_sort(waiting_, {}, &Told::depth);
    const int32_t first = made_.rows.count();
    std::vector<Word> row;
    for (size_t i = 0; i < waiting_.size(); i++) {
      row.push_back(waiting_[i].word);
      made_.of_words.emplace_back(waiting_[i].word.at, waiting_[i].source);
      if (i + 1 < waiting_.size() && waiting_[i + 1].depth == waiting_[i].depth) continue;
      made_.rows.add(std::exchange(row, {}));
    }
    made_.marks.push_back({.what = What::kWords, .source = waiting_[0].source, .first = first, .count = made_.rows.count() - first});
    waiting_.clear();
    run_++;
  }

  // What leads to the object in its holder; none: it isn't known where.
  std::optional<Word> pointer_of(const Step& step, PyObject* holder) const {
    if (step.reach == Reach::kCell) return field(holder, offsetof(PyCellObject, ob_ref));
    if (step.reach == Reach::kReferent) return field(holder, offsetof(PyWeakReference, wr_object));
    if (step.reach == Reach::kItem && states_[step.parent].tells_contents) {
      if (PyList_CheckExact(holder)) return word_at(&PyList_GET_ITEM(holder, step.index));
      if (PyTuple_Check(holder)) return word_at(&PyTuple_GET_ITEM(holder, step.index));
    }
    const Py_ssize_t offset = step.reach == Reach::kAttribute ? offset_of_field(step, holder) : -1;
    return offset < 0 ? std::nullopt : std::optional(field(holder, offset));
  }

  bool tell_field(const Step& step, PyObject* object) {
    if (restless_[step.source] || step.reach == Reach::kSlot) return false;
    PyObject* const holder = holder_of(step, items_);
    const std::optional<Word> pointer = pointer_of(step, holder);
    if (!pointer || !points_to(*pointer, object)) return false;
    int32_t depth = 0;
    if (holder != step.object) {
      if (restless_[step.parent]) return false;
      know(step.parent, holder);
      const State& parent = states_[step.parent];
      depth = std::max(value(parent.object), value(parent.contents));
    }
    states_[step.source].object = behind(tell(step.source, *pointer, depth));
    return true;
  }

  // Of the very tensor. Its class isn't told by how it lies.
  bool tell_tensor(const Step& step) {
    if (step.check != Check::kTensor || !states_[step.source].is_stable || restless_[step.source]) return false;
    PyObject* const tensor = items_[step.source];
    const std::vector<torch::TensorWord> words = torch::words_of(tensor, *step.tensor);
    if (words.empty()) return false;
    const int32_t depth = value(states_[step.source].object);
    tell(step.source, class_of(tensor), depth);
    for (const auto& [word, pointers] : words) tell(step.source, word, depth + pointers);
    return true;
  }

  // Of the very object what its class is, or of the very class that it hasn't changed.
  bool tell_class(const Step& step) {
    if (!states_[step.source].is_known || restless_[step.source]) return false;
    PyObject* const object = items_[step.source];
    const bool is_class = step.check == Check::kClassVersion;
    if (!is_class && step.check != Check::kType && step.check != Check::kTypeVersion) return false;
    auto* const type = is_class ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
    if (step.check != Check::kType && !cpython::type_version(type)) return false;
    int32_t depth = value(states_[step.source].object);
    if (!is_class) depth = tell(step.source, class_of(object), depth) + 1;
    if (step.check != Check::kType) tell(step.source, cpython::word_of_version(type), depth);
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
    State& state = states_[source];
    state.tells_contents = true;
    know(source, dict);
    const bool keeps_class = state.is_stable && (PyDict_CheckExact(dict) || PyODict_CheckExact(dict));
    int32_t depth = value(state.object);
    if (!keeps_class) depth = std::max(depth, tell(source, class_of(dict), depth));
    state.contents = behind(std::max(depth, tell(source, cpython::word_of_version(dict), depth)));
  }

  // Of the very list or tuple how many there are.
  int32_t tell_size(int32_t source, PyObject* container) {
    State& state = states_[source];
    state.tells_contents = true;
    const int32_t size = tell(source, field(container, offsetof(PyVarObject, ob_size)), value(state.object));
    state.contents = behind(size);
    return size;
  }

  // ... and of the list where they stand.
  void tell_elements(int32_t source, PyObject* list) {
    State& state = states_[source];
    if (!state.is_stable) return;
    const int32_t size = tell_size(source, list);
    state.contents = behind(std::max(size, tell(source, field(list, offsetof(PyListObject, ob_item)), value(state.object))));
  }

  void tell_attributes(int32_t source, PyObject* object) {
    if (PyType_Check(object)) return tell_class_attributes(source, object);
    PyTypeObject* const type = Py_TYPE(object);
    const std::optional<cpython::DictPlace> place = cpython::dict_place(object);
    const std::vector<Word> values = place ? std::vector<Word>() : cpython::words_of_values(object);
    if ((!place && values.empty()) || !cpython::type_version(type)) return tell_values(source, object);
    know(source, object);
    State& state = states_[source];
    state.tells_attributes = true;
    state.has_values = !values.empty();
    const int32_t depth = value(state.object), of_class = tell(source, class_of(object), depth), of_type = tell(source, cpython::word_of_version(type), of_class + 1);
    int32_t deepest = std::max({depth, of_class, of_type, value(state.contents)});
    const cpython::DictPlace own = place.value_or(cpython::DictPlace{});
    const int32_t leads = own.offset ? tell(source, field(object, own.offset), depth) : depth;
    deepest = std::max(deepest, leads);
    if (own.dict) deepest = std::max(deepest, tell(source, cpython::word_of_version(own.dict), leads + 1));
    // The first is what leads to the others.
    for (size_t i = 0; i < values.size(); i++) deepest = std::max(deepest, tell(source, values[i], i ? depth + 1 : depth));
    state.contents = behind(deepest);
  }

  // The version of a class tells of its own dict, too.
  void tell_class_attributes(int32_t source, PyObject* object) {
    auto* const type = reinterpret_cast<PyTypeObject*>(object);
    if (!cpython::type_version(type) || !cpython::type_version(Py_TYPE(object))) return;
    know(source, object);
    State& state = states_[source];
    state.tells_attributes = true;
    const int32_t depth = value(state.object), metaclass = tell(source, class_of(object), depth);
    const int32_t of_metaclass = tell(source, cpython::word_of_version(Py_TYPE(object)), metaclass + 1);
    state.contents = behind(std::max({depth, of_metaclass, tell(source, cpython::word_of_version(type), depth)}));
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
      case Reach::kItem: return PyDict_Check(container) ? parent.tells_contents : PyTuple_Check(container) && parent.is_stable && !parent.by_pointer;
      case Reach::kMethod: return parent.tells_attributes;
      case Reach::kAttribute: return parent.tells_attributes && (PyType_Check(container) ? is_of_class(container, step.object, object) : is_of_dict(container, step.object, object));
      default: return false;
    }
  }

  // Of an object that is_stable holds for, as it is reached so.
  Depth depth_of(const Step& step) const {
    if (step.reach == Reach::kObject) return {};
    const State& parent = states_[step.parent];
    return PyTuple_Check(items_[step.parent]) && step.reach == Reach::kItem ? parent.object : parent.contents;
  }

  // What a class has in its own dict is asked whether it is a descriptor.
  static bool is_of_class(PyObject* type, PyObject* name, PyObject* object) {
    PyTypeObject* const metaclass = Py_TYPE(type);
    PyObject* const dict = cpython::own_dict(type);
    const bool is_module = PyUnicode_CompareWithASCIIString(name, "__module__") == 0 && cpython::gives_its_module(metaclass);
    return dict && is_constant(object) && (is_module || cpython::dict_comes_first(metaclass, name)) && cpython::item_of_key(dict, name) == object;
  }

  static bool is_of_dict(PyObject* container, PyObject* name, PyObject* object) {
    PyObject* const dict = cpython::own_dict(container);
    if (!dict && cpython::may_have_values_alone(container)) return cpython::dict_comes_first(Py_TYPE(container), name) && cpython::own_value(container, name) == object;
    if (object == dict && cpython::gives_its_dict(Py_TYPE(container))) return PyUnicode_CompareWithASCIIString(name, "__dict__") == 0;
    return dict && cpython::dict_comes_first(Py_TYPE(container), name) && cpython::item_of_key(dict, name) == object;
  }

  bool is_implied(const Step& step) const {
    const State& state = states_[step.source];
    PyObject* const object = items_[step.source];
    switch (step.check) {
      case Check::kNone: return true;
      case Check::kIdentity: return state.is_stable;
      case Check::kEqual: return state.is_stable && !state.by_pointer && is_constant(step.want);
      case Check::kType: return state.tells_attributes || state.has_no_dict || (state.is_stable && keeps_its_class(object));
      case Check::kTypeVersion: return state.tells_attributes;
      case Check::kLength: return (state.tells_contents && (PyDict_CheckExact(object) || PyODict_CheckExact(object) || PyList_CheckExact(object) || PyTuple_CheckExact(object))) || (state.is_stable && !state.by_pointer && PyTuple_CheckExact(object));
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
    const bool keeps_class = state.has_class || state.tells_contents || (state.is_stable && keeps_its_class(object));
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
  struct Told {
    Word word;
    int32_t source, depth;
  };
  std::vector<State> states_;
  std::vector<PyObject*> kept_;  // by source; null: read anew
  std::unordered_map<const void*, Depth> told_;
  std::vector<Told> waiting_;  // of the run
  int32_t run_ = 0;
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

inline bool Shortcut::are_unchanged(const Mark& mark) const {
  for (int32_t row = mark.first; row < mark.first + mark.count; row++) {
    if (!made_.rows.is_unchanged(row)) [[unlikely]] return false;
  }
  return true;
}

// Behind the first row that has changed nothing may be there any more. Words of tensors that threads without the lock write may be as they were by now.
int32_t Shortcut::source_of_change(const Mark& mark) const {
  for (int32_t row = mark.first; row < mark.first + mark.count; row++) {
    if (const void* const at = made_.rows.changed_in(row)) return std::ranges::find(made_.of_words, at, [](const auto& word) { return word.first; })->second;
  }
  return mark.source;
}

void Shortcut::release(const std::vector<Step>& steps, const Mark& until, PyObject** items) const {
  for (const Mark& mark : made_.marks) {
    if (mark.what == What::kRead && steps[mark.step].reach != Reach::kSlot) Py_XDECREF(std::exchange(items[mark.source], nullptr));
    if (&mark == &until) return;
  }
}

bool Shortcut::holds(const std::vector<Step>& steps, PyObject* const* const* frames, PyObject** items) const {
  const NoCollection no_collection;
  for (const auto& [source, object] : made_.seen) items[source] = object;
  cpython::OwnNames names;
  for (const Mark& mark : made_.marks) {
    bool good = false;
    failed_ = mark.source;
    switch (mark.what) {
      case What::kWords:
        good = are_unchanged(mark);
        if (!good) failed_ = source_of_change(mark);
        break;
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
#pragma GCC unroll 4
  for (const auto& [source, object] : made_.taken) items[source] = Py_NewRef(object);
#pragma GCC unroll 4
  for (const auto& [source, object] : made_.lent) items[source] = object;
  for (const int32_t source : made_.dropped) Py_DECREF(items[source]);
  failed_ = -1;
  served_++;
  return true;
}

}  // namespace evalframe::guards
