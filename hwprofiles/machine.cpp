#include "hwprofiles/machine.h"

#include "models/core/enum_words.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace meshwright::hwprofiles {

const std::vector<std::string>& calibration_names() {
  static const std::vector<std::string> names =
      words_up_to<Calibration::links>({"spec sheet", "fitted on evidence",
                                       "calibrated on this machine", "links fitted on evidence"});
  return names;
}

double EfficiencyCurve::at(double x) const {
  if (points.empty()) return 1;
  if (x <= points.front().x) return points.front().fraction;
  if (x >= points.back().x) return points.back().fraction;
  const auto right =
      std::upper_bound(points.begin(), points.end(), x,
                       [](double value, const Point& point) { return value < point.x; });
  const auto left = right - 1;
  const double share = std::log(x / left->x) / std::log(right->x / left->x);
  return left->fraction + share * (right->fraction - left->fraction);
}

namespace {

// Returns a curve that combines two curves: f(a, b) at every x at which either has a point.
template <typename F>
EfficiencyCurve combined(const EfficiencyCurve& a, const EfficiencyCurve& b, const F& f) {
  std::vector<double> sizes;
  for (const EfficiencyCurve* curve : {&a, &b})
    for (const EfficiencyCurve::Point& point : curve->points) sizes.push_back(point.x);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  EfficiencyCurve result;
  for (const double size : sizes) result.points.push_back({size, f(a.at(size), b.at(size))});
  return result;
}

// Returns the scaling for a number of threads. It is interpolated linearly in the logarithm of the
// number of threads between the measured ones, and constant beyond the largest. One thread has no
// losses.
ThreadScaling scaling_of(const std::vector<ThreadScaling>& measured, int threads) {
  ThreadScaling below{.threads = 1, .gemm = {}, .memory_bound = {}, .attention = {}};
  for (const ThreadScaling& above : measured) {
    if (above.threads <= threads) {
      below = above;
      continue;
    }
    const double share = std::log(static_cast<double>(threads) / below.threads) /
                         std::log(static_cast<double>(above.threads) / below.threads);
    const auto mix = [&](const EfficiencyCurve& a, const EfficiencyCurve& b) {
      return combined(a, b, [&](double x, double y) { return x + share * (y - x); });
    };
    return {threads, mix(below.gemm, above.gemm), mix(below.memory_bound, above.memory_bound),
            mix(below.attention, above.attention)};
  }
  return below;
}

void share_kernels(Gpu& device, int threads) {
  const ThreadScaling scaling = scaling_of(device.thread_scaling, threads);
  const auto scale = [](EfficiencyCurve& curve, const EfficiencyCurve& by) {
    if (!curve.points.empty()) curve = combined(curve, by, std::multiplies<>());
  };
  scale(device.gemm, scaling.gemm);
  scale(device.memory_bound, scaling.memory_bound);
  scale(device.attention, scaling.attention);
}

}  // namespace

Gpu Cluster::device() const {
  Gpu device = machine.gpu;
  if (machine.framework)
    device.memory_bytes = std::min(device.memory_bytes, machine.framework->capacity_bytes);
  if (device.kind == DeviceKind::gpu) return device;
  const double ranks_here = processes_per_host;
  // A rank has a whole number of threads, at least one. If there are more ranks than cores, the
  // ranks share the cores' time.
  const double threads = std::max(1.0, std::floor(device.sm_count / ranks_here));
  const double turns = std::max(1.0, ranks_here / device.sm_count);
  for (double& peak : device.peak_flop_per_s) peak *= threads / turns;
  share_kernels(device, static_cast<int>(threads));
  device.sm_count = static_cast<int>(threads);
  device.memory_bytes /= ranks_here;
  device.memory_bandwidth_bytes_per_s /= ranks_here;
  return device;
}

Network Cluster::network() const {
  Network network = machine.network;
  if (!network_override) return network;
  network.nics = network_override->nics.value_or(network.nics);
  network.gbit_per_s_each = network_override->gbps_per_nic.value_or(network.gbit_per_s_each);
  return network;
}

CollectiveLatency Cluster::network_latency() const {
  CollectiveLatency latency = machine.network_latency;
  if (network_override && network_override->latency_us)
    latency.step_latency_s = *network_override->latency_us * 1e-6;
  return latency;
}

std::optional<double> usd_per_hour(const Cluster& cluster, const PriceChoice& choice) {
  const Price* price = find_price(cluster.machine.prices, choice);
  if (price == nullptr) return std::nullopt;
  return price->usd_per_hour * cluster.hosts;
}

}  // namespace meshwright::hwprofiles
