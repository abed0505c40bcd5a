#include "tools/stand_in/memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tools/stand_in/device.h"
#include "tools/stand_in/log.h"
#include "tools/stand_in/peers.h"

namespace meshwright::stand_in {

namespace {

struct Memory {
  std::mutex lock;
  std::map<const char*, Block> blocks;
  std::map<int, std::size_t> used;            // bytes, by device
  std::map<const char*, std::size_t> pinned;  // bytes of pinned host memory, by address
};

Memory& memory() {
  static Memory* const the = new Memory;
  return *the;
}

constexpr std::size_t kAlignment = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

std::size_t rounded_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// Unmaps the pages from `begin` to `end`, if there are some.
void unmap(std::size_t begin, std::size_t end) {
  if (begin < end) munmap(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace

bool take(std::size_t bytes) {
  const std::lock_guard guard(memory().lock);
  std::size_t& used = memory().used[current_device()];
  if (used + bytes > device().bytes) {
    append({.numbers = {bytes}, .kind = Kind::refuse});
    return false;
  }
  used += bytes;
  return true;
}

void give_back(std::size_t bytes, int number) {
  const std::lock_guard guard(memory().lock);
  memory().used[number] -= bytes;
}

void* reserve(std::size_t bytes) {
  // A GPU's large blocks begin at multiples of 2 MiB, and PyTorch relies on multiples of 512 bytes.
  const std::size_t whole = rounded_up(bytes, kPage) + kAlignment;
  void* const base = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::size_t>(base);
  const std::size_t aligned = rounded_up(begin, kAlignment);
  unmap(begin, aligned);
  unmap(aligned + rounded_up(bytes, kPage), begin + whole);
  auto* const address = reinterpret_cast<char*>(aligned);
  const std::lock_guard guard(memory().lock);
  memory().blocks[address] = {bytes, current_device()};
  return address;
}

std::optional<Block> unreserve(void* address) {
  const std::lock_guard guard(memory().lock);
  const auto found = memory().blocks.find(static_cast<const char*>(address));
  if (found == memory().blocks.end()) return {};
  const Block block = found->second;
  memory().blocks.erase(found);
  munmap(address, block.bytes);
  return block;
}

void* allocate(std::size_t bytes) {
  if (!take(bytes)) return nullptr;
  void* const address = reserve(bytes);
  if (address == nullptr) {
    give_back(bytes, current_device());
    return nullptr;
  }
  append({.numbers = {bytes, reinterpret_cast<std::size_t>(address)}, .kind = Kind::allocate});
  return address;
}

bool release(void* address) {
  const std::optional<Block> block = unreserve(address);
  if (!block) return false;
  give_back(block->bytes, block->device);
  append(
      {.numbers = {block->bytes, reinterpret_cast<std::size_t>(address)}, .kind = Kind::release});
  return true;
}

std::size_t used_bytes(int number) {
  const std::lock_guard guard(memory().lock);
  return memory().used[number];
}

bool is_on_device(const void* address) {
  const std::lock_guard guard(memory().lock);
  auto next = memory().blocks.upper_bound(static_cast<const char*>(address));
  if (next == memory().blocks.begin()) return false;
  --next;
  return static_cast<const char*>(address) < next->first + next->second.bytes;
}

namespace {

// Has the ranges of the device that copies and sets wrote since the last launch, by their begin.
struct Known {
  std::mutex lock;
  std::map<const char*, const char*> ranges;
};
Known& known() {
  static Known* const the = new Known;
  return *the;
}
std::atomic<bool> anything_known{false};
std::atomic<bool> all_hold{false};  // whether the last kernel's result is read as 1

struct Part {
  std::size_t begin, end;  // relative to the first byte that is asked for
};

// Returns the parts of [from, from + bytes) whose data is known. Host memory is known as a whole.
std::vector<Part> known_parts(const void* from, std::size_t bytes) {
  if (!is_on_device(from)) return {{0, bytes}};
  const auto* const begin = static_cast<const char*>(from);
  std::vector<Part> parts;
  const std::lock_guard guard(known().lock);
  for (const auto& [first, last] : known().ranges)
    if (first < begin + bytes && begin < last)
      parts.push_back({static_cast<std::size_t>(std::max(first, begin) - begin),
                       static_cast<std::size_t>(std::min(last, begin + bytes) - begin)});
  return parts;
}

void know(const void* to, std::size_t bytes) {
  if (!is_on_device(to)) return;
  const std::lock_guard guard(known().lock);
  const auto* const begin = static_cast<const char*>(to);
  known().ranges[begin] = begin + bytes;
  anything_known = true;
}

}  // namespace

void forget_what_is_there(bool asked_for_all) {
  all_hold = asked_for_all;
  if (!anything_known.exchange(false)) return;
  const std::lock_guard guard(known().lock);
  known().ranges.clear();
}

void move(void* to, const void* from, std::size_t bytes) {
  if (bytes > kMovedBytes || to == from || to == nullptr || from == nullptr) return;
  const std::vector<Part> parts = known_parts(from, bytes);
  if (is_on_device(from) && !is_on_device(to))
    std::memset(to, bytes == 1 && all_hold ? 1 : 0, bytes);
  for (const Part& part : parts) {
    char* const at = static_cast<char*>(to) + part.begin;
    std::memmove(at, static_cast<const char*>(from) + part.begin, part.end - part.begin);
    know(at, part.end - part.begin);
  }
}

namespace {

cudaError_t copied(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, void* stream,
                   bool waits) {
  if (kind == cudaMemcpyDefault)
    kind = is_on_device(from)
               ? (is_on_device(to) ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
               : (is_on_device(to) ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  if (!log_peer_copy(to, from, bytes, reinterpret_cast<std::size_t>(stream)))
    append({.stream = reinterpret_cast<std::size_t>(stream),
            .numbers = {bytes, static_cast<std::uint64_t>(kind), waits},
            .kind = Kind::copy});
  move(to, from, bytes);
  return cudaSuccess;
}

cudaError_t set(void* to, int value, std::size_t bytes, void* stream) {
  append({.stream = reinterpret_cast<std::size_t>(stream), .numbers = {bytes}, .kind = Kind::set});
  if (bytes <= kMovedBytes) {
    std::memset(to, value, bytes);
    know(to, bytes);
  }
  return cudaSuccess;
}

cudaError_t allocated(void** address, std::size_t bytes) {
  *address = bytes == 0 ? nullptr : allocate(bytes);
  return bytes == 0 || *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t pin(void* address, std::size_t bytes) {
  const std::lock_guard guard(memory().lock);
  memory().pinned[static_cast<const char*>(address)] = bytes;
  return cudaSuccess;
}

cudaError_t unpin(void* address) {
  const std::lock_guard guard(memory().lock);
  memory().pinned.erase(static_cast<const char*>(address));
  return cudaSuccess;
}

bool is_pinned(const void* address) {
  const std::lock_guard guard(memory().lock);
  const auto next = memory().pinned.upper_bound(static_cast<const char*>(address));
  if (next == memory().pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return static_cast<const char*>(address) < begin + bytes;
}

cudaError_t host_memory(void** address, std::size_t bytes) {
  *address = std::aligned_alloc(kPage, rounded_up(std::max<std::size_t>(bytes, 1), kPage));
  return *address == nullptr ? cudaErrorMemoryAllocation : pin(*address, bytes);
}

}  // namespace

}  // namespace meshwright::stand_in

using namespace meshwright::stand_in;

extern "C" {

// Moves messages between ranks for the recorder.
void meshwright_stand_in_move(void* to, const void* from, std::size_t bytes) {
  move(to, from, bytes);
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) { return allocated(address, bytes); }
cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t) {
  return allocated(address, bytes);
}
cudaError_t cudaMallocManaged(void** address, std::size_t bytes, unsigned) {
  return allocated(address, bytes);
}
cudaError_t cudaFree(void* address) {
  release(address);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = device().bytes;
  *free = device().bytes - used_bytes(current_device());
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return host_memory(address, bytes);
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return host_memory(address, bytes);
}
cudaError_t cudaFreeHost(void* address) {
  unpin(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  return pin(address, bytes);
}
cudaError_t cudaHostUnregister(void* address) { return unpin(address); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copied(to, from, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copied(to, from, bytes, kind, stream, false);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return copied(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}
cudaError_t cudaMemcpy2DAsync(void*, std::size_t, const void*, std::size_t, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copied(nullptr, nullptr, width * height, kind, stream, false);
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, std::size_t bytes, std::size_t,
                               cudaMemcpyKind kind) {
  return copied(nullptr, nullptr, bytes, kind, nullptr, true);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return set(to, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return set(to, value, bytes, stream);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = is_on_device(address) ? cudaMemoryTypeDevice
                     : is_pinned(address)  ? cudaMemoryTypeHost
                                           : cudaMemoryTypeUnregistered;
  attributes->device = current_device();
  attributes->devicePointer = const_cast<void*>(address);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void*) { return allocated(address, 4096); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  std::memset(value, 0, 8);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) {
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }

// Sets a few bytes on the device to a value, until the next kernel. The recorder chooses what a
// script reads there.
void meshwright_stand_in_hold(void* to, int value, std::size_t bytes) {
  if (bytes > kMovedBytes) return;
  std::memset(to, value, bytes);
  know(to, bytes);
}
}
