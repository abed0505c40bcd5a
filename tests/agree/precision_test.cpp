// Training in 16 bits, and with LAMB, on the ranks that mpirun gives.
//
// How far two runs in 16 bits may be apart. Cutting a model changes where numbers are rounded, not
// what is computed: partial sums of a tensor group are rounded before they are added, gradients of
// micro-batches are. With u the unit roundoff (2^-11 in fp16, 2^-8 in bf16), a rounding is off by
// at most u of the number, 0.4 u as a root mean square (uniform within half a step, numbers
// anywhere between two powers of two), in either direction. Loss: the residual of eight blocks is
// stored after each of 16 additions: off by sqrt(16) 0.4 u = 1.6 u of itself, and so are the
// logits, which are 0.11 in size (a normalised row of 32 times weights of 0.02): 0.18 u. The loss
// is the mean over 64 targets, whose errors are independent: a standard deviation of 0.18 u / 8 =
// 0.023 u. The bound is five of those, 0.12 u, and holds between a 16-bit run and the fp32 run as
// well. Weights: gradients pass the 16 additions backwards, and are products with activations that
// passed them forwards: off by sqrt(2) 1.6 u = 2.3 u of themselves, as is what SGD adds up of them.
#include <cmath>
#include <string>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/comm/self.h"
#include "exec/runtime/runtime.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

constexpr double loss_bound = 0.12, update_bound = 2.3;  // in units of u

double unit_of(Precision precision) { return precision == Precision::fp16 ? 0x1p-11 : 0x1p-8; }

struct Variant {
  const char* name;
  SmallDegrees degrees;
  void (*change)(Plan& plan);
};

void nothing(Plan&) {}
void rows(Plan& plan) { plan.parallelism.sequence_parallel = true; }
void recomputed(Plan& plan) { plan.training.recompute = Recompute::full; }
void unfused(Plan& plan) { plan.training.attention = AttentionKernel::unfused; }
void narrow_sums(Plan& plan) {
  plan.training.gradient_reduce = storage_of(plan.training.precision);
}
void in_pairs(Plan& plan) { plan.parallelism.shard = 2; }

constexpr Variant variants[] = {
    {"recomputed", {}, recomputed},
    {"score matrices in memory", {}, unfused},
    {"gradients in 16 bits", {}, narrow_sums},
    {"pipeline 2", {2, 1, 1}, nothing},
    {"tensor 2", {1, 2, 1}, nothing},
    {"tensor 2, shares of rows", {1, 2, 1}, rows},
    {"data 2, gradients in 16 bits", {1, 1, 2}, narrow_sums},
    {"ZeRO 1", {1, 1, 2, 2, 1}, nothing},
    {"ZeRO 2", {1, 1, 2, 2, 2}, nothing},
    {"ZeRO 3", {1, 1, 2, 2, 3}, nothing},
    {"interleaved", {2, 1, 1, 4, 0, 2}, nothing},
    {"pipeline 2, tensor 2, recomputed", {2, 2, 1}, recomputed},
    {"pipeline 2, ZeRO 3", {2, 1, 2, 4, 3}, nothing},
    {"tensor 2, ZeRO 1", {1, 2, 2, 2, 1}, nothing},
    {"tensor 2, shares of rows, ZeRO 2, gradients in 16 bits",
     {1, 2, 2, 2, 2},
     [](Plan& plan) {
       rows(plan);
       narrow_sums(plan);
     }},
    {"sharded in pairs", {1, 1, 4, 1, 1}, in_pairs},
    {"ZeRO 3 over four", {1, 1, 4, 1, 3}, nothing},
};

Plan plan_of(const Model& model, const Variant& variant, Precision precision) {
  Plan plan = base_plan(model, variant.degrees);
  if (variant.degrees.data == 4) plan.training.micro_batch = 1;
  plan.training.optimizer = OptimizerKind::sgd;
  plan.training.precision = precision;
  if (precision == Precision::fp16) {
    plan.training.loss_scale = LossScale{};
    plan.training.loss_scale->initial = 1024;
  }
  variant.change(plan);
  return plan;
}

int ranks_of(const SmallDegrees& d) { return d.pipeline * d.tensor * d.data; }

double largest_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]));
  return largest;
}

