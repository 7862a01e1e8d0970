// One run of a variant: where its arrays stand, its kernels' calls, and what they wrote if it is given up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/native/lower/lower.h"
#include "backends/native/run/arena.h"
#include "backends/native/run/copy_around.h"
#include "backends/native/run/kernel_slices.h"
#include "backends/native/run/lagged.h"

namespace evalframe::native {

// Where a storage is in this run.
struct Place {
  char* data = nullptr;
  const int64_t* strides = nullptr;
};

// What is copied around a part that a kernel writes.
struct Border {
  CopyAround copy;
  const char* from;
  char* to;
};

// One run of one variant: its symbols are known, its memory is taken from `scope`.
class VariantRun {
 public:
  VariantRun(const Variant& variant, const int64_t* symbols, Arena::Scope& scope);
  // Where it didn't come to its end, nothing is written.
  ~VariantRun();
  VariantRun(const VariantRun&) = delete;
  VariantRun& operator=(const VariantRun&) = delete;

  bool has_empty_space() const;
  // Finds or takes the memory of every storage; `values` get the arrays that are results.
  bool place(PyObject* const* leaves, char* scalars, const graph::Graph& graph, std::vector<Ref>& values);
  const Place& at(size_t storage) const { return places_[storage]; }
  // Finds what each kernel is called with.
  void prepare();
  FloatFlags run();
  // Writes what is to be written at the end: nothing can go wrong any more.
  void commit();

 private:
  // More elements around a part that needn't be copied are worth kernels.
  static constexpr int64_t kMostAround = 1 << 14;
  // As many are worth several threads.
  static constexpr int64_t kManyAround = 1 << 9;

  // Addresses and strides of a kernel's operands.
  void find_operands(const KernelPlan& plan, KernelCall& call);
  // A kernel's call, or what is left of it around a part that needn't be written.
  void add_calls(const KernelPlan& plan, const KernelCall& whole);
  // Its calls for the parts in which all that is rolled stands one behind the other.
  void add_parts(const KernelPlan& plan, const KernelCall& whole);
  // Where such parts begin and end along a dimension.
  std::vector<int64_t> borders_along(const KernelPlan& plan, int d) const;
  // What is around the part will be copied.
  void add_borders(const KernelPlan& plan, const KernelCall& call, const int64_t* first, const int64_t* last);
  // They go into memory that is new, so that nothing is lost if no kernel runs.
  void copy_borders() const;
  // The part of `whole` with indices begin .. end - 1 of dimension d, and the hole's in the dimensions before.
  void add_slab(const KernelPlan& plan, const KernelCall& whole, int d, int64_t begin, int64_t end);
  std::pair<int64_t, int64_t> range(const Range& range) const;
  // Puts back what kernels that have run have written into leaves, the last first.
  void restore() const;
  // Dimension d and those behind it.
  void restore(const Undo& undo, size_t d, char* to, const char* from) const;
  // Where every storage is.
  std::span<char* const> memory() const;
  template <class Work>
  FloatFlags without_gil(std::span<const KernelCall> calls, Work work) const;
  // The last kernel's value is stored while it is computed, where it may be.
  void find_lagged(const KernelPlan& stores);
  static int64_t work_of(const KernelCall& call);
  bool place_buffer(const Storage& storage, Place& place, const graph::Graph& graph, std::vector<Ref>& values);
  // How far apart elements are along each dimension of a layout: bytes of an array that is there, elements of a result.
  const int64_t* layout(int index);
  // Whether all operands have the result's shape and C or Fortran order: then NumPy doesn't look at their strides, which shows in those
  // of single elements.
  bool are_dense(const Layout& result, bool fortran);
  // The axes of what is reduced in their order, those that are reduced with one element.
  void lay_out_reduced(const Layout& layout, int64_t* strides);
  // What isn't dense, NumPy copies with the largest strides first, however many elements they are for.
  void sort_axes_of_copy(const Layout& copy, std::vector<int>& axes);
  // A layout over the last dimensions of `rank`; what has one element doesn't move.
  const int64_t* spread(int index, int rank);
  char* address(const Box& port) const;
  int64_t stride(const Box& port, const Axis& axis) const;
  int64_t steps(int64_t step, int times) const;

  const Variant& variant_;
  const int64_t* symbols_;
  Arena::Scope& scope_;
  Place* places_;
  const int64_t** layouts_ = nullptr;
  KernelCall* calls_ = nullptr;
  KernelCall* end_ = nullptr;
  std::vector<Border> borders_;
  std::optional<Lagged> lagged_;          // instead of the last call
  const KernelPlan* stored_ = nullptr;    // ... and of this one that commits
  int* ends_ = nullptr;  // for each kernel: how many calls there are up to its last
  int done_ = 0;         // calls of kernels that have run and could be undone
};

}  // namespace evalframe::native
