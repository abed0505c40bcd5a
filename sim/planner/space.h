// Every way in which a job may be cut on a number of ranks: what the job fixes stays, what it
// leaves "auto" takes all legal values. Combinations against a rule are counted with the rule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/job/job.h"

namespace meshwright {

// What a plan takes from the search; all else comes from the job.
struct Candidate {
  int pipeline = 1, tensor = 1, data = 1;
  int virtual_stages = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int micro_batch = 1;
  Recompute recompute = Recompute::none;
  int zero_stage = 0;
  bool sequence_parallel = false;
  int expert = 1;
  CompilerLevel compiler = CompilerLevel::fused;
  bool operator==(const Candidate&) const = default;
};

using Rejections = std::map<std::string, std::int64_t>;  // reason -> combinations

struct Space {
  std::vector<Candidate> candidates;  // legal ones, in a fixed order
  std::int64_t enumerated = 0;        // legal or not
  Rejections rejected;
};

// `base`: the job's plan with precision and attention settled for the machine.
Space enumerate(const Job& job, const Plan& base, int ranks);

// The job's plan with precision and attention as this machine takes them by default.
Plan base_plan(const Job& job, const MachineFacts& machine);

Plan to_plan(const Candidate& candidate, const Plan& base);

}  // namespace meshwright
