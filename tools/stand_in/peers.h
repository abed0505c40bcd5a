// Logs copies to and from memory of other ranks' GPUs, which a program maps as if it were its own.
//
// PyTorch's symmetric memory maps a buffer of every rank of a group and copies from and to it. Such
// a copy is a message over the links between GPUs, and is logged as one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwright::stand_in {

// Logs a copy of `bytes` as a message if one of its ends is another rank's memory. Returns whether
// it did.
bool log_peer_copy(const void* to, const void* from, std::size_t bytes, std::uint64_t stream);

}  // namespace meshwright::stand_in
