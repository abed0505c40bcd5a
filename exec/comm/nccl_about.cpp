// Describes versions, environment and topology, for the text that a run prints once.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/backends/cuda/device/check.h"
#include "exec/comm/nccl.h"
#include "exec/comm/nccl_link.h"

namespace meshwright::exec {

namespace {

template <std::size_t n>
void write_name(std::array<char, n>& to, std::string_view name) {
  std::snprintf(to.data(), n, "%.*s", static_cast<int>(name.size()), name.data());
}

DevicePlace place_of(int device) {
  DevicePlace place{};
  gethostname(place.host.data(), place.host.size() - 1);
  if (device < 0) return place;
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  write_name(place.gpu, properties.name);
  cuda::check(cudaDeviceGetPCIBusId(place.bus.data(), static_cast<int>(place.bus.size()), device),
              "cudaDeviceGetPCIBusId");
  return place;
}

// Return versions as text: 2.28.9 for NCCL's number 22809, and 13.0 for CUDA's number 13000.
std::string nccl_version(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}
std::string cuda_version(int code) {
  return std::to_string(code / 1000) + "." + std::to_string(code / 10 % 100);
}

std::string versions() {
  int nccl = 0, driver = 0, runtime = 0;
  check_nccl(ncclGetVersion(&nccl), "ncclGetVersion", nullptr);
  cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::string text = "NCCL " + nccl_version(nccl);
  if (nccl != NCCL_VERSION_CODE) text += " (built with " + nccl_version(NCCL_VERSION_CODE) + ")";
  return text + ", CUDA " + cuda_version(runtime) + ", driver for " + cuda_version(driver) + "\n";
}

std::string settings(std::span<const std::string> variables) {
  constexpr std::string_view read_by_them[] = {"NCCL_", "OFI_NCCL_", "FI_", "RDMAV_", "CUDA_"};
  std::string text;
  for (const std::string& variable : variables)
    if (std::any_of(std::begin(read_by_them), std::end(read_by_them),
                    [&](std::string_view start) { return variable.starts_with(start); }))
      text += (text.empty() ? "" : " ") + variable;
  return "environment: " + (text.empty() ? "nothing set" : text) + "\n";
}

std::string range(std::size_t first, std::size_t last) {
  return first == last ? "rank " + std::to_string(first)
                       : "ranks " + std::to_string(first) + "-" + std::to_string(last);
}

// Returns a line for each sequence of consecutive ranks on one host, with the host's name and their
// GPUs.
std::string hosts(std::span<const DevicePlace> places) {
  std::string text;
  for (std::size_t first = 0, next; first < places.size(); first = next) {
    next = first + 1;
    while (next < places.size() && places[next].host == places[first].host) ++next;
    text += "host " + std::string(places[first].host.data()) + ": " + range(first, next - 1);
    for (std::size_t i = first; i < next; ++i) {
      const bool new_name = i == first || places[i].gpu != places[i - 1].gpu;
      text += (new_name ? "; " + std::string(places[i].gpu.data()) + " at " : ", ") +
              std::string(places[i].bus.data());
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<DevicePlace> device_places(World& host, int device) {
  std::vector<DevicePlace> places(host.size());
  const DevicePlace own = place_of(device);
  group_of_all(host)->all_gather(&own, places.data(), sizeof own);
  return places;
}

bool are_distinct(std::span<const DevicePlace> places) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  return std::ranges::all_of(places, [&](const DevicePlace& place) {
    return seen.emplace(place.host.data(), place.bus.data()).second;
  });
}

std::string describe_devices(std::span<const DevicePlace> places,
                             std::span<const std::string> variables) {
  return versions() + settings(variables) + hosts(places);
}

}  // namespace meshwright::exec
