// Tests the attributes that operations get when a model is split over ranks.
#include <string>

#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Graph graph_of(const Model& model, const Plan& plan) {
  return run_passes(build_graph(model, plan.training), plan);
}

int producer_of(const Graph& graph, int tensor) {
  return graph.tensors[static_cast<std::size_t>(tensor)].producer;
}

bool is_made_by(const Graph& graph, int tensor, Op op) {
  const int node = producer_of(graph, tensor);
  return node >= 0 && graph.nodes[static_cast<std::size_t>(node)].op == op;
}

}  // namespace

TEST_CASE("norms of shared columns save what the whole model's norms save", "[models][passes]") {
  for (const char* family : {"gpt", "llama"})
    for (const int tensor : {2, 4}) {
      const Model model = small_model(family);
      Plan plan = small_plan(model, {.tensor = tensor});
      plan.parallelism.tensor_layout = TensorLayout::memory;
      const Graph graph = graph_of(model, plan);
      int norms = 0;
      for (const Node& node : graph.nodes) {
        if (node.op != Op::norm_parts) continue;
        ++norms;
        CHECK(node.attributes.rms_norm == model.rms_norm);
        CHECK(node.attributes.tensor_degree == tensor);
        const auto saved = static_cast<std::size_t>(node.outputs[1]);
        CHECK(graph.tensors[saved].type.shape[1] == (model.rms_norm ? 1 : 2));
      }
      CHECK(norms >= 2 * model.layers + 1);
    }
}

TEST_CASE("operations on a share of the vocabulary know of how many ranks", "[models][passes]") {
  for (const char* family : {"gpt", "llama", "bert"})
    for (const int tensor : {1, 2, 4}) {
      const Model model = small_model(family);
      const Graph graph = graph_of(model, small_plan(model, {.tensor = tensor}));
      int shared = 0;
      for (const Node& node : graph.nodes)
        if (node.attributes.vocabulary_parallel) {
          ++shared;
          CHECK(node.attributes.tensor_degree == tensor);
        }
      CHECK((shared > 0) == (tensor > 1));
    }
}

TEST_CASE("experts of other ranks get rows and, without slots, their counts", "[models][passes]") {
  for (const bool dropless : {false, true})
    for (const int expert : {1, 2, 4}) {
      Model model = small_model("mixtral");
      model.expert_dropless = dropless;
      if (dropless) model.expert_capacity_factor = 0;
      Plan plan = small_plan(model, {.data = 4});
      plan.parallelism.expert = expert;
      const Graph graph = graph_of(model, plan);
      int products = 0;
      for (const Node& node : graph.nodes) {
        if (node.op != Op::expert_linear || node.phase != Phase::forward) continue;
        ++products;
        CHECK(node.inputs.size() == (dropless ? 3 : 2));
        if (dropless)
          CHECK(is_made_by(graph, node.inputs[2], expert > 1 ? Op::expert_exchange : Op::route));
        if (dropless) CHECK(node.attributes.expert_parts == expert);
        const auto weight = static_cast<std::size_t>(node.inputs[1]);
        CHECK(graph.tensors[weight].type.shape[0] == 4 / expert);
      }
      CHECK(products == 3 * model.layers);
      int exchanges = 0, combined = 0;
      for (const Node& node : graph.nodes) {
        exchanges += node.op == Op::expert_exchange && node.phase == Phase::forward;
        if (node.op != Op::combine) continue;
        ++combined;
        CHECK(is_made_by(graph, node.inputs[0], Op::expert_exchange) == (expert > 1));
      }
      CHECK(combined == model.layers);
      // Tokens are exchanged to the experts and back. Dropless layers also exchange counts.
      CHECK(exchanges == (expert == 1 ? 0 : (dropless ? 3 : 2) * model.layers));
    }
}

TEST_CASE("ranks of a tensor group with whole experts exchange their own tokens",
          "[models][passes]") {
  for (const bool rows : {false, true}) {
    Model model = small_model("mixtral");  // 4 experts, of which a token chooses 2
    model.expert_dropless = true;
    model.expert_capacity_factor = 0;
    model.router_aux_loss_coef = 0.1;
    Plan plan = small_plan(model, {.tensor = 2, .data = 2});
    Parallelism& p = plan.parallelism;
    p.expert = 4, p.expert_tensor = 1, p.sequence_parallel = rows;
    const Graph graph = graph_of(model, plan);
    const std::int64_t tokens =
        std::int64_t{plan.training.micro_batch} * plan.training.sequence_length / p.tensor;
    int balancing = 0, exchanges = 0;
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::forward) continue;
      const auto rows_of = [&](int id) {
        return graph.tensors[static_cast<std::size_t>(id)].type.shape[0];
      };
      if (node.op == Op::route && only_balances(node.attributes)) {
        ++balancing;  // this operation sees whole sequences
        CHECK(rows_of(node.inputs[0]) == 2 * tokens);
      } else if (node.op == Op::route) {
        CHECK(rows_of(node.inputs[0]) == tokens);
        CHECK(node.attributes.balance == 0);
      }
      exchanges += node.op == Op::expert_exchange;
      // There are rows for all choices on each of 4 ranks.
      if (node.op == Op::dispatch) CHECK(rows_of(node.outputs[0]) == 4 * 2 * tokens);
    }
    CHECK(balancing == model.layers);
    CHECK(exchanges == 3 * model.layers);
    for (const Parameter& parameter : graph.parameters) {
      if (!parameter.of_experts) continue;
      CHECK_FALSE(parameter.is_cut);
      CHECK_FALSE(parameter.partial_over_tensor);
      CHECK(parameter.shape[0] == 1);
      CHECK(parameter.shape[1] == parameter.global_shape[1]);
    }
  }
}
