#include "exec/runtime/initial.h"

#include <algorithm>
#include <cmath>

#include "exec/core/philox.h"
#include "models/program/graph/experts.h"

namespace meshwright::exec {

namespace {

constexpr double deviation = 0.02;

void fill_normal(const PhiloxStream& stream, double scale, std::int64_t global, std::int64_t count,
                 float* values) {
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t index = global + i;
    const auto block = stream.normal_block(static_cast<std::uint64_t>(index / 4));
    for (std::int64_t lane = index % 4; lane < 4 && i < count; ++lane, ++i)
      values[i] = static_cast<float>(scale * block[lane]);
  }
}

// Fills in values that are uniform in [-limit, limit].
void fill_uniform(const PhiloxStream& stream, double limit, std::int64_t global, std::int64_t count,
                  float* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = global + i;
    const PhiloxCounter bits = stream.block(static_cast<std::uint64_t>(index / 4));
    const double share = (bits[index % 4] + 0.5) * 0x1p-32;
    values[i] = static_cast<float>(limit * (2 * share - 1));
  }
}

}  // namespace

void fill_initial(const Parameter& parameter, const InitialOptions& options, std::int64_t begin,
                  std::int64_t count, float* values) {
  const std::vector<PublishedTensor> published =
      published_tensors(parameter.name, parameter.global_shape);
  const double scale = parameter.initial == Initial::residual_normal
                           ? deviation / std::sqrt(2.0 * options.layers)
                           : deviation;
  std::fill(values, values + count, 0.0f);
  if (parameter.initial == Initial::zeros) return;
  visit_runs(parameter, options.part, begin, count, [&](const ParameterRun& run) {
    if (run.global < 0) return;
    float* to = values + (run.local - begin);
    if (parameter.initial == Initial::ones) return (void)std::fill(to, to + run.count, 1.0f);
    for (const PublishedTensor& each : published) {
      const std::int64_t first = std::max(run.global, each.begin);
      const std::int64_t end = std::min(run.global + run.count, each.begin + each.shape.elements());
      if (first >= end) continue;
      const PhiloxStream stream(options.seed, each.name);
      if (parameter.initial == Initial::kaiming_uniform)
        fill_uniform(stream, 1 / std::sqrt(static_cast<double>(parameter.global_shape[1])),
                     first - each.begin, end - first, to + (first - run.global));
      else
        fill_normal(stream, scale, first - each.begin, end - first, to + (first - run.global));
    }
  });
}

}  // namespace meshwright::exec
