// A segment (a run of nodes whose only effects are writes into arrays) lowered to kernels, for a class of shapes and layouts of what enters it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/native/code/kernel.h"
#include "backends/native/meaning/meaning.h"
#include "graph/graph.h"

namespace evalframe::native {

// A size, a start or an index, computed at each run from the sizes of the leaves.
struct Symbol {
  enum class Kind : uint8_t {
    kLeafSize,     // size of axis b of leaf a; behind the last leaf: number b
    kConstant,     // start
    kSliceLength,  // of start:stop:step on a dimension of size symbol a; symbols b and c, if any, are start and stop
    kSliceStart,   // its first index
    kIndex,        // start, or symbol b, counted from the end if negative; the run is refused if it's out of range
    kProduct,      // symbol a times symbol b
    kLess,         // symbol a less `start`; the run is refused if nothing is left
    kQuotient,     // symbol a by symbol b; the run is refused if something is left
    kSeveral,      // symbol a; the run is refused if it is one
    kRolled,       // how far what is in a dimension of size symbol a is moved, by `start` or symbol b, counted upwards, and by symbol c, if any, before
  } kind;
  int a = -1, b = -1;
  int64_t start = IndexItem::kAbsent, stop = IndexItem::kAbsent, step = 1;
  int c = -1;
  bool operator==(const Symbol&) const = default;
};

// How one dimension moves in a storage.
struct Axis {
  static constexpr int kBroadcast = -1, kFlat = -2;  // stride 0; the stride of an element of a contiguous storage
  int of = kBroadcast;
  int64_t step = 1;
  int times = -1;  // a symbol: as many steps at once
};

struct Offset {
  int symbol;
  int axis;
  int64_t step;
  int times = -1;
};

// Part of a storage, seen with dimensions of its own.
struct Box {
  int storage = -1;
  std::vector<int> dims;  // symbols
  std::vector<Axis> axes;
  std::vector<Offset> offsets;
  bool complete = false;  // all elements of the storage, in C order
  std::vector<int> rolls = {};  // symbols: how far what is seen in each dimension is moved round, -1: it isn't; none: in no dimension
};

// An array of the segment seen in another shape: whether NumPy copies depends on the strides of each run.
struct Reshaped {
  Box from;
  Box to;
  bool ravelled;  // a view only of what is contiguous
  bool copied;    // `to` is in a storage of its own
};

// The order in memory that NumPy gives an array of more than one dimension: that of a box, or of the result of an operation on
// arrays of these orders.
struct Layout {
  Box box;                    // of an array that is there; its dims are the layout's
  std::vector<int> operands;  // else: layouts; if there is none, C order
  std::vector<int> dims;      // symbols
  bool walked = false;        // in the order in which NumPy's iterator walks the operands, even if all of these are dense
  bool keeps = false;         // the result is a copy of its operand, in the order that NumPy's copies have
  uint32_t reduced = 0;       // the result is a reduction of its operand over these axes
};

// Memory that kernels read or write.
struct Storage {
  enum class Kind : uint8_t { kLeaf, kScalar, kBuffer } kind;
  int source = -1;         // kLeaf: leaf; kScalar: index into scalars
  DType dtype = DType::kNone;
  std::vector<int> dims;   // symbols
  int layout = -1;         // kBuffer: of its elements; -1: C order
  int32_t node = -1;       // kBuffer: the node that it becomes an object for, or -1: it only lives in the segment
};

// A number that enters kernels: a Python number converted to the loop's type, a NumPy scalar, or a count of elements.
struct ScalarSource {
  graph::Operand operand;  // no space: the count `symbol`
  int symbol = -1;
  DType dtype = DType::kNone;
};

// Part of one dimension: `length` indices from `start` on; symbols, no start is 0.
struct Range {
  int start = -1;
  int length = -1;
  bool operator==(const Range&) const = default;
};

struct KernelPlan {
  Kernel kernel;
  const CompiledKernel* compiled = nullptr;
  std::vector<int> space;   // symbols
  std::vector<Range> hole;  // for each dimension: the part that another kernel writes anyway; none: no such part
  std::vector<int> copied;  // where there is such a part: for each output, the input that it is a copy of; none: it isn't all copies
  std::vector<Box> ports;   // inputs, then outputs; dims are unused, axes are those of the space
  std::vector<int> scratch;  // for each port: its storage, if only kernels that don't commit use that, else -1
  bool rolled = false;       // some input is: it is run in the parts of the space in which that stands one behind the other
  int lags = -1;             // one that commits: the last kernel, of which it stores the value slice by slice, one late, where that pays; -1: when all is done
  bool commits = false;      // writes into an array that was there: run when nothing can go wrong any more
};

// An array that is summed over axes in memory's order.
struct Summed {
  Box box;
  uint32_t axes;
};

// What a kernel writes into a leaf while it runs, and where it keeps what stood there.
struct Undo {
  int kernel;
  Box place;
  std::vector<int> dims;
  int kept;  // storage
};

struct Variant {
  std::vector<Symbol> symbols;
  std::vector<std::pair<int, int>> equal;  // symbols that must agree
  std::vector<int> contiguous;             // leaves that must be
  bool plain = true;                       // all orders are C order: the strides of these boxes must fall
  std::vector<Box> falling;
  std::vector<Box> copied;                 // and a copy that keeps the order of these must be in C order
  std::vector<Reshaped> reshaped;          // must come out as for the first run
  std::vector<Summed> summed;              // must not be in pieces, see sums_in_pieces
  std::vector<Layout> layouts;             // of operands and results, where not plain
  std::vector<Storage> storages;
  std::vector<ScalarSource> scalars;
  std::vector<KernelPlan> kernels;
  std::vector<Undo> undo;
  std::vector<int> alone;                  // leaves that must be: they are written while kernels run
};

struct Segment {
  int32_t begin = 0, end = 0;
  std::vector<graph::Operand> leaves;  // arrays that enter, as operands of the graph
  std::vector<graph::Operand> numbers;  // Python ints that are sizes and bounds
  std::vector<int32_t> early;          // quick nodes that need no kernel's result: called before
  std::vector<int32_t> late;           // views, tuples ... that are needed behind the segment: called after the kernels, before the writes
  std::vector<int32_t> kept;           // maps and reductions that are needed as objects
  std::vector<int> written;            // leaves that are written
  std::vector<std::pair<int, int>> apart;  // leaves that must not overlap in memory
  std::vector<Meaning> meanings;       // of begin .. end - 1
};

// Sizes and strides of one leaf, for which a variant is made. Behind those of the leaves stands one whose sizes are the numbers.
struct LeafShape {
  const int64_t* sizes;
  const int64_t* strides;
  bool alone = true;  // no other leaf stands in the same memory; known of those that are written
};

// None if the segment isn't one that kernels can do for these shapes; `obstacle`: the node without which it may be one, or -1.
std::optional<Variant> lower(const graph::Graph& graph, const Meanings& meanings, const Segment& segment,
                             const std::vector<LeafShape>& shapes, int32_t& obstacle);
// Computes all symbols; false if an index is out of range.
bool evaluate(const std::vector<Symbol>& symbols, const LeafShape* shapes, int64_t* values);
// Whether all that `falling`, `copied`, `reshaped` and `summed` ask for holds.
bool has_order_of(const Variant& variant, const LeafShape* shapes, const int64_t* symbols);
// Whether strides are those of an array without gaps, in C or Fortran order; unit: the stride of neighbours.
bool is_dense(const int64_t* strides, const int64_t* sizes, int rank, int64_t unit, bool fortran);
std::string print(const Variant& variant);

}  // namespace evalframe::native
