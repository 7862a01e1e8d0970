// Collects the facts of a recording, and prints them.
#include "guards/guards.h"

#include <algorithm>
#include <functional>
#include <new>

#include "core/object_text.h"
#include "cpython/versions.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::guards {

namespace {

static_assert(kArrayFlags == (NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE));
static_assert(kPatternFlags == (Py_TPFLAGS_SEQUENCE | Py_TPFLAGS_MAPPING));

struct CheckRow {
  const char* text;
  const char* hint;
};
constexpr CheckRow kChecks[] = {
#define EVALFRAME_CHECK(name, text, hint) {text, hint},
#include "guards/checks.def"
#undef EVALFRAME_CHECK
};

// A name as it is, without quotes.
std::string name_text(PyObject* name) {
  const char* utf8 = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return utf8 ? utf8 : (PyErr_Clear(), "?");
}

// The name of the module whose variables the dict holds, with a dot; nothing where it doesn't say.
std::string module_prefix(PyObject* dict) {
  PyObject* name = PyDict_Check(dict) ? PyDict_GetItemString(dict, "__name__") : nullptr;
  return name && PyUnicode_Check(name) ? name_text(name) + "." : "";
}

// Facts of these kinds stand beside one another, and say nothing of the object's type.
bool may_be_several(Check check) {
  return check == Check::kSame || check == Check::kDistinct || check == Check::kApart || check == Check::kHas || check == Check::kHasNot || check == Check::kLacks ||
         check == Check::kPattern;
}

// Whether the first fact, of the same object, says all that the second does.
bool implies(const Fact& fact, Check other) {
  if (fact.check == other || other == Check::kNone) return true;
  switch (other) {
    // An object may be given another class.
    case Check::kType: return fact.check != Check::kNone && fact.check != Check::kIdentity && fact.check != Check::kClassVersion && !may_be_several(fact.check);
    // Only immutable objects are asked for equality.
    case Check::kEqual: return fact.check == Check::kIdentity;
    case Check::kLength: return fact.check == Check::kEqual;
    case Check::kNone:
    case Check::kIdentity:
    case Check::kSame:
    case Check::kDistinct:
    case Check::kApart:
    case Check::kArray:
    case Check::kTensor:
    case Check::kKeys:
    case Check::kOrderedKeys:
    case Check::kElements:
    case Check::kHas:
    case Check::kHasNot:
    case Check::kLacks:
    case Check::kPattern:
    case Check::kTypeVersion:
    case Check::kClassVersion: break;
  }
  return false;
}

// Whether the source's facts say it already: most are asked for again and again.
bool says(const Source& source, Check check) {
  return implies(source.fact, check) || std::any_of(source.more.begin(), source.more.end(), [&](const Fact& fact) { return implies(fact, check); });
}

Fact fact_of(Check check, PyObject* want) {
  Fact fact;
  fact.check = check;
  fact.want = Ref::borrow(want);
  return fact;
}

// What a key is about, beside the kinds of Reach.
enum : int32_t { kNameKey = 100, kDictKey, kFunctionKey, kModuleKey, kFixedKey };

size_t hash(const KeyIndex::Key& key) {
  // Odd multipliers, so that none of the parts loses a bit.
  const size_t numbers = static_cast<size_t>(key.kind) + static_cast<size_t>(key.a) * 0x9E3779B97F4A7C15u + static_cast<size_t>(key.b) * 0xC2B2AE3D27D4EB4Fu +
                         static_cast<size_t>(key.c) * 0x165667B19E3779F9u;
  const size_t objects = (reinterpret_cast<size_t>(key.p) >> 4) * 0x27D4EB2F165667C5u + (reinterpret_cast<size_t>(key.q) >> 4) * 0x85EBCA77C2B2AE63u;
  const size_t result = (numbers ^ objects) * 0x9E3779B97F4A7C15u;
  return result ^ (result >> 32);
}

}  // namespace

