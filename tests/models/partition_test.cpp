#include "models/compiler/partition/partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "models/architectures/model.h"
#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;
using Stages = std::vector<int>;

namespace {

std::vector<double> sums(std::span<const double> cost, const Stages& part, int parts) {
  std::vector<double> result(static_cast<std::size_t>(parts), 0);
  for (std::size_t i = 0; i < part.size(); ++i)
    result[static_cast<std::size_t>(part[i])] += cost[i];
  return result;
}

double largest(std::span<const double> cost, const Stages& part, int parts) {
  return std::ranges::max(sums(cost, part, parts));
}

bool consecutive_and_full(const Stages& part, int parts) {
  return std::ranges::is_sorted(part) && part.front() == 0 && part.back() == parts - 1 &&
         std::set<int>(part.begin(), part.end()).size() == static_cast<std::size_t>(parts);
}

// Returns the least possible cost of the most expensive part, by trying every way to place parts -
// 1 cuts.
double brute_force(std::span<const double> cost, int parts) {
  if (parts == 1) return std::accumulate(cost.begin(), cost.end(), 0.0);
  double best = 1e300, first = 0;
  for (std::size_t n = 1; n + static_cast<std::size_t>(parts) <= cost.size() + 1; ++n) {
    first += cost[n - 1];
    best = std::min(best, std::max(first, brute_force(cost.subspan(n), parts - 1)));
  }
  return best;
}

// Returns a chain of units, wte -> h.0 .. h.(blocks-1) -> ln_f -> lm_head, each of which passes [1,
// 4] floats to the next.
Graph chain_graph(int blocks) {
  Graph graph;
  graph.units.push_back({"transformer.wte", false});
  for (int b = 0; b < blocks; ++b)
    graph.units.push_back({"transformer.h." + std::to_string(b), true});
  graph.units.push_back({"transformer.ln_f", false});
  graph.units.push_back({"lm_head", false});
  for (int u = 0; u < static_cast<int>(graph.units.size()); ++u) {
    graph.modules.push_back({graph.units[static_cast<std::size_t>(u)].path, u});
    Node node;
    node.op = Op::add;
    node.module = u;
    if (u > 0) node.inputs = {u - 1};
    node.outputs = {u};
    graph.nodes.push_back(node);
    Tensor tensor;
    tensor.producer = u;
    graph.tensors.push_back(tensor);
  }
  return graph;
}

Plan plan_of(Partitioner partitioner, int pipeline, int virtual_stages = 1) {
  Plan plan;
  plan.parallelism.partitioner = partitioner;
  plan.parallelism.pipeline = pipeline;
  plan.parallelism.virtual_stages = virtual_stages;
  return plan;
}

}  // namespace

TEST_CASE("the chain cut is exact", "[models][partition]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> cost(1 + random() % 10);
    for (double& c : cost) c = static_cast<double>(random() % 12);  // zeros too
    for (int parts = 1; parts <= static_cast<int>(cost.size()); ++parts) {
      const Stages part = cut_chain(cost, parts);
      CHECK(consecutive_and_full(part, parts));
      CHECK(largest(cost, part, parts) == brute_force(cost, parts));  // integers: no rounding
    }
  }
}

TEST_CASE("the chain cut is exact on numbers that are not whole", "[models][partition]") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> cost(9);
    for (double& c : cost) c = uniform(random);
    for (int parts : {2, 4, 7})
      CHECK(largest(cost, cut_chain(cost, parts), parts) ==
            Approx(brute_force(cost, parts)).epsilon(1e-11));
  }
}

TEST_CASE("the chain cut by hand", "[models][partition]") {
  // Ten equal layers on four stages are cut 2 + 2 + 3 + 3, with the longer stages last.
  CHECK(cut_chain(std::vector<double>(10, 1.0), 4) == Stages{0, 0, 1, 1, 2, 2, 2, 3, 3, 3});
  // A head as heavy as three layers gets a stage of its own: 1+1+1 | 1+1+1 | 3.
  CHECK(cut_chain(std::vector<double>{1, 1, 1, 1, 1, 1, 3}, 3) == Stages{0, 0, 0, 1, 1, 1, 2});
  // Only the unit of 8 decides the maximum, but the others are balanced too: 2+2 | 2+2 | 8, not 2 |
  // 2+2+2 | 8.
  CHECK(cut_chain(std::vector<double>{2, 2, 2, 2, 8}, 3) == Stages{0, 0, 1, 1, 2});
  CHECK(cut_chain(std::vector<double>(5, 0.0), 5) == Stages{0, 1, 2, 3, 4});
  CHECK_THROWS_WITH(cut_chain(std::vector<double>{1, 1}, 3),
                    "a chain of 2 items cannot be cut into 3 parts; use at most 2");
}

