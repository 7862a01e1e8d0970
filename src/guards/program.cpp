// Compiles a guard table to its flat form, and runs that.
#include "guards/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/object_text.h"
#include "guards/steps.h"

namespace evalframe::guards {

namespace {

// --- what was found where that doesn't hold: one function for each row of checks.def ---------------------------------

std::string array_text(PyArrayObject* array) {
  std::string text = "an array of " + object_text(reinterpret_cast<PyObject*>(PyArray_DESCR(array)->typeobj)) + ", rank " + std::to_string(PyArray_NDIM(array));
  if (PyArray_ISBYTESWAPPED(array)) text += ", not in native byte order";
  if (!PyArray_CHKFLAGS(array, NPY_ARRAY_ALIGNED)) text += ", not aligned";
  if (!PyArray_CHKFLAGS(array, NPY_ARRAY_WRITEABLE)) text += ", read-only";
  return text;
}

std::string type_text(PyObject* object) { return "the type " + object_text(reinterpret_cast<PyObject*>(Py_TYPE(object))); }

std::string elements_text(PyObject* container) {
  const Ref elements = Ref::steal(PySequence_Tuple(container));
  return elements ? object_text(elements.get()) : (PyErr_Clear(), type_text(container));
}

struct Found {
  static std::string kNone(const Step&, PyObject* object) { return object_text(object); }
  static std::string kType(const Step&, PyObject* object) { return type_text(object); }
  static std::string kEqual(const Step&, PyObject* object) { return Py_TYPE(object) == &PyArray_Type ? kArray({}, object) : object_text(object); }
  static std::string kIdentity(const Step& step, PyObject* object) { return kEqual(step, object); }
  static std::string kArray(const Step&, PyObject* object) {
    return Py_TYPE(object) == &PyArray_Type ? array_text(numpy::as_array(object)) : type_text(object);
  }
  static std::string kTensor(const Step& step, PyObject* object) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != reinterpret_cast<PyObject*>(step.tensor->type)) return type_text(object);
    const std::shared_ptr<const torch::Facts> facts = torch::facts_of(object);
    return facts ? "tensor of " + facts->text : (PyErr_Clear(), type_text(object));
  }
  static std::string kTypeVersion(const Step& step, PyObject* object) { return has_type(step, object) ? "the class, changed" : type_text(object); }
  static std::string kClassVersion(const Step& step, PyObject* object) { return object == step.want ? "the class, changed" : object_text(object); }
  static std::string kLength(const Step& step, PyObject* object) {
    return has_type(step, object) ? "length " + std::to_string(PyObject_Size(object)) : type_text(object);
  }
  static std::string kKeys(const Step&, PyObject* object) { return PyDict_CheckExact(object) ? "the keys " + elements_text(object) : type_text(object); }
  static std::string kOrderedKeys(const Step&, PyObject* object) { return PyODict_CheckExact(object) ? "the keys " + elements_text(object) : type_text(object); }
  static std::string kElements(const Step&, PyObject* object) {
    return PySet_CheckExact(object) ? "the elements " + elements_text(object) : type_text(object);
  }
  static std::string kHas(const Step&, PyObject* object) { return is_set_or_dict(object) ? "one without it" : type_text(object); }
  static std::string kHasNot(const Step&, PyObject* object) { return is_set_or_dict(object) ? "one that has it" : type_text(object); }
  static std::string kLacks(const Step&, PyObject*) { return "an object that has it"; }
  static std::string kPattern(const Step&, PyObject*) { return "its class, registered anew"; }
  static std::string kSame(const Step&, PyObject*) { return "another object"; }
  static std::string kDistinct(const Step&, PyObject*) { return "the same object"; }
  static std::string kApart(const Step&, PyObject*) { return "one dict of both"; }
};

std::string found_text(const Step& step, PyObject* object) {
  if (!object) return "nothing";
  switch (step.check) {
#define EVALFRAME_CHECK(name, text, hint) \
  case Check::name: return Found::name(step, object);
#include "guards/checks.def"
#undef EVALFRAME_CHECK
  }
  return "";
}

