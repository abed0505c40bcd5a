// A private folder for what Open MPI keeps of a run (memory that ranks share, sockets): in memory
// where that can be, and gone when this process and its mpirun are, however they end.
#pragma once

#include <sys/types.h>

#include <string>

namespace meshwright {

class RunFolder {
 public:
  RunFolder();  // InputError where no temporary folder can be written to
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

}  // namespace meshwright
