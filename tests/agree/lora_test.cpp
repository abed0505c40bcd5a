// Checks that adapters that are split with their layers train as on one process, and that frozen
// weights do not change.
#include <algorithm>
#include <cmath>

#include "models/compiler/passes/graph/add_adapters.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void adapts_all(Plan& plan) {
  plan.training.lora = Lora{4, 8, 0, {std::string(all_linear)}};
  // B begins at zero, and so does A's gradient. Larger steps make both move.
  plan.training.learning_rate = 0.05;
}
void adapts_some(Plan& plan) {
  adapts_all(plan);
  plan.training.lora->target_modules = {"2.*.*", "3.*.*"};  // none on the second of two stages
  plan.training.lora->alpha = 4;
}
void drops_reads(Plan& plan) {
  adapts_all(plan);
  plan.training.lora->dropout = 0.25;
}

template <BaseWeights kind, bool twice = false>
void in_4_bits(Plan& plan) {
  adapts_all(plan);
  plan.training.lora->base_weights = kind;
  plan.training.lora->double_quantization = twice;
  if (kind == BaseWeights::int4) plan.training.lora->group_size = 32;  // as long as a row
}
constexpr Change nf4 = in_4_bits<BaseWeights::nf4>;
constexpr Change nf4_twice = in_4_bits<BaseWeights::nf4, true>;
constexpr Change int4 = in_4_bits<BaseWeights::int4>;

constexpr Variant variants_in_4_bits[] = {
    {{1, 1, 1, 4, 0}, all_of<nf4, eager, unfused>},
    {{1, 1, 1, 4, 0}, all_of<nf4, full>},
    {{1, 1, 2, 4, 0}, nf4},
    {{1, 1, 2, 4, 3}, nf4},
    {{1, 1, 2, 4, 3}, nf4_twice},
    {{1, 1, 2, 4, 3}, int4},
    {{1, 1, 2, 4, 3}, all_of<nf4, keeps_gathered, full>},
    {{2, 1, 1, 4, 0}, nf4},
    {{2, 1, 1, 4, 0}, all_of<int4, zero_bubble>},
    {{1, 1, 1, 4, 3, 1, 2}, nf4},
    {{2, 1, 2, 4, 3}, all_of<nf4, full>},
    {{1, 1, 4, 1, 3}, all_of<nf4_twice, in_pairs>},
};

constexpr Variant lora_variants[] = {
    {{1, 1, 2, 4, 0}, adapts_all},
    {{1, 1, 2, 4, 0}, all_of<adapts_all, full>},
    {{1, 1, 2, 4, 1}, adapts_all},
    {{1, 1, 2, 4, 2}, all_of<adapts_all, reduced_each>},
    {{1, 1, 2, 4, 3}, adapts_all},
    {{1, 1, 2, 4, 3}, all_of<adapts_all, keeps_gathered, full>},
    {{1, 1, 2, 4, 3}, drops_reads},
    {{1, 2, 1, 4, 0}, adapts_all},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, rows>},
    {{1, 2, 1, 4, 0}, all_of<drops_reads, rows>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, rows, pruned>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, layout_of<TensorLayout::speed>>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, layout_of<TensorLayout::memory>>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, rows, tensor_overlaps>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, rows, tensor_in_chunks<2>>},
    {{1, 2, 1, 4, 0}, all_of<adapts_all, eager, unfused>},
    {{2, 1, 1, 4, 0}, adapts_all},
    {{2, 1, 1, 4, 0}, all_of<adapts_some, zero_bubble>},
    {{2, 1, 1, 4, 0, 2}, adapts_some},
    {{1, 1, 1, 4, 0, 1, 2}, adapts_all},
    {{1, 1, 1, 4, 3, 1, 2}, adapts_some},
    {{2, 1, 2, 4, 1}, adapts_all},
    {{2, 1, 2, 4, 3}, all_of<adapts_all, full>},
    {{1, 2, 2, 4, 2}, all_of<adapts_some, rows>},
    {{1, 2, 2, 4, 3}, all_of<adapts_all, rows, pruned>},
    {{2, 2, 1, 4, 0}, all_of<adapts_all, rows>},
    {{1, 1, 4, 1, 3}, all_of<adapts_all, in_pairs>},
    {{1, 2, 1, 4, 3, 1, 2}, adapts_all},
};

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

// Returns by how much the loss falls in 20 steps on the same sequences.
double gain_on_one_batch(SmallRun& run) {
  const double first = run.step_at(1, 0).loss;
  double last = first;
  for (int step = 2; step <= 20; ++step) last = run.step_at(step, 0).loss;
  return first - last;
}

