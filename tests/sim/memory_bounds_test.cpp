// Draws plans of random jobs with all settings that determine the memory of parameters, gradients
// and optimizer states. The planner's memory bound must not exceed what the compiled Programs need,
// and must be near it.
#include "models/core/error.h"
#include "tests/agree/random_graph.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json random_model(Draw& draw) {
  const char* family = draw.of({"gpt", "llama", "mixtral"});
  json model = {
      {"family", family}, {"hidden", draw.of({256, 512})},  {"layers", draw.between(2, 8)},
      {"heads", 4},       {"vocab", draw.of({1000, 8000})}, {"positions", 256}};
  if (model["family"] == "mixtral") model["experts"] = 4, model["experts_per_token"] = 2;
  return model;
}

// Returns random settings that determine the bytes of a parameter. Some combinations are not legal.
json random_training(Draw& draw) {
  json training = {
      {"global_batch", draw.of({16, 32})},
      {"sequence_length", 128},
      {"precision", draw.of({"fp32", "tf32", "fp16", "bf16", "fp8", "fp8", "nvfp4"})},
      {"optimizer", draw.of({"adamw", "adamw", "sgd", "lion", "lamb", "adafactor", "muon"})},
      {"compiler", draw.of({"none", "fused", "full"})},
      {"recompute", draw.of({"none", "full", "auto"})}};
  if (draw.one_in(3)) training["moments_precision"] = draw.of({"fp32", "bf16", "8bit"});
  if (draw.one_in(3)) training["master_weights"] = draw.of({"fp32", "remainders", "none"});
  if (draw.one_in(3)) training["gradient_reduce_precision"] = draw.of({"fp32", "fp16", "bf16"});
  if (draw.one_in(4)) training["ema_decay"] = 0.99;
  if (draw.one_in(4)) training["fuse_gradient_accumulation"] = true;
  if (draw.one_in(4)) training["first_layers_in_bf16"] = 1;
  if (draw.one_in(4)) training["mtp_layers"] = 1;
  if (draw.one_in(4)) training["fp8_gathers"] = true;
  if (draw.one_in(4))
    training["framework"] = draw.of({"transformers", "accelerate", "pytorch", "megatron-lm"});
  if (draw.one_in(6)) training["lora"] = {{"rank", 4}, {"target_modules", "all-linear"}};
  if (training.contains("lora") && draw.one_in(2)) training["lora"]["base_weights"] = "nf4";
  return training;
}

json random_parallelism(Draw& draw) {
  json parallelism = {{"pipeline", draw.of<json>({1, "auto"})},
                      {"tensor", draw.of<json>({1, 2, "auto"})},
                      {"data", "auto"},
                      {"expert", draw.of<json>({1, "auto"})},
                      {"shard", draw.of<json>({1, "auto"})},
                      {"zero_stage", draw.of<json>({0, 1, 2, 3, 3, "auto"})}};
  if (draw.one_in(3)) parallelism["reduce_gradients"] = "auto";
  if (draw.one_in(3)) parallelism["reshard_after_forward"] = draw.of({"auto", "never"});
  if (draw.one_in(4)) parallelism["persistence_threshold"] = draw.of({300, 100'000});
  if (draw.one_in(4)) parallelism["max_live_parameters"] = draw.of({1, 10'000'000});
  if (draw.one_in(4)) parallelism["offload"] = draw.of({"optimizer", "activations", "layers"});
  if (draw.one_in(4)) parallelism["overlap"] = json::array({"gradients"});
  if (draw.one_in(5)) parallelism["shard_layout"] = "whole";
  if (draw.one_in(5)) parallelism["reduce_bucket_bytes"] = 1'000'000;
  return parallelism;
}

// Returns the bytes of the stage that needs most, or 0 if a rule forbids the plan that only the
// compiler knows.
double peak_of(const Planned& planned, const Candidate& candidate) try {
  const Compiled compiled =
      compiled_for(planned.job.model, to_plan(candidate, planned.base), planned.cluster);
  std::int64_t peak = 0;
  for (const StageMemory& stage : stage_memory(compiled.stages, planned.cluster))
    peak = std::max(peak, stage.peak_bytes);
  return static_cast<double>(peak);
} catch (const InputError&) {
  return 0;
}

}  // namespace

TEST_CASE("the memory bound is below the compiled plan of any settings, and near it", "[planner]") {
  constexpr int jobs = 1200, plans_of_job = 4;  // a quarter of the jobs is legal
  int legal = 0, plans = 0;
  double sum = 0, least = 1;
  for (int seed = 0; seed < jobs; seed += sanitized ? 40 : 1) {
    Draw draw(static_cast<std::uint64_t>(seed));
    const char* machine =
        draw.of({"p3.16xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"});
    json value = job_json(random_model(draw), machine, draw.of({1, 2}), 1);
    value["training"] = random_training(draw);
    value["parallelism"] = random_parallelism(draw);
    std::unique_ptr<Planned> planned;
    try {
      planned = std::make_unique<Planned>(value, machine, value["cluster"]["count"].get<int>());
    } catch (const InputError&) {
      continue;
    }
    if (planned->candidates.empty()) continue;
    // A machine that was measured runs the engine, which holds less than training frameworks.
    if (draw.one_in(3)) planned->cluster.machine.calibration = Calibration::this_machine;
    ++legal;
    for (int i = 0; i < plans_of_job; ++i) {
      const Candidate& candidate =
          planned->candidates[draw.below(static_cast<int>(planned->candidates.size()))];
      INFO("seed " << seed << " " << value["model"].dump() << " " << planned->name(candidate));
      const double peak = peak_of(*planned, candidate);
      if (peak == 0) continue;
      const double bound = planned->bounds.memory(candidate).least_bytes;
      CHECK(bound <= peak);
      sum += bound / peak;
      least = std::min(least, bound / peak);
      ++plans;
    }
  }
  INFO(legal << " jobs, " << plans << " plans, mean share " << sum / plans << ", least " << least);
  CHECK(plans > 10);
  CHECK(sum / plans > 0.9);
}
