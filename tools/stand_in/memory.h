// Memory of the GPUs that are not there: addresses that hold something only where a program wrote
// it.
#pragma once

#include <cstddef>
#include <optional>

namespace meshwright::stand_in {

// Copies of at most this many bytes move what is there, so that sizes, flags and objects that a
// script sends through the GPU arrive; larger ones would take this computer's memory.
constexpr std::size_t kMovedBytes = std::size_t{1} << 20;

// A kernel computes nothing, and nobody knows what it would have written: from its launch on, all
// that a script reads of the device is 0, until it is written again by a copy. Only whether
// something holds for all elements (of a mask, of positions) is read as true, the ordinary case.
void forget_what_is_there(bool asked_for_all);

// Reserves `bytes` on this thread's device; null if they do not fit.
void* allocate(std::size_t bytes);
bool release(void* address);

// A block of addresses, with its size and device.
struct Block {
  std::size_t bytes;
  int device;
};

// An allocation in two parts, for programs that put memory under addresses themselves: counts
// `bytes` as used on this thread's device (false if they do not fit), and reserves addresses.
bool take(std::size_t bytes);
void give_back(std::size_t bytes, int device);
void* reserve(std::size_t bytes);
std::optional<Block> unreserve(void* address);

bool is_on_device(const void* address);
std::size_t used_bytes(int device);
// Copies as a collective does if every rank holds what this one does.
void move(void* to, const void* from, std::size_t bytes);

}  // namespace meshwright::stand_in
