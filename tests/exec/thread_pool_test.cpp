// Tests that threads share loops: each piece runs once, in its own loop, however late a thread
// wakes up.
#include "exec/core/thread_pool.h"

#include <atomic>
#include <vector>

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("every piece of every loop runs once", "[exec][threads]") {
  ThreadPool pool(4);
  CHECK(pool.threads() == 4);
  int wrong = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    // Long and short loops follow each other, so that threads come late for some.
    const int pieces = loop % 7 == 0 ? 64 : loop % 7;
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(pieces));
    parallel_for(pool, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
    });
    for (const std::atomic<int>& count : runs) wrong += count != 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("ranges depend on the grain alone", "[exec][threads]") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<std::int64_t> ends(4);
    parallel_for(pool, 10, 3, [&](std::int64_t begin, std::int64_t end) {
      ends[static_cast<std::size_t>(begin / 3)] = end;
    });
    CHECK(ends == std::vector<std::int64_t>{3, 6, 9, 10});
    parallel_for(pool, 0, 3, [&](std::int64_t, std::int64_t) { FAIL("nothing to do"); });
  }
}
