#include "tools/serve/places.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace meshwright::tools {

std::unique_ptr<Places::Place> Places::take() {
  const std::lock_guard lock(mutex_);
  if (std::ssize(taken_) >= most_) return nullptr;
  auto place = std::make_unique<Place>(*this);
  taken_.push_back(place.get());
  return place;
}

Places::Place::~Place() {
  {
    const std::lock_guard lock(all_.mutex_);
    all_.taken_.remove(this);
  }
  all_.changed_.notify_all();
}

bool Places::is_turn_of(const Place* place) const {
  return std::distance(taken_.begin(), std::ranges::find(taken_, place)) < running_;
}

bool Places::Place::wait(const std::function<bool()>& gives_up) const {
  std::unique_lock lock(all_.mutex_);
  while (!all_.is_turn_of(this)) {
    all_.changed_.wait_for(lock, std::chrono::milliseconds(100));
    if (gives_up()) return false;
  }
  return true;
}

}  // namespace meshwright::tools