KeyIndex::Place& KeyIndex::place_of(const Key& key) {
  const size_t mask = places_.size() - 1;
  size_t at = hash(key) & mask;
  while (places_[at].number >= 0 && !(places_[at].key == key)) at = (at + 1) & mask;
  return places_[at];
}

int32_t KeyIndex::find_or_add(const Key& key, int32_t number) {
  if (2 * used_ >= places_.size()) {
    std::vector<Place> old(places_.empty() ? 16 : 2 * places_.size());
    old.swap(places_);
    for (const Place& place : old) {
      if (place.number >= 0) place_of(place.key) = place;
    }
  }
  Place& place = place_of(key);
  if (place.number >= 0) return place.number;
  place = {key, number};
  used_++;
  return number;
}

Fact Fact::copy() const { return {check, Ref::borrow(want.get()), type_version, length, meta, array_flags, contents, other, tensor, asked_at}; }

Source Source::copy() const {
  Source same{reach, parent, frame, index, Ref::borrow(object.get()), fact.copy(), {}};
  for (const Fact& one : more) same.more.push_back(one.copy());
  return same;
}

int32_t GuardTable::add(Source source) {
  const auto next = static_cast<int32_t>(sources.size());
  const int32_t found =
      index_.find_or_add({static_cast<int32_t>(source.reach), source.parent, source.frame, source.index, source.object.get(), nullptr}, next);
  if (found != next) return found;
  note_taken({source.object.get(), source.fact.want.get()});
  for (const Fact& fact : source.more) note_taken({fact.want.get()});
  sources.push_back(std::move(source));
  sources.back().fact.asked_at = asked_at;
  return found;
}

void GuardTable::require(int32_t index, Fact fact) {
  Source& source = sources[index];
  if (says(source, fact.check)) return;
  fact.asked_at = asked_at;
  note_taken({fact.want.get()});
  if (implies(fact, source.fact.check)) {
    source.fact = std::move(fact);
  } else {
    source.more.push_back(std::move(fact));
  }
}

void GuardTable::require_type(int32_t index, Borrowed object) {
  if (!says(sources[index], Check::kType)) require(index, fact_of(Check::kType, reinterpret_cast<PyObject*>(Py_TYPE(object.get()))));
}

void GuardTable::require_equal(int32_t index, Borrowed object) {
  if (!says(sources[index], Check::kEqual)) require(index, fact_of(Check::kEqual, object.get()));
}

void GuardTable::require_identity(int32_t index, Borrowed object) {
  if (!says(sources[index], Check::kIdentity)) require(index, fact_of(Check::kIdentity, object.get()));
}

void GuardTable::require_array(int32_t index, Borrowed object) {
  if (says(sources[index], Check::kArray)) return;
  PyArrayObject* array = numpy::as_array(object.get());
  Fact fact = fact_of(Check::kArray, reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
  fact.array_flags = PyArray_FLAGS(array) & kArrayFlags;
  std::vector<int64_t> sizes;
  fact.meta = graph::meta_of(object, sizes);
  require(index, std::move(fact));
}

void GuardTable::require_tensor(int32_t index, Borrowed object, std::vector<uint8_t> varies) {
  if (says(sources[index], Check::kTensor)) return;
  Fact fact = fact_of(Check::kTensor, reinterpret_cast<PyObject*>(Py_TYPE(object.get())));
  fact.tensor = torch::facts_of(object.get(), std::move(varies));
  require(index, std::move(fact));
}

// --- classes ---------------------------------------------------------------------------------------------------------

bool is_class_data(Borrowed borrowed) {
  PyObject* const object = borrowed.get();
  return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
         PyComplex_CheckExact(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) || PyTuple_CheckExact(object) || PySet_CheckExact(object) ||
         numpy::is_array(object);
}

namespace {

// What is held for its identity. Of all else a program may be told the end.
bool may_be_held(PyObject* value) {
  return value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) || PyUnicode_CheckExact(value) || PyFunction_Check(value) ||
         PyType_Check(value) || Py_IS_TYPE(value, &PyProperty_Type) || Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type) ||
         Py_IS_TYPE(value, &PyMemberDescr_Type) || Py_IS_TYPE(value, &PyGetSetDescr_Type) || PyCFunction_Check(value);
}

