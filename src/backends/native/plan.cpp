// Cuts a graph into steps, and finds what of each segment is needed behind it.
#include "backends/native/plan.h"

#include <algorithm>
#include <limits>

#include "graph/places.h"

namespace evalframe::native {
namespace {

// Longer segments make kernels that take long to compile and gain nothing more.
constexpr int32_t kMaxSegment = 400;
// Beyond this the exit before every node isn't asked for, only those where steps meet; in-place operations are then calls.
constexpr int32_t kMaxNodesForAllExits = 2000;

// Operations on single numbers for which a kernel is worth its start.
constexpr int kMinNumbers = 16;

bool computes(Sense sense) {
  return sense == Sense::kMap || sense == Sense::kWhere || sense == Sense::kClip || sense == Sense::kCast || sense == Sense::kFill ||
         sense == Sense::kReduce || sense == Sense::kRolled || sense == Sense::kDifference || sense == Sense::kMaskedStore || sense == Sense::kKept;
}

// What NumPy does as fast.
bool is_copy(const Meaning& meaning) {
  return meaning.sense == Sense::kFill || meaning.sense == Sense::kRolled || (meaning.sense == Sense::kCast && meaning.loop == meaning.result);
}

// Writes into an array that was there before: a store, an operator in place, a ufunc with `out`.
bool writes(const Meaning& meaning) { return static_cast<bool>(meaning.target); }

// Makes a container or reads a fact: it can be left out if nothing needs it.
bool only_makes(const Node& node) {
  return node.form == Form::kTuple || node.form == Form::kList || node.form == Form::kSlice || node.form == Form::kGetAttr;
}

// The Python ints that a view's or store's place or shape depends on.
std::vector<Operand> numbers_of(const Meaning& meaning) {
  std::vector<Operand> numbers;
  for (const Extent& extent : meaning.shape) {
    if (extent.kind == Extent::Kind::kSize && extent.at) numbers.push_back(extent.at);
  }
  for (const IndexItem& item : meaning.items) {
    if (item.start_at) numbers.push_back(item.start_at);
    if (item.stop_at) numbers.push_back(item.stop_at);
  }
  return numbers;
}

// The arrays whose shapes a view takes over.
std::vector<Operand> shapes_of(const Meaning& meaning) {
  std::vector<Operand> arrays;
  for (const Extent& extent : meaning.shape) {
    if (extent.kind == Extent::Kind::kShapeOf) arrays.push_back(extent.at);
  }
  return arrays;
}

class Planner {
 public:
  Planner(const Graph& graph, const Meanings& meanings, const backends::ExitAt& exit_at, const std::set<int32_t>& as_calls)
      : graph_(graph), meanings_(meanings), exit_at_(exit_at), size_(static_cast<int32_t>(graph.nodes.size())) {
    for (int32_t node = 0; node < size_; node++) meaning_.push_back(as_calls.contains(node) ? Meaning{} : meanings.of(node));
    for (int32_t node = 0; node < size_; node++) {
      if (stores_itself(node)) meaning_[node] = {.sense = Sense::kQuick};
    }
    for (int32_t node = 0; node < size_; node++) {
      const Meaning& meaning = meaning_[node];
      const Operand from = meaning.sense == Sense::kView ? meaning.args[0] : computes(meaning.sense) ? meaning.target : Operand{};
      root_.push_back(from ? root(from) : Operand::node(node));
    }
    all_exits_ = size_ <= kMaxNodesForAllExits;
    last_use_.assign(size_, -1);
    last_node_use_.assign(size_, -1);
    for (int32_t node = 0; node < size_; node++) {
      // What is only looked at, to see that it is what was recorded, is used by nobody.
      const bool is_used = graph_.nodes[node].form != Form::kCheckMeta;
      for (const Operand operand : operands_of(node)) use(operand, node, is_used);
    }
    for (int32_t node = all_exits_ ? 0 : size_; node <= size_; node++) {
      for (const Operand operand : exit_at(node).values) use(operand, node, false);
    }
    leave_fillings();
    leave_parts();
    leave_kept();
    as_recorded_ = meaning_;
  }

