// Reads and writes one client's connection for the HTTP library. It protects the server: the
// request has to arrive within a time, its head is limited in size and must have only one meaning
// (request_head.h), and a client that takes none of its response for a while is given up.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <string>

#include "tools/serve/crowd.h"
#include "tools/serve/limits.h"

namespace meshwright::tools {

class Connection : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // `stopping` becomes readable when the server stops. `to_send` limits the time from now to the
  // request's last byte.
  Connection(int socket, int stopping, Crowd& crowd,
             std::chrono::seconds to_send = to_send_request);

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

  int stopping() const { return stopping_; }

  // Reads the head of the request. The server calls it first. read() then returns the head again,
  // without headers that ask for a range. Returns false if the head does not arrive in time or is
  // too long. No response is sent then.
  bool read_head();
  std::string fault() const;  // why the head is rejected; empty: it is valid
  // Ends the response. Then it reads what the client still sends, for a short time and up to a
  // limit, because closing the socket with unread bytes could take the response from the client.
  void finish();

 private:
  bool wait(short events, Clock::time_point until) const;
  ssize_t receive();  // reads more into held_

  int socket_, stopping_;
  mutable Crowd::Guest guest_;
  Clock::time_point read_until_;
  std::string head_;
  std::size_t head_read_ = 0;  // bytes of it that read() has returned
  std::array<char, 16384> held_;
  std::size_t next_ = 0, end_ = 0;
  bool answers_ = false;  // whether the response has begun
};

}  // namespace meshwright::tools
