// One client's connection as the HTTP library reads and writes it: the request has to come within a
// time, its header has a size, and a client that takes none of its answer is given up.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <string>

namespace meshwright {

class Connection : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // `stopping` becomes readable when the server stops.
  Connection(int socket, int stopping);

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

  int stopping() const { return stopping_; }
  // Ends the answer, and waits a little for the client to end: closing before all it sent is read
  // would take the answer from it.
  void finish();

 private:
  bool wait(short events, Clock::time_point until) const;

  int socket_, stopping_;
  Clock::time_point read_until_;
  std::array<char, 16384> held_;
  std::size_t next_ = 0, end_ = 0;
  std::size_t header_bytes_ = 0;
  int ends_of_lines_ = 0;  // two: the header has ended
};

}  // namespace meshwright
