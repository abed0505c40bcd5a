// SageMaker's training jobs: what the files of this folder share.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright {

// Named as the JSON of an estimator (SDK 2): instance_type, instance_count, distribution,
// hyperparameters. Read too: compute, distributed (SDK 3), SM_HP_MP_PARAMETERS.
const Rules& sagemaker_rules();

Rule distribution_rule();
Rule script_model_rule();

// Whether the dictionary is of version 1 of the model parallel library.
bool is_version_1(const JobDraft& job);
// A value of the library's parameters in the draft.
std::int64_t library_degree(const JobDraft& job, const std::string& name);

}  // namespace meshwright
