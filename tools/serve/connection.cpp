#include "tools/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tools/serve/limits.h"

namespace meshwright {

Connection::Connection(int socket, int stopping)
    : socket_(socket), stopping_(stopping), read_until_(Clock::now() + to_send_request) {}

// False when it takes too long, or the server stops.
bool Connection::wait(short events, Clock::time_point until) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd fds[] = {{socket_, events, 0}, {stopping_, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && fds[1].revents == 0;
  }
}

bool Connection::is_readable() const { return next_ < end_ || wait(POLLIN, read_until_); }

bool Connection::is_writable() const { return wait(POLLOUT, Clock::now() + to_take_answer); }

ssize_t Connection::read(char* to, std::size_t size) {
  if (next_ == end_) {
    if (!wait(POLLIN, read_until_)) return -1;
    const ssize_t got = recv(socket_, held_.data(), held_.size(), 0);
    if (got <= 0) return got;
    next_ = 0;
    end_ = static_cast<std::size_t>(got);
  }
  size = std::min(size, end_ - next_);
  std::copy_n(held_.data() + next_, size, to);
  next_ += size;
  for (std::size_t i = 0; i < size && ends_of_lines_ < 2; ++i) {
    if (++header_bytes_ > most_header_bytes) return -1;
    if (to[i] == '\n')
      ++ends_of_lines_;
    else if (to[i] != '\r')
      ends_of_lines_ = 0;
  }
  return static_cast<ssize_t>(size);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  std::size_t written = 0;
  while (written < size) {
    if (!is_writable()) return -1;
    const ssize_t sent = send(socket_, from + written, size - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return -1;
    written += static_cast<std::size_t>(sent);
  }
  return static_cast<ssize_t>(size);
}

// Nobody asks: who may connect is a matter of the address that is listened at.
void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  get_remote_ip_and_port(ip, port);
}

void Connection::finish() {
  shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + to_send_rest;
  for (std::size_t unread = 0; unread < most_unread_bytes && wait(POLLIN, until);) {
    const ssize_t got = recv(socket_, held_.data(), held_.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    unread += static_cast<std::size_t>(got);
  }
}

}  // namespace meshwright
