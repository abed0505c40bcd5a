// A thread that checks all of a rank's NCCL communicators again and again. At the first error, or
// the first operation that takes longer than the deadline, it prints a message and ends this
// process with exit code 4 like a failed rank, because NCCL itself would wait for ever. It does not
// abort the communicators first: a host that waits for the device would continue with what an
// aborted operation left behind. The end of the process ends them, and the peers notice that.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/comm/nccl_link.h"

namespace meshwright::exec {

class NcclWatch {
 public:
  // leave(exit code) does not return.
  NcclWatch(int rank, double deadline_s, std::function<void(int)> leave);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(NcclLink& link);
  void remove(NcclLink& link);

 private:
  void watch();
  void look();

  int rank_;
  double deadline_s_;
  std::function<void(int)> leave_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::vector<NcclLink*> links_;
  std::thread thread_;
};

}  // namespace meshwright::exec
