// Models NCCL's protocols: how much later the first bytes arrive, and how fast the others follow.
//
// LL sends lines of 8 bytes, half of each a flag. It waits for nothing and has a bandwidth of its
// own. LL128, inside hosts, has one flag in 128 bytes. Simple waits for each chunk as a whole, so
// its pipeline fills step by step, and then reaches the full bandwidth. Which of them is the
// fastest depends on the bytes. The constants are in the profile.
#pragma once

#include "hwprofiles/machine.h"
#include "models/core/units.h"

namespace meshwright::sim {

enum class Protocols : std::uint8_t {
  all,
  // Only Simple, which NCCL falls back to if it is told to use an algorithm that the machine lacks.
  simple
};

// A collective inside one host over NVLink, whose time with the fastest protocol is asked for.
struct InsideHost {
  Seconds wire;   // time of its bytes at all of the bandwidth
  Bytes own;      // a rank's own part of the buffer; 0 where there is none, as in a broadcast
  int steps = 1;  // that wait for each other
};
Seconds of_best_protocol(const Nvlink& nvlink, const InsideHost& inside, Protocols protocols);

// Returns the time over PCIe of bytes that take `wire` at full bandwidth. LL sends flags too, and
// Simple begins later, so the faster of the two is taken.
Seconds of_best_protocol(const Pcie& pcie, Seconds wire);

// Returns the time of sends between two ranks of a host, single or in an all-to-all, that take
// `wire` at full bandwidth. `own` is the number of bytes that one rank sends another.
Seconds of_exchange(const Nvlink& nvlink, Seconds wire, Bytes own);

// Returns the time of a collective between hosts that would take `wire` at full bandwidth, in
// `steps` steps that wait for each other. `bus_bytes` is the least that a rank sends.
Seconds of_best_protocol(const Network& network, Seconds wire, int steps, Bytes bus_bytes);

}  // namespace meshwright::sim
