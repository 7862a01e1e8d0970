// Sums over all measures, those that are gone included.
#include "runtime/measure.h"

#include <set>

namespace evalframe::runtime {

bool Measure::on = false;

namespace {

// A recorded run this long is as good as a plain one: recording adds a fraction of a microsecond to each instruction.
constexpr double kLong = 0.02;

double retired_saved = 0;
bool retired_known = false;

std::set<const Measure*>& live() {
  static std::set<const Measure*> all;
  return all;
}

}  // namespace

Measure::Measure() { live().insert(this); }

Measure::~Measure() {
  retired_saved += saved();
  retired_known |= is_known();
  live().erase(this);
}

bool Measure::wants_plain() const {
  const uint64_t calls = served_ + plain_;
  return calls >= 2 && (calls & (calls - 1)) == 0 && recorded_seconds_ < kLong;
}

double Measure::plain_mean() const {
  if (plain_) return plain_seconds_ / static_cast<double>(plain_);
  return recorded_seconds_ >= kLong ? recorded_seconds_ : 0;
}

double Measure::saved() const {
  const double plain = plain_mean();
  if (!is_known()) return 0;
  const double recording = recorded_seconds_ > plain ? recorded_seconds_ - plain : 0;
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

}  // namespace evalframe::runtime
