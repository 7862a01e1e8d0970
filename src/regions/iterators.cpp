#include "regions/iterators.h"

#include <span>

#include "frontends/numpy/numpy_api.h"
#include "regions/elements.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

Written array_of_items(const Type& type, std::span<const Term> words) { return written(gone_through(type), {words.begin(), words.end() - 1}); }

// The words of the iterators that this one asks, one after the other.
template <class Visit>
void for_each_asked(const Type& iterator, std::span<Term> words, Visit visit) {
  size_t at = iterator.kind == Kind::kEnumerate;
  for (const Type& type : iterator.asked) {
    const size_t count = words_of(type).size();
    if (type.asks()) for_each_asked(type, words.subspan(at, count), visit);
    else visit(type, words.subspan(at, count));
    at += count;
  }
}

// An item of a list is an object: what it holds stands where numbers for calls do, each iterator's in a place of its own.
constexpr int kNumbersOfItem = 2;
static_assert((kMostOfTuple + 1) * 8 <= static_cast<Py_ssize_t>(kNumbersOfItem * kBytesOfNumber) && kMostAsked * kNumbersOfItem <= static_cast<int>(kMostOperands));
Term item_place(Block& block, size_t number) { return block.number_at(static_cast<int>(number) * kNumbersOfItem); }

Routine item_routine(const Type& type) {
  Routine routine{.kind = Routine::Kind::kListItem, .dtype = type.dtype, .text = type.flags ? "tuple " : "list "};
  if (type.asked.empty()) return routine;
  for (const Type& number : type.asked[0].asked) routine.text += number.kind == Kind::kInt ? 'i' : 'f';
  return routine;
}

// What the routine gives for the item of that number (an i32); nothing else is done for one that there isn't.
Term item_fits(Block& block, const Type& type, const Term& list, const Term& number, const Term& place) {
  const Term none = block.emitter.integer("i64", 0);
  return compare("eq", block.called(item_routine(type), {{list, none, none}, {place, none, none}}, number, block.emitter.integer("i64", 1), false), 0);
}

Term size_of_list(Block& block, const Term& list) {
  const Term at = block.emitter.let("ptr", "getelementptr i8, ptr " + list.ref + ", i64 " + std::to_string(offsetof(PyVarObject, ob_size)));
  return block.emitter.let("i64", "load i64, ptr " + at.ref);
}

Term has_one(Block& block, const Type& type, std::span<const Term> words) {
  if (type.kind == Kind::kListItems) return compare("slt", words[1], size_of_list(block, words[0]));
  if (type.kind == Kind::kRangeIterator) return compare("sgt", words[2], 0);
  // Backwards the number behind the last item is -1, which is no number of an item.
  return compare(type.is_backwards ? "ult" : "slt", words.back(), length_of(block, array_of_items(type, words)));
}

Written next_one(Block& block, const Type& type, std::span<Term> words, size_t number_of_iterator) {
  if (type.kind == Kind::kListItems) {
    words[1] = words[1] + 1.0;
    const Term at = item_place(block, number_of_iterator);
    if (!type.asked.empty()) {
      const Type& tuple = type.asked[0];
      std::vector<Term> loaded;
      for (const std::string& word : words_of(tuple)) {
        const Term part = block.emitter.let("ptr", "getelementptr i64, ptr " + at.ref + ", i64 " + std::to_string(loaded.size()));
        loaded.push_back(block.emitter.let(word, "load " + word + ", ptr " + part.ref));
      }
      return written(tuple, std::move(loaded));
    }
    return type.dtype == DType::int64 ? written_int(block.emitter.let("i64", "load i64, ptr " + at.ref)) : written_float(block.emitter.let("double", "load double, ptr " + at.ref));
  }
  if (type.kind == Kind::kRangeIterator) {
    const Term number = words[0];
    words[0] = words[0] + words[1];
    words[2] = words[2] - 1.0;
    return written_int(number);
  }
  const Term number = words.back();
  words.back() = number + (type.is_backwards ? -1.0 : 1.0);
  return item_at(block, array_of_items(type, words), number);
}

// That a zip gives: no object yet.
Written tuple_of(Emitter& emitter, const std::vector<Written>& numbers) {
  Written tuple{.type = {Kind::kTuple}, .words = {{&emitter, "ptr", "null"}}};
  for (const Written& number : numbers) {
    tuple.type.asked.push_back(number.type);
    tuple.words.push_back(number.number.real);
  }
  return tuple;
}

}  // namespace

size_t items_of_step(const Type& iterator) {
  if (iterator.kind == Kind::kEnumerate) return 2;
  return iterator.kind == Kind::kZip ? iterator.asked.size() : 0;
}

Term has_next(Block& block, const Written& iterator) {
  if (!iterator.type.asks()) return has_one(block, iterator.type, iterator.words);
  Written copy = iterator;
  Term all = block.emitter.integer("i1", -1);
  for_each_asked(copy.type, copy.words, [&](const Type& type, std::span<Term> words) { all = all & has_one(block, type, words); });
  return all;
}

