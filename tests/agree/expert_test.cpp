// Checks that ranks that share the experts train the model that one process trains. Routing is per
// sequence, so degrees do not change which expert takes which token. (Expert parallelism leaves
// every matmul of the forward pass as it is. Only sums of gradients are added in another order.)
#include <algorithm>
#include <cmath>

#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

template <int degree>
void experts(Plan& plan) {
  plan.parallelism.expert = degree;
}
void experts_again(Plan& plan) {
  plan.training.recompute_modules = {"model.layers.*.block_sparse_moe"};
}
void spread(Plan& plan) { plan.parallelism.placement = "spread"; }
void small_ones_whole(Plan& plan) { plan.parallelism.persistence_threshold = 2000; }
void offloaded(Plan& plan) { plan.parallelism.offload = Offload::activations; }
void added_separately(Plan& plan) { plan.training.fuse_gradient_accumulation = false; }

constexpr Variant expert_variants[] = {
    {{}, full},
    {{}, all_of<full, pruned>},
    {{}, experts_again},
    {{2, 1, 1}, nothing},
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{2, 1, 1, 4, 0, 2}, dualpipe_v},
    {{1, 1, 2, 4, 3}, nothing},
    {{1, 1, 2}, experts<2>},
    {{1, 1, 2}, all_of<experts<2>, nothing_overlaps>},
    {{1, 1, 2}, all_of<experts<2>, full>},
    {{1, 1, 2}, all_of<experts<2>, full, pruned>},
    {{1, 1, 2}, all_of<experts<2>, experts_again>},
    {{1, 1, 2}, all_of<experts<2>, full, offloaded>},
    {{1, 1, 2}, all_of<experts<2>, added_separately>},
    {{1, 1, 2, 4, 1}, experts<2>},
    {{1, 1, 2, 4, 2}, experts<2>},
    {{1, 1, 2, 4, 3}, experts<2>},
    {{1, 1, 4}, experts<4>},
    {{1, 1, 4, 1, 3}, experts<4>},
    {{1, 1, 4, 1, 2}, all_of<experts<4>, in_pairs>},
    {{1, 1, 4}, experts<2>},
    {{1, 1, 4}, all_of<experts<2>, spread>},
    {{1, 1, 4, 1, 1}, experts<2>},
    {{1, 1, 4, 1, 2}, all_of<experts<2>, full>},
    {{1, 1, 4, 1, 3}, experts<2>},
    {{1, 1, 4, 1, 3}, all_of<experts<2>, nothing_overlaps>},
    {{1, 1, 4, 1, 3}, all_of<experts<2>, small_ones_whole>},
    {{1, 1, 4, 1, 1}, all_of<experts<2>, in_pairs>},
    {{1, 1, 4, 1, 3}, all_of<experts<2>, in_pairs>},
    {{1, 1, 4, 1, 3}, all_of<experts<2>, in_pairs, spread>},
    {{2, 1, 2}, experts<2>},
    {{2, 1, 2}, all_of<experts<2>, full>},
    {{2, 1, 2}, all_of<experts<2>, zero_bubble>},
    {{2, 1, 2, 4, 3}, experts<2>},
    {{2, 1, 2, 4, 0, 2}, experts<2>},
    {{2, 1, 2, 4, 0, 2}, all_of<experts<2>, dualpipe_v>},
};

// The ranks of a tensor group share the columns of every expert.
constexpr Variant cut_variants[] = {
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, rows},
    {{1, 2, 1}, all_of<rows, full>},
    {{1, 2, 1}, all_of<rows, full, pruned>},
    {{1, 2, 1}, experts_again},
    {{1, 2, 1}, all_of<rows, tensor_in_chunks<2>>},
    {{1, 2, 1}, all_of<rows, tensor_overlaps>},
    {{1, 2, 1}, own_batches},
    {{2, 2, 1}, nothing},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{2, 2, 1}, all_of<rows, zero_bubble>},
    {{2, 2, 1, 4, 0, 2}, all_of<rows, dualpipe_v>},
    {{1, 2, 2}, experts<2>},
    {{1, 2, 2}, all_of<experts<2>, rows>},
    {{1, 2, 2, 4, 1}, all_of<experts<2>, rows>},
    {{1, 2, 2, 4, 2}, experts<2>},
    {{1, 2, 2, 4, 3}, all_of<experts<2>, rows>},
    {{1, 2, 2, 4, 3}, rows},
    {{1, 2, 2}, all_of<experts<2>, rows, full, pruned>},
    {{1, 2, 2}, all_of<experts<2>, rows, tensor_overlaps>},
    {{1, 4, 1}, rows},
};

