// A private folder for the files that Open MPI keeps during a run (memory that ranks share,
// sockets), or of a rehearsal. It is in memory if possible. It is removed when this process and its
// mpirun have ended, however they end.
#pragma once

#include <sys/types.h>

#include <string>

namespace meshwright::exec {

class RunFolder {
 public:
  // Makes it in `first` if possible, or else in the temporary folder. Throws InputError if that
  // cannot be used.
  explicit RunFolder(const std::string& first = "/dev/shm");
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  void start_remover(const std::string& first, const std::string& temporary);
  void end();

  std::string path_;
  int alive_ = -1;  // a pipe that this process and mpirun hold
  pid_t remover_ = -1;
};

}  // namespace meshwright::exec
