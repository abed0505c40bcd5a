// Tests the graphs of BART and T5, and the values of their configurations that are supported.
#include <algorithm>
#include <cmath>

#include "models/program/graph/graph.h"
#include "models/program/graph/relative.h"
#include "tests/models/imported.h"

using namespace meshwright::tests;
using nlohmann::json;

TEST_CASE("BART drops activations where its configuration says so", "[models][importers]") {
  const auto dropouts = [](double rate) {
    json config = config_of("bart-base");
    config["activation_dropout"] = rate;
    Training training = training_of(2, 16);
    training.dropout = 0.1;
    const Graph graph = build_graph(theirs(config), training);
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Node& node) { return node.op == Op::dropout; });
  };
  CHECK(dropouts(0.1) == dropouts(0) + 12);  // one in each block of encoder and decoder
  CHECK(load_model("bart-base", source).activation_dropout);
  CHECK(error_with("bart-base", "activation_dropout", -0.1) ==
        "config.json: /activation_dropout: must be from 0 to below 1");
}

TEST_CASE("a decoder attends to all of the encoder's output", "[models][importers]") {
  const Graph graph = graph_of(load_model("bart-base", source));
  CHECK(graph.units[7].path == "model.decoder.embed_tokens");
  CHECK(graph.units[8].path == "model.decoder.layers.0");
  CHECK(users(graph, parameter(graph, "model.shared.weight").tensor) == 3);  // the head is tied
  CHECK(parameter(graph, "model.decoder.embed_positions.weight").global_shape == Shape{1026, 768});
  int causal = 0, encoded = -1;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::attention) causal += node.attributes.causal ? 1 : 0;
    if (graph.unit_of(node) == 6) encoded = node.outputs[0];  // the encoder's last norm
  }
  CHECK(causal == 6);
  CHECK(users(graph, encoded) == 2 * 6);  // keys and values
  CHECK(error_with("bart-base", "decoder_layers", 3) ==
        "config.json: /decoder_layers: 3 is not encoder_layers 6: unlike stacks are not built; use "
        "6");
  CHECK(error_with("bart-base", "scale_embedding", true) ==
        "config.json: /scale_embedding: true: embeddings that are scaled are not built; set it to "
        "false");
  CHECK(error_with("bart-base", "architectures", {"BartForQuestionAnswering"}) ==
        "config.json: /architectures: BartForQuestionAnswering: only the language model's head is "
        "built for it");
  CHECK(error_with("bart-base", "decoder_start_token_id", 50265) ==
        "config.json: /decoder_start_token_id: 50265 is not in the vocabulary; use 0 to 50264");
  CHECK(ours(R"({"family": "seq2seq", "hidden": 64, "layers": 2, "heads": 4, "vocab": 9,
                 "positions": 8, "decoder_start": 1})")
            .decoder_start == 1);
}

TEST_CASE("all blocks of a T5 stack share a table of relative positions", "[models][importers]") {
  const Graph graph = graph_of(load_model("t5-small", source));
  CHECK(graph.units[7].path == "encoder.final_layer_norm");
  CHECK(graph.units[8].path == "decoder.embed_tokens");
  CHECK(graph.units[15].path == "decoder.final_layer_norm");
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string block = stack + ".block.0.layer.";
    const Parameter& table =
        parameter(graph, block + "0.SelfAttention.relative_attention_bias.weight");
    CHECK(table.global_shape == Shape{32, 8});
    CHECK(table.cut.dim == 1);  // a column for each head
    CHECK(users(graph, table.tensor) == 6);
    CHECK_FALSE(has_parameter(graph, block + "0.SelfAttention.q.bias"));
  }
  CHECK_FALSE(
      has_parameter(graph, "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
  CHECK(has_parameter(graph, "encoder.block.0.layer.1.DenseReluDense.wi.weight"));
  CHECK(has_parameter(graph, "decoder.block.5.layer.1.EncDecAttention.o.weight"));
  CHECK(has_parameter(graph, "decoder.block.5.layer.2.DenseReluDense.wo.weight"));
  int causal = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::attention) continue;
    CHECK_FALSE(node.attributes.scaled_scores);
    causal += node.attributes.causal ? 1 : 0;
  }
  CHECK(causal == 6);
  CHECK(nodes_of(graph, Op::scale) == 1);  // before the tied head
  const Node& scale = *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [](const Node& node) { return node.op == Op::scale; });
  CHECK(scale.attributes.factor == Approx(1 / std::sqrt(512.0)));

  const Graph gated = graph_of(load_model("t5-v1_1-small", source));
  CHECK(parameter(gated, "decoder.block.0.layer.2.DenseReluDense.wi_1.weight").global_shape ==
        Shape{1024, 512});
  CHECK(parameter(gated, "encoder.block.7.layer.0.SelfAttention.q.weight").global_shape ==
        Shape{384, 512});  // 6 heads of 64
  CHECK(has_parameter(gated, "lm_head.weight"));
  CHECK(nodes_of(gated, Op::scale) == 0);
}

// The expected values are those of transformers' T5Attention._relative_position_bucket for 32
// buckets and the distance 128. They say from which distance on a bucket is used.
TEST_CASE("buckets of relative positions are T5's", "[models][importers]") {
  Attributes a;
  a.relative_buckets = 32;
  a.relative_distance = 128;
  const auto check = [&](const std::vector<int>& begins, int sign, int first) {
    std::size_t bucket = 0;
    for (int distance = 0; distance < 300; ++distance) {
      while (bucket + 1 < begins.size() && distance >= begins[bucket + 1]) ++bucket;
      INFO(sign * distance);
      if (distance > 0 || first == 0)
        CHECK(relative_bucket(a, sign * distance) == first + static_cast<int>(bucket));
    }
  };
  a.causal = false;
  const std::vector<int> both = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  check(both, -1, 0);
  check(both, 1, 16);
  a.causal = true;
  check({0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
         16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113},
        -1, 0);
  CHECK(relative_bucket(a, 5) == 0);  // masked
}

TEST_CASE("errors of T5's config.json", "[models][importers]") {
  CHECK(error_with("t5-small", "num_decoder_layers", 5) ==
        "config.json: /num_decoder_layers: 5 is not num_layers 6: unlike stacks are not built; use "
        "6");
  CHECK(error_with("t5-small", "num_layers", nullptr) ==
        "config.json: /num_layers: missing; it is required (an integer)");
  CHECK(error_with("t5-small", "feed_forward_proj", "gated-silu") ==
        "config.json: /feed_forward_proj: unknown feed_forward_proj 'gated-silu'; known: relu and "
        "gated-gelu");
  CHECK(error_with("t5-small", "relative_attention_num_buckets", 3) ==
        "config.json: /relative_attention_num_buckets: 3 is out of range; use 4 to 1048576");
  CHECK(error_with("t5-small", "relative_attention_max_distance", 16) ==
        "config.json: /relative_attention_max_distance: 16 is out of range; use 17 to 1048576");
  CHECK(error_with("t5-small", "d_kv", 0) ==
        "config.json: /d_kv: 0 is out of range; use 1 to 4096");
  CHECK(error_with("t5-small", "scale_decoder_outputs", false) ==
        "config.json: /scale_decoder_outputs: false: a tied head without the scale is not built; "
        "set it to true, or tie_word_embeddings to false");
  CHECK(error_with("t5-v1_1-small", "scale_decoder_outputs", false) == "");
  CHECK(error_with("t5-small", "architectures", {"T5ForQuestionAnswering"}) ==
        "config.json: /architectures: T5ForQuestionAnswering: only the language model's head is "
        "built for it");
}
