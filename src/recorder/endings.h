// Where objects end while they are recorded: what the recorder holds of them for its own purposes doesn't count.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/ref.h"
#include "recorder/counts.h"

namespace evalframe::recorder {

class Recorder;

// Follows what ends together: an object goes when all references to it come from those that go, or from the recorder.
class Endings {
 public:
  explicit Endings(const Recorder& recorder);
  // Whether the object ends if the program lets go of this many of its references.
  bool ends(PyObject* object, Py_ssize_t references);
  // The object ends, with all that it alone holds. True: someone is told of it, or it is more than can be looked at.
  bool is_told(PyObject* object);
  // Whether the recording itself keeps something of what the last such end is of, as long as it lives.
  bool is_kept_by_recording() const;
  std::vector<PyObject*> left_by_last() const;
  // How many references were held by what has ended.
  const std::unordered_map<PyObject*, Py_ssize_t>& lost() const { return lost_; }

 private:
  static constexpr size_t kMost = 512;  // objects that are looked at
  static int visit(PyObject* object, void* endings);
  void lose(PyObject* object);
  const Recorder& recorder_;
  Counts held_;
  std::unordered_map<PyObject*, Py_ssize_t> lost_;
  std::vector<PyObject*> ending_;
  size_t first_ = 0;  // of them, that ends with the last that was asked for
};

}  // namespace evalframe::recorder
