// Tests recomputation under a budget against exhaustive search, full recomputation and planned
// memory.
#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "models/compiler/lower/lower.h"
#include "models/compiler/partition/partition.h"
#include "models/compiler/passes/dataflow/chain_budget.h"
#include "models/compiler/passes/dataflow/recompute_budget.h"
#include "models/compiler/passes/dataflow/rematerialize_tensors.h"
#include "models/compiler/passes/pass.h"
#include "models/core/error.h"
#include "models/program/memory_plan.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

constexpr double shares[] = {0.4, 0.6, 0.8};

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

Model medium_model(const std::string& family, int layers) {
  Model model = small_model(family);
  model.hidden = 256;
  model.head_dim = 64;
  model.ffn = family == "llama" ? 704 : 1024;
  model.positions = 128;
  model.vocabulary = 512;
  model.layers = layers;
  return model;
}

// Returns a plan for one process and one stage.
Plan plan_of(const Model& model, int micro_batch, int length) {
  Plan plan;
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = micro_batch;
  plan.training.sequence_length = length;
  plan.training.predicted_positions = model.head == Head::mlm ? length / 8 : 0;
  return plan;
}

Graph graph_of(const Model& model, Plan& plan) {
  Graph graph = run_passes(build_graph(model, plan.training), plan);
  plan.stage_of_unit.assign(graph.units.size(), 0);
  return graph;
}

struct Measured {
  std::int64_t kept = 0, working = 0;
  double cost = 0;
};

// Measures a graph on one stage from its nodes: what it saves for the backward pass, the most
// recomputed activations that live at one time, and the cost of the recomputation.
Measured measure(const Graph& graph) {
  Measured result;
  std::set<int> kept;
  std::map<int, std::pair<int, int>> life;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    if (node.phase == Phase::recompute)
      result.cost += recompute_cost(graph, node, DeviceFacts{}.flops_per_byte);
    const auto use = [&](int id) {
      const int base = base_of(graph, id);
      const Tensor& tensor = graph.tensor(base);
      if (tensor.role == Role::input) kept.insert(base);
      if (tensor.role != Role::activation || node.phase == Phase::forward) return;
      const Phase made = graph.nodes[static_cast<std::size_t>(tensor.producer)].phase;
      if (made == Phase::forward) kept.insert(base);
      if (made == Phase::recompute) life.try_emplace(base, i, i).first->second.second = i;
    };
    for (int id : node.inputs) use(id);
    for (int id : node.outputs) use(id);
  }
  for (int id : kept) result.kept += aligned(graph.tensor(id).type.bytes());
  std::vector<std::int64_t> live(graph.nodes.size(), 0);
  for (const auto& [id, span] : life)
    for (int i = span.first; i <= span.second; ++i)
      live[static_cast<std::size_t>(i)] += aligned(graph.tensor(id).type.bytes());
  result.working = *std::ranges::max_element(live);
  return result;
}

// Returns the tensors that a unit makes only for itself. A norm's rows and statistics count as one.
std::vector<std::vector<int>> own_tensors(const Graph& graph, int unit) {
  std::vector<std::vector<int>> found;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward || graph.unit_of(node) != unit) continue;
    std::vector<int> own;
    for (int id : node.outputs) {
      const bool leaves =
          id == graph.loss || std::ranges::any_of(graph.nodes, [&](const Node& n) {
            return graph.unit_of(n) != unit &&
                   std::find(n.inputs.begin(), n.inputs.end(), id) != n.inputs.end();
          });
      if (!leaves) own.push_back(id);
    }
    if (own.empty()) continue;
    if (node.op == Op::layer_norm || node.op == Op::rms_norm)
      found.push_back(own);
    else
      for (int id : own) found.push_back({id});
  }
  return found;
}

// Returns, for every subset of a unit's tensors, how cost and memory change if it is recomputed.
std::vector<Measured> all_subsets(const Graph& graph, int unit) {
  const std::vector<std::vector<int>> own = own_tensors(graph, unit);
  REQUIRE(own.size() <= 16);
  const Measured none = measure(graph);
  std::vector<Measured> all;
  for (unsigned subset = 0; subset < (1U << own.size()); ++subset) {
    std::vector<char> chosen(graph.tensors.size(), 0);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (subset >> i & 1U)
        for (int id : own[i]) chosen[static_cast<std::size_t>(id)] = 1;
    Measured each = measure(rematerialize_tensors(graph, chosen));
    each.kept -= none.kept;
    all.push_back(each);
  }
  // Subsets that another one equals or beats are left out.
  std::vector<Measured> best;
  std::ranges::sort(all, [](const Measured& a, const Measured& b) {
    return std::tie(a.cost, a.kept, a.working) < std::tie(b.cost, b.kept, b.working);
  });
  for (const Measured& each : all)
    if (std::ranges::none_of(best, [&](const Measured& other) {
          return other.kept <= each.kept && other.working <= each.working;
        }))
      best.push_back(each);
  return best;
}

