// The frameworks whose settings meshwright reads and writes, and what of a plan each can express.
// Which setting is which key: tools/interop/target.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

enum class Framework : std::uint8_t {
  none,  // meshwright's own engine: every plan
  megatron_lm,
  megatron_bridge,
  torchtitan,
  deepspeed,
  accelerate,
  sagemaker,
  hyperpod
};
// The words of `--for` and of objective.framework, without `none`, in the order of the enumerators.
const std::vector<std::string>& framework_names();
std::string_view name_of(Framework framework);
Framework framework_of(std::string_view name);  // unknown: InputError that names the nearest

// A key of the plan that a framework takes in part only.
struct Limit {
  std::string_view key;  // of the job file: "parallelism.schedule"
  std::string_view why;  // what the framework has instead
  bool (*holds)(const Plan& plan, const Model& model);
  // Changes the plan as little as it takes; null: no such plan is near.
  void (*mend)(Plan& plan, const Model& model);
};

std::span<const Limit> limits_of(Framework framework);

// The first limit that the plan breaks; none: the framework can run it.
const Limit* broken_limit(Framework framework, const Plan& plan, const Model& model);

// "parallelism.schedule: megatron-lm has 1f1b and interleaved".
std::string broken_text(Framework framework, const Limit& limit);

// The plan with what it leaves to defaults said as the framework does it: the order of ranks, the
// size of gradient buckets, when gradients are reduced. A plan that the framework cannot express
// stays so.
Plan as_run_by(Framework framework, Plan plan, const Model& model);

// The plan with every broken limit mended, as the framework runs it; nothing where that breaks
// another rule.
std::optional<Plan> nearest_plan(Framework framework, Plan plan, const Model& model);

// The names of those that can run the plan.
std::vector<std::string> frameworks_that_run(const Plan& plan, const Model& model);

// What a framework is, for the table of framework.cpp; one in each framework's folder.
struct FrameworkLimits {
  std::span<const Limit> limits;
  void (*settle)(Plan& plan, const Model& model);
};
extern const FrameworkLimits megatron_lm_limits, megatron_bridge_limits, torchtitan_limits,
    deepspeed_limits, accelerate_limits, sagemaker_limits, hyperpod_limits;

// Of use to several: whether two orders of ranks are the same one, since a degree of 1 has no
// place.
bool same_placement(const Parallelism& parallelism, std::string_view one, std::string_view other);
// What has no effect is as it is by default.
void settle_context_exchange(Parallelism& parallelism);

}  // namespace meshwright
