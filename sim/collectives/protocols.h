// Models NCCL's protocols: how much later the first bytes arrive, and how fast the others follow.
//
// LL sends lines of 8 bytes, half of each a flag. It has the lowest latency and a bandwidth of its
// own. LL128, which is modelled inside hosts only, has a flag in each 128 bytes. Simple waits for
// each chunk as a whole, so its pipeline fills step by step, and then reaches the full bandwidth.
// Which of them is the fastest depends on the number of bytes. The constants are in the machine's
// profile.
#pragma once

#include "hwprofiles/machine.h"
#include "models/core/units.h"

namespace meshwright::sim {

enum class Protocols : std::uint8_t {
  all,
  // Only Simple, which NCCL falls back to if it is told to use an algorithm that the machine lacks.
  simple
};

// A collective inside one host over NVLink. of_best_protocol() returns its time with the fastest of
// the protocols, without the latency of its steps.
struct InsideHost {
  Seconds wire;  // time of its bytes at the full bandwidth
  // The part of the buffer that belongs to a rank; 0 for a broadcast or a reduction to one rank.
  Bytes own;
  int steps = 1;  // steps that wait for each other
};
Seconds of_best_protocol(const Nvlink& nvlink, const InsideHost& inside, Protocols protocols);

// Returns the time over PCIe of bytes that take `wire` at full bandwidth. LL takes twice as long,
// because it sends flags too, and Simple begins later. The faster of the two is taken.
Seconds of_best_protocol(const Pcie& pcie, Seconds wire);

// Returns the time of sends between the ranks of a host, single or in an all-to-all, that take
// `wire` at full bandwidth. `own` is the number of bytes that one rank sends another.
Seconds of_exchange(const Nvlink& nvlink, Seconds wire, Bytes own);

// Returns the time of a collective or a message between hosts that would take `wire` at full
// bandwidth, in `steps` steps that wait for each other. The latencies of the network are not in it,
// but those that Simple adds to each step are. `bus_bytes` is the least number of bytes that a rank
// sends. LL and Simple are tried.
Seconds of_best_protocol(const Network& network, Seconds wire, int steps, Bytes bus_bytes);

}  // namespace meshwright::sim
