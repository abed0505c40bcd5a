// Runs a server of the program under test on a free port of this computer.
#pragma once

#include <sys/types.h>

#include <string>

// Sends `request` as it is, and returns all that the server sends until it closes the connection.
std::string raw_answer(int port, const std::string& request);
// Open a connection to a server on this computer, and send a request on it.
int connected(int port);
void send_all(int connection, const std::string& request);
int status_of(const std::string& raw);

class Served {
 public:
  explicit Served(const std::string& options = "");
  ~Served();  // as SIGTERM ends it, with exit code 0
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  int port() const { return port_; }
  pid_t process() const { return process_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  int searches() const;         // child processes
  double resident_mib() const;  // of the server itself
  int end();                    // SIGTERM; its exit code

 private:
  pid_t process_ = -1;
  int port_ = 0;
};
