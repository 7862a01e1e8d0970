// Rules for functions of itertools that only arrange what they are given: they are run on the numbers of the values, in place of these.
#include <string_view>

#include "core/builtins.h"
#include "core/made_once.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// What their arguments are: i: gone through, I: that and all behind it; v: a value, k: a number that has to be known.
struct Arranging {
  const char *name, *positional, *keywords;
  Ref type = Ref();
};

std::vector<Arranging>& arranging() {
  static MadeOnce<std::vector<Arranging>*> table;
  return *table.get([] {
    auto* const rows = new std::vector<Arranging>();
    rows->push_back({"chain", "I", ""});
    rows->push_back({"product", "I", "k"});
    rows->push_back({"combinations", "ik", "k"});
    rows->push_back({"combinations_with_replacement", "ik", "k"});
    rows->push_back({"permutations", "ik", "k"});
    rows->push_back({"islice", "ikkk", ""});
    rows->push_back({"zip_longest", "I", "v"});
    rows->push_back({"pairwise", "i", ""});
    rows->push_back({"batched", "ik", "k"});
    rows->push_back({"repeat", "vk", "k"});
    rows->push_back({"cycle", "i", ""});
    rows->push_back({"count", "kk", "k"});
    const Ref module = Ref::steal(PyImport_ImportModule("itertools"));
    for (Arranging& row : *rows) {
      row.type = module ? Ref::steal(PyObject_GetAttrString(module.get(), row.name)) : Ref();
      PyErr_Clear();
    }
    return rows;
  });
}

const Arranging* arranging_of(PyObject* callable) {
  for (const Arranging& row : arranging()) {
    if (callable == row.type.get()) return &row;
  }
  return nullptr;
}

char kind_of(const char* kinds, size_t i) {
  const std::string_view text(kinds);
  return text.empty() ? '\0' : i < text.size() ? text[i] : text.back() == 'I' ? 'I' : '\0';
}

// The numbers of values, as a program has numbers.
Ref numbers_of(const std::vector<uint32_t>& labels) {
  Ref numbers = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(labels.size())));
  for (size_t i = 0; numbers && i < labels.size(); i++) PyTuple_SET_ITEM(numbers.get(), i, PyLong_FromUnsignedLong(labels[i]));
  return numbers ? Ref::steal(PyObject_GetIter(numbers.get())) : Ref();
}

class Arrangement {
 public:
  Arrangement(const Site& site, const Activation::CallSite& call, const Arranging& row) : recorder_(site.recorder), site_(site), call_(call), row_(row) {}

  std::optional<Plan> plan() {
    const int keywords = call_.keywords();
    // What has to come first isn't given by its name.
    const bool has_first = row_.positional[0] == 'i' || row_.positional[0] == 'v';
    if (has_first && call_.count == keywords) return std::nullopt;
    for (int i = 0; i < call_.count; i++) {
      const bool positional = i < call_.count - keywords;
      if (!add(call_.first + i, kind_of(positional ? row_.positional : row_.keywords, static_cast<size_t>(positional ? i : 0)))) return std::nullopt;
    }
    const Ref made = Ref::steal(PyObject_Vectorcall(row_.type.get(), pointers(replaced_.data()), replaced_.size() - static_cast<size_t>(keywords), call_.keyword_names.get()));
    if (!made || !read(made.get())) return PyErr_Clear(), std::nullopt;
    return plan_value(recorder_.iterator(row_.type.get(), call_.keyword_names, labels_, std::move(items_), endless_));
  }

