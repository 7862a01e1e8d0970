// The observer: sees each instruction of a run before and after it happens, and writes down what it did to arrays.
//
// A rule looks at an instruction in front of it (operands are live objects, what is known of them are the labels of
// their slots) and answers with a Plan; when the instruction is done, the plan becomes a node, a constant, or nothing.
// Whatever can't be recorded is a break, found before the instruction runs; the recording ends there and the program goes on.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "evaluator/activation.h"
#include "recorder/bodies.h"
#include "recorder/counts.h"
#include "recorder/purpose.h"
#include "recorder/recording.h"

namespace evalframe::recorder {

// Immutable through and through, of types that run no code of a program's: equality says all.
bool is_immutable(PyObject* object);
// Of a set, or frozenset.
bool has_immutable_elements(PyObject* set);

// What an instruction does when the function that it called has returned (evaluator/rest.h), as far as a recording knows.
struct Rest {
  // A method that an operator may be asked of, if those before gave NotImplemented.
  struct Candidate {
    Ref function, name;
    bool of_right = false;
    bool inverted = false;  // __eq__ for `!=`
  };
  Ref name;  // of the method, where the instruction goes on as if its operand's had given the result; null: an operator
  std::vector<Candidate> candidates;
  std::vector<uint32_t> operands;
  std::vector<Ref> objects;
  bool inverted = false, as_bool = false, compares = false;
  int number = 0;                 // of the operator
  std::vector<uint32_t> results;  // labels of what the instruction leaves; 0: a constant
  bool gives_none = false;        // the instruction leaves None
  Ref goes_through;               // iter or enumerate, which make an iterator over what __iter__ gave; null: another call
  Ref constructs;                 // the class whose __new__ was called with the operands: __init__ is next
  Ref keyword_names;              // ... of the last of them; null: none have names
  bool from_outside = false;      // begun before the recording: nothing is known
};

class TakenOver;
class Recorder;

// What an instruction will mean for the recording, decided before it runs.
struct Plan {
  enum class Kind : uint8_t {
    kLabels,    // no value of interest: the rule moves labels in `after`
    kNode,      // its result (top of stack) becomes a node
    kConstant,  // its result is the same whenever the guards hold
    kValue,     // its result has the label `label`
    kBreak,     // can't be recorded
    kInline,    // a call whose callee is recorded, too
    kResume,    // the generator `label` goes on, and is recorded, too: arguments are it and what it is sent, whose label is contents[0]
    kRaise,     // it raises the exception `label`, or (0) one that depends on what the guards fix alone
  };
  Kind kind = Kind::kLabels;
  graph::Form form = graph::Form::kCall;
  uint8_t code = 0;
  uint16_t keywords = 0;
  bool of_shapes = false;
  bool of_numbers = false;     // kNode: see Value
  bool of_torch = false;       // kNode: one of torch's operations
  bool check_result = false;   // an opaque result: its metadata is checked in the graph
  bool no_result = false;      // kNode: the instruction pushes nothing (stores)
  int holds = 0;               // kNode: locks that it takes (1) or lets go of (-1)
  bool same_object = false;    // kConstant: the result is one object in all runs
  bool stays = false;          // kNode: the result is the same in each run, which is checked in the graph
  bool follows = false;        // kNode: ... or follows from what the guards ask for
  Borrowed callable, keyword_names;
  std::vector<graph::Operand> operands;
  uint32_t label = 0;
  Break why = Break::kInstruction;
  std::string detail;
  // kInline: the function, and what it is called with: labels are in `contents`, the values of keywords last.
  Borrowed function;
  std::vector<PyObject*> arguments;
  uint32_t names = 0;  // ... a class body, whose names are the items of this dict
  uint32_t globals = 0;  // ... whose globals are this one
  Borrowed namespace_dict;
  uint32_t locals = 0;  // the dict that the frame keeps behind the instruction
  bool makes_class = false;  // kValue: the class that the label stands for
  // kValue: a call of the library's, which gives a class. What that has is taken over, by this, behind the call; 0: it isn't known what it is.
  uint32_t (*takes_over)(Recorder& recorder, const Plan& plan, PyObject* result) = nullptr;
  Ref finishes;  // ... what the class had before, or what the class statement has left, a dict
  std::shared_ptr<TakenOver> taken_over;  // ... and what is known of that
  evaluator::Resumes resumes = evaluator::Resumes::kNone;  // kResume: by a call, which may have a default, contents[1]
  uint32_t thrown = 0;  // kResume: this exception is raised where the generator waits; the second argument
  uint32_t passed_down = 0;  // kResume: ... or where what it waits for does
  // What the instruction does to something that the recorded code made. `changed`: the list or dict has the elements
  // `contents`. `consumed`: the iterator gives `steps` more elements, or one more than it has: then it is exhausted.
  // `dropped`: nobody will see that iterator again.
  // `appends`: the list below the top gets the top.
  uint32_t changed = 0, consumed = 0, steps = 0;
  uint32_t reread = 0;  // the list `stored_into` has other elements in another order then, all of them immutable
  bool dropped = false;
  bool appends = false;
  uint32_t replayed = 0, call = 0;  // of a type of C's, made by the recorded code, and the call that changes it
  uint32_t extended = 0;  // the list from outside, of which nothing is known, that gets `contents` at its end
  std::vector<uint32_t> contents;
  uint32_t cause = 0;     // kRaise: ... from
  bool reraises = false;  // kRaise: what is being handled isn't the exception's context
  Ref stored_into;  // whose attribute is stored: the instruction may drop it
  Ref stored_name;  // ... and under which name, or null: no attribute is
  uint32_t stored_owner = 0, stored_value = 0;
  uint32_t acts = 0;  // a call that is made where the graph is left: it acts on `stored_into`, which is `stored_owner`
  uint32_t about = 0;  // kRaise: whose attribute is missing; 0: that of the top
  std::vector<Ref> held;  // what else the arguments need
  // Operands whose contents the rule has seen in their place.
  struct Contents {
    int slot;
    uint32_t label, contents;
  };
  std::vector<Contents> as_contents;
  std::shared_ptr<Rest> rest;  // kInline: what comes of the result
  std::vector<std::pair<Ref, uint32_t>> kept;  // kInline: what stands in the place of the operands until the callee is done
};

class Recorder;

// A generator that waits where more happens than that it releases what it holds, when it is let go.
struct Unfinished {
  uint32_t value;
  Ref object;
};

// A stream of Python's random numbers: random.Random.
bool is_random_stream(PyObject* object);
// Of a type in C whose methods may stand in a graph for what they do: streams of text, locks, context variables.
bool is_acted_on(PyObject* object);

// Of a type in C that `pure.def` names, and no part of it is a program's own.
bool has_pure_type(PyObject* object);

// Whether someone is told when the object dies: a finaliser, or a weak reference.
bool tells_of_its_end(PyObject* object);

// The generator is let go: it is closed. A break: that isn't recorded.
Plan letting_go(Recorder& recorder, const Unfinished& generator);

// The method descriptors of list.append and list.extend.
PyObject* list_append();
PyObject* list_extend();

constexpr Py_ssize_t kMaxParts = 256;  // what is known as many single elements must be few: each is a value

// What a rule sees.
struct Site {
  Recorder& recorder;
  const evaluator::Activation& frame;
  const bytecode::Instruction& instruction;
  int depth;  // slots in use before the instruction
};

// Slots of the locals of a frame, and of all that a recording keeps of it: these, the stack, and one for what is returned.
inline int locals_count(const bytecode::Code& code) { return code.code.as<PyCodeObject>()->co_nlocalsplus; }
inline int frame_size(const bytecode::Code& code) { return locals_count(code) + code.code.as<PyCodeObject>()->co_stacksize + 1; }

// One instruction's rule. `before` must change nothing but guards; `after` (may be null: the default moves labels by the
// plan) is called when the instruction has run, with the frame's new depth. Where `moves` (may be null: nowhere) says that labels move
// as the objects do, no plan is made: `after` gets an empty one. Where `operates` (null: nowhere) finds no operands but numbers and
// arrays, it fills a plan that served such an instruction before.
struct Rule {
  Plan (*before)(const Site& site);
  void (*after)(const Site& site, const Plan& plan);
  bool (*moves)(const Site& site) = nullptr;
  bool (*operates)(const Site& site, Plan& plan) = nullptr;
};
// Of an instruction that only moves what is on the stack and in locals.
inline const Plan kMoves;
// The rule of each instruction; a break for those that aren't recorded.
const Rule& rule(bytecode::Op op);

// Records one stretch of a run: from where a chain of frames stands to a break, an exception, or the outermost return.
class Recorder {
 public:
  static constexpr int32_t kMaxNodes = 50000;
  static constexpr int32_t kMaxBackJumps = 64;
  static constexpr uint64_t kMostBarren = 40'000;  // instructions without a node, of a function that calls itself
  static constexpr int kMaxInlineDepth = 1000;
  static constexpr Py_ssize_t kMaxUnrolledTurns = 8;  // of a loop whose number of turns is known
  static constexpr Py_ssize_t kMaxShortTurns = 32;    // ... with a short body
  static constexpr int kTurnsAtOnce = 8;              // of a loop that is hot
  static constexpr size_t kMaxTurnNodes = 160;        // of all of them together

