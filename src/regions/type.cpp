#include "regions/type.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>

#include "backends/native/code/element.h"
#include "cpython/iterators.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "guards/guards.h"

namespace evalframe::regions {

using Kind = Type::Kind;

bool is_computed(DType dtype) { return dtype != DType::kNone && dtype != DType::float16; }

bool has_elements(const Type& array) { return array.is_array() && is_computed(array.dtype) && (array.flags & NPY_ARRAY_ALIGNED); }

Type of_any_strides(Type type) {
  type.is_close = false;
  for (Type& asked : type.asked) asked = of_any_strides(std::move(asked));
  return type;
}

bool may_enter_as(const Type& wanted, const Type& there) {
  if (wanted == there) return true;
  if (wanted.is_close && !there.is_close) return false;
  if (wanted.asked.size() != there.asked.size() || of_any_strides(wanted) != of_any_strides(there)) return false;
  return std::equal(wanted.asked.begin(), wanted.asked.end(), there.asked.begin(), may_enter_as);
}

bool may_enter_slot(Type wanted, const Type& there) {
  if (wanted.kind == Kind::kUnread) {
    const std::optional<int8_t> more = more_unread_words(there);
    return more && *more <= wanted.rank;
  }
  if (wanted.kind == Kind::kObject) wanted.object = -1;
  return may_enter_as(wanted, there);
}

Type fresh_type(DType dtype, int rank) {
  return {.kind = Kind::kFresh, .dtype = dtype, .rank = static_cast<int8_t>(rank), .flags = guards::kArrayFlags, .is_close = rank > 0};
}

int identity_word(const Type& array) { return array.kind == Kind::kView ? 1 : 0; }

Type gone_through(Type items) {
  items.is_backwards = false;
  items.kind = items.kind == Kind::kItems ? Kind::kArray : Kind::kView;
  return items;
}

std::strong_ordering Type::operator<=>(const Type& other) const {
  const auto simple = [](const Type& type) { return std::tie(type.kind, type.dtype, type.rank, type.flags, type.object, type.is_close, type.is_backwards); };
  if (const auto order = simple(*this) <=> simple(other); order != 0) return order;
  return std::lexicographical_compare_three_way(asked.begin(), asked.end(), other.asked.begin(), other.asked.end());
}

std::vector<std::string> words_of(const Type& type) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kObject: return {};
    case Kind::kInt: return {"i64"};
    case Kind::kFloat: return {"double"};
    case Kind::kBool: return {"i1"};
    case Kind::kComplex: return {"double", "double"};
    case Kind::kNumpy: return std::vector<std::string>(type.is_complex() ? 2 : 1, native::register_type(type.dtype));
    case Kind::kUnread: return std::vector<std::string>(2 + static_cast<size_t>(type.rank), "i64");
    case Kind::kArray:
    case Kind::kView:
    case Kind::kFresh:
    case Kind::kHeld: break;
    case Kind::kRange: return {"i64", "i64", "i64", "i64"};
    case Kind::kRangeIterator: return {"i64", "i64", "i64"};
    case Kind::kListItems: return {"ptr", "i64"};
    case Kind::kItems:
    case Kind::kViewItems: {
      std::vector<std::string> words = words_of(gone_through(type));
      words.push_back("i64");
      return words;
    }
    case Kind::kEnumerate:
    case Kind::kZip:
    case Kind::kTuple: break;
  }
  std::vector<std::string> words;
  if (type.kind == Kind::kTuple) words = {"ptr"};
  if (type.kind == Kind::kView) words = {"ptr", "i64", "ptr"};
  if (type.kind == Kind::kFresh) words = {"ptr"};
  if (type.kind == Kind::kArray || type.kind == Kind::kHeld) words = {"ptr", "ptr"};
  if (type.is_array()) words.resize(words.size() + static_cast<size_t>(type.rank) * (type.kind == Kind::kFresh ? 1 : 2), "i64");
  if (type.kind == Kind::kEnumerate) words.push_back("i64");
  for (const Type& asked : type.asked) {
    for (const std::string& word : words_of(asked)) words.push_back(word);
  }
  return words;
}

