// Tests how a model with experts is split: all-to-alls in the graph, process groups of buckets, and
// shares of memory.
#include "models/program/graph/experts.h"
#include "models/program/graph/expert_skew.h"

#include <map>
#include <set>

#include "models/compiler/lower/lower.h"
#include "models/compiler/passes/pass.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Plan plan_of(const Model& model, int expert, SmallDegrees degrees) {
  Plan plan = small_plan(model, degrees);
  plan.parallelism.expert = expert;
  return plan;
}

Graph graph_of(const Model& model, const Plan& plan) {
  return run_passes(build_graph(model, plan.training), plan);
}

int count(const Graph& graph, Op op, Phase phase) {
  int found = 0;
  for (const Node& node : graph.nodes) found += node.op == op && node.phase == phase;
  return found;
}

// Returns the kinds and groups of the collectives that move gradients or weights of buckets, either
// of buckets of experts or of all others.
std::set<std::pair<InstructionKind, GroupKind>> of_buckets(const Program& program,
                                                           bool of_experts) {
  std::set<std::pair<InstructionKind, GroupKind>> found;
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions)
      if (each.group != GroupKind::none && each.bucket >= 0 &&
          program.buckets[static_cast<std::size_t>(each.bucket)].of_experts == of_experts)
        found.insert({each.kind, each.group});
  return found;
}

GroupKind norm_group(const Program& program) {
  for (const Instruction& each : program.bodies.back().instructions)
    if (each.group != GroupKind::none && each.inputs[0].buffer == program.norm_buffer)
      return each.group;
  return GroupKind::none;
}

std::int64_t expert_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const StageParameter& member : program.parameters)
    if (member.parameter.of_experts) bytes += member.parameter.shape.elements() * 4;
  return bytes;
}

constexpr auto all_reduce = InstructionKind::all_reduce;
constexpr auto reduce_scatter = InstructionKind::reduce_scatter;
constexpr auto all_gather = InstructionKind::all_gather;

}  // namespace

TEST_CASE("every block exchanges its slots before and after its experts, and so do its gradients",
          "[models][experts]") {
  const Model model = small_model("mixtral");  // 4 blocks of 4 experts
  const Graph whole = graph_of(model, plan_of(model, 1, {.data = 2}));
  CHECK(count(whole, Op::expert_exchange, Phase::forward) == 0);
  Plan plan = plan_of(model, 2, {.data = 2});
  const Graph split = graph_of(model, plan);
  CHECK(count(split, Op::expert_exchange, Phase::forward) == 2 * 4);
  CHECK(count(split, Op::expert_exchange, Phase::backward) == 2 * 4);
  plan.training.recompute = Recompute::full;
  CHECK(count(graph_of(model, plan), Op::expert_exchange, Phase::recompute) == 2 * 4);
  for (const Node& node : split.nodes)
    if (node.op == Op::expert_linear) {
      CHECK(split.tensor(node.inputs[1]).type.shape[0] == 2);
      // 4 experts x 2 sequences x 4 slots hold the tokens that both ranks send to this one.
      CHECK(split.tensor(node.inputs[0]).type.shape[0] == 4 * 2 * 4);
    }
  CHECK(parameter_count(split) == parameter_count(whole));
  CHECK(model_flops(split) == Approx(model_flops(whole)));
}

TEST_CASE("an exchange is an all-to-all of what all slots hold", "[models][experts]") {
  const Model model = small_model("mixtral");
  const std::vector<Program> stages = lower_small(model, plan_of(model, 4, {.data = 4}));
  int found = 0;
  for (const Body& body : stages[0].bodies)
    for (const Instruction& each : body.instructions) {
      if (each.kind != InstructionKind::all_to_all) continue;
      ++found;
      CHECK(each.group == GroupKind::expert);
      CHECK(each.stream == Stream::expert_comm);
      CHECK(each.inputs[0].type.bytes() == 4 * 2 * 4 * 32 * 4);  // slots x hidden x 4 bytes
      CHECK(each.outputs[0].type == each.inputs[0].type);
      CHECK(each.outputs[0].buffer != each.inputs[0].buffer);
    }
  CHECK(found == 4 * 4);
  verify(stages);
}

