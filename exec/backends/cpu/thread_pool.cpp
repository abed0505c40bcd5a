#include "exec/backends/cpu/thread_pool.h"

namespace meshwright::cpu {

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t pieces, void (*piece)(void*, std::int64_t), void* data) {
  if (workers_.empty() || pieces <= 1) {
    for (std::int64_t i = 0; i < pieces; ++i) piece(data, i);
    return;
  }
  pieces_ = pieces;
  piece_ = piece;
  data_ = data;
  next_.store(0);
  busy_.store(static_cast<int>(workers_.size()));
  generation_.fetch_add(1);
  generation_.notify_all();
  take_pieces();
  // All pieces are taken; wait for the workers that still compute, and for those that wake late,
  // since they read the members above.
  for (int busy = busy_.load(); busy != 0; busy = busy_.load()) busy_.wait(busy);
}

void ThreadPool::work() {
  std::uint32_t seen = 0;
  for (;;) {
    generation_.wait(seen);
    seen = generation_.load();
    if (stop_.load()) return;
    take_pieces();
    if (busy_.fetch_sub(1) == 1) busy_.notify_one();
  }
}

void ThreadPool::take_pieces() {
  for (std::int64_t i = next_.fetch_add(1); i < pieces_; i = next_.fetch_add(1)) piece_(data_, i);
}

}  // namespace meshwright::cpu
