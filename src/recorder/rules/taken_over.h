// What a function of the library has just made, as values: the recorded code might have made the same itself.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "recorder/recorder.h"

namespace evalframe::recorder {

class TakenOver {
 public:
  // library: the names of the module that has made it. What stands there is the same in all runs, and instances of classes that stand there
  // may be taken over. globals: of functions that it has made for others.
  TakenOver(Recorder& recorder, Borrowed library, Borrowed globals) : recorder_(recorder), library_(Ref::borrow(library)), globals_(Ref::borrow(globals)) {}
  // In front of the call: the value stands for the object wherever that is met, and so do its parts.
  void add(uint32_t label, PyObject* object);
  // The object is the same in all runs.
  void add_fixed(PyObject* object) { fixed_.insert(object), held_.push_back(Ref::borrow(object)); }
  // Behind it: the value of an object; 0: it isn't known what it is.
  uint32_t label_of(PyObject* object);
  // Instances of the library's that are known have the attributes that they have now. False: not known.
  bool reread();

 private:
  bool is_of_library(PyObject* object) const;
  uint32_t made_of(PyObject* object);
  uint32_t function(PyFunctionObject* object);
  uint32_t instance(PyObject* object);
  bool add_part(std::vector<uint32_t>& parts, PyObject* object);
  bool add_attribute(std::vector<uint32_t>& parts, PyObject* name, PyObject* value);
  bool attributes_of(PyObject* object, std::vector<uint32_t>& parts);

  Recorder& recorder_;
  const Ref library_, globals_;
  std::unordered_map<PyObject*, uint32_t> known_;
  std::unordered_set<PyObject*> fixed_;
  std::vector<Ref> held_;
  std::vector<std::pair<uint32_t, PyObject*>> instances_;
  int depth_ = 0;
};

// What type itself puts into each class that it makes.
bool is_put_by_type(PyTypeObject* type, PyObject* value);

}  // namespace evalframe::recorder