// Tells apart what has different texts, without making them; 0: only the text does, as addresses are used again.
uint64_t mark_of(const Step& step, PyObject* object) {
  if (!object) return 1;
  if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE)) return 0;
  const auto type = reinterpret_cast<uintptr_t>(Py_TYPE(object));
  const auto with_type = [&](auto value) { return (static_cast<uint64_t>(value) * 0x9E3779B97F4A7C15u) ^ type; };
  if (step.check == Check::kType) return type;
  if (step.check == Check::kLength) return has_type(step, object) ? with_type(PyObject_Size(object)) : type;
  if (Py_TYPE(object) == &PyArray_Type && PyTypeNum_ISNUMBER(PyArray_DESCR(numpy::as_array(object))->type_num)) {
    PyArrayObject* const array = numpy::as_array(object);
    const int bits = (PyArray_FLAGS(array) & kArrayFlags) | PyArray_ISBYTESWAPPED(array);
    return with_type((PyArray_DESCR(array)->type_num * 256 + PyArray_NDIM(array)) * 65536 + bits);
  }
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow ? 0 : with_type(number);
  }
  if (PyFloat_CheckExact(object)) {
    const double number = PyFloat_AS_DOUBLE(object);
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return with_type(bits);
  }
  return PyUnicode_CheckExact(object) ? with_type(PyObject_Hash(object)) : 0;
}

void note(Failures& failures, int32_t line, uint64_t mark, const auto& text) {
  if (!failures.count(line, mark)) failures.name(mark, text());
}

[[gnu::noinline, gnu::cold]] void note_found(const Step& step, int32_t line, PyObject* object, Failures& failures) {
  note(failures, line, mark_of(step, object), [&] { return found_text(step, object); });
}

// The object is of the type that was seen.
bool may_be(const Step& step, PyObject* object) {
  if (step.check == Check::kKeys) return PyDict_CheckExact(object);
  if (step.check == Check::kOrderedKeys) return PyODict_CheckExact(object);
  if (step.check == Check::kElements) return PySet_CheckExact(object);
  return step.check == Check::kLength ? has_type(step, object) : Py_TYPE(object) == Py_TYPE(step.want);
}

// --- what holds without an object ------------------------------------------------------------------------------------

// The line among the guard's names that fails; -1: all hold.
int32_t failing_name(const DictGuard& guard) {
  const uint64_t version = cpython::dict_version(guard.dict.get());
  if (version == guard.version) return -1;
  int32_t line = 0;
  for (const auto& [name, value] : guard.names) {
    if (PyDict_GetItemWithError(guard.dict.get(), name.get()) != value.get()) return PyErr_Clear(), line;
    line++;
  }
  if (cpython::version_tells_all(guard.dict.get())) guard.version = version;
  return -1;
}

bool function_holds(const FunctionGuard& guard) {
  const auto* function = guard.function.as<PyFunctionObject>();
  return function->func_code == guard.code.get() && function->func_defaults == guard.defaults.get() &&
         function->func_kwdefaults == guard.keyword_defaults.get() && function->vectorcall == cpython::vectorcall_of_functions();
}

// Without the way around by a vectorcall, where it is a function of C's.
PyObject* called(PyObject* callable) {
  const bool is_plain = PyCFunction_CheckExact(callable) && (PyCFunction_GET_FLAGS(callable) & ~METH_STATIC) == METH_NOARGS;
  return is_plain ? PyCFunction_GET_FUNCTION(callable)(PyCFunction_GET_SELF(callable), nullptr) : PyObject_CallNoArgs(callable);
}

// Asking runs no Python code.
bool state_holds(const torch::State& state) {
  if (state.getter.function) return state.getter.number() == state.number;
  const Ref now = Ref::steal(called(state.callable.get()));
  if (!now) PyErr_Clear();
  return now && (now.get() == state.wanted.get() || equal(now.get(), state.wanted.get()));
}

}  // namespace

// --- the objects of one call -----------------------------------------------------------------------------------------

void Objects::prepare(const Program& program) {
  program_ = &program;
  owned_ = program.owned_;
  slots_owned_ = false;
  has_all_ = true;
  if (program.count_ <= room_) return;
  many_ = program.spare_ ? std::move(program.spare_) : std::make_unique_for_overwrite<PyObject*[]>(program.count_);
  items_ = many_.get();
  room_ = program.count_;
}

PyObject* Objects::read(size_t source) const {
  const auto number = static_cast<int32_t>(source);
  return has_all_ || program_->is_slot(number) || program_->shortcut_.leaves(number) ? items_[source] : nullptr;
}

void Objects::own_slots() {
  for (int32_t i = 0; i < count_; i++) {
    if (!slots_owned_ && program_->is_slot(i)) items_[i] = Ref::borrow(items_[i]).release();
  }
  slots_owned_ = true;
}

void Objects::clear() {
  const int32_t count = std::exchange(count_, 0);
  if (!count) return;
  if (!program_->only_slots_) drop_owned(count);
  for (int32_t i = 0; slots_owned_ && i < count; i++) {
    if (program_->is_slot(i)) Ref::steal(items_[i]);
  }
  if (!many_) return;
  program_->spare_ = std::move(many_);
  items_ = few_;
  room_ = kFew;
}

