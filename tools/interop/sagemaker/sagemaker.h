// Declares what the source files of the target sagemaker share.
#pragma once

#include "tools/interop/rules.h"

namespace meshwright::interop {

// Returns the rules, which have the names of an estimator's JSON (SDK 2): instance_type,
// instance_count, distribution, hyperparameters. They also read compute and distributed (SDK 3),
// and SM_HP_MP_PARAMETERS.
const Rules& sagemaker_rules();

Rule distribution_rule();
Rule script_model_rule();
// Returns the rule for the model that the arguments of AWS's examples of FSDP give. The target
// accelerate uses it.
Rule sized_script_model_rule();

// Returns whether the draft's distribution dictionary has parameters of the model parallel library
// and turns on MPI, as version 1 of the library needs.
bool is_version_1(const JobDraft& job);
// Returns a degree among the library's parameters in the draft, or 1 if it is no whole number above
// 1.
std::int64_t library_degree(const JobDraft& job, const std::string& name);

// Translates the names in requests, programs and scripts to those of the rules (names.cpp).
Settings with_names_of_estimator(Settings settings, const JobDraft& given);
Rule compiler_rule();
Rule fsdp_words_rule();

}  // namespace meshwright::interop
