// What a slot of a frame holds while a native loop runs: known when the loop is compiled, but for the numbers and addresses.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::regions {

using graph::DType;

struct Type {
  enum class Kind : uint8_t {
    kUnbound,        // nothing
    kInt,            // Python's, of 64 bits
    kFloat,          // Python's
    kBool,           // Python's
    kComplex,        // Python's
    kNumpy,          // a NumPy scalar
    kUnread,         // a number, an array or nothing, which is written before it is read: its type as a number, and its words, of which there may be `rank` more than one
    kArray,          // an object, and what it says of itself: the object, the first element, sizes, strides
    // Arrays that the loop has made; the first two are no objects yet:
    kView,           // part of an object's: the object, a number that no other one has, the first element, sizes, strides
    kFresh,          // in memory of its own, in C order: the first element, sizes
    kHeld,           // an object that a call has made: the same
    kRange,          // made by the loop: start, step, length, stop
    // Iterators that no one else has:
    kRangeIterator,  // next number, step, how many are left
    kItems,          // over the items of an array, or reversed() of one: the words of a kArray, the number of the next
    kViewItems,      // over the items of part of an array: the words of a kView, the number of the next
    kListItems,      // over a list, or a tuple (flags), of Python's ints (int64), floats (float64) or kTuples (asked): it, the number of the next
    kEnumerate,      // the next number, and what the iterator that it asks has, which may be a zip of numbers
    kZip,            // what the iterators that it asks have
    kTuple,          // of numbers, on the stack: the tuple, which something else holds, or null where a zip gave it, and the numbers
    kObject,         // anything else: carried along as it is
  };
  Kind kind = Kind::kUnbound;
  DType dtype = DType::kNone;  // kNumpy; of arrays, and of what is gone through, also:
  int8_t rank = 0;
  int32_t flags = 0;           // of guards::kArrayFlags
  int32_t object = -1;         // kObject: which of the region's objects
  std::vector<Type> asked = {};     // kEnumerate, kZip: the iterators; kTuple: the numbers; kListItems: what a tuple among the items is
  bool is_close = false;            // of arrays, and of what is gone through: along the last axis, one element stands beside the other
  bool is_backwards = false;        // kItems: from the last item to the first
  bool operator==(const Type&) const = default;
  std::strong_ordering operator<=>(const Type& other) const;
  bool is_iterator() const { return kind >= Kind::kRangeIterator && kind <= Kind::kZip; }

  bool asks() const { return kind == Kind::kEnumerate || kind == Kind::kZip; }
  bool is_array() const { return kind >= Kind::kArray && kind <= Kind::kHeld; }

  bool is_complex() const { return kind == Kind::kComplex || (kind == Kind::kNumpy && graph::kind_of(dtype) == 'c'); }
  bool is_number() const { return kind >= Kind::kInt && kind <= Kind::kNumpy; }
};

// Numbers of a kTuple.
inline constexpr Py_ssize_t kMostOfTuple = 6;
// Each slot has room for as many words of 8 bytes.
inline constexpr int kWordsOfSlot = 32;
// Iterators that one zip asks.
inline constexpr int kMostAsked = 8;
// Dimensions of arrays that aren't objects.
inline constexpr int kMostDimensions = 5;
// LLVM types of the words of a value in registers.
std::vector<std::string> words_of(const Type& type);
// Element types that native loops compute with.
bool is_computed(DType dtype);

// An array whose elements native loops read.
bool has_elements(const Type& array);
// The array that a kItems, or the view that a kViewItems goes through.
Type gone_through(Type items);
// The same of any strides.
Type of_any_strides(Type type);
// Whether what is of the type `there` may enter as `wanted`: one that stands close is one of any strides, too.
bool may_enter_as(const Type& wanted, const Type& there);
// The same of what a slot holds where a region is entered: a number or an array for a kUnread, and any object that is carried along.
bool may_enter_slot(Type wanted, const Type& there);
// A new array.
Type fresh_type(DType dtype, int rank);
// Of an array's words, the one that tells it from others of its kind.
int identity_word(const Type& array);
// The type of a live object; kObject without a number for what is carried along.
Type type_of(Borrowed object);
// What an iterator over an object would be, if that is a list or a tuple: kListItems, else kObject.
Type type_of_items(Borrowed object);
// The same of what is in a variable, where the program can get at an iterator again, and others may let go of a tuple.
Type type_in_variable(Borrowed object);
// Whether a recorded value of this kind is of the type.
bool agrees(const Type& type, const graph::Meta& meta);
// Python's type of a number or array; null for others.
PyTypeObject* python_type(const Type& type);

// Of a kUnread: its first word, and the type that this stands for.
int64_t number_of(const Type& held);
Type held_type(int64_t number);
// How many more words than one it takes to hold what is of the type; none: it can't. Where it takes no more, others may have what it holds.
std::optional<int8_t> more_unread_words(const Type& type);
inline Type unread_type(int8_t more_words) { return {.kind = Type::Kind::kUnread, .rank = more_words}; }
// Whether a slot with these words has no object.
inline bool is_nothing(const Type& type, const int64_t* words) {
  return type.kind == Type::Kind::kUnbound || (type.kind == Type::Kind::kUnread && held_type(*words).kind == Type::Kind::kUnbound);
}
// Whether it is a number that a kUnread may hold, or nothing.
inline bool may_be_unread_number(const Type& type) { return (type.is_number() && !type.is_complex()) || type.kind == Type::Kind::kUnbound; }

std::string text_of(const Type& type);
// Such as `int, float64[2], -`.
std::string text_of(const std::vector<Type>& types);

// Between objects and the words of one slot. `unbox` wants an object of the type.
void unbox(const Type& type, Borrowed object, int64_t* words);
// Where a loop is left: one object for one array.
class Boxes {
 public:
  // Null with MemoryError.
  Ref box(const Type& type, const int64_t* words);

 private:
  struct Array {
    Type::Kind kind;
    int64_t identity;
    Ref object;
  };
  std::vector<Array> arrays_;
};
// Whether nobody is told, and nothing but memory is given back, when the array's end comes.
bool ends_unnoticed(Borrowed array);
// Advances the iterator, of the same type, to what the words say. False: it goes through something else, and nothing is done.
bool set_iterator(const Type& type, Borrowed iterator, const int64_t* words);

}  // namespace evalframe::regions
