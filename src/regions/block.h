// Straight-line code in a native loop, which either does all that one recording does, or leaves in front of it with nothing done.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "backends/native/code/element.h"
#include "regions/type.h"

namespace evalframe::regions {

using native::Emitter, native::Term;

// Why something isn't done natively.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value in registers.
struct Written {
  Type type;
  native::Value number;        // of numbers
  std::vector<Term> words;     // of arrays, ranges and their iterators
  PyObject* constant = nullptr;  // a known object, borrowed from the recording
  PyTypeObject* names_type = nullptr;  // the value is this class
  bool is_tuple = false;         // of `items`: an index or a shape, which isn't kept
  std::vector<Written> items;
};

// What is to be kept of a value: the words of its type.
std::vector<Term> words_of(const Written& value);
Written written_int(const Term& value);
Written written_float(const Term& value);
Written written_bool(const Term& value);
Written written_complex(const Term& real, const Term& imag);
Written written_scalar(const native::Value& value);
// Of a Python number that is known.
Written written_constant(Emitter& emitter, PyObject* constant);
// The value behind words of its type.
Written written(const Type& type, std::vector<Term> words);

class Block {
 public:
  // name: what the names of its values and labels begin with. leave: the label for where it isn't done.
  Block(const std::string& name, std::string leave) : emitter(false, "%" + name + "."), name_(name), leave_(std::move(leave)) {}

  // Goes on only where it holds (an i1).
  void leave_unless(const Term& holds);
  void leave_if(const Term& holds) { leave_unless(!holds); }
  // NumPy reports the floating-point conditions of what led to this value.
  void watch(const Term& result) { watched_.push_back(result); }
  void watch(const native::Value& result);
  // Leaves where there was a condition that is reported. Before anything is stored.
  void look_at_conditions();
  std::string new_label() { return name_ + ".l" + std::to_string(labels_++); }

  // Elements that are to be stored, in order, once nothing can fail any more.
  struct Store {
    Term address;
    native::Value value;
  };
  std::vector<Store> stores;
  // What is at the address then.
  native::Value load(DType dtype, const Term& address);
  void write_stores();

  // What is to be written yet, for code beside.
  struct Saved {
    std::vector<Store> stores;
    std::vector<Term> watched;
  };
  Saved save() const { return {stores, watched_}; }
  void restore(Saved saved) { stores = std::move(saved.stores), watched_ = std::move(saved.watched); }

  Emitter emitter;

 private:
  std::string name_, leave_;
  int labels_ = 0;
  std::vector<Term> watched_;
};

}  // namespace evalframe::regions