TEST_CASE("experts are reduced and sharded over the ranks that have them", "[models][experts]") {
  using Collectives = std::set<std::pair<InstructionKind, GroupKind>>;
  const Model model = small_model("mixtral");
  const auto lowered = [&](int expert, SmallDegrees degrees, int shard = 1) {
    Plan plan = plan_of(model, expert, degrees);
    plan.parallelism.shard = shard;
    const std::vector<Program> stages = lower_small(model, plan);
    verify(stages);
    return stages[0];
  };
  const Program alone = lowered(1, {.data = 4});
  CHECK(of_buckets(alone, true).empty());
  CHECK(of_buckets(alone, false) == Collectives{{all_reduce, GroupKind::rdp}});
  CHECK(norm_group(alone) == GroupKind::none);

  const Program pairs = lowered(2, {.data = 4});
  CHECK(of_buckets(pairs, false) == Collectives{{all_reduce, GroupKind::rdp}});
  CHECK(of_buckets(pairs, true) == Collectives{{all_reduce, GroupKind::expert_rdp}});
  CHECK(norm_group(pairs) == GroupKind::world);
  CHECK(2 * expert_bytes(pairs) == expert_bytes(alone));

  const Program each = lowered(4, {.data = 4, .zero_stage = 3});
  CHECK(of_buckets(each, true).empty());  // no other rank has the same experts
  CHECK(of_buckets(each, false) ==
        Collectives{{reduce_scatter, GroupKind::shard}, {all_gather, GroupKind::shard}});

  for (const int zero : {1, 2, 3}) {
    const Program sharded = lowered(2, {.data = 4, .zero_stage = zero});
    CHECK(of_buckets(sharded, true) == Collectives{{reduce_scatter, GroupKind::expert_shard},
                                                   {all_gather, GroupKind::expert_shard}});
    for (const Bucket& bucket : sharded.buckets)
      CHECK(bucket.elements == (bucket.of_experts ? 2 : 4) * bucket.shard_elements);
    const Program twice = lowered(2, {.data = 8, .zero_stage = zero}, 2);
    CHECK(of_buckets(twice, true) == Collectives{{reduce_scatter, GroupKind::expert_shard},
                                                 {all_reduce, GroupKind::expert_replica},
                                                 {all_gather, GroupKind::expert_shard}});
  }
}

TEST_CASE("empty places cost as much as taken ones, but do not count as the model's work",
          "[models][experts]") {
  const auto flops = [](double factor, bool of_model) {
    Model model = small_model("mixtral");
    model.expert_capacity_factor = factor;
    const Graph graph = build_graph(model, small_plan(model, {}).training);
    double sum = 0;
    std::vector<Kernel> kernels;
    for (const Node& node : graph.nodes) {
      if (node.op != Op::expert_linear) continue;
      std::vector<TensorType> inputs;
      for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
      const std::vector<TensorType> outputs{graph.tensor(node.outputs[0]).type};
      const OpCall call{node.op, node.attributes, inputs, outputs};
      append_kernels(call, CompilerLevel::fused, kernels);
      if (of_model) sum += model_flops(call);
    }
    for (const Kernel& kernel : kernels) sum += of_model ? 0 : kernel.flops;
    return sum;
  };
  // The model has 4 blocks with 3 matmuls of 32 x 64. Each of 2 * 8 tokens makes 2 choices.
  const double chosen = 4 * 3 * 2.0 * 32 * 64 * 2 * 8 * 2;
  CHECK(flops(1, false) == chosen);
  CHECK(flops(1.5, false) == 1.5 * chosen);
  CHECK(flops(1.5, true) == chosen);
  CHECK(flops(0.5, true) == 0.5 * chosen);  // half of them are dropped
}

TEST_CASE("every legal plan of a model with experts lowers to a sound program",
          "[models][experts]") {
  const Model model = small_model("mixtral");
  int plans = 0;
  for (const Plan& base : small_plans(model))
    for (const int expert : {1, 2, 4}) {
      Plan plan = base;
      plan.parallelism.data *= 2;
      plan.training.global_batch *= 2;
      plan.parallelism.expert = expert;
      if (plan.parallelism.tensor > 1 || plan.parallelism.data % expert != 0) continue;
      INFO(describe(plan));
      verify(plan, model.sizes());
      verify(lower_small(model, plan));
      ++plans;
    }
  CHECK(plans > 100);
}