namespace {

bool fits(PyObject* exact_int) {
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(exact_int, &overflow);
  return !overflow;
}

// The element type's own object: `longlong`, of as many bits as int64, makes other scalars, and metadata is seen by the program.
bool is_standard(PyObject* descr, DType dtype) {
  const Ref standard = numpy::dtype_object(dtype);
  return standard.get() == descr;
}

Type type_of_scalar(PyObject* scalar) {
  const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromScalar(scalar)));
  if (!descr) return PyErr_Clear(), Type{Kind::kObject};
  const DType dtype = numpy::dtype_of(descr.get());
  if (!is_computed(dtype) || !is_standard(descr.get(), dtype)) return {Kind::kObject};
  return {Kind::kNumpy, dtype};
}

// Of a tuple of Python's ints and floats and NumPy's scalars.
Type type_of_tuple(PyObject* tuple) {
  const Type no{Kind::kObject};
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  if (size == 0 || size > kMostOfTuple) return no;
  Type all{Kind::kTuple};
  for (Py_ssize_t i = 0; i < size; i++) {
    const Type item = type_of(PyTuple_GET_ITEM(tuple, i));
    if (item.kind != Kind::kInt && item.kind != Kind::kFloat && (item.kind != Kind::kNumpy || item.is_complex())) return no;
    all.asked.push_back(item);
  }
  return all;
}

// Of an iterator over a sequence, by one of the items.
Type type_of_items(PyObject* item, bool is_tuple) {
  Type all{.kind = Kind::kListItems, .flags = is_tuple};
  const Type type = item ? type_of(item) : Type();
  if (type.kind == Kind::kInt) return all.dtype = DType::int64, all;
  if (type.kind == Kind::kFloat) return all.dtype = DType::float64, all;
  const auto is_pythons = [](const Type& part) { return part.kind == Kind::kInt || part.kind == Kind::kFloat; };
  if (type.kind != Kind::kTuple || !std::all_of(type.asked.begin(), type.asked.end(), is_pythons)) return {Kind::kObject};
  all.asked.push_back(type);
  return all;
}

Type type_of_array(PyArrayObject* array) {
  PyObject* const descr = reinterpret_cast<PyObject*>(PyArray_DESCR(array));
  const DType dtype = numpy::dtype_of(descr);
  constexpr unsigned kWarnOnWrite = 1u << 31;  // NPY_ARRAY_WARN_ON_WRITE, which isn't in NumPy's public headers: its first store warns
  const bool warns = static_cast<unsigned>(PyArray_FLAGS(array)) & kWarnOnWrite;
  const bool fits = PyArray_NDIM(array) <= (kWordsOfSlot - 2) / 2;
  if (dtype == DType::kNone || warns || !fits) return {Kind::kObject};
  const int rank = PyArray_NDIM(array);
  const bool is_close = rank > 0 && is_computed(dtype) && PyArray_STRIDES(array)[rank - 1] == graph::size_of(dtype);
  return {.kind = Kind::kArray, .dtype = dtype, .rank = static_cast<int8_t>(rank), .flags = PyArray_FLAGS(array) & guards::kArrayFlags, .is_close = is_close};
}

// Whether it is a zip of as many numbers as a kTuple may have.
bool gives_numbers(const Type& zip) {
  const auto is_number = [](const Type& part) {
    if (part.kind == Kind::kItems) return part.rank == 1 && graph::kind_of(part.dtype) != 'c';
    return part.kind == Kind::kRangeIterator || (part.kind == Kind::kListItems && part.asked.empty());
  };
  return zip.kind == Kind::kZip && zip.asked.size() <= static_cast<size_t>(kMostOfTuple) && std::all_of(zip.asked.begin(), zip.asked.end(), is_number);
}

