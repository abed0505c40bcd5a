#include "sim/planner/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace meshwright::sim {

void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t piece, std::size_t thread)>& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto take_turns = [&](std::size_t thread) {
    for (std::size_t piece = next++; piece < count; piece = next++) {
      try {
        work(piece, thread);
      } catch (...) {
        failures[piece] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> others;
  const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
  try {
    while (others.size() + 1 < wanted) others.emplace_back(take_turns, others.size() + 1);
  } catch (const std::system_error&) {  // if no more threads are allowed, those there do all
  }
  take_turns(0);
  others.clear();  // waits for the other threads
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace meshwright::sim
