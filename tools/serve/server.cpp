#include "tools/serve/server.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <thread>

#include "models/core/error.h"
#include "tools/print.h"
#include "tools/serve/address.h"
#include "tools/serve/answer.h"
#include "tools/serve/connection.h"
#include "tools/serve/crowd.h"
#include "tools/serve/limits.h"
#include "tools/serve/router.h"

namespace meshwright::tools {

namespace {

// Has a pipe that becomes readable once the server has to stop: after SIGINT or SIGTERM, or after
// stop(). The signals have a handler instead of being blocked and waited for, because libraries
// have threads that block no signal. One of these would get the signal, and the process would end
// at once.
class StopPipe {
 public:
  StopPipe() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) throw RunError("no pipe can be opened");
    written_on_signal = ends_[1];
    struct sigaction action {};
    action.sa_handler = [](int) { write_byte(written_on_signal); };
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &action, &before_[i]);
  }
  ~StopPipe() {
    for (std::size_t i = 0; i < std::size(signals); ++i)
      sigaction(signals[i], &before_[i], nullptr);
    close(ends_[0]);
    close(ends_[1]);
  }
  StopPipe(const StopPipe&) = delete;
  StopPipe& operator=(const StopPipe&) = delete;

  int readable() const { return ends_[0]; }
  void stop() const { write_byte(ends_[1]); }
  void wait() const {
    pollfd asked{ends_[0], POLLIN, 0};
    while (poll(&asked, 1, -1) < 0 && errno == EINTR) {
    }
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM};
  static inline volatile sig_atomic_t written_on_signal = -1;

  // Writes a byte. Signal handlers call it too. A full pipe needs no further byte, because it is
  // readable already.
  static void write_byte(int to) {
    const int before = errno;
    const char byte = 0;
    while (write(to, &byte, 1) < 0 && errno == EINTR) {
    }
    errno = before;
  }

  int ends_[2] = {};
  struct sigaction before_[std::size(signals)] = {};
};

// Answers with an error a request that the HTTP library does not see.
void answer_error(Connection& connection, const std::string& reason, const Answer& answer) {
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      answer.status, reason, answer.text.size(), answer.text);
  connection.write(text.data(), text.size());
}

// Answers one request per connection. While a connection is served, it has a thread of the pool.
class PageServer : public httplib::Server {
 public:
  PageServer(int stopping) : stopping_(stopping) {
    new_task_queue = [] { return new httplib::ThreadPool(server_threads); };
    // By default, the library lets several servers share a port (SO_REUSEPORT), and each would get
    // some of the requests. SO_REUSEADDR alone only lets a server start again where one has just
    // ended.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
  }

  void listen_to_many() { ::listen(svr_sock_, server_threads); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    {
      Connection connection(socket, stopping_, crowd_);
      answered = answer_on(connection);
      connection.finish();
    }
    close(socket);
    return answered;
  }

  bool answer_on(Connection& connection) {
    if (!connection.read_head()) return false;
    if (const std::string fault = connection.fault(); !fault.empty()) {
      answer_error(connection, "Bad Request", error_answer(400, fault));
      return true;
    }
    bool closed = false;
    return process_request(connection, true, closed, nullptr);
  }

  int stopping_;
  Crowd crowd_{most_awaited};
};

int listen_at(httplib::Server& server, const Serving& serving) {
  const std::string address = address_of(serving.host);
  if (address.empty())
    throw InputError(fmt::format("--host '{}': no address is known by this name", serving.host));
  const int port = serving.port == 0                            ? server.bind_to_any_port(address)
                   : server.bind_to_port(address, serving.port) ? serving.port
                                                                : -1;
  if (port > 0) return port;
  throw InputError(fmt::format("serve: {}", why_not_at(address, serving.port)));
}

}  // namespace

void serve(const Serving& serving) {
  const StopPipe stopping;
  PageServer server(stopping.readable());
  const int port = listen_at(server, serving);
  server.listen_to_many();
  Router router(ServedAddress(serving.host, port), serving, stopping.readable());
  router.answer_for(server);
  print_to(stdout, "meshwright listens at {} (Ctrl-C ends it)\n",
           ServedAddress(serving.host, port).url());
  std::fflush(stdout);
  std::atomic<bool> has_ended = false;
  std::jthread waiting([&] {
    stopping.wait();
    while (!server.is_running() && !has_ended)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server.stop();
  });
  const bool was_listening = server.listen_after_bind();
  has_ended = true;
  stopping.stop();  // if listening failed, the thread still waits
  if (!was_listening) throw RunError("serve: listening failed");
}

}  // namespace meshwright::tools
