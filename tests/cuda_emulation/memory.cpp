// Device memory is a part of the address space. The host cannot access it outside of device work,
// unless protect_memory() allows that. Pinned memory is ordinary memory whose ranges are noted.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/cuda_emulation/cuda_runtime.h"
#include "tests/cuda_emulation/lock.h"

namespace emulated {

namespace {

constexpr std::size_t device_bytes = std::size_t{8} << 30;
constexpr std::size_t zone = 256;  // least number of watched bytes on each side of an allocation
// Access to memory is changed thousands of times a second, and each change takes time for every
// page. If the operating system gives huge pages, there are few.
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr int poison = 0xff;

std::size_t rounded_up(std::size_t bytes) { return (bytes + zone - 1) / zone * zone; }

class DeviceMemory {
 public:
  DeviceMemory() {
    void* memory = mmap(nullptr, device_bytes + huge_page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    begin_ = page_of(static_cast<char*>(memory) + huge_page - 1);
    madvise(begin_, device_bytes, MADV_HUGEPAGE);
    set_access(begin_, begin_ + device_bytes, false);
  }

  bool holds(const void* address) const {
    return address >= begin_ && address < begin_ + device_bytes;
  }
  // Returns whether all of these bytes are inside one allocation.
  bool holds(const void* address, std::size_t bytes) const {
    const char* first = static_cast<const char*>(address);
    auto after = taken_.upper_bound(const_cast<char*>(first));
    if (after == taken_.begin()) return false;
    const auto& [begin, size] = *--after;
    return first + bytes <= begin + size;
  }

  // Allocates memory in the first gap that is long enough, or returns null if there is none. The
  // memory and the watched bytes beside it are filled with the poison.
  char* allocate(std::size_t bytes) {
    char* place = begin_ + zone;
    for (const auto& [begin, size] : taken_) {
      if (static_cast<std::size_t>(begin - place) >= bytes + zone && begin > place) break;
      place = begin + rounded_up(size) + zone;
    }
    if (place + rounded_up(bytes) + zone > begin_ + device_bytes) return nullptr;
    fill(place - zone, zone + rounded_up(bytes) + zone);
    taken_.emplace(place, bytes);
    held_ += bytes;
    return place;
  }
  bool deallocate(char* address) {
    const auto found = taken_.find(address);
    if (found == taken_.end()) return false;
    fill(address, found->second);
    held_ -= found->second;
    taken_.erase(found);
    return true;
  }
  std::size_t held() const { return held_; }

  void check() const {
    for (const auto& [begin, size] : taken_) {
      check_zone(begin - zone, zone, "before", begin, size);
      check_zone(begin + size, rounded_up(size) - size + zone, "behind", begin, size);
    }
  }

  void set_open(bool open) {
    if (open == open_) return;
    open_ = open;
    if (is_protected_) set_access(begin_, end_of_taken(), open);
  }
  void set_protected(bool wanted) {
    set_access(begin_, begin_ + device_bytes, open_ || !wanted);
    is_protected_ = wanted;
  }

 private:
  // Returns the end of the allocated memory. Access is changed only up to here, because a change
  // takes time for every page.
  char* end_of_taken() const {
    if (taken_.empty()) return begin_;
    const auto& [begin, size] = *taken_.rbegin();
    return begin + rounded_up(size) + zone;
  }
  static char* page_of(char* address) {
    return address - reinterpret_cast<std::uintptr_t>(address) % huge_page;
  }
  static void set_access(char* begin, char* end, bool open) {
    char *first = page_of(begin), *last = page_of(end + huge_page - 1);
    if (first < last)
      mprotect(first, static_cast<std::size_t>(last - first),
               open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  void fill(char* begin, std::size_t bytes) const {
    if (is_protected_) set_access(begin, begin + bytes, true);
    std::memset(begin, poison, bytes);
    if (is_protected_ && !open_) set_access(begin, begin + bytes, false);
  }

  static void check_zone(const char* from, std::size_t bytes, const char* side, const char* begin,
                         std::size_t size) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (static_cast<unsigned char>(from[i]) != poison)
        throw std::logic_error("something wrote " + std::string(side) + " an allocation of " +
                               std::to_string(size) + " bytes, at its byte " +
                               std::to_string(from + i - begin));
  }

  char* begin_ = nullptr;
  std::map<char*, std::size_t> taken_;
  std::size_t held_ = 0;
  bool is_protected_ = true, open_ = false;
};

DeviceMemory& device_memory() {
  static auto* memory = new DeviceMemory;  // never destroyed: it is used until the process ends
  return *memory;
}

std::map<const char*, std::size_t>& pinned() {
  static auto* memory = new std::map<const char*, std::size_t>;
  return *memory;
}

}  // namespace

void open_memory(bool open) { device_memory().set_open(open); }
void protect_memory(bool wanted) { device_memory().set_protected(wanted); }
void check_memory() { device_memory().check(); }

Space space_of(const void* begin, std::size_t bytes) {
  if (device_memory().holds(begin))
    return device_memory().holds(begin, bytes) ? Space::device : Space::nowhere;
  const char* first = static_cast<const char*>(begin);
  auto after = pinned().upper_bound(first);
  if (after != pinned().begin() && first < (--after)->first + after->second)
    return first + bytes <= after->first + after->second ? Space::pinned : Space::nowhere;
  return begin == nullptr ? Space::nowhere : Space::pageable;
}

}  // namespace emulated

using namespace emulated;

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const Lock lock;
  if (is_capturing()) return failed(cudaErrorStreamCaptureUnsupported);
  *address = bytes == 0 ? nullptr : device_memory().allocate(bytes);
  return bytes > 0 && *address == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}

// Waits for the device, as the function of CUDA does.
cudaError_t cudaFree(void* address) {
  const Lock lock;
  if (address == nullptr) return cudaSuccess;
  if (is_capturing()) return failed(cudaErrorStreamCaptureUnsupported);
  cudaDeviceSynchronize();
  return device_memory().deallocate(static_cast<char*>(address)) ? cudaSuccess
                                                                 : failed(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned int) {
  const Lock lock;
  constexpr std::size_t alignment = 4096;
  *address = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (*address == nullptr) return failed(cudaErrorMemoryAllocation);
  std::memset(*address, poison, bytes);
  pinned()[static_cast<char*>(*address)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes, unsigned int flags) {
  return cudaHostAlloc(address, bytes, flags);
}

cudaError_t cudaFreeHost(void* address) {
  const Lock lock;
  if (address == nullptr) return cudaSuccess;
  cudaDeviceSynchronize();
  if (pinned().erase(static_cast<char*>(address)) == 0) return failed(cudaErrorInvalidValue);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock;
  *total = device_bytes;
  *free = device_bytes - device_memory().held();
  return cudaSuccess;
}
