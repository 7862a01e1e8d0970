// Which variables may still be read: backward data flow over a code object, exception edges included.
#pragma once

#include <cstdint>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::bytecode {

// The live slots of localsplus before each instruction. A slot is live if some way from there reads it before it is
// written. Readers from outside (locals(), a debugger, a kept frame) see dead slots too: it says what the code needs,
// not what may be dropped unseen.
class Liveness {
 public:
  explicit Liveness(const Code& code);
  bool is_live(int32_t index, int slot) const { return (row(index)[slot / 64] >> (slot % 64)) & 1; }
  std::vector<int> live(int32_t index) const;  // slots, ascending

 private:
  using Word = uint64_t;
  const Word* row(int32_t index) const { return bits_.data() + static_cast<size_t>(index) * words_; }
  Word* row(int32_t index) { return bits_.data() + static_cast<size_t>(index) * words_; }
  bool update(const Code& code, int32_t index);
  void merge(std::vector<Word>& into, int32_t index) const;

  int slots_;
  int words_;
  int first_free_;  // slot of the first free variable
  std::vector<Word> bits_;
};

}  // namespace evalframe::bytecode
