#include "exec/launch/mpirun.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "exec/launch/children.h"
#include "exec/launch/exit_codes.h"
#include "exec/launch/own_network.h"
#include "exec/launch/watch.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

constexpr int could_not_start = 127;
constexpr std::chrono::seconds time_to_end{5};   // of mpirun without ranks, or told to end
constexpr std::chrono::seconds time_to_stop{5};  // of a step, before it is said that it lasts

using Clock = std::chrono::steady_clock;

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
                         const sigset_t& mask, const Ends& ends, bool own_network) {
  // A terminal's Ctrl-C must reach the ranks through us, not kill mpirun.
  setpgid(0, 0);
  // Before a namespace of users, from which the launcher's memory file cannot be opened.
  const int input = open(ends.input, O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (own_network && !enter_own_network()) _exit(could_not_start);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // after what changes rights, which would undo it
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  dup2(ends.errors, STDERR_FILENO);
  execvpe(arguments[0], arguments.data(), environment.data());
  _exit(could_not_start);
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const Supervision& supervision)
      : watch_(supervision.hosts),
        all_here_(std::all_of(supervision.hosts.begin(), supervision.hosts.end(),
                              [](const std::string& host) { return host.empty(); })),
        patience_(supervision.patience_s) {
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
    sigset_t mask = before_;  // whatever we hold back ourselves
    sigdelset(&mask, SIGINT);
    sigdelset(&mask, SIGTERM);
    const std::string& input = supervision.input;
    const bool own_network = supervision.own_network && own_network_allowed();
    pid_ = fork();
    check(pid_ >= 0, "fork");
    if (pid_ == 0)
      become(arguments, environment, mask, {input.empty() ? "/dev/null" : input.c_str(), ends[1]},
             own_network);
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
  void listen() {
    for (;;) {
      std::array<pollfd, 2> sources{{{errors_, POLLIN, 0}, {signal_fd_, POLLIN, 0}}};
      constexpr int look_ms = 500;
      const int ready = poll(sources.data(), sources.size(), look_ms);
      look_after();
      if (ready == 0 && was_killed_) return;  // who else holds the pipe, does so for nothing
      if (ready <= 0) continue;
      if (sources[1].revents != 0) pass_on_signal();
      if (sources[0].revents == 0) continue;
      std::array<char, 4096> text{};
      const ssize_t count = read(errors_, text.data(), text.size());
      if (count <= 0) return;
      const std::string shown = watch_.add({text.data(), static_cast<std::size_t>(count)});
      if (!gave_up_) std::fwrite(shown.data(), 1, shown.size(), stderr);
      std::fflush(stderr);
    }
  }

  bool was_asked() const { return requests_ > 0; }
  bool was_asked_twice() const { return requests_ > 1; }
  bool was_told_to_end() const { return told_to_end_.has_value(); }
  bool was_left_alone() const { return left_alone_; }
  bool gave_up() const { return gave_up_; }  // on mpirun: the verdict has been said
  Verdict verdict(int status) { return watch_.verdict(status); }

  // As waitpid says it.
  int wait() const {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  void look_after() {
    const auto now = Clock::now();
    if (all_here_) end_if_left_alone(now);
    if (watch_.has_failed() && !failed_at_) failed_at_ = now;
    if (failed_at_ && !told_to_end_ && now - *failed_at_ > patience_) give_up(now);
    if (asked_at_ && !told_to_end_ && now - *asked_at_ > time_to_stop) {
      std::fputs("the ranks have not ended their step yet; a second signal stops them at once\n",
                 stderr);
      asked_at_.reset();
    }
    if (told_to_end_ && now - *told_to_end_ > time_to_end) kill_all();
  }

  void pass_on_signal() {
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) return;
    if (++requests_ > 1) return end(Clock::now());
    // Without ranks it would be mpirun's own end, which is near when they have been.
    if (all_here_ && children_of(pid_).living == 0) {
      if (!had_ranks_) end(Clock::now());
      return;
    }
    asked_at_ = Clock::now();
    kill(pid_, SIGUSR1);
  }

  // The ranks have spoken; mpirun waits for a host that it cannot reach.
  void give_up(Clock::time_point now) {
    gave_up_ = true;
    std::fputs(watch_.verdict(run_failed).shown.c_str(), stderr);
    end(now);
  }

  void end(Clock::time_point now) {
    if (told_to_end_) return;
    told_to_end_ = now;
    kill(pid_, SIGTERM);
  }

  void kill_all() {
    if (was_killed_) return;
    was_killed_ = true;
    const std::vector<pid_t> others = descendants_of(pid_);
    kill(pid_, SIGKILL);
    for (pid_t other : others) kill(other, SIGKILL);
  }

  // Open MPI 4 may wait for itself for ever when a rank is killed while it connects.
  void end_if_left_alone(Clock::time_point now) {
    const Children ranks = children_of(pid_);
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

  FailureWatch watch_;
  bool all_here_;  // every rank is a child of mpirun
  std::chrono::duration<double> patience_;
  sigset_t signals_{}, before_{};
  int signal_fd_ = -1, errors_ = -1;
  pid_t pid_ = -1;
  int requests_ = 0;
  bool had_ranks_ = false, left_alone_ = false, gave_up_ = false, was_killed_ = false;
  std::optional<Clock::time_point> alone_since_, failed_at_, asked_at_, told_to_end_;
};

}  // namespace

void allow_open_files(int ranks) {
  const rlim_t wanted = 64 + 8 * static_cast<rlim_t>(ranks);  // measured: 28 + 4 for each rank
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted)
    throw InputError("only " + std::to_string(limit.rlim_max) +
                     " files may be open (ulimit -n), too few for " + std::to_string(ranks) +
                     " ranks; allow " + std::to_string(wanted));
  limit.rlim_cur = limit.rlim_max;
  check(setrlimit(RLIMIT_NOFILE, &limit) == 0, "ulimit -n");
}

int run_mpirun(const std::vector<std::string>& command, const Supervision& supervision) {
  std::fflush(nullptr);  // what we said comes before what the ranks say
  Child child(command, supervision);
  child.listen();
  const int ended = child.wait();
  if (child.gave_up()) return child.was_asked_twice() ? stopped : run_failed;
  if (child.was_left_alone()) {
    std::fputs(child.verdict(run_failed).shown.c_str(), stderr);
    std::fputs("the ranks had ended but mpirun had not; it was stopped\n", stderr);
    return run_failed;
  }
  if (WIFSIGNALED(ended) && !child.was_told_to_end()) {
    if (child.was_asked() && WTERMSIG(ended) == SIGUSR1) return stopped;
    std::fprintf(stderr, "mpirun was killed by signal %d; the ranks were stopped\n",
                 WTERMSIG(ended));
    return run_failed;
  }
  const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  if (status == could_not_start)
    throw RunError(command[0] + " could not be started; install Open MPI (tools/setup does)");
  if (child.was_told_to_end() && status != 0) {  // a code of mpirun's own
    std::fputs("stopped on request, without a last report\n", stderr);
    return stopped;
  }
  const Verdict verdict = child.verdict(status);
  std::fputs(verdict.shown.c_str(), stderr);
  return verdict.exit_code;
}

}  // namespace meshwright
