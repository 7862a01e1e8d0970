// Reads one code object into statements: values by running its instructions on expressions, structure from its graph.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "decompiler/graph.h"
#include "decompiler/tree.h"

namespace evalframe::decompiler {

using Stack = Nodes;

// Fills in the body of a function, class, lambda or comprehension whose code object `node->constant` is.
using ReadNested = std::function<void(Node* node)>;

// Names for constants that no literal is, by index.
using ConstantNames = std::map<int, std::string>;

class Reader {
 public:
  Reader(Tree& tree, const bytecode::Code& code, Graph graph, ReadNested nested, const ConstantNames& names = {});
  // The statements of the whole code object.
  Nodes read();

  friend class Machine;  // runs instructions on expressions as the reader does

 private:
  struct Scope;
  // A try or with statement that is being read.
  struct Construct {
    int handler;
    int base;                         // depth of the stack that its handler keeps
    int exit = -1;                    // where the body goes on when it's through
    std::map<int, int> unwound;       // a node outside the body that it goes to: what follows once the statement is left
    const Scope* outside = nullptr;
  };
  // What a place in the code may go to, and what that means there.
  struct Scope {
    int stop = -1;                    // the end of the statements that are being read
    std::vector<int> blocked;         // ends of statements around them
    int again = -1, leave = -1;       // continue and break
    int handler = -1;
    int loop = -1;                    // header of the innermost loop
    int entered = -1;                 // the header of a loop whose statement is being read
    const Construct* construct = nullptr;
    bool expression = false;          // ends at the first test
    bool alone = false;               // ... which is of a chain of comparisons, and no more of a condition than that
  };
  // An attempt to read on, which leaves no trace when it's over: displays grow as copies, assignments of several values wait again.
  struct Trying {
    explicit Trying(Reader& reader) : reader(reader), several(reader.several_) { reader.trying_++; }
    ~Trying() {
      reader.trying_--;
      reader.several_ = several;
    }
    Reader& reader;
    std::vector<std::pair<Node*, Node*>> several;
  };
  struct Condition {
    Node* test = nullptr;
    int yes = -1, no = -1;
    bool yes_keeps = false, no_keeps = false;  // the value stays on the stack that way
    size_t yes_edges = 1, no_edges = 1;        // how many ways there are from the condition
    int via_yes = -1, via_no = -1;
    bool chained = false;                      // the right operand stays for the next comparison if yes
    int first = -1;                            // its first test
  };
  struct Case {
    Node* pattern = nullptr;
    Node* guard = nullptr;
    int body = -1;      // -1: nothing is left of it
    int fails = -1;     // where the next case starts, or what follows the last
    bool last = false;
  };
  struct LoopNodes {
    std::vector<bool> inside;  // from which its header is come to again
    std::vector<bool> warm;    // that aren't come to by exceptions alone
    std::vector<int> exits;    // outside: where its nodes lead but for an iterator at its end, and handlers of statements in it
    int last = -1;             // of what is inside and warm, what stands last in the code
  };
  class Patterns;
  enum class How { falls, ends, tests };
  struct End {
    How how;
    int at = -1, via = -1;
    Condition condition;
  };

  // Structure (reader.cpp, loops.cpp, handlers.cpp).
  End run(int node, Stack& stack, const Scope& scope, Nodes& out);
  bool at_end(int node, const Scope& scope, Nodes& out, End& end);
  void work(int amount = 1);
  int meet(int a, int b, const Scope& scope);
  bool is_one_place(int node, const std::vector<char>& ways) const;
  bool absorbs(int node, const Scope& scope) const;
  static Scope within(const Scope& scope, int stop);

  // Conditions.
  Condition condition_at(int node, Stack& stack, const Scope& scope);
  void take_chain(Condition& condition, Stack& stack);
  bool extend(Condition& condition, const Stack& stack, const Scope& scope);
  bool condition_behind(int node, size_t edges, const Stack& stack, const Scope& scope, Condition& found, bool alone = false);
  Node* both(Node* a, Node* b, bool chained);
  Node* either(Node* a, Node* b);
  Node* negated(Node* test);
  // Returns the node to go on with, or -1 where nothing follows; `end` then says how.
  int branch(int node, Stack& stack, const Scope& scope, Nodes& out, End& end);
  int value_of(Condition& condition, Stack& stack, const Scope& scope);
  int if_expression(Condition& condition, int join, Stack& stack, const Scope& scope);
  Node* value_on_the_way(int node, int join, Stack stack, const Scope& scope);
  int if_statement(Condition& condition, int join, Stack& stack, const Scope& scope, Nodes& out, End& end);
  static bool stays_as_it_is(const Node* test);
  Node* assertion(Node* test, int fails, Stack stack, const Scope& scope);
  bool explicit_continue(int via) const;

  // Patterns (patterns.cpp).
  bool may_start_match(int node, const Stack& stack) const;
  bool read_cases(int node, const Stack& stack, const Scope& scope, std::vector<Case>& cases);
  int behind_cases(std::vector<Case> cases, const Scope& scope);
  int match_statement(int node, const std::vector<Case>& cases, Stack& stack, const Scope& scope, Nodes& out);

