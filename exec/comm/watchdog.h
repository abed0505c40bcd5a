// Ends this process when a call that cannot be interrupted (MPI's set-up) does not return in time:
// says so as a failed rank does, exit code 4.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace meshwright {

class Watchdog {
 public:
  // `doing`: what is awaited, for the message; rank -1: not known yet.
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

}  // namespace meshwright
