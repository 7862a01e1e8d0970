// Cuts a graph into steps, and finds what of each segment is needed behind it.
#include "backends/native/plan.h"

#include <algorithm>

namespace evalframe::native {

using graph::Form;
using graph::Graph;
using graph::Kind;
using graph::Node;
using graph::Operand;

namespace {

// Longer segments make kernels that take long to compile and gain nothing more.
constexpr int32_t kMaxSegment = 400;
// Beyond this the exit before every node isn't asked for; in-place operations are then calls.
constexpr int32_t kMaxNodesForAllExits = 2000;

bool computes(Sense sense) {
  return sense == Sense::kMap || sense == Sense::kWhere || sense == Sense::kClip || sense == Sense::kCast || sense == Sense::kReduce;
}

// Makes a container or reads a fact: it can be left out if nothing needs it.
bool only_makes(const Node& node) {
  return node.form == Form::kTuple || node.form == Form::kList || node.form == Form::kSlice || node.form == Form::kGetAttr;
}

class Planner {
 public:
  Planner(const Graph& graph, const Meanings& meanings, const backends::ExitAt& exit_at)
      : graph_(graph), meanings_(meanings), size_(static_cast<int32_t>(graph.nodes.size())) {
    for (int32_t node = 0; node < size_; node++) meaning_.push_back(meanings.of(node));
    all_exits_ = size_ <= kMaxNodesForAllExits;
    last_use_.assign(size_, -1);
    last_node_use_.assign(size_, -1);
    for (int32_t node = 0; node < size_; node++) {
      for (const Operand operand : operands_of(node)) use(operand, node, true);
    }
    for (int32_t node = 0; node <= size_; node++) {
      if (!all_exits_ && node < size_ && meaning_[node].sense != Sense::kCall && node % kMaxSegment) continue;
      for (const Operand operand : exit_at(node).values) use(operand, node, false);
    }
  }

  std::vector<Step> run() {
    stage_.assign(size_, Stage::kDone);
    for (int32_t node = 0; node < size_; node++) place(node);
    close(size_);
    release();
    return std::move(steps_);
  }

 private:
  // How a node of the open segment is made.
  enum class Stage : uint8_t { kDone, kEarly, kKernel, kLate };

  std::vector<Operand> operands_of(int32_t node) const {
    const Operand* first = graph_.operands_of(graph_.nodes[node]);
    return {first, first + graph_.nodes[node].count};
  }

  void use(Operand operand, int32_t at, bool by_node) {
    if (operand.space != Operand::Space::kNode) return;
    last_use_[operand.index] = std::max(last_use_[operand.index], at);
    if (by_node) last_node_use_[operand.index] = std::max(last_node_use_[operand.index], at);
  }

  bool in_segment(Operand operand) const { return operand.space == Operand::Space::kNode && operand.index >= begin_; }
  bool staged(Operand operand, Stage stage) const { return in_segment(operand) && stage_[operand.index] == stage; }

  void place(int32_t node) {
    // Cuts stand where the exits were asked for.
    if (node - begin_ >= kMaxSegment && (all_exits_ || node % kMaxSegment == 0)) close(node);
    const Meaning& meaning = meaning_[node];
    if (computes(meaning.sense) || meaning.sense == Sense::kView) return place_kernel(node, meaning);
    if (meaning.sense == Sense::kCall) return place_call(node);
    bool waits = false;
    for (const Operand operand : operands_of(node)) waits |= staged(operand, Stage::kKernel) || staged(operand, Stage::kLate);
    stage_[node] = waits ? Stage::kLate : Stage::kEarly;
  }

  void place_kernel(int32_t node, const Meaning& meaning) {
    if (meaning.in_place && !is_private(node, meaning.args[0])) return place_call(node);
    for (int i = 0; i < meaning.count; i++) {
      if (!staged(meaning.args[i], Stage::kLate)) continue;
      if (!all_exits_) return place_call(node);
      close(node);
      if (meaning.in_place) return place_call(node);
    }
    stage_[node] = Stage::kKernel;
  }

  void place_call(int32_t node) {
    close(node);
    Step step;
    step.segment.begin = node;
    step.segment.end = node + 1;
    steps_.push_back(std::move(step));
    begin_ = node + 1;
  }

  // Whether `target` is an array made in this segment that nothing but the in-place operation `node` will see again, so
  // that writing into it can't be told from making a new one.
  bool is_private(int32_t node, Operand target) const {
    if (!all_exits_ || !staged(target, Stage::kKernel) || !computes(meaning_[target.index].sense)) return false;
    if (graph_.nodes[target.index].meta.kind != Kind::kArray || last_use_[target.index] > node) return false;
    for (int32_t user = target.index + 1; user < node; user++) {
      for (const Operand operand : operands_of(user)) {
        if (operand == target && !computes(meaning_[user].sense)) return false;
      }
    }
    return true;
  }

  void close(int32_t end) {
    const bool kernels = std::any_of(stage_.begin() + begin_, stage_.begin() + end, [](Stage stage) { return stage == Stage::kKernel; });
    if (end > begin_) kernels ? add_segment(end) : add_calls(end);
    begin_ = end;
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
      if (computes(meaning_[node].sense)) segment.kept.push_back(node);
    }
    steps_.push_back(std::move(step));
  }

  // Which nodes of the segment must be there as objects.
  std::vector<bool> find_needed(int32_t end) const {
    std::vector<bool> needed(end - begin_);
    for (int32_t node = end - 1; node >= begin_; node--) {
      const bool kernel = stage_[node] == Stage::kKernel;
      const bool dead = computes(meaning_[node].sense) && last_node_use_[node] < 0;  // it may still warn
      const bool effect = !kernel && !can_skip(node);                                // a check, or arithmetic that may raise
      if (last_use_[node] >= end || effect || dead) needed[node - begin_] = true;
      if (kernel) mark_numbers(meaning_[node], needed);
      if (!needed[node - begin_] || computes(meaning_[node].sense)) continue;
      for (const Operand operand : operands_of(node)) {
        if (in_segment(operand)) needed[operand.index - begin_] = true;
      }
    }
    return needed;
  }

  bool can_skip(int32_t node) const {
    // What kernels make is of the recorded kind, dtype and rank.
    if (graph_.nodes[node].form == Form::kCheckMeta) return staged(operands_of(node)[0], Stage::kKernel);
    return only_makes(graph_.nodes[node]);
  }

  void mark_numbers(const Meaning& meaning, std::vector<bool>& needed) const {
    for (int i = 0; i < meaning.count; i++) {
      if (staged(meaning.args[i], Stage::kEarly)) needed[meaning.args[i].index - begin_] = true;
    }
  }

  void add_leaves(Segment& segment, const Meaning& meaning) const {
    for (int i = 0; i < meaning.count; i++) {
      const Operand operand = meaning.args[i];
      const bool made_here = in_segment(operand) && stage_[operand.index] == Stage::kKernel;
      if (made_here || meanings_.meta(operand).kind != Kind::kArray) continue;
      if (std::find(segment.leaves.begin(), segment.leaves.end(), operand) == segment.leaves.end()) segment.leaves.push_back(operand);
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
  const int32_t size_;
  std::vector<Meaning> meaning_;
  std::vector<int32_t> last_use_;       // by a node or, at the same number, by the exit before it
  std::vector<int32_t> last_node_use_;
  bool all_exits_ = true;
  std::vector<Stage> stage_;
  int32_t begin_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> make_plan(const Graph& graph, const Meanings& meanings, const backends::ExitAt& exit_at) {
  return Planner(graph, meanings, exit_at).run();
}

}  // namespace evalframe::native
