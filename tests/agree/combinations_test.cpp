// Checks features together: plans that are drawn at random from the product of nearly all settings
// train like one process. MESHWRIGHT_COMBINATIONS plans are drawn, from the seed MESHWRIGHT_SEED.
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "models/compiler/passes/pass.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<std::mt19937::result_type>(seed)) {}
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  bool rarely() { return random_() % 4 == 0; }

 private:
  std::mt19937 random_;  // whose numbers the standard fixes
};

Model draw_model(Draw& draw) {
  Model model = eight_blocks(
      draw.of<std::string>({"gpt", "llama", "gpt", "llama", "bert", "bloom", "mpt", "mixtral"}));
  if (model.architecture == Architecture::llama && draw.rarely()) model.kv_heads = 2;
  if (model.experts > 0 && draw.of({false, true})) {
    model.sigmoid_scores = model.expert_bias = true;
    model.router_aux_loss_coef = 0;
  }
  if (draw.rarely()) model.tied_embeddings = !model.tied_embeddings;
  return model;
}

void draw_degrees(Draw& draw, int ranks, Plan& plan) {
  Parallelism& p = plan.parallelism;
  do {
    p.pipeline = draw.of({1, 1, 2, 2, 4});
    p.tensor = draw.of({1, 1, 2, 2, 4});
    p.context = draw.of({1, 1, 1, 2, 4});
    p.data = ranks / (p.pipeline * p.tensor * p.context);
  } while (p.pipeline * p.tensor * p.context * p.data != ranks);
}