  // chain: the live frames, outermost first; the innermost is about to run its next instruction. varying: paths of
  // sources whose values were seen to change, so that they are inputs and no constants.
  Recorder(const std::vector<const evaluator::Activation*>& chain, const guards::Paths& varying, Purpose purpose);

  const Purpose& purpose() const { return purpose_; }
  // Whether nothing has come of very many instructions.
  bool is_barren() const { return purpose_.barren && recording_->bytecodes - bytecodes_at_node_ > kMostBarren; }

  Recording& recording() { return *recording_; }
  const Recording& recorded() const { return *recording_; }
  // The finished recording. Nothing else may be called afterwards.
  std::unique_ptr<Recording> finish();

  // The driver's calls, in this order for each instruction: `before` is left out where there is a quick plan (null: there is none).
  void begin(const evaluator::Activation& frame);
  const Plan* quick_plan(const evaluator::Activation& frame);
  Plan before(const evaluator::Activation& frame);
  void after(const evaluator::Activation& frame, const Plan& plan, int32_t instruction, int depth_before);
  // For kInline: the callee's frame is made; these are the labels of its parameters.
  static constexpr uint32_t kDefault = UINT32_MAX;  // the label is the parameter's default's
  void pushed(const evaluator::Activation& caller, const evaluator::Activation& callee, const Plan& plan,
              const std::vector<uint32_t>& given, int caller_depth);
  // The innermost frame returns the object whose label is at the top of its stack (instruction is RETURN_*).
  void returned(const evaluator::Activation& callee, bool outermost);
  // Of kResume: the generator's frame is up.
  void went_on(const evaluator::Activation& caller, const evaluator::Activation& callee, const Plan& plan, int caller_depth);
  // Of `Plan::thrown`: the exception is on its way in the generator's frame. False: it can't be recorded.
  bool thrown(const Plan& plan, PyObject* exception);
  // The generator has ended, and left, and whoever resumed it by a call has raised StopIteration. The same.
  bool stopped_iteration(PyObject* exception);
  // How the innermost frame, a generator's, was resumed.
  evaluator::Resumes resumes() const { return frames_.back().resumes; }
  // The innermost frame, a generator's, yields `Recording::result`.
  void yielded(const evaluator::Activation& callee);
  bool has_generators() const { return !generators_.empty(); }
  // Those that an instruction may let go.
  std::vector<Unfinished> unfinished() const;
  bool is_unfinished(uint32_t generator) const { return generators_[recording_->values[generator].a].waits && generators_[recording_->values[generator].a].weak; }
  uint32_t running_generator() const { return recording_->generators[frames_.back().generator].value; }
  // Behind an instruction: it has let a generator go that isn't done; the recording ends in front of it.
  bool has_let_go();
  // The inlined call is over, or the generator waits or is finished. takes_result: its result is now at the top of the caller's stack.
  void resumed(const evaluator::Activation& caller, bool takes_result);
  // The instruction that the plan is for raised the exception in the innermost frame. False: it can't be recorded.
  bool raised(const evaluator::Activation& frame, const Plan& plan, PyObject* exception);
  // ... and the innermost frame has a handler, where it stands now.
  void caught(const evaluator::Activation& frame, int32_t instruction, int depth_before);
  // ... and has none: the frame is about to end. False: that can't be recorded. Then its caller is the innermost, to which the
  // exception has come.
  bool unwound(const evaluator::Activation& callee, PyObject* exception);
  bool passed(PyObject* exception);
  // Ends the recording before the present instruction.
  void stop(Break why, std::string detail = {});
  bool stopped() const { return stopped_; }
  // The same, where the instruction has run. The recording ends in front of it.
  void stop_in_front(Break why, std::string detail);
  bool has_stepped_past() const { return stepped_past_; }
  // Behind an instruction: an object from outside has ended, and someone is told; the recording ends in front of it, and holds no objects any more.
  bool has_let_end(const evaluator::Activation& frame) { return !only_pushed_ && !watched_.empty() && look_at_watched(frame); }