TEST_CASE("the tree cut by hand", "[models][partition]") {
  // The root has the children a (4), b with b.0, b.1 and b.2 (3 each), and c (3), so they weigh 4,
  // 9 and 3. They are to be cut into three parts.
  const ModuleTree tree{{{"", 0, -1},
                         {"a", 4, 0},
                         {"b", 0, 0},
                         {"b.0", 3, 2},
                         {"b.1", 3, 2},
                         {"b.2", 3, 2},
                         {"c", 3, 0}}};
  // The segments [a] and [b c] are best: D'Hondt's method gives [b c] two parts of 12/2 and [a] one
  // of 4, while [a] [b] [c] would have a part of 9. In [b c], c weighs 3 < 9/2, so it gets no part
  // and joins b's last one: 3+3 | 3+3.
  CHECK(cut_tree(tree, 3) == Stages{0, 0, 1, 1, 1, 2, 2});
  // With two parts, [a] and [b c] would be 4 | 12. If b gets both parts, with a before it and c
  // after it, the mean is (4+9+3)/2 = 8, and the cut is 4+3 | 3+3+3.
  CHECK(cut_tree(tree, 2) == Stages{0, 0, 0, 0, 1, 1, 1});
  CHECK(cut_tree(tree, 1) == Stages{0, 0, 0, 0, 0, 0, 0});
  // With five parts for five leaves, D'Hondt's method by itself would give b more parts than it has
  // leaves.
  CHECK(cut_tree(tree, 5) == Stages{0, 0, 1, 1, 2, 3, 4});
  CHECK_THROWS_WITH(cut_tree(tree, 6),
                    "a module tree with 5 leaves cannot be cut into 6 parts; use at most 5");
}

TEST_CASE("what a parent costs is charged to the part that it stays on", "[models][partition]") {
  // Without the parent's own cost of 4, the children would be cut 2+2 | 2+2. With it, the cut is
  // 4+2 | 2+2+2.
  const ModuleTree tree{{{"", 4, -1}, {"0", 2, 0}, {"1", 2, 0}, {"2", 2, 0}, {"3", 2, 0}}};
  CHECK(cut_tree(tree, 2) == Stages{0, 0, 1, 1, 1});
}

TEST_CASE("the tree cut leaves no part empty and keeps parents on their first part",
          "[models][partition]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    ModuleTree tree{{{"", 1, -1}}};
    const int size = 1 + static_cast<int>(random() % 14);
    std::set<int> inner;
    for (int i = 1; i <= size; ++i) {
      // Only the newest branch gets children, so that the list is in order of execution.
      int parent = i - 1;
      while (parent > 0 && random() % 2 == 0)
        parent = tree.items[static_cast<std::size_t>(parent)].parent;
      inner.insert(parent);
      tree.items.push_back({std::to_string(i), static_cast<double>(random() % 5), parent});
    }
    const int leaves = size + 1 - static_cast<int>(inner.size());
    for (int parts = 1; parts <= leaves; ++parts) {
      const Stages part = cut_tree(tree, parts);
      CHECK(consecutive_and_full(part, parts));  // part numbers never fall in order of execution
      for (std::size_t i = 1; i < part.size(); ++i)
        if (tree.items[i].parent == static_cast<int>(i) - 1) CHECK(part[i] == part[i - 1]);
    }
  }
}

TEST_CASE("METIS cuts the light edges and balances the weights", "[models][partition]") {
  // The graph has two squares of four nodes, joined by one light edge, which must be cut.
  WeightedGraph graph{std::vector<double>(8, 1.0), {}};
  for (int base : {0, 4})
    for (int i = 0; i < 4; ++i) graph.edges.push_back({base + i, base + (i + 1) % 4, 10});
  graph.edges.push_back({3, 4, 1});
  const Stages part = cut_graph(graph, 2);
  for (int i = 1; i < 4; ++i) CHECK(part[static_cast<std::size_t>(i)] == part[0]);
  for (int i = 5; i < 8; ++i) CHECK(part[static_cast<std::size_t>(i)] == part[4]);
  CHECK(part[0] != part[4]);
  CHECK(cut_graph(graph, 2) == part);  // the seed is fixed
  CHECK_THROWS_WITH(cut_graph(graph, 9),
                    "a graph of 8 nodes cannot be cut into 9 parts; use at most 8");
}

