// PyTorch's tensors: which are recorded, and what guards ask of them. torch is neither imported nor linked: evalframe.torch,
// which the program has imported, says where it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ref.h"
#include "core/word.h"
#include "graph/graph.h"

namespace evalframe::torch {

// From here on tensors are looked at. False with an exception: this torch isn't one that is known.
bool watch();
namespace detail {
inline bool watched = false;
}
inline bool is_watched() { return detail::watched; }

// Exactly a torch.Tensor or a torch.nn.Parameter.
bool is_tensor(PyObject* object);
// Whether it is dense and nothing else stands behind it: no sparse, quantized, nested or named tensor, and none that a
// transformation of torch.func has wrapped; or a dense one that one has.
bool is_plain(PyObject* tensor);
bool is_wrapped(PyObject* tensor);
// The level of the transformation that has wrapped it; -1: none has.
int64_t level_of(PyObject* tensor);
// torch.Tensor, the class.
PyObject* tensor_type();
// Of one of torch's types in C whose objects never change: torch.dtype, torch.device, torch.Size.
bool is_immutable(PyObject* object);
bool is_immutable_type(PyObject* type);
bool is_parameter_type(PyObject* type);  // torch.nn.Parameter, whose metaclass asks for more than the type
bool is_buffer_type(PyObject* type);  // torch.nn.Buffer, whose metaclass asks tensors for more than the type
bool is_size(PyObject* object);  // a torch.Size
bool is_size_type(PyObject* type);
// What several results of a function come in: torch.return_types.max.
bool is_return_type(PyObject* object);
// float16 to float64.
bool is_of_floats(PyObject* tensor);
// A tensor of torch.bool or torch.uint8, which picks elements where it is a subscript.
bool is_mask(PyObject* tensor);

// The truth of a tensor of one element that torch would do no more for than read it; none: torch has to be asked, or waited for.
std::optional<bool> truth_at_hand(PyObject* object);

// What a guard asks of a tensor.
struct Facts {
  PyTypeObject* type = nullptr;
  bool requires_grad = false;
  int32_t dtype = -1, device_index = -1;
  uint64_t keys = 0;  // torch's set of dispatch keys: kind of device, layout, conjugation and the like
  std::vector<int64_t> sizes_and_strides;
  std::vector<uint8_t> varies;  // by dimension: any size from kLeastVarying on will do; empty: none varies
  std::string kind;  // dtype, device and keys as they lie in a tensor, where its sizes do, too, and none varies; empty: torch has to be asked
  std::vector<uint8_t> order;   // its dimensions, the innermost last, where some vary and no gaps are between its elements; empty: strides are facts
  Ref told;          // in place of the numbers, where they can't be read in C: a tuple of attributes
  std::string text;  // such as `float32[2, 3]`
  bool is_same(const Facts& other) const;
};
// Sizes of 0 and 1 never vary: what torch does depends on them.
constexpr int64_t kLeastVarying = 2;
// varies: by dimension, as in Facts. None does where the tensor's memory can't be looked at.
std::shared_ptr<const Facts> facts_of(PyObject* tensor, std::vector<uint8_t> varies = {});
bool has_facts(PyObject* object, const Facts& facts);
// By which words of memory a tensor that has the facts goes on having them, besides its class. None: torch has to be asked.
struct TensorWord {
  Word word;
  int32_t pointers;  // that lead to it from the object, and are words in front of it
};
std::vector<TensorWord> words_of(PyObject* tensor, const Facts& facts);
// The dimensions by which a tensor differs from the facts, if it differs by nothing else, and all could vary.
std::vector<int> dimensions_that_changed(PyObject* object, const Facts& facts);
// Whether no two of the tensors among the values have one storage. Nothing: it takes torch's Python code to tell.
std::optional<bool> share_no_memory(PyObject* const* values, Py_ssize_t count);
// Sizes, of which those that are large enough may vary; none for a parameter of a module.
std::vector<int64_t> sizes_of(PyObject* tensor);
// Appends sizes and strides.
graph::Meta meta_of(PyObject* tensor, std::vector<int64_t>& sizes);

// A function of torch's in C++ that gives a number, without arguments or of one object.
struct Getter {
  enum class Gives : uint8_t { kBool, kCount, kPointer };  // the last: a reference to a pointer, which is null or not
  Gives gives = Gives::kBool;
  void* function = nullptr;  // null: there is none
  const void* self = nullptr;
  int64_t number() const;
};

// What holds in a thread, and what each operation depends on: whether gradients are recorded, autocast, the default dtype,
// modes that see each call. Asking is a call of C's without arguments, which gives `wanted` as long as it holds.
struct State {
  Ref callable, wanted;
  const char* text;
  Getter getter = {};  // gives `number` as long as it holds
  int64_t number = 0;
  bool is_told = false;  // by ThreadWords (thread_words.h)
};
std::vector<State> present_states();
// ... which kernels of attention there may be.
std::vector<State> present_kernels();

// ... which transformations of torch.func there are, and what else these look at.
std::vector<State> transform_states();
// ... all of it, as a tuple; and how it was, where a graph that changes it has ended halfway: transformations that have begun since are given up.
Ref transforms_now(bool with_dual_level = true);
void set_transforms_back(Borrowed then);
bool transforms_are_active();
void leave_transforms(int64_t depth);

// Whether some Python code sees each call of torch, or each operation: it would see the recorder look at tensors, too. The same while
// torch.jit.trace or torch.compile takes frames itself, or a graph of CUDA's is made, in which compiling has no place.
bool modes_are_active();

// What functions of kind kMode set, as it is now: calls that set it, each a tuple of a function and its arguments.
std::vector<Ref> present_modes();
void set_modes(const std::vector<Ref>& calls);
// One step out of autocast's nesting.
void leave_autocast();

// Whether operations record gradients; set where a graph that was left has changed it.
bool records_gradients();
void set_records_gradients(bool records);

}  // namespace evalframe::torch
