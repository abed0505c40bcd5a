// Tests how the parameters of every family begin, by their names: biases with zeros, norms with the
// values that multiply by 1, and the last matrix of every branch with smaller values than the other
// matrices.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "tests/models/imported.h"

using namespace meshwright::tests;

namespace {

bool ends_with_one(const std::string& name, auto... ends) { return (name.ends_with(ends) || ...); }

// Returns whether this is the classifier's last matrix, which is at the end of no residual branch.
bool is_of_no_block(const std::string& name) { return name == "classifier.out_proj.weight"; }

bool is_bias(const std::string& name) {
  return ends_with_one(name, ".bias", "_bias", ".sinks", ".b1", ".b2");
}

// Returns whether `name` is the last matrix of attention or of an MLP, whose result is added to the
// residual stream.
bool ends_branch(const std::string& name) {
  return ends_with_one(name, "c_proj.weight", "o_proj.weight", "out_proj.weight",
                       "down_proj.weight", "down_proj", "fc2.weight", "fc_out.weight",
                       "dense_4h_to_h.weight", "attention.dense.weight",
                       "self_attention.dense.weight", "attention.output.dense.weight",
                       ".output.dense.weight", "attention.wo.weight", ".w2.weight", ".wo.weight",
                       "lin2.weight", "out_lin.weight", "output_linear.weight", "ffn_output.weight",
                       "SelfAttention.o.weight", "EncDecAttention.o.weight");
}

}  // namespace

TEST_CASE("parameters begin with the values that their names ask for", "[models][importers]") {
  for (const auto& entry :
       std::filesystem::directory_iterator(source + "/tests/golden/transformers")) {
    const Model model = load_model(entry.path().string(), source);
    const Graph graph = graph_of(model);
    CHECK(graph.precision == Precision::bf16);
    for (const Parameter& p : graph.parameters) {
      INFO(entry.path().filename().string() << ": " << p.name);
      const bool is_vector = p.shape.rank == 1 && !p.name.ends_with("cls_token");
      const Initial initial = is_bias(p.name) ? Initial::zeros
                              : is_vector ? (model.one_plus_norms ? Initial::zeros : Initial::ones)
                              : ends_branch(p.name) && !is_of_no_block(p.name)
                                  ? Initial::residual_normal
                                  : Initial::normal;
      CHECK(static_cast<int>(p.initial) == static_cast<int>(initial));
      CHECK(p.decay == !is_vector);
      CHECK(p.dtype == Dtype::bf16);
      CHECK(p.trainable);
    }
  }
}