std::optional<Term> next_fits(Block& block, const Written& iterator) {
  std::optional<Term> all;
  size_t number = 0;
  const auto look = [&](const Type& type, std::span<const Term> words) {
    const size_t place = number++;
    if (type.kind != Kind::kListItems) return;
    const Term fits = item_fits(block, type, words[0], words[1], item_place(block, place));
    all = all ? *all & fits : fits;
  };
  Written copy = iterator;
  if (!iterator.type.asks()) look(iterator.type, iterator.words);
  else for_each_asked(copy.type, copy.words, [&](const Type& type, std::span<Term> words) { look(type, words); });
  return all;
}

std::vector<Written> next_items(Block& block, Written& iterator) {
  if (!iterator.type.asks()) return {next_one(block, iterator.type, iterator.words, 0)};
  std::vector<Written> items;
  size_t number = 0;
  if (iterator.type.kind == Kind::kEnumerate) {
    items.push_back(written_int(iterator.words[0]));
    iterator.words[0] = iterator.words[0] + 1.0;
  }
  std::vector<Written> asked;
  for_each_asked(iterator.type, iterator.words, [&](const Type& type, std::span<Term> words) { asked.push_back(next_one(block, type, words, number++)); });
  if (!iterator.type.asked[0].asks()) {
    items.insert(items.end(), asked.begin(), asked.end());
  } else {
    items.push_back(tuple_of(block.emitter, asked));
  }
  return items;
}

Written iterator_over(Block& block, const Written& iterable) {
  if (iterable.type.is_iterator()) return iterable;
  if (iterable.type.kind == Kind::kRange) return {.type = {Kind::kRangeIterator}, .words = {iterable.words[0], iterable.words[1], iterable.words[2]}};
  const Type& type = iterable.type;
  const bool is_view = type.kind == Kind::kView && !iterable.is_of_fresh, is_object = type.kind == Kind::kArray && type.rank >= 1 && type.rank <= kMostDimensions + 1;
  if (!has_elements(type) || (!is_view && !is_object)) throw Unsupported("iteration over " + text_of(type));
  Written items = iterable;
  items.type.kind = is_view ? Kind::kViewItems : Kind::kItems;
  items.words.push_back(block.emitter.integer("i64", 0));
  return items;
}

Written iterator_over_list(Block& block, const Type& items, const Term& list) {
  if (items.kind != Kind::kListItems) throw Unsupported("iteration over an object");
  // It is another object's turn to be there.
  block.leave_unless(item_fits(block, items, list, block.emitter.integer("i64", INT64_MAX), item_place(block, 0)));
  return {.type = items, .words = {list, block.emitter.integer("i64", 0)}};
}

Written known_range(Emitter& emitter, Borrowed range) {
  Written known{.type = {Kind::kRange}};
  const Py_ssize_t length = PyObject_Size(range.get());
  const auto add = [&](const Ref& number) {
    if (!number || type_of(number.get()).kind != Kind::kInt) {
      PyErr_Clear();
      throw Unsupported("a range of large numbers");
    }
    known.words.push_back(emitter.integer("i64", PyLong_AsLongLong(number.get())));
  };
  for (const char* const part : {"start", "step"}) add(Ref::steal(PyObject_GetAttrString(range.get(), part)));
  add(Ref::steal(length < 0 ? nullptr : PyLong_FromSsize_t(length)));
  add(Ref::steal(PyObject_GetAttrString(range.get(), "stop")));
  return known;
}

Written advanced(Written iterator, int32_t items) {
  if (items == 0) return iterator;
  if (iterator.type.kind == Kind::kRangeIterator) {
    iterator.words[0] = iterator.words[0] + iterator.words[1] * static_cast<double>(items);
    iterator.words[2] = iterator.words[2] - static_cast<double>(items);
  } else if (iterator.type.kind == Kind::kItems || iterator.type.kind == Kind::kViewItems || iterator.type.kind == Kind::kListItems) {
    iterator.words.back() = iterator.words.back() + static_cast<double>(iterator.type.is_backwards ? -items : items);
  } else {
    throw Unsupported("an iterator in the midst of its items");
  }
  return iterator;
}

namespace {

Written asking(Kind kind, std::vector<Term> words, const std::vector<Written>& iterators) {
  Written all{.type = {kind}, .words = std::move(words)};
  for (const Written& iterator : iterators) {
    if (iterator.type.asks()) throw Unsupported("iterators that ask iterators that ask others");
    all.type.asked.push_back(iterator.type);
    for (const Term& word : iterator.words) all.words.push_back(word);
  }
  if (all.words.size() > kWordsOfSlot || iterators.size() > kMostAsked) throw Unsupported("a zip of many");
  return all;
}

}  // namespace

Written enumerate_of(Block& block, const Written& iterable) {
  return asking(Kind::kEnumerate, {block.emitter.integer("i64", 0)}, {iterator_over(block, iterable)});
}

Written zip_of(Block& block, const std::vector<Written>& iterables) {
  std::vector<Written> iterators;
  for (const Written& iterable : iterables) iterators.push_back(iterator_over(block, iterable));
  if (iterators.empty()) throw Unsupported("a zip of nothing");
  return asking(Kind::kZip, {}, iterators);
}

}  // namespace evalframe::regions
