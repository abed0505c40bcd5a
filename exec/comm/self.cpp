#include "exec/comm/self.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "exec/comm/self_communicator.h"

namespace meshwright::exec {

namespace {

struct HostMemory {
  static void copy(void* to, const void* from, std::int64_t bytes) {
    std::memmove(to, from, bytes);
  }
  static void add(void* to, const void* from, std::int64_t elements, Dtype dtype) {
    with_type(dtype, [&]<typename T>() {
      const void* const parts[] = {from};
      combine_typed<T>(parts, elements, false,
                       [&](const SumOf<T>* sum, std::int64_t at, std::int64_t n) {
                         add_numbers(sum, n, static_cast<T*>(to) + at);
                       });
    });
  }
  static void wait() {}
};

class SelfWorld : public World {
 public:
  ~SelfWorld() override {
    for (const auto& [memory, bytes] : memory_) ::munmap(memory, bytes);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void* allocate(std::int64_t bytes) override {
    // The system clears pages when they are first used, so what nobody uses takes no memory.
    const std::size_t whole = static_cast<std::size_t>(bytes) + 1;
    void* memory =
        ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::madvise(memory, whole, MADV_HUGEPAGE);  // a hint; small pages would slow matmuls a little
    memory_.emplace_back(memory, whole);
    return memory;
  }
  std::unique_ptr<Communicator> group(GroupKind, std::span<const int>) override {
    return make_self_communicator();
  }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  void abandon(int exit_code) override { std::_Exit(exit_code); }

 private:
  std::vector<std::pair<void*, std::size_t>> memory_;  // each allocation with its bytes
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator<HostMemory>>(HostMemory{});
}

std::unique_ptr<World> make_self_world(const WorldOptions&) {
  return std::make_unique<SelfWorld>();
}

}  // namespace meshwright::exec
