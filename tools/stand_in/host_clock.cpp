#include "tools/stand_in/host_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "tools/stand_in/log.h"

namespace meshwright::stand_in {

namespace {

// Waits for a core are asked for only after this much time. Asking the kernel takes about 1 us for
// each thread, and a thread that lost its core is away for longer.
constexpr std::uint64_t shortest_wait_ns = 50'000;

// Describes one thread, and how long it has waited for a core in total, as the kernel counts it.
class Thread {
 public:
  Thread();
  ~Thread();

  // Returns how many nanoseconds the thread has waited since the last call.
  std::uint64_t newly_waited() {
    const std::uint64_t before = waited_;
    char text[96] = {};
    unsigned long long waited = 0;
    if (file_ >= 0 && pread(file_, text, sizeof text - 1, 0) > 0 &&
        std::sscanf(text, "%*u %llu", &waited) == 1)
      waited_ = waited;
    return waited_ - before;
  }

 private:
  int file_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  std::uint64_t waited_ = 0;
};

// All threads have one clock. A thread may wait for another one that waits for a core, because the
// interpreter has one lock for all. The waits of all threads are therefore subtracted.
struct Clock {
  std::mutex lock;
  std::vector<Thread*> threads;
  std::uint64_t last = 0, host = 0;

  std::uint64_t advanced_to(std::uint64_t now) {
    if (now <= last) return host;
    const std::uint64_t passed = now - last;
    std::uint64_t waited = 0;
    if (passed >= shortest_wait_ns)
      for (Thread* const thread : threads) waited += thread->newly_waited();
    last = now;
    return host += passed - std::min(passed, waited);
  }
};

Clock& the_clock() {
  static Clock* const the = new Clock;  // never destroyed: threads of libraries outlive main
  return *the;
}

Thread::Thread() {
  newly_waited();
  const std::lock_guard guard(the_clock().lock);
  the_clock().threads.push_back(this);
}

Thread::~Thread() {
  if (file_ >= 0) close(file_);
  const std::lock_guard guard(the_clock().lock);
  std::erase(the_clock().threads, this);
}

}  // namespace

std::uint64_t host_ns() {
  thread_local Thread mine;
  const std::lock_guard guard(the_clock().lock);
  return the_clock().advanced_to(now_ns());
}

}  // namespace meshwright::stand_in

// Returns the clock of the entries, by which the recorder times whole steps.
extern "C" std::uint64_t meshwright_stand_in_host_ns() { return meshwright::stand_in::host_ns(); }