  std::vector<Step> run() {
    stage_.assign(size_, Stage::kDone);
    for (int32_t node = 0; node < size_; node++) place(node);
    close(size_);
    release();
    return std::move(steps_);
  }

 private:
  // A write that comes at the end of the open segment.
  struct Write {
    int32_t node;
    Operand root;
    Operand whole;  // the array of which every element is written: the node's value; none for a part
  };

  // How a node of the open segment is made.
  enum class Stage : uint8_t { kDone, kEarly, kKernel, kLate };

  std::vector<Operand> operands_of(int32_t node) const {
    const Operand* first = graph_.operands_of(graph_.nodes[node]);
    return {first, first + graph_.nodes[node].count};
  }

  // `a[k] += b` ends by storing a view into its own place: NumPy, too, copies nothing then.
  bool stores_itself(int32_t node) const {
    const Sense sense = meaning_[node].sense;
    if (graph_.nodes[node].form != Form::kSetItem || (sense != Sense::kStore && sense != Sense::kQuick)) return false;
    return meanings_.meta(operands_of(node)[2]).kind == Kind::kArray && graph::stores_itself(graph_, graph_.nodes[node]);
  }

  // An array of one value is made beforehand where it is written later or stays: NumPy's may not even take memory.
  void leave_fillings() {
    const auto leave = [&](Operand array) {
      if (array.space != Operand::Space::kNode || meaning_[array.index].sense != Sense::kFill) return;
      meaning_[array.index] = {};
      meaning_[array.index].sense = Sense::kQuick;
    };
    for (int32_t node = 0; node < size_; node++) {
      if (writes(meaning_[node])) leave(root(meaning_[node].target));
      if (last_use_[node] == size_) leave(root(Operand::node(node)));
    }
  }

  // z.real is a view of z: it is computed only where all that sees it are kernels, in front of anything that could change z.
  void leave_parts() {
    for (int32_t node = 0; node < size_; node++) {
      if (graph_.nodes[node].form == Form::kGetAttr && meaning_[node].sense == Sense::kMap && !is_read_by_maps(node)) meaning_[node] = {};
    }
  }

  bool is_read_by_maps(int32_t part) const {
    const int32_t last = last_node_use_[part];
    if (last_use_[part] > last) return false;
    for (int32_t node = part + 1; node <= last; node++) {
      const Meaning& meaning = meaning_[node];
      const std::vector<Operand> operands = operands_of(node);
      const bool is_map = meaning.sense == Sense::kMap || meaning.sense == Sense::kWhere || meaning.sense == Sense::kClip;
      if (std::find(operands.begin(), operands.end(), Operand::node(part)) != operands.end() && (!is_map || writes(meaning))) return false;
      if (!is_map && meaning.sense != Sense::kView && meaning.sense != Sense::kReduce) return false;
      if (writes(meaning) && root(meaning.target) == root(meaning_[part].args[0])) return false;
    }
    return true;
  }

  // What a mask keeps is made, and stored, by calls, unless nothing but maps and stores by the same mask see it, and what is computed of it.
  void leave_kept() {
    std::set<int32_t> stores;
    for (int32_t node = 0; node < size_; node++) {
      if (meaning_[node].sense == Sense::kKept && !is_stored_as_kept(node, stores)) meaning_[node] = {};
    }
    for (int32_t node = 0; node < size_; node++) {
      const bool is_of_array = meaning_[node].sense == Sense::kMaskedStore && meanings_.meta(meaning_[node].args[1]).kind == Kind::kArray;
      if (is_of_array && !stores.contains(node)) meaning_[node] = {};
    }
  }

