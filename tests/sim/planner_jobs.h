// Makes small jobs for the planner's tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/job/job.h"
#include "sim/planner/search.h"

namespace meshwright::tests {

inline nlohmann::json small_model(int layers, int heads) {
  return {{"family", "gpt"}, {"hidden", 256}, {"layers", layers},
          {"heads", heads},  {"vocab", 1000}, {"positions", 256}};
}

inline nlohmann::json job_json(const nlohmann::json& model, const std::string& machine,
                               const nlohmann::json& count, int batch) {
  return {{"model", model},
          {"training", {{"global_batch", batch}, {"sequence_length", 128}, {"precision", "fp16"}}},
          {"cluster", {{"machine", machine}, {"count", count}}},
          {"parallelism", "auto"}};
}

inline Job read(const nlohmann::json& value) {
  return read_job(value, "job.json", ".", machine_facts);
}

// Options with few simulations, which suffice for these tests.
inline const SearchOptions few{
    .keep_best = 10, .simulate_at_most = 6, .simulate_for_gap = 0, .load = load_known_machine};

}  // namespace meshwright::tests
