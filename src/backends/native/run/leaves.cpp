// The arrays that enter a segment, looked at through NumPy's structs.
#include "backends/native/run/leaves.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/native/lower/numbers.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {
namespace {

// NumPy's mark on arrays that will be read-only one day (np.broadcast_arrays); its headers keep it to themselves.
constexpr int kWarnsOnWrite = 1 << 31;

// The bytes that an array reaches over.
std::pair<const char*, const char*> reach(PyArrayObject* array) {
  const char* begin = PyArray_BYTES(array);
  const char* end = begin + PyArray_ITEMSIZE(array);
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    const npy_intp span = (PyArray_DIM(array, i) - 1) * PyArray_STRIDE(array, i);
    (span < 0 ? begin : end) += span;
  }
  return {begin, end};
}

// Whether two elements of an array may stand in the same place.
bool may_overlap_itself(PyArrayObject* array) {
  std::pair<npy_intp, npy_intp> steps[NPY_MAXDIMS];  // stride, size
  int count = 0;
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    if (PyArray_DIM(array, i) > 1) steps[count++] = {std::abs(PyArray_STRIDE(array, i)), PyArray_DIM(array, i)};
  }
  std::sort(steps, steps + count);
  npy_intp span = PyArray_ITEMSIZE(array);
  for (int i = 0; i < count; i++) {
    if (steps[i].first < span) return true;
    span += (steps[i].second - 1) * steps[i].first;
  }
  return false;
}

}  // namespace

bool is_ordinary_array(PyObject* object, const graph::Meta& meta) {
  if (!PyArray_CheckExact(object)) return false;
  PyArrayObject* const array = numpy::as_array(object);
  return PyArray_NDIM(array) == meta.rank && PyArray_TYPE(array) == type_number(meta.dtype) && PyArray_ISBEHAVED_RO(array);
}

LeafShape shape_of(PyObject* object) {
  PyArrayObject* const array = numpy::as_array(object);
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  return {reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), reinterpret_cast<const int64_t*>(PyArray_STRIDES(array))};
}

bool can_write(const Segment& segment, PyObject* const* leaves) {
  for (const int leaf : segment.written) {
    PyArrayObject* const array = numpy::as_array(leaves[leaf]);
    if (!PyArray_ISWRITEABLE(array) || PyArray_CHKFLAGS(array, kWarnsOnWrite) || may_overlap_itself(array)) return false;
  }
  return std::all_of(segment.apart.begin(), segment.apart.end(), [&](const std::pair<int, int>& pair) {
    const auto a = reach(numpy::as_array(leaves[pair.first])), b = reach(numpy::as_array(leaves[pair.second]));
    return a.second <= b.first || b.second <= a.first;
  });
}

void find_alone(const Segment& segment, PyObject* const* leaves, LeafShape* shapes) {
  for (const int written : segment.written) {
    const auto own = reach(numpy::as_array(leaves[written]));
    for (size_t i = 0; i < segment.leaves.size(); i++) {
      const auto other = reach(numpy::as_array(leaves[i]));
      if (static_cast<int>(i) != written && own.first < other.second && other.first < own.second) shapes[written].alone = false;
    }
  }
}

}  // namespace evalframe::native
