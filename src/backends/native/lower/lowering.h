// The state of one lowering: what is known of each value of a segment, and the kernels that are being built.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "backends/native/lower/lower.h"

namespace evalframe::native::lowering {

inline constexpr size_t kMaxOperations = 256;
inline constexpr size_t kMaxPorts = 24;
// A number is computed again by each kernel that uses it, before its loop, rather than by a kernel of its own, up to this length.
inline constexpr int kMaxRepeated = 32;

// Thrown inside lower() only: these shapes or this combination stay with NumPy; for a layout, the node does.
struct Unsupported {
  int32_t node = -1;
};

// What is known of an operand inside the segment.
struct Value {
  DType dtype = DType::kNone;
  std::vector<int> dims;
  int kernel = -1;  // that computes it, or -1
  int index = -1;   // its value in the kernel's body
  bool reduced = false;
  Box box;          // where it stands, if box.storage >= 0
  bool fixed = false;  // a view that may not be written
  Box source;       // a copy that is written later: where what it copies stands
  Box place;        // a view of such a copy: where it is written; it is read where the source stands
  int kept_by = -1;  // of all elements, those that a mask keeps: the node that takes these; elsewhere it is ones, or what comes of them
  int layout = -1;  // of the array that it is for the program; -1: C order, or less than two dimensions
};

// What it takes to compute one number of a kernel over a single point again.
struct Single {
  int ready = 0;       // the first kernel that can come behind what it reads
  int operations = 0;
};

// A write into an array.
struct Stored {
  int32_t node;
  Value value;
  Value target;
  bool direct = false;  // by the kernel that computes the value, else at the segment's end
};

// A kernel that is being built.
struct Building {
  std::vector<int> space;
  bool copies = false;      // only copies what enters the segment, or a number, for others to write into: comes before all others
  std::map<std::pair<int, int>, int> casts;     // (value, dtype) -> value
  std::map<std::pair<int, int>, int> repeated;  // (kernel, its value) -> value
  std::vector<Single> singles;                  // beside the operations, where the space is a single point
  std::vector<Value> inputs;
  bool flat = true;         // every operand is a contiguous storage of the whole space, or a scalar
  bool keep_flat = false;   // and must stay so
  bool alone = false;       // takes in nothing more
  bool rolled = false;      // some input is, which kernels that reduce can't have
};

// What a kernel writes.
struct Written {
  int kernel;
  int value;
  int storage;
  ReduceOp reduce;
  Box box;  // over the kernel's space
};

// Its functions stand in the files that are named above them.
class Lowering {
 public:
  Lowering(const Graph& graph, const Meanings& meanings, const Segment& segment, const std::vector<LeafShape>& shapes)
      : graph_(graph), meanings_(meanings), segment_(segment), shapes_(shapes) {}

  Variant run();

 private:
  // lower.cpp
  void lower_all();
  void lower_node(int32_t node);
  void keep(int32_t node);

  // lower_values.cpp
  int symbol(const Symbol& wanted);
  int constant(int64_t value);
  int number(Operand operand);
  int find(int s) const;
  int unite(int a, int b);
  std::vector<int> unite(const std::vector<int>& a, const std::vector<int>& b);
  std::vector<int> canonical(std::vector<int> dims) const;
  void add_leaf(int leaf);
  int layout_of(const Box& box);
  int layout_of(const std::vector<Value>& operands, const std::vector<int>& space);
  int layout_of_copy(const Value& operand, bool c_order);
  int layout_of_reduced(const Value& operand, const std::vector<int>& dims, uint32_t axes);
  void note_order(const Box& box);
  static void add_once(std::vector<Box>& boxes, const Box& box);
  bool is_plain() const;
  int add_storage(Storage storage);
  bool are_same(Operand a, Operand b) const;
  Value scalar(ScalarSource source);
  bool inside(Operand operand) const;
  Value& value_at(int32_t node);
  Value value_of(Operand operand, DType loop);
  Value element_of(Operand operand, DType loop);
  static Value as_read(Value value);
  void remember(Operand operand, const Value& value);
  Value in_memory(Operand operand, Value value);
  int product(const std::vector<int>& sizes);
  std::vector<int> shape_for(const Value& base, const std::vector<Extent>& extents);

  // lower_kernels.cpp
  static int input_number(size_t i);
  std::vector<int> broadcast(const std::vector<Value>& operands);
  int broadcast_dimension(const std::vector<Value>& operands, size_t from_end);
  Box spread(const Value& value, const std::vector<int>& space) const;
  bool whole(const Value& value, const std::vector<int>& space) const;
  bool is_flat(const Value& value, const std::vector<int>& space) const;
  bool is_dense(const std::vector<int64_t>& strides, const Box& box) const;
  bool contiguous(int leaf) const;
  int earliest(const Value& value, const std::vector<int>& space) const;
  int storage_ready(int storage) const;
  int choose_copy_kernel(const std::vector<int>& space);
  int add_kernel(const std::vector<int>& space, bool copies);
  int choose_kernel(const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat);
  bool fits(int k, const std::vector<Value>& operands, const std::vector<int>& space, uint32_t reduced, bool want_flat) const;
  int use(int k, Value& value, DType dtype);
  bool is_repeatable(const Value& value) const;
  Single single(int k, int number) const;
  int repeat(int k, int from, int number);
  int input(int k, Value& value);
  static bool same_box(const Box& a, const Box& b);
  int operation(int k, KernelOp op);
  void note_single(int k, const KernelOp& op);
  void store(Value& value);
  static Box whole_box(size_t rank);

