// Represents a collective algorithm as rounds of transfers: data without time. interpret() executes
// the rounds on numbers, to check their result. timing.h predicts how long the same rounds take.
//
// A buffer is split into equal chunks. All transfers of a round happen at once. If a round repeats,
// the chunks of its transfers move by `shift` each time, modulo `window`. Without a window,
// transfers of chunks outside the buffer are idle, which is how a pipeline fills and drains.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright::sim {

enum class Combine : std::uint8_t { Copy, Reduce };

struct Transfer {
  int from = 0;
  int to = 0;
  int first = 0;  // chunks first, first + stride, ... (count of them)
  int count = 1;
  int stride = 1;
  Combine combine = Combine::Copy;
  int into = -1;  // number of the first chunk at the receiver; -1: the same as at the sender
};

struct Round {
  std::vector<Transfer> transfers;
  int repeat = 1;
  int shift = 0;
  int window = 0;
  // Number of messages that wait for each other, in all repetitions together.
  int latency_steps = 1;
  int host_steps = 0;  // how many of these messages stay inside a host, if the round crosses hosts
};

struct Rounds {
  int ranks = 1;
  int chunks = 1;          // number of chunks of each rank's buffer
  double chunk_share = 1;  // bytes of a chunk as a share of the collective's bytes
  std::vector<Round> rounds;
};

// The shape of a group with the same number of ranks on every host: rank = host * per_host + place.
struct Grid {
  int hosts = 1;
  int per_host = 1;
  int ranks() const { return hosts * per_host; }
};

// Executes the rounds on `buffers`, indexed [rank][chunk], and returns the result. Reduce adds the
// sent chunk to the receiver's chunk, and Copy replaces the receiver's chunk.
using Buffers = std::vector<std::vector<std::int64_t>>;
Buffers interpret(const Rounds& rounds, Buffers buffers);

// Return the number of chunks that each rank sends, or receives, over all rounds. Idle transfers do
// not count.
std::vector<std::int64_t> chunks_sent(const Rounds& rounds);
std::vector<std::int64_t> chunks_received(const Rounds& rounds);

}  // namespace meshwright::sim
