// Ends this process with exit code 4, and a message like that of a failed rank, if a call that
// cannot be interrupted (as in MPI's set-up) does not return in time. The destructor ends the
// watch.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace meshwright::exec {

class Watchdog {
 public:
  // `doing` says in the message what took too long. `rank` is -1 if it is not known yet.
  Watchdog(double deadline_s, std::string doing, int rank = -1);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  bool ends_in_time(std::unique_lock<std::mutex>& lock);

  double deadline_s_;
  std::string doing_;
  int rank_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace meshwright::exec
