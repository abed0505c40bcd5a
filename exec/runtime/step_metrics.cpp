#include "exec/runtime/step_metrics.h"

#include <algorithm>
#include <numeric>

#include "exec/runtime/host_view.h"

namespace meshwright::exec {

// Returns the mean loss of multi-token prediction over its depths, or none without it. At depth d,
// the last d tokens of a sequence have no target, so each sum is divided by the share of those that
// have one.
std::optional<double> mtp_loss(const RankContext& rank) {
  const int id = rank.program.mtp_loss_buffer;
  if (id < 0) return {};
  const std::int64_t depths =
      rank.program.memory.buffers[id].bytes / static_cast<std::int64_t>(sizeof(double));
  HostView<const double> sums(rank.backend, rank.memory.buffer<const double>(id), depths);
  const double length = rank.training.sequence_length;
  double mean = 0;
  for (std::int64_t depth = 0; depth < depths; ++depth)
    mean += sums.data()[depth] / (1 - static_cast<double>(depth + 1) / length);
  return mean / static_cast<double>(depths * rank.program.targets_per_step);
}

std::optional<double> expert_load(const RankContext& rank) {
  const std::int64_t routers = rank.program.counted_routers;
  if (routers == 0) return {};
  const int id = rank.program.choice_counts_buffer;
  const std::int64_t all =
      rank.program.memory.buffers[id].bytes / static_cast<std::int64_t>(sizeof(double));
  HostView<const double> counts(rank.backend, rank.memory.buffer<const double>(id), all);
  const std::int64_t experts = all / routers;
  const std::int64_t parts = rank.mesh.degrees().expert > 1 ? rank.mesh.degrees().expert : experts;
  double loads = 0;
  for (std::int64_t router = 0; router < routers; ++router) {
    double fullest = 0, sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const double* begin = counts.data() + router * experts + part * (experts / parts);
      const double own = std::accumulate(begin, begin + experts / parts, 0.0);
      fullest = std::max(fullest, own);
      sum += own;
    }
    loads += sum > 0 ? fullest * static_cast<double>(parts) / sum : 1;
  }
  return loads / static_cast<double>(routers);
}

}  // namespace meshwright::exec
