// Draws jobs at random, with all families, machines, degrees, training keys and faults, most of
// them small enough to be simulated in milliseconds.
#pragma once

#include <nlohmann/json.hpp>
#include <random>

#include "models/job/job.h"
#include "sim/predict/predict.h"

namespace meshwright::tests::fuzz {

using Random = std::mt19937_64;

// Returns a job that is mostly legal. The reader rejects combinations of keys that are not.
nlohmann::json random_job(Random& random);

struct Rehearsal {
  Job job;
  Cluster cluster;
  Compiled compiled;
  std::optional<FrameworkUse> framework;
};

// Returns a random_job() with some keys left to the planner.
nlohmann::json random_open_job(Random& random);

Machine load_machine_of_job(const std::string& name);  // `local` is that of tests/tools/local.json

// These functions do together what `simulate` does with a job that leaves no choice to the planner,
// and throw InputError as it does.
Job read_random_job(const nlohmann::json& value);
bool leaves_no_choice(const Job& job);
Rehearsal rehearse(Job job);

// Throws an internal error unless every number is finite and none is negative.
void check_prediction(const Prediction& prediction);

}  // namespace meshwright::tests::fuzz