// Of the first `count` sources.
void Objects::drop_owned(int32_t count) {
  PyObject* const* const items = items_;
  const std::vector<int32_t>& numbers = owned_->numbers;
  const auto end = count == program_->count_ ? numbers.end() : std::ranges::lower_bound(numbers, count);
#pragma GCC unroll 4
  for (auto i = numbers.begin(); i != end; i++) Py_DECREF(items[*i]);
}

// --- the program -----------------------------------------------------------------------------------------------------

Program::Program(const GuardTable& table)
    : table_(table), count_(static_cast<int32_t>(table.sources.size())), asks_thread_(std::ranges::any_of(table.states, &torch::State::is_told)) {
  auto add = [&](const Source& source, const Fact& fact, int32_t number, bool again) {
    steps_.push_back({source.reach, fact.check, again, fact.fixes_number(), fact.meta.rank, number, source.parent, source.frame, source.index, fact.array_flags,
                      fact.other, fact.type_version, fact.contents.get(), source.object.get(), fact.want.get(), fact.length, fact.tensor.get()});
  };
  for (int32_t i = 0; i < count_; i++) {
    const Source& source = table.sources[i];
    add(source, source.fact, i, false);
    for (const Fact& fact : source.more) {
      add(source, fact, i, true);
      only_slots_ = only_slots_ && fact.other < 0;
    }
    if (!is_slot(i)) owned_->numbers.push_back(i);
  }
  only_slots_ = only_slots_ && owned_->numbers.empty();
}

bool Program::check_functions(int32_t& line) const {
  line = 0;
  for (const FunctionGuard& guard : table_.functions) {
    if (!function_holds(guard)) return false;
    line++;
  }
  for (const Ref& module : table_.modules) {
    if (!PyModule_CheckExact(module.get())) return false;
    line++;
  }
  return true;
}

bool Program::check_names(int32_t& line) const {
  for (const DictGuard& guard : table_.dicts) {
    const int32_t name = failing_name(guard);
    if (name >= 0) return line += name, false;
    line += static_cast<int32_t>(guard.names.size());
  }
  return true;
}

void Program::learn_surroundings() const {
  if (!std::ranges::all_of(table_.dicts, [](const DictGuard& guard) { return cpython::version_tells_all(guard.dict.get()); })) return surroundings_.clear();
  if (surroundings_.count()) return surroundings_.learn_anew();
  std::vector<Word> words;
  for (const FunctionGuard& guard : table_.functions) {
    const auto* const function = guard.function.as<PyFunctionObject>();
    for (const void* const at : {static_cast<const void*>(&function->func_code), static_cast<const void*>(&function->func_defaults), static_cast<const void*>(&function->func_kwdefaults),
                                 static_cast<const void*>(&function->vectorcall)}) {
      words.push_back(word_at(at));
    }
  }
  for (const Ref& module : table_.modules) words.push_back(word_at(&module.get()->ob_type));
  for (const DictGuard& guard : table_.dicts) words.push_back(cpython::word_of_version(guard.dict.get()));
  surroundings_.add(std::move(words));
}

inline bool Program::check_states(int32_t& line) const {
  const bool told = asks_thread_ && thread_.hold();
  for (const torch::State& state : table_.states) {
    if (!(told && state.is_told) && !state_holds(state)) return false;
    line++;
  }
  if (asks_thread_ && !told) thread_.learn();
  return true;
}

// Functions, modules, states and names; `line` is that of the first which fails, or how many there are.
[[gnu::always_inline]] inline bool Program::check_surroundings(int32_t& line) const {
  const bool known = surroundings_.count() && surroundings_.is_unchanged(0);
  if (!known && !check_functions(line)) return false;
  line = static_cast<int32_t>(table_.functions.size() + table_.modules.size());
  if (!check_states(line)) return false;
  if (known) return line = surroundings_count_, true;
  if (!check_names(line)) return false;
  surroundings_count_ = line;
  learn_surroundings();
  return true;
}

bool Program::surroundings_hold() const {
  int32_t line;
  return check_surroundings(line);
}

bool Program::check_slots(PyObject* const* slots) const {
  int32_t line;
  if (!check_surroundings(line)) return false;
  for (const Step& step : steps_) {
    PyObject* const object = slots[step.index];
    // Most arguments are arrays.
    const bool good = object && (step.check == Check::kArray ? Checks::kArray(step, object, nullptr) : holds(step, object, nullptr));
    if (!good) return false;
  }
  return true;
}

