#include "tools/stand_in/peers.h"

#include <map>
#include <mutex>
#include <optional>

#include "tools/stand_in/log.h"
#include "tools/stand_in/memory.h"

namespace meshwright::stand_in {

namespace {

struct Buffer {
  std::size_t bytes;
  int rank;  // of the whole run
};

struct Peers {
  std::mutex lock;
  std::map<const char*, Buffer> buffers;
};

Peers& peers() {
  static Peers* const the = new Peers;
  return *the;
}

// Returns the rank whose memory is mapped at this address, or nothing if it is not that of another
// rank.
std::optional<int> owner_of(const void* address) {
  const std::lock_guard guard(peers().lock);
  auto next = peers().buffers.upper_bound(static_cast<const char*>(address));
  if (next == peers().buffers.begin()) return {};
  --next;
  if (static_cast<const char*>(address) >= next->first + next->second.bytes) return {};
  return next->second.rank;
}

}  // namespace

bool log_peer_copy(const void* to, const void* from, std::size_t bytes, std::uint64_t stream) {
  const std::optional<int> source = owner_of(from);
  const std::optional<int> other = source ? source : owner_of(to);
  if (!other) return false;
  append({.stream = stream,
          .numbers = {bytes, 1, 0, 2, 0, static_cast<std::uint64_t>(*other + 1)},
          .name = number_of(source ? "receive" : "send"),
          .kind = Kind::collective});
  return true;
}

}  // namespace meshwright::stand_in

// Reserves addresses that stand for the memory of another rank. They take no memory of this GPU.
extern "C" void* meshwright_stand_in_peer_memory(std::size_t bytes, int rank) {
  using namespace meshwright::stand_in;
  void* const address = reserve(bytes);
  const std::lock_guard guard(peers().lock);
  if (address != nullptr) peers().buffers[static_cast<const char*>(address)] = {bytes, rank};
  return address;
}
