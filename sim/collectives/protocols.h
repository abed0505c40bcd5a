// NCCL's protocols: how much later the first bytes arrive, and how fast the others follow.
//
// LL sends lines of 8 bytes, half of each a flag: it waits for nothing and has a bandwidth of its
// own. LL128, inside hosts, has one flag in 128 bytes. Simple waits for each chunk as a whole, so
// its pipeline fills step by step, and then has all of the bandwidth. Which of them is the fastest
// depends on the bytes; the constants are in the profile.
#pragma once

#include "hwprofiles/machine.h"
#include "models/core/units.h"

namespace meshwright {

enum class Protocols : std::uint8_t {
  all,
  // What NCCL falls back to where it has been told to use an algorithm that the machine lacks.
  simple
};

// A collective inside one host, over NVLink.
struct InsideHost {
  Seconds wire;   // at all of the bandwidth
  Bytes own;      // a rank's own part of the buffer; 0 where there is none, as in a broadcast
  int steps = 1;  // that wait for each other
};
Seconds of_best_protocol(const Nvlink& nvlink, const InsideHost& inside, Protocols protocols);

// Over PCIe: the same with LL's flags alone.
Seconds of_best_protocol(const Pcie& pcie, Seconds wire);

// Sends between two ranks of a host, alone or all to all: `own` is what one rank sends another.
Seconds of_exchange(const Nvlink& nvlink, Seconds wire, Bytes own);

// What takes `wire` between hosts with all of the bandwidth, in so many steps that wait for each
// other. `bus_bytes`: that a rank sends at least.
Seconds of_best_protocol(const Network& network, Seconds wire, int steps, Bytes bus_bytes);

}  // namespace meshwright
