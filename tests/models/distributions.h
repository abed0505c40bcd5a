// Makes jobs with SageMaker's dictionary `distribution`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/job/job.h"
#include "tests/models/job_lookup.h"

namespace meshwright::tests {

using nlohmann::json;

// Returns a job with gpt2 on two machines of 8 GPUs, which are 16 processes.
inline json job_of(const json& distribution) {
  json value = json::parse(R"({
    "model": "gpt2",
    "training": {"global_batch": 64, "sequence_length": 512},
    "instance_type": "ml.p4d.24xlarge", "instance_count": 2
  })");
  value["distribution"] = distribution;
  return value;
}

inline json version_1(const json& parameters) {
  return {{"smdistributed", {{"modelparallel", {{"enabled", true}, {"parameters", parameters}}}}},
          {"mpi", {{"enabled", true}, {"processes_per_host", 8}}}};
}

inline json version_2(const json& parameters) {
  return {{"smdistributed", {{"modelparallel", {{"enabled", true}, {"parameters", parameters}}}}},
          {"torch_distributed", {{"enabled", true}}}};
}

inline Job read(const json& distribution) {
  return read_job(job_of(distribution), "job.json", ".", lookup_for_tests);
}

// Returns the message with which the job is rejected, without the pointer to modelparallel's
// parameters: "ddp: must be ...". Returns "" if the job is accepted.
inline std::string refused(const json& distribution) {
  try {
    read(distribution);
  } catch (const InputError& error) {
    const std::string text = error.what();
    const std::string place = "job.json: /distribution/smdistributed/modelparallel/parameters/";
    return text.starts_with(place) ? text.substr(place.size()) : text;
  }
  return "";
}

inline bool warns(const Job& job, const std::string& key) {
  int count = 0;
  for (const std::string& warning : job.warnings)
    count += warning.find("/" + key + ": ") != std::string::npos;
  return count == 1;
}

}  // namespace meshwright::tests