// The ranks of a tensor group have whole experts, and tokens of their own.
void whole(Plan& plan) { plan.parallelism.expert_tensor = 1; }
constexpr Variant whole_variants[] = {
    {{1, 2, 1}, whole},
    {{1, 2, 1}, all_of<whole, rows>},
    {{1, 2, 1}, all_of<whole, experts<2>>},
    {{1, 2, 1}, all_of<whole, experts<2>, rows>},
    {{1, 2, 1}, all_of<whole, experts<2>, rows, full>},
    {{1, 2, 1}, all_of<whole, experts<2>, rows, full, pruned>},
    {{1, 2, 1}, all_of<whole, experts<2>, rows, tensor_in_chunks<2>>},
    {{1, 2, 1}, all_of<whole, experts<2>, own_batches>},
    {{1, 2, 1}, all_of<whole, experts<2>, experts_again, rows>},
    {{2, 2, 1}, all_of<whole, experts<2>, rows>},
    {{2, 2, 1, 4, 0, 2}, all_of<whole, experts<2>, rows, dualpipe_v>},
    {{1, 2, 2}, all_of<whole, rows>},
    {{1, 2, 2}, all_of<whole, experts<2>, rows>},
    {{1, 2, 2}, all_of<whole, experts<4>, rows>},
    {{1, 2, 2}, all_of<whole, experts<4>>},
    {{1, 2, 2}, all_of<whole, experts<4>, rows, spread>},
    {{1, 2, 2, 4, 1}, all_of<whole, experts<2>, rows>},
    {{1, 2, 2, 4, 1}, all_of<whole, experts<4>, rows>},
    {{1, 2, 2, 4, 2}, all_of<whole, experts<2>>},
    {{1, 2, 2, 4, 3}, all_of<whole, rows>},
    {{1, 2, 2, 4, 3}, all_of<whole, experts<2>, rows>},
    {{1, 2, 2, 4, 3}, all_of<whole, experts<4>, rows, full>},
    {{1, 4, 1}, all_of<whole, experts<2>, rows>},
    {{1, 4, 1}, all_of<whole, experts<4>, rows>},
    {{1, 4, 1}, all_of<whole, experts<4>, rows, nothing_overlaps>},
};

// Dropless experts have no fixed capacity per sequence, so a context group may share each sequence.
constexpr Variant context_variants[] = {
    {{1, 1, 1, 4, 0, 1, 2}, nothing},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<gathers, full>},
    {{1, 1, 1, 4, 0, 1, 2}, experts<2>},
    {{1, 1, 1, 4, 3, 1, 2}, experts<2>},
    {{1, 1, 2, 4, 0, 1, 2}, nothing},
    {{1, 1, 2, 4, 0, 1, 2}, experts<2>},
    {{1, 1, 2, 4, 1, 1, 2}, experts<4>},
    {{1, 1, 2, 4, 3, 1, 2}, experts<2>},
    {{2, 1, 1, 4, 0, 1, 2}, experts<2>},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<experts<2>, rows>},
    {{1, 2, 1, 4, 1, 1, 2}, experts<2>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, full>},
    {{1, 1, 1, 4, 3, 1, 2}, all_of<heads_exchanged, experts<2>>},
    {{2, 1, 1, 4, 0, 1, 2}, heads_exchanged},
    {{1, 1, 2, 4, 0, 1, 2}, all_of<heads_exchanged, experts<2>>},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<heads_exchanged, rows>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, drops>},
    {{1, 1, 1, 4, 3, 1, 4}, all_of<two_exchanges, experts<2>, full>},
};