// What there is instead of what line `line` asks for.
[[gnu::noinline, gnu::cold]] void Program::note_surroundings(int32_t line, Failures& failures) const {
  int32_t before = 0;
  const auto within = [&](size_t count) { return line - before < static_cast<int32_t>(count) || (before += static_cast<int32_t>(count), false); };
  const auto note_object = [&](PyObject* object) {
    note(failures, line, 0, [&] { return object ? object_text(object) : std::string("nothing"); });
  };
  if (within(table_.functions.size())) {
    const FunctionGuard& guard = table_.functions[line];
    const auto* function = guard.function.as<PyFunctionObject>();
    const char* const other = function->func_code != guard.code.get() ? "other code" : function->vectorcall != cpython::vectorcall_of_functions() ? "a call of its own" : "other defaults";
    return note(failures, line, 0, [&] { return std::string(other); });
  }
  if (within(table_.modules.size())) return note_object(reinterpret_cast<PyObject*>(Py_TYPE(table_.modules[line - before].get())));
  if (within(table_.states.size())) {
    const Ref now = Ref::steal(PyObject_CallNoArgs(table_.states[line - before].callable.get()));
    if (!now) PyErr_Clear();
    return note_object(now.get());
  }
  for (const DictGuard& guard : table_.dicts) {
    if (!within(guard.names.size())) continue;
    PyObject* const now = PyDict_GetItemWithError(guard.dict.get(), guard.names[line - before].first.get());
    if (!now) PyErr_Clear();
    return note_object(now);
  }
}

bool Program::check(PyObject* const* const* frames, Objects& objects, Failures* failures) const {
  int32_t line;
  if (!check_surroundings(line)) {
    if (failures) note_surroundings(line, *failures);
    return false;
  }
  objects.prepare(*this);
  if (!shortcut_.is_made() || !shortcut_.holds(steps_, frames, objects.items_)) return check_steps(frames, objects, failures, line);
  objects.count_ = count_;
  objects.owned_ = shortcut_.owned();
  objects.has_all_ = false;
#ifdef EVALFRAME_ASSERTIONS
  // Who reads what isn't there finds nothing.
  for (const int32_t i : owned_->numbers) objects.items_[i] = objects.read(static_cast<size_t>(i));
#endif
  return true;
}

// The objects are prepared; `line` is how many guards there are besides the steps.
bool Program::check_steps(PyObject* const* const* frames, Objects& objects, Failures* failures, int32_t line) const {
  PyObject** const items = objects.items_;
  cpython::OwnNames names;
  for (const Step& step : steps_) {
    const bool is_slot = step.reach == Reach::kSlot;
    PyObject* const object = step.again ? items[step.source] : is_slot ? frames[step.frame][step.index] : reach(step, frames, items, names);
    if (object) [[likely]] {
      items[step.source] = object;
      objects.count_ = step.source + 1;
      if (holds(step, object, items)) continue;
    } else {
      PyErr_Clear();
    }
    if (failures) note_found(step, line + static_cast<int32_t>(&step - steps_.data()), object, *failures);
    objects.clear();
    return false;
  }
  if (!only_slots_) shortcut_.learn(steps_, count_, items);
  return true;
}

// --- what a check costs ----------------------------------------------------------------------------------------------

// The quickest of a few tries; each repeats it, as the clock is slower than a guard.
static double seconds_of(const auto& run) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 3, kTimes = 32;
  double least = 1;
  for (int i = 0; i < kTries; i++) {
    const Clock::time_point start = Clock::now();
    for (int k = 0; k < kTimes; k++) {
      run();
      asm volatile("" ::: "memory");  // nothing is moved out of the loop
    }
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count() / kTimes);
  }
  return least;
}

void Program::add_costs_of_surroundings(Costs& costs) const {
  std::vector<double>& lines = costs.by_line;
  for (const FunctionGuard& guard : table_.functions) lines.push_back(seconds_of([&] { return function_holds(guard); }));
  for (const Ref& module : table_.modules) lines.push_back(seconds_of([&] { return PyModule_CheckExact(module.get()); }));
  for (const torch::State& state : table_.states) lines.push_back(seconds_of([&] { return state_holds(state); }));
  // One look at a dict's version is for all of its names.
  for (const DictGuard& guard : table_.dicts) {
    const double seconds = seconds_of([&] { return failing_name(guard); });
    lines.insert(lines.end(), guard.names.size(), seconds / static_cast<double>(guard.names.size()));
  }
}