  // What the caller does with what the innermost frame returns; null: it takes it.
  const Rest* rest() const { return frames_.back().rest.get(); }
  // ... which leaves this there.
  void conclude(std::vector<uint32_t> results, uint32_t exhausted = 0) { results_ = std::move(results), concludes_ = true, exhausted_ = exhausted; }
  // ... or which is a call of another method.
  void follow_up(Plan plan) { next_call_ = std::make_unique<Plan>(std::move(plan)); }
  std::unique_ptr<Plan> take_follow_up() { return std::move(next_call_); }

  // The function that a call is about to run beside this one, for `pushed`.
  void calls(uint32_t function) { called_ = function; }
  uint32_t closure() const { return frames_.back().closure; }

  // --- for rules -----------------------------------------------------------------------------------------------------
  uint32_t label(int slot) const { return labels_[frames_.back().base + slot]; }
  const Value& value_at(int slot) const { return recording_->values[label(slot)]; }
  const Value& value(uint32_t index) const { return recording_->values[index]; }
  void set_label(int slot, uint32_t value) {
    const int32_t absolute = frames_.back().base + slot;
    labels_[absolute] = value;
    recording_->journal.push_back({Change::Kind::kSlot, absolute, value});
  }
  uint32_t add_value(Value value);
  uint32_t constant(Borrowed object);
  // A value fixed by a guard on the place it was read from: a constant, or a source where its contents may change.
  uint32_t fixed(Borrowed object);
  uint32_t container(Value::Kind kind, std::vector<uint32_t> elements);
  uint32_t source(guards::Source source);
  // A new deque, of at most so many elements (None: any number), and a new object of a subclass of dict. factory: a defaultdict's, or 0.
  uint32_t deque(std::vector<uint32_t> elements, Borrowed maximum);
  uint32_t mapping(Borrowed type, std::vector<uint32_t> items, uint32_t factory);
  uint32_t factory_of(const Value& mapping) const;
  uint32_t source_value(int32_t source) const { return source_values_[source]; }
  // A new instance of the class, without attributes. contents: what it has of a builtin type that the class inherits from; 0: none.
  uint32_t instance(Borrowed type, uint32_t contents = 0);
  // Those; 0: another value.
  uint32_t contents(uint32_t instance) const;
  // How many elements of an instance come before its attributes, which the value is the dict of; 0: another value.
  uint32_t ahead_of(const Value& value) const;
  // The dict of its attributes; and (null: it is another dict) of which class the instance is.
  uint32_t dict_of_instance(uint32_t instance);
  PyTypeObject* class_of_attributes(uint32_t dict) const;
  // In front of an instruction, for as long as its rule looks: another label in the slot.
  void exchange_label(int slot, uint32_t value) { labels_[frames_.back().base + slot] = value; }
  // A new exception of the class, a constant, with this tuple of arguments.
  using NamedValues = std::vector<std::pair<const char*, uint32_t>>;
  uint32_t exception(Borrowed type, uint32_t arguments, const NamedValues& attributes = {});
  // One that nobody has yet has these attributes, too.
  void begin_with(uint32_t exception, const NamedValues& attributes);
  bool is_exception(uint32_t value) const { return recording_->values[value].kind == Value::Kind::kException; }
  void set_attribute(uint32_t exception, const char* name, uint32_t value);
  // The exception being handled; 0: as at the start.
  uint32_t handled() const;
  // What the innermost frame, if a generator's, or all others handle. In place of nothing, what that is.
  uint32_t handled_by_frame();
  void handle(uint32_t value);
  // The innermost frame becomes a generator that hasn't begun; and the object. CPython warns of a coroutine that is let go so.
  uint32_t generator(const evaluator::Activation& frame);
  void made_generator(PyObject* generator);
  // Whether the generator waits; not, where it runs or has ended.
  bool waits(const Value& generator) const { return generators_[generator.a].waits; }
  bool has_ended(const Value& generator) const { return generators_[generator.a].ended; }
  bool has_begun(const Value& generator) const { return generators_[generator.a].begun; }
  // Whether it waits in a `yield from` or `await`.
  bool delegates(const Value& generator) const { return generators_[generator.a].delegates; }
  // The generator that it waits for there; 0: something else.
  uint32_t awaited_by(const Value& generator) const;
  // Whether an exception may be thrown at the generator that is at the end of those that wait for one another.
  bool may_pass_down(const Value& generator) const;
  // The generators of a resumption go on to the one that waits for no other: there the exception is raised.
  void pass_down(Plan& resumption);
  uint32_t first_slot_of(const Generator& generator) const { return labels_[generator.base]; }
  // Of a loop that is unrolled, in front of its GET_ITER. Those of frames that nobody sees are another's calls.
  Py_ssize_t most_turns(const evaluator::Activation& frame) const;
  bool is_outermost() const { return frames_.size() == 1; }
  // Whether the innermost frame is that of a call, by way of others, in the turn of a loop in which the recording began: for what other turns do there, there are other recordings.
  bool is_called_in_turn() const;
  // Whether the innermost frame is that of a generator that was there at the start.
  bool is_in_outer_generator() const { return frames_.back().generator == kOuterGenerator; }
  // Whether that is the only frame: what it yields leaves the recording.
  bool is_resumed() const { return is_outermost() && is_in_outer_generator(); }
  // One that is left unfinished in a `try` or `with`, so that more happens when it is let go.
  bool leaves_unfinished() const;
  // What the thread handles at the start: of the innermost frame's own, or of whichever.
  uint32_t outer_exception(bool own);
  // The frame so many calls above the innermost, and that which called a frame; 0: it isn't recorded.
  uint32_t frame_above(size_t up);
  uint32_t caller_of(int32_t identity);
  // A lock has been taken (1) or let go of (-1). Whether stores were put off while one was held, or since the start.
  void hold(int change);
  bool has_stored_under_lock() const { return stores_ > stores_before_lock_; }
  // Whether the outermost frame is the innermost, and an exception with a traceback would outlive it as (part of) the value.
  bool lets_traceback_out(uint32_t value) const;
  // What it has under the name; 0: nothing.
  uint32_t attribute_of(const Value& instance, Borrowed name) const;
  uint32_t attribute_of(const Value& instance, const char* name) const;
  // The object of a constant; null: another value.
  PyObject* constant_of(uint32_t value) const;
  // super(type, object), as the recorded code made it.
  bool is_super(uint32_t value) const;
  // What a dict that the recorded code made has under the name; 0: nothing.
  uint32_t value_of_key(const Value& dict, PyObject* name) const;
  // A class that the instruction is about to make: its metaclass, name, bases, and the names and values that its body has left.
  uint32_t new_class(uint32_t metaclass, uint32_t name, uint32_t bases, const std::vector<uint32_t>& body);
  // ... has made.
  void made_class(uint32_t value, PyObject* type);
  const MadeClass* made_class(PyObject* type) const;
  // The class has these names and values, which only it leads to.
  void fill_class(PyObject* type, const std::vector<uint32_t>& body);
  // Something has put this into the class, or (value 0) taken it out.
  void change_class(PyObject* type, PyObject* name, uint32_t value);
  // A function, an instance or a descriptor that the recorded code has made may be met as what a class has.
  void adopt(uint32_t value, PyObject* object);
  bool holds_adopted(PyObject* object) const;
  void adopt_contents(PyObject* type);
  bool is_adopted(PyObject* object) const { return !adopted_.empty() && adopted_.count(object) > 0; }
  // What the function runs stays as it is, by a guard, unless the recorded code made it.
  void require_function(PyObject* function) {
    if (!is_adopted(function)) guards().require_function(function);
  }
  // The dict of the names of the class body that runs; 0: none does.
  uint32_t names() const { return frames_.back().names; }
  bool is_in_class_body() const;
  // The dict that exec() was given for the globals of the innermost frame, or of any; 0: they are its function's.
  uint32_t globals() const { return frames_.back().globals; }
  bool is_under_made_globals() const;
  // The innermost frame keeps this dict, which locals() gives.
  void keep_locals(uint32_t dict);
  // What locals() has given in the innermost frame, which keeps it; 0: nothing.
  uint32_t locals() const { return frames_.back().locals; }
  // Whether all that the innermost frame keeps is known: it began in the recording, and isn't a generator's, or hidden.
  bool knows_what_frame_keeps() const;
  bool is_hidden_frame() const { return is_hidden(frames_.size() - 1); }
  // What the class has stays as it is, by a guard. False: it can't be guarded.
  bool fix_class(Borrowed type);
  // Present elements; they stay where they are until a container is made or changed.
  std::span<const uint32_t> elements(const Value& value) const;
  std::vector<uint32_t> copied_elements(const Value& value) const;
  void append(const Value& list, uint32_t element);
  // The list or dict has other elements from here on.
  void replace(const Value& container, const std::vector<uint32_t>& elements);
  // An iterator that gives these elements, made by a call of `callable`. It is over what mustn't change meanwhile.
  // endless: the items are the first of more than can be told.
  uint32_t iterator(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments, std::vector<uint32_t> items, bool endless = false);
  // Whether the value is such an iterator that nothing else advances; its elements from the first one; how many it has given.
  bool is_iterator(uint32_t value) const;
  const std::vector<uint32_t>& items(uint32_t iterator) const { return iterators_.at(recording_->values[iterator].a).items; }
  uint32_t given(uint32_t iterator) const { return recording_->containers[recording_->values[iterator].a].present.begin; }
  // How many more asks exhaust it.
  uint32_t steps_to_end(uint32_t iterator) const;
  void give(uint32_t iterator, uint32_t count);
  bool is_endless(uint32_t iterator) const { return is_iterator(iterator) && iterators_.at(recording_->values[iterator].a).endless; }
  std::vector<uint32_t> items_to_come(uint32_t iterator) const;
  // A list or dict that is being iterated over, whose length mustn't change.
  // Such a set or deque may change its size: all that goes through it is iterators that are told so.
  bool tells_iterators(uint32_t container) const;
  bool is_stale(uint32_t iterator) const;
  bool is_iterated(uint32_t value) const { return iterated_.count(recording_->values[value].a) > 0; }
  // Whether an iterator has yet to give the element, alone or in a tuple.
  bool is_to_come(uint32_t element) const;
  // What a call of a constant made: callable, names of keywords (0: none) and arguments.
  uint32_t made(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments);
  // A name of a module's dict that the recorded code stored: its value; 0: it didn't.
  uint32_t stored(Borrowed dict, Borrowed name) const;
  void store(Borrowed dict, Borrowed name, uint32_t value);
  void forget(Borrowed dict, Borrowed name);
  bool has_forgotten(Borrowed dict, Borrowed name) const;
  // The same of an attribute of an object that the value stands for. Another value that was stored into, under the name,
  // may stand for the same object: that it does, or doesn't, is guarded.
  uint32_t stored_attribute(uint32_t owner, Borrowed object, Borrowed name);
  void store_attribute(uint32_t owner, Borrowed object, Borrowed name, uint32_t value);
  // Whether an attribute of the object was stored, as far as objects of this run tell.
  bool has_stored_into(Borrowed object) const;
  // The calls that are put off and act on the object, in their order.
  std::vector<uint32_t> calls_put_off(Borrowed object) const;
  // Of a class's attribute, found in this class: its value, by a guard, stored or read anew.
  uint32_t value_in_class(PyTypeObject* type, Borrowed name, Borrowed found);
  // The same of a cell that other functions share.
  uint32_t stored_in_cell(uint32_t owner, Borrowed cell);
  void store_in_cell(uint32_t owner, Borrowed cell, uint32_t value);
  // Whether someone is told of an end if the program lets go of one of its references to the object.
  bool tells_if_dropped(PyObject* object);
  // ... to what lives outside: if it's still held elsewhere, its end is looked for from here on.
  bool tells_if_dropped_outside(PyObject* object);
  bool is_last_reference(PyObject* object);
  // Visits all that the recorder and the recording hold.
  int traverse(visitproc visit, void* arg) const;
  // Whether effects may be put off to the exit. Not behind the end of an object from outside that tells someone of it: what it
  // held is let go at the exit, behind them.
  bool may_put_off() const;
  // A list or dict from outside that the recorded code is about to change is known element by element from here on, as one that
  // it has made: every slot gets the new value. The changes are made at the exit. 0: it can't be known so.
  uint32_t enter(uint32_t source, Borrowed object);
  // The set from outside has these elements, by a guard. False: it can't be known so.
  bool require_elements(uint32_t source, Borrowed set);
  // Whether its elements may be changed: its own value, or that of what the recorded code made.
  bool may_change(uint32_t container);
  // The source that stands for a list or dict from outside; 0: another value.
  uint32_t outer_of(uint32_t container) const;
  // An object from outside whose attributes are read or stored, a dict of names, and a dict from outside that is looked into or
  // changed mustn't be one and the same under two names. Guards ask for that where it matters; false: they are, now.
  bool may_touch_attributes(int32_t source, Borrowed object, bool stores);
  bool may_touch_names(Borrowed dict, bool stores);
  bool may_touch_dict(int32_t source, Borrowed dict, bool changes, Borrowed key = Borrowed());  // key: what alone it is asked for
  // The elements of the source are gone through.
  void goes_through(uint32_t source, Borrowed object) { through_.push_back({source, object.get()}); }
  // Appends to a list from outside of which nothing is known, at the exit.
  bool may_append_outside(uint32_t list, Borrowed object);
  // Whether the list is gone through, or was.
  bool is_gone_through(Borrowed object) const;
  void append_outside(uint32_t list, Borrowed object, const std::vector<uint32_t>& values);
  // Whether one more turn of the loop that the recording started in belongs to it. Its iterator is advanced at the exit.
  bool takes_turn(uint32_t iterator, Borrowed object);
  uint32_t turn(const Value& iterator);
  // The value of a name in a module's dict, read anew in each run.
  uint32_t name_source(Borrowed dict, Borrowed name);
  // Has the name been seen to change?
  bool name_varies(Borrowed dict, Borrowed name) const;
  guards::GuardTable& guards() { return recording_->guards; }
  // The instruction depends on what torch keeps for the thread, and on what its class of tensors has.
  void depends_on_torch();
  // ... which kernels of attention there may be.
  void depends_on_kernels();
  // ... which transformations of torch.func there are, and what the recorded code has come to by changing that.
  void depends_on_transforms();
  bool looks_at_transforms() const { return looks_at_transforms_; }
  // The recorded code is about to change torch's modes.
  void keep_torch_modes();

