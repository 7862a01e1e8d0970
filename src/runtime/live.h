// The activations of a chain's frames while it runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cpython/codec.h"
#include "evaluator/activation.h"

namespace evalframe::runtime {

// Outermost first. Most chains have one frame: it takes no memory of its own.
class Live {
 public:
  // The callers stay in their calls; `calling`: so does the innermost.
  Live(PyThreadState* thread, const std::vector<cpython::Frame*>& frames, bool calling = false) {
    for (cpython::Frame* frame : frames) push(thread, frame, *cpython::decoded(cpython::code_of(frame)));
    for (size_t i = 0; i + (calling ? 0 : 1) < size(); i++) (*this)[i].stay_in_call();
  }
  void push(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code) {
    if (outermost_) {
      inner_.push_back(std::make_unique<evaluator::Activation>(thread, frame, code));
    } else {
      outermost_.emplace(thread, frame, code);
    }
  }
  bool empty() const { return !outermost_; }
  size_t size() const { return outermost_ ? 1 + inner_.size() : 0; }
  evaluator::Activation& operator[](size_t i) { return i ? *inner_[i - 1] : *outermost_; }
  evaluator::Activation& back() { return inner_.empty() ? *outermost_ : *inner_.back(); }
  // Innermost first, as they were linked last.
  void pop_back() {
    if (inner_.empty()) {
      outermost_.reset();
    } else {
      inner_.pop_back();
    }
  }
  // The frames stand in CPython's form again, and may be changed.
  void end() {
    for (size_t i = 0; i < size(); i++) (*this)[i].save();
    while (!empty()) pop_back();
  }

 private:
  std::optional<evaluator::Activation> outermost_;
  std::vector<std::unique_ptr<evaluator::Activation>> inner_;
};

}  // namespace evalframe::runtime
