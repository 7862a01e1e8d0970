// What native loops do to rows of elements by functions of their own, which they call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/native/code/kernel.h"
#include "backends/native/machine/machine.h"
#include "core/ref.h"
#include "regions/type.h"

namespace evalframe::regions {

inline constexpr size_t kMostOperands = 24;
// Elements from which on a graph's kernels do better: with threads, and what belongs together in one.
inline constexpr int64_t kManyElements = 1 << 16;
inline constexpr size_t kBytesOfNumber = 32;  // room for an element of any type

struct ObjectCall;

struct Routine {
  enum class Kind : uint8_t {
    kKernel,   // computes an element-wise kernel: its inputs, its output
    kMove,     // copies the elements of one array into another of two dimensions, as NumPy does: from, to
    kMoveRow,  // ... of one dimension
    kMoveSpace,  // ... of more than two: as kSpace
    kSpace,    // computes a kernel of any dimensions, or one that reduces, see Block::call_over: its inputs, its output
    kTurns,    // changes a row, or rows of two dimensions, by a kernel of which that is an input, in several turns: the kernel's inputs, the rows (outer: from turn to
               // turn; rows: how many turns); for two dimensions all of these once more (outer: from row to row, inner: how many rows)
    kFold,     // reduces one row of neighbours to one element: the row, the element
    kProduct,  // of matrices, as numpy.matmul has it: n x k (rows), k x m (columns), n x m; k stands for the outer bytes of a fourth operand
    kObject,   // an operation on objects, see object_call.h: the words of its operands, which those of its result take the place of
    kRelease,  // lets go what was held since: the number that was held before
    kMedian,   // of one row of neighbours, whose order it changes, as numpy.median has it: the row, the element
    kListItem, // looks at an item of a list or tuple of Python's ints or floats, or of tuples of them: the list, the number that it is, or the tuple
               // and its numbers; rows: which one. 1: it is another object, or the list is
    kAppend,   // puts numbers at the ends of lists, all or none: numbers in memory (number_at), the first word of each is the list; see `numbers`
    kDot,      // of two rows, as numpy.dot has it: the rows, the element
    kDotOfMatmul,  // ... as numpy.matmul has it, of floats
    kContract, // sums of products over axes, see contraction.h: the factors, the sums; as kSpace
    kGather,   // copies elements, or rows of them, that rows of ints name (`numbers`: of which types): the copy; where they come from (bytes from element
               // to element of a row); for each axis its size and bytes from one to the next, and the ints. 1: one is out of range
    kScatter,  // the other way round; 1, also: the memory of both may overlap, or that of the ints
    kKeep,     // copies the elements of a mask that are kept, or rows, for a mask of `rank` 1: the array, the mask, the copy, how many they are
    kPut,      // stores as many elements where a mask keeps some: the array, the mask, the elements (outer: how many; one is for all). 1: it isn't as
               // many, or the memory may overlap
    kCount,    // counts what a mask keeps: the mask, how many they are
    kPutKept,  // stores elements where a mask keeps some, of rows for all of them (kSkipping): the array, the mask, the rows. 1: the memory may overlap
  };
  Kind kind = Kind::kMove;
  graph::DType dtype = graph::DType::kNone;  // of the elements; a kernel's say it themselves
  native::ReduceOp fold = native::ReduceOp::kNone;
  int rank = 0;              // kMoveSpace, kKeep, kTurns
  int input = 0;             // kTurns: which is changed
  std::shared_ptr<const native::Kernel> kernel = {};
  std::shared_ptr<const ObjectCall> object = {};  // kObject
  std::vector<Type> numbers = {};                 // kAppend, kGather, kScatter
  std::string text = {};  // kKernel, kContract, kObject, kListItem: what tells it from others
  bool operator==(const Routine& other) const { return kind == other.kind && dtype == other.dtype && fold == other.fold && rank == other.rank && input == other.input && numbers == other.numbers && text == other.text; }
  // Whether it may give something but 0, having done nothing that counts: the loop is left.
  bool may_refuse() const { return kind == Kind::kKernel || kind == Kind::kSpace || kind == Kind::kTurns || kind == Kind::kObject || kind == Kind::kMedian || kind == Kind::kAppend || kind == Kind::kContract || (kind >= Kind::kGather && kind != Kind::kKeep && kind != Kind::kCount); }
  bool has_kernel_of_neighbours() const;
  // Whether the floating-point conditions that it meets are reported.
  bool reports() const { return kind != Kind::kMove && kind != Kind::kMoveRow && kind != Kind::kMoveSpace && kind != Kind::kObject && kind != Kind::kRelease && kind != Kind::kListItem && kind != Kind::kAppend && kind < Kind::kGather; }
  int traverse(visitproc visit, void* arg) const;
};
// Whether NumPy multiplies matrices of such elements by a loop that can be called.
bool has_product(graph::DType dtype);

// One that can be called.
class LoadedRoutine {
 public:
  virtual ~LoadedRoutine() = default;
  // Makes what a call has asked for in vain. Throws std::runtime_error.
  virtual void make_missing() {}
  // The functions that it has; makes them with as much effort, at least.
  virtual std::vector<native::Effort> efforts() const { return {}; }
  virtual void improve(native::Effort) {}
};
// What loops call, with the routine, where the operands begin, bytes from row to row and from element to element, and how many rows
// and columns there are. kSpace, kMoveSpace: `outer` has the sizes of all dimensions, and behind them each operand's bytes from one to the
// next along each; rows: how many elements.
using RoutineFunction = int32_t (*)(LoadedRoutine*, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns);
// A row of the table of routines that a loop gets.
struct RoutineEntry {
  RoutineFunction call;
  LoadedRoutine* routine;
  // Of a kernel: its code for inputs that are rows of neighbours, which needs no routine.
  native::KernelFunction for_neighbours = nullptr;
};

// Objects that calls have made, until the loop is left, and how the calls are to behave.
struct Held {
  std::vector<Ref> objects;
  int64_t count = 0, bytes = 0;
  int reported = 0;  // conditions, as NPY_FPE_* bits
  Ref raising;       // NumPy's state in which they are raised, once it was needed
  int raising_for = 0;
  PyObject* const* bound = nullptr;  // the region's objects, by number, of this run
  void release(size_t count);
};

class LoadedRoutines {
 public:
  // Throws std::runtime_error.
  explicit LoadedRoutines(const std::vector<Routine>& routines);
  const RoutineEntry* entries() const { return entries_.data(); }
  void make_missing();
  // The least with which one of their functions was made, and how many were.
  native::Effort effort() const { return effort_; }
  int functions_of_effort() const { return functions_; }
  void improve(native::Effort effort);
  Held held;

 private:
  std::vector<std::unique_ptr<LoadedRoutine>> routines_;
  std::vector<RoutineEntry> entries_;
  native::Effort effort_ = native::Effort::kFull;
  int functions_ = 0;

  void look_at_efforts();
};

}  // namespace evalframe::regions