  // Adds the stores.
  bool is_stored_as_kept(int32_t kept, std::set<int32_t>& stores) const {
    std::set<int32_t> of_it{kept}, stored;
    const auto is_of_it = [&](Operand operand) { return operand.space == Operand::Space::kNode && of_it.contains(operand.index); };
    for (int32_t node = kept + 1; node < size_; node++) {
      const std::vector<Operand> operands = operands_of(node);
      const Meaning& meaning = meaning_[node];
      if (graph_.nodes[node].form == Form::kCheckMeta || std::none_of(operands.begin(), operands.end(), is_of_it)) continue;
      if (meaning.sense == Sense::kMaskedStore) {
        if (!is_of_it(meaning.args[1]) || !graph::are_same(graph_, meaning.args[0], meaning_[kept].args[1])) return false;
        stored.insert(node);
        continue;
      }
      if (meaning.sense != Sense::kMap || meaning.masked || (meaning.target && last_use_[meaning.target.index] > node)) return false;
      of_it.insert(node);
    }
    const auto is_left = [&](int32_t node) { return last_use_[node] == size_; };
    if (stored.empty() || std::any_of(of_it.begin(), of_it.end(), is_left)) return false;
    stores.merge(stored);
    return true;
  }

  void use(Operand operand, int32_t at, bool by_node) {
    if (operand.space != Operand::Space::kNode) return;
    last_use_[operand.index] = std::max(last_use_[operand.index], at);
    if (by_node) last_node_use_[operand.index] = std::max(last_node_use_[operand.index], at);
  }

  bool in_segment(Operand operand) const { return operand.space == Operand::Space::kNode && operand.index >= begin_; }
  bool staged(Operand operand, Stage stage) const { return in_segment(operand) && stage_[operand.index] == stage; }

  // Where not all exits are known: what was made before `node` and is alive there may be needed by any exit of the segment that
  // begins there. It can't be made again, as what it was made of may have been written by then.
  void hold(int32_t node) {
    if (all_exits_) return;
    for (const Operand operand : exit_at_(node).values) use(operand, std::min(node + kMaxSegment, size_), false);
  }

  void place(int32_t node) {
    if (node - begin_ >= kMaxSegment) close(node);
    const Meaning& meaning = meaning_[node];
    if (computes(meaning.sense) || meaning.sense == Sense::kView || meaning.sense == Sense::kStore) return place_kernel(node);
    if (meaning.sense == Sense::kCall) return place_call(node);
    bool waits = false;
    for (const Operand operand : operands_of(node)) waits |= staged(operand, Stage::kKernel) || staged(operand, Stage::kLate);
    stage_[node] = waits ? Stage::kLate : Stage::kEarly;
  }

  void place_kernel(int32_t node) {
    Meaning& meaning = meaning_[node];
    if (writes(meaning) && is_private(node, meaning)) {
      meaning.target = {};
      meaning.in_place = true;
    }
    if (writes(meaning) && !all_exits_) return place_call(node);
    bool late = staged(meaning.target, Stage::kLate);
    for (int i = 0; i < meaning.count; i++) late |= staged(meaning.args[i], Stage::kLate);
    for (const Operand operand : numbers_of(meaning)) late |= staged(operand, Stage::kLate);
    for (const Operand operand : shapes_of(meaning)) late |= staged(operand, Stage::kLate);
    if (late && !all_exits_) return place_call(node);
    const bool early = writes(meaning) && staged(root(meaning.target), Stage::kKernel) && !is_map(owner(meaning.target));
    if (late || early) {
      close(node);
    } else if (const Write* const write = unreadable(node)) {
      return begin_again(best_end(write->node + 1, node), node);
    }
    for (int i = 0; i < meaning.count; i++) meaning.args[i] = meaning.sense == Sense::kView ? written(meaning.args[i]) : current(meaning.args[i]);
    if (writes(meaning)) {
      meaning.target = written(meaning.target);
      writes_.push_back({node, root(meaning.target), computes(meaning.sense) ? meaning.target : Operand{}});
    }
    stage_[node] = Stage::kKernel;
  }

  // Where the elements of an array stand, as far as the graph shows.
  Operand root(Operand operand) const { return operand.space == Operand::Space::kNode ? root_[operand.index] : operand; }

  // The node of this segment's kernels, or else the array that enters it, whose memory an operand is.
  Operand owner(Operand operand) const {
    while (staged(operand, Stage::kKernel)) {
      const Meaning& meaning = meaning_[operand.index];
      if (!writes(meaning) && meaning.sense != Sense::kView) break;
      operand = writes(meaning) ? meaning.target : meaning.args[0];
    }
    return operand;
  }