  // Loops.
  int loop(int node, Stack& stack, const Scope& scope, Nodes& out);
  LoopNodes nodes_of_loop(int header) const;
  std::vector<bool> body_of(int header) const;
  std::vector<bool> warm_from(int header) const;
  bool test_of_while(int node, const Stack& stack, const Scope& inner, const LoopNodes& nodes, Condition& found);
  void otherwise(Node* statement, int start, int leave, Stack stack, const Scope& scope);
  int first_behind(const std::vector<int>& from, const LoopNodes& nodes, int last, int depth, const Scope& scope) const;
  int behind_else(int end, int via, const std::vector<int>& breaks, const LoopNodes& nodes, int depth, const Scope& scope) const;
  bool ends_construct(int node, const Scope& scope) const;
  void add_handlers(int node, int header, std::vector<int>& exits) const;
  bool loop_is_inside(int header, int handler) const;
  int for_loop(int node, Stack& stack, const Scope& scope, Nodes& out);
  int while_loop(int node, Stack& stack, const Scope& scope, Nodes& out);
  Node* conditional_element(const Nodes& statements, Node* collection);
  Node* comprehension_of(const Nodes& statements, Node* collection);

  // Handlers.
  int outermost_new(int node, const Scope& scope) const;
  End leave(int node, Stack& stack, const Scope& scope, Nodes& out);
  int try_statement(int node, int handler, Stack& stack, const Scope& scope, Nodes& out);
  Node* with_finally(Node* statement, int handler, Stack& handling, const Scope& scope);
  void else_clause(Node* statement, int start, int follow, Stack stack, const Scope& scope);
  int except_clauses(Node* statement, const Construct& construct, Stack& handling, const Stack& stack, const Scope& scope);
  int with_statement(int node, Stack& stack, const Scope& scope, Nodes& out);
  void find_exits(Construct& construct, int start, const std::function<int(int)>& unwind, const Scope& scope);
  bool same_place(int a, int b) const;
  int rank_of_exit(int after, const Scope& scope) const;
  int behind_handlers_around(int node, const Scope& scope) const;
  int matches_copy(int copy, int original) const;
  int behind_exit_call(int node) const;
  int behind_suppression(int handler) const;
  int behind_handlers(int handler, const Scope& scope) const;
  void strip_reraise(Nodes& statements);
  bool is_finally(int handler) const;
  int depth_kept(int handler, bool& lasti) const;
  int first_of_star(int handler) const;
  int star_handlers(int node, const Stack& stack, const Scope& scope, Nodes& handlers);
  int first_append(int from, int depth) const;
  Nodes handlers_of(const Nodes& statements, bool& star);
  void strip_unbinding(Nodes& statements, const std::string& name);
  Scope tail_of(const Construct& construct, const Scope& scope) const;

  // Values (values.cpp, stores.cpp).
  void step(int node, Stack& stack, Nodes& out);
  bool step_load(int node, Stack& stack);
  bool step_operator(int node, Stack& stack);
  bool step_build(int node, Stack& stack, Nodes& out);
  bool step_call(int node, Stack& stack);
  bool step_store(int node, Stack& stack, Nodes& out);
  bool step_rest(int node, Stack& stack, Nodes& out);
  bool step_wait(int node, Stack& stack);
  void intrinsic(int node, Stack& stack, Nodes& out);
  void binary_intrinsic(int node, Stack& stack);
  Node* type_parameter(Node* named, int stars, Node* bound);
  Node* type_alias(Node* parts);
  Node* evaluated(Node* function);
  Node* made_by_type_scope(Node* scope, const Nodes& arguments);
  void make_function(int node, Stack& stack);
  void set_attribute(Node* function, int flag, Node* value);
  Node* call(Node* function, Nodes arguments, const std::vector<std::string>& keywords);
  Node* finished_call(Node* function, Nodes arguments);
  Node* starred_call(Node* function, Node* positional, Node* keywords);
  Node* collected(Node* list);
  Node* formatted(Node* value, int conversion, Node* format);
  Node* class_of(const Nodes& items);
  Node* annotations_of(Node* value);
  void assign(Node* target, Node* value, Stack& stack, Nodes& out);
  void assign_slot(Node* target, Node* slot, Stack& stack, Nodes& out);
  void assign_several(Nodes& out);
  Node* definition(Node* target, Node* value);
  bool annotated_assignment(Node* object, Node* index, Node* value, Nodes& out);
  void drop(Node* value, Stack& stack, Nodes& out);
  void append_elements(Node* collection, Node* value);
  size_t pending(const Stack& stack) const;
  Node* pop(Stack& stack) const;
  Nodes pop(Stack& stack, size_t count) const;
  Node* name(std::string text) { return tree_.make(Kind::Name, {}, std::move(text)); }
  std::string local(int index) const;
  std::string global(int index) const;
  PyObject* constant(int index) const;

  Tree& tree_;
  const bytecode::Code& code_;
  Graph graph_;
  ReadNested nested_;
  const ConstantNames constant_names_;
  size_t floor_ = 0;                                // where the stack of a comprehension that is part of an expression starts
  std::vector<std::pair<Node*, Node*>> several_;    // target and value, of an assignment of several values at once
  int64_t work_ = 0;
  // Where no test follows that could be part of one condition with that before it.
  struct NoCondition {
    int node;
    size_t depth;  // of the stack
    int again, leave, handler, construct;
    bool alone;
    std::vector<int> ends;
    auto operator<=>(const NoCondition&) const = default;
  };
  std::set<NoCondition> no_conditions_;
  static std::vector<int> ends_of(const Scope& scope);
  // By the two ways and what the scope says.
  std::map<std::tuple<int, int, int, int, int, int, std::vector<int>>, int> meetings_;
  int find_meeting(int a, int b, const Scope& scope);
  int trying_ = 0;                                  // how many attempts there are around
  int depth_ = 0;
};

}  // namespace evalframe::decompiler
