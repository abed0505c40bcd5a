#include "sim/collectives/protocols.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

constexpr double flagged = 2;  // LL sends this many bytes for each byte of the message

double bandwidth_of(const Nvlink& nvlink) {
  return nvlink.links_per_gpu * nvlink.link_bandwidth_bytes_per_s * nvlink.efficiency;
}

Seconds copy_of_own(const Nvlink& nvlink, Bytes own) {
  return {nvlink.own_share * own.value / bandwidth_of(nvlink)};
}

Seconds with_flags(const Nvlink& nvlink, Seconds wire) {
  return wire * std::max(1.0, bandwidth_of(nvlink) / nvlink.ll_bandwidth_bytes_per_s);
}

}  // namespace

Seconds of_best_protocol(const Nvlink& nvlink, const InsideHost& inside, Protocols protocols) {
  const Seconds moved = inside.wire + copy_of_own(nvlink, inside.own);
  const Seconds fill = {std::max(0, inside.steps - 1) *
                        std::min(inside.own.value, nvlink.simple_fill_bytes) /
                        bandwidth_of(nvlink)};
  Seconds best = moved + fill + Seconds{nvlink.simple_latency_s};
  if (protocols == Protocols::simple) return best;
  if (nvlink.ll_bandwidth_bytes_per_s > 0) best = std::min(best, with_flags(nvlink, inside.wire));
  if (nvlink.ll128_share > 0)
    best = std::min(best, moved / nvlink.ll128_share + Seconds{nvlink.ll128_latency_s});
  return best;
}

Seconds of_best_protocol(const Pcie& pcie, Seconds wire) {
  return wire + std::min(wire * (flagged - 1), Seconds{pcie.simple_latency_s});
}

Seconds of_exchange(const Nvlink& nvlink, Seconds wire, Bytes own) {
  // NCCL uses LL for sends of up to this many bytes (NCCL_P2P_LL_THRESHOLD, github NVIDIA/nccl
  // src/enqueue.cc).
  constexpr double longest_ll = 16 << 10;
  if (own.value <= longest_ll && nvlink.ll_bandwidth_bytes_per_s > 0)
    return with_flags(nvlink, wire);
  return (wire + copy_of_own(nvlink, own)) / nvlink.exchange_share +
         Seconds{nvlink.exchange_latency_s};
}

Seconds of_best_protocol(const Network& network, Seconds wire, int steps, Bytes bus_bytes) {
  const Seconds simple = wire + Seconds{network.simple_step_latency_s * steps};
  if (network.ll_bandwidth_bytes_per_s == 0) return simple;
  const Seconds ll = {bus_bytes.value / network.ll_bandwidth_bytes_per_s};
  return std::min(simple, std::max(wire * flagged, ll));
}

}  // namespace meshwright::sim
