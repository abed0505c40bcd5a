#include <limits>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/sections.h"

namespace meshwright {

namespace {

const std::vector<std::string> precision_words = {"fp32", "tf32", "fp16", "bf16", "fp8"};

void read_precision(Fields& fields, Job& job) {
  Training& training = job.plan.training;
  if (!fields.has("precision")) {
    job.autos.insert("training.precision");
  } else if (!take_auto(fields, "precision", "training", job)) {
    take_word(fields, "precision", "precision", precision_words, training.precision);
  }
  const Dtype reduce_types[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  int reduce = 0;
  take_word(fields, "gradient_reduce_precision", "precision of the gradients' sum",
            {"fp32", "fp16", "bf16"}, reduce);
  training.gradient_reduce = reduce_types[reduce];
}

// none selective full each contiguous, or group_4; or the modules by name.
void read_recompute(Fields& fields, Job& job) {
  Training& training = job.plan.training;
  take_or_auto(fields, "recompute_fraction", training.recompute_fraction, "training", job);
  training.recompute_modules =
      fields.optional<std::vector<std::string>>("recompute_modules", training.recompute_modules);
  if (fields.has("recompute_budget"))
    training.recompute_budget = fields.required<double>("recompute_budget");
  if (!fields.has("recompute")) return;
  if (take_auto(fields, "recompute", "training", job)) {
    if (training.recompute_budget)
      fields.fail("recompute_budget", "given beside recompute 'auto'; keep one of them");
    return;
  }
  const std::string word = fields.required<std::string>("recompute");
  if (word.starts_with("group_")) {
    const std::string number = word.substr(6);
    const bool good = !number.empty() && number.size() < 6 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
    if (!good || std::stoi(number) < 1)
      fields.fail("recompute", "'" + word + "' has no size; use group_2, group_3, ...");
    training.recompute = Recompute::group;
    training.recompute_group = std::stoi(number);
    return;
  }
  take_word(fields, "recompute", "recomputation", recompute_names(), training.recompute);
  if (training.recompute == Recompute::group)
    fields.fail("recompute", "'group_N' has no size; use group_2, group_3, ...");
  // Every block by itself is what `full` does.
  if (training.recompute == Recompute::each) training.recompute = Recompute::full;
}

LossScale read_loss_scale(Fields fields) {
  LossScale scale;
  if (fields.has("static")) {
    scale.initial = fields.required<double>("static");
    for (const char* key : {"initial", "factor", "window", "minimum", "hysteresis"})
      if (fields.has(key)) fields.fail(key, "goes with a moving scale; leave it out, or 'static'");
  } else {
    scale.dynamic = true;
    scale.initial = 4294967296.0;  // 2^32
    take(fields, "initial", scale.initial);
    take(fields, "factor", scale.factor);
    take(fields, "window", scale.window);
    take(fields, "minimum", scale.minimum);
    take(fields, "hysteresis", scale.hysteresis);
  }
  fields.done();
  return scale;
}

std::uint64_t read_seed(Fields& fields) {
  const auto seed = fields.optional<std::int64_t>("seed", 0);
  if (seed < 0) fields.fail("seed", std::to_string(seed) + " is negative; use 0 or more");
  return static_cast<std::uint64_t>(seed);
}

void read_optimizer(Fields& fields, Job& job) {
  Training& training = job.plan.training;
  take_word(fields, "optimizer", "optimizer", optimizer_names(), training.optimizer);
  take(fields, "learning_rate", training.learning_rate);
  take(fields, "warmup_steps", training.warmup_steps);
  take_word(fields, "learning_rate_schedule", "learning rate schedule",
            learning_rate_schedule_names(), training.learning_rate_schedule);
  take(fields, "weight_decay", training.weight_decay);
  take(fields, "momentum", training.momentum);
  take(fields, "beta1", training.beta1);
  take(fields, "beta2", training.beta2);
  take(fields, "epsilon", training.epsilon);
  take(fields, "gradient_clip", training.gradient_clip);
  if (fields.has("loss_scale")) training.loss_scale = read_loss_scale(fields.object("loss_scale"));
}

}  // namespace

void read_training(Fields fields, Job& job) {
  Training& training = job.plan.training;
  training.global_batch = fields.required<std::int64_t>("global_batch");
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  if (training.global_batch < 1 || training.global_batch > largest)
    fields.fail("global_batch", std::to_string(training.global_batch) +
                                    " is out of range; use 1 to " + std::to_string(largest));
  training.sequence_length = fields.required<int>("sequence_length");
  if (!fields.has("micro_batch")) job.autos.insert("training.micro_batch");
  take_or_auto(fields, "micro_batch", training.micro_batch, "training", job);
  read_precision(fields, job);
  read_recompute(fields, job);
  if (!fields.has("attention")) job.autos.insert("training.attention");
  if (!take_auto(fields, "attention", "training", job))
    take_word(fields, "attention", "attention", attention_names(), training.attention);
  if (!take_auto(fields, "compiler", "training", job))
    take_word(fields, "compiler", "compiler level", compiler_names(), training.compiler);
  take_word(fields, "memory_of", "memory", memory_of_names(), training.memory_of);
  training.passes_off =
      fields.optional<std::vector<std::string>>("passes_off", training.passes_off);
  take(fields, "fuse_gradient_accumulation", training.fuse_gradient_accumulation);
  if (fields.has("predicted_positions")) {
    take(fields, "predicted_positions", training.predicted_positions);
    if (training.predicted_positions < 1)
      fields.fail("predicted_positions",
                  std::to_string(training.predicted_positions) + " is too small; use 1 or more");
  }
  job.has_steps = fields.has("steps");
  take(fields, "steps", training.steps);
  training.seed = read_seed(fields);
  read_optimizer(fields, job);
  take(fields, "dropout", training.dropout);
  take(fields, "deterministic", training.deterministic);
  if (fields.has("cuda_graph")) training.cuda_graph = fields.required<bool>("cuda_graph");
  fields.done();
}

}  // namespace meshwright