bool is_special(PyObject* name) {
  const std::string_view text = PyUnicode_Check(name) ? utf8(name) : std::string_view();
  return text.starts_with("__") && text.ends_with("__");
}

}  // namespace

ClassContents::ClassContents(PyTypeObject* type) : type_(Ref::borrow(type)), order_(Ref::borrow(type->tp_mro)) {
  for (Py_ssize_t i = 0; order_ && i < PyTuple_GET_SIZE(order_.get()); i++) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order_.get(), i));
    if (PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE)) continue;
    Names names{Ref::borrow(base), {}};
    names.entries.reserve(static_cast<size_t>(PyDict_GET_SIZE(base->tp_dict)));
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &name, &value);) {
      known_ = known_ && PyUnicode_CheckExact(name);
      const bool fixed = is_special(name) || !is_class_data(value);
      names.entries.push_back({Ref::borrow(name), Ref::borrow(Py_TYPE(value)), may_be_held(value) ? Ref::borrow(value) : Ref(), value, fixed});
    }
    classes_.push_back(std::move(names));
  }
}

void ClassContents::fix(Borrowed type, Borrowed name) {
  for (Names& names : classes_) {
    if (names.type.get() != type.get()) continue;
    for (Entry& entry : names.entries) entry.fixed = entry.fixed || PyUnicode_Compare(entry.name.get(), name.get()) == 0;
  }
}

bool ClassContents::holds() const {
  if (!known_ || type()->tp_mro != order_.get()) return false;
  for (const Names& names : classes_) {
    PyObject* const dict = names.type.as<PyTypeObject>()->tp_dict;
    if (PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(names.entries.size())) return false;
    for (const Entry& entry : names.entries) {
      PyObject* const now = PyDict_GetItemWithError(dict, entry.name.get());
      if (!now) return false;
      const bool same = now == entry.identity && reinterpret_cast<PyObject*>(Py_TYPE(now)) == entry.type.get();
      if (!same && (entry.fixed || !is_class_data(now))) return false;
    }
  }
  return true;
}

bool ClassContents::fixes_any_of(const Paths& paths) const {
  for (const Names& names : classes_) {
    for (const Entry& entry : names.entries) {
      if (entry.fixed && paths.count(path_of_name(names.type.get(), entry.name.get()))) return true;
    }
  }
  return false;
}

int ClassContents::traverse(visitproc visit, void* arg) const {
  Py_VISIT(type_.get());
  Py_VISIT(order_.get());
  for (const Names& names : classes_) {
    Py_VISIT(names.type.get());
    for (const Entry& entry : names.entries) {
      Py_VISIT(entry.name.get());
      Py_VISIT(entry.type.get());
      Py_VISIT(entry.value.get());
    }
  }
  return 0;
}

void ClassContents::add_changed(Paths& changed) const {
  for (const Names& names : classes_) {
    for (const Entry& entry : names.entries) {
      PyObject* const now = PyDict_GetItemWithError(names.type.as<PyTypeObject>()->tp_dict, entry.name.get());
      const bool other = now && entry.fixed && entry.value && now != entry.value.get();
      if (other && is_class_data(entry.value.get()) && is_class_data(now)) changed.insert(path_of_name(names.type.get(), entry.name.get()));
    }
  }
}

std::shared_ptr<ClassContents> GuardTable::contents_of(PyTypeObject* type) {
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return {};
  for (const std::shared_ptr<ClassContents>& known : contents_) {
    if (known->type() == type) return known;
  }
  contents_.push_back(std::make_shared<ClassContents>(type));
  for (const auto& [of, name] : fixed_) contents_.back()->fix(of.get(), name.get());
  return contents_.back();
}

