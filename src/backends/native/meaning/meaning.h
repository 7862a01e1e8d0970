// What a recorded node means for arrays: an element-wise map, a reduction, a view, or a call that is made as it is.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/native/code/kernel.h"
#include "graph/graph.h"

namespace evalframe::native {

using graph::Form, graph::Graph, graph::Kind, graph::Meta, graph::Node, graph::Operand;

enum class Sense : uint8_t {
  kMap,     // args -> scalar op, element by element with broadcasting
  kWhere,   // args[0] ? args[1] : args[2]
  kClip,    // minimum(maximum(args[0], args[1]), args[2]); an absent bound has no space
  kCast,    // args[0] as dtype, a new array; a copy, if it has that dtype
  kFill,    // a new array of `shape` that is args[0] everywhere
  kReduce,  // args[0] reduced over `axes`
  kRolled,  // args[0] with what is in each axis moved round, by as many as the int `items` says: a new array
  kDifference,  // each element of args[0] taken from the one behind it along `axes`, and so `number` times
  kView,    // args[0] seen otherwise, see Seen; where that can't be done without a copy, the copy
  kStore,   // args[0] is written into the part `items` of `target`
  kKept,    // the elements of args[0] where args[1] holds: all that comes of them is stored by the same mask
  kMaskedStore,  // args[1], a number or what was kept by the same mask, is written into `target`, which args[2] is, too, where args[0] holds
  kQuick,   // computes no arrays, has no effects and warns of nothing: tuples, slices, arithmetic of Python numbers, checks
  kCall,    // anything else: called as it is, in program order
};

// What becomes of a sum.
enum class Statistic : uint8_t { kPlain, kMean, kVariance, kDeviation };

// One item of a basic index.
struct IndexItem {
  enum class Kind : uint8_t { kInteger, kSlice, kNewAxis, kEllipsis } kind;
  static constexpr int64_t kAbsent = INT64_MIN;
  int64_t start = kAbsent, stop = kAbsent, step = 1;  // kInteger: start
  Operand start_at, stop_at;                          // Python ints of the graph that stand for start and stop
  Operand step_at;                                    // ... for the step: for loops alone
};

// How a view sees its array.
enum class Seen : uint8_t {
  kIndexed,    // the part `items`
  kTurned,     // axes in the order `order`
  kSqueezed,   // without the axes of one element
  kReshaped,   // the elements in C order, in `shape`
  kStretched,  // broadcast to `shape`, which can't be written
};

// One size of a shape, or several.
struct Extent {
  enum class Kind : uint8_t { kSize, kRest, kShapeOf } kind;
  int64_t size = 0;
  Operand at;  // kSize: a Python int of the graph that stands for `size`; kShapeOf: the array that has these sizes
};

// The view functions.
enum class View : uint8_t {
  kReshape, kRavel, kFlatten, kSqueeze, kExpandDims, kTranspose, kSwapAxes, kMoveAxis, kMatrixTranspose, kBroadcastTo
};

// The functions that make arrays of one value: what is everywhere, and whether it's given as an argument.
enum class Filling : uint8_t { kZero, kOne, kGiven, kZeroLike, kOneLike, kGivenLike };

struct Meaning {
  Sense sense = Sense::kCall;
  ScalarOp op = ScalarOp::add;
  Operand args[4];              // kFill: none for a number that stands in `number`
  int count = 0;
  int64_t number = 0;           // kFill, kDifference
  DType loop = DType::kNone;    // type in which the arguments enter
  DType result = DType::kNone;  // type of the result
  Operand target;               // the array that is written; a map's is also the node's value
  ReduceOp reduce = ReduceOp::kNone;
  Statistic statistic = Statistic::kPlain;
  int64_t ddof = 0;             // kVariance, kDeviation: taken from the count
  uint32_t axes = 0;            // kReduce; kDifference: one
  bool keepdims = false;
  bool c_order = false;         // kCast: the result is in C order, not in the order of args[0]
  bool masked = false;          // kMap: the last two of args say where it is done, and what stands elsewhere
  bool like = false;            // kFill: in the order of the array whose shape it has
  bool in_place = false;        // kMap: the value stands for args[0], which nothing sees any more: it has its shape and order
  Seen seen = Seen::kIndexed;   // kView; kMap, where `order` isn't empty: how args[0] is seen first
  bool may_copy = false;        // kView: where the layout asks for it
  bool ravelled = false;        // kReshaped: whatever isn't contiguous is copied
  bool flattened = false;       // kCast: the result has one dimension
  std::vector<IndexItem> items;
  std::vector<int> order;       // kTurned: for each axis the one of args[0]; -1: a new one. What isn't among them has one element
  std::vector<Extent> shape;    // kReshaped, kStretched
};

// An elementary function (vector_math.def) or another one whose last bits may not be NumPy's.
bool is_elementary(const Meaning& meaning);

// For whom: kernels of graphs are given Python's ints in indices, and no tuples or lists of numbers to store.
enum class Reader : uint8_t { kGraph, kLoop };

// Reads the nodes of one graph.
class Meanings {
 public:
  explicit Meanings(const Graph& graph, Reader reader = Reader::kGraph);
  Meaning of(int32_t node) const;
  // Meta of any operand, constants included.
  const Meta& meta(Operand operand) const;

