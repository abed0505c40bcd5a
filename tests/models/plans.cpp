#include "tests/models/plans.h"

#include <nlohmann/json.hpp>

#include "models/compiler/compile.h"
#include "models/compiler/schedule/schedule.h"
#include "models/job/job.h"

namespace meshwright::tests {

Model small_model(const std::string& family) {
  nlohmann::json value = {{"family", family}, {"hidden", 32}, {"layers", 4},    {"heads", 4},
                          {"ffn", 64},        {"vocab", 61},  {"positions", 16}};
  if (family == "llama") value["kv_heads"] = 4;
  if (family == "mixtral")  // its experts have so few slots that some tokens are dropped
    value.update({{"kv_heads", 2},
                  {"experts", 4},
                  {"expert_capacity_factor", 1},
                  {"expert_rank_capacity_factor", 0},
                  {"router_aux_loss_coef", 0.05}});
  return read_model(Fields(value, "small"));
}

int ranks_of(const SmallDegrees& d) { return d.pipeline * d.tensor * d.data * d.context; }

Plan small_plan(const Model& model, SmallDegrees degrees) {
  Plan plan;
  Training& training = plan.training;
  training.micro_batch = 2;
  training.sequence_length = 8;
  training.global_batch = std::int64_t{2} * degrees.micro_batches * degrees.data;
  training.predicted_positions = model.head == Head::mlm ? 2 : 0;
  Parallelism& parallelism = plan.parallelism;
  parallelism.pipeline = degrees.pipeline;
  parallelism.tensor = degrees.tensor;
  parallelism.data = degrees.data;
  parallelism.context = degrees.context;
  parallelism.zero_stage = degrees.zero_stage;
  parallelism.virtual_stages = degrees.virtual_stages;
  if (degrees.virtual_stages > 1) parallelism.schedule = ScheduleKind::interleaved;
  parallelism.reduce_bucket_bytes = 8 << 10;
  return plan;
}

Plan offloading_plan(const Model& model, SmallDegrees degrees, Offload offload, int horizon) {
  Plan plan = small_plan(model, degrees);
  plan.training.recompute = Recompute::full;
  plan.parallelism.offload = offload;
  plan.parallelism.offload_horizon = horizon;
  return plan;
}

namespace {

// Adds plans with the tensor layouts of SageMaker's library, if possible with own batches.
void add_layouts(std::vector<Plan>& plans, const Plan& base) {
  if (base.parallelism.tensor == 1) return;
  for (TensorLayout layout : {TensorLayout::speed, TensorLayout::memory}) {
    Plan plan = base;
    plan.parallelism.tensor_layout = layout;
    plan.parallelism.tensor_batch_own = plan.training.micro_batch % plan.parallelism.tensor == 0;
    plan.training.recompute =
        layout == TensorLayout::memory ? Recompute::full : Recompute::selective;
    plans.push_back(plan);
  }
}

void add_variants(std::vector<Plan>& plans, const Plan& base) {
  add_layouts(plans, base);
  for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (bool rows : {false, true}) {
      if (rows && base.parallelism.tensor == 1) continue;
      Plan plan = base;
      plan.training.recompute = recompute;
      plan.parallelism.sequence_parallel = rows;
      plans.push_back(plan);
    }
}

}  // namespace

std::vector<Plan> small_plans(const Model& model) {
  std::vector<Plan> plans;
  for (int pipeline : {1, 2, 4})
    for (int tensor : {1, 2, 4})
      for (int data : {1, 2})
        for (int zero = 0; zero <= (data > 1 ? 3 : 0); ++zero) {
          if (pipeline * tensor * data > 8) continue;
          SmallDegrees degrees{pipeline, tensor, data, 4, zero, 1};
          const Plan plan = small_plan(model, degrees);
          add_variants(plans, plan);
          if (pipeline == 1) continue;
          for (const int chunks : {1, 2})
            for (const ScheduleInfo& schedule : schedule_kinds()) {
              const bool is_base = schedule.kind == plan.parallelism.schedule;
              if (is_base || (schedule.most_chunks > 1) != (chunks > 1)) continue;
              if (chunks * pipeline > model.layers || (schedule.splits_backwards && zero > 2))
                continue;
              degrees.virtual_stages = chunks;
              Plan other = small_plan(model, degrees);
              other.parallelism.schedule = schedule.kind;
              add_variants(plans, other);
            }
        }
  return plans;
}

std::vector<Program> lower_small(const Model& model, const Plan& plan, const DeviceFacts& device) {
  const auto equal = [](const Graph& graph) {
    const std::vector<double> ones(graph.units.size(), 1.0);
    return UnitCosts{ones, ones};
  };
  return compile(model, plan, {device, equal}).stages;
}

std::string describe(const Plan& plan) {
  const nlohmann::json usual = to_json(Plan{}).flatten(), own = to_json(plan).flatten();
  std::string text;
  for (const auto& [key, value] : own.items())
    if (!usual.contains(key) || usual[key] != value)
      text += (text.empty() ? "" : ", ") + key.substr(key.find('/', 1) + 1) + " " + value.dump();
  return text;
}

}  // namespace meshwright::tests
