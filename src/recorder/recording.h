// What a recording is: the graph, the guards, and for every point at which it may be left, the interpreter's state there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytecode/instruction.h"
#include "core/few.h"
#include "core/held.h"
#include "graph/graph.h"
#include "guards/guards.h"

namespace evalframe::recorder {

enum class Break : uint8_t {
#define EVALFRAME_BREAK(name, reason, hint) name,
#include "recorder/breaks.def"
#undef EVALFRAME_BREAK
};
const char* reason(Break why);
const char* hint(Break why);

// What is known about the object in a slot. Immutable, named by its index in Recording::values; slots hold the index.
// Value 0 is "nothing in the slot".
struct Value {
  enum class Kind : uint8_t {
    kNull,
    kSource,
    kNode,
    kConstant,
    kTruth,  // the truth of the NumPy scalar of another value
    kOuterException,  // being handled around the recorded frames, or None
    // What follows is made by the recorded code, and one object each.
    kTuple,
    kList,
    kSlice,
    kDict,
    kMapping,  // of a subclass of dict that adds nothing to what a dict keeps: OrderedDict, defaultdict
    kDeque,
    kMade,  // what a call of a constant gave that depends on its arguments alone: enumerate(x), d.items()
    kReplayed,  // of a mutable type of C's: what a call gave, and what later calls made of it
    kCell,
    kFunction,
    kInstance,  // of a class of the program's
    kException,
    kTraceback,
    kGenerator,  // or a coroutine
    kFrame,  // of a recorded call
    kIterator,
  };
  Kind kind = Kind::kNull;
  bool of_shapes = false;  // kNode: follows from the metadata of arrays alone, so that checks on it are cheap and rarely fail
  // kSource: source; kNode: node; kConstant: constant (b: 1 + index into Recording::classes, if it stands for a class that the recorded code makes); containers: container; kIterator: the iterable's value; kTruth: the value;
  // kGenerator: index into Recording::generators
  int32_t a = -1;
  int32_t b = 0;           // kIterator: position; kInstance, kException, kMapping: the class, a constant; kDeque: its greatest length, a constant; kTraceback: the trace point; kFrame: its identity; kOuterException: 1: whoever handles it
  bool of_numbers = false;  // kNode: a Python number computed from Python numbers alone: a branch on it is a check in the graph
};

// Where a call of known arguments has raised an exception: an exit makes the call once more, and takes what it raises.
struct RaisedByCall {
  uint32_t call = 0;     // 0: the recorded code has made the exception
  uint32_t handled = 0;  // what was being handled then; 0: what was at the start
  int entries = 0;       // of the traceback, of frames in the call
};

// Elements of what the recorded code has made. What an instance has of a builtin type that its class inherits from stands before its
// attributes, under no name. A list's, a deque's, a dict's (keys and values in turn), or an instance's or exception's (names
// and values of its attributes) are a window of all that it
// has held: it grows by appends, and moves to the end when anything else changes. A cell's last element is what it holds (0:
// nothing). What is replayed has a kMade for the call that made it and for each that changed it, without the object itself. A function's are its code, globals, defaults, closure, annotations and keyword defaults (0: none), and behind these names and values of its attributes. What a call made has the callable, the names
// of keywords (0: none) and its arguments, a traceback the next one (0: none); a call's window begins behind as many elements as it has given, if it is an iterator.
struct Window {
  uint32_t begin = 0, length = 0;
  bool operator==(const Window&) const = default;
};
// An iterator over a set or deque, and what that was when the iterator was made: one that has changed its size since is told so.
struct Begun {
  uint32_t iterator;
  Window over;
};
struct Container {
  std::vector<uint32_t> elements;
  Window initial, present;
  uint32_t factory = 0;  // a defaultdict's
  uint32_t owner = 0;  // the instance whose contents it is: of a class that inherits from list or dict
  uint32_t instance = 0, attributes = 0;  // of an instance whose dict someone has: itself, and the value of the dict, which shares the elements
  RaisedByCall raised;  // an exception's, whose first attributes are as the call has left them
  std::vector<Begun> begun;
  uint32_t outer = 0;  // the source that stands for it where it is a list or dict from outside: its changes are put off to the exit
};

// One change of the interpreter's state. States at any node are the start state plus a prefix of the journal.
struct Change {
  enum class Kind : uint8_t { kSlot, kPush, kPop, kSuspend, kAppend, kWindow, kStore, kAdvance, kHandled, kNames };
  Kind kind;
  // kSlot: slot (over all frames); kPush: index into Recording::pushes; kSuspend: the generator; kAppend, kWindow: container; kStore:
  // index into Recording::names; kHandled: the generator, or -1; kAdvance, kNames: none
  int32_t where;
  // kSlot, kAppend, kStore; kHandled: the exception being handled; kWindow: index into Recording::windows; kSuspend: into ::suspensions; kNames: the innermost
  // frame's dict of names
  uint32_t value;
};

// What the recorded code stored into. The store itself is put off to the exit.
struct Name {
  enum class Kind : uint8_t {
    kName,       // `name` in the dict of a module
    kForget,     // the same: the name is taken out
    kAttribute,  // attribute `name` of the owner
    kAppend,     // the end of the owner, a list
    kItem,       // the owner, a dict, at `key`
    kDelete,     // the same: the key is taken out
    kCell,       // the owner, a cell that other functions share
    kContents,   // all that the owner, a list, holds: that of the stored value
    kCall,       // a call that changes the owner: the stored value is what a call gave, whose first argument is missing
    kContext,    // the owner, a context variable, is set or reset: the stored value is what that call gives
  };
  Kind kind = Kind::kName;
  Ref dict, name;
  uint32_t owner = 0, key = 0;  // values
};
struct PendingStore {
  int32_t name;    // index into Recording::names
  uint32_t value;
};
// Where such a store was recorded, for people.
struct StoreNote {
  graph::Origin at;
  int32_t name;      // index into Recording::names
  uint32_t nodes;    // that stand before it
  uint32_t journal;  // changes before it
};

// A frame of the inlined chain: at the start of the recording, or pushed by a call in it.
struct FrameStart {
  Ref function;
  const bytecode::Code* code;
  int32_t base;         // its first slot in the numbering over all frames
  int32_t graph_frame;  // index into Graph::frames
  int32_t identity;     // the same, but for a generator's: that of its first
  int32_t generator;    // index into Recording::generators; -1: none's
  // The state of the frame itself (innermost frame at the start) or of its caller (pushes): next instruction and slots in use.
  int32_t next;
  int32_t depth;
  uint32_t names = 0;   // the dict of a class body's names, or what locals() has given
  uint32_t globals = 0;  // the dict that exec() was given for them; 0: the function's
};

// State of one frame at an exit.
struct FrameState {
  Borrowed function;
  const bytecode::Code* code;
  int32_t identity;  // of which FrameStart it comes from
  int32_t generator;  // index into Recording::generators; -1: none's
  int32_t next;  // the instruction to run next
  std::vector<uint32_t> slots;  // values, localsplus and stack
  uint32_t names, globals;  // see FrameStart
};

// Where a graph is left: the graph values that the state is made of, the frames, and the stores that are due.
struct Landing : Holdable {
  // What a slot gets for which nothing has to be made.
  struct Move {
    enum class From : uint8_t { kNowhere, kSource, kConstant, kExit };
    int32_t slot;
    From from;
    int32_t at;  // the source, the constant, or the place among the exit's values
  };
  graph::ExitPoint exit;
  std::vector<FrameState> states;
  std::vector<PendingStore> stores;
  // Of the outermost frame, if that is the only one: all that changes where it has been there, and all that it gets where it hasn't. None: there is
  // more to be done.
  std::optional<std::vector<Move>> moves, fills;
  // It stands in front of a branch forwards on what the graph has computed, the last one that `fills` has.
  struct Branch {
    int32_t if_false, if_true;  // the instruction on each side, to which the frame comes with all else that it has
  };
  std::optional<Branch> branch;
};

// A generator or coroutine that the recorded code made. Its slots keep their places in the numbering over all frames.
struct Generator {
  Ref function;
  const bytecode::Code* code;
  uint32_t value;    // that stands for it
  int32_t base;      // its first slot
  int32_t identity;  // of its frame
};
// How it waits.
struct Suspension {
  bool begun, delegates;
  int32_t next, depth;
};

// A class that the recorded code makes: another one in each run. While the recording is made, the constant that stands for it is the class of
// that run, which rules may look into: it has what the body says.
struct MadeClass {
  uint32_t value;  // that stands for it
  uint32_t metaclass, name, bases;
  std::vector<uint32_t> names, contents;  // what the body left, in order
  uint32_t changes;  // a dict: what has been put in behind that, and (0) taken out
};

// Where an exception passed: an entry of a traceback, in the terms of CPython's.
struct TracePoint {
  int32_t frame;  // its identity
  int lasti, line;
};
// What a frame that is in a traceback had when it ended: it lives on in its frame object.
struct EndedFrame {
  int unit;  // that ran last
  int32_t back;  // the identity of the frame that it was called from, -1: none
  std::vector<uint32_t> slots;
  uint32_t names;  // see FrameStart
};

// Where in the journal, and at which instruction, a node's exit stands.
struct Mark {
  uint32_t journal;
  int32_t instruction;
  int32_t depth;
};

struct Recording {
  graph::Graph graph;
  guards::GuardTable guards;
  std::vector<int32_t> input_sources;  // source of each graph input
  std::vector<Ref> examples;           // objects of the graph inputs, for a backend that asked for them; dropped when compiled