struct Sum {
  std::int64_t kept;
  double cost;
};

// Returns the least cost within `budget` of one subset for each unit, by trying all combinations.
// Partial combinations that others equal or beat are dropped on the way. Infinite means that
// nothing fits.
double exhaustive(const std::vector<std::vector<Measured>>& units, std::int64_t budget) {
  std::set<std::int64_t> bounds;
  for (const auto& unit : units)
    for (const Measured& each : unit) bounds.insert(each.working);
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t bound : bounds) {
    std::vector<Sum> sums = {{0, 0}};
    for (const auto& unit : units) {
      std::vector<Sum> longer;
      for (const Sum& sum : sums)
        for (const Measured& each : unit)
          if (each.working <= bound) longer.push_back({sum.kept + each.kept, sum.cost + each.cost});
      std::ranges::sort(longer, [](const Sum& a, const Sum& b) {
        return std::tie(a.cost, a.kept) < std::tie(b.cost, b.kept);
      });
      sums.clear();
      for (const Sum& sum : longer)
        if (sums.empty() || sum.kept < sums.back().kept) sums.push_back(sum);
    }
    for (const Sum& sum : sums)
      if (sum.kept + bound <= budget) least = std::min(least, sum.cost);
  }
  return least;
}

std::vector<std::vector<Measured>> subsets_of_units(const Graph& graph) {
  std::vector<std::vector<Measured>> units;
  int block = -1;
  for (int unit = 0; unit < static_cast<int>(graph.units.size()); ++unit) {
    const bool is_block = graph.units[static_cast<std::size_t>(unit)].is_block;
    if (is_block && block >= 0) {
      units.push_back(units[static_cast<std::size_t>(block)]);  // blocks are equal
      continue;
    }
    if (is_block) block = unit;
    units.push_back(all_subsets(graph, unit));
  }
  return units;
}

// Returns the most bytes that are live in the task region at one time. The region may be larger,
// because packing leaves gaps.
std::int64_t most_live(const MemoryPlan& memory) {
  std::map<std::pair<int, int>, std::int64_t> live;  // body, instruction
  std::int64_t most = 0;
  for (const Buffer& buffer : memory.buffers)
    for (int i = buffer.first; buffer.region == Region::task && i <= buffer.last; ++i)
      most = std::max(most, live[{buffer.body, i}] += aligned(buffer.bytes));
  return most;
}

// Returns the bytes that each micro-batch saves in a slot, which other chunks may share.
std::int64_t kept_by(const MemoryPlan& memory, std::size_t chunk) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : memory.buffers)
    if (buffer.region == Region::slot && buffer.chunk == static_cast<int>(chunk))
      bytes += aligned(buffer.bytes);
  return bytes;
}

// Returns the differentiated graph before anything is recomputed.
Graph not_yet_repeated(const Model& model, const Plan& plan) {
  Graph graph = build_graph(model, plan.training);
  for (const Pass& pass : passes_of(plan.training)) {
    if (pass.name == "recompute") break;
    graph = pass.run(std::move(graph), plan);
  }
  return graph;
}

}  // namespace

TEST_CASE("under a budget the cheapest tensors are recomputed: exhaustive search on small graphs",
          "[models][recompute][release]") {
  for (const char* family : {"gpt", "llama", "bert"})
    for (int layers : {2, 3}) {
      const Model model = medium_model(family, layers);
      Plan plan = plan_of(model, 2, 64);
      const Graph graph = graph_of(model, plan);
      const auto units = subsets_of_units(graph);
      const Measured none = measure(graph);
      Plan full = plan;
      full.training.recompute = Recompute::full;
      const Measured all = measure(graph_of(model, full));
      int fitting = 0;
      for (double share : shares) {
        INFO(family << " of " << layers << " blocks at " << share);
        plan.training.recompute_budget = share;
        const auto budget = static_cast<std::int64_t>(share * static_cast<double>(none.kept));
        const double least = exhaustive(units, budget - none.kept);
        if (least == std::numeric_limits<double>::infinity()) {
          CHECK_THROWS_AS(choose_within_budget(graph, plan), BudgetTooSmall);
          continue;
        }
        ++fitting;
        const BudgetedTensors chosen = choose_within_budget(graph, plan);
        REQUIRE(chosen.stages.size() == 1);
        const Measured got = measure(rematerialize_tensors(graph, chosen.chosen));
        CHECK(chosen.stages[0].unlimited == none.kept);
        CHECK(chosen.stages[0].kept == got.kept);
        CHECK(chosen.stages[0].working == got.working);
        CHECK(chosen.stages[0].cost == Approx(got.cost));
        CHECK(got.kept + got.working <= budget);
        CHECK(got.cost <= 1.02 * least);
        CHECK(got.cost <= all.cost);
      }
      CHECK(fitting >= 2);
    }
}