void GuardTable::fix_attribute(Borrowed type, Borrowed name) {
  const auto next = static_cast<int32_t>(fixed_.size());
  if (index_.find_or_add({kFixedKey, 0, 0, 0, type.get(), name.get()}, next) != next) return;
  fixed_.emplace_back(Ref::borrow(type), Ref::borrow(name));
  note_taken({type.get(), name.get()});
  for (const std::shared_ptr<ClassContents>& known : contents_) known->fix(type, name);
}

bool GuardTable::require_type_version(int32_t index, Borrowed object) {
  PyTypeObject* type = Py_TYPE(object.get());
  Fact fact = fact_of(Check::kTypeVersion, reinterpret_cast<PyObject*>(type));
  fact.type_version = cpython::type_version(type);
  if (!fact.type_version) return false;
  if (says(sources[index], Check::kTypeVersion)) return true;
  fact.contents = contents_of(type);
  require(index, std::move(fact));
  return true;
}

bool GuardTable::require_class_version(int32_t index, Borrowed type) {
  Fact fact = fact_of(Check::kClassVersion, type.get());
  fact.type_version = cpython::type_version(type.as<PyTypeObject>());
  if (!fact.type_version) return false;
  if (says(sources[index], Check::kClassVersion)) return true;
  fact.contents = contents_of(type.as<PyTypeObject>());
  require(index, std::move(fact));
  return true;
}

void GuardTable::require_length(int32_t index, Borrowed object) { require_length_of(index, object, PyObject_Size(object.get())); }

void GuardTable::require_length_of(int32_t index, Borrowed object, Py_ssize_t length) {
  Fact fact = fact_of(Check::kLength, reinterpret_cast<PyObject*>(Py_TYPE(object.get())));
  fact.length = length;
  require(index, std::move(fact));
}

void GuardTable::require_keys(int32_t index, Borrowed dict) {
  const Check check = PyODict_Check(dict.get()) ? Check::kOrderedKeys : Check::kKeys;
  if (says(sources[index], check)) return;
  const Ref tuple = Ref::steal(PySequence_Tuple(dict.get()));
  if (!tuple) throw std::bad_alloc();
  require(index, fact_of(check, tuple.get()));
}

// A fact that no other implies, and of which there may be several.
void GuardTable::require_too(int32_t index, Fact fact) {
  Source& source = sources[index];
  const auto is_known = [&](const Fact& known) { return known.check == fact.check && known.other == fact.other && known.want.get() == fact.want.get(); };
  if (std::any_of(source.more.begin(), source.more.end(), is_known)) return;
  fact.asked_at = asked_at;
  note_taken({fact.want.get()});
  source.more.push_back(std::move(fact));
}

void GuardTable::require_lacks(int32_t index, Borrowed name) { require_too(index, fact_of(Check::kLacks, name.get())); }

void GuardTable::require_pattern(int32_t index, Borrowed type) {
  Fact fact = fact_of(Check::kPattern, type.get());
  fact.length = static_cast<Py_ssize_t>(type.as<PyTypeObject>()->tp_flags & kPatternFlags);
  require_too(index, std::move(fact));
}

void GuardTable::require_elements(int32_t index, Borrowed set) {
  const Ref tuple = Ref::steal(PySequence_Tuple(set.get()));
  if (!tuple) throw std::bad_alloc();
  require(index, fact_of(Check::kElements, tuple.get()));
}

void GuardTable::require_member(int32_t index, Borrowed element, bool there) { require_too(index, fact_of(there ? Check::kHas : Check::kHasNot, element.get())); }

void GuardTable::require_same(int32_t index, int32_t other, bool same) {
  Fact fact;
  fact.check = same ? Check::kSame : Check::kDistinct;
  fact.other = std::min(index, other);
  require_too(std::max(index, other), std::move(fact));
}

void GuardTable::require_apart(int32_t index, int32_t other) {
  Fact fact;
  fact.check = Check::kApart;
  fact.other = std::min(index, other);
  require_too(std::max(index, other), std::move(fact));
}

