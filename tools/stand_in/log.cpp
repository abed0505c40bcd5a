#include "tools/stand_in/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/stand_in/device.h"
#include "tools/stand_in/graphs.h"
#include "tools/stand_in/host_clock.h"

namespace meshwright::stand_in {

namespace {

constexpr std::uint64_t kMostEntries = std::uint64_t{1}
                                       << 26;  // 5 GiB, of which a file holds what is written

struct Log;
Log& log();

struct Log {
  Entry* entries = nullptr;
  std::atomic<std::uint64_t> count{0};
  int names_file = -1;
  std::mutex lock;
  std::unordered_map<std::string, std::uint32_t> names;

  Log() {
    const char* path = std::getenv("MESHWRIGHT_STAND_IN_LOG");
    if (path == nullptr) return;
    // A process that another one starts has a log of its own.
    const std::string mine = std::string(path) + "." + std::to_string(getpid());
    const int file = open(mine.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    names_file =
        open((mine + ".names").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, kMostEntries * sizeof(Entry)) != 0) return;
    void* memory =
        mmap(nullptr, kMostEntries * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    entries = static_cast<Entry*>(memory);
    // A forked process, such as that of a data loader, logs nothing.
    pthread_atfork(nullptr, nullptr, [] { log().entries = nullptr; });
  }
};

Log& log() {
  static Log* const the = new Log;  // never destroyed: threads of libraries outlive main
  return *the;
}

thread_local std::vector<std::uint64_t> operations;

std::uint16_t this_thread() {
  static std::atomic<std::uint16_t> threads{0};
  thread_local const std::uint16_t mine = threads++;
  return mine;
}

}  // namespace

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void append(Entry entry) {
  entry.operation = operations.empty() ? 0 : operations.back();
  if (!captured(entry)) append_as(entry, entry.operation);
}

void append_as(Entry entry, std::uint64_t operation) {
  Log& to = log();
  if (to.entries == nullptr) return;
  const std::uint64_t at = to.count.fetch_add(1, std::memory_order_relaxed);
  if (at >= kMostEntries) return;
  entry.time_ns = host_ns();
  entry.thread = this_thread();
  entry.device = static_cast<std::uint8_t>(current_device());
  entry.operation = operation;
  to.entries[at] = entry;
}

std::uint32_t number_of(std::string_view name) {
  Log& to = log();
  const std::lock_guard guard(to.lock);
  const auto [found, is_new] = to.names.try_emplace(std::string(name), to.names.size() + 1);
  if (is_new && to.names_file >= 0) {
    const std::string line = std::string(name) + "\n";
    if (write(to.names_file, line.data(), line.size()) < 0) to.names_file = -1;
  }
  return found->second;
}

void push_operation(std::uint64_t id) { operations.push_back(id); }

std::uint64_t pop_operation() {
  if (operations.empty()) return 0;
  const std::uint64_t last = operations.back();
  operations.pop_back();
  return last;
}

}  // namespace meshwright::stand_in

// Returns how many entries there are. The recorder takes the entries of a step between two such
// numbers.
extern "C" std::uint64_t meshwright_stand_in_entries() {
  return meshwright::stand_in::log().count.load(std::memory_order_relaxed);
}