  // Is the source one whose value, or length, changes from run to run?
  bool varies(int32_t source) const;
  // Which keys a dict has, or what is in a set. In a turn of a loop that differs from one item to the next only where it has been seen to:
  // the layers of a model have the same.
  bool keys_vary(int32_t source) const;
  // Whether what the container holds is known neither by its length nor by its keys.
  bool parts_vary(int32_t source, Borrowed object) const;
  // Whether it is a torch.Size from outside, of which some numbers are inputs.
  bool is_size_that_varies(const Value& value, PyObject* object) const;
  // Whether the sizes of a tensor are facts of the recording.
  bool has_fixed_sizes(uint32_t value, PyObject* tensor) const;
  bool sizes_vary() const { return sizes_vary_; }
  // A Python number from outside that isn't fixed by a guard: arithmetic with it stays in the graph.
  bool is_input_number(uint32_t value, Borrowed object) const;
  // A Python number that is known, an input, or computed from such.
  bool is_number(uint32_t value, Borrowed object) const;
  // May the value be treated as a constant? Sources of immutable type get an equality guard.
  bool known(uint32_t value, Borrowed object);
  // The functions of torch's operators that are followed.
  Bodies& bodies() { return bodies_; }
  // Whether one of them runs.
  bool is_in_body() const { return bodies_.is_within(frames_.size()); }
  void begin_body(PyObject* function) { bodies_.begin({static_cast<int32_t>(recording_->graph.nodes.size()), static_cast<uint32_t>(recording_->values.size()), frames_.size()}, function); }
  // A node's operand for the value; guards what a node needs to know of it. kNone: it can't be one.
  graph::Operand operand(uint32_t value, Borrowed object);
  // An array, a NumPy scalar, or a number or tuple that only the graph knows.
  bool is_graph_value(uint32_t value, Borrowed object) const;
  int32_t add_node(const Plan& plan, Borrowed result);
  int32_t add_plain_node(graph::Form form, uint8_t code, Borrowed name, std::vector<graph::Operand> operands, Borrowed result);
  uint32_t node_value(int32_t node, bool of_shapes, bool of_numbers = false);
  // Behind the instruction: an opaque node's result must be of the kind, dtype and rank that was seen.
  void check_result(const evaluator::Activation& frame, int32_t node);
  // In front of the instruction: a value of the graph has as many elements as the object, or its type, by checks in the graph.
  void check_length(graph::Operand whole, Borrowed object);
  void check_type(graph::Operand whole, Borrowed object);
  // In front of the instruction: whether Python code runs in it is looked at. Behind it: none did in the graph's call, by a check.
  // Makes the value of a node a constant, by a check in the graph.
  void check_constant(uint32_t value, Borrowed object);
  // In front of the instruction: what the callable says of a value of the graph, by a check in the graph.
  void check_call(Borrowed callable, graph::Operand operand, Borrowed result);
  // No class is registered with an abstract base between recording and run, by a check in the graph.
  void fix_registrations();
  // What handles exceptions behind the instruction of the frame that is run only ends what was begun, and raises them again.
  void handler_passes_on(const bytecode::Code& code, int32_t instruction);
  // The truth of a number is a fact of the recording from here on, by a check in the graph. False: it can't be one.
  bool check_truth(uint32_t value, Borrowed object);
  // The same of any number of NumPy's, where is_called_in_turn(): a break would be in the midst of the call.
  bool check_truth_in_call(uint32_t value, Borrowed object);
  // The same of a tensor with one element.
  bool check_truth_of_tensor(uint32_t value, PyObject* tensor);