  // Whether kernels make the array of the operand, all its elements alike.
  bool is_map(Operand operand) const {
    if (!staged(operand, Stage::kKernel) || graph_.nodes[operand.index].meta.kind != Kind::kArray) return false;
    const Sense sense = meaning_[operand.index].sense;
    return computes(sense) && sense != Sense::kReduce && sense != Sense::kRolled && sense != Sense::kKept;
  }

  const Write* last_write(Operand operand) const {
    const Operand of = root(operand);
    const auto found = std::find_if(writes_.rbegin(), writes_.rend(), [&](const Write& write) { return write.root == of; });
    return found == writes_.rend() ? nullptr : &*found;
  }

  // The node whose value an array has now, where this segment's last write was of just this array; else the operand.
  Operand current(Operand operand) const {
    const Write* const write = last_write(operand);
    if (!write || !write->whole) return operand;
    return operand == write->whole || operand == Operand::node(write->node) ? Operand::node(write->node) : operand;
  }

  // The array that a writing node of this segment has written, which is its value; else the operand.
  Operand written(Operand operand) const {
    for (const Write& write : writes_) {
      if (write.whole && operand == Operand::node(write.node)) return write.whole;
    }
    return operand;
  }

  // What is about to write what the node reads: a segment's writes come at its end. None: it can be read.
  const Write* unreadable(int32_t node) const {
    const Meaning& meaning = meaning_[node];
    if (meaning.sense == Sense::kView && !meaning.may_copy && graph_.nodes[node].meta.kind == Kind::kArray) return nullptr;
    for (int i = 0; i < meaning.count; i++) {
      const Write* const write = last_write(meaning.args[i]);
      if (write && (meaning.sense == Sense::kView || current(meaning.args[i]) != Operand::node(write->node))) return write;
    }
    return nullptr;
  }

  // Where the open segment ends best, from `first` to the node: where least of what it makes is needed behind it.
  int32_t best_end(int32_t first, int32_t node) const {
    int32_t best = node;
    double least = std::numeric_limits<double>::infinity();
    for (int32_t end = node; end >= first; end--) {
      double needed = 0;
      for (int32_t made = begin_; made < end; made++) {
        if (stage_[made] != Stage::kKernel || last_use_[made] < end || meaning_[made].sense == Sense::kStore) continue;
        needed += computes(meaning_[made].sense) && !writes(meaning_[made]) ? std::max(graph_.elements_of(graph_.nodes[made].meta), 1.0) : 1;
      }
      if (needed < least) least = needed, best = end;
    }
    return best;
  }

  // Ends the open segment there, and places what was in it from there on, and the node, in another one.
  void begin_again(int32_t end, int32_t node) {
    for (int32_t again = end; again <= node; again++) meaning_[again] = as_recorded_[again], stage_[again] = Stage::kDone;
    close(end);
    for (int32_t again = end; again <= node; again++) place(again);
  }

  void place_call(int32_t node) {
    close(node);
    Step step;
    step.segment.begin = node;
    step.segment.end = node + 1;
    steps_.push_back(std::move(step));
    begin_ = node + 1;
    hold(begin_);
  }

  // Whether the target is an array made in this segment that nothing but the in-place operation `node` will see again, so
  // that writing into it can't be told from making a new one.
  bool is_private(int32_t node, const Meaning& meaning) const {
    const Operand target = meaning.target;
    if (meaning.sense != Sense::kMap || target != meaning.args[0]) return false;
    if (!all_exits_ || !staged(target, Stage::kKernel)) return false;
    if (!computes(meaning_[target.index].sense) || writes(meaning_[target.index])) return false;
    if (graph_.nodes[target.index].meta.kind != Kind::kArray || last_use_[target.index] > node) return false;
    for (int32_t user = target.index + 1; user < node; user++) {
      for (const Operand operand : operands_of(user)) {
        if (operand == target && (!computes(meaning_[user].sense) || writes(meaning_[user]))) return false;
      }
    }
    return true;
  }

