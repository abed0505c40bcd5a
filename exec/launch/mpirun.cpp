#include "exec/launch/mpirun.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "exec/launch/children.h"
#include "exec/launch/watch.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr int could_not_start = 127;
constexpr int run_failed = 4, stopped = 5;      // exit codes
constexpr std::chrono::seconds time_to_end{5};  // of mpirun, when it has no ranks any more

void check(bool good, const char* call) {
  if (!good) throw RunError(std::string(call) + ": " + std::strerror(errno));
}

// Our environment, and one variable more: where /sys is not mounted, as in a container, every
// process would say on standard error that it cannot see the processor's topology.
std::vector<char*> environment_of_ranks() {
  static char quiet[] = "HWLOC_HIDE_ERRORS=2";
  std::vector<char*> variables{quiet};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("HWLOC_HIDE_ERRORS="))
      variables.push_back(*variable);
  variables.push_back(nullptr);
  return variables;
}

std::vector<char*> arguments_of(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

struct Ends {
  const char* input;  // a file
  int errors;         // a pipe
};

// In the new process, between fork and exec: only calls that are safe there.
[[noreturn]] void become(std::vector<char*>& arguments, std::vector<char*>& environment,
                         const sigset_t& mask, const Ends& ends) {
  // A terminal's Ctrl-C must reach the ranks through us, not kill mpirun.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int input = open(ends.input, O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  dup2(ends.errors, STDERR_FILENO);
  execvpe(arguments[0], arguments.data(), environment.data());
  _exit(could_not_start);
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const std::string& input) {
    MESHWRIGHT_CHECK(!command.empty(), "a program to start");
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
    signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC);
    std::array<int, 2> ends{};
    check(signal_fd_ >= 0 && pipe2(ends.data(), O_CLOEXEC) == 0, "starting mpirun");
    errors_ = ends[0];
    std::vector<char*> environment = environment_of_ranks(), arguments = arguments_of(command);
    pid_ = fork();
    check(pid_ >= 0, "fork");
    if (pid_ == 0)
      become(arguments, environment, before_,
             {input.empty() ? "/dev/null" : input.c_str(), ends[1]});
    close(ends[1]);
  }
  ~Child() {
    close(errors_);
    close(signal_fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Until the standard error of mpirun and of all ranks is closed.
  void listen(FailureWatch& watch, bool all_here) {
    for (;;) {
      std::array<pollfd, 2> sources{{{errors_, POLLIN, 0}, {signal_fd_, POLLIN, 0}}};
      constexpr int look_ms = 500;
      const int ready = poll(sources.data(), sources.size(), look_ms);
      if (ready == 0 && all_here) end_if_left_alone();
      if (ready <= 0) continue;
      if (sources[1].revents != 0) pass_on_signal();
      if (sources[0].revents == 0) continue;
      std::array<char, 4096> text{};
      const ssize_t count = read(errors_, text.data(), text.size());
      if (count <= 0) return;
      const std::string shown = watch.add({text.data(), static_cast<std::size_t>(count)});
      std::fwrite(shown.data(), 1, shown.size(), stderr);
      std::fflush(stderr);
    }
  }

  bool was_asked_twice() const { return requests_ > 1; }
  bool was_left_alone() const { return left_alone_; }

  // As waitpid says it.
  int wait() const {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  void pass_on_signal() {
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) return;
    kill(pid_, requests_ == 0 ? SIGUSR1 : SIGTERM);
    ++requests_;
  }

  // Open MPI 4 may wait for itself for ever when a rank is killed while it connects.
  void end_if_left_alone() {
    const Children ranks = children_of(pid_);
    const auto now = std::chrono::steady_clock::now();
    had_ranks_ = had_ranks_ || ranks.living + ranks.ended > 0;
    if (ranks.living > 0 || !had_ranks_) {
      alone_since_ = {};
    } else if (!alone_since_) {
      alone_since_ = now;
    } else if (now - *alone_since_ > time_to_end) {
      left_alone_ = true;
      kill(pid_, SIGKILL);
    }
  }

  sigset_t signals_{}, before_{};
  int signal_fd_ = -1, errors_ = -1;
  pid_t pid_ = -1;
  int requests_ = 0;
  bool had_ranks_ = false, left_alone_ = false;
  std::optional<std::chrono::steady_clock::time_point> alone_since_;
};

}  // namespace

int run_mpirun(const std::vector<std::string>& command, const std::string& input, bool all_here) {
  std::fflush(nullptr);  // what we said comes before what the ranks say
  FailureWatch watch;
  Child child(command, input);
  child.listen(watch, all_here);
  const int ended = child.wait();
  if (child.was_left_alone()) {
    std::fputs(watch.verdict(run_failed).shown.c_str(), stderr);
    std::fputs("the ranks had ended but mpirun had not; it was stopped\n", stderr);
    return run_failed;
  }
  if (WIFSIGNALED(ended) && !child.was_asked_twice()) {
    std::fprintf(stderr, "mpirun was killed by signal %d; the ranks were stopped\n",
                 WTERMSIG(ended));
    return run_failed;
  }
  const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  if (status == could_not_start)
    throw RunError(command[0] + " could not be started; install Open MPI (tools/setup does)");
  const Verdict verdict = watch.verdict(status);
  std::fputs(verdict.shown.c_str(), stderr);
  // Told to stop at once, mpirun ends with a code of its own.
  return child.was_asked_twice() && status != 0 ? stopped : verdict.exit_code;
}

}  // namespace meshwright
