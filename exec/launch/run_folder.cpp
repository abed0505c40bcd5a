#include "exec/launch/run_folder.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "models/core/error.h"

namespace meshwright {

namespace {

// Empty where `parent` has no room for one.
std::string new_folder(const std::string& parent) {
  std::string path = parent + "/meshwright-XXXXXX";
  return mkdtemp(path.data()) == nullptr ? "" : path;
}

}  // namespace

RunFolder::RunFolder() {
  std::error_code error;
  const std::string temporary = std::filesystem::temp_directory_path(error).string();
  if (error || access(temporary.c_str(), W_OK | X_OK) != 0)
    throw InputError(
        "the temporary folder cannot be used, and mpirun needs one; set TMPDIR to a folder that "
        "can be written to");
  path_ = new_folder("/dev/shm");
  if (path_.empty()) path_ = new_folder(temporary);
  if (path_.empty()) throw RunError(temporary + ": no folder can be made there");
  start_remover();
}

// A process of its own, which sees the end of ours: when the pipe that only we hold is closed.
void RunFolder::start_remover() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw RunError("a pipe cannot be made");
  alive_ = ends[1];
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C is not for it
  const char* script = "read -r line; rm -rf -- \"$0\"";
  const std::array<const char*, 5> words{"sh", "-c", script, path_.c_str(), nullptr};
  const int failed = posix_spawn(&remover_, "/bin/sh", &files, &attributes,
                                 const_cast<char* const*>(words.data()), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[0]);
  if (failed == 0) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  throw RunError("/bin/sh cannot be started");
}

RunFolder::~RunFolder() {
  close(alive_);
  while (waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace meshwright
