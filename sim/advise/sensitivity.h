// Measures which inputs move a prediction's answer most. Each input is set lower and higher, one at
// a time, and the whole job is predicted again under the same plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/objective.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

// The unit of an answer, which the objective decides: dollars, tokens or seconds. If the objective
// asks for dollars and the machine has no price, the unit is seconds.
enum class AnswerUnit : std::uint8_t { usd, tokens, seconds };

struct Swing {
  struct End {
    std::string value;               // of the input: "-20 %", "x2", "none"
    std::optional<WholeJob> answer;  // none: such a job is not legal
    double number = 0;               // the answer, in the unit of Sensitivity::answer
  };
  std::string input;
  End low, high;

  double width() const;  // between the lowest and the highest answer, that of the base included
  double base = 0;       // the same for all
};

struct Sensitivity {
  AnswerUnit answer = AnswerUnit::usd;
  WholeJob base;
  std::vector<Swing> swings;  // the widest first
};

// Everything that a predicted answer depends on. Each input changes a copy of it.
struct SensitivityCase {
  Plan plan;
  Cluster cluster;
  double step_factor = 1;
  double host_factor = 1;  // on the host's time in a recorded step
};
struct CaseAnswer {
  WholeJob whole;
  std::optional<StepInterval> interval;
  double step_time_s = 0;
};
using CasePredictor = std::function<CaseAnswer(const Objective&, const SensitivityCase&)>;

// Returns the answer for the whole job and its swings, the widest first. `plan` and `cluster` are
// those chosen for the job. Unless the objective is to maximize tokens, the tokens of the whole job
// stay the same. The interval of the predicted step time is one of the inputs, because measurements
// on such machines differ by it.
Sensitivity sensitivity(const Job& job, const Plan& plan, const Cluster& cluster);
// Does so for a recorded step, whose batch nothing changes. `job` is around the step, with the
// step's tokens in its plan. `predict` prices the step on the case's cluster.
Sensitivity sensitivity_of_recorded(const Job& job, const Cluster& cluster,
                                    const CasePredictor& predict);

}  // namespace meshwright::sim
