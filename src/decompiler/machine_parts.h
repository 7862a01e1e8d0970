// The making of state machines: one class, with a file for each part of it.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cpython/layout.h"
#include "cpython/variables.h"
#include "decompiler/machine.h"

namespace evalframe::decompiler {

using bytecode::Code, bytecode::ExceptionRegion, bytecode::Flow, bytecode::Instruction, bytecode::Op;
namespace layout = cpython::layout;

// Whether a machine with that prefix may have a variable of that name.
bool is_ours(const std::string& name, const std::string& prefix);

// An entry of the stack is an expression that is evaluated where it's used, in the order of the stack; a variable of the machine; or a marker
// for what isn't a value: Null, Self, Saved (the exception that was handled before; number: at which level), Special. The name of the exception
// that is handled has the level for its number; that of what an inlined comprehension has put aside (a tuple of it, or an empty one) has -1.
//
// Level: how many exceptions are being handled. A level is a loop of its own, in the `except` clause of that around it.
class Machine {
 public:
  Machine(Tree& tree, const Code& code, const std::vector<int>& depths, const ReadNested& nested, const MachineOptions& options)
      : tree_(tree), code_(code), depths_(depths), options_(options), reader_(tree, code, make_graph(code, depths, {.merge = false}), nested, options.names) {}
  Nodes run();

 private:
  // A part of the code from which one goes on, or leaves, at the end only.
  struct Part {
    int end = 0;
    const ExceptionRegion* region = nullptr;  // null, too, where what it does is only to raise again
  };
  // A part as it is come to: once for each level and all that the stack may hold there.
  struct Block {
    int first, end;
    int level;
    const ExceptionRegion* region;
    int handler = -1;  // the block that begins what the region leads to
    int ways = 0;      // to it
    int number = -1;   // of its state
    bool raises = false;  // does nothing but that, to have what it raises handled
    Stack entry;
    Nodes body;
    std::set<std::string> touched;  // variables that hold something at some time in it
  };

  // names, blocks: machine.cpp
  void choose_prefix();
  std::string comment(bool is_plain) const;
  void check_variables(Nodes& body);
  bool is_variable(const std::string& wanted) const;
  void find_variables(const Node* node, std::vector<std::string>& found) const;
  PyCodeObject* object() const { return code_.code.as<PyCodeObject>(); }
  std::string own(const std::string& stem) const { return prefix_ + stem; }
  Node* name(std::string text, int number = 0) { return tree_.make(Kind::Name, {}, std::move(text), number); }
  Node* builtin(const char* stem);
  Node* helper(const char* stem);
  Node* call(Node* function, Nodes arguments);
  Node* none() { return tree_.constant(Py_None); }
  Node* assign(Nodes targets, Node* value);
  std::string handled(int level) const { return own("error" + std::to_string(level)); }
  std::string place(size_t slot) const { return own("s" + std::to_string(slot)); }
  bool is_own(const Node* node) const { return node->kind == Kind::Name && is_ours(node->text, prefix_); }

  int size() const { return static_cast<int>(code_.instructions.size()); }
  void find_blocks();
  bool is_quiet(int first, int end) const;
  static int target_of(const Instruction& instruction) { return instruction.target + (instruction.op == Op::FOR_ITER ? layout::kForIterSkip : 0); }

  bool is_op(int index, Op op, int arg) const { return index < size() && code_.instructions[index].op == op && code_.instructions[index].arg == arg; }
  bool only_raises_again(int index) const;
  bool leaves(int index) const;
  int resolve(int index) const;
  static bool alike(const Node* a, const Node* b);
  int enter(int index, const Stack& stack, int level);
  Block& block() { return blocks_[static_cast<size_t>(block_)]; }
  bool is_marker(const Node* node) const;

  // statements: machine_steps.cpp
  void settle(const Nodes& operands = {});
  Node* fresh() { return name(own("t" + std::to_string(temporaries_++))); }
  static void check_value(const Node* node);
  void emit(Node* statement);
  void put(Node* statement, const Nodes& used_later = {});
  void note_targets(const Node* statement);
  void note_target(const Node* target);
  void hold(const std::string& variable);
  void find_own(const Node* node, std::set<std::string>& found) const;
  void clear(const Nodes& used_later = {});
  void arrange(const Nodes& used_later = {});
  Node* state_of(int block);
  Node* set_state(int block) { return assign({name(own("state"))}, state_of(block)); }
  void go(int index);

