// What makes one prediction better than another under the job's objective.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/machine.h"
#include "models/job/job.h"

namespace meshwright {

// Smaller is better; `then` decides between equals. Both grow with the step time, so the merit of a
// lower bound of the time is a lower bound of the merit.
struct Merit {
  double first = 0, then = 0;
  auto operator<=>(const Merit&) const = default;
};

Merit merit(const Objective& objective, const Cluster& cluster, double step_time_s);

// Why a plan with this step time breaks the objective's deadline or budget; nothing when it keeps
// them. The whole job: objective.tokens, or training.steps where they are not given.
std::optional<std::string> broken_limit(const Objective& objective, const Training& training,
                                        const Cluster& cluster, double step_time_s);

}  // namespace meshwright
