// Computes the loss of trained weights on files, without training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/session/loaded_model.h"
#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

struct EvaluateRequest : LoadRequest {
  std::vector<std::string> data;  // files in place of the job's; empty: data.evaluation, or data
  std::optional<int> batches;     // of training.global_batch sequences; unset: as `train`, or all
};

struct Evaluated {
  std::string weights;               // path of the weights
  std::optional<std::int64_t> step;  // step of the checkpoint, if the weights are from one
  std::vector<std::string> files;
  std::int64_t sequences = 0, of_sequences = 0;  // evaluated, and to evaluate
  std::int64_t targets = 0;                      // number of targets that the loss is a mean of
  double loss = 0;                               // mean over the targets
  std::optional<double> perplexity;              // e^loss, if the head predicts tokens
  double seconds = 0;
  bool complete() const { return sequences == of_sequences; }
};

// Evaluates the job's weights, sequence by sequence, to the last one or until `goes_on` returns
// false. Throws InputError for weights or data that do not fit the job, and exec::StopRequested if
// `goes_on` returns false before any target was evaluated.
Evaluated evaluate(const JobRequest& wanted, const EvaluateRequest& how, const Watch& watch,
                   const std::function<bool()>& goes_on);

}  // namespace meshwright::session