 private:
  struct Live {
    const bytecode::Code* code;
    int32_t base;
    int32_t graph_frame;
    int32_t identity;
    int32_t end;              // behind the slots of this frame and those around it
    uint32_t closure = 0;     // the tuple of cells, if the function was made by the recorded code
    int32_t generator = -1;   // index into Recording::generators
    int32_t push = -1;        // index into Recording::pushes
    std::shared_ptr<Rest> rest;
    evaluator::Resumes resumes = evaluator::Resumes::kNone;
    uint32_t when_ended = 0;  // what the call gives then
    uint32_t names = 0;       // the dict of a class body's names
    uint32_t globals = 0;     // the dict that exec() was given for them
    uint32_t locals = 0;      // the dict that locals() has given, and the frame keeps
  };
  static constexpr int32_t kOuterGenerator = -2;
  // A generator, as it is now.
  struct Generating {
    Ref weak;  // to it, where more than releasing happens when it is let go
    uint32_t handled = 0;
    bool begun = false, waits = true, ended = false, delegates = false;
    int32_t depth = 0;  // where it waits
  };
  uint32_t fixed_result(PyObject* object);
  graph::Operand operand_of(uint32_t index, Borrowed object);
  bool is_of_body_alone(const Site& site, const Plan& plan);
  bool is_hidden(size_t frame) const;
  // The frame that has called this one, and is seen; -1: none.
  int32_t visible_caller(size_t frame) const;
  int32_t next_base() const { return std::max(frames_.back().end, kept_slots_); }
  int32_t handling_level() const;
  void require_equal(int32_t source, Borrowed object);
  uint32_t default_of(Borrowed function, const PyCodeObject& code, int parameter, PyObject* value);
  void move_window(int32_t container);
  void claim(uint32_t value, bool claimed);
  void outdate(uint32_t container);
  void drop(uint32_t iterator);
  bool holds(uint32_t item, uint32_t element) const;
  void apply(const Plan& plan);
  void reread(const Plan& plan);
  uint32_t exception_made(PyObject* exception, uint32_t about);
  // One that the call of the plan has raised; 0: it isn't known that it always does.
  uint32_t exception_of_call(const Plan& plan, PyObject* exception);
  // Whether it is of the shapes of the plan's operands alone, which checks in the graph fix then.
  bool fixes_shapes(const Plan& plan, PyObject* exception);
  bool collect_arrays(graph::Operand operand, std::vector<graph::Operand>& arrays) const;
  // How many entries the traceback has.
  size_t entries_known(uint32_t traceback) const;
  bool set_context(uint32_t exception, PyObject* object);
  bool note_traceback(PyObject* exception);
  void end_frame(const evaluator::Activation& frame);
  bool leaves_generator(const evaluator::Activation& callee);
  bool waits_in_cleanup(const bytecode::Code& code, int32_t instruction) const;
  bool reaches_traceback(uint32_t value, std::vector<bool>& seen) const;
  graph::Operand container_operand(uint32_t value, Borrowed object);
  Plan plan_for(const Site& site);
  void relabel_result(const Site& site, const Plan& plan);