namespace {

// Returns, for each all-to-all of experts in a backward phase, how many gradients of expert weights
// overlap with it. The overlap ends when a compute instruction waits for it or for a later
// all-to-all.
std::vector<int> gradients_beside_exchanges(const Program& program) {
  std::vector<int> found;
  for (const Body& body : program.bodies)
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& exchange = body.instructions[i];
      if (exchange.stream != Stream::expert_comm || exchange.phase != Phase::backward) continue;
      found.push_back(0);
      for (std::size_t later = i + 1; later < body.instructions.size(); ++later) {
        const Instruction& next = body.instructions[later];
        if (next.stream != Stream::compute) continue;
        bool waits = false;
        for (const Wait& wait : next.waits) {
          const auto of = static_cast<std::size_t>(wait.instruction);
          waits |= wait.relation == Wait::Relation::same_task && of >= i &&
                   body.instructions[of].stream == Stream::expert_comm;
        }
        if (waits) break;
        found.back() +=
            next.kind == InstructionKind::compute && next.op == Op::expert_linear_grad_weight;
      }
    }
  return found;
}

}  // namespace

TEST_CASE("the all-to-all back to the tokens overlaps with the gradients of experts' weights",
          "[models][lower][experts]") {
  const Model model = small_model("mixtral");
  for (const CompilerLevel level :
       {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
    Plan plan = plan_of(model, 2, {1, 1, 2});
    plan.training.compiler = level;
    const auto beside = [&](bool overlaps) {
      plan.parallelism.overlap_expert = overlaps;
      return gradients_beside_exchanges(lower_small(model, plan).front());
    };
    const std::vector<int> before = beside(false), after = beside(true);
    // Each block has two all-to-alls in the backward phase: one for the gradient of the experts'
    // outputs and one for that of their inputs.
    REQUIRE(before.size() == 2 * static_cast<std::size_t>(model.layers));
    REQUIRE(after.size() == before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(before[i] == 0);
      INFO(static_cast<int>(level));
      // The weight gradients of the MLP's first two matmuls overlap with the all-to-all. At level
      // `full`, that of the last matmul does too.
      if (i % 2 == 1) CHECK(after[i] == (level == CompilerLevel::full ? 3 : 2));
    }
  }
}

TEST_CASE("choices are counted where they are made, and summed once a step", "[models][experts]") {
  Model model = small_model("mixtral");
  model.sigmoid_scores = model.expert_bias = true;
  model.router_aux_loss_coef = 0;
  for (const int pipeline : {1, 2})
    for (const bool dropless : {false, true}) {
      model.expert_dropless = dropless;
      Plan plan = plan_of(model, 2, {pipeline, 1, 2});
      plan.training.recompute = Recompute::full;
      for (const double rate : {0.0, 0.001}) {
        plan.training.router_bias_update_rate = rate;
        const int on = rate > 0 ? 1 : 0;
        for (const Program& program : lower_small(model, plan)) {
          const int layers = model.layers / pipeline;
          CHECK((program.choice_counts_buffer >= 0) == (on == 1));
          int routes = 0, counts = 0, sums = 0, updates = 0;
          for (const Body& body : program.bodies)
            for (const Instruction& each : body.instructions) {
              const bool computes = each.kind == InstructionKind::compute;
              routes += computes && each.op == Op::route;
              updates += computes && each.op == Op::update_choice_biases;
              if (computes && each.op == Op::count_choices) {
                ++counts;
                CHECK(body.kind == Body::Kind::forward);
              }
              if (on == 1 && each.kind == InstructionKind::all_reduce &&
                  each.inputs[0].buffer == program.choice_counts_buffer) {
                ++sums;
                CHECK(body.kind == Body::Kind::step_end);
                CHECK(each.group == GroupKind::rdp);
                CHECK(each.inputs[0].type.shape.elements() == std::int64_t{layers} * model.experts);
              }
            }
          CHECK(routes == 2 * layers);
          CHECK(counts == on * layers);
          CHECK(sums == on);
          CHECK((updates > 0) == (on == 1));
          std::set<std::int64_t> firsts;
          for (const StageParameter& each : program.parameters)
            if (each.first_count >= 0) firsts.insert(each.first_count);
          CHECK(std::ssize(firsts) == on * layers);
        }
      }
    }
}

TEST_CASE("the fullest of the ranks that share experts multiplies more rows", "[models][experts]") {
  Model model = small_model("mixtral");
  model.expert_dropless = true;
  const auto flops = [&](int expert, double imbalance) {
    Plan plan = plan_of(model, expert, {1, 1, 2});
    plan.training.expert_imbalance = imbalance;
    double all = 0;
    const Graph graph = graph_of(model, plan);
    for (const Node& node : graph.nodes) {
      if (node.op != Op::expert_linear && node.op != Op::expert_linear_grad_input &&
          node.op != Op::expert_linear_grad_weight)
        continue;
      std::vector<TensorType> inputs, outputs;
      for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
      for (int id : node.outputs) outputs.push_back(graph.tensor(id).type);
      std::vector<Kernel> kernels;
      append_kernels({node.op, node.attributes, inputs, outputs}, CompilerLevel::fused, kernels);
      for (const Kernel& kernel : kernels) all += kernel.flops;
    }
    return all;
  };
  const double equal = flops(2, 1);
  CHECK(flops(2, 1.5) == Approx(1.5 * equal));
  CHECK(flops(2, 8) == Approx(2 * equal));  // no more than all choices of both ranks
  CHECK(flops(1, 1.5) == flops(1, 1));      // a single rank has no imbalance
  model.expert_rank_capacity_factor = 1.25;
  CHECK(flops(2, 1.5) == Approx(1.25 * equal));  // no rows for more
}

TEST_CASE("popular experts have the shares of Zipf's law, and at most every token",
          "[models][experts]") {
  using Shares = std::vector<double>;
  const auto near = [](const Shares& found, const Shares& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]));
  };
  near(zipf_shares(4, 2, 0), {0.25, 0.25, 0.25, 0.25});
  near(zipf_shares(4, 2, 1), {12.0 / 25, 6.0 / 25, 4.0 / 25, 3.0 / 25});
  // Zipf's law gives 1, 1/8, 1/27 and 1/64, but an expert has at most one of a token's two choices,
  // so the first has half of all choices.
  const double rest = 1.0 / 8 + 1.0 / 27 + 1.0 / 64;
  near(zipf_shares(4, 2, 3), {0.5, 0.5 / 8 / rest, 0.5 / 27 / rest, 0.5 / 64 / rest});
  near(zipf_shares(3, 3, 2), {1.0 / 3, 1.0 / 3, 1.0 / 3});
  near(zipf_shares(2, 1, 1e6), {1, 0});
  near(zipf_shares(4, 2, 1e6), {0.5, 0.5 / 3, 0.5 / 3, 0.5 / 3});  // the other powers round to 0
}