// Of one that no one else has.
Type type_of_iterator(PyObject* iterator) {
  const Type no{Kind::kObject};
  PyTypeObject* const type = Py_TYPE(iterator);
  if (Py_REFCNT(iterator) != 1) return no;
  if (type == &PyRangeIter_Type) return {Kind::kRangeIterator};
  if (type == &PySeqIter_Type || type == &PyReversed_Type) {
    PyObject* const sequence = cpython::state_of_sequence(iterator).sequence;
    if (!sequence || !numpy::is_exact_array(sequence)) return no;
    Type array = type_of_array(numpy::as_array(sequence));
    if (!has_elements(array) || array.rank == 0 || array.rank > kMostDimensions + 1) return no;
    array.kind = Kind::kItems;
    array.is_backwards = type == &PyReversed_Type;
    return array;
  }
  if (type == &PyListIter_Type || type == &PyTupleIter_Type) return type_of_items(cpython::ahead(iterator, 0).get(), type == &PyTupleIter_Type);
  Type all{type == &PyEnum_Type ? Kind::kEnumerate : Kind::kZip};
  if (type == &PyEnum_Type) {
    const auto [asked, next] = cpython::state_of_enumerate(iterator);
    constexpr int64_t kFar = int64_t{1} << 62;  // counting from there on takes more than the 64 bits
    if (!asked || next > kFar || next < -kFar) return no;
    all.asked.push_back(type_of_iterator(asked));
  } else if (type == &PyZip_Type) {
    PyObject* const asked = cpython::asked_by_zip(iterator);
    for (Py_ssize_t i = 0; asked && i < PyTuple_GET_SIZE(asked); i++) all.asked.push_back(type_of_iterator(PyTuple_GET_ITEM(asked, i)));
  }
  const auto is_simple = [](const Type& part) { return part.kind == Kind::kRangeIterator || part.kind == Kind::kItems || part.kind == Kind::kListItems; };
  const bool may_be = all.kind == Kind::kEnumerate && gives_numbers(all.asked[0]);
  if (!may_be && (all.asked.empty() || !std::all_of(all.asked.begin(), all.asked.end(), is_simple))) return no;
  return words_of(all).size() <= kWordsOfSlot && all.asked.size() <= kMostAsked ? all : no;
}

}  // namespace

Type type_of(Borrowed object) {
  PyObject* const o = object.get();
  if (!o) return {Kind::kUnbound};
  if (PyLong_CheckExact(o)) return {fits(o) ? Kind::kInt : Kind::kObject};
  if (PyFloat_CheckExact(o)) return {Kind::kFloat};
  if (PyBool_Check(o)) return {Kind::kBool};
  if (PyComplex_CheckExact(o)) return {Kind::kComplex};
  if (numpy::is_exact_array(o)) return type_of_array(numpy::as_array(o));
  if (numpy::is_scalar(o)) return type_of_scalar(o);
  if (PyTuple_CheckExact(o)) return type_of_tuple(o);
  return type_of_iterator(o);
}

Type type_of_items(Borrowed object) {
  PyObject* const o = object.get();
  const bool is_sequence = o && (PyList_CheckExact(o) || PyTuple_CheckExact(o)) && PySequence_Fast_GET_SIZE(o) > 0;
  return is_sequence ? type_of_items(PySequence_Fast_GET_ITEM(o, 0), PyTuple_CheckExact(o)) : Type{Kind::kObject};
}

Type type_in_variable(Borrowed object) {
  Type type = type_of(object);
  return type.is_iterator() || type.kind == Kind::kTuple ? Type{Kind::kObject} : type;
}

bool agrees(const Type& type, const graph::Meta& meta) {
  switch (meta.kind) {
    case graph::Kind::kInt: return type.kind == Kind::kInt;
    case graph::Kind::kFloat: return type.kind == Kind::kFloat;
    case graph::Kind::kBool: return type.kind == Kind::kBool;
    case graph::Kind::kComplex: return type.kind == Kind::kComplex;
    case graph::Kind::kNumpyScalar: return type.kind == Kind::kNumpy && type.dtype == meta.dtype;
    case graph::Kind::kArray: return type.is_array() && type.dtype == meta.dtype && type.rank == meta.rank;
    default: return false;
  }
}