// Calls visit(plan) for the variants that have as many ranks as the test. Plans train by SGD. Each
// model tries other variants, unless all are tried.
template <typename Visit>
void for_expert_variants(const Model& model, const Visit& visit,
                         std::span<const Variant> all = expert_variants) {
  int turn = static_cast<int>(model.architecture) + (model.expert_dropless ? 1 : 0);
  for (const Variant& variant : all) {
    if (model.kv_heads % variant.degrees.tensor != 0) continue;
    if (ranks_of(variant.degrees) != test_world().size() || !is_tried(++turn, 2)) continue;
    Plan plan = base_plan(model, variant.degrees);
    if (variant.degrees.data == 4) plan.training.micro_batch = 1;
    plan.training.optimizer = OptimizerKind::sgd;
    variant.change(plan);
    const Parallelism& p = plan.parallelism;
    if (model.kv_heads % (p.tensor * p.ranks_of_heads()) != 0) continue;
    if (model.kv_lora_rank > 0 && !p.attends_to_whole_sequences()) continue;
    INFO(describe(plan));
    visit(plan);
  }
}

// Gives experts slots. If a test makes the experts dropless after all, their rows have no bound.
void with_slots(double factor, Model& model) {
  model.expert_capacity_factor = factor;
  model.expert_dropless = false;
  model.expert_rank_capacity_factor = 0;
}

// Returns a golden model with more blocks, whose experts have few slots.
Model with_four_layers(std::string_view name) {
  Model model = load_model(
      std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + std::string(name), "/");
  model.layers = 4;
  with_slots(1.25, model);
  return model;
}

// Replaces the names of Mixtral's modules in the plan by those of the model's family, for all
// blocks.
void name_modules(const Model& model, Plan& plan) {
  for (std::string& module : plan.training.recompute_modules)
    if (model.architecture == Architecture::llama4_text)
      module = "model.layers.*.feed_forward";
    else if (model.architecture != Architecture::mixtral &&
             model.architecture != Architecture::granitemoe)
      module = "model.layers.*.mlp";
}

}  // namespace

TEST_CASE_ON_RANKS("ranks that share the experts train like one process", "[agree][mpi]") {
  const Model model = small_model("mixtral");
  for_expert_variants(model, [&](const Plan& plan) { check_plan(model, plan, test_world()); });
}

TEST_CASE_ON_RANKS("experts of other families train like one process", "[agree][mpi]") {
  for (const char* name : {"qwen3_moe", "olmoe", "qwen2_moe", "granitemoe", "gpt_oss"}) {
    Model model =
        load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + name, "/");
    model.layers = 4;
    model.experts = 4;
    model.experts_per_token = 2;
    with_slots(1.25, model);
    INFO(name);
    for_expert_variants(model, [&](Plan plan) {
      name_modules(model, plan);
      check_plan(model, plan, test_world());
    });
  }
}

// These models have groups of experts, biases of routers, shared experts, a dense block, latent
// attention, weighed tokens, attention in chunks, and blocks without rotary positions.
TEST_CASE_ON_RANKS("experts of GLM, DeepSeek and Llama 4 train like one process", "[agree][mpi]") {
  for (const char* name : {"glm4_moe", "deepseek_v2", "deepseek_v3", "llama4"}) {
    const Model model = with_four_layers(name);
    INFO(name);
    for_expert_variants(model, [&](Plan plan) {
      name_modules(model, plan);
      check_plan(model, plan, test_world());
    });
  }
}

TEST_CASE_ON_RANKS("experts that a tensor group cuts train like one process", "[agree][mpi]") {
  int turn = 0;
  for (const char* name : {"mixtral", "glm4_moe", "qwen3_moe", "olmoe", "qwen2_moe", "granitemoe",
                           "gpt_oss", "llama4", "deepseek_v2", "deepseek_v3"})
    for (const bool dropless : {false, true}) {
      if (turn++ % 4 % one_in(3) != 0) continue;  // slots of one, rows of the next
      Model model = with_four_layers(name);
      model.experts = 4;
      if (!model.weighed_inputs) model.experts_per_token = 2;
      model.expert_groups = model.groups_per_token = 1;
      model.expert_dropless = dropless;
      INFO(name << (dropless ? ", dropless" : ""));
      for_expert_variants(
          model,
          [&](Plan plan) {
            name_modules(model, plan);
            check_plan(model, plan, test_world());
          },
          cut_variants);
    }
}

