#include "hwprofiles/rewrite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "hwprofiles/blocks.h"
#include "hwprofiles/load.h"
#include "hwprofiles/parts.h"

namespace meshwright::hwprofiles {

namespace {

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string curve(const EfficiencyCurve& curve) {
  std::vector<std::string> points;
  for (const auto& point : curve.points)
    points.push_back(fmt::format("[{}, {}]", number(point.x), number(point.fraction)));
  return fmt::format("[{}]", fmt::join(points, ", "));
}

std::string text_of(const BlockField& row) {
  if (const auto* value = std::get_if<EfficiencyCurve*>(&row.place)) return curve(**value);
  if (const auto* value = std::get_if<double*>(&row.place)) return number(**value);
  std::vector<std::string> values;
  for (const double* value : std::get<std::vector<double*>>(row.place))
    values.push_back(number(*value));
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string efficiency_block(Gpu gpu, const std::string& source) {
  std::string block = "  \"efficiency\": {\n    \"source\": \"" + source + "\"";
  for (const BlockFields& rows : {efficiency_fields(gpu), constant_fields(gpu.kernels)})
    for (const BlockField& row : rows)
      if (row.fitted) block += fmt::format(",\n    \"{}\": {}", row.key, text_of(row));
  return block + "\n  }";
}

std::string interval(const Residuals::Interval& interval) {
  return fmt::format("{{\"low\": {:.3f}, \"high\": {:.3f}, \"rows\": {}}}", interval.low,
                     interval.high, interval.rows);
}

// Returns where a block begins and ends in the text: the offset of the line with its name, and the
// offset after its closing brace. Returns npos twice if there is no such block. The block's name
// and its brace must begin lines, after two spaces.
std::pair<std::size_t, std::size_t> block_of(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("\n  \"" + name + "\": {");
  if (begin == std::string::npos) return {std::string::npos, std::string::npos};
  return {begin + 1, text.find("\n  }", begin) + 4};
}

std::string residuals_block(const Residuals& residuals, const std::string& source) {
  std::string block = "  \"residuals\": {\n    \"source\": \"" + source + "\"";
  if (residuals.one_host) block += ",\n    \"one_host\": " + interval(*residuals.one_host);
  if (residuals.many_hosts) block += ",\n    \"many_hosts\": " + interval(*residuals.many_hosts);
  return block + "\n  }";
}

constexpr const char* source_of_residuals =
    "Measured by predicted step time: where the next step lies with a probability of 80 %, by the "
    "published steps on the GPUs that have this part";

// Replaces the values of those fitted fields of a block that the text has.
void set(std::string& text, const std::string& block, const BlockFields& rows) {
  for (const BlockField& row : rows) {
    const auto [begin, end] = block_of(text, block);
    if (begin == std::string::npos) return;
    const std::size_t line = text.find(fmt::format("\n    \"{}\": ", row.key), begin);
    if (!row.fitted || line == std::string::npos || line > end) continue;
    const std::size_t from = text.find(": ", line) + 2;
    const std::size_t to = std::min(text.find(",\n", from), text.find("\n", from));
    text.replace(from, to - from, text_of(row));
  }
}

}  // namespace

std::string with_fitted_constants(std::string text, Machine machine, const std::string& source) {
  const auto [begin, end] = block_of(text, "efficiency");
  if (begin != std::string::npos)
    text.replace(begin, end - begin, efficiency_block(machine.gpu, source));
  set(text, "gpu", gpu_fields(machine.gpu));
  set(text, "host", host_fields(machine.host));
  return with_fitted_links(std::move(text), std::move(machine));
}

std::string with_fitted_links(std::string text, Machine machine) {
  set(text, "nvlink", nvlink_fields(machine.nvlink));
  set(text, "network", network_fields(machine.network));
  set(text, "collectives", collectives_fields(machine));
  return text;
}

std::string with_residuals(std::string text, const std::optional<Residuals>& residuals) {
  const auto [begin, end] = block_of(text, "residuals");
  if (begin != std::string::npos && residuals) {
    text.replace(begin, end - begin, residuals_block(*residuals, source_of_residuals));
  } else if (begin != std::string::npos) {
    const std::size_t comma = text.rfind(',', begin);
    text.erase(comma, end - comma);
  } else if (residuals) {
    std::size_t place = block_of(text, "efficiency").second;
    if (place == std::string::npos) place = block_of(text, "gpu").second;
    text.insert(place, ",\n" + residuals_block(*residuals, source_of_residuals));
  }
  return text;
}

std::vector<FittedFile> fitted_files() {
  std::vector<Machine> machines;
  for (const std::string& name : list_machines()) machines.push_back(load_machine(name));
  std::erase_if(machines, [](const Machine& each) { return each.gpu.kind != DeviceKind::gpu; });
  std::stable_partition(machines.begin(), machines.end(), [](const Machine& each) {
    return each.calibration == Calibration::evidence || each.calibration == Calibration::links;
  });
  std::map<std::string, std::size_t> seen;
  std::vector<FittedFile> files;
  for (const Machine& machine : machines) {
    const std::string own = profiles_folder() + "/" + machine.name + ".json";
    std::vector<std::string> paths = part_files(own, parts_folder());
    paths.push_back(own);
    for (const std::string& path : paths) {
      const auto [found, is_new] = seen.emplace(path, files.size());
      if (is_new) files.push_back({path, machine.name, {}});
      files[found->second].gpus.push_back(machine.gpu.name);
    }
  }
  return files;
}

}  // namespace meshwright::hwprofiles