  void close(int32_t end) {
    hold(end);
    if (end > begin_) pays(end) ? add_segment(end) : add_calls(end);
    begin_ = end;
    writes_.clear();
  }

  // What NumPy does in one pass over its arrays takes it less time than a kernel takes to begin, as do a few operations on single numbers.
  bool pays(int32_t end) const {
    int computing = 0, writing = 0, stores = 0, numbers = 0;
    for (int32_t node = begin_; node < end; node++) {
      if (stage_[node] != Stage::kKernel) continue;
      const Sense sense = meaning_[node].sense;
      computing += computes(sense) && !is_copy(meaning_[node]);
      writing += writes(meaning_[node]);
      stores += sense == Sense::kStore && stores_computed(node);
      numbers += computes(sense) && sense != Sense::kReduce && sense != Sense::kMaskedStore && graph_.nodes[node].meta.kind != Kind::kArray;
    }
    if (numbers == computing) return computing > kMinNumbers;
    return writing ? computing + stores > 1 : computing > 0;
  }

  // Whether a store is of what this segment makes for it, which is a pass of its own for NumPy.
  bool stores_computed(int32_t node) const {
    const Operand value = meaning_[node].args[0];
    return is_map(value) && !writes(meaning_[value.index]) && !is_copy(meaning_[value.index]);
  }

  void add_calls(int32_t end) {
    for (int32_t node = begin_; node < end; node++) {
      Step step;
      step.segment.begin = node;
      step.segment.end = node + 1;
      steps_.push_back(std::move(step));
    }
  }

  void add_segment(int32_t end) {
    Step step;
    step.is_segment = true;
    Segment& segment = step.segment;
    segment.begin = begin_;
    segment.end = end;
    segment.meanings.assign(meaning_.begin() + begin_, meaning_.begin() + end);
    const std::vector<bool> needed = find_needed(end);
    for (int32_t node = begin_; node < end; node++) {
      if (stage_[node] == Stage::kKernel) add_leaves(segment, meaning_[node]);
      if (!needed[node - begin_]) continue;
      if (stage_[node] == Stage::kEarly) segment.early.push_back(node);
      if (stage_[node] == Stage::kLate || meaning_[node].sense == Sense::kView) segment.late.push_back(node);
      if (computes(meaning_[node].sense)) (writes(meaning_[node]) ? segment.late : segment.kept).push_back(node);
    }
    add_apart(segment);
    steps_.push_back(std::move(step));
  }

  // Which nodes of the segment must be there as objects.
  std::vector<bool> find_needed(int32_t end) const {
    std::vector<bool> needed(end - begin_);
    for (int32_t node = end - 1; node >= begin_; node--) {
      const bool kernel = stage_[node] == Stage::kKernel;
      const bool store = meaning_[node].sense == Sense::kStore;
      const bool dead = computes(meaning_[node].sense) && !writes(meaning_[node]) && last_node_use_[node] < 0;  // it may still warn
      const bool effect = !kernel && !can_skip(node);                                // a check, or arithmetic that may raise
      if ((last_use_[node] >= end && !store) || effect || dead) needed[node - begin_] = true;
      if (kernel) mark_numbers(meaning_[node], needed);
      if (!needed[node - begin_]) continue;
      if (writes(meaning_[node]) && in_segment(meaning_[node].target)) needed[meaning_[node].target.index - begin_] = true;
      if (computes(meaning_[node].sense)) continue;
      for (const Operand operand : operands_of(node)) {
        if (in_segment(operand)) needed[operand.index - begin_] = true;
      }
    }
    return needed;
  }

  bool can_skip(int32_t node) const {
    // What kernels make is of the recorded kind, dtype and rank.
    if (graph_.nodes[node].form == Form::kCheckMeta) return staged(operands_of(node)[0], Stage::kKernel);
    return only_makes(graph_.nodes[node]) || stores_itself(node);
  }

