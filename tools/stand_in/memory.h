// Manages memory of the simulated GPUs: addresses that hold data only where a program copied it.
#pragma once

#include <cstddef>
#include <optional>

namespace meshwright::stand_in {

// Copies of at most this many bytes move their data, so that sizes, flags and objects that a script
// sends through the GPU arrive. Larger copies would take this computer's memory.
constexpr std::size_t kMovedBytes = std::size_t{1} << 20;

// Forgets the data on the device at the launch of a kernel, because kernels compute nothing. A
// script reads 0 from the device until a copy or a set writes there again. If the kernel tells
// whether something holds for all elements (`asked_for_all`), such as those of a mask, the one byte
// of its result is read as 1, the ordinary case.
void forget_what_is_there(bool asked_for_all);

// Reserves `bytes` on this thread's device. Returns null if they do not fit.
void* allocate(std::size_t bytes);
bool release(void* address);

// Describes a block of reserved addresses.
struct Block {
  std::size_t bytes;
  int device;
};

// These allocate in two parts, for programs that map memory to addresses themselves. take() counts
// `bytes` as used on this thread's device, and returns false if they do not fit. reserve() reserves
// addresses.
bool take(std::size_t bytes);
void give_back(std::size_t bytes, int device);
void* reserve(std::size_t bytes);
std::optional<Block> unreserve(void* address);

bool is_on_device(const void* address);
std::size_t used_bytes(int device);
// Copies data as a collective does if every rank holds the same as this one. Does nothing for more
// than kMovedBytes.
void move(void* to, const void* from, std::size_t bytes);

}  // namespace meshwright::stand_in
