#include "exec/backends/cuda/device/kernel_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using cuda::KernelCache;
using cuda::KernelKey;

namespace {

constexpr std::int64_t plenty = 1 << 20;

KernelKey key_of(const std::string& source) { return {source, "sm_90", "13.0"}; }

// Asks for a kernel that would be made as `made`.
std::string get(KernelCache& cache, const std::string& source, const std::string& made) {
  return cache.get(key_of(source), [&] { return made; });
}

// Returns 1024 bytes of a kernel that only this source has.
std::string kilobyte_of(const std::string& source) {
  return std::string(1024 - source.size(), 'k') + source;
}

}  // namespace

TEST_CASE("a kernel is made once, also for a later process", "[exec][cuda]") {
  const TestFolder folder;
  const std::string in = folder.file("not/there/yet");
  KernelCache cache(in, plenty);
  CHECK(get(cache, "a", std::string("\0first", 6)) == std::string("\0first", 6));
  CHECK(get(cache, "a", "second") == std::string("\0first", 6));
  CHECK(get(cache, "b", "third") == "third");
  KernelCache later(in, plenty);
  CHECK(get(later, "a", "fourth") == std::string("\0first", 6));
  CHECK(cache.counts().hits == 1);
  CHECK(cache.counts().misses == 2);
  CHECK(later.counts().hits == 1);
  CHECK(later.counts().misses == 0);
}

TEST_CASE("source, architecture and compiler are a kernel's key", "[exec][cuda]") {
  const KernelKey key{"source", "sm_90", "13.0"};
  CHECK(key.hash().size() == 64);
  CHECK(key.hash() == KernelKey{"source", "sm_90", "13.0"}.hash());
  for (const KernelKey& other :
       {KernelKey{"source ", "sm_90", "13.0"}, KernelKey{"source", "sm_80", "13.0"},
        KernelKey{"source", "sm_90", "13.1"}})
    CHECK(key.hash() != other.hash());
}

TEST_CASE("two caches that make one kernel at the same time both use the first result",
          "[exec][cuda]") {
  const TestFolder folder;
  KernelCache slow(folder.path(), plenty), fast(folder.path(), plenty);
  const std::string taken = slow.get(key_of("a"), [&] {
    CHECK(get(fast, "a", "first") == "first");
    return std::string("second");
  });
  CHECK(taken == "first");
  CHECK(get(fast, "a", "third") == "first");
  CHECK(folder.names().size() == 1);  // no parts stay behind
}

TEST_CASE("a damaged kernel is made again", "[exec][cuda]") {
  const TestFolder folder;
  KernelCache cache(folder.path(), plenty);
  get(cache, "a", "kernel");
  const std::string file = cache.path(key_of("a")), good = content_of(file);
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  int damaged = 0;
  for (const std::string& bad : {flipped, good.substr(0, good.size() - 1), good.substr(0, 30),
                                 good + "more", std::string(), std::string("something else")}) {
    write_content(file, bad);
    CHECK(get(cache, "a", "kernel") == "kernel");
    CHECK(cache.counts().damaged == ++damaged);
    CHECK(content_of(file) == good);
  }
  CHECK(get(cache, "a", "not made") == "kernel");
}

TEST_CASE("what was used longest ago is removed when the folder is full", "[exec][cuda]") {
  const TestFolder folder;
  KernelCache cache(folder.path(), 4 << 10);  // three files of 1 KiB and their headings
  const auto age = [&](const std::string& path, int hours) {
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const std::string left_behind = folder.file("of-a-killed-process.part", "");
  folder.file("not ours.txt", std::string(8 << 10, 'x'));
  age(left_behind, 9);
  int hours = 8;
  for (const char* source : {"a", "b", "c"}) {
    get(cache, source, kilobyte_of(source));
    age(cache.path(key_of(source)), hours--);
  }
  get(cache, "a", "there");  // used: b is now the oldest
  get(cache, "d", kilobyte_of("d"));
  const auto there = [&](const char* source) {
    return std::filesystem::exists(cache.path(key_of(source)));
  };
  CHECK(there("a"));
  CHECK_FALSE(there("b"));
  CHECK(there("c"));
  CHECK(there("d"));
  CHECK_FALSE(std::filesystem::exists(left_behind));
  CHECK(std::filesystem::exists(folder.file("not ours.txt")));
}

TEST_CASE("the newest kernel stays, however little may be kept", "[exec][cuda]") {
  const TestFolder folder;
  KernelCache cache(folder.path(), 0);
  get(cache, "a", "kernel a");
  get(cache, "b", "kernel b");
  CHECK(folder.names().size() == 1);
  CHECK(get(cache, "b", "not made") == "kernel b");
}

TEST_CASE("several processes share a folder of kernels", "[exec][cuda]") {
  const TestFolder folder;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    // There is little room, so kernels are removed while other processes read and write them.
    KernelCache cache(folder.path(), 5 << 10);
    bool right = true;
    for (int i = 0; i < 200; ++i) {
      const std::string source = std::to_string(i % 8);
      right = right && get(cache, source, kilobyte_of(source)) == kilobyte_of(source);
    }
    _exit(right && cache.counts().damaged == 0 ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const std::string& name : folder.names()) CHECK(name.ends_with(".cubin"));
}

TEST_CASE("a folder of kernels that cannot be is an input error", "[exec][cuda]") {
  const TestFolder folder;
  const std::string file = folder.file("a file", "content");
  const std::string message = message_of([&] { KernelCache(file, plenty); });
  CHECK(message.find(file + ": compiled kernels cannot be kept here: ") == 0);
}

TEST_CASE("a kernel that cannot be stored is no error", "[exec][cuda]") {
  const TestFolder folder;
  const std::string in = folder.file("kernels");
  KernelCache cache(in, plenty);
  std::filesystem::remove_all(in);
  CHECK(get(cache, "a", "kernel") == "kernel");
  CHECK(cache.counts().not_stored == 1);
}
