// The frameworks whose settings meshwright reads and writes, and which plans each of them can
// express. tools/interop/target.h says which setting of a framework is which key of the plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "models/program/framework.h"

namespace meshwright::compiler {

using program::Framework;

// Returns the words of `--for`: the frameworks whose settings are written, in the order of the
// enumerators.
const std::vector<std::string>& framework_names();
std::string_view name_of(Framework framework);
// Returns whether it is known which plans the framework can run. It is not known for jax and
// tensorflow. Their steps are predicted, but no plans are searched for them.
bool has_known_limits(Framework framework);
// Returns the framework of framework_names() with this name. Throws InputError for any other name,
// which suggests the nearest one.
Framework framework_of(std::string_view name);

// Describes a key of the plan that a framework supports only in part.
struct Limit {
  std::string_view key;  // of the job file: "parallelism.schedule"
  std::string_view why;  // what the framework has instead, for messages
  bool (*holds)(const Plan& plan, const Model& model);
  // Changes the plan so that the limit holds, and otherwise as little as possible. Null if no plan
  // near the given one would satisfy the limit.
  void (*mend)(Plan& plan, const Model& model);
};

std::span<const Limit> limits_of(Framework framework);

// Returns the first limit that the plan breaks, or null if it breaks none. Limits describe plans
// with the framework's defaults, so callers apply as_run_by() before.
const Limit* broken_limit(Framework framework, const Plan& plan, const Model& model);

// Returns the violation "parallelism.schedule: megatron-lm has 1f1b and interleaved".
Violation violation_of(Framework framework, const Limit& limit);

// Returns the plan with its defaults spelled out as the framework chooses them: the order of ranks,
// the size of gradient buckets, when gradients are reduced. Limits that the plan breaks stay
// broken. For meshwright's own engine, jax and tensorflow, returns the plan unchanged.
Plan as_run_by(Framework framework, Plan plan, const Model& model);

// Returns the plan with every broken limit mended, as the framework runs it. Returns nothing if a
// limit cannot be mended, or if the mended plan breaks a rule of verify(). Returns the plan
// unchanged if the framework has no list of limits.
std::optional<Plan> nearest_plan(Framework framework, Plan plan, const Model& model);

// Returns which of framework_names() can run the plan.
std::vector<std::string> frameworks_that_run(const Plan& plan, const Model& model);

// Describes a framework for the table of framework.cpp. Each framework's own file defines one.
struct FrameworkLimits {
  std::span<const Limit> limits;
  void (*settle)(Plan& plan, const Model& model);
};
extern const FrameworkLimits megatron_lm_limits, megatron_bridge_limits, torchtitan_limits,
    deepspeed_limits, accelerate_limits, sagemaker_limits, hyperpod_limits;

// Returns whether two placements order the ranks of these degrees identically. An axis of degree 1
// does not count. Several frameworks need this.
bool same_placement(const Parallelism& parallelism, std::string_view one, std::string_view other);
// Sets the keys of the context exchange that have no effect under these degrees to their defaults.
void settle_context_exchange(Parallelism& parallelism);

}  // namespace meshwright::compiler