// |a - b| / |b - begin| over all parameters.
double difference_of_updates(const Trained& a, const Trained& b, const Trained& begin) {
  double apart = 0, moved = 0;
  for (const auto& [name, values] : b.parameters) {
    const std::vector<float>&other = a.parameters.at(name), &first = begin.parameters.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(double(other[i]) - values[i], 2);
      moved += std::pow(double(values[i]) - first[i], 2);
    }
  }
  return std::sqrt(apart / moved);
}

// Parameters as they begin: of a run whose learning rate is 0.
Trained untrained(const Model& model) {
  Plan plan = on_one_process(base_plan(model, {}));
  plan.training.learning_rate = 0;
  const auto one = make_self_world({});
  return train(model, plan, *one);
}

void check_precision(const std::string& family, Precision precision) {
  World& world = test_world();
  const Model model = eight_blocks(family);
  const Trained begin = untrained(model);
  const Variant plain{"", {}, nothing};
  const auto one = make_self_world({});
  const Trained expected = train(model, on_one_process(plan_of(model, plain, precision)), *one);
  const Trained in_fp32 =
      train(model, on_one_process(plan_of(model, plain, Precision::fp32)), *one);
  const double u = unit_of(precision);
  CHECK(largest_difference(expected, in_fp32) <= loss_bound * u);
  CHECK(largest_difference(expected, in_fp32) > 0);  // it is another precision
  for (const Variant& variant : variants) {
    if (ranks_of(variant.degrees) != world.size()) continue;
    const Plan plan = plan_of(model, variant, precision);
    INFO(family << " " << name_of(precision) << " " << variant.name);
    const Trained got = train(model, plan, world), again = train(model, plan, world);
    CHECK(largest_difference(got, expected) <= loss_bound * u);
    CHECK(got.losses == again.losses);
    if (world.rank() != 0) continue;
    CHECK(got.hash == again.hash);
    CHECK(difference_of_updates(got, expected, begin) <= update_bound * u);
  }
}

}  // namespace

TEST_CASE("bf16 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  for (const char* family : {"gpt", "llama"}) check_precision(family, Precision::bf16);
}

TEST_CASE("fp16 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  for (const char* family : {"gpt", "llama"}) check_precision(family, Precision::fp16);
}

TEST_CASE("LAMB's trust is that of whole parameters, whatever the cut", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"}) {
    const Model model = eight_blocks(family);
    for (const Variant& variant : variants) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      Plan plan = plan_of(model, variant, Precision::fp32);
      plan.training.optimizer = OptimizerKind::lamb;
      plan.training.epsilon = 1e-3;  // key biases, whose true gradient is zero, stay where they are
      INFO(family << " lamb " << variant.name);
      check_plan(model, plan, world);
    }
  }
}

// A moving scale that begins too high: all ranks skip the same steps. One rounding decides when a
// gradient overflows, so one process may skip one more or less.
TEST_CASE("all ranks skip the same steps", "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("gpt");
  const SmallDegrees degrees = world.size() == 1   ? SmallDegrees{}
                               : world.size() == 2 ? SmallDegrees{2, 1, 1}
                                                   : SmallDegrees{1, 2, 2, 2, 1};
  const auto skipped_by = [&](const Plan& plan, World& ranks) {
    const std::vector<Program> stages = lower_small(model, plan);
    const Mesh mesh(plan.degrees(), plan.parallelism.placement);
    const auto backend = make_cpu_backend(1);
    Runtime runtime(stages, plan, mesh, ranks, *backend, {1, model.layers, false});
    LoaderOptions data;
    data.sequence_length = plan.training.sequence_length;
    data.vocabulary = model.vocabulary;
    Loader loader(data);
    StepResult result;
    std::int64_t history = 0;
    for (int step = 1; step <= parity_steps; ++step) {
      result = runtime.step(step, (step - 1) * plan.training.global_batch, loader);
      CHECK(std::isfinite(result.loss));
      history = 2 * history + result.was_skipped;
    }
    CHECK_FALSE(result.was_skipped);
    for (const std::int64_t other : runtime.gather_of_all(history)) CHECK(other == history);
    return result.skipped;
  };
  Plan plan = plan_of(model, {"", degrees, nothing}, Precision::fp16);
  plan.training.loss_scale.reset();  // 2^32, falling
  const std::int64_t skipped = skipped_by(plan, world);
  CHECK(skipped > 5);
  const auto one = make_self_world({});
  CHECK(std::abs(skipped - skipped_by(on_one_process(plan), *one)) <= 1);
}