TEST_CASE("what crosses from block to block is worth keeping", "[models][recompute]") {
  // If all blocks are one unit, inputs of blocks may be recomputed too. The cost is then at most 2
  // % lower.
  const Model model = medium_model("gpt", 2);
  Plan plan = plan_of(model, 2, 64);
  const Graph graph = graph_of(model, plan);
  Graph joined = graph;
  int block = -1;
  for (Module& module : joined.modules) {
    if (!graph.units[static_cast<std::size_t>(module.unit)].is_block) continue;
    if (block < 0) block = module.unit;
    module.unit = block;
  }
  for (double share : shares) {
    plan.training.recompute_budget = share;
    const double cost = choose_within_budget(graph, plan).stages[0].cost;
    CHECK(cost <= 1.02 * choose_within_budget(joined, plan).stages[0].cost);
  }
}

TEST_CASE("GPT-2 of 12 blocks keeps its activations within 40, 60 and 80 %",
          "[models][recompute]") {
  const Model model = load_model("gpt2", ".");
  for (AttentionKernel attention : {AttentionKernel::flash2, AttentionKernel::unfused}) {
    Plan plan = plan_of(model, 4, 256);
    plan.training.attention = attention;
    const Graph graph = graph_of(model, plan);
    const auto units = subsets_of_units(graph);
    const MemoryPlan none = lower(graph, plan)[0].memory;
    const auto unlimited = measure(graph);
    Plan full = plan;
    full.training.recompute = Recompute::full;
    const double all = measure(graph_of(model, full)).cost;
    double before = all;
    for (double share : shares) {
      INFO("at " << share);
      plan.training.recompute_budget = share;
      const auto budget = static_cast<std::int64_t>(share * static_cast<double>(unlimited.kept));
      const Graph repeated = run_passes(build_graph(model, plan.training), plan);
      const Measured got = measure(repeated);
      CHECK(got.cost <= 1.02 * exhaustive(units, budget - unlimited.kept));
      CHECK(got.cost < before);
      before = got.cost;
      // In the arena, saved activations are in a slot, and recomputed ones make the task region
      // larger.
      const Program program = lower(repeated, plan)[0];
      verify(program.memory);
      CHECK(program.memory.slots[0].stride == got.kept);
      CHECK(program.memory.slots[0].stride +
                std::max<std::int64_t>(0, program.memory.task_bytes - none.task_bytes) <=
            budget);
      CHECK(program.memory.arena_bytes < none.arena_bytes);
    }
    CHECK(before > 0);
  }
}

