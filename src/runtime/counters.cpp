#include "runtime/counters.h"

#include <initializer_list>

namespace evalframe::runtime {

Counters& Counters::operator+=(const Counters& other) {
  for (uint64_t Counters::*each : {&Counters::calls, &Counters::hits, &Counters::served, &Counters::recordings, &Counters::breaks, &Counters::exits,
                                   &Counters::plain_calls, &Counters::limited, &Counters::given_up}) {
    this->*each += other.*each;
  }
  record_seconds += other.record_seconds;
  compile_seconds += other.compile_seconds;
  return *this;
}

}  // namespace evalframe::runtime
