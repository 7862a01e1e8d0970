// Straight-line code in a native loop, which either does all that one recording does, or leaves in front of it with nothing done.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/native/code/element.h"
#include "regions/routine.h"
#include "regions/type.h"

namespace evalframe::regions {

using native::Emitter, native::Term;
struct Expression;
struct Region;

// Of a LogEntry's `where`: the size, in bytes, stands above the address.
inline constexpr int kLogSizeShift = 56;
// ... in place of a size: the entry stands behind others that hold what was there: `old` bytes, one beside the other.
inline constexpr uint64_t kManyBytes = 0xff;
// ... the entry stands for a part of an array (part_log.h), whose address it has.
inline constexpr uint64_t kPartOfArray = 0xfe;

// Why something isn't done natively.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a number is in the turns of an inner loop, see many_turns.h.
enum class Varies : uint8_t { kNot, kEvenly, kAnyhow };

// A value in registers.
struct Written {
  Type type;
  native::Value number;        // of numbers
  std::vector<Term> words;     // of arrays, ranges and their iterators
  std::shared_ptr<Expression> expression;  // a new array that is computed where it is needed: it has no words
  bool is_of_fresh = false;      // a view of an array that the loop has made
  std::string memory = {};       // ... of the block: see Strided
  PyObject* constant = nullptr;  // a known object, borrowed from the recording
  PyTypeObject* names_type = nullptr;  // the value is this class
  bool is_tuple = false;         // of `items`: an index or a shape, which isn't kept
  std::vector<Written> items;
  Varies varies = Varies::kAnyhow;  // evenly: more by the same in each turn; of an array: whether it is the same
  int holder = 0;  // of an array: see Strided
};

// What is to be kept of a value: the words of its type.
std::vector<Term> words_of(const Written& value);
Written written_int(const Term& value);
Written written_float(const Term& value);
Written written_bool(const Term& value);
Written written_complex(const Term& real, const Term& imag);
Written written_scalar(const native::Value& value);
// Of a Python number that is known.
Written written_constant(Emitter& emitter, PyObject* constant);
// The value behind words of its type.
Written written(const Type& type, std::vector<Term> words);

// An array, or part of one: where its elements are.
struct Strided {
  Type type;                          // of the array; kFresh: all of a new one, whose elements stand one beside the other
  Term base;                          // the object that has the memory; no type: the loop has
  Term data;                          // the first element
  std::vector<Term> sizes, strides;   // elements, bytes
  std::string memory = {};            // of an array that the block has made: the name of its first element
  int holder = 0;                     // what has it from the entry to the end: 1 + the slot of a variable, -1 - the number of a source. 0: it isn't known
};

// Whether one turn is written, the addresses in the first and last one of many, or many turns.
enum class Pass : uint8_t { kTurn, kProbe, kMany };

class Block {
 public:
  // name: what the names of its values and labels begin with. leave: the label for where it isn't done. region: gets the routines that it calls, and which
  // arrays it takes to share no memory.
  Block(const std::string& name, std::string leave, Region& region)
      : emitter(false, "%" + name + "."), name_(name), leave_(std::move(leave)), region_(region) {}

  // Goes on only where it holds (an i1).
  void leave_unless(const Term& holds);
  void leave_if(const Term& holds) { leave_unless(!holds); }
  // The same where nothing is harmed by going on: of many turns it is looked at once, when they are done.
  void expect(const Term& holds);
  void expect_not(const Term& holds) { expect(!holds); }
  // kProbe: it leaves.
  void require(const Term& holds);
  // NumPy reports the floating-point conditions of what led to this value.
  void watch(const Term& result) {
    if (pass != Pass::kProbe) watched_.push_back(result);
  }
  void watch(const native::Value& result);
  // Leaves where there was a condition that is reported, in this block or since the loop's last checkpoint. Nothing is looked at where nothing
  // can have met one since the last look.
  void look_at_conditions();
  std::string new_label() { return name_ + ".l" + std::to_string(labels_++); }