TEST_CASE("any budget is kept on every stage of any plan", "[models][recompute]") {
  std::mt19937 random(4);
  int tried = 0;
  for (const char* family : {"gpt", "llama", "bert", "mixtral", "bloom"}) {
    const Model model = small_model(family);
    for (Plan plan : small_plans(model)) {
      if (plan.training.recompute != Recompute::none || random() % 4 != 0) continue;
      if (plan.parallelism.schedule == ScheduleKind::zero_bubble) continue;
      if (model.experts > 0 && plan.parallelism.tensor > 1) continue;
      if (model.experts > 0 && plan.parallelism.data > 1) plan.parallelism.expert = 2;
      plan.training.dropout = random() % 2 == 0 ? 0.1 : 0;
      if (random() % 2 == 0) plan.training.attention = AttentionKernel::unfused;
      if (random() % 2 == 0) plan.training.compiler = CompilerLevel::full;
      INFO(family << ": " << describe(plan));
      Graph graph = run_passes(build_graph(model, plan.training), plan);
      const std::vector<double> equal(graph.units.size(), 1.0);
      plan.stage_of_unit = partition(graph, plan, equal, equal);
      const std::vector<Program> none = lower(graph, plan);
      plan.training.recompute_budget = 1;
      graph = not_yet_repeated(model, plan);
      double most = 0;
      for (const BudgetedStage& stage : choose_within_budget(graph, plan).stages) {
        CHECK(stage.cost == 0);
        CHECK(stage.kept + stage.working <= stage.unlimited);
        most =
            std::max(most, static_cast<double>(stage.least) / static_cast<double>(stage.unlimited));
      }
      plan.training.recompute_budget =
          most + (1 - most) * std::uniform_real_distribution<>(0, 1)(random) + 1e-6;
      if (*plan.training.recompute_budget > 1) continue;
      ++tried;
      const std::vector<BudgetedStage> chosen = choose_within_budget(graph, plan).stages;
      const std::vector<Program> stages =
          lower(run_passes(build_graph(model, plan.training), plan), plan);
      verify(stages);
      for (std::size_t s = 0; s < chosen.size(); ++s) {
        const std::size_t device = s % stages.size(), chunk = s / stages.size();
        const MemoryPlan& memory = stages[device].memory;
        verify(memory);
        CHECK(kept_by(none[device].memory, chunk) <= chosen[s].unlimited);
        CHECK(kept_by(memory, chunk) == chosen[s].kept);
        CHECK(kept_by(memory, chunk) + chosen[s].working <= chosen[s].budget);
        // Level `full` moves operations next to those with which it fuses them, so this check is
        // not for it.
        if (plan.training.compiler != CompilerLevel::full)
          CHECK(most_live(memory) <= most_live(none[device].memory) + chosen[s].working);
      }
    }
  }
  CHECK(tried > 50);
}

TEST_CASE("a budget that nothing fits into is refused with the smallest one",
          "[models][recompute]") {
  const Model model = medium_model("gpt", 3);
  Plan plan = plan_of(model, 2, 64);
  const Graph graph = graph_of(model, plan);
  plan.training.recompute_budget = 1;
  const BudgetedStage sizes = choose_within_budget(graph, plan).stages[0];
  plan.training.recompute_budget = static_cast<double>(sizes.least);
  CHECK(choose_within_budget(graph, plan).stages[0].budget == sizes.least);
  plan.training.recompute_budget = static_cast<double>(sizes.least - 1);
  const std::string message = message_of([&] { (void)choose_within_budget(graph, plan); });
  CHECK(
      message.starts_with("/training/recompute_budget: " + std::to_string(sizes.least - 1) +
                          " bytes for the activations of a micro-batch on stage 0 are too few: "));
  CHECK(message.ends_with(" or more, or " + std::to_string(sizes.least) + " bytes"));
}

TEST_CASE("the chain's choice is within its tolerance of the least", "[models][recompute]") {
  std::mt19937 random(7);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  int fitting = 0;
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<std::vector<KeptSet>> frontiers(3);
    for (auto& frontier : frontiers)
      for (int i = 1 + below(6); i > 0; --i)
        frontier.push_back(
            {below(1000), below(500), static_cast<double>(below(50) * below(50)), 0});
    for (auto& frontier : frontiers)
      std::ranges::sort(frontier, [](const KeptSet& a, const KeptSet& b) {
        return std::tie(a.cost, a.kept) < std::tie(b.cost, b.kept);
      });
    const std::vector<const std::vector<KeptSet>*> chain = {&frontiers[0], &frontiers[1],
                                                            &frontiers[1], &frontiers[2]};
    const std::int64_t budget = 500 + below(2500);
    double least = std::numeric_limits<double>::infinity();
    std::int64_t needed = std::numeric_limits<std::int64_t>::max();
    for (const KeptSet& a : *chain[0])
      for (const KeptSet& b : *chain[1])
        for (const KeptSet& c : *chain[2])
          for (const KeptSet& d : *chain[3]) {
            const std::int64_t bytes = a.kept + b.kept + c.kept + d.kept +
                                       std::max({a.working, b.working, c.working, d.working});
            needed = std::min(needed, bytes);
            if (bytes <= budget) least = std::min(least, a.cost + b.cost + c.cost + d.cost);
          }
    CHECK(least_budget(chain) == needed);
    const auto chosen = choose_along_chain(chain, budget);
    REQUIRE(chosen.has_value() == (needed <= budget));
    if (!chosen) continue;
    ++fitting;
    std::int64_t kept = 0, working = 0;
    double cost = 0;
    for (std::size_t u = 0; u < chain.size(); ++u) {
      const KeptSet& set = (*chain[u])[(*chosen)[u]];
      kept += set.kept;
      working = std::max(working, set.working);
      cost += set.cost;
    }
    CHECK(kept + working <= budget);
    CHECK(cost <= (1 + chain_tolerance) * least);
  }
  CHECK(fitting > 100);
}
