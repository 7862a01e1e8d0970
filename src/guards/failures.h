// What guards found where they said no, and what they cost: for people. Noted where a check fails, so a call that is served pays nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evalframe::guards {

// How often one guard said no, and what it found.
struct Failure {
  struct Found {
    uint64_t mark;
    std::string text;
    uint32_t count;
  };
  uint32_t count = 0;
  std::vector<Found> found;  // the first few; what was found beside them is counted, but not told
};

class Failures {
 public:
  // The guard of this line of GuardTable::describe() said no. False: what it found isn't known by its mark (0: by none), and `name` is
  // to say what it is.
  bool count(int32_t line, uint64_t mark);
  void name(uint64_t mark, std::string text);
  // It wasn't asked: the frame has other variables than it was recorded with.
  void count_unlike() { last_ = -1; }
  // The line of the last one; -1: none of them.
  int32_t last() const { return last_; }
  // What it found; empty: that isn't told of any more.
  const std::string& last_found() const;
  const std::vector<Failure>& by_line() const { return by_line_; }

 private:
  std::vector<Failure> by_line_;
  int32_t last_ = -1;
  size_t last_found_ = 0;  // among those of its line
};

// Seconds of a check in which all guards hold, and of each line's share looked at alone. Empty: not measured.
struct Costs {
  double all = 0;
  std::vector<double> by_line;
  // The quicker of two measurements: what comes between makes the others longer.
  void take(const Costs& other);
};

}  // namespace evalframe::guards
