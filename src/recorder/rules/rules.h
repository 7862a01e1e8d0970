// The recorder's rules, grouped by language feature; each group fills its rows of the table.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "recorder/recorder.h"

namespace evalframe::recorder {

using RuleTable = std::array<Rule, static_cast<size_t>(bytecode::Op::kCount)>;

void add_stack_rules(RuleTable& table);      // constants, locals, stack shuffling
void add_name_rules(RuleTable& table);       // globals, closures
void add_attribute_rules(RuleTable& table);
void add_operator_rules(RuleTable& table);   // arithmetic, comparison, subscripts
void add_call_rules(RuleTable& table);
void add_container_rules(RuleTable& table);  // building, unpacking
void add_list_rules(RuleTable& table);       // lists and dicts
void add_replayed_rules(RuleTable& table);   // sets and the like
void add_import_rules(RuleTable& table);     // of modules that are loaded
void add_text_rules(RuleTable& table);       // formatted strings
void add_control_rules(RuleTable& table);    // branches, loops, returns
void add_matching_rules(RuleTable& table);
void add_exception_group_rules(RuleTable& table);
void add_exception_rules(RuleTable& table);
void add_generator_rules(RuleTable& table);
void add_quick_rules(RuleTable& table);      // operations on numbers and arrays alone

// A value and its object.
struct Operated {
  uint32_t label;
  PyObject* object;
};

// torch's functions and methods; none: another callable.
struct Given;
std::optional<Plan> torch_call(Recorder& recorder, uint32_t label, PyObject* callable, const Given& given);
// The apply of a torch.autograd.Function, in C, bound to a class of this label; and what its stand-in calls. None: another callable, or
// one that isn't followed.
std::optional<Plan> apply_of_function(const Site& site, uint32_t type, PyObject* callable, const Given& given);
std::optional<Plan> step_of_autograd(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// Whether an operation of the graph has made the tensor, and it is none of the inputs: another object in each run.
bool is_made_in_each_run(Recorder& recorder, const Operated& tensor);
// What such a node gave that can't be recorded; empty: nothing. And its value: tensors that it gave together are known one by one.
std::string tensor_obstacle(const Recorder& recorder, const Plan& plan, PyObject* result);
uint32_t tensor_result(Recorder& recorder, int32_t node, PyObject* result);
// An operator one of whose operands is a tensor; none: no operand is.
std::optional<Plan> tensor_operation(Recorder& recorder, graph::Form form, uint8_t code, std::initializer_list<Operated> operands);
// tensor[key], and items of several results; none: of another object.
std::optional<Plan> item_of_tensor(Recorder& recorder, const Operated& container, const Operated& key);
struct Asked;
Plan attribute_of_tensor(Recorder& recorder, const Asked& asked);
Plan store_into_tensor(Recorder& recorder, const Asked& asked, const Operated& value);
// What torch.inference_mode() enters has methods of C's; none: another object.
std::optional<Plan> method_of_inference_mode(Recorder& recorder, const Asked& asked);
// torch.max(x, 0).values; none: of another object. And all of its parts.
std::optional<Plan> attribute_of_results(Recorder& recorder, const Asked& asked);
std::optional<std::vector<uint32_t>> parts_of_tensors(const Recorder& recorder, uint32_t label, PyObject* object);
// A number of Python's, or an exact array.
bool is_number_or_array(PyObject* object);
// The operands of a node's plan. An object that can't be one, or null: there is none.
PyObject* fill_node(Recorder& recorder, Plan& plan, std::span<const Operated> inputs);
// What the result of an operator is, besides.
void tell_numbers(Recorder& recorder, Plan& plan, std::span<const Operated> inputs);

// Whether all of it is known: an immutable object that is a fact of the recording, or a container of such.
bool is_known_through(Recorder& recorder, uint32_t label, PyObject* object);
// ... whose elements are immutable.
bool is_known_flat(Recorder& recorder, uint32_t label, PyObject* object);
bool all_known_through(const Site& site, int first, int count);
// A defaultdict, which gets the keys that are looked up in it, also by text that is put together.
bool adds_missing_keys(const Recorder& recorder, uint32_t label);
// What the object, which is known through and through, is now, to be read by a call that an exit makes; 0: not known then.
uint32_t frozen(Recorder& recorder, uint32_t label, PyObject* object);
// Calls of types and methods that `replayed.def` names, and operators with such objects; none: of others.
std::optional<Plan> replayed_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// ... of a method, with its object as the first of what is given.
std::optional<Plan> replayed_method(Recorder& recorder, PyObject* callable, const std::vector<Operated>& given, PyObject* keyword_names);
// Whether a set has objects in it that are known by their places: modules, tensors. Then its order isn't known, nor what is equal to it.
bool holds_placed(PyObject* object);
// `module in {...}`, of a set of such that the recorded code has made; none: of others.
std::optional<Plan> contains_placed(Recorder& recorder, const Operated& item, const Operated& set);
std::optional<Plan> replayed_operator(const Site& site, int number);
// object[key], object[key] = value, and (value.label 0) del object[key].
Plan replayed_item(Recorder& recorder, const Operated& object, const Operated& key);
Plan store_into_replayed(Recorder& recorder, const Operated& object, const Operated& key, const Operated& value);
// class[key], where that is written in C or in typing; none: of another class.
std::optional<Plan> item_of_class(Recorder& recorder, const Operated& type, const Operated& key);
// list[int] | None: a union, one of whose parts the recorded code has made; none: of others.
std::optional<Plan> union_of_types(Recorder& recorder, const Operated& left, const Operated& right);
// A key whose class's __hash__ is Python's; instructions of dicts with one, as calls of what stands in for them. None: of others.
bool is_key_of_class(Recorder& recorder, const Operated& key);
std::optional<Plan> keyed_instruction(const Site& site, const char* name, const std::vector<Operated>& operands);
std::optional<Plan> dict_of_keys(const Site& site, const std::vector<Operated>& parts);
std::optional<Plan> keyed_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// Whether the dict has keys of classes of the program's under the hash of the key, that might be equal to it.
bool holds_keys_of_classes(PyObject* dict, PyObject* key);
// C functions that change a list whose elements are known: list.sort, heapq.heappush; none: others.
std::optional<Plan> rearranging_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);

// A call whose result follows from metadata that the guards fix; none where it isn't one.
std::optional<Plan> metadata_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// An attribute of an element type that never changes.
bool is_dtype_fact(Borrowed dtype, Borrowed name);

// len(container); of a range that is longer than any number of elements in memory, PY_SSIZE_T_MAX.
Py_ssize_t length_of(PyObject* container);
// The elements of a sequence, a dict or an iterator, as values; none where they aren't known one by one.
std::optional<std::vector<uint32_t>> parts_of(Recorder& recorder, uint32_t label, PyObject* object);
// The instruction goes through all of it: if it is an iterator, that is exhausted.
void exhaust(Plan& plan, const Recorder& recorder, uint32_t label, PyObject* object);
uint32_t item_source(Recorder& recorder, const Value& owner, Py_ssize_t index);
uint32_t key_source(Recorder& recorder, const Value& owner, PyObject* key);
// ... and by the name of an attribute, of a source of this number.
uint32_t attribute_source(Recorder& recorder, int32_t parent, Borrowed name);
uint32_t attribute_source(Recorder& recorder, int32_t parent, const char* name);
// A dict from outside is asked for these keys in this order. False: they may run code.
bool require_keys(Recorder& recorder, const Value& source, PyObject* dict);
// enumerate, zip, reversed, iter and next of what has such elements; none: another callable.
std::optional<Plan> iterator_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// What enumerate(object) gives; none: the elements aren't known.
std::optional<uint32_t> enumeration_of(Recorder& recorder, uint32_t label, PyObject* object);
// ... of a generator, whose steps are followed.
uint32_t enumeration_by_steps(Recorder& recorder, uint32_t generator);
// Functions of itertools that arrange such elements; none: others, or not known.
std::optional<Plan> arranging_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// map, filter and iterators of itertools that ask a function: what makes one, whether the value is one, and its step (FOR_ITER).
std::optional<Plan> lazy_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
bool is_lazy(const Recorder& recorder, uint32_t label);
std::optional<Plan> lazy_step(const Site& site);
// As many as they give at most; none: not known.
std::optional<Py_ssize_t> turns_to_come(const Recorder& recorder, uint32_t label, PyObject* iterator);
// One that asks for items by their numbers, from this one on.
uint32_t made_by_number(Recorder& recorder, PyTypeObject* type, uint32_t label, Py_ssize_t first);

// Whether iter() makes such an iterator: of an array, or an instance whose class has no other way than `__getitem__`.
bool is_asked_by_number(Recorder& recorder, const Operated& object);
// ... the iterator; 0: it doesn't, or the array has too many rows, or not always as many.
uint32_t iterator_by_number(Recorder& recorder, const Operated& object);
// GET_ITER of what is asked by number; none: of another object.
std::optional<Plan> iteration_by_number(const Site& site, const Operated& object);
// Whether it is an array that has as many rows in all runs, at most so many.
bool fixes_rows(Recorder& recorder, const Operated& array, Py_ssize_t most);
// parts_of(), where an array that isn't long has its rows read in the graph; the objects that the rows are here are added to `rows`.
std::optional<std::vector<uint32_t>> parts_or_rows(Recorder& recorder, const Operated& of, std::vector<Ref>* rows = nullptr);
// The next one, or the end; what the iterator has come to is in the list `progress`.
Plan item_of_array(const Site& site, PyObject* iterator, uint32_t progress, const Operated& array);
std::optional<Py_ssize_t> rows_to_come(const Recorder& recorder, uint32_t progress, PyObject* array, bool backwards);
// Whether the class of the instance has a function of Python's of this name, and stays as it is.
bool has_method(Recorder& recorder, const Operated& instance, const char* name);
// What GET_ITER gives for dicts, views and iterators; none: another object.
std::optional<Plan> iterator_of(const Site& site, uint32_t label, PyObject* object);
// Methods and constructors of lists, tuples and dicts; none: another callable, or nothing known of the object.
std::optional<Plan> container_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// container[key] = value and the like, of what the recorded code made. Value 0: del container[key].
// A list or dict from outside that an instruction is about to change, as one whose elements are known. False: it can't be.
bool enter(Recorder& recorder, Operated& container);
Plan store_into_made(Recorder& recorder, const Operated& container, const Operated& key, const Operated& value);
// d[key] of a dict that the recorded code made.
Plan item_of_dict(Recorder& recorder, const Operated& dict, const Operated& key);
// Whether the key is in a dict that is known; none: not known.
std::optional<bool> has_key(Recorder& recorder, const Operated& dict, const Operated& key);
// tuple(row), of a list that the recorded code made, as starred arguments are put together.
Plan list_to_tuple(const Site& site);
// row += more.
Plan extended(Recorder& recorder, Operated list, const Operated& more);

// The container of the recorded code's will hold `contents`, unless something goes through it.
Plan plan_change(Recorder& recorder, uint32_t container, std::vector<uint32_t> contents, Plan plan);
// The items of dict(...) and the like, whose arguments begin with that of this number; none: not known. used: what becomes of iterators.
std::optional<std::vector<uint32_t>> items_of_dict_call(const Site& site, const evaluator::Activation::CallSite& call, int first, Plan& used);
// A dict of the recorded code's, or an object of a subclass of it.
inline bool is_made_dict(const Value& value) { return value.kind == Value::Kind::kDict || value.kind == Value::Kind::kMapping; }
// ... or another container that it has made: it knows how much is in it.
inline bool is_made_container(const Value& value) {
  return value.kind == Value::Kind::kTuple || value.kind == Value::Kind::kList || is_made_dict(value) || value.kind == Value::Kind::kDeque || value.kind == Value::Kind::kReplayed;
}
// deque, OrderedDict, defaultdict, and methods of deques that the recorded code has made; none: another callable.
std::optional<Plan> collection_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// deque[key], deque[key] = value, (value 0) del deque[key], deque += more.
Plan item_of_deque(const Site& site, const Operated& deque, const Operated& key);
Plan store_into_deque(const Site& site, const Operated& deque, const Operated& key, uint32_t value);
Plan extended_deque(const Site& site, const Operated& deque, const Operated& more);
// Methods of list and dict that are bound to a container of the recorded code's, and a call of one.
bool is_method_of_containers(PyObject* method);
Plan call_of_container_method(Recorder& recorder, PyObject* method, Operated self, const std::vector<Operated>& given, bool keywords);
// collections' own loop for Counter; none: another callable.
std::optional<Plan> count_of_elements(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// mapping[key], where the key isn't there.
Plan missing_item(Recorder& recorder, const Operated& mapping, const Operated& key);

// left | right, and left |= right, of dicts.
Plan dict_union(Recorder& recorder, Operated left, const Operated& right, bool in_place);

// An exception of a class that makes it plainly; none: another class.
std::optional<Plan> exception_construction(const Site& site, const evaluator::Activation::CallSite& call, PyObject* type);
// Exception.__init__, bound to an exception that the recorded code has made, and a call of that.
Plan exception_initializer(Recorder& recorder, PyObject* initializer, uint32_t exception);
std::optional<Plan> call_of_initializer(const Site& site, const evaluator::Activation::CallSite& call);
// What BaseException gives an exception that the recorded code has made; none: another attribute, or object.
std::optional<Plan> exception_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name);
// A store of what BaseException has; none: another attribute, or object.
std::optional<Plan> store_into_exception(Recorder& recorder, const Operated& exception, PyObject* name, const Operated& value);
// A call of a class of groups of exceptions, and of their methods; whether str() of one follows from what is known.
std::optional<Plan> group_construction(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> group_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
bool has_text_of_groups(Recorder& recorder, const Operated& exception);
// Whether these, of an `except`, are always the same classes, by the guards.
bool fixes_classes(Recorder& recorder, uint32_t label, PyObject* object);
// A break in front of importlib's own code for a module that isn't loaded: it runs the module, once.
std::optional<Plan> loading_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* function);
// issubclass of fixed classes.
std::optional<Plan> class_test(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// str(exception), and methods of exceptions.
std::optional<Plan> exception_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// Raises an exception that depends on what the guards fix.
Plan plan_raise(uint32_t exception = 0);
// What a call is given: values and the objects that they have now, those of keywords last.
struct Given {
  std::vector<uint32_t> labels;
  std::vector<PyObject*> objects;
  Borrowed keyword_names;
  int keywords() const { return keyword_names ? static_cast<int>(PyTuple_GET_SIZE(keyword_names.get())) : 0; }
};
// A call of what has no frame of its own, whose arguments are known one by one; none: with keywords, or too many.
std::optional<Plan> call_by_count(const Site& site, const Operated& callee, const Given& given);
// A builtin function, or a type written in C, that looks at nothing but its arguments, and not at who calls.
bool looks_at_arguments_alone(PyObject* callable);
// What the call gives.
Given given_at(const Site& site, const evaluator::Activation::CallSite& call);
// Classes that the recorded code makes, and what stands in their bodies; none: another callable.
std::optional<Plan> class_making(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> class_statement(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> class_body(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> descriptor_making(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> descriptor_made(Recorder& recorder, PyObject* callable, const std::vector<Operated>& given, Borrowed keyword_names);
std::optional<Plan> class_cell_check(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// A call of what finishes a class, a function of the library's (recorder/finishing.def); none: another callable.
std::optional<Plan> class_finishing(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// A class statement of an enumeration that may be followed with a plain dict for its names; and what its stand-in does with these.
bool is_plain_enum(Recorder& recorder, PyTypeObject* metaclass, const std::vector<PyObject*>& bases, PyObject* body);
std::optional<Plan> enum_making(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// What a class body has left, as names and values in turn; none: not known. cell: that of the class, if it has one.
std::optional<std::vector<uint32_t>> left_by_body(const Site& site, PyTypeObject* metaclass, const Operated& names, uint32_t& cell);
// A module of that name in sys.modules, which is guarded; null: none, or something else.
PyObject* loaded(Recorder& recorder, PyObject* name);
// A property, static or class method that the recorded code made.
bool is_made_descriptor(const Recorder& recorder, uint32_t label);
// A call of a class of the program's, which is one object in all runs: its metaclass's __call__, __new__ and __init__ are followed.
// past_metaclass: as type.__call__ does it. None: another class, or it isn't known what calling it does.
std::optional<Plan> construction(const Site& site, PyTypeObject* type, const Given& given, bool past_metaclass = false);
// ... that inherits __new__ from a builtin type; none: of another.
std::optional<Plan> construction_of_builtin(const Site& site, PyTypeObject* type, const Given& given);
std::optional<Plan> new_of_builtin(const Site& site, PyTypeObject* type, const Given& given);
// call: null where the arguments were starred.
std::optional<Plan> call_of_inherited(const Site& site, PyObject* method, const Operated& self, const Given& given, const evaluator::Activation::CallSite* call);
// A call of __init__ for the new object, which is the result.
Plan call_of_initializer(const Site& site, PyObject* initializer, Ref object, uint32_t instance, const Given& given);
// In front of an instruction: operands whose classes inherit what is asked of them from a builtin type are seen as what they have of
// that type, until this goes.
class AsContents {
 public:
  explicit AsContents(const Site& site);
  ~AsContents() { restore(); }
  AsContents(const AsContents&) = delete;
  AsContents& operator=(const AsContents&) = delete;
  // The operands are as they were again; the plan is for them.
  void finish(Plan& plan) {
    if (!replaced_.empty()) take_back(plan);
  }

 private:
  struct Replaced {
    int slot;
    uint32_t label, contents;
    PyObject* object;
    Ref exact;
  };
  void put(const Replaced& one, uint32_t label, PyObject* object) const;
  void restore();
  void take_back(Plan& plan);
  uint32_t result_for_contents(const Replaced& one) const;
  const Site& site_;
  std::vector<Replaced> replaced_;
  bool restored_ = false;
};
// object.__new__(class), and the same of a builtin type; none: another callable.
std::optional<Plan> new_of_object(const Site& site, const Given& given, PyObject* callable);
// type.__call__, bound to a class (super().__call__): that class; null: another callable.
PyTypeObject* class_of_bound_call(Recorder& recorder, uint32_t label);
PyObject* call_of_type();
PyObject* initializer_of_type();
// What `__new__` gave that a call of a class has followed; a break in front of its return, or none.
std::optional<Plan> return_to_construction(Recorder& recorder, uint32_t label, PyObject* object);
// Whether calls of it may stand in a graph for what they do, though nothing of it follows from the arguments; and such a call.
bool has_effect(PyObject* callable);
// gc.collect: objects that the recorded code hasn't made aren't in what it counts.
bool collects_garbage(PyObject* callable);
Plan effect_call(Recorder& recorder, PyObject* callable, const Given& given);
// A call without arguments of what tells how something is set, for which the guards ask.
Plan present_state(Recorder& recorder, PyObject* callable);
// A call of a function that the program's author has marked (recorder/policy.h); none: of another.
std::optional<Plan> marked_call(Recorder& recorder, uint32_t label, PyObject* callable, const Given& given);
// Streams of the module io and what inherits from them; whether this one runs no Python code, by a check in the graph; whether a node made it.
bool is_stream(PyObject* object);
bool uses_plainly(Recorder& recorder, uint32_t label, PyObject* stream);
bool makes_streams(const graph::Graph& graph, int32_t node);
bool runs_no_python(PyObject* stream);
// warnings.warn; and a call of it.
bool is_warn(PyObject* callable);
Plan warning_call(Recorder& recorder, const Given& given);
// A function without arguments, for guards: whether functions of the program's are told of warnings or of NumPy's floating-point
// conditions. Borrowed; it lives as long as the process.
PyObject* asks_tells_program();
// A function in C that takes a lock, or leaves the graph where that takes waiting.
PyObject* acquire_without_waiting();
// Whether the instruction reads what others may change while they hold the lock that the recorded code has.
bool reads_under_lock(const Site& site, const Plan& plan);
// locals(), vars() and dir() of the frame's own names; none: another callable, or with arguments.
std::optional<Plan> scope_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// eval() and exec() of known text, or of code that is one object in all runs; none: another callable, or not known.
std::optional<Plan> code_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// What a cell from outside holds.
uint32_t content_of_cell(Recorder& recorder, uint32_t label, PyObject* cell);
// sys._getframe, sys.exc_info; attributes of the frames that are recorded, and of code objects. None: another function or object.
std::optional<Plan> frame_function(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> frame_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name);
// print of what is known, or of numbers, to such a stream.
bool is_plain_print(Recorder& recorder, const Given& given);

// The generator's values, as far as an instruction that unpacks them asks for them; none: another object.
std::optional<Plan> unpacked_generator(const Site& site);
// A comparison of keys that functools.cmp_to_key has made in the recorded code; none: of other objects.
std::optional<Plan> comparison_of_keys(const Site& site, const Operated& left, const Operated& right, bool gives_truth);
// Operators, calls and text of decimal.Decimal; none: of other objects, or it isn't known what they give.
std::optional<Plan> decimal_operator(const Site& site);  // of two
std::optional<Plan> decimal_unary(const Site& site, int number);
std::optional<Plan> decimal_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> decimal_text(const Site& site, int slot, const char* how, PyObject* spec);
bool is_known_decimal(Recorder& recorder, uint32_t label, PyObject* object);
// A call of what functools.lru_cache has made; what its stand-in calls; none: another callable, or arguments that aren't known.
std::optional<Plan> call_of_cache(const Site& site, const evaluator::Activation::CallSite& call);
std::optional<Plan> cache_step(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// functools.partial and cmp_to_key, operator.itemgetter and attrgetter: what makes them, and calls of them; none: another callable.
std::optional<Plan> call_of_made(const Site& site, const evaluator::Activation::CallSite& call);
// functools.partial(...); none: another type, or it isn't known what it calls.
std::optional<Plan> making_of_partial(Recorder& recorder, PyObject* type, Given given);
// functools.partial, of that very type; none: it isn't known what it calls.
bool is_partial(PyObject* callable);
std::optional<Plan> call_of_partial(const Site& site, uint32_t label, PyObject* partial, const Given& given);
// A call of a C function that calls back into Python, as that of its stand-in; none: it has none, or isn't to be followed.
std::optional<Plan> stand_in_call(const Site& site, const evaluator::Activation::CallSite& call);
// The Python function that is followed in the place of a Python function here; null: itself.
PyObject* stand_in_function(const Site& site, PyObject* function);

// Calls of what `pure.def` names, with arguments that are known; none: of others.
std::optional<Plan> pure_function_call(Recorder& recorder, PyObject* callable, const Given& given);
// A type that no Python code has made or can change, and "type.method" of a method descriptor of one.
bool is_written_in_c(const PyTypeObject* type);
std::string name_in_type(PyObject* method);
// "module.function" of a Python function as its module's file has it; nothing: another one.
std::string name_in_library(PyObject* function);
// Whether it may have one.
bool is_in_library(PyObject* function);
// copy.copy and copy.deepcopy of what is known element by element; none: others.
std::optional<Plan> copying_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// "module.function" of C's; nothing: another callable.
std::string name_in_module(PyObject* function);
// A method of an immutable builtin type whose result follows from its arguments, and a call of it.
bool is_pure_method(PyObject* callable);
Plan call_of_pure_method(Recorder& recorder, PyObject* callable, const Given& given);
// Such a call, with these arguments: its result is a constant, or what it raises is known.
Plan plan_known_call(Recorder& recorder, PyObject* callable, const Given& given);
// The result of a call of what is known; a list is a new one each time.
uint32_t value_of_constant_result(Recorder& recorder, PyObject* result);
// How breaks name what was called.
std::string callable_name(PyObject* callable);
// The break at a call of what isn't recorded.
Plan not_known(PyObject* callable);
// An argument is an object as it is: what the recorded code has put together is another one in each node.
bool is_one_object(const Value& value, PyObject* object);
inline bool is_named(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }
// What is in a slot of the frame, and the operand that is the n-th from the top of the stack, from 1.
Operated in_slot(const Site& site, int slot);
Operated at(const Site& site, int from_top);
// Behind an instruction that leaves less on the stack: what it took has no labels.
void pop_after(const Site& site, const Plan& plan);

// Functions whose frames can be run beside their caller's.
bool is_plain_function(PyObject* callable);
// A call of a Python function that is followed; its arguments are still to be given to the plan.
Plan inlined_call(const Site& site, uint32_t label, PyObject* function, Borrowed keyword_names);
// The call of the Python function that stands in under this name (recorder/stand_ins.h); none: there is none.
std::optional<Plan> stand_in_call(const Site& site, const char* name, Borrowed keyword_names = nullptr);
void give(Plan& call, const Operated& argument);

// What is made again at exits of attributes that only asking for them gives.
PyObject* builtin_getattr();
// The name that the instruction is about.
PyObject* name_of(const Site& site);
// A store into a name of a module's dict.
Plan store_into(Recorder& recorder, Borrowed dict, PyObject* name);
// An object of a class of the program's, as far as is known: from outside, or made by the recorded code.
bool is_object(const Value& value);
// What the object's class has stays as it is. False: it can't be guarded.
bool fixes_class(Recorder& recorder, const Value& owner, PyObject* object);
// What the class's own class has stays as it is.
bool fixes_metaclass(Recorder& recorder, PyObject* type);
// object.__init__, and what binds it to an object.
PyObject* object_initializer();
PyObject* bound_initializer();

// What the classes of the program's say of their instances, as calls that are followed; none: another object, or not known.
std::optional<Plan> operator_call(const Site& site, const Operated& left, const Operated& right);
std::optional<Plan> comparison_call(const Site& site, const Operated& left, const Operated& right);
// left == right of lists, or tuples, as C does: element by element, by methods of Python's. Nothing is asked of other rows, such as shapes: what is
// known of their elements holds for them alone.
std::optional<Plan> comparison_of_elements(const Site& site, const Operated& left, const Operated& right);
std::optional<Plan> unary_call(const Site& site, const char* name);
std::optional<Plan> truth_of_object(const Site& site);  // of an instruction that tests the top
std::optional<Plan> contains_call(const Site& site, const Operated& item, const Operated& container);
std::optional<Plan> length_call_of(const Site& site);   // GET_LEN
std::optional<Plan> item_call(const Site& site, const char* name, const std::vector<Operated>& arguments);
std::optional<Plan> index_call(const Site& site, const Operated& container, const Operated& key);
std::optional<Plan> unpack_call(const Site& site);
std::optional<Plan> iteration_call(const Site& site);   // GET_ITER: __iter__
std::optional<Plan> next_call(const Site& site);        // FOR_ITER: __next__
// Whether a loop over the instance calls methods that are followed.
bool iterates_by_methods(Recorder& recorder, const Operated& operand);
// __await__, __aiter__ or __anext__ of the top, whose result is the last of what the instruction leaves.
std::optional<Plan> awaiting_call(const Site& site, const char* name, std::vector<uint32_t> results);
std::optional<Plan> format_call(const Site& site, int slot, const Operated* spec);
std::optional<Plan> text_call(const Site& site, int slot, const char* name);
std::optional<Plan> protocol_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
PyObject* call_method_of(Recorder& recorder, const Operated& instance);
std::optional<Plan> call_of_instance(const Site& site, const evaluator::Activation::CallSite& call);
// A break in front of a return whose result the caller's instruction can't be known to go on with; none: it is known.
std::optional<Plan> return_to_rest(Recorder& recorder, uint32_t label, PyObject* object);
bool compares_by_identity(PyTypeObject* type);
bool compares_plainly(Recorder& recorder, uint32_t label, PyObject* object);
// Whether it is always the same object that two values are, or always two. False: it can't be guarded.
bool fixes_identity(Recorder& recorder, const Operated& left, const Operated& right);
// Whether the value is one object in all runs, by the guards.
bool fixes_object(Recorder& recorder, uint32_t label, PyObject* object);
// ... or at least of one type.
bool fixes_type(Recorder& recorder, uint32_t label, PyObject* object);
// A class whose instances its metaclass doesn't decide on, or a tuple of such; fixed.
bool is_plain_class(Recorder& recorder, const Operated& object, uint32_t label, PyObject* type);
// isinstance(object, class), type(object), callable(object).
Plan type_test(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// What an object's class says of it stays so, bases included; false: the object itself may answer.
bool is_always_true(const PyTypeObject* type);  // no method of the type's has a say in it
bool fixes_kind(Recorder& recorder, uint32_t label, PyObject* object);
// Objects of two builtin types that are never equal: a list and a string.
bool never_equal(Recorder& recorder, const Operated& left, const Operated& right);
// len(object).
Plan length_of(Recorder& recorder, uint32_t label, PyObject* object);
// object.name, of a value: read in the graph, known, or a call of a function that the class has for it.
struct Asked {
  uint32_t label;
  PyObject* object;
  PyObject* name;
};
Plan read_attribute(const Site& site, const Asked& asked);
Plan read_generic_attribute(const Site& site, const Asked& asked);  // as object.__getattribute__ does
// next(itertools.count()), weakref.ref(object), asyncio.current_task(); none: another callable, or not known.
std::optional<Plan> outside_call(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// Whether two results of id() are equal; none: not known.
std::optional<bool> same_identity(Recorder& recorder, const Operated& left, const Operated& right);
// The dict of the recorded code's that a types.MappingProxyType shows; 0: another value. And its methods.
uint32_t dict_behind_proxy(Recorder& recorder, uint32_t label);
std::optional<Plan> method_of_proxy(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
std::optional<Plan> call_of_weak_reference(const Site& site, const evaluator::Activation::CallSite& call);
// A key that compares as the class does that it is a reference to: by identity.
bool is_weak_reference_to_class(Recorder& recorder, const Operated& key);
bool is_count(PyObject* object);
bool is_of_thread(PyObject* object);
// An attribute of a threading.local, which the graph reads; none: of another object.
std::optional<Plan> attribute_of_thread(Recorder& recorder, const Asked& asked);
// instance.__dict__, of an instance that the recorded code made, and format % that; none: others.
std::optional<Plan> attributes_as_dict(Recorder& recorder, const Asked& asked, bool past_hooks = false);
std::optional<Plan> format_of_attributes(Recorder& recorder, const Operated& format, const Operated& attributes);
// object.name = value, del object.name. past_hooks: as object.__setattr__ and object.__delattr__ do.
Plan store_attribute(const Site& site, const Asked& asked, const Operated& value, bool past_hooks);
Plan delete_attribute(const Site& site, const Asked& asked, bool past_hooks);
// object.__setattr__ and the like.
bool is_hook_of_object(PyObject* callable);
// getattr, setattr, hasattr and delattr, object's own hooks and vars, where the name is known; none: another callable.
std::optional<Plan> call_by_name(const Site& site, const std::vector<Operated>& arguments, Borrowed keyword_names, PyObject* callable);
// The same of functions; none: another object, or a function of which nothing is known.
std::optional<Plan> function_attribute(Recorder& recorder, const Asked& asked);
uint32_t place_of_function(Recorder& recorder, uint32_t label, PyObject* function);
Plan store_into_made_function(Recorder& recorder, const Asked& asked, const Operated& value);
bool is_dict_of_function(Recorder& recorder, uint32_t label);
std::optional<Plan> change_of_function_dict(const Site& site, const evaluator::Activation::CallSite& call, PyObject* callable);
// What object.name is, where asking runs no code.
struct Attribute {
  enum class State : uint8_t { kUnknown, kMissing, kKnown };
  State state = State::kUnknown;
  uint32_t label = 0;
};
Attribute known_attribute(Recorder& recorder, uint32_t label, PyObject* object, PyObject* name);
// GET_ITER, and what the iterator in the slot, that FOR_ITER or SEND has advanced, gave: `object` is the slot of that.
Plan get_iter(const Site& site);
uint32_t next_element(const Site& site, int iterator, int object);
// The generator goes on, and is sent this.
Plan resumption(Recorder& recorder, const Operated& generator, const Operated& sent);
// next(generator), and generator.send(...), .throw(...) and .close(); none: another callable, or nothing known of the generator.
std::optional<Plan> generator_call(Recorder& recorder, PyObject* callable, const std::vector<Operated>& arguments, bool keywords);
// What waits on the stack in the place of the operands (evaluator/rest.h), and its value: an exit makes it again.
std::pair<Ref, uint32_t> made_rest(Recorder& recorder, const std::vector<Ref>& parts, std::vector<uint32_t> labels);
// The object's end is told, and it comes with the instruction: what is read behind it may be another then.
bool ends_here(Recorder& recorder, PyObject* object);
// What is raised where this is given to `raise` or `throw`: an exception that is known, or one that a class makes; 0: not known.
uint32_t exception_of(Recorder& recorder, const Operated& given);

// A branch on the top, or (3.13) the test in front of one, of which one side does nothing but raise.
bool tests_for_errors(const Site& site);

// Plans that rules share.
Plan plan_break(Break why, std::string detail = {});
Plan plan_constant();
Plan plan_value(uint32_t label);
// The name of the object's type, for details of breaks.
std::string type_name(PyObject* object);

}  // namespace evalframe::recorder