  // What is to be stored, in order, once nothing can fail any more: one element, or as many as an array has.
  struct Store {
    Term address;
    native::Value value;
    // An array: the elements of one of the same sizes, or a number for all.
    std::shared_ptr<Strided> to, from;
    Varies varies = Varies::kAnyhow;  // the address, from turn to turn
    std::shared_ptr<Expression> computes = {};  // in the place of `from`: it is computed when all is stored, where it can be in the array itself
    std::shared_ptr<Strided> in = {};  // of an element that may be anywhere: the array, if that is the same in all turns
    int holder = 0;                    // of an element: that of its array
  };
  std::vector<Store> stores;
  bool stores_arrays() const;
  // Whether nobody has seen the memory that was taken since the block began, or was committed, so that it is stored into at once: where
  // the block is left, it is as if that had never been.
  bool is_own(const std::string& memory) const;
  // Of elements, by the array and the indices: one that is named twice has one address, so that what was stored there is known.
  std::map<std::string, Term> addresses;
  // Parts, the same.
  std::map<std::string, Strided> parts;
  // How many elements masks keep, by where they are, since memory was written last.
  std::map<std::string, Term> kept_counts;
  // To be stored into an array, or stored already if the memory is its own. base: the object that has the array's memory.
  void store(Store store, const std::string& memory, const Term& base);
  // What the stores compute yet may read what is about to change: it is computed into memory of its own.
  void compute_stores();
  // What is at the address then, of an array with this holder.
  native::Value load(DType dtype, const Term& address, Varies varies = Varies::kAnyhow, int holder = 0);
  // All that was done so far is kept: writes what is to be stored. Elements, and parts of arrays for which the log has room, can be put back where a
  // condition is found later; what can't be is only done where there was none.
  void keep();
  // Something was done that can't be undone: the loop has to have a checkpoint behind it.
  bool is_done() const { return done_; }
  // Whether it ends with new arrays in variables, and memory may be taken from its other half then.
  bool takes_memory() const { return done_ && !taken_.empty(); }
  void mark_done() { done_ = true, done_where_.reset(); }
  // The same, where it holds (an i1); none: it never does, or always.
  const std::optional<Term>& done_where() const { return done_where_; }
  int logged() const { return logged_; }
  // Whether what is in rows of neighbours, which are about to be computed anew, is in the log (an i1).
  Term logged(const Strided& rows) { return logged_where(emitter.integer("i1", -1), emitter.integer("i1", 0), rows, true); }
  bool meets_conditions() const { return meets_conditions_; }
  // All that was done so far is done: from here on it leaves for that label.
  void leave_for(std::string label) {
    leave_ = std::move(label);
    own_.clear();
  }

  // Memory for a new array, which it has to the end of the block, or as long as a variable has it.
  Term allocate(const Term& bytes);
  bool is_taken(const std::string& memory) const { return taken_.count(memory) > 0; }
  // What is taken from here on is free again at its end, unless a variable has some of it. Then memory is taken from its other half, if
  // all new arrays that variables have (`arrays`) stand in this one, and a checkpoint is made.
  void begin_memory();
  void end_memory(const std::vector<Term>& in_variables, const std::vector<Term>& arrays);
  // An object that a call has made: the same.
  void holds(const Term& object) { held_.insert(object.ref); }
  // Where free memory begins, and a number for views: variables of the function.
  static constexpr const char* kTop = "%top";
  static constexpr const char* kSerial = "%serial";
  // After how many turns something is looked at; as how many more calls are counted.
  static constexpr const char* kDue = "%due";
  static constexpr const char* kTurnsOfCalls = "%turns.of.calls";
  Term new_serial();
  // A row or rows of elements, as a routine gets them; outer, inner: bytes from row to row, and to the next element.
  struct Rows {
    Term data, outer, inner;
  };
  // Leaves where it gives anything but 0, and goes back to the checkpoint if it has done something then (an i1). skips_empty: it isn't called for no
  // rows, or no columns.
  void call(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns, bool skips_empty, const std::optional<Term>& has_done = {});
  // What it gives (an i32).
  Term called(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns, bool skips_empty);
  // The same of a routine for any dimensions, which isn't called for no elements.
  struct Place {
    Term data;
    std::vector<Term> strides;
  };
  void call_over(const Routine& routine, const std::vector<Term>& sizes, const std::vector<Place>& operands, const std::optional<Term>& has_done = {});
  // Memory for the number that is a call's operand of that index.
  Term number_at(int index);