bool Program::reaches_many() const {
  constexpr size_t kMany = 16;
  return owned_->numbers.size() >= kMany;
}

void Program::keep_only(std::vector<uint8_t> read) { shortcut_.keep_only(std::move(read)); }

Costs Program::costs(PyObject* const* const* frames) const {
  Costs costs;
  Objects objects;
  costs.all = seconds_of([&] {
    Objects found;
    return check(frames, found, nullptr);
  });
  objects.prepare(*this);
  if (!surroundings_hold() || !check_steps(frames, objects, nullptr, 0)) return {};
  add_costs_of_surroundings(costs);
  cpython::OwnNames names;
  for (const Step& step : steps_) {
    const bool is_slot = step.reach == Reach::kSlot;
    costs.by_line.push_back(seconds_of([&] {
      cpython::OwnNames own = names;
      PyObject* const object = step.again ? objects[step.source] : is_slot ? frames[step.frame][step.index] : reach(step, frames, objects.data(), own);
      const bool good = object && holds(step, object, objects.data());
      if (object && !step.again && !is_slot) Ref::steal(object);
      return good;
    }));
    // The next attribute of the same object finds its names looked up.
    if (step.reach == Reach::kAttribute && !step.again) Ref::steal(attribute(step, objects[step.parent], names));
  }
  return costs;
}

bool Program::collect_sizes(const Step& step, PyObject* object, Paths& changed) const {
  if (PyTuple_GET_SIZE(step.want) != PyTuple_GET_SIZE(object)) return false;
  for (int32_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (PyObject_RichCompareBool(PyTuple_GET_ITEM(step.want, i), PyTuple_GET_ITEM(object, i), Py_EQ) == 0) changed.insert(path_of_item(table_.path(step.source), i));
  }
  return true;
}

bool Program::collect_given(const Step& step, PyObject* object, Paths& changed) const {
  if (step.reach == Reach::kMethod) return false;
  if (step.check == Check::kEqual && PyLong_CheckExact(step.want) && PyLong_CheckExact(object) && table_.is_given(step.source)) return changed.insert(table_.path(step.source)), true;
  if (step.check == Check::kEqual && torch::is_size(step.want) && torch::is_size(object)) return collect_sizes(step, object, changed);
  const std::vector<int> dimensions = step.check == Check::kTensor ? torch::dimensions_that_changed(object, *step.tensor) : std::vector<int>();
  for (const int dimension : dimensions) changed.insert(path_of_size(table_.path(step.source), dimension));
  return !dimensions.empty();
}

static bool is_of_keys(Check check) { return check == Check::kKeys || check == Check::kElements || check == Check::kHas || check == Check::kHasNot; }

void Program::collect_names(Paths& changed) const {
  for (const DictGuard& guard : table_.dicts) {
    for (const auto& [name, value] : guard.names) {
      PyObject* const now = PyDict_GetItemWithError(guard.dict.get(), name.get());
      if (now && value && now != value.get() && is_data(value.get())) changed.insert(path_of_name(guard.dict.get(), name.get()));
    }
  }
}

template <class Visit>
void Program::visit_failed(PyObject* const* const* frames, Visit visit) const {
  Objects objects;
  objects.prepare(*this);
  PyObject** const items = objects.items_;
  cpython::OwnNames names;
  for (const Step& step : steps_) {
    PyObject* const object = step.again ? items[step.source] : reach(step, frames, items, names);
    if (!object) return PyErr_Clear();
    items[step.source] = object;
    objects.count_ = step.source + 1;
    if (!holds(step, object, items) && !visit(step, object)) return;
  }
}

void Program::collect_changed(PyObject* const* const* frames, Paths& changed, bool only_given) const {
  if (!only_given) collect_names(changed);
  visit_failed(frames, [&](const Step& step, PyObject* object) {
    if (only_given) return collect_given(step, object, changed);
    if (step.contents && (step.check == Check::kClassVersion ? object : reinterpret_cast<PyObject*>(Py_TYPE(object))) == step.want) {
      return step.contents->add_changed(changed), false;
    }
    // What lies behind another failed check may run Python code when it is read.
    if (!step.fixes_number || step.reach == Reach::kMethod || !may_be(step, object)) return false;
    changed.insert(table_.path(step.source));
    return true;
  });
}

void Program::collect_changed_keys(PyObject* const* const* frames, Paths& changed) const {
  visit_failed(frames, [&](const Step& step, PyObject*) {
    if (is_of_keys(step.check)) changed.insert(path_of_keys(table_.path(step.source)));
    return false;
  });
}

}  // namespace evalframe::guards
