// Builds one candidate as it would run, and simulates it if it fits. Trials are independent of each
// other, so several threads may make them at once.
#pragma once

#include <optional>
#include <string>

#include "models/compiler/compile.h"
#include "sim/planner/search.h"

namespace meshwright::sim {

struct Trial {
  // The memory that decides whether a plan fits, on the stage that needs most.
  struct Need {
    double bytes = 0, limit_bytes = 0;
    bool fits = false;
  };
  // Whether the candidate obeys the rules about plans, and the limits that are known before it is
  // compiled.
  bool is_plan = false;
  Ruling rejected;             // why the candidate cannot be built or run
  std::optional<Need> memory;  // the memory that it needs; none if it could not be built
  std::optional<RankedPlan> simulated;
};

class TrialMaker {
 public:
  // `job`, `cluster` and `base` must outlive the maker. `usable` is the share of a GPU's memory
  // that plans may take.
  TrialMaker(const Job& job, std::string machine, const Cluster& cluster, const Plan& base,
             double usable);
  Trial try_out(const Candidate& candidate) const;
  // Builds the candidate without simulating it, and sets `memory` or `rejected`.
  Trial build_alone(const Candidate& candidate) const;
  double memory_limit_bytes() const { return limit_; }

 private:
  struct Built {
    Compiled compiled;
    std::optional<FrameworkUse> framework;
  };
  std::optional<Built> build(const Candidate& candidate, Trial& trial) const;
  Trial::Need need_of(const Built& built) const;
  RankedPlan simulate(const Built& built) const;

  const Job& job_;
  std::string machine_;
  const Cluster& cluster_;
  const Plan& base_;
  MachineFacts facts_;
  double usable_ = 1;
  double limit_ = 0;
};

}  // namespace meshwright::sim