// Tests models with a balancing loss, which is defined over whole sequences, and without one.
TEST_CASE_ON_RANKS("whole experts of a tensor group's ranks train like one process",
                   "[agree][mpi]") {
  int turn = 0;
  for (const char* name : {"mixtral", "glm4_moe", "qwen3_moe", "olmoe", "gpt_oss", "llama4",
                           "deepseek_v2", "deepseek_v3"}) {
    Model model = with_four_layers(name);
    model.experts = 4;
    if (!model.weighed_inputs) model.experts_per_token = 2;
    model.expert_groups = model.groups_per_token = 1;
    model.expert_dropless = true;
    if (!model.sigmoid_scores) model.router_aux_loss_coef = turn++ % 2 * 0.5;
    INFO(name << ", balancing loss " << model.router_aux_loss_coef);
    for_expert_variants(
        model,
        [&](Plan plan) {
          name_modules(model, plan);
          check_plan(model, plan, test_world());
        },
        whole_variants);
  }
}

// With capacity for every token, an expert has room for whole sequences, and its share of the slots
// has room for the tokens of one tensor rank.
TEST_CASE_ON_RANKS("slots of whole experts hold the tokens of tensor ranks", "[agree][mpi]") {
  Model model = with_four_layers("mixtral");
  model.experts = 4;
  model.expert_capacity_factor = 0;
  for_expert_variants(
      model, [&](const Plan& plan) { check_plan(model, plan, test_world()); }, whole_variants);
}

TEST_CASE_ON_RANKS("experts of tokens that a context group shares train like one process",
                   "[agree][mpi]") {
  for (const char* name :
       {"mixtral", "glm4_moe", "gpt_oss", "llama4", "deepseek_v2", "deepseek_v3"}) {
    Model model = with_four_layers(name);
    if (model.experts % 4 != 0) model.experts = 4, model.experts_per_token = 2;
    model.expert_dropless = true;
    model.router_aux_loss_coef = 0;
    INFO(name);
    for_expert_variants(
        model, [&](const Plan& plan) { check_plan(model, plan, test_world()); }, context_variants);
  }
}

// On one process, dropless experts have a row for each choice. Between ranks the number of rows is
// bounded, here by a bound that holds all choices.
TEST_CASE_ON_RANKS("experts whose rows are counted train like one process", "[agree][mpi]") {
  for (const char* name : {"mixtral", "glm4_moe", "gpt_oss", "llama4"}) {
    Model model = with_four_layers(name);
    if (model.experts % 4 != 0) model.experts = 4, model.experts_per_token = 2;
    model.expert_dropless = true;
    INFO(name);
    for_expert_variants(model, [&](Plan plan) {
      name_modules(model, plan);
      check_plan(model, plan, test_world());
    });
  }
}

TEST_CASE_ON_RANKS("expert all-to-alls that overlap with compute change no bit", "[agree][mpi]") {
  World& world = test_world();
  for (const Model& model : {small_model("mixtral"), with_four_layers("glm4_moe")})
    for_expert_variants(model, [&](Plan plan) {
      for (std::string& module : plan.training.recompute_modules)
        if (model.shared_ffn > 0) module = "model.layers.*.mlp";
      const Trained before = train(model, plan, world);
      plan.parallelism.overlap_expert = true;
      const Trained after = train(model, plan, world);
      CHECK(after.losses == before.losses);
      CHECK(after.hash == before.hash);
    });
}

TEST_CASE_ON_RANKS("AdamW and clipping see every expert once", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  Plan alone = on_one_process(base_plan(model, {}));
  alone.training.gradient_clip = 0.05;  // always: the norm decides
  const Trained expected = train_alone(model, alone);
  for_expert_variants(model, [&](Plan plan) {
    plan.training.optimizer = OptimizerKind::adamw;
    plan.training.gradient_clip = alone.training.gradient_clip;
    const Trained got = train(model, plan, world), again = train(model, plan, world);
    compare_losses(got, expected);
    CHECK(got.losses == again.losses);
    if (world.rank() != 0) return;
    CHECK(got.hash == again.hash);
    compare_all(got, expected);
  });
}

TEST_CASE_ON_RANKS("no token is dropped where every expert has room for all", "[agree][mpi]") {
  Model model = small_model("mixtral");
  const Plan plan = on_one_process(base_plan(model, {}));
  const auto losses = [&](double factor) {
    model.expert_capacity_factor = factor;
    return train_alone(model, plan).losses;
  };
  const std::vector<double> unbounded = losses(0);
  CHECK(losses(2) == unbounded);  // experts / experts_per_token
  CHECK(losses(1) != unbounded);
}

