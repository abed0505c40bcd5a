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
#include <tuple>

#include "exec/launch/children.h"
#include "exec/launch/exit_codes.h"
#include "exec/launch/own_network.h"
#include "exec/launch/watch.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr int could_not_start = 127;
constexpr std::chrono::seconds time_to_end{5};    // for mpirun after its ranks, or after SIGTERM
constexpr std::chrono::seconds time_to_stop{5};   // before a line says that the step still runs
constexpr std::chrono::seconds time_to_speak{2};  // for ranks that have waited in vain

using Clock = std::chrono::steady_clock;

void check(bool good, const char* call) {
  if (!good) throw RunError(std::string(call) + ": " + std::strerror(errno));
}

// Returns this process's environment with one more variable. Without it, every process would
// complain on standard error that it cannot see the processor's topology if /sys is not mounted, as
// in a container.
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

// Makes the new process mpirun. It runs between fork and exec, so it uses only calls that are safe
// there.
[[noreturn]] void become(std::vector<char*>& arguments, std::vector<char*>& environment,
                         const sigset_t& mask, const Ends& ends, bool own_network, pid_t launcher) {
  // A terminal's Ctrl-C must reach the ranks through the launcher and must not kill mpirun.
  setpgid(0, 0);
  // The input is opened before a user namespace is entered, because the launcher's memory file
  // cannot be opened from inside.
  const int input = open(ends.input, O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (own_network && !enter_own_network()) _exit(could_not_start);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // after what changes rights, which would undo it
  if (getppid() != launcher) _exit(could_not_start);  // the launcher has ended already
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  dup2(ends.errors, STDERR_FILENO);
  execvpe(arguments[0], arguments.data(), environment.data());
  _exit(could_not_start);
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const Supervision& supervision)
      : watch_(supervision.hosts),
        all_here_(std::ranges::all_of(supervision.hosts,
                                      [](const std::string& host) { return host.empty(); })),
        patience_(supervision.patience_s),
        deadline_(supervision.deadline_s) {
    MESHWRIGHT_CHECK(!command.empty(), "a program to start");
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
    signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    std::array<int, 2> ends{};
    check(signal_fd_ >= 0 && pipe2(ends.data(), O_CLOEXEC) == 0, "starting mpirun");
    errors_ = ends[0];
    std::vector<char*> environment = environment_of_ranks(), arguments = arguments_of(command);
    sigset_t mask = before_;  // without SIGINT and SIGTERM, even if blocked here
    sigdelset(&mask, SIGINT);
    sigdelset(&mask, SIGTERM);
    const std::string& input = supervision.input;
    const bool own_network = supervision.own_network && own_network_allowed();
    const pid_t launcher = getpid();
    pid_ = fork();
    check(pid_ >= 0, "fork");
    if (pid_ == 0)
      become(arguments, environment, mask, {input.empty() ? "/dev/null" : input.c_str(), ends[1]},
             own_network, launcher);
    close(ends[1]);
  }
  ~Child() {
    close(errors_);
    close(signal_fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Supervises mpirun until it has ended, and returns its status as waitpid() reports it. By then,
  // all that mpirun and the ranks wrote to standard error has been read.
  int listen() {
    bool open = true, ended = false;
    int status = 0;
    for (;;) {
      const int errors = open ? errors_ : -1, signals = ended ? -1 : signal_fd_;  // -1: left out
      std::array<pollfd, 2> sources{{{errors, POLLIN, 0}, {signals, POLLIN, 0}}};
      const int ready = poll(sources.data(), sources.size(), open ? 500 : 20);
      ended = ended || waitpid(pid_, &status, WNOHANG) == pid_;
      if (ended && !(open && ready > 0)) break;  // nothing waits in the pipe
      // The ranks' marks are read before a later request and before the clock.
      if (ready > 0 && sources[0].revents != 0) open = show_errors();
      if (!ended && ready > 0 && sources[1].revents != 0) pass_on_signal();
      if (!ended) look_after();
    }
    while (hear_request()) {  // one that came too late to be passed on counts as well
    }
    return status;
  }

  int requests() const { return requests_; }
  bool was_told_to_end() const { return told_to_end_.has_value(); }
  bool was_left_alone() const { return left_alone_; }
  bool gave_up() const { return gave_up_; }  // stopped waiting for mpirun
  std::optional<int> last_word() const { return watch_.last_word(); }
  Verdict verdict(int status) { return watch_.verdict(status); }

  // Returns the last lines of a run that rank 0 says has ended: the rest of what the ranks wrote,
  // the failures that were not shown before, and, if ranks had to be stopped or have failed, a line
  // that says so.
  std::string last_lines() {
    std::string lines = watch_.verdict(done).shown;
    if (!gave_up_) lines += watch_.failures();
    if (gave_up_ || left_alone_ || !watch_.failures().empty())
      lines += "the run had ended, but its ranks did not leave; they were stopped\n";
    return lines;
  }

 private:
  bool show_errors() {  // false: nobody will write any more
    std::array<char, 4096> text{};
    const ssize_t count = read(errors_, text.data(), text.size());
    if (count <= 0) return count < 0 && errno == EINTR;
    const std::string shown = watch_.add({text.data(), static_cast<std::size_t>(count)});
    // mpirun complains if it is ended before it has ranks. That is not shown.
    const bool is_noise = gave_up_ || (told_to_end_ && !watch_.has_met());
    if (!is_noise) std::fwrite(shown.data(), 1, shown.size(), stderr);
    std::fflush(stderr);
    return true;
  }

  void look_after() {
    const auto now = Clock::now();
    if (all_here_) end_if_left_alone(now);
    if (told_to_end_) {
      if (now - *told_to_end_ > time_to_end) kill_all();
      return;
    }
    if (watch_.has_failed() && !failed_at_) failed_at_ = now;
    if (failed_at_ && now - *failed_at_ > (watch_.last_word() ? time_to_end : patience_))
      return give_up(now,
                     watch_.last_word() ? watch_.failures() : watch_.verdict(run_failed).shown);
    if (deadline_.count() > 0) look_at_clock(now);
    if (asked_at_ && !watch_.last_word() && now - *asked_at_ > time_to_stop) {
      std::fputs("the ranks have not ended their step yet; a second signal stops them at once\n",
                 stderr);
      asked_at_.reset();
    }
  }

  // Gives up if the ranks do not start, meet or leave in time, because mpirun may wait for ever for
  // a host, or for a rank that hangs. In between there is no limit: a step may take any time, and
  // ranks notice by themselves who does not answer.
  void look_at_clock(Clock::time_point now) {
    const Progress progress{watch_.started(), watch_.has_met(), watch_.last_word().has_value()};
    // At most 1 s counts between two looks, so that a launcher does not use up the deadline while
    // it is suspended.
    unchanged_for_ += std::min<Clock::duration>(now - latest_look_, std::chrono::seconds(1));
    latest_look_ = now;
    if (progress != progress_) unchanged_for_ = {};
    progress_ = progress;
    if (watch_.last_word()) {
      if (unchanged_for_ > deadline_ + time_to_speak) give_up(now, "");
    } else if (!watch_.has_met()) {
      // Ranks that have started have the same deadline, and report what they waited in. The
      // launcher gives them a little longer, so that their own reports come first.
      const auto limit = watch_.started() > 0 ? deadline_ + patience_ : deadline_;
      if (unchanged_for_ > limit) give_up(now, watch_.not_met(deadline_.count()));
    }
  }

  // Returns whether a request to stop has come since the last call.
  bool hear_request() {
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) return false;
    ++requests_;
    return true;
  }

  void pass_on_signal() {
    if (!hear_request()) return;
    const auto now = Clock::now();
    if (requests_ > 1) return end(now);
    if (watch_.last_word()) return;  // the end is near
    if (!watch_.has_met()) return end(now);
    asked_at_ = now;
    kill(pid_, SIGUSR1);
  }

  // Prints `why` and ends mpirun, which waits for a rank or a host that does not answer.
  void give_up(Clock::time_point now, const std::string& why) {
    gave_up_ = true;
    std::fputs(why.c_str(), stderr);
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

  // Kills mpirun if it outlives its ranks by more than `time_to_end`, because Open MPI 4 may wait
  // for itself for ever if a rank is killed while it connects.
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

  // How far the run is: the number of ranks that have started, whether all have met, and whether
  // rank 0 has told that it ended. The deadline counts anew whenever this changes.
  using Progress = std::tuple<std::size_t, bool, bool>;

  FailureWatch watch_;
  bool all_here_;  // every rank is a child of mpirun
  std::chrono::duration<double> patience_, deadline_;
  Progress progress_;
  Clock::time_point latest_look_ = Clock::now();
  std::chrono::duration<double> unchanged_for_{};
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

namespace {

// Returns the exit code of a run whose mpirun ended by itself or was killed by somebody else.
int code_of(Child& child, int ended, const std::string& program) {
  if (WIFSIGNALED(ended) && !child.was_told_to_end()) {
    std::fprintf(stderr, "mpirun was killed by signal %d; the ranks were stopped\n",
                 WTERMSIG(ended));
    return run_failed;
  }
  const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  if (status == could_not_start)
    throw RunError(program + " could not be started; install Open MPI (tools/setup does)");
  const Verdict verdict = child.verdict(status);
  std::fputs(verdict.shown.c_str(), stderr);
  return verdict.exit_code;
}

// Returns the exit code of a run that was asked to stop. Bad input keeps its code, because the
// next run would meet it again.
int code_of_stopped(Child& child, int ended) {
  if (!child.was_told_to_end() && !child.was_left_alone()) {
    const Verdict verdict =
        child.verdict(WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended));
    if (verdict.exit_code != done) std::fputs(verdict.shown.c_str(), stderr);
    if (verdict.exit_code == bad_input || verdict.exit_code == stopped) return verdict.exit_code;
  }
  std::fputs("stopped on request, without a last report\n", stderr);
  return stopped;
}

}  // namespace

int run_mpirun(const std::vector<std::string>& command, const Supervision& supervision) {
  std::fflush(nullptr);  // the launcher's lines come before the ranks'
  Child child(command, supervision);
  const int ended = child.listen();
  if (const std::optional<int> last_word = child.last_word()) {
    std::fputs(child.last_lines().c_str(), stderr);
    return *last_word;
  }
  if (child.requests() > 0) return code_of_stopped(child, ended);
  if (child.gave_up()) return run_failed;
  if (child.was_left_alone()) {
    std::fputs(child.verdict(run_failed).shown.c_str(), stderr);
    std::fputs("the ranks had ended but mpirun had not; it was stopped\n", stderr);
    return run_failed;
  }
  const int code = code_of(child, ended, command[0]);
  if (code != done || supervision.deadline_s == 0) return code;
  std::fputs("mpirun has ended, but rank 0 has not said how the run ended\n", stderr);
  return run_failed;
}

}  // namespace meshwright::exec