PyTypeObject* python_type(const Type& type) {
  switch (type.kind) {
    case Kind::kInt: return &PyLong_Type;
    case Kind::kFloat: return &PyFloat_Type;
    case Kind::kBool: return &PyBool_Type;
    case Kind::kComplex: return &PyComplex_Type;
    case Kind::kArray:
    case Kind::kView:
    case Kind::kFresh:
    case Kind::kHeld: return &PyArray_Type;
    case Kind::kRange: return &PyRange_Type;
    case Kind::kRangeIterator: return &PyRangeIter_Type;
    case Kind::kItems: return type.is_backwards ? &PyReversed_Type : &PySeqIter_Type;
    case Kind::kViewItems: return &PySeqIter_Type;
    case Kind::kListItems: return type.flags ? &PyTupleIter_Type : &PyListIter_Type;
    case Kind::kTuple: return &PyTuple_Type;
    case Kind::kEnumerate: return &PyEnum_Type;
    case Kind::kZip: return &PyZip_Type;
    case Kind::kNumpy: {
      const Ref descr = numpy::dtype_object(type.dtype);
      return descr.as<PyArray_Descr>()->typeobj;  // NumPy's own, which stay
    }
    case Kind::kUnbound:
    case Kind::kUnread:
    case Kind::kObject: return nullptr;
  }
  return nullptr;
}

int64_t number_of(const Type& held) {
  return static_cast<int64_t>(held.kind) | static_cast<int64_t>(held.dtype) << 8 | static_cast<int64_t>(held.rank) << 16 | static_cast<int64_t>(held.flags) << 32;
}

Type held_type(int64_t number) {
  return {.kind = static_cast<Kind>(number & 0xff), .dtype = static_cast<DType>(number >> 8 & 0xff), .rank = static_cast<int8_t>(number >> 16 & 0xff), .flags = static_cast<int32_t>(number >> 32)};
}

std::optional<int8_t> more_unread_words(const Type& type) {
  if (may_be_unread_number(type) || type.kind == Kind::kArray) return 0;
  // Nobody else has the object that a call has made.
  if (type.is_complex() || type.kind == Kind::kHeld) return 1;
  if ((type.kind == Kind::kFresh && type.rank > 0) || type.kind == Kind::kView) return static_cast<int8_t>(words_of(type).size() - 1);
  return std::nullopt;
}

static std::string array_text(const Type& type) { return std::string(graph::name(type.dtype)) + "[" + std::to_string(type.rank) + "]"; }

std::string text_of(const Type& type) {
  switch (type.kind) {
    case Kind::kUnbound: return "-";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kBool: return "bool";
    case Kind::kUnread: return "unread";
    case Kind::kComplex: return "complex";
    case Kind::kNumpy: return graph::name(type.dtype);
    case Kind::kArray: return array_text(type);
    case Kind::kView: return "part of " + array_text(type);
    case Kind::kFresh: return "new " + array_text(type);
    case Kind::kHeld: return "made " + array_text(type);
    case Kind::kRange: return "range";
    case Kind::kRangeIterator: return "iterator of range";
    case Kind::kItems: return (type.is_backwards ? "reversed " : "iterator of ") + array_text(type);
    case Kind::kViewItems: return "iterator of part of " + array_text(type);
    case Kind::kListItems: return std::string("iterator of a ") + (type.flags ? "tuple" : "list") + " of " + (!type.asked.empty() ? "(" + text_of(type.asked[0].asked) + ")" : type.dtype == DType::int64 ? "ints" : "floats");
    case Kind::kTuple: return "(" + text_of(type.asked) + ")";
    case Kind::kEnumerate: return "enumerate(" + text_of(type.asked) + ")";
    case Kind::kZip: return "zip(" + text_of(type.asked) + ")";
    case Kind::kObject: return "object " + std::to_string(type.object);
  }
  return {};
}