void GuardTable::require_name(Borrowed dict, Borrowed name, Borrowed value) {
  const int32_t at = index_.find_or_add({kDictKey, 0, 0, 0, dict.get(), nullptr}, static_cast<int32_t>(dicts.size()));
  if (at == static_cast<int32_t>(dicts.size())) {
    dicts.push_back({Ref::borrow(dict), cpython::version_tells_all(dict) ? cpython::dict_version(dict) : 0, {}, {}});
    note_taken({dict.get()});
  }
  auto& names = dicts[at].names;
  const auto next = static_cast<int32_t>(names.size());
  if (index_.find_or_add({kNameKey, 0, 0, 0, dict.get(), name.get()}, next) != next) return;
  names.emplace_back(Ref::borrow(name), Ref::borrow(value));
  dicts[at].asked_at.push_back(asked_at);
  note_taken({name.get(), value.get()});
  if (value) name_of_.try_emplace(value.get(), at, next);
}

void GuardTable::require_function(Borrowed object) {
  const auto next = static_cast<int32_t>(functions.size());
  if (index_.find_or_add({kFunctionKey, 0, 0, 0, object.get(), nullptr}, next) != next) return;
  const auto* function = object.as<PyFunctionObject>();
  functions.push_back({Ref::borrow(object), Ref::borrow(function->func_code), Ref::borrow(function->func_defaults),
                       Ref::borrow(function->func_kwdefaults), asked_at});
  note_taken({object.get(), function->func_code, function->func_defaults, function->func_kwdefaults});
}

void GuardTable::require_module(Borrowed module) {
  const auto next = static_cast<int32_t>(modules.size());
  if (index_.find_or_add({kModuleKey, 0, 0, 0, module.get(), nullptr}, next) != next) return;
  modules.push_back(Ref::borrow(module));
  note_taken({module.get()});
}

bool GuardTable::take_surroundings(const GuardTable& other) {
  for (const FunctionGuard& guard : other.functions) {
    const auto known = std::find_if(functions.begin(), functions.end(), [&](const FunctionGuard& mine) { return mine.function.get() == guard.function.get(); });
    if (known == functions.end()) {
      functions.push_back({Ref::borrow(guard.function.get()), Ref::borrow(guard.code.get()), Ref::borrow(guard.defaults.get()), Ref::borrow(guard.keyword_defaults.get())});
      note_taken({guard.function.get(), guard.code.get(), guard.defaults.get(), guard.keyword_defaults.get()});
    } else if (known->code.get() != guard.code.get() || known->defaults.get() != guard.defaults.get() || known->keyword_defaults.get() != guard.keyword_defaults.get()) {
      return false;
    }
  }
  for (const Ref& module : other.modules) require_module(module.get());
  for (const torch::State& state : other.states) states.push_back({Ref::borrow(state.callable.get()), Ref::borrow(state.wanted.get()), state.text, state.getter, state.number, state.is_told});
  for (const DictGuard& guard : other.dicts) {
    for (const auto& [name, value] : guard.names) {
      require_name(guard.dict.get(), name.get(), value.get());
      const auto mine = std::find_if(dicts.begin(), dicts.end(), [&](const DictGuard& dict) { return dict.dict.get() == guard.dict.get(); });
      const auto known = std::find_if(mine->names.begin(), mine->names.end(), [&](const auto& entry) { return entry.first.get() == name.get(); });
      if (known->second.get() != value.get()) return false;
      mine->version = 0;  // it may have changed since the other was made
    }
  }
  return true;
}

namespace {

bool are_same(const torch::Facts* a, const torch::Facts* b) { return a == b || (a && b && a->is_same(*b)); }

bool is_same(const Fact& a, const Fact& b) {
  return a.check == b.check && a.want.get() == b.want.get() && a.type_version == b.type_version && a.length == b.length && a.array_flags == b.array_flags &&
         a.meta.dtype == b.meta.dtype && a.meta.rank == b.meta.rank && a.other == b.other && are_same(a.tensor.get(), b.tensor.get());
}

}  // namespace

