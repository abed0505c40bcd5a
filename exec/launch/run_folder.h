// A private folder for the files that Open MPI keeps during a run (memory that ranks share,
// sockets), or for other temporary files. It is in memory if possible, unless another place is
// given. It is removed when this object is destroyed or, if this process is killed, when its mpirun
// has ended too.
#pragma once

#include <sys/types.h>

#include <string>

namespace meshwright::exec {

class RunFolder {
 public:
  // Makes the folder in `first` if possible, or else in the temporary folder. Throws InputError if
  // the temporary folder cannot be written to, even if it is not needed, and RunError if no folder
  // can be made.
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
