// Tests how many bytes a graph's forward phase leaves for the other phases, on a graph of a few
// nodes. Each tensor counts once, however many nodes read it and by whatever name.
#include <vector>

#include "sim/compile/compile.h"
#include "sim/compile/largest_batch.h"
#include "sim/cost/cost.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

struct Small {
  Graph graph;

  Small() {
    graph.modules = {{"m", 0}};
    graph.units = {{"m"}};
  }
  int tensor(std::int64_t rows, Role role = Role::activation) {
    Tensor made;
    made.type = {Shape{rows, 8}, Dtype::f32};
    made.role = role;
    graph.tensors.push_back(made);
    return static_cast<int>(graph.tensors.size()) - 1;
  }
  int add(Phase phase, int a, int b, std::int64_t rows) {
    const int made = tensor(rows);
    Node node;
    node.op = Op::add;
    node.phase = phase;
    node.inputs = {a, b};
    node.outputs = {made};
    graph.nodes.push_back(node);
    graph.tensors[static_cast<std::size_t>(made)].producer =
        static_cast<int>(graph.nodes.size()) - 1;
    return made;
  }
  double kept() const {
    Cluster cluster;
    cluster.machine.gpus = 1;
    cluster.machine.gpu.memory_bandwidth_bytes_per_s = 1e9;
    return size_of(graph, CostModel(cluster, {})).kept_bytes;
  }
};

constexpr double row = 8 * 4;  // bytes

}  // namespace

TEST_CASE("what the forward leaves is counted once, whoever reads it", "[sim][compile]") {
  Small small;
  const int input = small.tensor(100), weight = small.tensor(100, Role::parameter);
  const int first = small.add(Phase::forward, input, weight, 4);
  const int second = small.add(Phase::forward, first, first, 2);
  small.add(Phase::forward, second, second, 50);  // no backward reads it
  CHECK(small.kept() == 0);
  const int gradient = small.add(Phase::backward, first, first, 30);
  CHECK(small.kept() == 4 * row);
  small.add(Phase::backward, first, gradient, 30);  // a gradient is not the forward's
  small.add(Phase::backward, gradient, input, 30);  // nor is what the step reads
  small.add(Phase::backward, gradient, weight, 30);
  CHECK(small.kept() == 4 * row);
  small.add(Phase::backward, second, first, 30);
  CHECK(small.kept() == (4 + 2) * row);
}

TEST_CASE("an alias is what it is an alias of", "[sim][compile]") {
  Small small;
  const int input = small.tensor(4);
  const int first = small.add(Phase::forward, input, input, 4);
  const int alias = small.add(Phase::forward, first, first, 4);
  small.graph.tensors[static_cast<std::size_t>(alias)].alias_of = first;
  small.add(Phase::backward, alias, alias, 4);
  CHECK(small.kept() == 4 * row);
  small.add(Phase::backward, first, alias, 4);
  CHECK(small.kept() == 4 * row);
}

TEST_CASE("recomputation reads what the forward leaves, and leaves it to no one",
          "[sim][compile]") {
  Small small;
  const int input = small.tensor(4);
  const int first = small.add(Phase::forward, input, input, 4);
  const int again = small.add(Phase::recompute, first, first, 7);
  small.add(Phase::backward, again, again, 7);
  CHECK(small.kept() == 4 * row);
}

TEST_CASE("a batch is scaled with its micro-batch alone", "[sim][compile]") {
  Plan plan;
  plan.parallelism.data = 4;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 4 * 2 * 3;  // three micro-batches on each replica
  const Plan larger = with_micro_batch(plan, 5);
  CHECK(larger.training.micro_batch == 5);
  CHECK(larger.training.global_batch == 4 * 5 * 3);
  CHECK(larger.micro_batches() == 3);
  CHECK(linear_learning_rate(0.01, 4) == Approx(0.04));
  CHECK(square_root_learning_rate(0.01, 4) == Approx(0.02));
}
