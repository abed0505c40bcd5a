// Makes the jobs that tests ask the server and the tools of language models about.
#pragma once

#include <nlohmann/json.hpp>

namespace meshwright::tests {

inline nlohmann::json planned_job() {
  return {{"name", "small"},
          {"model", "gpt2"},
          {"training", {{"global_batch", 16}, {"sequence_length", 128}, {"micro_batch", "auto"}}},
          {"cluster", {{"machine", {"p3.2xlarge", "g5.12xlarge"}}, {"count", {1, 2}}}},
          {"parallelism", "auto"}};
}

// Returns a job whose search takes minutes.
inline nlohmann::json long_job() {
  nlohmann::json job = planned_job();
  job["model"] = "gpt3-175b";
  job["training"] = {{"global_batch", 1536},
                     {"sequence_length", 2048},
                     {"micro_batch", "auto"},
                     {"recompute", "auto"}};
  job["cluster"] = {{"machine", {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge"}},
                    {"count", {64, 128, 256, 512}}};
  return job;
}

}  // namespace meshwright::tests
