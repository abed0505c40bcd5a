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
  std::optional<int> batches;     // of training.global_batch sequences; none: all
};

struct Evaluated {
  std::string weights;               // path
  std::optional<std::int64_t> step;  // of the checkpoint
  std::vector<std::string> files;
  std::int64_t sequences = 0, of_sequences = 0;  // evaluated, and asked for
  std::int64_t targets = 0;                      // whose loss is measured
  double loss = 0;                               // mean over the targets
  std::optional<double> perplexity;              // of a head over the vocabulary: e^loss
  double seconds = 0;
  bool complete() const { return sequences == of_sequences; }
};

// Evaluates the job's weights, sequence by sequence, until `goes_on` says no. Throws InputError for
// weights or data that do not fit the job, and exec::StopRequested if `goes_on` says no before the
// first sequence is done.
Evaluated evaluate(const JobRequest& wanted, const EvaluateRequest& how, const Watch& watch,
                   const std::function<bool()>& goes_on);

}  // namespace meshwright::session
