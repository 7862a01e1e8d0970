// Numbers of references, by object: open addressing, as each thing that a recording takes is counted.
#pragma once

#include <deque>
#include <vector>

#include "core/ref.h"

namespace evalframe::recorder {

class Counts {
 public:
  // It stays where it is.
  Py_ssize_t& operator[](PyObject* object) {
    if (2 * (numbers_.size() + 1) > places_.size()) grow();
    Place& place = place_of(object);
    if (!place.number) place = {object, &numbers_.emplace_back(0)};
    return *place.number;
  }

 private:
  struct Place {
    PyObject* object = nullptr;
    Py_ssize_t* number = nullptr;
  };

  Place& place_of(PyObject* object) {
    const size_t mask = places_.size() - 1;
    size_t at = (reinterpret_cast<size_t>(object) >> 4) * 0x9E3779B97F4A7C15u;
    for (at = (at ^ (at >> 32)) & mask; places_[at].number && places_[at].object != object;) at = (at + 1) & mask;
    return places_[at];
  }

  void grow() {
    std::vector<Place> old(places_.empty() ? 64 : 2 * places_.size());
    old.swap(places_);
    for (const Place& place : old) {
      if (place.number) place_of(place.object) = place;
    }
  }

  std::vector<Place> places_;
  std::deque<Py_ssize_t> numbers_;
};

}  // namespace evalframe::recorder