  std::vector<Value> values{Value{}};
  std::vector<Container> containers;
  std::vector<Window> windows;
  std::vector<Change> journal;
  std::vector<FrameStart> start;               // the chain at the start, outermost first; `next`, `depth` of each
  std::vector<std::vector<uint32_t>> initial;  // slots of each at the start
  std::vector<FrameStart> pushes;
  std::vector<Name> names;
  std::vector<StoreNote> store_notes;
  std::vector<TracePoint> trace_points;
  std::map<int32_t, EndedFrame> ended;  // by identity
  std::vector<Generator> generators;
  std::vector<Suspension> suspensions;
  std::vector<MadeClass> classes;
  std::unordered_map<uint32_t, Py_hash_t> hashes;  // of keys of dicts whose classes hash them, by value
  bool hashed = false;                  // ... there are such keys, or dicts from outside have them
  bool handles = false;                 // exceptions: makes them, or changes which one is being handled
  int deepest = 1;                      // as many frames at once
  bool keeps_ended = false;             // it holds what the program has let go of, and someone would be told of its end
  bool needs_frames = false;            // someone looks at the frames: they must be those that the program has
  int32_t iterator = -1;  // source of the loop's iterator that the recorded code advances; put off to the exit, too
  std::vector<Mark> marks;  // of each node, and one more: the end

