#include "tests/exec/small_run.h"

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/comm/self.h"

namespace meshwright::tests {

namespace {

LoaderOptions made_up_tokens(const Model& model, const Plan& plan) {
  LoaderOptions options;
  options.sequence_length = plan.training.sequence_length;
  static_cast<ModelInputs&>(options) = model.inputs();
  options.predicted = plan.training.predicted_positions;
  options.packing = plan.training.packing;
  options.documents_per_row = plan.training.documents_per_row.value_or(1);
  options.global_batch = plan.training.global_batch;
  return options;
}

}  // namespace

SmallRun::SmallRun(const Model& model_, const Plan& plan_, std::unique_ptr<World> own, World* world,
                   std::vector<Program> stages_, bool trace, std::shared_ptr<Backend> backend_)
    : own_world(std::move(own)),
      model(model_),
      plan(plan_),
      stages(std::move(stages_)),
      mesh(plan.degrees(), plan.parallelism.placement),
      backend(std::move(backend_)),
      loader(made_up_tokens(model, plan)),
      runtime(stages, own_world ? *own_world : *world, *backend, {1, model.layers, trace}) {}

SmallRun::SmallRun(const Model& model_, const Plan& plan_, World& world, std::vector<Program> made,
                   bool trace)
    : SmallRun(model_, plan_, nullptr, &world, std::move(made), trace, make_cpu_backend(1)) {}

SmallRun::SmallRun(const Model& model_, const Plan& plan_, World& world, bool trace)
    : SmallRun(model_, plan_, world, lower_small(model_, plan_), trace) {}

SmallRun::SmallRun(const Model& model_, const Plan& plan_, int threads)
    : SmallRun(model_, plan_, make_self_world({}), nullptr, lower_small(model_, plan_), false,
               make_cpu_backend(threads)) {}

SmallRun::SmallRun(const Model& model_, const Plan& plan_, World& world,
                   std::shared_ptr<Backend> own)
    : SmallRun(model_, plan_, nullptr, &world, lower_small(model_, plan_), false, std::move(own)) {}

StepResult SmallRun::step(int number) {
  return step_at(number, (number - 1) * plan.training.global_batch);
}

StepResult SmallRun::step_at(std::int64_t number, std::int64_t position) {
  return runtime.step(number, position, loader);
}

Values SmallRun::parameters() {
  Values all;
  runtime.parameters().gather([&](const Parameter& parameter, std::span<const float> values) {
    all[parameter.name].assign(values.begin(), values.end());
  });
  return all;
}

Trained train(SmallRun& run) {
  Trained result;
  for (int step = 1; step <= run.plan.training.steps; ++step) {
    const StepResult done = run.step(step);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.grad_norm);
  }
  result.parameters = run.parameters();
  result.hash = run.hash();
  return result;
}

Plan in_few_steps(Plan plan, int steps) {
  plan.training.learning_rate = 1e-2;
  plan.training.epsilon = 1e-3;
  plan.training.gradient_clip = 1;
  plan.training.steps = steps;
  return plan;
}

}  // namespace meshwright::tests