 private:
  bool add(int slot, char kind) {
    PyObject* const object = site_.frame.slot(slot);
    const uint32_t label = recorder_.label(slot);
    labels_.push_back(label);
    if (kind == 'v') return replaced_.push_back(Ref::steal(PyLong_FromUnsignedLong(label))), true;
    if (kind == 'k') return replaced_.push_back(Ref::borrow(object)), !recorder_.is_input_number(label, object) && recorder_.known(label, object);
    if (kind == '\0' || (recorder_.is_iterator(label) && Py_REFCNT(object) > 1)) return false;
    const bool of_endless = recorder_.is_endless(label);
    // islice alone may end before what it goes through does.
    if (of_endless && std::string_view(row_.name) != "islice") return false;
    const std::optional<std::vector<uint32_t>> parts = of_endless ? std::optional(recorder_.items_to_come(label)) : parts_of(recorder_, label, object);
    if (!parts) return false;
    replaced_.push_back(numbers_of(*parts));
    if (of_endless) beginning_ = replaced_.back().get();
    return static_cast<bool>(replaced_.back());
  }

  // What it gives, as values.
  bool read(PyObject* made) {
    while (const Ref item = Ref::steal(PyIter_Next(made))) {
      if (static_cast<Py_ssize_t>(items_.size()) == kMaxParts) {
        endless_ = std::string_view(row_.name) == "count" || std::string_view(row_.name) == "cycle" || std::string_view(row_.name) == "repeat";
        return endless_;
      }
      items_.push_back(value_of(item.get()));
    }
    return !PyErr_Occurred() && (!beginning_ || PyObject_LengthHint(beginning_, 0) > 0);
  }
  uint32_t value_of(PyObject* item) {
    if (std::string_view(row_.name) == "count" || item == Py_None) return recorder_.constant(item);
    if (PyLong_CheckExact(item)) return static_cast<uint32_t>(PyLong_AsUnsignedLong(item));
    std::vector<uint32_t> parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item); i++) parts.push_back(value_of(PyTuple_GET_ITEM(item, i)));
    return parts.empty() ? recorder_.constant(item) : recorder_.container(Value::Kind::kTuple, std::move(parts));
  }

  Recorder& recorder_;
  const Site& site_;
  const Activation::CallSite& call_;
  const Arranging& row_;
  std::vector<uint32_t> labels_, items_;
  std::vector<Ref> replaced_;
  PyObject* beginning_ = nullptr;  // of what has no end
  bool endless_ = false;
};

// tee(iterable): iterators of their own, where what they go through isn't one itself.
std::optional<Plan> tee_call(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  if (call.count < 1 || call.count > 2 || call.keyword_names) return std::nullopt;
  PyObject *const from = site.frame.slot(call.first), *const count = call.count == 2 ? site.frame.slot(call.first + 1) : nullptr;
  const uint32_t label = recorder.label(call.first);
  if (count && (!PyLong_CheckExact(count) || !recorder.known(recorder.label(call.first + 1), count))) return std::nullopt;
  const long number = count ? PyLong_AsLong(count) : 2;
  const std::optional<std::vector<uint32_t>> parts = recorder.is_iterator(label) || number < 1 || number > 8 ? std::nullopt : parts_of(recorder, label, from);
  static MadeOnce<Ref> type;
  PyObject* const tee = type.get([] {
    const Ref module = Ref::steal(PyImport_ImportModule("itertools"));
    return module ? Ref::steal(PyObject_GetAttrString(module.get(), "_tee")) : Ref();
  }).get();
  if (!parts || !tee) return PyErr_Clear(), std::nullopt;
  std::vector<uint32_t> iterators;
  for (long i = 0; i < number; i++) iterators.push_back(recorder.iterator(tee, nullptr, {label}, *parts));
  return plan_value(recorder.container(Value::Kind::kTuple, std::move(iterators)));
}

}  // namespace

std::optional<Plan> arranging_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (PyCFunction_CheckExact(callable) && name_in_module(callable) == "itertools.tee") return tee_call(site, call);
  const Arranging* const row = PyType_Check(callable) ? arranging_of(callable) : nullptr;
  return row ? Arrangement(site, call, *row).plan() : std::nullopt;
}

}  // namespace evalframe::recorder
