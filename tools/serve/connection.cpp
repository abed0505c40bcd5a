#include "tools/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tools/serve/request_head.h"

namespace meshwright::tools {

Connection::Connection(int socket, int stopping, Crowd& crowd, std::chrono::seconds to_send)
    : socket_(socket),
      stopping_(stopping),
      guest_(crowd, socket),
      read_until_(Clock::now() + to_send) {}

// Waits until the client's socket is ready for `events`. Returns false if it is not by `until`, or
// if the server stops.
bool Connection::wait(short events, Clock::time_point until) const {
  pollfd fds[] = {{socket_, events, 0}, {stopping_, POLLIN, 0}};
  int ready = Clock::now() < until ? poll(fds, 2, 0) : -1;
  if (ready == 0) {
    guest_.set_waiting(events);
    do {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      ready = left > 0 ? poll(fds, 2, static_cast<int>(left)) : 0;
    } while (ready < 0 && errno == EINTR);
    guest_.set_waiting(0);
  }
  return ready > 0 && fds[1].revents == 0;
}

ssize_t Connection::receive() {
  if (!wait(POLLIN, read_until_)) return -1;
  const ssize_t got = recv(socket_, held_.data(), held_.size(), 0);
  if (got <= 0) return got;
  next_ = 0;
  end_ = got;
  return got;
}

bool Connection::read_head() {
  for (int ends_of_lines = 0; ends_of_lines < 2;) {
    if (next_ == end_ && receive() <= 0) return false;
    const char c = held_[next_++];
    head_ += c;
    if (head_.size() > most_header_bytes) return false;
    if (c == '\n')
      ++ends_of_lines;
    else if (c != '\r')
      ends_of_lines = 0;
  }
  if (fault().empty()) head_ = without_ranges(head_);
  return true;
}

std::string Connection::fault() const { return fault_of_head(head_); }

bool Connection::is_readable() const {
  return head_read_ < head_.size() || next_ < end_ || wait(POLLIN, read_until_);
}

bool Connection::is_writable() const { return wait(POLLOUT, Clock::now() + to_take_answer); }

ssize_t Connection::read(char* to, std::size_t size) {
  if (head_read_ < head_.size()) {
    size = head_.copy(to, size, head_read_);
    head_read_ += size;
    return static_cast<ssize_t>(size);
  }
  if (next_ == end_)
    if (const ssize_t got = receive(); got <= 0) return got;
  size = std::min(size, end_ - next_);
  std::copy_n(held_.data() + next_, size, to);
  next_ += size;
  return static_cast<ssize_t>(size);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  if (!answers_) guest_.begin_answer();
  answers_ = true;
  std::size_t written = 0;
  while (written < size) {
    if (!is_writable()) return -1;
    const ssize_t sent = send(socket_, from + written, size - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return -1;
    written += sent;
  }
  return static_cast<ssize_t>(size);
}

// Sets the port to the number of the socket, because a handler gets only the request and finds the
// connection by its port. Nothing uses the addresses, because --host decides who can connect.
void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = socket_;
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
    unread += got;
  }
}

}  // namespace meshwright::tools
