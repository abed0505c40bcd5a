#include "tools/measure/gpu_ranks.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <vector>

#include "models/core/json.h"
#include "tools/measure/ranks.h"
#include "tools/session/engine.h"

namespace meshwright::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double longest_wait_s = 60;

// Returns the seconds of one call: the fastest of several rounds of `calls` calls. With
// `to_streams`, calls return before they are done. They are then replayed from a graph, as in a
// training step, and timed by the device's clock.
double seconds_of(Backend& backend, Communicator& host, bool to_streams, int calls,
                  const std::function<void()>& call) {
  constexpr int rounds = 5;
  Streams& streams = *backend.streams();
  StepCapture& capture = *backend.capture();
  call();
  backend.wait();
  const auto issue = [&] {
    for (int i = 0; i < calls; ++i) call();
  };
  if (to_streams) {
    capture.begin();
    issue();
    capture.end();
  }
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    host.barrier();
    double seconds = 0;
    if (to_streams) {
      streams.begin_stamps();
      capture.replay();
      const int end = streams.stamp();
      backend.wait();
      seconds = streams.stamped(end);
    } else {
      const auto begin = Clock::now();
      issue();
      backend.wait();
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    best = std::min(best, seconds / calls);
  }
  capture.drop();  // NCCL waits for it before a group ends
  return best;
}

// Returns the maximum of `seconds` over all ranks. Every rank calls it.
double slowest(Communicator& host, double seconds) {
  host.all_reduce(&seconds, 1, Dtype::f64, true);
  return seconds;
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::optional<GpuRankRates> measure_gpu_ranks(const Options& options, int ranks) {
  std::optional<Fields> fields = run_measured_ranks(options, ranks, {});
  if (!fields) return std::nullopt;
  return GpuRankRates{fields->required<double>("latency_s"),
                      fields->required<double>("bandwidth_bytes_per_s"),
                      fields->required<double>("pair_bandwidth_bytes_per_s"),
                      fields->required<double>("copy_bandwidth_bytes_per_s"),
                      fields->required<double>("communicator_bytes")};
}

int run_as_measured_gpu_rank(const Options& options) {
  const auto host = make_world("mpi");
  const int size = host->size();
  const auto everybody = host->group(GroupKind::world, first_ranks(size));
  Cluster cluster;
  cluster.machine.gpu.kind = DeviceKind::gpu;
  cluster.processes_per_host = size;
  const Engine engine = make_engine(cluster, {}, *host, longest_wait_s);
  Backend& backend = *engine.backend;
  World& world = engine.world(*host);
  const bool to_streams = world.issues_to_streams();
  // Ranks that share GPUs occur only in tests, for which fewer elements are enough.
  const std::int64_t elements = std::int64_t{to_streams ? 64 : 1} << 20;
  auto* data = static_cast<float*>(world.allocate(elements * 4));
  backend.begin_step(0);

  GpuRankRates rates;
  everybody->barrier();
  const std::int64_t before = backend.used_bytes();
  const auto bandwidth = [&](Communicator& group, double small) {
    const double large = slowest(*everybody, seconds_of(backend, *everybody, to_streams, 2, [&] {
      group.all_reduce(data, elements, Dtype::f32, false);
    }));
    const int n = group.size();
    return 2.0 * (n - 1) / n * static_cast<double>(elements) * 4 / std::max(large - small, 1e-9);
  };
  {
    const auto all = world.group(GroupKind::world, first_ranks(size));
    rates.latency_s = slowest(*everybody, seconds_of(backend, *everybody, to_streams, 20, [&] {
      all->all_reduce(data, size, Dtype::f32, false);
    }));
    rates.bandwidth_bytes_per_s = bandwidth(*all, rates.latency_s);
    rates.communicator_bytes = std::max(0.0, static_cast<double>(backend.used_bytes() - before));
  }
  // All pairs of ranks communicate at the same time, as the groups of a job do.
  rates.pair_bandwidth_bytes_per_s = rates.bandwidth_bytes_per_s;
  if (size > 2 && size % 2 == 0) {
    const int first = host->rank() / 2 * 2;
    const int pair[] = {first, first + 1};
    const auto two = world.group(GroupKind::tensor, pair);
    rates.pair_bandwidth_bytes_per_s = bandwidth(*two, 0);
  }
  void* pinned = backend.allocate_host(elements * 4);
  const auto copy = [&](void* to, const void* from) {
    return slowest(*everybody, seconds_of(backend, *everybody, true, 4,
                                          [&] { backend.copy(to, from, elements * 4); }));
  };
  rates.copy_bandwidth_bytes_per_s =
      static_cast<double>(elements) * 4 / std::max(copy(pinned, data), copy(data, pinned));
  backend.deallocate_host(pinned);
  if (host->rank() != 0) return 0;
  const json result = {{"latency_s", rates.latency_s},
                       {"bandwidth_bytes_per_s", rates.bandwidth_bytes_per_s},
                       {"pair_bandwidth_bytes_per_s", rates.pair_bandwidth_bytes_per_s},
                       {"copy_bandwidth_bytes_per_s", rates.copy_bandwidth_bytes_per_s},
                       {"communicator_bytes", rates.communicator_bytes}};
  std::ofstream(options.rank_result) << result.dump() << "\n";
  return 0;
}

}  // namespace meshwright::tools
