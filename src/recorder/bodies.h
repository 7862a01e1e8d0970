// Functions that torch's higher-order operators call (frontends/torch/bodies.h), while a recording follows them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::recorder {

// What backends know of it.
struct OfBodies {
  // Whether the node, of a body that node `begin` begins, does nothing to what is around it.
  bool (*may_hold)(const graph::Graph& graph, const graph::Node& node, int32_t begin);
  // (origin, inputs, nodes, outputs) of these nodes, as of a stretch; null without an exception: not all are operations of torch's.
  Ref (*told)(const graph::Graph& graph, const std::vector<int32_t>& nodes, const std::vector<graph::Operand>& inputs, const std::vector<int32_t>& outputs);
};

class Bodies {
 public:
  // How many there are of each where one begins.
  struct Begin {
    int32_t nodes;
    uint32_t values;
    size_t frames;
  };
  // Something that is around bodies, as they have asked for it.
  struct Outer {
    graph::Operand operand;
    uint32_t label;
    Ref object;
  };
  // What has been taken: of each body what is told of it, and what they take, all of them all of it.
  struct Taken {
    std::vector<Ref> told;
    std::vector<const Outer*> outer;
  };

  // A function is about to be called in the innermost of the frames, or has given these nodes.
  void begin(Begin begin, PyObject* function) { all_.push_back({begin, -1, Ref::borrow(function), {}}); }
  bool end(int32_t node, std::vector<int32_t> results);
  // Whether some have begun that haven't been taken yet; whether the innermost of so many frames is that of a function of such a one, or
  // is called by it.
  bool any() const { return !all_.empty(); }
  bool is_within(size_t frames) const { return open() && frames > open()->begin.frames; }
  // Where the innermost of these begins.
  const Begin& innermost() const { return open()->begin; }
  void see(graph::Operand operand, uint32_t label, PyObject* object);
  // The last so many: their nodes do nothing in the graph any more. None: they can't be told.
  std::optional<Taken> take(size_t count, graph::Graph& graph, const OfBodies& backends);
  // No recording is to follow the functions of those that are there again, as something was found in one.
  void give_up(const std::string& why) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Body {
    Begin begin;
    int32_t end;
    Ref function;
    std::vector<int32_t> results;
  };
  const Body* open() const;
  bool is_taken(int32_t node) const;
  std::optional<std::vector<int32_t>> nodes_of(const Body& body, const graph::Graph& graph) const;
  std::vector<int32_t> inputs_of(const Body& body, const graph::Graph& graph) const;
  void take_by_inputs(const Body& body, const std::vector<int32_t>& nodes, graph::Graph& graph) const;
  const Outer* outer(graph::Operand operand) const;

  std::vector<Body> all_;
  std::vector<Outer> seen_;
  std::vector<std::pair<int32_t, int32_t>> taken_;  // nodes
};

}  // namespace evalframe::recorder