TEST_CASE("the fullest part of experts has the more the fewer it has", "[models][experts]") {
  CHECK(fullest_part(4, 2, 4, 1, 7) == Approx(48.0 / 25));  // in any order of the experts
  CHECK(fullest_part(4, 2, 1, 1, 7) == Approx(1));
  CHECK(fullest_part(4, 2, 2, 0, 7) == Approx(1));
  // The most popular expert shares its part with any of the others, so the part has 18, 16 or 15 of
  // 25 choices.
  CHECK(fullest_part(4, 2, 2, 1, 7) == Approx((36 + 32 + 30) / 75.0).epsilon(0.03));
  CHECK(fullest_part(64, 8, 8, 0.5, 1) == fullest_part(64, 8, 8, 0.5, 1));
  CHECK(fullest_part(64, 8, 8, 0.5, 1) != fullest_part(64, 8, 8, 0.5, 2));
  CHECK(fullest_part(64, 8, 8, 0.5, 1) < fullest_part(64, 8, 32, 0.5, 1));
  CHECK(fullest_part(64, 8, 8, 0.5, 1) < fullest_part(64, 8, 8, 1, 1));
  CHECK(fullest_part(64, 8, 8, 1000, 1) >= 1);
}

TEST_CASE("the fullest rank has the rows that a skew of choices gives it", "[models][experts]") {
  Model model = small_model("mixtral");
  model.expert_dropless = true;
  Plan plan = plan_of(model, 2, {1, 1, 2});
  plan.training.expert_skew = 1;
  plan.training.seed = 3;
  int products = 0;
  for (const Node& node : graph_of(model, plan).nodes) {
    if (node.op != Op::expert_linear) continue;
    CHECK(node.attributes.expert_imbalance ==
          fullest_part(model.experts, model.experts_per_token, 2, 1, 3));
    ++products;
  }
  CHECK(products > 0);
}