std::string text_of(const std::vector<Type>& types) {
  std::string text;
  for (const Type& type : types) text += (text.empty() ? "" : ", ") + text_of(type);
  return text;
}

// Of what goes through a sequence: the number of the next item.
template <class Word>
static Word* last_word(const Type& type, Word* words) {
  return words + words_of(type).size() - 1;
}

void unbox(const Type& type, Borrowed object, int64_t* words) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kView:
    case Kind::kFresh:
    case Kind::kViewItems:
    case Kind::kRange:
    case Kind::kObject: return;
    case Kind::kInt: words[0] = PyLong_AsLongLong(object.get()); return;
    case Kind::kFloat: words[0] = std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(object.get())); return;
    case Kind::kBool: words[0] = object.get() == Py_True; return;
    case Kind::kUnread: {
      const Type held = type_of(object);
      words[0] = number_of(held);
      if (held.is_array()) return void(words[1] = std::bit_cast<int64_t>(object.get()));
      return unbox(held, object, words + 1);
    }
    case Kind::kComplex: {
      const Py_complex value = PyComplex_AsCComplex(object.get());
      words[0] = std::bit_cast<int64_t>(value.real), words[1] = std::bit_cast<int64_t>(value.imag);
      return;
    }
    case Kind::kNumpy:
      words[0] = 0;
      PyArray_ScalarAsCtype(object.get(), words);
      if (type.dtype == DType::complex64) words[1] = words[0] >> 32, words[0] &= UINT32_MAX;
      return;
    case Kind::kArray:
    case Kind::kHeld: {
      auto* const array = numpy::as_array(object.get());
      words[0] = std::bit_cast<int64_t>(object.get()), words[1] = std::bit_cast<int64_t>(PyArray_DATA(array));
      std::copy_n(PyArray_DIMS(array), type.rank, words + 2);
      std::copy_n(PyArray_STRIDES(array), type.rank, words + 2 + type.rank);
      return;
    }
    case Kind::kRangeIterator: {
      const cpython::RangeState state = cpython::state_of_range(object);
      words[0] = state.next, words[1] = state.step, words[2] = state.left;
      return;
    }
    case Kind::kItems: {
      const cpython::SequenceState state = cpython::state_of_sequence(object);
      unbox(gone_through(type), state.sequence, words);
      *last_word(type, words) = state.next;
      return;
    }
    case Kind::kListItems: {
      const cpython::SequenceState state = cpython::state_of_sequence(object);
      words[0] = std::bit_cast<int64_t>(state.sequence), words[1] = state.next;
      return;
    }
    case Kind::kTuple:
      *words++ = std::bit_cast<int64_t>(object.get());
      for (size_t i = 0; i < type.asked.size(); i++) unbox(type.asked[i], PyTuple_GET_ITEM(object.get(), static_cast<Py_ssize_t>(i)), words++);
      return;
    case Kind::kEnumerate: {
      const cpython::EnumerateState state = cpython::state_of_enumerate(object);
      words[0] = state.next;
      return unbox(type.asked[0], state.asked, words + 1);
    }
    case Kind::kZip:
      for (size_t i = 0; i < type.asked.size(); i++) {
        unbox(type.asked[i], PyTuple_GET_ITEM(cpython::asked_by_zip(object), i), words);
        words += words_of(type.asked[i]).size();
      }
      return;
  }
}

namespace {

Ref range_of(int64_t start, int64_t stop, int64_t step) {
  return Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL", static_cast<long long>(start), static_cast<long long>(stop),
                                          static_cast<long long>(step)));
}

Ref scalar_of(DType dtype, const int64_t* word) {
  const int64_t both = (word[1] << 32) | (word[0] & UINT32_MAX);
  if (dtype == DType::complex64) word = &both;
  const Ref descr = numpy::dtype_object(dtype);
  return descr ? Ref::steal(PyArray_Scalar(const_cast<int64_t*>(word), descr.as<PyArray_Descr>(), nullptr)) : Ref();
}