  bool returns = false;     // ends by returning `result` from the outermost frame; else by the exit at the end
  uint32_t result = 0;
  Break why = Break::kInstruction;
  std::string why_detail;   // what it was about: the callable, the type
  bool is_barren = false;   // it ends in a call of which nothing comes
  bool leaves_bodies = false;  // it ends in the midst of what torch's higher-order operators call
  Ref awaited;              // the name of a module that isn't loaded yet, in front of whose import it ends
  uint64_t bytecodes = 0;
  std::vector<bool> ways;          // how branches on data in calls went, and whether results there were NumPy's, which are checks in the graph
  bool records_gradients = false;  // torch does, at the start
  std::vector<Ref> torch_modes;    // calls that set torch's modes as they were at the start, where the recorded code changes some
  Ref transforms;           // how torch.func's transformations were at the start, where the recorded code looks at them
  double seconds = 0;       // time of the recorded run, execution included

  // The state before node `node`, or (== nodes.size()) at the end. Cheap when asked with growing numbers.
  std::vector<FrameState> state_at(int32_t node) const;
  // The stores into names that are due there, in the order in which the names were first stored.
  std::vector<PendingStore> stores_at(int32_t node) const;
  // How often the iterator has been advanced there.
  int32_t advanced_at(int32_t node) const;
  // The exception being handled there, by the frames that are no generators'; 0: the same as at the start.
  uint32_t handled_at(int32_t node) const;
  // Whether that is another one than at the start, or a generator among the frames handles one.
  bool handles_at(int32_t node) const;
  // ... by the generator's; 0: none.
  uint32_t handled_by(int32_t generator, int32_t node) const;
  // The graph values that this state is made of.
  graph::ExitPoint exit_at(int32_t node) const;
  // By source: whether inputs, or the exit before any node or at the end, are made of it.
  std::vector<uint8_t> sources_read() const;
  // All of these at once. Kept for the end, where most graphs are left.
  Held<Landing> landing_at(int32_t node) const;
  int traverse(visitproc visit, void* arg) const;
  // The same of what has come since the last such walk, while it is recorded: until then it only grows. What GuardTable::traverse_new says holds here, too.
  struct Seen {
    size_t constants = 0, examples = 0, start = 0, pushes = 0, names = 0, generators = 0;
    guards::GuardTable::Seen guards;
  };
  int traverse_new(Seen& seen, visitproc visit, void* arg) const;
  // Variables at the start whose objects the recorded code lets go of, though nothing asks what they are.
  struct Variable {
    int32_t frame, slot;
  };
  std::vector<Variable> let_go() const;
  // Whether there are objects that only the recorded run has really made, and that could be garbage.
  bool makes_objects() const;
  // The made class that the constant stands for; null: another constant.
  const MadeClass* made_class(int32_t constant) const;

