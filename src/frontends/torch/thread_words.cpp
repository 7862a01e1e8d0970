// Finds where torch keeps what holds in a thread: it has functions that give references to it. Whether the words tell is tried, with all that changes it.
#include "frontends/torch/thread_words.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/ref.h"
#include "core/word.h"
#include "frontends/torch/names.h"
#include "frontends/torch/symbols.h"

namespace evalframe::torch {

namespace {

constexpr const char *kCore = "libc10.so", *kCpu = "libtorch_cpu.so";

// A part of a thread's memory.
struct Part {
  const char *symbol, *library;
  size_t words;
  bool is_variable;  // of the thread; else a function that gives a reference to it
};
constexpr Part kParts[] = {
    {"_ZN3c1013AutogradState13get_tls_stateEv", kCore, 4, false},                    // gradients, inference mode
    {"_ZN3c104impl26raw_local_dispatch_key_setE", kCore, 2, true},                   // for which devices there is autocast
    {"_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv", kCpu, 4, false},             // modes that see calls of torch
    {"_ZN3c104impl20TorchDispatchModeTLS9get_stateEv", kCore, 12, false},            // modes that see operations
    {"_ZN5torch3jit6tracer15getTracingStateEv", kCpu, 1, false},
};
constexpr size_t kPartCount = std::size(kParts);

using AsksContext = uint8_t (*)(const void*);
using AsksPrecision = uint8_t (*)(const void*, int32_t backend, int32_t operation);

// Functions that say what is set for all threads.
struct Settings {
  const void* context = nullptr;
  AsksContext deterministic = nullptr, only_warns = nullptr;
  // How CUDA multiplies matrices, which a torch without CUDA hasn't to be asked for.
  bool has_cuda = true;
  AsksContext reduces_float16 = nullptr, reduces_bfloat16 = nullptr;
  AsksPrecision precision = nullptr;
  int32_t cuda = 0, matmul = 0;
  bool (*caches_autocast)() = nullptr;  // this thread
  int32_t (*threads)() = nullptr;
  uint8_t (*default_dtype)() = nullptr;
};

int32_t number_of(const char* symbol, const char* name) {
  int32_t (*asks)(const std::string&) = nullptr;
  find_symbol(asks, symbol, kCpu);
  return asks ? asks(name) : -1;
}

Settings find_settings() {
  Settings found;
  const void* (*context)() = nullptr;
  find_symbol(context, "_ZN2at13globalContextEv", kCpu);
  if (context) found.context = context();
  find_symbol(found.deterministic, "_ZNK2at7Context23deterministicAlgorithmsEv", kCpu);
  find_symbol(found.only_warns, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv", kCpu);
  found.has_cuda = attribute_of("torch._C", "_has_cuda").get() != Py_False;
  find_symbol(found.reduces_float16, "_ZNK2at7Context24allowFP16ReductionCuBLASEv", kCpu);
  find_symbol(found.reduces_bfloat16, "_ZNK2at7Context24allowBF16ReductionCuBLASEv", kCpu);
  find_symbol(found.precision, "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE", kCpu);
  found.cuda = number_of("_ZN2at11str2backendERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "cuda");
  found.matmul = number_of("_ZN2at6str2opERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "matmul");
  find_symbol(found.caches_autocast, "_ZN2at8autocast25is_autocast_cache_enabledEv", kCpu);
  find_symbol(found.threads, "_ZN2at15get_num_threadsEv", kCpu);
  find_symbol(found.default_dtype, "_ZN3c1031get_default_dtype_as_scalartypeEv", kCore);
  return found;
}

bool are_all_there(const Settings& of) {
  return of.context && of.deterministic && of.only_warns && of.reduces_float16 && of.reduces_bfloat16 && of.precision && of.cuda >= 0 && of.matmul >= 0 && of.caches_autocast &&
         of.threads && of.default_dtype;
}

const Settings& settings() {
  static const Settings found = find_settings();
  return found;
}

}  // namespace

// Where this thread has them.
class ThreadPlaces {
 public:
  static constexpr size_t kNumbers = ThreadWords::kNumbers;
  static ThreadPlaces& here() {
    if (!here_.number_) [[unlikely]] here_.find_parts();
    return here_;
  }
  bool are_known() const { return parts_[kPartCount - 1] != nullptr; }
  uint64_t number() const { return number_; }

  // Part by part, so that loops are unrolled.
  template <class Visit>
  [[gnu::always_inline]] void visit(Visit visit) const {
    visit_parts<0, 0>(visit);
  }

 private:
  template <size_t kPart, size_t kFirst, class Visit>
  [[gnu::always_inline]] void visit_parts(Visit visit) const {
    if constexpr (kPart < kPartCount) {
      for (size_t i = 0; i < kParts[kPart].words; i++) visit(kFirst + i, value_at(parts_[kPart] + i));
      visit_parts<kPart + 1, kFirst + kParts[kPart].words>(visit);
    } else {
      static_assert(kFirst == ThreadWords::kWords);
    }
  }

  void find_parts() {
    static uint64_t threads = 0;
    number_ = ++threads;
    for (size_t i = 0; i < kPartCount; i++) {
      const void* found = nullptr;
      find_symbol(found, kParts[i].symbol, kParts[i].library);
      if (!found) return parts_.fill(nullptr);
      parts_[i] = static_cast<const uint64_t*>(kParts[i].is_variable ? found : reinterpret_cast<const void* (*)()>(const_cast<void*>(found))());
    }
  }

  uint64_t number_ = 0;  // of the thread: another one may come to lie where an ended one was
  std::array<const uint64_t*, kPartCount> parts_ = {};
  [[gnu::tls_model("initial-exec")]] static constinit thread_local ThreadPlaces here_;
};

constinit thread_local ThreadPlaces ThreadPlaces::here_;

namespace {

std::array<int32_t, ThreadPlaces::kNumbers> numbers_now() {
  const Settings& of = settings();
  std::array<int32_t, ThreadPlaces::kNumbers> numbers = {of.deterministic(of.context), of.only_warns(of.context), of.caches_autocast(), of.threads(), of.default_dtype()};
  if (!of.has_cuda) return numbers;
  numbers[5] = of.precision(of.context, of.cuda, of.matmul);
  numbers[6] = of.reduces_float16(of.context);
  numbers[7] = of.reduces_bfloat16(of.context);
  return numbers;
}

}  // namespace

bool ThreadWords::hold() const {
  const ThreadPlaces& here = ThreadPlaces::here();
  if (here.number() != thread_) return false;
  uint64_t changed = 0;
  here.visit([&](size_t at, uint64_t word) { changed |= word ^ words_[at]; });
  return !changed && numbers_now() == numbers_;
}

void ThreadWords::learn() {
  const ThreadPlaces& here = ThreadPlaces::here();
  here.visit([&](size_t at, uint64_t word) { words_[at] = word; });
  numbers_ = numbers_now();
  thread_ = here.number();
}

namespace {

// Managers that change, for a while and for this thread alone, what the words are to tell.
std::vector<Ref> changes() {
  constexpr const char* kMakes =
      "import contextlib, torch.overrides, torch.utils._python_dispatch\n"
      "@contextlib.contextmanager\n"
      "def cast(device):\n"
      "  was = torch.is_autocast_enabled(device)\n"
      "  torch.set_autocast_enabled(device, not was)\n"
      "  yield\n"
      "  torch.set_autocast_enabled(device, was)\n"
      "made = [torch.no_grad() if torch.is_grad_enabled() else torch.enable_grad(), torch.inference_mode(not torch.is_inference_mode_enabled()),\n"
      "        torch._C.DisableTorchFunction(), torch._C.DisableTorchFunctionSubclass(), cast('cpu'), cast('cuda'),\n"
      "        torch.overrides.BaseTorchFunctionMode(), torch.utils._python_dispatch.TorchDispatchMode()]\n";
  std::vector<Ref> made;
  const Ref globals = Ref::steal(PyDict_New()), torch = Ref::steal(PyImport_ImportModule("torch"));
  if (!globals || !torch || PyDict_SetItemString(globals.get(), "torch", torch.get()) < 0) return PyErr_Clear(), std::move(made);
  if (!Ref::steal(PyRun_String(kMakes, Py_file_input, globals.get(), globals.get()))) return PyErr_Clear(), std::move(made);
  PyObject* const list = PyDict_GetItemString(globals.get(), "made");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) made.push_back(Ref::borrow(PyList_GET_ITEM(list, i)));
  return made;
}

// Whether the words tell of such a change.
bool is_told(PyObject* manager) {
  ThreadWords words;
  words.learn();
  const Ref begun = Ref::steal(PyObject_CallMethod(manager, "__enter__", nullptr));
  const bool told = begun && !words.hold();
  const Ref ended = begun ? Ref::steal(PyObject_CallMethod(manager, "__exit__", "OOO", Py_None, Py_None, Py_None)) : Ref();
  if (!ended) PyErr_Clear();
  return told && ended;
}

bool are_tried() {
  if (!are_all_there(settings()) || !ThreadPlaces::here().are_known()) return false;
  const std::vector<Ref> all = changes();
  return !all.empty() && std::ranges::all_of(all, [](const Ref& manager) { return is_told(manager.get()); });
}

// The names in a JSON text whose other values are numbers and truths.
std::vector<std::string_view> names_in(std::string_view text) {
  std::vector<std::string_view> names;
  for (size_t begin = text.find('"'); begin != text.npos; begin = text.find('"', begin)) {
    const size_t end = std::min(text.find('"', begin + 1), text.size());
    names.push_back(text.substr(begin + 1, end - begin - 1));
    begin = std::min(end + 1, text.size());
  }
  return names;
}

}  // namespace

bool thread_words_tell(const char* dumped) {
  static constexpr std::string_view kNames[] = {"allow_bf16_reduce", "allow_fp16_reduce", "allow_tf32",    "autocast_state",           "cached_enabled",
                                                "dtype",             "enabled",           "default_dtype", "deterministic_algorithms", "deterministic_algorithms_warn_only",
                                                "grad_mode",         "num_threads",       "torch_function", "torch_function_all_disabled"};
  static const bool tried = are_tried();
  if (!tried || !std::ranges::equal(names_in(dumped), kNames)) return false;
  // With autocast its dtypes count, which nothing tells.
  const std::string_view text = dumped, enabled = text.substr(std::min(text.find("\"enabled\""), text.size()));
  return enabled.substr(0, enabled.find(']')).find("true") == enabled.npos;
}

}  // namespace evalframe::torch
