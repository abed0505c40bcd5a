#include "tools/serve/crowd.h"

#include <sys/socket.h>

#include <algorithm>

namespace meshwright {

Crowd::Guest::Guest(Crowd& crowd, int socket) : crowd_(crowd), socket_(socket) {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.push_back(this);
  crowd_.make_room();
}

Crowd::Guest::~Guest() {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.remove(this);
}

void Crowd::Guest::set_waiting(bool waiting) {
  const std::lock_guard lock(crowd_.mutex_);
  is_waiting_ = waiting;
}

void Crowd::Guest::begin_answer() {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.remove(this);
  crowd_.guests_.push_back(this);
}

std::size_t Crowd::waiting() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(guests_, &Guest::is_waiting_));
}

// If there are too many guests, gives up the one that has waited longest for its client. Guests
// that are given up already do not count, because their threads end by themselves.
void Crowd::make_room() {
  const auto stays = [](const Guest* guest) { return !guest->is_given_up_; };
  if (static_cast<std::size_t>(std::ranges::count_if(guests_, stays)) <= most_) return;
  const auto longest = std::ranges::find_if(
      guests_, [&](const Guest* guest) { return guest->is_waiting_ && stays(guest); });
  if (longest == guests_.end()) return;
  (*longest)->is_given_up_ = true;
  shutdown((*longest)->socket_, SHUT_RDWR);
}

}  // namespace meshwright