  // What is to be written yet, for code beside.
  struct Saved {
    std::vector<Store> stores;
    std::vector<Term> watched;
    bool done, may_have_met;
    std::optional<Term> done_where;
  };
  Saved save() const { return {stores, watched_, done_, may_have_met_, done_where_}; }
  void restore(Saved saved) {
    stores = std::move(saved.stores), watched_ = std::move(saved.watched), done_ = saved.done, may_have_met_ = saved.may_have_met, done_where_ = std::move(saved.done_where);
  }

  // What is watched, which isn't from now on.
  std::vector<Term> take_watched() { return std::exchange(watched_, {}); }

  Emitter emitter;
  Pass pass = Pass::kTurn;
  std::string arrays_are_logged;  // kMany: the variable that says whether all arrays are of which elements anywhere are stored; empty: none is
  std::string failed;      // kMany: the variable that says whether something wasn't as expected
  bool is_strict = false;  // kProbe: it leaves, which it does for nothing else
  // Of numbers that vary evenly, or not at all: what the variables of quotients that are the same in all turns begin with; empty: each turn divides.
  std::string quotients;
  struct Quotient {
    Term quotient, number, divisor;
  };
  std::vector<Quotient> shared_quotients;  // so far
  bool divides = false;                // what could be such a quotient
  // kProbe: it leaves for nothing, and asks where the elements are that a turn loads at addresses that vary evenly, or not at all.
  bool peeks = false;
  struct Element {
    DType dtype;
    Term address;
    int holder;
  };
  std::vector<Element> peeked;
  // What rows get is computed behind all turns (row_turns.h): where it reads elements is of interest, and has to vary evenly, or not at all.
  bool puts_off_rows = false;
  // kMany: those were loaded when the turn began, into variables with names that begin so, with values of these types.
  std::string loaded;
  std::vector<std::string> loaded_types;
  // kMany: where the element is that the turn before has stored, which loads of these numbers, of those at addresses that vary evenly, would read,
  // and where what this turn stores is put for the next one: variables.
  struct Carries {
    std::string from, to, type;
    std::set<size_t> loads;
  };
  std::optional<Carries> carries;
  size_t even_loads() const { return even_loads_; }

 private:
  std::string name_, leave_;
  int labels_ = 0;
  size_t even_loads_ = 0;
  std::vector<Term> watched_;
  bool done_ = false, meets_conditions_ = false, counts_calls_ = false;
  std::optional<Term> done_where_;
  bool may_have_met_ = true;  // a condition, since the last look
  int logged_ = 0;  // elements that may have to be put back
  Region& region_;
  std::set<std::string> taken_, own_;
  std::set<std::string> held_;
  Term top_;          // of free memory, at the beginning
  Term held_before_;  // how many objects were held

  native::Value load_from_memory(DType dtype, const Term& address, std::optional<size_t> even, int holder);
  void write_store(const Store& store);
  void keep_computed();
  Term has_room_for(const Strided& array, bool is_computed);
  void log_array(const Strided& array);
  Term logged_part(const Strided& array, const Term& is_due);
  void log_parts();
  Term logged_where(const Term& may, const Term& is_due, const Strided& array, bool is_computed);
  Term log_where(const Term& may, const Term& is_due, const Strided& array, bool is_computed);
  void copy_bytes(const Term& from, const Term& to, const Term& bytes);
  // Goes on behind it; looks at conditions only where it holds.
  void look_where(const Term& holds);
  Term are_neighbours(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns);
  void copy_row(DType dtype, const Rows& from, const Rows& to, const Term& count);
  void count_calls();
  void put(const char* list, size_t index, const Term& value);
  void log(const Store& store);
  void pin();
  void change_halves(const std::vector<Term>& arrays);
};

// Of a load or store of elements of an array with this holder, and of all holders: what LLVM is told of those that share no memory.
std::string scope_hint(int holder);
std::string scopes_text(const Region& region);

// Of the log, for so many bytes that stand one beside the other: one entry stands behind them.
inline Term entries_of(const Term& bytes) { return native::binary("lshr", bytes + 31.0, bytes.emitter->integer("i64", 4)); }

}  // namespace evalframe::regions