TEST_CASE_ON_RANKS("the balancing loss is part of the loss, and trains", "[agree][mpi]") {
  Model model = small_model("mixtral");
  const Plan plan = on_one_process(base_plan(model, {}));
  const auto with = [&](double coefficient) {
    model.router_aux_loss_coef = coefficient;
    return train_alone(model, plan);
  };
  const Trained without = with(0), half = with(0.5), whole = with(1);
  // At the start all experts are almost equally probable, so each of 2 choices adds 1 to the
  // balancing loss.
  CHECK(half.losses[0] - without.losses[0] == Approx(0.5 * 2).epsilon(0.02));
  CHECK(whole.losses[0] - half.losses[0] ==
        Approx(half.losses[0] - without.losses[0]).epsilon(1e-5));
  CHECK(half.hash != without.hash);
}

// In 16 bits too the forward pass is the same to the bit, and gradients are summed in fp32. The
// updated weights are rounded to the same 16 bits, except for those that are just between two
// values.
TEST_CASE_ON_RANKS("experts in 16 bits train alike", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    for_expert_variants(model, [&](Plan plan) {
      store_in(precision, plan);
      Plan alone = on_one_process(plan);
      alone.training.micro_batch = plan.training.micro_batch;
      // Other compiler levels round in other places.
      alone.training.compiler = plan.training.compiler;
      const Trained &expected = train_alone(model, alone), got = train(model, plan, world);
      CHECK(got.losses[0] == Approx(expected.losses[0]).epsilon(1e-12));
      CHECK(largest_difference(got, expected) <= loss_bound * unit_of(precision));
    });
}

namespace {

bool is_choice_bias(const std::string& name) { return name.ends_with("e_score_correction_bias"); }

Plan with_moving_biases(Plan plan) {
  plan.training.router_bias_update_rate = 0.01;
  for (std::string& module : plan.training.recompute_modules) module = "model.layers.*.mlp";
  return plan;
}

// Returns how many tokens chose each expert of a layer, given the slots that its router assigned.
std::vector<double> choices_of(const Attributes& a, const std::int32_t* slots) {
  std::vector<double> counts(static_cast<std::size_t>(a.experts));
  const int choices = a.micro_batch * a.sequence_length * a.experts_per_token;
  for (int i = 0; i < choices; ++i) {
    int expert = 0;
    if (slots[i] < 0)
      expert = -1 - slots[i];
    else
      while (slots[i] >= (expert + 1) * a.micro_batch * a.expert_capacity) ++expert;
    counts[static_cast<std::size_t>(expert)] += 1;
  }
  return counts;
}

// Returns the load of the most loaded of `parts` groups of a layer's experts relative to the mean,
// averaged over layers. `layers` holds the counts of one process.
double load_of(const std::vector<std::vector<double>>& layers, int parts) {
  double loads = 0;
  for (const std::vector<double>& counts : layers) {
    std::vector<double> of_parts(static_cast<std::size_t>(parts));
    for (std::size_t e = 0; e < counts.size(); ++e)
      of_parts[e * of_parts.size() / counts.size()] += counts[e];
    double sum = 0;
    for (const double part : of_parts) sum += part;
    loads += *std::ranges::max_element(of_parts) * parts / sum;
  }
  return loads / static_cast<double>(layers.size());
}

// Returns the counts of choices_of() for each layer after one step on one process. The step is a
// single micro-batch, so the slots are still in memory afterwards.
std::vector<std::vector<double>> choices_on_one_process(const Model& model, Plan plan) {
  plan = on_one_process(plan);
  plan.training.micro_batch = static_cast<int>(plan.training.global_batch);
  SmallRun run(model, plan);
  run.step(1);
  std::vector<std::vector<double>> layers;
  for (const Body& body : run.runtime.program().bodies)
    for (const Instruction& each : body.instructions)
      if (each.kind == InstructionKind::compute && each.op == Op::count_choices)
        layers.push_back(choices_of(
            each.attributes,
            static_cast<const std::int32_t*>(run.runtime.memory().address(each.inputs[0], 0))));
  return layers;
}

}  // namespace

