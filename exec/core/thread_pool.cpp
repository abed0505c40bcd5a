#include "exec/core/thread_pool.h"

namespace meshwright::exec {

namespace {

constexpr std::uint64_t one_loop = std::uint64_t{1} << 32, piece_mask = one_loop - 1;

// The number of times that a thread looks for the next loop before it sleeps. This takes about as
// long as sleeping and waking up, and one loop soon follows another.
constexpr int looks_before_sleep = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` is no longer `old`.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int look = 0; look < looks_before_sleep; ++look) {
    if (value.load() != old) return;
    pause();
  }
  value.wait(old);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  begun_.fetch_add(1);
  begun_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t pieces, Piece piece, void* data) {
  if (workers_.empty() || pieces <= 1) {
    for (std::int64_t i = 0; i < pieces; ++i) piece(data, i);
    return;
  }
  // The loop is closed while its data change, so that a worker that still looks at the previous
  // loop finds nothing to take.
  const std::uint64_t loop = (taken_.load() & ~piece_mask) + one_loop;
  taken_.store(loop | piece_mask);
  pieces_.store(pieces);
  piece_.store(piece);
  data_.store(data);
  unfinished_.store(static_cast<std::uint32_t>(pieces));
  taken_.store(loop);
  wake_workers(pieces - 1);
  take_pieces();
  for (std::uint32_t left = unfinished_.load(); left != 0; left = unfinished_.load())
    wait_for_change(unfinished_, left);
}

void ThreadPool::wake_workers(std::int64_t count) {
  begun_.fetch_add(1);
  if (count >= static_cast<std::int64_t>(workers_.size())) {
    begun_.notify_all();
  } else {
    for (std::int64_t i = 0; i < count; ++i) begun_.notify_one();
  }
}

void ThreadPool::work() {
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_change(begun_, seen);
    seen = begun_.load();
    if (stop_.load()) return;
    take_pieces();
  }
}

void ThreadPool::take_pieces() {
  std::uint64_t taken = taken_.load();
  for (;;) {
    const auto index = static_cast<std::int64_t>(taken & piece_mask);
    if (index >= pieces_.load()) return;
    if (!taken_.compare_exchange_weak(taken, taken + 1)) continue;
    // The loop lasts until this piece is done, so its function and data stay the same until then.
    piece_.load()(data_.load(), index);
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_one();
    taken = taken_.load();
  }
}

}  // namespace meshwright::exec
