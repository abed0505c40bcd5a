#include "tools/serve/crowd.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

namespace meshwright::tools {

Crowd::Guest::Guest(Crowd& crowd, int socket) : crowd_(crowd), socket_(socket) {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.push_back(this);
}

Crowd::Guest::~Guest() {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.remove(this);
}

void Crowd::Guest::set_waiting(short events) {
  const std::lock_guard lock(crowd_.mutex_);
  events_ = events;
  if (events_ != 0) crowd_.make_room();
}

void Crowd::Guest::begin_answer() {
  const std::lock_guard lock(crowd_.mutex_);
  crowd_.guests_.remove(this);
  crowd_.guests_.push_back(this);
}

// Returns whether the server waits for this client, and the client has not yet done what the server
// waits for.
bool Crowd::Guest::lets_wait() const {
  pollfd asked{socket_, events_, 0};
  return events_ != 0 && !is_given_up_ && poll(&asked, 1, 0) == 0;
}

std::size_t Crowd::waiting() {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(guests_, [](const Guest* guest) { return guest->events_ != 0; });
}

void Crowd::make_room() {
  std::size_t waits = 0;
  Guest* longest = nullptr;
  for (Guest* guest : guests_)
    if (guest->lets_wait() && ++waits == 1) longest = guest;
  if (waits <= most_) return;
  longest->is_given_up_ = true;
  shutdown(longest->socket_, SHUT_RDWR);
}

}  // namespace meshwright::tools