Ref view_of_array(const Type& type, const int64_t* words) {
  npy_intp sizes[kMostDimensions], strides[kMostDimensions];
  std::copy_n(words + 3, type.rank, sizes);
  std::copy_n(words + 3 + type.rank, type.rank, strides);
  // As the array has it: what was unpickled has an object of its own for its element type.
  PyObject* const base = std::bit_cast<PyObject*>(words[0]);
  PyObject* const own = reinterpret_cast<PyObject*>(PyArray_DESCR(numpy::as_array(base)));
  Ref descr = numpy::dtype_of(own) == type.dtype ? Ref::borrow(own) : numpy::dtype_object(type.dtype);
  Ref view = Ref::steal(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr.release()), type.rank, sizes, strides, std::bit_cast<void*>(words[2]),
                                             type.flags & NPY_ARRAY_WRITEABLE, nullptr));
  if (!view || PyArray_SetBaseObject(view.as<PyArrayObject>(), Ref::borrow(base).release()) < 0) return Ref();
  return view;
}

// A new one, at its start.
Ref iterator_of(const Type& type, const int64_t* words) {
  if (type.kind == Kind::kItems && type.is_backwards) return Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), std::bit_cast<PyObject*>(words[0])));
  if (type.kind == Kind::kItems) return Ref::steal(PySeqIter_New(std::bit_cast<PyObject*>(words[0])));
  if (type.kind == Kind::kListItems) return Ref::steal(PyObject_GetIter(std::bit_cast<PyObject*>(words[0])));
  if (type.kind == Kind::kViewItems) {
    const Ref view = view_of_array(gone_through(type), words);
    return Ref::steal(view ? PySeqIter_New(view.get()) : nullptr);
  }
  if (type.kind == Kind::kRangeIterator) {
    const Ref range = range_of(0, 0, 1);
    return Ref::steal(range ? PyObject_GetIter(range.get()) : nullptr);
  }
  const Ref asked = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(type.asked.size())));
  const int64_t* part = words + (type.kind == Kind::kEnumerate);
  for (size_t i = 0; asked && i < type.asked.size(); i++) {
    Ref one = iterator_of(type.asked[i], part);
    if (!one) return Ref();
    PyTuple_SET_ITEM(asked.get(), i, one.release());
    part += words_of(type.asked[i]).size();
  }
  return Ref::steal(asked ? PyObject_CallObject(reinterpret_cast<PyObject*>(python_type(type)), asked.get()) : nullptr);
}

Ref advanced_iterator(const Type& type, const int64_t* words) {
  Ref iterator = iterator_of(type, words);
  if (iterator) set_iterator(type, iterator.get(), words);
  return iterator;
}

Ref fresh_array(const Type& type, const int64_t* words) {
  npy_intp sizes[kMostDimensions];
  std::copy_n(words + 1, type.rank, sizes);
  Ref array = Ref::steal(PyArray_SimpleNew(type.rank, sizes, numpy::type_number(type.dtype)));
  if (array) std::memcpy(PyArray_DATA(array.as<PyArrayObject>()), std::bit_cast<void*>(words[0]), static_cast<size_t>(PyArray_NBYTES(array.as<PyArrayObject>())));
  return array;
}

Ref new_object(const Type& type, const int64_t* words);

Ref new_tuple(const Type& type, const int64_t* words) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(type.asked.size())));
  for (size_t i = 0; tuple && i < type.asked.size(); i++) {
    Ref number = new_object(type.asked[i], words + i);
    if (!number) return Ref();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), number.release());
  }
  return tuple;
}

