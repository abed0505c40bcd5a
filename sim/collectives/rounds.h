// A collective algorithm is rounds of transfers: data, without time. interpret() tells whether the
// numbers come out right, timing.h how long they take, from the same rounds.
//
// A buffer is cut into equal chunks. Within a round all transfers happen at once. A round that
// repeats moves its chunks by `shift` each time (modulo `window`; without a window, chunks outside
// the buffer are idle: that is how a pipeline fills and drains).
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

enum class Combine : std::uint8_t { Copy, Reduce };

struct Transfer {
  int from = 0;
  int to = 0;
  int first = 0;  // chunks first, first + stride, ... (count of them)
  int count = 1;
  int stride = 1;
  Combine combine = Combine::Copy;
  int into = -1;  // where the first chunk goes; -1: to its own place
};

struct Round {
  std::vector<Transfer> transfers;
  int repeat = 1;
  int shift = 0;
  int window = 0;
  int latency_steps = 1;  // messages that wait for each other in all repetitions together
  int host_steps = 0;     // how many of these stay inside a host where others cross hosts
};

struct Rounds {
  int ranks = 1;
  int chunks = 1;          // that every rank's buffer has
  double chunk_share = 1;  // bytes of a chunk as a share of the collective's bytes
  std::vector<Round> rounds;
};

// A group as a rectangle: rank = host * per_host + place.
struct Grid {
  int hosts = 1;
  int per_host = 1;
  int ranks() const { return hosts * per_host; }
};

// buffers[rank][chunk]; Reduce adds.
using Buffers = std::vector<std::vector<std::int64_t>>;
Buffers interpret(const Rounds& rounds, Buffers buffers);

// Chunks that each rank sends, respectively receives, over all rounds.
std::vector<std::int64_t> chunks_sent(const Rounds& rounds);
std::vector<std::int64_t> chunks_received(const Rounds& rounds);

}  // namespace meshwright
