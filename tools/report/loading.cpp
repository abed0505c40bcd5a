#include "tools/report/loading.h"

#include <fmt/format.h>

#include "models/core/json.h"
#include "sim/predict/loading.h"
#include "tools/session/text.h"

namespace meshwright::tools {

json loading_json(const Job& job, const Plan& plan, const Cluster& cluster,
                  const Prediction& prediction) {
  if (!job.loading.any()) return nullptr;
  const LoadingTime time = loading_time(job.loading, plan, cluster);
  return {{"read_s", time.read_s},
          {"decode_s", time.decode_s},
          {"is_bottleneck", time.is_bottleneck(prediction.step_time_s)},
          {"workers_needed", time.workers_needed(prediction.step_time_s)}};
}

std::string loading_text(const Job& job, const Plan& plan, const Cluster& cluster,
                         const Prediction& prediction) {
  if (!job.loading.any()) return "";
  const LoadingTime time = loading_time(job.loading, plan, cluster);
  const double step_s = prediction.step_time_s;
  std::string text = fmt::format("loading  {} of a step to read, {} to decode",
                                 show_seconds(time.read_s), show_seconds(time.decode_s));
  if (!time.is_bottleneck(step_s)) return text + ": keeps up with the step\n";
  text += fmt::format(": THE LOADER IS THE BOTTLENECK, a step takes {} then",
                      show_seconds(time.step_s()));
  if (time.decode_s > step_s)
    text += fmt::format("; {} workers a rank keep up with decoding", time.workers_needed(step_s));
  if (time.read_s > step_s)
    text += fmt::format("; storage of {}/s keeps up with reading",
                        show_bytes(job.loading.storage_bytes_per_s * time.read_s / step_s));
  return text + "\n";
}

}  // namespace meshwright::tools
