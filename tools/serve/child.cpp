#include "tools/serve/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "exec/launch/memory_file.h"
#include "models/core/error.h"
#include "tools/answering.h"
#include "tools/serve/limits.h"

namespace meshwright::tools {

namespace {

struct Pipe {
  int read = -1, write = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw RunError("no pipe can be opened");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close(read);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
};

// Turns the new process into the command. It makes only calls that are safe between fork and exec.
[[noreturn]] void become(char* const* words, const char* folder, int in, int out, int err,
                         rlim_t memory_bytes) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const rlimit memory{memory_bytes, memory_bytes};
  setrlimit(RLIMIT_AS, &memory);
  const bool ready = dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0 &&
                     close_range(3, ~0U, 0) == 0 && chdir(folder) == 0;
  if (ready) execv(words[0], words);
  _exit(127);
}

// Runs a process. When this object is destroyed, the process is killed, with all processes of its
// group, and waited for.
class Process {
 public:
  Process(const ChildCommand& command, int out, int err) {
    const MemoryFile input(command.input);
    const int in = open(input.path().c_str(), O_RDONLY | O_CLOEXEC);
    std::string program = command.program, word = answering_word;
    char* const words[] = {program.data(), word.data(), nullptr};
    const rlim_t memory_bytes = most_child_bytes();
    id_ = fork();
    if (id_ == 0) become(words, command.folder.c_str(), in, out, err, memory_bytes);
    close(in);
    if (id_ < 0) throw RunError("no process can be started");
  }
  ~Process() {
    if (id_ < 0) return;
    end();
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void end() const {
    kill(-id_, SIGKILL);
    kill(id_, SIGKILL);  // it may not lead its group yet
  }
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-id_, SIGKILL);  // kills what it started, if that still runs
    id_ = -1;
    return status;
  }

 private:
  pid_t id_ = -1;
};

// Reads from a pipe once and appends to `text`. Returns false at the end of the pipe or after an
// error.
bool take(int from, std::string& text) {
  std::array<char, 65536> some;
  const ssize_t got = read(from, some.data(), some.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(some.data(), got);
  return got > 0;
}

void hand_on_lines(std::string& text, const std::function<void(std::string_view)>& line) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    line(std::string_view(text).substr(begin, end - begin));
  text.erase(0, begin);
}

}  // namespace

std::uint64_t most_child_bytes() {
  constexpr std::uint64_t least = std::uint64_t{4} << 30;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return least;
  return std::max(least, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 2);
}

ChildEnd run_child(const ChildCommand& command, int client, int stopping,
                   const std::function<void(std::string_view)>& line) {
  using Clock = std::chrono::steady_clock;
  Pipe out, err;
  Process process(command, out.write, err.write);
  out.close_write();
  err.close_write();
  ChildEnd end;
  const auto ended_because = [&](ChildEnd::How how) {
    end.how = how;
    return end;
  };
  const auto until = Clock::now() + command.limit;
  pollfd fds[] = {
      {out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {client, POLLRDHUP, 0}, {stopping, POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return ended_because(ChildEnd::How::late);
    if (poll(fds, 4, static_cast<int>(left)) < 0) continue;
    if (fds[3].revents != 0) return ended_because(ChildEnd::How::stopped);
    if (fds[2].revents != 0) return ended_because(ChildEnd::How::left);
    if (fds[0].revents != 0 && !take(out.read, end.out)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !take(err.read, end.err)) fds[1].fd = -1;
    hand_on_lines(end.err, line);
    if (end.out.size() > most_answer_bytes || end.err.size() > most_answer_bytes)
      return ended_because(ChildEnd::How::too_long);
  }
  const int status = process.wait();
  end.how = WIFSIGNALED(status) ? ChildEnd::How::killed : ChildEnd::How::exited;
  end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

}  // namespace meshwright::tools