void draw_parallelism(Draw& draw, bool experts, Plan& plan) {
  Parallelism& p = plan.parallelism;
  if (p.pipeline > 1) {
    p.schedule =
        draw.of({ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b, ScheduleKind::gpipe,
                 ScheduleKind::interleaved, ScheduleKind::zero_bubble, ScheduleKind::zero_bubble_v,
                 ScheduleKind::interleaved_zero_bubble, ScheduleKind::dualpipe_v});
    if (schedule_info(p.schedule).most_chunks > 1) p.virtual_stages = 2;
    if (draw.rarely()) few_active(plan);
  }
  if (p.tensor > 1) {
    p.sequence_parallel = draw.of({false, true});
    p.tensor_layout = draw.of({TensorLayout::megatron, TensorLayout::megatron, TensorLayout::speed,
                               TensorLayout::memory});
    p.tensor_batch_own = draw.rarely();
    p.overlap_tensor = draw.of({false, true});
    if (p.overlap_tensor) p.tensor_chunks = draw.of({1, 1, 2, 4});
    p.pipeline_scatter_gather = !draw.rarely();
  }
  const int replicas = p.data * p.context;
  if (replicas > 1) {
    p.zero_stage = draw.of({0, 1, 2, 3});
    p.shard = p.zero_stage > 0 && replicas == 4 ? draw.of({1, 2}) : 1;
    if (experts) p.expert = draw.of({1, 2, 2, 4});
    if (experts && p.tensor > 1 && draw.of({false, true})) p.expert_tensor = 1;
    p.overlap_expert = experts && draw.of({false, true});
    p.shard_whole = p.zero_stage == 1 && draw.rarely();
    if (p.zero_stage == 3) {
      p.persistence_threshold = draw.of<std::int64_t>({0, 0, 100, 1100});
      p.max_live_parameters = draw.of<std::int64_t>({0, 0, 1, 20'000});
    }
    p.reduce_gradients = draw.of({ReduceGradients::usual, ReduceGradients::usual,
                                  ReduceGradients::each, ReduceGradients::last});
    p.keeps_gathered = p.zero_stage == 3 && draw.rarely();
    p.reduce_bucket_bytes = draw.of<std::int64_t>({0, 5'000, 8'192, 1 << 30});
    if (p.context > 1)
      p.context_exchange =
          draw.of({ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::all_to_all});
    if (p.context == 4 && draw.of({false, true})) two_exchanges(plan);
  }
  if (draw.rarely()) nothing_overlaps(plan);
  if (draw.rarely())
    p.placement = draw.of<std::string>({"PTD", "TPD", "DTP", "TDP", "PDT", "cluster", "spread"});
}

void draw_training(Draw& draw, const Model& model, Plan& plan) {
  Training& t = plan.training;
  t.recompute = draw.of({Recompute::none, Recompute::none, Recompute::selective, Recompute::full,
                         Recompute::contiguous, Recompute::group});
  if (t.recompute == Recompute::group) t.recompute_group = draw.of({2, 3});
  if (t.recompute != Recompute::none) {
    if (draw.rarely()) of_blocks<50>(plan);
    if (draw.rarely()) plan.parallelism.offload = draw.of({Offload::activations, Offload::layers});
  } else if (model.architecture == Architecture::llama && draw.rarely()) {
    t.recompute_modules = {"model.layers.*.mlp", "model.layers.3"};
  }
  if (plan.parallelism.offload == Offload::none && draw.rarely())
    plan.parallelism.offload = Offload::optimizer;
  plan.parallelism.offload_horizon =
      plan.parallelism.offloads_activations() ? draw.of({0, 1, 2, 3}) : 0;
  t.compiler = draw.of(
      {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full, CompilerLevel::full});
  if (t.compiler == CompilerLevel::full && draw.rarely())
    for (const Pass& pass : training_passes())
      if (pass.optional && (pass.levels & at_full) != 0 && draw.rarely())
        t.passes_off.emplace_back(pass.name);
  if (model.expert_bias && plan.parallelism.offload != Offload::optimizer && draw.of({false, true}))
    t.router_bias_update_rate = 0.01;
  if (draw.rarely()) unfused(plan);
  if (draw.rarely()) t.dropout = 0.1;
  t.seed = draw.of<std::uint64_t>({0, 7});
  t.optimizer = draw.of(
      {OptimizerKind::sgd, OptimizerKind::sgd, OptimizerKind::lamb, OptimizerKind::adafactor});
  if (t.optimizer == OptimizerKind::lamb) t.epsilon = 1e-3;  // key biases stay where they are
  t.adafactor.eps1 = 1e-6;                                   // the same
  t.micro_batch = draw.of({1, 2, 4});
  t.steps = 8;
  if (draw.rarely())
    store_in(draw.of({Precision::fp16, Precision::bf16, Precision::fp8, Precision::nvfp4}), plan);
  // The bounds of rounding.h hold for one pass over nearly equal weights. Eight of adafactor's
  // steps, each as long as the learning rate, would change weights of 0.02 by 40 %, with the errors
  // of gradients in them.
  if (t.precision != Precision::fp32 && t.optimizer == OptimizerKind::adafactor)
    t.learning_rate = 1e-4;
  if (t.precision == Precision::fp8)
    t.fp8_recipe = draw.of({Fp8Recipe::tensorwise, Fp8Recipe::delayed, Fp8Recipe::mxfp8});
  t.fp8_gathers = t.precision == Precision::fp8 && t.fp8_recipe == Fp8Recipe::tensorwise &&
                  plan.parallelism.zero_stage == 3 && draw.of({false, true});
  // If rounding changes a choice of experts, a bias may move by the whole rate.
  if (t.precision != Precision::fp32) t.router_bias_update_rate = 0;
  t.fp8_experts = quantizes(t.precision) && draw.of({false, true});
  if (quantizes(t.precision)) {
    t.first_layers_in_bf16 = draw.of({0, 0, 1, 2});
    t.last_layers_in_bf16 = draw.of({0, 0, 1, 2});
  }
  if (t.precision != Precision::fp32 && t.compiler != CompilerLevel::none && draw.rarely()) {
    t.moments = Dtype::bf16;
    t.moments_at_random = draw.of({false, true});
  }
  if (draw.rarely()) t.ema_decay = 0.9;
  if (draw.rarely()) {
    t.packing = true;
    t.documents_per_row = 3;
  }
  if (draw.rarely() && model.sizes().can_predict_ahead) t.mtp_layers = draw.of({1, 2});
}

bool is_legal(const Model& model, const Plan& plan) {
  try {
    verify(plan, model.sizes());
    lower_small(model, plan);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Returns plans of one process to compare with: one at the plan's own compiler level, and in fp32
// one at level `fused` too. (In 16 bits other levels round in other places, and rounding.h counts
// the roundings of one level.)
std::vector<Plan> alone(const Plan& plan) {
  Plan own = on_one_process(plan), fused = own;
  own.training.compiler = plan.training.compiler;
  fused.training.compiler = CompilerLevel::fused;
  if (own.training.compiler == fused.training.compiler) return {fused};
  if (plan.training.precision != Precision::fp32) return {own};
  return {fused, own};
}

void compare(const Model& model, const Plan& plan, const Trained& got, const Plan& one, int rank) {
  const Trained expected = train_alone(model, one);
  if (plan.training.precision == Precision::fp32) {
    compare_losses(got, expected);
    if (rank == 0) compare_each(got, expected);
    return;
  }
  const double u = unit_of(plan.training.precision);
  CHECK(largest_difference(got, expected) <= loss_bound * u);
  // The bound on updates counts the roundings of level `fused`, and none of moments.
  if (rank != 0 || plan.training.compiler != CompilerLevel::fused ||
      plan.training.moments != Dtype::f32)
    return;
  const Values begin = SmallRun(model, one).parameters();
  CHECK(difference_of_updates(got, expected, begin) <= update_bound * u);
}

}  // namespace

TEST_CASE_ON_RANKS("features drawn at random train together like one process", "[agree][mpi]") {
  World& world = test_world();
  const int wanted = setting("MESHWRIGHT_COMBINATIONS", 200 / one_in(10));
  Draw draw(setting("MESHWRIGHT_SEED", 1));
  int drawn = 0;
  for (int made = 0; made < wanted; ++drawn) {
    const Model model = draw_model(draw);
    Plan plan = base_plan(model, {});
    draw_degrees(draw, world.size(), plan);
    draw_parallelism(draw, model.experts > 0, plan);
    draw_training(draw, model, plan);
    if (!is_legal(model, plan)) continue;
    INFO(++made << ": " << name_of(model.architecture) << ": " << describe(plan));
    const Trained got = train(model, plan, world);
    for (const Plan& one : alone(plan)) compare(model, plan, got, one, world.rank());
  }
  if (world.rank() == 0) WARN(wanted << " legal plans of " << drawn << " drawn");
}
