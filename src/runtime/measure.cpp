// Sums over all measures, those that are gone included.
#include "runtime/measure.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <set>

namespace evalframe::runtime {

double (*Stopwatch::clock)() = nullptr;

double Stopwatch::now() {
  return clock ? clock() : std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint8_t Measure::what = 0;

namespace {

// Seconds of a recorded run from which a plain one in three would be felt.
constexpr double kLong = 0.02;

double retired_saved = 0, retired_uncompared = 0;
bool retired_known = false;

std::set<const Measure*>& live() {
  static std::set<const Measure*> all;
  return all;
}

}  // namespace

Measure::Measure() { live().insert(this); }

Measure::~Measure() {
  retired_saved += saved();
  retired_uncompared += uncompared();
  retired_known |= is_known();
  live().erase(this);
}

void Measure::add_plain(double seconds) { plain_.insert(std::upper_bound(plain_.begin(), plain_.end(), seconds), seconds); }

bool Measure::wants_plain() const {
  const uint64_t calls = served_ + plain();
  return calls >= (recorded_seconds_ < kLong ? 2 : 4) && std::has_single_bit(calls);
}

double Measure::saved() const {
  const double plain = plain_typical();
  if (!is_known()) return 0;
  const double recording = std::max(recorded_seconds_ - plain * static_cast<double>(recorded_), 0.0);
  return plain * static_cast<double>(served_) - served_seconds_ - recording;
}

std::optional<double> Measure::total_saved() {
  double sum = retired_saved;
  bool known = retired_known;
  for (const Measure* measure : live()) {
    sum += measure->saved();
    known |= measure->is_known();
  }
  return known ? std::optional(sum) : std::nullopt;
}

double Measure::total_uncompared() {
  double sum = retired_uncompared;
  for (const Measure* measure : live()) sum += measure->uncompared();
  return sum;
}

thread_local double OwnSeconds::recorded = 0;

double OwnSeconds::of(double seconds) const {
  const double own = std::max(seconds - (recorded - before_), 0.0);
  recorded += own;
  return own;
}

}  // namespace evalframe::runtime