 private:
  struct Cursor;
  mutable std::shared_ptr<Cursor> cursor_;
  Cursor& cursor_to(int32_t node) const;
  mutable Held<Landing> end_;
  const MadeClass* class_behind(const Value& value) const;
  void collect(uint32_t value, Cursor& cursor, std::vector<graph::Operand>& operands) const;
  void collect_ended(int32_t frame, Cursor& cursor, std::vector<graph::Operand>& operands) const;
  void collect_generator(int32_t generator, Cursor& cursor, std::vector<graph::Operand>& operands) const;
  int32_t generator_of(int32_t frame) const;
  const FrameStart& frame_start(int32_t frame) const;
  void collect_elements(const Value& value, Cursor& cursor, std::vector<graph::Operand>& operands) const;
  graph::ExitPoint find_exit(int32_t node) const;
  std::optional<std::vector<Landing::Move>> find_moves(const Landing& landing, bool all) const;
  std::optional<Landing::Move> move_of(const Landing& landing, int32_t slot) const;
  std::optional<Landing::Branch> find_branch(const Landing& landing) const;
  int traverse_own(Seen& seen, visitproc visit, void* arg) const;
  friend class Rebuild;
};

// The type of deques, in the module collections.
PyObject* type_of_deques();

// The frames of a state that is being made again.
class LiveFrames {
 public:
  virtual ~LiveFrames() = default;
  // The frame object of a frame that is there, by its identity; null without an exception: it isn't.
  virtual Ref frame_object(int32_t frame) = 0;
};

// Makes the objects of a state again from the exit's graph values: one object for each value, so that identities hold.
class Rebuild {
 public:
  // objects: one for each of exit.values. sources: the objects of the guards' sources. frames: what tracebacks are made of; null:
  // there are none.
  Rebuild(const Recording& recording, const graph::ExitPoint& exit, std::span<const Ref> objects, PyObject* const* sources, LiveFrames* frames = nullptr);
  // A new reference; null for value 0, or with an exception (memory).
  Ref make(uint32_t value);
  // A new list of what the list holds at the exit.
  Ref make_contents(uint32_t list);
  // Makes the call, a kMade, with `self` as the first argument.
  Ref call_on(uint32_t call, PyObject* self);

 private:
  static bool is_at_hand(const Value& value);
  PyObject* at_hand(const Value& value) const;
  Ref make_fresh(uint32_t value);
  Ref make_list(uint32_t index, const Value& value);
  Ref make_dict(uint32_t index, const Value& value);
  Ref make_mapping(uint32_t index, const Value& value);
  Ref make_deque(uint32_t index, const Value& value);
  bool make_begun(PyObject* over, const Begun& begun);
  Ref make_instance(uint32_t index, const Value& value);
  Ref make_function(uint32_t index, const Value& value);
  Ref make_class(uint32_t index, const MadeClass& made);
  bool change_class(PyObject* type, const Value& changes);
  Ref class_of(const Value& instance);
  Ref make_bare(uint32_t index, PyTypeObject* type, uint32_t contents);
  bool fill(PyObject* list_or_dict, const Value& contents);
  bool store(PyObject* dict, uint32_t label, PyObject* key, PyObject* item) const;
  Ref call_again(const Value& value, PyObject* self = nullptr);
  Ref make_replayed(uint32_t index, const Value& value);
  Ref make_exception(uint32_t index, const Value& value);
  Ref make_group(uint32_t index, const Value& value, PyTypeObject* type);
  Ref raise_again(const RaisedByCall& raised, PyObject* type);
  Ref make_traceback(uint32_t index, const Value& value);
  Ref make_generator(uint32_t index, const Value& value);
  Ref frame_object(int32_t frame);
  Ref ended_frame(int32_t frame);
  PyObject* known(uint32_t value) const;
  bool advance(PyObject* iterable, PyObject* iterator, int32_t position);
  Window window_of(const Value& value) const;
  const Recording& recording_;
  const graph::ExitPoint& exit_;
  const std::span<const Ref> objects_;
  PyObject* const* sources_;
  LiveFrames* const frames_;
  Few<std::pair<uint32_t, Ref>, 8> made_;
  std::map<int32_t, Ref> ended_;  // frame objects
  Ref outer_[2];                  // what is handled around: as Value::b says
};

}  // namespace evalframe::recorder
