// A private folder for the files that Open MPI keeps during a run (memory that ranks share,
// sockets). It is in memory if possible. It is removed when this process and its mpirun have ended,
// however they end.
#pragma once

#include <sys/types.h>

#include <string>

namespace meshwright::exec {

class RunFolder {
 public:
  RunFolder();  // throws InputError if no temporary folder can be used
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  void start_remover(const std::string& temporary);
  void end();

  std::string path_;
  int alive_ = -1;  // a pipe that this process and mpirun hold
  pid_t remover_ = -1;
};

}  // namespace meshwright::exec