TEST_CASE("no part of a METIS cut is empty", "[models][partition]") {
  for (int nodes = 1; nodes <= 12; ++nodes)
    for (int parts = 1; parts <= nodes; ++parts) {
      WeightedGraph graph{std::vector<double>(static_cast<std::size_t>(nodes), 1.0), {}};
      graph.node_weight[0] = 50;
      for (int i = 0; i + 1 < nodes; ++i) graph.edges.push_back({i, i + 1, 1.0});
      const Stages part = cut_graph(graph, parts);
      CHECK(std::set<int>(part.begin(), part.end()).size() == static_cast<std::size_t>(parts));
    }
}

TEST_CASE("a manual cut follows the longest prefix", "[models][partition]") {
  const Graph graph = chain_graph(4);  // wte h.0 h.1 h.2 h.3 ln_f lm_head
  CHECK(cut_manually(graph, {{"transformer.h.2", 1}, {"transformer.h.3", 2}, {"lm_head", 2}}, 3,
                     false) == Stages{0, 0, 0, 1, 2, 2, 2});
  CHECK(cut_manually(graph,
                     {{"", 1}, {"transformer", 0}, {"transformer.h.3", 1}, {"transformer.ln_f", 1}},
                     2, true) == Stages{0, 0, 0, 0, 1, 1, 1});
  const auto error = [&](const std::map<std::string, int>& stage_of, int parts,
                         bool every_unit = false) {
    try {
      cut_manually(graph, stage_of, parts, every_unit);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(error({{"transformer.h.1", 2}}, 2) ==
        "/parallelism/partition/transformer.h.1: there is no stage 2; use 0 to 1");
  CHECK(error({{"transformer.g.1", 1}}, 2) ==
        "/parallelism/partition/transformer.g.1: names no module that a stage can begin with; did "
        "you mean 'transformer.h.1'?");
  CHECK(cut_manually(graph, {{"", 0}, {"transformer.h.1", 1}}, 2, false) ==
        Stages{0, 0, 1, 1, 1, 1, 1});
  CHECK(error({{"transformer", 0}, {"transformer.h.1", 1}}, 2) ==
        "/parallelism/partition: 'transformer.h.2' is on stage 0 but runs after 'transformer.h.1' "
        "on stage 1; stages must not fall in order of execution (a rule of meshwright's, not of "
        "SageMaker's library)");
  CHECK(error({{"lm_head", 2}}, 3) ==
        "/parallelism/partition: stage 1 is empty; give every stage from 0 to 2 at least one "
        "module");
  CHECK(
      error({{"transformer", 0}}, 2, true) ==
      "/parallelism/partition: the saved partition has no stage for 'lm_head'; save it again with "
      "this model");
}

// As in The Llama 3 Herd of Models (2024), section 3.3.2, the first and the last of 128 chunks have
// only the embedding and only the head.
TEST_CASE("Llama-3.1 405B is cut as it was trained", "[models][partition]") {
  const Model model = load_model("llama-3-405b", ".");
  Plan plan;
  plan.training.global_batch = 16;
  plan.training.sequence_length = 8192;
  plan.parallelism.pipeline = 16;
  plan.parallelism.virtual_stages = 8;
  plan.parallelism.schedule = ScheduleKind::interleaved;
  verify(plan, model.sizes());
  const Graph graph = build_graph(model, plan.training);
  for (const Partitioner partitioner : {Partitioner::even, Partitioner::manual}) {
    plan.parallelism.partitioner = partitioner;
    plan.parallelism.manual_stage = {{"", 0}, {"model.norm", 127}, {"lm_head", 127}};
    for (int layer = 0; layer < 126; ++layer)
      plan.parallelism.manual_stage["model.layers." + std::to_string(layer)] = layer + 1;
    const std::vector<double> alike(graph.units.size(), 1);
    const Stages part = partition(graph, plan, alike, alike);
    Stages wanted(129);  // 126 layers, embedding, norm and head
    std::iota(wanted.begin(), wanted.end(), 0);
    wanted.back() = 127;
    CHECK(part == wanted);
  }
}

TEST_CASE("multi-token prediction is on the stage of the head however stages are cut",
          "[models][partition]") {
  Model model = load_model("llama-3-8b", ".");
  model.layers = 6;
  Plan plan;
  plan.training.global_batch = 16;
  plan.training.sequence_length = 64;
  plan.training.mtp_layers = 2;
  plan.parallelism.pipeline = 4;
  const Graph graph = build_graph(model, plan.training);
  REQUIRE(graph.units.size() == 11);  // embedding, 6 blocks, norm, 2 further blocks, head
  std::vector<double> cost(11, 1);
  cost[8] = cost[9] = 40;  // far more than a stage's share, but they stay on one stage
  plan.parallelism.manual_stage = {
      {"model.embed_tokens", 0}, {"model.layers.2", 1}, {"model.layers.4", 2}, {"lm_head", 3}};
  for (const Partitioner partitioner : {Partitioner::chain, Partitioner::tree, Partitioner::metis,
                                        Partitioner::even, Partitioner::manual}) {
    plan.parallelism.partitioner = partitioner;
    const Stages part = partition(graph, plan, cost, cost);
    CHECK(std::ranges::is_sorted(part));
    for (std::size_t unit = 8; unit < 11; ++unit) CHECK(part[unit] == 3);
    for (int stage = 0; stage < 4; ++stage) CHECK(std::ranges::count(part, stage) > 0);
  }
  // A saved partition also names the further blocks.
  for (std::size_t unit = 0; unit < 11; ++unit)
    plan.parallelism.manual_stage[graph.units[unit].path] = unit < 8 ? int(unit) / 3 : 3;
  plan.parallelism.names_every_unit = true;
  CHECK(partition(graph, plan, cost, cost) == Stages{0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3});
}

TEST_CASE("an even cut gives the last stages one block more", "[models][partition]") {
  // The units are wte, the blocks, ln_f and lm_head. 7 blocks on 3 stages are cut 2, 2, 3.
  CHECK(cut_evenly(chain_graph(7), 3) == Stages{0, 0, 0, 1, 1, 2, 2, 2, 2, 2});
  CHECK(cut_evenly(chain_graph(4), 2) == Stages{0, 0, 0, 1, 1, 1, 1});
  CHECK(cut_evenly(chain_graph(5), 3) == Stages{0, 0, 1, 1, 2, 2, 2, 2});  // 1, 2 and 2 blocks
  CHECK(cut_evenly(chain_graph(2), 1) == Stages{0, 0, 0, 0, 0});
  // With more stages than blocks, the head gets a stage of its own, then the embedding too. The
  // norm is on the head's stage.
  CHECK(cut_evenly(chain_graph(2), 3) == Stages{0, 0, 1, 2, 2});
  CHECK(cut_evenly(chain_graph(2), 4) == Stages{0, 1, 2, 3, 3});
  CHECK_THROWS_AS(cut_evenly(chain_graph(2), 5), InputError);
}

TEST_CASE("a name that only begins alike is no prefix", "[models][partition]") {
  const Graph graph = chain_graph(12);  // h.1 must not take h.10 and h.11
  const Stages stages =
      cut_manually(graph, {{"transformer.h.1", 0}, {"transformer.h.10", 1}}, 2, false);
  CHECK(std::ranges::count(stages, 0) == 11);  // wte, h.0 .. h.9
}

TEST_CASE("the plan's partitioner, whichever, gives stages along the chain",
          "[models][partition]") {
  for (Partitioner partitioner : {Partitioner::chain, Partitioner::tree, Partitioner::metis})
    for (int blocks : {1, 2, 5, 12, 24})
      for (int pipeline : {1, 2, 3, 4, 8})
        for (int chunks : {1, 2, 3}) {
          const Graph graph = chain_graph(blocks);
          const int parts = pipeline * chunks;
          if (parts > blocks + 3) continue;
          std::vector<double> cost(graph.units.size(), 10.0);
          cost.front() = 0.5;
          cost.back() = 17;
          INFO(static_cast<int>(partitioner) << " blocks " << blocks << " parts " << parts);
          const Plan plan = plan_of(partitioner, pipeline, chunks);
          const Stages stages = partition(graph, plan, cost, cost);
          CHECK(stages.size() == graph.units.size());
          CHECK(consecutive_and_full(stages, parts));
          CHECK(partition(graph, plan, cost, cost) == stages);
          // The largest part costs at most the average and two blocks more.
          CHECK(largest(cost, stages, parts) <=
                std::accumulate(cost.begin(), cost.end(), 0.0) / parts + 2 * 17);
        }
}

// Both cuts of three units have equal balance, so METIS takes the one that sends fewer bytes. A
// tensor that is read twice in a block, by its norm and by its residual sum, is sent once.
TEST_CASE("a tensor that a unit reads twice is sent to it once", "[models][partition]") {
  const auto stages_of = [](std::int64_t first, std::int64_t second, int reads_of_first,
                            int reads_of_second) {
    Graph graph;
    for (int unit = 0; unit < 3; ++unit) {
      graph.units.push_back({"h." + std::to_string(unit), true});
      graph.modules.push_back({graph.units.back().path, unit});
    }
    const auto add = [&](int unit, int read, int times, std::int64_t sent) {
      for (int i = 0; i < times; ++i) {
        Node node;
        node.op = Op::add;
        node.module = unit;
        if (read >= 0) node.inputs = {read};
        node.outputs = {static_cast<int>(graph.tensors.size())};
        Tensor tensor;
        tensor.type.shape = {i == 0 ? sent : 1};
        tensor.producer = static_cast<int>(graph.nodes.size());
        graph.nodes.push_back(node);
        graph.tensors.push_back(tensor);
      }
    };
    add(0, -1, 1, first);
    add(1, 0, reads_of_first, second);
    add(2, 1, reads_of_second, 1);
    const std::vector<double> cost = {4, 1, 4};
    return partition(graph, plan_of(Partitioner::metis, 2), cost, cost);
  };
  CHECK(stages_of(3000, 2000, 1, 1) == Stages{0, 0, 1});
  CHECK(stages_of(2000, 3000, 1, 1) == Stages{0, 1, 1});
  CHECK(stages_of(3000, 2000, 1, 2) == Stages{0, 0, 1});
  CHECK(stages_of(2000, 3000, 2, 1) == Stages{0, 1, 1});
}

TEST_CASE("memory_weight mixes time and memory", "[models][partition]") {
  const Graph graph = chain_graph(1);  // wte h.0 ln_f lm_head
  const std::vector<double> cost = {1, 1, 1, 5}, memory = {50, 10, 10, 10};
  Plan plan = plan_of(Partitioner::chain, 2);
  CHECK(partition(graph, plan, cost, memory) == Stages{0, 0, 0, 1});  // 3 | 5
  plan.parallelism.memory_weight = 1;
  CHECK(partition(graph, plan, cost, memory) == Stages{0, 1, 1, 1});  // 50 | 30
  // With equal weights of time and memory, the units cost 1/16 + 50/160 = 0.375, twice 1/16 +
  // 10/160 = 0.125, and 5/16 + 10/160 = 0.375.
  plan.parallelism.memory_weight = 0.5;
  CHECK(partition(graph, plan, cost, memory) == Stages{0, 0, 1, 1});  // 0.5 | 0.5
}

TEST_CASE("more stages than units are refused with the counts", "[models][partition]") {
  const Graph graph = chain_graph(3);
  const std::vector<double> cost(6, 1.0);
  for (Partitioner partitioner :
       {Partitioner::chain, Partitioner::tree, Partitioner::metis, Partitioner::manual})
    CHECK_THROWS_WITH(partition(graph, plan_of(partitioner, 4, 2), cost, cost),
                      "/parallelism/pipeline: pipeline 4 x virtual_stages 2 = 8 stages but the "
                      "model has only 6 units to cut (embedding, blocks, head); use at most 6 "
                      "stages");
}

TEST_CASE("GPT-2 is cut into four stages of whole units", "[models][partition]") {
  Training training;
  training.global_batch = 4;
  training.sequence_length = 64;
  const Graph graph = build_graph(load_model("gpt2", "."), training);
  // Blocks cost 1 and other units nearly nothing, so every stage must get three blocks.
  std::vector<double> cost;
  for (const Unit& unit : graph.units) cost.push_back(unit.is_block ? 1.0 : 0.01);
  for (Partitioner partitioner : {Partitioner::chain, Partitioner::tree, Partitioner::metis}) {
    const Stages stages = partition(graph, plan_of(partitioner, 4), cost, cost);
    CHECK(consecutive_and_full(stages, 4));
    std::map<int, int> blocks;
    for (std::size_t u = 0; u < stages.size(); ++u)
      if (graph.units[u].is_block) ++blocks[stages[u]];
    INFO("partitioner " << static_cast<int>(partitioner));
    CHECK(blocks == std::map<int, int>{{0, 3}, {1, 3}, {2, 3}, {3, 3}});
  }
}
