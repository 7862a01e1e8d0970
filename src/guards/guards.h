// Sources say how to reach a value again; guards say what must hold of it. guards/program.h makes of them what a call runs.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ref.h"
#include "frontends/torch/tensors.h"
#include "graph/graph.h"

namespace evalframe::guards {

enum class Reach : uint8_t {
  kSlot,       // slot `index` of frame `frame` of the chain
  kAttribute,  // attribute `name` of the parent; the parent's class is guarded so that no Python code runs
  kMethod,     // the function that `parent.name` binds, found on the class and not shadowed by the instance
  kItem,       // parent[index] of a list or tuple, parent[key] of a dict
  kCell,       // contents of the cell `object`, or of the parent, which is one
  kReferent,   // what the parent, a weak reference, leads to; None where that is gone
  kTurn,       // what the parent, an iterator, gives in `index` turns
  kObject,     // `object` itself, which a name guard or a function's defaults fix
};

// Flags of an array that kernels and replays depend on (NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE).
constexpr int kArrayFlags = 0x0100 | 0x0400;

// What sequence and mapping patterns ask of a class (Py_TPFLAGS_SEQUENCE | Py_TPFLAGS_MAPPING): registering it with an ABC changes it.
constexpr unsigned long kPatternFlags = 1UL << 5 | 1UL << 6;

enum class Check : uint8_t {
#define EVALFRAME_CHECK(name, text, hint) name,
#include "guards/checks.def"
#undef EVALFRAME_CHECK
};

// Of what is asked before the first instruction.
constexpr graph::Origin kNowhere{-1, -1};

// Ways to values, as text that is the same in each recording that starts at one place.
using Paths = std::set<std::string>;

// What a class and its bases have, for when its version has changed by a store that doesn't matter: of data that the recording stores
// itself, reads anew in each run, or has nothing to do with.
class ClassContents {
 public:
  explicit ClassContents(PyTypeObject* type);
  // The attribute has to be what it was, though it is data.
  void fix(Borrowed type, Borrowed name);
  bool holds() const;
  PyTypeObject* type() const { return type_.as<PyTypeObject>(); }
  // Whether one of these attributes has to be what it was; and those that are other data than they were.
  bool fixes_any_of(const Paths& paths) const;
  void add_changed(Paths& changed) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Entry {
    Ref name, type, value;  // value null: a program may be told of its end, so it isn't held; what a recording uses of it is
    PyObject* identity;
    bool fixed;
  };
  struct Names {
    Ref type;
    std::vector<Entry> entries;
  };
  Ref type_, order_;
  std::vector<Names> classes_;
  bool known_ = true;  // all names are plain text
};
// What programs count and keep in classes: no descriptor, and nothing that is told of its end.
bool is_class_data(Borrowed object);

// Something that must hold of an object.
struct Fact {
  Check check = Check::kNone;
  Ref want;                   // kEqual, kIdentity: the object; kType, kTypeVersion, kClassVersion, kLength: the type; kArray: the descr; kKeys, kOrderedKeys, kElements: a tuple; kHas, kHasNot: the element; kLacks: the name; kPattern: the class
  uint32_t type_version = 0;  // kTypeVersion, kClassVersion
  Py_ssize_t length = 0;      // kLength; kPattern: of kPatternFlags
  graph::Meta meta;           // kArray
  int32_t array_flags = 0;    // kArray: of kArrayFlags
  std::shared_ptr<ClassContents> contents;  // kTypeVersion, kClassVersion
  int32_t other = -1;         // kSame, kDistinct, kApart: an earlier source
  std::shared_ptr<const torch::Facts> tensor = {};  // kTensor
  graph::Origin asked_at = kNowhere;

  // A value that changes from run to run makes it fail, and a more general recording can do without it.
  bool fixes_number() const;
  Fact copy() const;
};

// One value that the recording read from outside. Parents come before children.
struct Source {
  Reach reach;
  int32_t parent = -1;  // index of a source, or -1
  int32_t frame = 0;    // kSlot
  int32_t index = -1;   // kSlot, kItem of sequences, kTurn
  Ref object;           // kAttribute, kMethod: the name; kItem of dicts: the key; kCell: the cell
  Fact fact;
  std::vector<Fact> more;  // facts that `fact` doesn't imply
  Source copy() const;
};

// Finds what was added under a key before: open addressing, without an allocation for each key.
class KeyIndex {
 public:
  struct Key {
    int32_t kind, a, b, c;
    const void *p, *q;
    bool operator==(const Key&) const = default;
  };
  // The number that is kept under the key; `number` is kept from now on if there is none.
  int32_t find_or_add(const Key& key, int32_t number);