  std::unique_ptr<Recording> recording_;
  const guards::Paths& varying_;
  std::string turn_;  // path of what a loop over an iterator from outside has just given: it differs at each turn
  int32_t turns_taken_ = 0;
  int32_t turn_iterator_ = -1;  // source
  std::vector<Live> frames_;
  std::vector<Generating> generators_;
  int32_t kept_slots_ = 0;  // those below are generators', or belong to frames further out
  size_t nodes_before_ = 0;  // the present instruction
  uint64_t bytecodes_at_node_ = 0;
  Bodies bodies_;
  Plan operation_;           // the last that Rule::operates has filled
  std::vector<uint32_t> labels_;
  Mark mark_{};              // of the present instruction
  Mark whole_mark_{};        // ... or of the one that it is the second half of
  size_t nodes_before_whole_ = 0;
  int32_t back_jumps_ = 0;
  bool stopped_ = false, stepped_past_ = false;
  const Purpose purpose_;
  bool sizes_vary_ = false;  // those of tensors that are made from here on may be others in another run
  // A number that the graph has, and that is another one in the next run, may be the size of what is made of it.
  void note_size(PyObject* number);
  graph::Operand size_operand(uint32_t index, Borrowed object);
  // By dimension, of a tensor from outside; none of an object that isn't one.
  std::vector<uint8_t> sizes_that_vary(int32_t source, PyObject* tensor) const;
  std::vector<torch::State> states_, kernels_;  // at the start; empty once the guards have them
  bool looks_at_transforms_ = false;
  struct Iterator {
    std::vector<uint32_t> over;  // its arguments
    std::vector<uint32_t> items;
    bool endless = false;  // the items are the first of more
    bool owned = false;    // by another iterator
    bool dropped = false;  // it gives nothing more
    bool stale = false;    // what it is over has changed since
  };
  std::unordered_map<int32_t, Iterator> iterators_;  // by container
  std::unordered_multiset<int32_t> iterated_;        // containers, once for each iterator over them
  std::vector<std::pair<uint32_t, graph::Operand>> built_;  // containers made for the present instruction: one object each
  // What classes that the recorded code makes have, and these classes: objects of this run, and the values that stand for them.
  std::unordered_map<PyObject*, uint32_t> adopted_;
  std::vector<Ref> adopted_objects_;
  std::vector<uint32_t> results_;  // of the rest that is about to be done
  bool concludes_ = false;
  uint32_t exhausted_ = 0;  // the iterator that it goes through
  std::unique_ptr<Plan> next_call_;
  uint32_t called_ = 0;
  uint32_t handled_ = 0;
  uint32_t outer_[2]{};               // the values of outer_exception
  uint32_t raised_ = 0;               // the exception on its way
  uint32_t passed_down_ = 0;          // ... to the generator where it is raised, and the object
  Ref passed_down_object_;
  uint32_t frame_value(int32_t identity);
  std::unordered_map<int32_t, uint32_t> frame_values_;
  bool fixes_registrations_ = false;
  int held_ = 0;                      // locks
  size_t stores_ = 0, stores_before_lock_ = 0;
  std::unordered_set<int32_t> traced_;  // frames, by identity, that are in tracebacks, or lead from them
  std::vector<int32_t> source_inputs_;
  std::vector<uint32_t> source_values_;  // by source: the value that stands for it; 0: none yet
  std::unordered_set<int32_t> checked_;  // nodes whose value a check in the graph fixes
  struct Stored {
    uint32_t value;  // that it has now
    Ref owner;       // of an attribute: the object, in this run
  };
  // A list or dict that the recorded code changes.
  struct Outer {
    uint32_t value, source;
    Ref object;
    bool stored = false;  // a list's contents are
    std::vector<std::pair<uint32_t, int32_t>> items;  // a dict's keys that were stored, and Recording::names of each
  };
  // ... to which it only appends.
  struct Appended {
    uint32_t source;
    Ref object;
    std::vector<uint32_t> values;
  };
  struct Touched {
    int32_t source;  // -1: of a dict of names, which is the same in every run
    Ref object;
    bool changed;
    bool as_a_whole;  // a dict: it was asked for more than single names
  };
  class TouchedOnes {
   public:
    // What is touched in a way in which it wasn't before; null: it was.
    Touched* touch(int32_t source, Borrowed object, bool changes, bool as_a_whole = false);
    size_t size() const { return all_.size(); }
    const Touched& operator[](size_t index) const { return all_[index]; }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