bool GuardTable::take_source(Source source, int32_t& index) {
  std::vector<Fact> facts = std::move(source.more);
  facts.push_back(std::move(source.fact));
  source.more.clear();
  source.fact = Fact();
  index = add(std::move(source));
  Source& mine = sources[index];
  for (Fact& fact : facts) {
    std::vector<const Fact*> alike;
    for (const Fact& known : mine.more) {
      if (known.check == fact.check) alike.push_back(&known);
    }
    if (fact.check == Check::kNone || std::any_of(alike.begin(), alike.end(), [&](const Fact* known) { return is_same(*known, fact); })) continue;
    if (!alike.empty() && !may_be_several(fact.check)) return false;
    note_taken({fact.want.get()});
    mine.more.push_back(std::move(fact));
  }
  return true;
}

namespace {
std::string address(PyObject* object) { return std::to_string(reinterpret_cast<uintptr_t>(object)); }
}  // namespace

std::string path_of_slot(int frame, int slot) { return "s" + std::to_string(frame) + "." + std::to_string(slot) + ";"; }

std::string path_of_size(const std::string& tensor, int dimension) { return tensor + "d" + std::to_string(dimension) + ";"; }

std::string path_of_item(const std::string& container, Borrowed key) {
  return container + "i" + (PyUnicode_CheckExact(key.get()) ? "'" + name_text(key.get()) + "'" : address(key.get())) + ";";
}

std::string path_of_item(const std::string& container, int32_t index) { return container + "i" + std::to_string(index) + ";"; }

std::string path_of_keys(const std::string& container) { return container + "k;"; }

std::string variable_text(Borrowed dict, Borrowed name) { return module_prefix(dict.get()) + name_text(name.get()); }

std::string path_of_name(Borrowed dict, Borrowed name) { return "o" + address(dict.get()) + ";i" + address(name.get()) + ";"; }

bool is_number(Borrowed object) { return PyLong_CheckExact(object.get()) || PyFloat_CheckExact(object.get()) || PyComplex_CheckExact(object.get()); }

bool is_data(Borrowed object) { return is_number(object) || numpy::is_array(object.get()); }

std::string GuardTable::path(int32_t index) const {
  const Source& source = sources[index];
  const std::string parent = source.parent >= 0 ? path(source.parent) : std::string();
  const std::string object = address(source.object.get());
  switch (source.reach) {
    case Reach::kSlot: return path_of_slot(source.frame, source.index);
    case Reach::kAttribute:
    case Reach::kMethod: return parent + "a" + object + ";";
    case Reach::kItem: return source.object ? path_of_item(parent, source.object.get()) : path_of_item(parent, source.index);
    case Reach::kTurn: return "n" + std::to_string(source.index) + ";";
    case Reach::kCell: return parent + "c" + object + ";";
    case Reach::kReferent: return parent + "w;";
    case Reach::kObject: return "o" + object + ";";
  }
  return parent;
}

bool Fact::fixes_number() const {
  if (check == Check::kIdentity) return PyFunction_Check(want.get());  // made anew by a `def` or lambda
  return check == Check::kLength || (check == Check::kEqual && is_number(want.get()));
}

static bool fixes_size_of(const torch::Facts& facts, const std::string& path, const Paths& paths) {
  for (size_t i = 0; i < facts.sizes_and_strides.size() / 2; i++) {
    if ((facts.varies.empty() || !facts.varies[i]) && paths.count(path_of_size(path, static_cast<int>(i)))) return true;
  }
  return false;
}

static bool fixes_item_of(PyObject* size, const std::string& path, const Paths& paths) {
  for (int32_t i = 0; i < PyTuple_GET_SIZE(size); i++) {
    if (paths.count(path_of_item(path, i))) return true;
  }
  return false;
}

bool GuardTable::is_given(int32_t index) const {
  const Source& source = sources[index];
  return source.reach == Reach::kSlot || (source.reach == Reach::kItem && is_given(source.parent));
}