 private:
  struct Place {
    Key key;
    int32_t number = -1;
  };
  Place& place_of(const Key& key);
  std::vector<Place> places_;
  size_t used_ = 0;
};

// Names that a dict (globals, builtins, a module's) must still map to the same objects; null: must lack.
struct DictGuard {
  Ref dict;
  mutable uint64_t version;  // re-armed when an unrelated store changed it
  std::vector<std::pair<Ref, Ref>> names;
  std::vector<graph::Origin> asked_at;  // of each
};

// A function whose code was recorded: code, defaults and keyword defaults must be the same objects.
struct FunctionGuard {
  Ref function, code, defaults, keyword_defaults;
  graph::Origin asked_at = kNowhere;
};

std::string path_of_slot(int frame, int slot);
std::string path_of_size(const std::string& tensor, int dimension);
std::string path_of_item(const std::string& container, Borrowed key);  // of a dict
std::string path_of_item(const std::string& container, int32_t index);
std::string path_of_keys(const std::string& container);                 // which there are, of a set's elements as of a dict's keys
std::string path_of_name(Borrowed dict, Borrowed name);  // of a source that reads it
std::string variable_text(Borrowed dict, Borrowed name);  // such as `numpy.pi`, of a module's variable
bool is_number(Borrowed object);  // an exact int, float or complex
// An array or a number: what a program gives new values to, where functions and modules stay what they are.
bool is_data(Borrowed object);

// All facts of one recording.
class GuardTable {
 public:
  std::vector<Source> sources;
  std::vector<DictGuard> dicts;
  std::vector<FunctionGuard> functions;
  std::vector<torch::State> states;  // of the thread, which operations on tensors depend on
  graph::Origin asked_at = kNowhere;  // the instruction that is recorded, which what is asked from here on is for
  std::vector<Ref> modules;  // whose attributes are those of their dicts, as no class of the program's looks them up

  int32_t add(Source source);  // or the equal one that is there already
  // Strengthen what is asked of a source; `object` is its present value.
  void require_type(int32_t source, Borrowed object);
  void require_equal(int32_t source, Borrowed object);
  void require_identity(int32_t source, Borrowed object);
  void require_array(int32_t source, Borrowed object);
  // varies: by dimension, as in torch::Facts.
  void require_tensor(int32_t source, Borrowed object, std::vector<uint8_t> varies = {});
  bool require_type_version(int32_t source, Borrowed object);  // false: the class can't be versioned
  bool require_class_version(int32_t source, Borrowed type);   // of a source that is the class itself
  // The class's attribute of this name, which is data, has to be what it is.
  void fix_attribute(Borrowed type, Borrowed name);
  void require_length(int32_t source, Borrowed object);
  void require_length_of(int32_t source, Borrowed object, Py_ssize_t length);  // ... where it has another length by now
  void require_keys(int32_t source, Borrowed dict);  // of a dict or OrderedDict: these keys, in this order, which must be immutable
  void require_lacks(int32_t source, Borrowed name);  // no attribute of its own of this name; its class, which has none, is guarded
  void require_pattern(int32_t source, Borrowed type);  // sequence and mapping patterns go on matching instances of the class, or not
  void require_elements(int32_t source, Borrowed set);  // the same of a set's elements
  void require_member(int32_t source, Borrowed element, bool there);  // of a set or dict: it has this element, or hasn't
  // The two sources reach one object, or two.
  void require_same(int32_t source, int32_t other, bool same);
  void require_apart(int32_t source, int32_t other);  // neither is the dict of the other's attributes, nor have they the same one
  void require_name(Borrowed dict, Borrowed name, Borrowed value);  // value null: absent
  void require_function(Borrowed function);
  void require_module(Borrowed module);
  // What another table asks besides its sources. False: it asks for something else than this one.
  bool take_surroundings(const GuardTable& other);
  // The same of a source of another table, whose parent and facts about others are numbered as here; `index` is where it stands.
  bool take_source(Source source, int32_t& index);

  // The way to the source's value.
  std::string path(int32_t source) const;
  // Held by a variable of the frames, or by containers in one.
  bool is_given(int32_t source) const;
  // Whether a value that is known to change is asked to be equal.
  bool fixes_any_of(const Paths& paths) const;

  // Text of source / of all guards, one line each.
  std::string source_name(int32_t source) const;
  std::vector<std::string> describe() const;
  // The same, with what each guard looks at, and what to do where it fails often.
  struct Line {
    std::string subject, text, hint;
    int32_t source = -1;  // that it is about; -1: a function, a module, a name or a state of the thread
    graph::Origin asked_at = kNowhere;
  };
  std::vector<Line> lines() const;
  // The text of one of them.
  std::string line_text(int32_t line) const;
  int traverse(visitproc visit, void* arg) const;
  // How far a walk through all that the table has taken has come.
  struct Seen {
    size_t taken = 0, states = 0, contents = 0;
  };
  // Visits what was taken since. A fact's object that gave way to a stronger fact's is visited, too, and may be gone.
  int traverse_new(Seen& seen, visitproc visit, void* arg) const;
  std::vector<std::string> slot_names;  // for texts: names of frame 0's slots

 private:
  void each_line(const auto& take) const;
  void require(int32_t source, Fact fact);
  void require_too(int32_t source, Fact fact);
  std::string slot_name(const Source& source) const;
  std::string object_name(Borrowed object) const;
  std::string wanted_text(const Fact& fact) const;
  std::string text_of(const Fact& fact) const;
  std::shared_ptr<ClassContents> contents_of(PyTypeObject* type);
  std::vector<std::shared_ptr<ClassContents>> contents_;
  std::vector<std::pair<Ref, Ref>> fixed_;  // classes and names of data in them
  // References to what isn't in contents_ or states, in the order in which they were taken.
  std::vector<PyObject*> taken_;
  void note_taken(std::initializer_list<PyObject*> objects) { taken_.insert(taken_.end(), objects); }
  KeyIndex index_;
  std::unordered_map<PyObject*, std::pair<int32_t, int32_t>> name_of_;  // of a guarded value: its dict and its name there
};

}  // namespace evalframe::guards
