#include "models/job/recorded_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/job_overrides.h"
#include "models/job/sections.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

constexpr const char* settable[] = {"cluster.", "objective.", "failures",
                                    "checkpoint.every_steps=", "training.steps="};

void check_settable(const std::string& text, const std::string& file) {
  if (std::ranges::none_of(settable, [&](const char* begin) { return text.starts_with(begin); }))
    throw InputError(file + ": --set " + text +
                     ": a recorded step is what the script did; only cluster, objective, failures, "
                     "checkpoint.every_steps and training.steps can be set; for anything else "
                     "rehearse the script again");
}

int count_of(Fields fields, std::string_view key) {
  const int value = fields.required<int>(key);
  if (value < 1) fields.fail(key, std::to_string(value) + " is too small; use 1 or more");
  fields.done();
  return value;
}

}  // namespace

Job read_recorded_job(const std::string& file, const std::string& machine,
                      const std::vector<std::string>& overrides, const MachineLookup& lookup) {
  json value = {{"cluster", {{"machine", machine}}}};
  for (const std::string& each : overrides) {
    check_settable(each, file);
    apply_override(value, each, file);
  }
  Job job;
  job.file = job.name = file;
  job.folder = ".";
  Fields fields(std::move(value), file);
  const bool has_count = fields.object("cluster").has("count");
  read_cluster(fields, job, lookup);
  if (job.cluster.machines.size() != 1 || job.is_auto("cluster.count"))
    throw InputError(file + ": a recorded step is priced on one machine and one count; name them");
  if (!has_count) job.cluster.counts.clear();
  if (fields.has("objective")) read_objective(fields.object("objective"), job);
  if (fields.has("failures")) read_failures(fields.object("failures"), job);
  if (fields.has("checkpoint"))
    job.checkpoint.emplace().every_steps = count_of(fields.object("checkpoint"), "every_steps");
  job.has_steps = fields.has("training");
  if (job.has_steps) job.plan.training.steps = count_of(fields.object("training"), "steps");
  fields.done();
  return job;
}

}  // namespace meshwright::job
