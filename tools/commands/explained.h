// One of the two steps that `explain` compares.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/job/job.h"
#include "sim/predict/kernel_parts.h"
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright {

struct Explained {
  std::string name;  // as the table calls it
  Job job;
  Chosen chosen;
  Prediction prediction;
  StepParts parts;
  double tokens_per_s = 0;
  std::optional<KernelParts> kernels;  // where it is compared with a profile: what `parts` are of
  std::string trace;                   // measured: what was read, in a sentence
};

// --measured: the same rank as it was predicted and as the trace has it, which `train --trace` or
// PyTorch's profiler wrote.
std::pair<Explained, Explained> predicted_and_measured(const Options& options);

}  // namespace meshwright