  // instructions
  void read(Block& block);
  bool changes_kept(int i, const Block& block) const;
  void end_block_behind(int i, Block& block);
  int handle(const Block& block, const Stack& entry);
  Node* pop() { return reader_.pop(stack_); }
  Node* settled_top();
  bool instruction(int i);
  static void note_place(Node* statement, int i);
  bool ends_with_frame(int i) const;
  void plain(int i);
  Node* pop_pushed();
  bool tests(int i) const;
  Node* as_bool(Node* value) { return tree_.make(Kind::Not, {tree_.make(Kind::Not, {value})}); }
  void truth(int i);
  void copy(size_t place_from_top);
  void swap(size_t place_from_top);
  void iterate(int i);
  void slice(int i);
  void join(int i);
  void in_place(int i);
  std::string variable_at(int i) const;
  void grow(int i);
  void unpack(int i);
  void put_aside(int i);
  void put_back(const std::string& variable, Node* saved);
  bool is_cell(int slot) const { return (cpython::variable_kind(code_.code, slot) & (cpython::kCellVariable | cpython::kFreeVariable)) != 0; }
  void store(int i);
  void drop();

  // ways on
  Node* choice(Node* test, int yes, int no) { return assign({name(own("state"))}, tree_.make(Kind::IfExp, {test, state_of(yes), state_of(no)})); }
  void test(const Instruction& one, int i);
  void arrange_below(Node*& test);
  void test_or_pop(const Instruction& one, int jump, int next);
  void turn(const Instruction& one, int i);
  void wait(const Instruction& one, int i);

  // exceptions and contexts: machine_exceptions.cpp
  void begin_handling(int i);
  void end_handling(int i);
  void raise_again();
  Nodes raise_as_it_is(Node* error, Nodes gone);
  void match_exception();
  void divide_exception(int i);
  int raise_first(int i);
  void gather_exceptions();
  void enter_context(bool async);
  void exit_context();

  // patterns
  void length();
  void match_keys();
  Node* matched(Node* subject, const std::string& pattern, Node* yes, Node* no);
  void match_kind(const char* pattern);
  void match_class(int positional);

  // the whole: machine.cpp
  bool is_tree() const;
  Nodes tree(int block);
  Nodes tree_of(const Nodes& statements);
  bool is_state(const Node* statement) const;
  bool leads_on_two_ways(const Node* statement) const;
  Node* case_of(const std::vector<int>& blocks, Nodes body);
  Node* match_state(Nodes cases);
  Node* level_loop(int level);
  Nodes begin_handler(const ExceptionRegion& region, const std::vector<int>& blocks);
  bool begins_level(const ExceptionRegion& region) const {
    const Op op = code_.instructions[region.target].op;
    return op == Op::PUSH_EXC_INFO || op == Op::CHECK_EG_MATCH;
  }
  void add_start(Nodes& body);
  void number_states();

  Tree& tree_;
  const Code& code_;
  const std::vector<int>& depths_;
  const MachineOptions& options_;
  Reader reader_;
  std::string prefix_ = "_";
  std::string sees_variables_;  // a name of the code
  bool begins_handling_ = false;  // it's taken up inside a handler
  std::map<int, Part> parts_;                  // by the first instruction
  std::deque<Block> blocks_;                   // in the order in which they were come to
  std::map<int, std::vector<int>> blocks_at_;  // by the first instruction
  std::vector<Node*> states_;                  // numbers in the source; `number` is that of the block until all are known
  std::deque<ExceptionRegion> own_regions_;
  std::vector<int> open_;
  std::set<std::string> builtins_;
  std::set<std::string> helpers_;
  bool has_end_ = false;
  int64_t statements_ = 0;

  // Of the block that is read.
  int block_ = 0, next_ = 0, level_ = 0, temporaries_ = 0;
  Stack stack_;
  Nodes waiting_;  // what the next statement uses that isn't on the stack any more
  Nodes out_;
  std::set<std::string> held_, touched_;
};

}  // namespace evalframe::decompiler
