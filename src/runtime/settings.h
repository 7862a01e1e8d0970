// What a user chose for one jit object or one enabled() block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/ref.h"
#include "runtime/allowance.h"

namespace evalframe::runtime {

// Whether a number that a call is given is an input of the graph, or fixed by a guard.
enum class Dynamic : uint8_t {
  kWhereSeen,  // an input once it was seen to change
  kAlways,     // an input from the start, where the graph can have it as one
  kNever,      // each value has a recording of its own
};

struct Settings {
  std::string backend = "native";
  Ref custom;              // a Python backend of that name: (graph, example inputs) -> callable
  bool fullgraph = false;  // a break is an error
  bool exact = false;      // every bit as NumPy computes it: no elementary functions of our own
  bool fastmath = false;   // native loops may add and multiply in another order
  bool background = false;  // loops are compiled on a thread of their own
  Dynamic dynamic = Dynamic::kWhereSeen;
  int max_entries = 8;     // recordings that start at the same place
  bool compiling = false;  // torch.compiler.is_compiling() says so in what is recorded
  bool is_torch() const { return custom && backend == kTorch; }
  static constexpr const char* kTorch = "torch";  // the backend's name where `custom` takes graphs of torch's
  bool everything = false;  // for tests: functions without arrays, too, and whether it pays or not
  // Nobody has asked for a function: what compiling takes has to have been taken without it first, and this is what recording may take of all
  // the program's time before it waits, too. Null: someone has.
  std::shared_ptr<Allowance> patience;

  Settings copy() const { return {backend, Ref::borrow(custom.get()), fullgraph, exact, fastmath, background, dynamic, max_entries, compiling, everything, patience}; }
};

}  // namespace evalframe::runtime
