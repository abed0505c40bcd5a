#include "exec/launch/run_folder.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Makes the folder, prints its path, and removes it when a line comes through the pipe, which this
// process writes in the end. It also removes the folder when nobody holds the pipe any more,
// neither this process nor mpirun. Then ranks may outlive mpirun for a moment, so what they make
// there is removed again for 3 s. The shell ignores signals that are meant for the run.
constexpr const char* script = R"(
trap '' HUP INT TERM
folder=$(mktemp -d "$1/meshwright-XXXXXX" 2>/dev/null) ||
  folder=$(mktemp -d "$0/meshwright-XXXXXX" 2>/dev/null) || exit 1
echo "$folder"
exec >/dev/null
read -r line && again="" || again="1 2 3 4 5 6"
rm -rf -- "$folder"
for time in $again; do
  sleep 0.5
  rm -rf -- "$folder"
done)";

// Returns all that the other end of a pipe writes until it closes it.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> piece{};
  for (ssize_t count = 1; count > 0 || (count < 0 && errno == EINTR);) {
    count = read(descriptor, piece.data(), piece.size());
    if (count > 0) text.append(piece.data(), count);
  }
  return text;
}

}  // namespace

RunFolder::RunFolder(const std::string& first) {
  std::error_code error;
  const std::string temporary = std::filesystem::temp_directory_path(error).string();
  if (error || access(temporary.c_str(), W_OK | X_OK) != 0)
    throw InputError(
        "the temporary folder cannot be used, and mpirun needs one; set TMPDIR to a folder that "
        "can be written to");
  start_remover(first, temporary);
  if (path_.empty()) {
    end();
    throw RunError(temporary + ": no folder can be made there");
  }
}

// Starts a shell that makes the folder and removes it in the end. The shell's input is a pipe that
// this process holds, and mpirun, which inherits it. So the folder goes even if this process is
// killed.
void RunFolder::start_remover(const std::string& first, const std::string& temporary) {
  std::array<int, 2> alive{}, name{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, alive.data()) != 0)
    throw RunError("a pipe cannot be made");
  alive_ = alive[1];
  if (pipe2(name.data(), O_CLOEXEC) != 0) {
    close(alive[0]);
    close(alive_);
    throw RunError("a pipe cannot be made");
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, alive[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, name[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C is not for it
  const std::array<const char*, 6> words{"sh",          "-c",   script, temporary.c_str(),
                                         first.c_str(), nullptr};
  const int failed = posix_spawn(&remover_, "/bin/sh", &files, &attributes,
                                 const_cast<char* const*>(words.data()), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(alive[0]);
  close(name[1]);
  if (failed == 0) path_ = read_all(name[0]);
  close(name[0]);
  if (failed != 0) {
    close(alive_);
    throw RunError("/bin/sh cannot be started");
  }
  if (path_.ends_with('\n')) path_.pop_back();
  fcntl(alive_, F_SETFD, 0);
}

void RunFolder::end() {
  send(alive_, "\n", 1, MSG_NOSIGNAL);
  close(alive_);
  while (waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

RunFolder::~RunFolder() { end(); }

}  // namespace meshwright::exec