   private:
    std::vector<Touched> all_;
    std::unordered_map<intptr_t, size_t> places_;
  };
  // Whether the instruction does no more than hand its operands on.
  static bool hands_on(const evaluator::Activation& frame, const bytecode::Instruction& instruction);
  int32_t owner_of_dict(int32_t source) const;
  bool has_stored_into_owner(int32_t source, Borrowed key) const;
  PyObject* name_asked_for(const evaluator::Activation& frame, const bytecode::Instruction& instruction, int slot);
  bool touches_apart(const evaluator::Activation& frame, const bytecode::Instruction& instruction);
  bool are_apart(const Touched& dict, const Touched& object);
  bool is_other_dict(const Touched& dict, const Touched& names);
  int32_t source_of_names(const Touched& names);
  TouchedOnes objects_, dicts_, namespaces_;
  bool resolve_operands(const evaluator::Activation& frame, const bytecode::Instruction& instruction);
  bool resolve_operand(int slot, PyObject* object, bool is_looked_into);
  uint32_t enter_known(uint32_t source, Borrowed object, std::vector<uint32_t> elements, size_t added);
  void take_over_iterators(uint32_t source, const Outer& outer);
  void note_change(int32_t container, const std::vector<uint32_t>& before);
  void note_items(Outer& outer, const std::vector<uint32_t>& before, const std::vector<uint32_t>& now);
  void guard_stores();
  int32_t add_name(Name name, Borrowed object);
  Outer* find_outer(uint32_t value);
  int32_t place_of_name(Borrowed dict, Borrowed name) const;
  int32_t place_of_cell(uint32_t owner, Borrowed cell);
  int32_t place_of_attribute(uint32_t owner, Borrowed object, Borrowed name);
  void note_store(int32_t name, uint32_t value);
  std::vector<Stored> stored_;  // by Recording::names
  std::vector<Outer> outers_;
  std::vector<Appended> appended_;
  std::vector<std::pair<uint32_t, PyObject*>> through_;  // sources whose elements are gone through
  // An object from outside that the program may let go.
  struct Watched {
    Ref object;
    const Py_ssize_t* held;        // of counts_
    std::vector<uint32_t> labels;  // that stand for it, as far as known
    int32_t last_slot = -1;        // of those that hold one of them
  };
  static bool stands_for(const Watched& watched, uint32_t label) { return std::find(watched.labels.begin(), watched.labels.end(), label) != watched.labels.end(); }
  void watch(PyObject* object, uint32_t label);
  void watch_results(const Site& site);
  // How far a walk has come through what only grows.
  struct Seen {
    size_t objects = 0, dicts = 0, namespaces = 0, stored = 0, outers = 0, adopted = 0;
    Recording::Seen recording;
  };
  int traverse_growing(Seen& seen, visitproc visit, void* arg) const;
  int traverse_passing(visitproc visit, void* arg) const;
  void count_held();
  bool may_hold_all(PyObject* object, Py_ssize_t held, Py_ssize_t others) const;
  bool look_at_watched(const evaluator::Activation& frame);
  // Of one of these objects nobody else has a reference; counts those held here, from what is given.
  bool holds_last_of_any(std::unordered_map<PyObject*, Py_ssize_t>& held);
  bool look_for_ends();
  void let_go();
  std::vector<Watched> watched_;
  std::unordered_set<PyObject*> watched_ones_;
  std::vector<Ref> ended_silently_;
  Counts counts_;  // references that are held here or have ended silently, at most: counted as they come
  Seen seen_;
  std::unordered_map<PyObject*, Py_ssize_t> lost_;  // references from these, and from what ended with them
  Py_ssize_t lost_references(PyObject* object) const;
  bool only_pushed_ = false;  // the last instruction: it has let nothing go
  std::vector<std::pair<int32_t, uint32_t>> telling_;  // slots at the start whose objects tell of their end, and their labels
};

}  // namespace evalframe::recorder