TEST_CASE(
    "a router's bias moves by the rate, as its experts were chosen more or less than the mean",
    "[agree]") {
  const Model model = with_four_layers("glm4_moe");
  Plan plan = with_moving_biases(on_one_process(base_plan(model, {})));
  plan.training.micro_batch = static_cast<int>(plan.training.global_batch);
  SmallRun run(model, plan);
  run.step(1);
  const Program& program = run.runtime.program();
  const Values found = run.parameters();
  const float rate = 0.01F;
  int layers = 0, moved = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions) {
      if (each.kind != InstructionKind::compute || each.op != Op::count_choices) continue;
      ++layers;
      // The step is a single micro-batch, so its slots are still in memory.
      const auto* slots =
          static_cast<const std::int32_t*>(run.runtime.memory().address(each.inputs[0], 0));
      const std::vector<double> counts = choices_of(each.attributes, slots);
      double all = 0;
      for (const double count : counts) all += count;
      const std::vector<float>& bias = found.at(
          (*program.modules)[static_cast<std::size_t>(each.module)] + ".e_score_correction_bias");
      REQUIRE(bias.size() == counts.size());
      for (std::size_t e = 0; e < counts.size(); ++e) {
        const double above = counts[e] * static_cast<double>(counts.size()) - all;
        CHECK(bias[e] == (above < 0 ? rate : above > 0 ? -rate : 0.0F));
        moved += bias[e] != 0;
      }
    }
  CHECK(layers == 3);  // the first block is dense
  CHECK(moved > 4);
}

TEST_CASE_ON_RANKS("the load of experts is that of all tokens however the model is cut",
                   "[agree][mpi]") {
  World& world = test_world();
  for (const char* name : {"mixtral", "glm4_moe"}) {
    const Model model = with_four_layers(name);
    INFO(name);
    for_expert_variants(model, [&](Plan plan) {
      name_modules(model, plan);
      plan.training.measure_expert_load = true;
      const auto layers = choices_on_one_process(model, plan);
      REQUIRE(std::ssize(layers) == (model.dense_blocks.empty() ? 4 : 3));
      const int degree = plan.parallelism.expert;
      const double expected = load_of(layers, degree > 1 ? degree : model.experts);
      SmallRun run(model, plan, world);
      const StepResult result = run.step(1);
      REQUIRE(result.expert_load);
      CHECK(*result.expert_load == Approx(expected).epsilon(1e-12));
      CHECK(expected > 1);
    });
  }
}

TEST_CASE_ON_RANKS("moving biases of routers are the same however the model is cut",
                   "[agree][mpi]") {
  World& world = test_world();
  const auto check = [&](const Model& model, std::span<const Variant> variants) {
    for_expert_variants(
        model,
        [&](Plan plan) {
          plan = with_moving_biases(plan);
          check_plan(model, plan, world);
          const Trained got = train(model, plan, world);
          if (world.rank() != 0) return;
          const Trained& expected = train_alone(model, on_one_process(plan));
          int biases = 0;
          for (const auto& [name, values] : expected.parameters) {
            if (!is_choice_bias(name)) continue;
            ++biases;
            INFO(name);
            CHECK(got.parameters.at(name) == values);  // the same steps in the same order
            CHECK(std::ranges::any_of(values, [](float x) { return x != 0; }));
          }
          CHECK(biases == 3);
        },
        variants);
  };
  for (const bool dropless : {false, true}) {
    Model model = with_four_layers("glm4_moe");
    model.expert_dropless = dropless;
    INFO((dropless ? "dropless" : "slots"));
    if (!dropless || all_are_tried()) check(model, expert_variants);
    model.experts = 4;
    model.experts_per_token = 2;
    model.expert_groups = model.groups_per_token = 1;
    check(model, cut_variants);
    if (dropless) check(model, context_variants);
  }
}

TEST_CASE_ON_RANKS("in 16 bits biases of routers move by their masters", "[agree][mpi]") {
  const Model model = with_four_layers("glm4_moe");
  for (const MasterWeights masters : {MasterWeights::fp32, MasterWeights::remainders})
    for_expert_variants(model, [&](Plan plan) {
      plan = with_moving_biases(plan);
      store_in(Precision::bf16, plan);
      plan.training.master_weights = masters;
      plan.training.router_bias_update_rate = 0x1p-12;  // bf16 near 1 has steps of 2^-8
      const Trained got = train(model, plan, test_world());
      for (const auto& [name, values] : got.parameters) {
        if (!is_choice_bias(name)) continue;
        for (const float value : values) {
          const float steps = value * 0x1p12F;
          CHECK(steps == std::round(steps));
          CHECK(std::fabs(steps) <= parity_steps);
        }
      }
    });
}
