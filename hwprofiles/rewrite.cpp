#include "hwprofiles/rewrite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/core/error.h"

namespace meshwright {

namespace {

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string curve(const EfficiencyCurve& curve) {
  std::vector<std::string> points;
  for (const auto& point : curve.points)
    points.push_back(fmt::format("[{}, {}]", number(point.x), number(point.fraction)));
  return fmt::format("[{}]", fmt::join(points, ", "));
}

std::string values_of(const NamedConstant& constant) {
  if (constant.values.size() == 1) return number(*constant.values[0]);
  std::vector<std::string> values;
  for (const double* value : constant.values) values.push_back(number(*value));
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string efficiency_block(const Gpu& gpu, const std::string& source) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"source", "\"" + source + "\""},
      {"gemm", curve(gpu.gemm)},
      {"memory_bound", curve(gpu.memory_bound)},
      {"kernel_latency_s", number(gpu.kernel_latency_s)}};
  KernelConstants constants = gpu.kernels;
  for (const NamedConstant& constant : named(constants))
    lines.emplace_back(constant.key, values_of(constant));
  std::string block = "  \"efficiency\": {\n";
  for (std::size_t i = 0; i < lines.size(); ++i)
    block += fmt::format("    \"{}\": {}{}\n", lines[i].first, lines[i].second,
                         i + 1 < lines.size() ? "," : "");
  return block + "  }";
}

std::string interval(const Residuals::Interval& interval) {
  return fmt::format("{{\"low\": {:.3f}, \"high\": {:.3f}, \"rows\": {}}}", interval.low,
                     interval.high, interval.rows);
}

std::string residuals_block(const Residuals& residuals, const std::string& source) {
  std::string block = "  \"residuals\": {\n    \"source\": \"" + source + "\"";
  if (residuals.one_host) block += ",\n    \"one_host\": " + interval(*residuals.one_host);
  if (residuals.many_hosts) block += ",\n    \"many_hosts\": " + interval(*residuals.many_hosts);
  return block + "\n  },\n";
}

// Begin and end of a block of the profile, from its name to its closing brace.
std::pair<std::size_t, std::size_t> block_of(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("\n  \"" + name + "\": {");
  if (begin == std::string::npos) return {std::string::npos, std::string::npos};
  return {begin + 1, text.find("\n  }", begin) + 4};
}

void set(std::string& text, const std::string& block, const std::string& key, double value) {
  const auto [begin, end] = block_of(text, block);
  if (begin == std::string::npos) return;
  const std::size_t line = text.find("\n    \"" + key + "\": ", begin);
  if (line == std::string::npos || line > end) return;
  const std::size_t from = text.find(": ", line) + 2;
  const std::size_t to = std::min(text.find(",\n", from), text.find("\n", from));
  text.replace(from, to - from, number(value));
}

}  // namespace

std::string with_fitted_constants(std::string text, const Machine& machine,
                                  const std::string& source) {
  const auto [begin, end] = block_of(text, "efficiency");
  MESHWRIGHT_CHECK(begin != std::string::npos, "every profile has an efficiency block");
  text.replace(begin, end - begin, efficiency_block(machine.gpu, source));
  if (const auto [old, old_end] = block_of(text, "residuals"); old != std::string::npos)
    text.erase(old, old_end - old + 2);
  if (machine.residuals) {
    const std::size_t prices = text.find("\n  \"prices\"") + 1;
    text.insert(prices, residuals_block(*machine.residuals,
                                        "Measured by predicted step time, 10th and 90th percentile "
                                        "of the published steps on this kind of GPU"));
  }
  set(text, "gpu", "sustained_clock_share", machine.gpu.sustained_clock_share);
  set(text, "nvlink", "simple_latency_s", machine.nvlink.simple_latency_s);
  set(text, "nvlink", "nvls_efficiency", machine.nvlink.nvls_efficiency);
  set(text, "nvlink", "nvls_latency_s", machine.nvlink.nvls_latency_s);
  set(text, "network", "efficiency", machine.network.efficiency);
  set(text, "network", "simple_step_latency_s", machine.network.simple_step_latency_s);
  set(text, "collectives", "host_latency_s", machine.host_latency.latency_s);
  set(text, "collectives", "host_step_latency_s", machine.host_latency.step_latency_s);
  set(text, "host", "host_launch_us", machine.host.host_launch_us);
  return text;
}

}  // namespace meshwright
