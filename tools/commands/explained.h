// Has one of the two steps that `explain` compares.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "models/job/job.h"
#include "sim/predict/kernel_parts.h"
#include "sim/rehearsal/joined_kernels.h"
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright::tools {

struct Explained {
  std::string name;  // its name in tables
  Job job;
  Chosen chosen;
  Prediction prediction;
  StepParts parts;
  double tokens_per_s = 0;
  std::optional<KernelParts> kernels;   // times by kernel kind, if a profile is compared
  std::string trace;                    // for a measured profile: what was read, as text
  std::optional<JoinedKernels> joined;  // for the measured side of a recorded step
};

// Returns the predicted and the measured step for --measured. The trace is one that `train --trace`
// or PyTorch's profiler wrote. The operand is a job, or, with a profile, a recorded step of the
// script. Both steps of a job are those of the same rank. Throws InputError if trace and operand do
// not match.
std::pair<Explained, Explained> predicted_and_measured(const Options& options, const Watch& watch);

}  // namespace meshwright::tools