Ref new_object(const Type& type, const int64_t* words) {
  switch (type.kind) {
    case Kind::kUnbound:
    case Kind::kUnread:
    case Kind::kObject: return Ref();
    case Kind::kInt: return Ref::steal(PyLong_FromLongLong(words[0]));
    case Kind::kFloat: return Ref::steal(PyFloat_FromDouble(std::bit_cast<double>(words[0])));
    case Kind::kBool: return Ref::steal(PyBool_FromLong(words[0] & 1));
    case Kind::kComplex: return Ref::steal(PyComplex_FromDoubles(std::bit_cast<double>(words[0]), std::bit_cast<double>(words[1])));
    case Kind::kNumpy: return scalar_of(type.dtype, words);
    case Kind::kTuple: return words[0] ? Ref::borrow(std::bit_cast<PyObject*>(words[0])) : new_tuple(type, words + 1);
    case Kind::kArray:
    case Kind::kHeld: return Ref::borrow(std::bit_cast<PyObject*>(words[0]));
    case Kind::kView: return view_of_array(type, words);
    case Kind::kFresh: return fresh_array(type, words);
    case Kind::kRange: return range_of(words[0], words[3], words[1]);
    case Kind::kRangeIterator:
    case Kind::kItems:
    case Kind::kViewItems:
    case Kind::kListItems:
    case Kind::kEnumerate:
    case Kind::kZip: return advanced_iterator(type, words);
  }
  return Ref();
}

}  // namespace

Ref Boxes::box(const Type& type, const int64_t* words) {
  if (type.kind == Kind::kUnread) return box(held_type(words[0]), words + 1);
  if (type.kind != Kind::kView && type.kind != Kind::kFresh) return new_object(type, words);
  const int64_t identity = words[identity_word(type)];
  for (const Array& array : arrays_) {
    if (array.kind == type.kind && array.identity == identity) return Ref::borrow(array.object.get());
  }
  Ref object = new_object(type, words);
  if (object) arrays_.push_back({type.kind, identity, Ref::borrow(object.get())});
  return object;
}

bool ends_unnoticed(Borrowed borrowed) {
  for (PyObject* array = borrowed.get(); array; array = PyArray_BASE(numpy::as_array(array))) {
    if (!numpy::is_exact_array(array) || reinterpret_cast<PyArrayObject_fields*>(array)->weakreflist) return false;
  }
  return true;
}

namespace {

// The iterators that an enumerate or zip asks.
std::vector<PyObject*> asked_by(const Type& type, Borrowed iterator) {
  if (type.kind == Kind::kEnumerate) return {cpython::state_of_enumerate(iterator).asked};
  std::vector<PyObject*> all;
  for (size_t i = 0; i < type.asked.size(); i++) all.push_back(PyTuple_GET_ITEM(cpython::asked_by_zip(iterator), i));
  return all;
}

bool goes_through(const Type& type, Borrowed iterator, const int64_t* words) {
  if (type.kind == Kind::kRangeIterator) return true;
  if (type.kind == Kind::kItems || type.kind == Kind::kListItems) return cpython::state_of_sequence(iterator).sequence == std::bit_cast<PyObject*>(words[0]);
  if (type.kind == Kind::kViewItems) return true;  // of the same view: it was made of these words
  const std::vector<PyObject*> asked = asked_by(type, iterator);
  words += type.kind == Kind::kEnumerate;
  for (size_t i = 0; i < asked.size(); i++) {
    if (!goes_through(type.asked[i], asked[i], words)) return false;
    words += words_of(type.asked[i]).size();
  }
  return true;
}

}  // namespace

bool set_iterator(const Type& type, Borrowed iterator, const int64_t* words) {
  if (!goes_through(type, iterator, words)) return false;
  if (type.kind == Kind::kRangeIterator) return cpython::set_range_state(iterator, {words[0], words[1], words[2]}), true;
  if (type.kind == Kind::kItems || type.kind == Kind::kListItems || type.kind == Kind::kViewItems) return cpython::set_sequence_state(iterator, *last_word(type, words)), true;
  if (type.kind == Kind::kEnumerate) cpython::set_enumerate_state(iterator, *words++);
  const std::vector<PyObject*> asked = asked_by(type, iterator);
  for (size_t i = 0; i < asked.size(); i++) {
    set_iterator(type.asked[i], asked[i], words);
    words += words_of(type.asked[i]).size();
  }
  return true;
}

}  // namespace evalframe::regions