  void mark_numbers(const Meaning& meaning, std::vector<bool>& needed) const {
    for (int i = 0; i < meaning.count; i++) {
      if (staged(meaning.args[i], Stage::kEarly)) needed[meaning.args[i].index - begin_] = true;
    }
    for (const Operand operand : numbers_of(meaning)) {
      if (staged(operand, Stage::kEarly)) needed[operand.index - begin_] = true;
    }
  }

  bool is_leaf(Operand operand) const {
    const bool made_here = in_segment(operand) && stage_[operand.index] == Stage::kKernel;
    return operand && !made_here && meanings_.meta(operand).kind == Kind::kArray;
  }

  void add_leaves(Segment& segment, const Meaning& meaning) const {
    std::vector<Operand> arrays = shapes_of(meaning);
    arrays.insert(arrays.end(), meaning.args, meaning.args + meaning.count);
    arrays.push_back(meaning.target);
    for (const Operand operand : arrays) {
      if (is_leaf(operand) && leaf_index(segment, operand) < 0) segment.leaves.push_back(operand);
    }
    for (const Operand operand : numbers_of(meaning)) {
      std::vector<Operand>& known = segment.numbers;
      if (std::find(known.begin(), known.end(), operand) == known.end()) known.push_back(operand);
    }
  }

  static int leaf_index(const Segment& segment, Operand operand) {
    const auto found = std::find(segment.leaves.begin(), segment.leaves.end(), operand);
    return found == segment.leaves.end() ? -1 : static_cast<int>(found - segment.leaves.begin());
  }

  // The leaf that an operand is, is written into or is seen in; -1 for what the segment computes.
  int leaf_of(const Segment& segment, Operand operand) const { return leaf_index(segment, owner(operand)); }

  // What is read in another array than the graph says was written before must not be the same memory after all.
  void add_apart(Segment& segment) const {
    for (int32_t node = segment.begin; node < segment.end; node++) {
      if (stage_[node] != Stage::kKernel || !writes(meaning_[node])) continue;
      const int target = leaf_of(segment, meaning_[node].target);
      if (target < 0) continue;
      if (std::find(segment.written.begin(), segment.written.end(), target) == segment.written.end()) segment.written.push_back(target);
      const bool reads_others = meaning_[node].sense == Sense::kStore || meaning_[node].sense == Sense::kMaskedStore;
      for (int32_t reader = reads_others ? node : node + 1; reader < segment.end; reader++) {
        if (stage_[reader] != Stage::kKernel) continue;
        for (int i = 0; i < meaning_[reader].count; i++) {
          const int read = leaf_of(segment, meaning_[reader].args[i]);
          const std::pair<int, int> pair{target, read};
          if (read < 0 || read == target) continue;
          if (std::find(segment.apart.begin(), segment.apart.end(), pair) == segment.apart.end()) segment.apart.push_back(pair);
        }
      }
    }
  }

  void release() {
    size_t at = 0;
    std::vector<std::vector<int32_t>> ending(size_ + 1);
    for (int32_t node = 0; node < size_; node++) ending[std::max(last_use_[node], node)].push_back(node);
    for (int32_t node = 0; node < size_; node++) {
      while (at < steps_.size() && steps_[at].segment.end <= node) at++;
      if (at == steps_.size()) return;
      for (const int32_t dead : ending[node]) steps_[at].released.push_back(dead);
    }
  }

  const Graph& graph_;
  const Meanings& meanings_;
  const backends::ExitAt& exit_at_;
  const int32_t size_;
  std::vector<Meaning> meaning_, as_recorded_;
  std::vector<Operand> root_;           // of each node's value, where it is an array
  std::vector<Write> writes_;           // of the open segment
  std::vector<int32_t> last_use_;       // by a node or, at the same number, by the exit before it
  std::vector<int32_t> last_node_use_;
  bool all_exits_ = true;
  std::vector<Stage> stage_;
  int32_t begin_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> make_plan(const Graph& graph, const Meanings& meanings, const backends::ExitAt& exit_at,
                            const std::set<int32_t>& as_calls) {
  return Planner(graph, meanings, exit_at, as_calls).run();
}

}  // namespace evalframe::native
