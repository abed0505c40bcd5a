#include "tools/serve/server.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "models/core/error.h"
#include "tools/print.h"
#include "tools/serve/address.h"
#include "tools/serve/connection.h"
#include "tools/serve/limits.h"
#include "tools/serve/router.h"

namespace meshwright {

namespace {

// Readable from the moment on that the server shall stop.
class StopPipe {
 public:
  StopPipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) throw RunError("no pipe can be opened");
  }
  ~StopPipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  StopPipe(const StopPipe&) = delete;
  StopPipe& operator=(const StopPipe&) = delete;

  int readable() const { return ends_[0]; }
  void stop() const {
    const char byte = 0;
    while (write(ends_[1], &byte, 1) < 0 && errno == EINTR) {
    }
  }

 private:
  int ends_[2] = {};
};

// One request a connection, each on a thread of its own.
class PageServer : public httplib::Server {
 public:
  PageServer(int stopping) : stopping_(stopping) {
    new_task_queue = [] { return new httplib::ThreadPool(most_connections); };
  }

  void listen_to_many() { ::listen(svr_sock_, most_connections); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool answered = false;
    {
      Connection connection(socket, stopping_);
      const ThisConnection here(connection);
      bool closed = false;
      answered = process_request(connection, true, closed, nullptr);
      connection.finish();
    }
    close(socket);
    return answered;
  }

  int stopping_;
};

// Waits for them on a thread, so that whatever is under way is ended in order.
sigset_t hold_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int listen_at(httplib::Server& server, const Serving& serving) {
  const int port = serving.port == 0 ? server.bind_to_any_port(serving.host)
                   : server.bind_to_port(serving.host, serving.port) ? serving.port
                                                                     : -1;
  if (port > 0) return port;
  throw InputError(fmt::format(
      "serve: cannot listen at {} port {}; is it taken, or not this computer's? --port 0 takes any "
      "free one",
      serving.host, serving.port));
}

}  // namespace

void serve(const Serving& serving) {
  const sigset_t signals = hold_signals();
  const StopPipe stopping;
  PageServer server(stopping.readable());
  const int port = listen_at(server, serving);
  server.listen_to_many();
  Router router(ServedAddress(serving.host, port), serving, stopping.readable());
  router.answer_for(server);
  print_to(stdout, "meshwright listens at {} (Ctrl-C ends it)\n",
           ServedAddress(serving.host, port).url());
  std::fflush(stdout);
  std::jthread waiting([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    stopping.stop();
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server.stop();
  });
  const bool was_listening = server.listen_after_bind();
  kill(getpid(), SIGTERM);  // where it failed by itself, the thread still waits
  if (!was_listening) throw RunError("serve: listening failed");
}

}  // namespace meshwright