 private:
  struct Arguments;
  Meaning call(const Node& node) const;
  Meaning ufunc_call(const Node& node, PyObject* ufunc, ScalarOp op) const;
  Meaning map(const Node& node, PyObject* ufunc, const Operand* operands, int count, Operand target,
              DType dtype = DType::kNone, PyObject* casting = nullptr) const;
  bool shorten_power(const Node& node, Meaning& meaning) const;
  bool read_dtype(Operand dtype, const Operand* operands, int count, DType& read) const;
  Meaning reduction(const Node& node, ReduceOp op, Statistic statistic) const;
  bool read_axes(Operand axis, int rank, uint32_t& axes) const;
  Meaning where(const Node& node) const;
  Meaning clip(const Node& node) const;
  Meaning copy(const Node& node) const;
  Meaning cast(const Node& node) const;
  Meaning round(const Node& node) const;
  Meaning outer(const Node& node) const;
  Meaning roll(const Node& node) const;
  Meaning difference(const Node& node) const;
  Meaning fill(const Node& node, Filling filling) const;
  Meaning view(const Node& node, View view) const;
  bool read_view(const Node& node, View view, Meaning& meaning) const;
  bool read_new_shape(Arguments& arguments, std::vector<Extent>& shape) const;
  bool read_new_order(Arguments& arguments, int rank, std::vector<int>& order) const;
  bool read_order(Operand axes, int rank, std::vector<int>& order) const;
  bool read_move(Operand from, Operand to, int rank, std::vector<int>& order) const;
  bool read_swap(Operand one, Operand other, int rank, std::vector<int>& order) const;
  bool read_insertion(Operand axis, int rank, std::vector<int>& order) const;
  bool read_removal(Operand axis, int rank, std::vector<int>& order) const;
  bool read_axis_list(Operand axes, int rank, std::vector<int>& list) const;
  bool read_shape(Operand shape, std::vector<Extent>& extents) const;
  bool read_extent(Operand size, std::vector<Extent>& extents) const;
  bool is_c_order(Operand order) const;
  Meaning subscript(const Node& node) const;
  Meaning store(const Node& node) const;
  bool is_masked(const Node& node) const;
  Meaning kept(const Node& node) const;
  Meaning masked_store(const Node& node) const;
  Meaning attribute(const Node& node) const;
  Meaning part_of_complex(const Node& node, ScalarOp op) const;
  bool quick(const Node& node) const;
  bool read_index(Operand key, std::vector<IndexItem>& items) const;
  bool read_item(Operand operand, std::vector<IndexItem>& items) const;
  bool read_bound(Operand operand, int64_t& bound, Operand& at) const;
  bool is_index(Operand operand) const;
  bool is_items(Operand operand) const;
  bool read_constant_item(PyObject* object, std::vector<IndexItem>& items) const;
  PyObject* constant(Operand operand) const;
  bool is_element(Operand operand) const;

  const Graph& graph_;
  Reader reader_;
  std::vector<Meta> constants_;
};

}  // namespace evalframe::native
