// Threads that share the pieces of one loop at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace meshwright::exec {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller of `run` is one of them
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls piece(data, i) once for each i in [0, pieces), on any thread, and returns when all are
  // done. Threads that have not woken up by then are not waited for, so short loops are fast. Must
  // not be called from inside a piece. There may be at most 2^32 - 2 pieces.
  void run(std::int64_t pieces, void (*piece)(void* data, std::int64_t index), void* data);

 private:
  using Piece = void (*)(void*, std::int64_t);

  void work();
  void wake_workers(std::int64_t count);
  void take_pieces();

  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> begun_{0};  // counts loops; a worker waits for it to change
  // The number of the loop (upper half) and how many of its pieces are taken (lower half). Both are
  // in one number, so that a thread that comes late takes no piece of the next loop by mistake.
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::int64_t> pieces_{0};
  std::atomic<std::uint32_t> unfinished_{0};  // pieces of this loop
  std::atomic<Piece> piece_{nullptr};
  std::atomic<void*> data_{nullptr};
  std::atomic<bool> stop_{false};
};

// Calls body(begin, end) for consecutive ranges of `grain` indices that cover [0, count).
// The ranges depend on count and grain alone, so results do not depend on the number of threads.
template <typename Body>
void parallel_for(ThreadPool& pool, std::int64_t count, std::int64_t grain, const Body& body) {
  struct Loop {
    const Body& body;
    std::int64_t count, grain;
  } loop{body, count, std::max<std::int64_t>(grain, 1)};
  const auto piece = [](void* data, std::int64_t index) {
    const Loop& all = *static_cast<const Loop*>(data);
    const std::int64_t begin = index * all.grain;
    all.body(begin, std::min(begin + all.grain, all.count));
  };
  pool.run((count + loop.grain - 1) / loop.grain, piece, &loop);
}

}  // namespace meshwright::exec
