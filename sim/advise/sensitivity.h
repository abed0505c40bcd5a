// Finds out which inputs move a prediction most. Each input is set lower and higher, one at a time,
// and the whole job is predicted again. The plan stays the same, except that the input "global
// batch" changes its batch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/objective.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

// The unit of an answer, which follows from the objective: tokens if they are maximized, dollars if
// the cost is minimized and the price of the cluster is known, and otherwise seconds.
enum class AnswerUnit : std::uint8_t { usd, tokens, seconds };

struct Swing {
  struct End {
    std::string value;               // that the input is set to: "-20 %", "x2", "none"
    std::optional<WholeJob> answer;  // none: this input makes an illegal job
    double number = 0;               // `answer` as a number, in the unit of Sensitivity::answer
  };
  std::string input;
  End low, high;

  // Difference between the lowest and the highest answer, the one of the base included.
  double width() const;
  double base = 0;  // the answer with no input changed, the same for all swings
};

struct Sensitivity {
  AnswerUnit answer = AnswerUnit::usd;
  WholeJob base;
  std::vector<Swing> swings;  // the widest first
};

// The inputs of a prediction that may change. Each input changes a copy of this struct.
struct SensitivityCase {
  Plan plan;
  Cluster cluster;
  double step_factor = 1;
  double host_factor = 1;  // multiplies the time of the host in a recorded step
};
using CasePredictor = std::function<Prediction(const SensitivityCase&)>;

// Returns the answer for the whole job and its swings, the widest first. `plan` and `cluster` are
// those chosen for the job. Unless the objective is to maximize tokens, all cases train the same
// number of tokens. If the prediction has an interval of the step time, because measurements on
// such machines scatter, the interval is one of the inputs.
Sensitivity sensitivity(const Job& job, const Plan& plan, const Cluster& cluster);
// Returns the same for a recorded step. Its batch is no input, because the recording fixes it.
// `job` holds the step's batch and length in its plan. `predict` predicts the recorded step on the
// cluster of the case.
Sensitivity sensitivity_of_recorded(const Job& job, const Cluster& cluster,
                                    const CasePredictor& predict);

}  // namespace meshwright::sim