bool GuardTable::fixes_any_of(const Paths& paths) const {
  if (paths.empty()) return false;
  for (const DictGuard& guard : dicts) {
    for (const auto& [name, value] : guard.names) {
      if (value && is_data(value.get()) && paths.count(path_of_name(guard.dict.get(), name.get()))) return true;
    }
  }
  for (const std::shared_ptr<ClassContents>& contents : contents_) {
    if (contents->fixes_any_of(paths)) return true;
  }
  for (size_t i = 0; i < sources.size(); i++) {
    const Source& source = sources[i];
    const bool fixes = source.fact.fixes_number() || std::any_of(source.more.begin(), source.more.end(), std::mem_fn(&Fact::fixes_number));
    if (fixes && source.reach != Reach::kMethod && paths.count(path(static_cast<int32_t>(i)))) return true;
    if (source.fact.check == Check::kEqual && torch::is_size(source.fact.want.get()) && fixes_item_of(source.fact.want.get(), path(static_cast<int32_t>(i)), paths)) return true;
    if (source.fact.tensor && fixes_size_of(*source.fact.tensor, path(static_cast<int32_t>(i)), paths)) return true;
  }
  return false;
}

std::string GuardTable::slot_name(const Source& source) const {
  const auto slot = static_cast<size_t>(source.index);
  if (source.frame) return "slot " + std::to_string(slot) + " of followed call " + std::to_string(source.frame);
  return slot < slot_names.size() ? slot_names[slot] : "stack[" + std::to_string(slot - slot_names.size()) + "]";
}

// That of the variable that is guarded to hold the object.
std::string GuardTable::object_name(Borrowed object) const {
  const auto found = name_of_.find(object.get());
  if (found == name_of_.end()) return object_text(object);
  const DictGuard& guard = dicts[found->second.first];
  return variable_text(guard.dict.get(), guard.names[found->second.second].first.get());
}

std::string GuardTable::source_name(int32_t index) const {
  const Source& source = sources[index];
  switch (source.reach) {
    case Reach::kSlot: return slot_name(source);
    case Reach::kAttribute:
    case Reach::kMethod: return source_name(source.parent) + "." + name_text(source.object.get());
    case Reach::kItem: {
      const Source& parent = sources[source.parent];
      // A variable of a module.
      const std::string module = source.object && parent.reach == Reach::kObject ? module_prefix(parent.object.get()) : "";
      if (!module.empty()) return module + name_text(source.object.get());
      return source_name(source.parent) + "[" + (source.object ? object_text(source.object.get()) : std::to_string(source.index)) + "]";
    }
    case Reach::kTurn: return source_name(source.parent) + " in " + std::to_string(source.index + 1) + " turns";
    case Reach::kReferent: return source_name(source.parent) + "()";
    case Reach::kCell: return source.parent < 0 ? "contents of a cell" : source_name(source.parent);
    case Reach::kObject: return object_name(source.object.get());
  }
  return "?";
}

std::string GuardTable::wanted_text(const Fact& fact) const {
  if (fact.other >= 0) return source_name(fact.other);
  if (fact.tensor) return fact.tensor->text;
  if (fact.check == Check::kArray) {
    std::string text = std::string(graph::name(fact.meta.dtype)) + ", rank " + std::to_string(fact.meta.rank);
    if (!(fact.array_flags & NPY_ARRAY_ALIGNED)) text += ", not aligned";
    if (!(fact.array_flags & NPY_ARRAY_WRITEABLE)) text += ", read-only";
    return text;
  }
  const std::string text = fact.want ? object_text(fact.want.get()) : "";
  return fact.check == Check::kLength ? text + " of length " + std::to_string(fact.length) : text;
}

std::string GuardTable::text_of(const Fact& fact) const {
  std::string text = kChecks[static_cast<int>(fact.check)].text;
  const size_t place = text.find('%');
  return place == std::string::npos ? text : text.replace(place, 1, wanted_text(fact));
}

