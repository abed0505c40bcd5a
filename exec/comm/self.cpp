#include "exec/comm/self.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>

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
    for (void* memory : memory_) std::free(memory);
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void* allocate(std::int64_t bytes) override {
    constexpr std::size_t alignment = 4096;
    const std::size_t whole = (static_cast<std::size_t>(bytes) / alignment + 1) * alignment;
    void* memory = std::aligned_alloc(alignment, whole);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    memory_.push_back(memory);
    return memory;
  }
  std::unique_ptr<Communicator> group(GroupKind, std::span<const int>) override {
    return make_self_communicator();
  }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  void abandon(int exit_code) override { std::_Exit(exit_code); }

 private:
  std::deque<void*> memory_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator<HostMemory>>(HostMemory{});
}

std::unique_ptr<World> make_self_world(const WorldOptions&) {
  return std::make_unique<SelfWorld>();
}

}  // namespace meshwright::exec
