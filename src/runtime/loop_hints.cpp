#include "runtime/loop_hints.h"

#include <sstream>
#include <stdexcept>

#include "backends/native/machine/blake2b.h"
#include "backends/native/machine/machine.h"
#include "backends/native/machine/object_cache.h"
#include "core/object_text.h"
#include "core/ref.h"

namespace evalframe::runtime {

// Loops that are made again and again, as more and more of them is met, need no more.
static constexpr size_t kMostHints = 16;
static constexpr char kSuffix[] = ".loops";

static std::string key_of(PyObject* code) {
  const Ref bytecode = Ref::steal(PyCode_GetCode(reinterpret_cast<PyCodeObject*>(code)));
  if (!bytecode) return PyErr_Clear(), std::string();
  try {
    return native::blake2b(native::target() + "\nloops of\n" + std::string(utf8(reinterpret_cast<PyCodeObject*>(code)->co_qualname)) + '\n' +
                           std::string(PyBytes_AS_STRING(bytecode.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytecode.get()))));
  } catch (const std::runtime_error&) {  // no LLVM: who compiles will be told
    return {};
  }
}

void LoopHints::read(PyObject* code) {
  if (key_) return;
  key_ = key_of(code);
  if (key_->empty()) return;
  std::istringstream text(native::cached_object(*key_, kSuffix).value_or(std::string()));
  for (Hint hint; known_.size() < kMostHints && text >> hint.first >> hint.second;) known_.insert(hint);
  untold_ = known_;
}

bool LoopHints::are_used = true;

bool LoopHints::has(PyObject* code, int32_t instruction, uint64_t recordings) {
  if (!are_used) return false;
  read(code);
  return untold_.erase({instruction, recordings}) > 0;
}

void LoopHints::add(PyObject* code, int32_t instruction, uint64_t recordings) {
  if (!are_used) return;
  read(code);
  if (key_->empty() || known_.size() >= kMostHints || !known_.insert({instruction, recordings}).second) return;
  std::string text;
  for (const auto& [at, count] : known_) text += std::to_string(at) + ' ' + std::to_string(count) + '\n';
  native::cache_object(*key_, text, kSuffix);
}

}  // namespace evalframe::runtime
