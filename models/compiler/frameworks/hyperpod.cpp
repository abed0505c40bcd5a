// This file lists which plans a HyperPod recipe can express. It runs version 2 of SageMaker's model
// parallel library with the training program of sagemaker-hyperpod-training-adapter-for-nemo.
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/smp.h"

namespace meshwright::compiler {

namespace {

// Returns whether a recipe's keys can describe the model: Llama, Mistral or Mixtral.
bool is_model_of_recipes(const Model& m) {
  return (m.architecture == Architecture::llama || m.architecture == Architecture::mixtral) &&
         is_causal_of_scripts(m);
}

constexpr Limit own_rows[] = {
    {"model", "has recipes for Llama and Mixtral",
     [](const Plan&, const Model& m) { return is_model_of_recipes(m); }, nullptr},
    {"parallelism.pipeline", "has no stages in its own recipes",
     [](const Plan& p, const Model&) { return p.parallelism.pipeline == 1; },
     [](Plan& p, const Model&) {
       p.parallelism.data *= p.parallelism.pipeline;
       p.parallelism.pipeline = p.parallelism.virtual_stages = 1;
     }},
    only<&Training::learning_rate_schedule, LearningRateSchedule::cosine>(
        "training.learning_rate_schedule", "has cosine annealing"),
};

const std::vector<Limit>& all_hyperpod_rows() {
  static const std::vector<Limit> rows = [] {
    std::vector<Limit> all;
    for (const std::span<const Limit> part :
         {std::span<const Limit>(own_rows), smp_limits(), smp_training_limits()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace

const FrameworkLimits hyperpod_limits = {all_hyperpod_rows(), settle_as_smp};

}  // namespace meshwright::compiler