double size_of(const Values& values, std::string_view part) {
  double squares = 0;
  for (const auto& [name, each] : values)
    if (name.find(part) != std::string::npos)
      for (const float value : each) squares += double(value) * value;
  return std::sqrt(squares);
}

}  // namespace

// Each rank has the whole classification head, and adds the gradient of its own micro-batches.
TEST_CASE_ON_RANKS("a head that says classes is trained whole beside adapters", "[agree][mpi]") {
  World& world = test_world();
  constexpr SmallDegrees cuts[] = {
      {1, 1, 2, 4, 0}, {1, 1, 2, 4, 3}, {1, 2, 1, 4, 0}, {2, 1, 1, 4, 0}, {1, 2, 2, 4, 2}};
  for (const char* family : {"gpt", "bert"})
    for (const SmallDegrees& degrees : cuts) {
      if (degrees.pipeline * degrees.tensor * degrees.data != world.size()) continue;
      Model model = eight_blocks(family);
      model.head = Head::label;
      model.classes = 3;
      Plan plan = base_plan(model, degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      adapts_all(plan);
      INFO(family << " " << describe(plan));
      check_plan(model, plan, world);
    }
}

TEST_CASE_ON_RANKS("adapters train like on one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(lora_variants, world, [&](const Model& model, const Plan& plan) {
    INFO(plan.training.lora->dropout);
    check_plan(model, plan, world);
  });
}

TEST_CASE_ON_RANKS("adapters of weights in 4 bits train like on one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(variants_in_4_bits, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

// Frozen weights in 4 bits have the same values whether they are widened once or before each
// matmul.
TEST_CASE_ON_RANKS("weights in 4 bits train as their widened values do", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() > 1) return;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const Change change : {nf4, nf4_twice, int4}) {
      const Model model = eight_blocks("llama");
      Plan plan = base_plan(model, {});
      change(plan);
      plan.training.precision = precision;
      SmallRun in_4_bits(model, plan);
      Plan wide = plan;
      wide.training.lora->base_weights = BaseWeights::unquantized;
      wide.training.lora->double_quantization = false;
      wide.training.lora->group_size = 0;
      SmallRun widened(model, wide);
      const double before = widened.step(1).loss;
      SmallRun again(model, wide);
      for (const auto& [name, values] : in_4_bits.parameters())
        again.runtime.parameters().set(name, values);
      const Trained expected = train(again), got = train(in_4_bits);
      CHECK(got.losses == expected.losses);
      CHECK(got.norms == expected.norms);
      CHECK(got.losses[0] != before);
    }
}

// Experts have no adapters. The other linear layers have.
TEST_CASE_ON_RANKS("adapters beside frozen experts train like on one process", "[agree][mpi]") {
  World& world = test_world();
  for (const bool dropless : {false, true})
    for (const Variant& variant : lora_variants) {
      const SmallDegrees& degrees = variant.degrees;
      if (ranks_of(degrees) != world.size() || degrees.context > 1 || degrees.virtual_stages > 1)
        continue;
      Model model = small_model("mixtral");
      model.expert_dropless = dropless;
      Plan plan = base_plan(model, degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      variant.change(plan);
      if (plan.parallelism.tensor_layout != TensorLayout::megatron) continue;
      plan.training.lora->target_modules = {std::string(all_linear)};
      if (degrees.data > 1) plan.parallelism.expert = 2;
      INFO((dropless ? "dropless: " : "") << describe(plan));
      check_plan(model, plan, world);
    }
}

TEST_CASE_ON_RANKS("adapters alone are trained", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() > 1) return;
  for (const char* family : {"gpt", "llama"}) {
    Plan plan = base_plan(small_model(family), {});
    adapts_all(plan);
    SmallRun run(small_model(family), plan);
    const Values before = run.parameters();
    CHECK(gain_on_one_batch(run) > 0.05);
    const Values after = run.parameters();
    for (const auto& [name, values] : before) {
      INFO(name);
      CHECK((values != after.at(name)) == is_adapter(name));
    }
    CHECK(size_of(before, "lora_B") == 0);
    CHECK(size_of(after, "lora_B") > 0.05);
  }
}

TEST_CASE_ON_RANKS("adapters train in 16 bits on every optimizer", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = small_model("llama");
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::lion}) {
    Plan plan = base_plan(model, {1, 1, 2, 4, 3});
    adapts_all(plan);
    plan.training.optimizer = kind;
    plan.training.precision = Precision::bf16;
    plan.training.learning_rate = 3e-3;
    SmallRun run(model, plan, world);
    CHECK(gain_on_one_batch(run) > 0.01);
  }
}
