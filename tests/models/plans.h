// Makes small models and legal plans for them, for tests of all layers.
#pragma once

#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/program.h"

namespace meshwright::tests {

struct SmallDegrees {
  int pipeline = 1, tensor = 1, data = 1;
  int micro_batches = 4;
  int zero_stage = 0;
  int virtual_stages = 1;
  int context = 1;
};
int ranks_of(const SmallDegrees& degrees);

Model small_model(const std::string& family);  // 4 blocks, 4 heads, and 4 experts in mixtral
Plan small_plan(const Model& model, SmallDegrees degrees);
// Returns a plan that recomputes blocks and offloads the activations that they save.
Plan offloading_plan(const Model& model, SmallDegrees degrees, Offload offload, int horizon);
// Returns the legal combinations of pipeline 1/2/4 x tensor 1/2/4 x data 1/2 x schedules x ZeRO 0-3
// x recompute x sequence parallel on at most 8 ranks.
std::vector<Plan> small_plans(const Model& model);
// Returns the Programs of a plan, compiled as if all units cost the same.
std::vector<Program> lower_small(const Model& model, const Plan& plan,
                                 const DeviceFacts& device = {});
std::string describe(const Plan& plan);  // returns the settings that differ from the defaults

}  // namespace meshwright::tests