  // lower_maps.cpp
  void lower_map(int32_t node, const Meaning& meaning);
  static int inputs_of(const Meaning& meaning);
  void harmless_elsewhere(int k, const Meaning& meaning, std::vector<int>& numbers);
  void lower_fill(int32_t node, const Meaning& meaning);
  void lower_difference(int32_t node, const Meaning& meaning);
  int body(int k, const Meaning& meaning, const std::vector<int>& numbers);
  int clip(int k, const Meaning& meaning, const std::vector<int>& numbers, const std::vector<Value>& operands);

  // rolls.cpp
  void lower_rolled(int32_t node, const Meaning& meaning);

  // lower_reductions.cpp
  static bool order_shows(ReduceOp reduce, DType dtype);
  void lower_reduce(int32_t node, const Meaning& meaning);
  Value squared_differences(int32_t node, const Value& operand, const Value& mean, const Meaning& meaning, int& count);
  Value apply(ScalarOp op, DType dtype, std::vector<Value> operands);
  Value reduce(int32_t node, Value& operand, const Meaning& meaning, bool keepdims, int& count);
  int kernel_for_sum(int32_t node, Value& operand, const std::vector<int>& space, const Meaning& meaning);
  int kernel_in_memory_order(int32_t node, Value& operand, const std::vector<int>& space, uint32_t axes);
  Value divide_by_count(Value sum, int count);

  // lower_views.cpp
  void lower_view(int32_t node, const Meaning& meaning);
  Value view_of(const Value& base, const Meaning& meaning);
  void turn(const Value& base, const std::vector<int>& order, Value& view);
  std::vector<int> axes_of_several(const Value& base);
  void stretch(const Value& base, const std::vector<int>& shape, Value& view);
  Value flattened(int32_t node, const Meaning& meaning, Value value);
  Value reshaped(int32_t node, const Value& base, const std::vector<int>& shape, const Meaning& meaning);
  Box regrouped_buffer(const Box& from, const std::vector<int>& shape);
  Value made_anew(Value& value);
  Value in_c_order(Value value, Operand operand);
  bool regrouped(const Box& from, const std::vector<int>& shape, Box& to);
  void index(const Value& base, const std::vector<IndexItem>& items, Value& view);
  void slice(const Value& base, size_t dimension, const IndexItem& item, Value& view);
  void add_offset(Value& view, const Value& base, size_t dimension, int start);

  // lower_writes.cpp
  Value target_of(Operand operand, DType dtype);
  bool is_written_copy(int32_t node, const Meaning& meaning, const Value& from) const;
  bool is_written(int32_t node) const;
  Operand owner(Operand operand) const;
  void add_store(int32_t node, const Value& value, const Value& target);
  bool is_used(const Value& value) const;
  void lower_store(int32_t node, const Meaning& meaning);
  void lower_masked_store(int32_t node, const Meaning& meaning);
  void lower_kept(int32_t node, const Meaning& meaning);
  int kept_or_one(int k, int32_t kept_by, int number, DType dtype);
  Value copied(Value value, DType dtype, Operand operand);
  void write_directly(Stored& stored);
  bool can_write_directly(const Stored& stored) const;
  bool is_read_by_calls(const Stored& stored) const;
  size_t outputs_of(int k) const;
  bool is_read_later(const Stored& stored) const;
  int source_of(const Value& value) const;
  bool comes_before(int k, int other) const;
  bool is_fresh(int leaf) const;
  void keep_old(int k, const Value& target);
  static DType bits_of(DType dtype);
  void find_hole(int k);
  bool is_read(int storage) const;
  std::vector<Range> written_part(int storage) const;
  void commit(const Stored& store);
  bool may_lag(const Stored& stored) const;

  // lower_finish.cpp
  void finish(int k);
  static std::vector<int> copied_inputs(const Kernel& kernel);
  void add_outputs(int k);
  void number_values(const Building& building, KernelPlan& plan);
  static int arity(ScalarOp op);
  void collapse(const Building& building, KernelPlan& plan);
  std::vector<int> order_kernels();

  static constexpr int kNoValue = INT32_MIN;
  const Graph& graph_;
  const Meanings& meanings_;
  const Segment& segment_;
  const std::vector<LeafShape>& shapes_;
  Variant variant_;
  std::vector<int> same_;           // union-find over symbols
  std::vector<int64_t> examples_;   // values of the symbols for these shapes
  std::vector<Value> leaves_;
  std::vector<int> scalar_storages_;
  std::vector<Value> values_;       // of the segment's nodes
  std::vector<Building> building_;  // beside variant_.kernels
  std::map<int, int> writer_;       // storage -> kernel
  std::map<std::pair<int, int>, int> stored_;
  std::vector<Written> outputs_;
  std::vector<Stored> stores_;
  std::set<int> late_;              // storages that are written at the end
  std::vector<Value> overwritten_;  // what would have been stored where another value was stored later
};

}  // namespace evalframe::native::lowering