// Gives what makes each line, in their order: most who ask want one of many.
void GuardTable::each_line(const auto& take) const {
  for (const FunctionGuard& guard : functions) {
    take([&] {
      const std::string name = "function " + object_text(guard.function.get());
      return Line{name, name + " has the same code and defaults", "define the function once, not in each call", -1, guard.asked_at};
    });
  }
  for (const Ref& module : modules) {
    take([&] {
      const char* const own = PyModule_GetName(module.get());
      if (!own) PyErr_Clear();
      const std::string name = own ? own : "a module";
      return Line{name, name + " is a plain module", "give the module its class before the first call"};
    });
  }
  for (const torch::State& state : states) {
    take([&] { return Line{"state", state.text, "set it once, before the first call"}; });
  }
  for (const DictGuard& guard : dicts) {
    for (size_t i = 0; i < guard.names.size(); i++) {
      take([&] {
        const auto& [name, value] = guard.names[i];
        const std::string subject = variable_text(guard.dict.get(), name.get());
        return Line{subject, subject + (value ? " is the same object" : " isn't defined"), "pass what changes as an argument", -1, guard.asked_at[i]};
      });
    }
  }
  for (size_t i = 0; i < sources.size(); i++) {
    const auto source = static_cast<int32_t>(i);
    const auto take_fact = [&](const Fact& fact) {
      take([&] {
        const std::string name = source_name(source);
        return Line{name, name + " " + text_of(fact), kChecks[static_cast<int>(fact.check)].hint, source, fact.asked_at};
      });
    };
    take_fact(sources[i].fact);
    for (const Fact& fact : sources[i].more) take_fact(fact);
  }
}

std::vector<GuardTable::Line> GuardTable::lines() const {
  std::vector<Line> lines;
  each_line([&](const auto& make) { lines.push_back(make()); });
  return lines;
}

std::string GuardTable::line_text(int32_t line) const {
  std::string text;
  int32_t at = 0;
  each_line([&](const auto& make) {
    if (at++ == line) text = make().text;
  });
  return text;
}

std::vector<std::string> GuardTable::describe() const {
  std::vector<std::string> texts;
  for (Line& line : lines()) texts.push_back(std::move(line.text));
  return texts;
}

int GuardTable::traverse(visitproc visit, void* arg) const {
  for (const Source& source : sources) {
    Py_VISIT(source.object.get());
    Py_VISIT(source.fact.want.get());
    for (const Fact& fact : source.more) Py_VISIT(fact.want.get());
  }
  for (const Ref& module : modules) Py_VISIT(module.get());
  for (const torch::State& state : states) {
    Py_VISIT(state.callable.get());
    Py_VISIT(state.wanted.get());
  }
  for (const std::shared_ptr<ClassContents>& contents : contents_) {
    if (const int stopped = contents->traverse(visit, arg)) return stopped;
  }
  for (const auto& [type, name] : fixed_) {
    Py_VISIT(type.get());
    Py_VISIT(name.get());
  }
  for (const DictGuard& guard : dicts) {
    Py_VISIT(guard.dict.get());
    for (const auto& [name, value] : guard.names) {
      Py_VISIT(name.get());
      Py_VISIT(value.get());
    }
  }
  for (const FunctionGuard& guard : functions) {
    for (const Ref* object : {&guard.function, &guard.code, &guard.defaults, &guard.keyword_defaults}) Py_VISIT(object->get());
  }
  return 0;
}

int GuardTable::traverse_new(Seen& seen, visitproc visit, void* arg) const {
  for (; seen.taken < taken_.size(); seen.taken++) Py_VISIT(taken_[seen.taken]);
  for (; seen.states < states.size(); seen.states++) {
    Py_VISIT(states[seen.states].callable.get());
    Py_VISIT(states[seen.states].wanted.get());
  }
  for (; seen.contents < contents_.size(); seen.contents++) {
    if (const int stopped = contents_[seen.contents]->traverse(visit, arg)) return stopped;
  }
  return 0;
}

}  // namespace evalframe::guards
