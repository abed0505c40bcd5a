#include "tools/measure/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "exec/comm/communicator.h"
#include "exec/launch/exit_codes.h"
#include "exec/launch/memory_file.h"
#include "exec/launch/mpirun.h"
#include "exec/launch/run_folder.h"
#include "exec/launch/stop.h"
#include "hwprofiles/cores.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::tools {

namespace {

using Clock = std::chrono::steady_clock;

// Returns the seconds of the fastest of `runs` runs of a collective, all of which begin with a
// barrier.
template <typename Collective>
double seconds_of(int runs, Communicator& group, const Collective& collective) {
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    group.barrier();
    const auto begin = Clock::now();
    collective();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

bool has_mpi() {
  const auto kinds = communicator_kinds();
  return std::ranges::any_of(kinds,
                             [](const CommunicatorKind& kind) { return kind.name == "mpi"; });
}

}  // namespace

MpirunOptions mpirun_options(int ranks) {
  MpirunOptions options;
  options.ranks = ranks;
  options.cores = usable_cores();
  options.is_root = geteuid() == 0;
  return options;
}

std::optional<Fields> run_measured_ranks(const Options& options, int ranks,
                                         const std::vector<std::string>& more) {
  if (!has_mpi() || options.mpi_ranks) return std::nullopt;
  allow_open_files(ranks);
  const RunFolder folder;
  const MemoryFile result;
  std::vector<std::string> command = {options.program, "calibrate", "--as-rank", "--rank-result",
                                      result.path()};
  command.insert(command.end(), more.begin(), more.end());
  MpirunOptions launch = mpirun_options(ranks);
  launch.folder = folder.path();
  const int code = run_mpirun(mpirun_command(launch, command));
  if (code == stopped) throw StopRequested();
  if (code != 0) {
    std::fprintf(stderr,
                 "warning: processes could not be measured (mpirun ended with %d); taking a "
                 "guess\n",
                 code);
    return std::nullopt;
  }
  return read_json_file(result.path());
}

RankRates measure_ranks(const Options& options, int ranks) {
  std::optional<Fields> fields = run_measured_ranks(options, ranks, {"--cpu"});
  if (!fields) return {5e-6, 2e9, 1e9, false};
  return {fields->required<double>("latency_s"), fields->required<double>("bandwidth_bytes_per_s"),
          fields->required<double>("copy_bandwidth_bytes_per_s")};
}

// A ring all-reduce of b bytes over n ranks has 2 (n - 1) rounds of b / n bytes, and an all-gather
// or reduce-scatter half as many. So small all-reduces show the latency of a round, and large ones
// the bandwidth of a rank.
int run_as_measured_rank(const Options& options) {
  const auto world = make_world("mpi");
  const auto group = group_of_all(*world);
  constexpr std::int64_t elements = std::int64_t{8} << 20;
  const std::int64_t part = elements / group->size();
  auto* data = static_cast<float*>(world->allocate((elements + part) * 4));
  float* own = data + elements;
  const double rounds = 2.0 * (group->size() - 1);
  const auto reduce = [&](std::int64_t count) {
    group->all_reduce(data, count, Dtype::f32, false);
  };
  const double small = seconds_of(200, *group, [&] { reduce(group->size()); });
  const double large = seconds_of(8, *group, [&] { reduce(elements); });
  const double gather = seconds_of(8, *group, [&] { group->all_gather(own, data, part * 4); });
  const double scatter =
      seconds_of(8, *group, [&] { group->reduce_scatter(data, own, part, Dtype::f32, false); });
  if (group->rank() != 0) return 0;
  const double moved = rounds / group->size() * static_cast<double>(elements) * 4;
  const json result = {
      {"latency_s", small / rounds},
      {"bandwidth_bytes_per_s", moved / std::max(large - small, 1e-9)},
      {"copy_bandwidth_bytes_per_s", moved / std::max(gather + scatter - small, 1e-9)}};
  std::ofstream(options.rank_result) << result.dump() << "\n";
  return 0;
}

}  // namespace meshwright::tools
