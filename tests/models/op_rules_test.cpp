// Tests the table of operations by its columns: for each property, the operations that have it.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "models/program/graph/op_table.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Names = std::set<std::string>;

template <class Property>
Names those_that(Property has) {
  Names names;
  for (const OpInfo& row : op_table())
    if (has(row)) names.emplace(row.name);
  return names;
}

// Returns the words of a text, which blanks separate.
Names words(const std::string& text) {
  Names names;
  std::string word;
  for (const char c : text + ' ')
    if (c != ' ')
      word += c;
    else if (!word.empty())
      names.insert(std::exchange(word, {}));
  return names;
}

const std::string activations = "gelu relu squared_relu swiglu ",
                  activation_gradients = "gelu_grad relu_grad squared_relu_grad swiglu_grad ";

}  // namespace

TEST_CASE("properties that passes ask for belong to the listed operations", "[ops]") {
  CHECK(those_that([](const OpInfo& row) { return row.of_scores; }) ==
        words("tanh tanh_grad attention attention_grad scale scores add_alibi mask_scores softmax "
              "softmax_grad drop_probabilities drop_probabilities_grad add_relative_bias "
              "weigh_transposed"));
  CHECK(those_that([](const OpInfo& row) { return row.makes_8_bits; }) ==
        words(activations + activation_gradients + "layer_norm rms_norm"));
  CHECK(those_that([](const OpInfo& row) { return row.overwrites_sums; }) ==
        words("linear_grad_weight expert_linear_grad_weight bias_grad layer_norm_grad "
              "rms_norm_grad head_norm_grad norm_parts_sums scale_columns_grad segment_grad"));
  CHECK(those_that([](const OpInfo& row) { return row.makes_input_gradient; }) ==
        words("linear_grad_input expert_linear_grad_input add columns_to_parts parts_to_columns"));
  CHECK(those_that([](const OpInfo& row) { return row.in_place; }) ==
        words("gelu relu squared_relu tanh gelu_grad relu_grad squared_relu_grad tanh_grad scale "
              "multiply add dropout dropout_grad"));
  CHECK(those_that([](const OpInfo& row) { return row.begins_backward; }) ==
        words("cross_entropy cross_entropy_stats cross_entropy_combine stats_gather span_loss "
              "nll_loss segment segment_loss"));
  CHECK(those_that([](const OpInfo& row) { return row.takes_loss_scale; }) ==
        words("cross_entropy_grad span_loss_grad nll_loss_grad route_grad segment_loss_grad"));
}

TEST_CASE("products and losses run on long blocks, elementwise operations behind products",
          "[ops]") {
  const std::string by_product =
      "linear linear_grad_input linear_grad_weight cross_entropy cross_entropy_grad ";
  const std::string behind =
      "gelu relu squared_relu gelu_grad relu_grad squared_relu_grad scale multiply add add_bias "
      "bias_grad ";
  const std::string counting = "dropout dropout_grad add_position ";
  CHECK(those_that([](const OpInfo& row) { return row.rows.product; }) == words(by_product));
  CHECK(those_that([](const OpInfo& row) { return row.rows.epilogue; }) == words(behind));
  CHECK(those_that([](const OpInfo& row) { return row.rows.counts_positions; }) == words(counting));
  CHECK(those_that([](const OpInfo& row) { return bool(row.rows); }) ==
        words(by_product + behind + counting +
              "tanh tanh_grad swiglu swiglu_grad layer_norm layer_norm_grad rms_norm "
              "rms_norm_grad add_row add_row_grad"));
}

TEST_CASE("more bytes are moved by the listed operations of frameworks", "[ops]") {
  const auto with = [](Traffic traffic) {
    return those_that([=](const OpInfo& row) { return row.traffic == traffic; });
  };
  CHECK(with(Traffic::scores) ==
        words("attention attention_grad add_alibi mask_scores softmax softmax_grad "
              "drop_probabilities drop_probabilities_grad"));
  CHECK(with(Traffic::loss) == words("cross_entropy cross_entropy_stats cross_entropy_grad "
                                     "log_softmax log_softmax_grad nll_loss nll_loss_grad"));
  CHECK(with(Traffic::quantized) == words("amax quantize transpose widen_weights"));
}

TEST_CASE("tensor parallelism cuts the listed operations by each rule", "[ops]") {
  const auto split = [](SplitRule rule) {
    return those_that([=](const OpInfo& row) { return row.split == rule; });
  };
  CHECK(split(SplitRule::rows) == words("layer_norm rms_norm add_position add_row add_bias"));
  CHECK(split(SplitRule::linear) == words("linear"));
  CHECK(split(SplitRule::heads) == words("rope concat_heads attention head_norm"));
  CHECK(split(SplitRule::elements) ==
        words(activations + "clamped_swiglu tanh add dropout gate_rows scale multiply"));
  CHECK(split(SplitRule::vocabulary) == words("embedding cross_entropy"));
  CHECK(split(SplitRule::whole) == words("select_positions image_patches span_loss"));
  CHECK(split(SplitRule::experts) ==
        words("route dispatch expert_linear add_expert_bias combine scale_rows"));
  CHECK(split(SplitRule::first) == words("prepend_row"));
}

TEST_CASE("the listed operations communicate, each with its group", "[ops]") {
  using Over = Communication::Over;
  using What = Communication::What;
  const std::map<std::string, std::pair<Over, What>> wanted{
      {"tensor_reduce", {Over::tensor, What::sum}},
      {"tensor_maximum", {Over::tensor, What::maximum}},
      {"sequence_gather", {Over::tensor, What::gather}},
      {"sequence_scatter", {Over::tensor, What::scatter}},
      {"stats_gather", {Over::tensor, What::gather}},
      {"context_shift", {Over::context, What::shift}},
      {"context_gather", {Over::context, What::gather}},
      {"context_scatter", {Over::context, What::scatter}},
      {"context_exchange", {Over::context, What::exchange}},
      {"expert_exchange", {Over::expert, What::exchange}}};
  std::map<std::string, std::pair<Over, What>> found;
  for (const OpInfo& row : op_table())
    if (row.communication)
      found[std::string(row.name)] = {row.communication.over, row.communication.what};
  CHECK(found == wanted);
}

// Operations that are widened from 16 bits as a whole are not listed. Each of them has either a
// kernel of its own for 16 bits, or no kernel at all.
TEST_CASE("devices without 16-bit arithmetic widen the listed operands of an operation", "[ops]") {
  using How = WidenRule::How;
  struct Cut {
    std::uint32_t inputs, outputs;
    bool operator==(const Cut&) const = default;
  };
  const auto names_of = [](How how) {
    return those_that([=](const OpInfo& row) { return row.widening.how == how; });
  };
  CHECK(names_of(How::product) == words("linear linear_grad_input linear_grad_weight"));
  CHECK(names_of(How::expert_product) ==
        words("expert_linear expert_linear_grad_input expert_linear_grad_weight"));
  CHECK(names_of(How::by_optimizer) ==
        words("update_loss_scale lamb_norms muon_momentum adafactor_sums adafactor_norms "
              "update_choice_biases"));
  CHECK(names_of(How::moves) ==
        words("zero update_largest sequence_slice parts_to_sequence sequence_to_parts split_heads "
              "join_heads embedding select_positions prepend_row dispatch count_choices "
              "transpose widen_weights"));
  CHECK(those_that([](const OpInfo& row) { return row.widening.counts_positions; }) ==
        words("add_position add_position_grad"));
  const auto cut = [&](How how, Cut operands) {
    return those_that([=](const OpInfo& row) {
      return row.widening.how == how && Cut{row.widening.inputs, row.widening.outputs} == operands;
    });
  };
  CHECK(cut(How::sequences, {0b1, 0b1}) ==
        words("rope rope_grad times_cosine times_sine add_alibi drop_probabilities "
              "drop_probabilities_grad add_relative_bias add_position image_patches "
              "prepend_row_grad"));
  CHECK(cut(How::sequences, {0b1, 0}) == words("relative_bias_grad add_position_grad"));
  CHECK(cut(How::sequences, {0b11, 0b1}) ==
        words("scores weigh_values weigh_transposed select_positions_grad"));
  CHECK(cut(How::sequences, {0b111, 0b11}) == words("attention"));
  CHECK(cut(How::sequences, {0b111111, 0b111}) == words("attention_grad"));
  CHECK(names_of(How::sequences).size() == 11 + 2 + 4 + 1 + 1);
  CHECK(cut(How::rows, {0b1, 0}) == words("sum_of_squares add_row_grad bias_grad"));
  CHECK(cut(How::rows, {0b11, 0}) == words("scale_columns_grad embedding_grad"));
  CHECK(cut(How::rows, {0b1, 0b11}) == words("layer_norm rms_norm head_norm concat_heads_grad"));
  CHECK(cut(How::rows, {0b1101, 0b1}) == words("layer_norm_grad rms_norm_grad"));
  CHECK(cut(How::rows, {0b111, 0b1}) == words("head_norm_grad cross_entropy_grad"));
  CHECK(cut(How::rows, {0b111, 0b11}) == words("swiglu_grad clamped_swiglu_grad gate_rows_grad"));
  CHECK(cut(How::rows, {0b11, 0b11}) == words("cross_entropy"));
  CHECK(cut(How::rows, {0b11, 0b1}) ==
        words("swiglu clamped_swiglu gelu_grad relu_grad squared_relu_grad tanh_grad add multiply "
              "scale_rows gate_rows nll_loss cube_grad silu_grad mean_of_squares_grad "
              "inverse_root_grad row_dots softmax_grad log_softmax_grad nll_loss_grad "
              "concat_heads"));
  CHECK(cut(How::rows, {0b1, 0b1}) ==
        words("gelu relu squared_relu tanh add_bias add_row scale add_constant cube silu "
              "mean_of_squares inverse_root scale_columns rotate_half rotate_half_grad "
              "mask_scores softmax log_softmax"));
  CHECK(names_of(How::rows).size() == 3 + 2 + 4 + 2 + 2 + 3 + 1 + 20 + 18);
}

// The numbers are those of the signatures in op.h. "2-3" has an operand that may be missing.
TEST_CASE("operations have the numbers of operands that their signatures name", "[ops]") {
  const auto range = [](Count count) {
    const std::string least = std::to_string(count.least);
    if (count.most == Count::any) return least + "-";
    return count.least == count.most ? least : least + "-" + std::to_string(count.most);
  };
  std::map<std::string, Names> found;
  for (const OpInfo& row : op_table())
    found[range(row.takes) + " to " + range(row.makes)].emplace(row.name);
  std::map<std::string, Names> wanted{
      {"0 to 0-", words("zero")},
      {"0- to 0-", words("segment_grad")},
      {"0- to 1-", words("segment")},
      {"1- to 0-", words("fused")},
      {"1 to 1-2", words("amax")},
      {"1 to 1-3", words("split_heads")},
      {"1 to 2", words("concat_heads_grad cross_entropy_combine prepend_row_grad "
                       "update_loss_scale")},
      {"1-2 to 1", words("rope rope_grad context_pack mask_scores add_position_grad "
                         "count_choices expert_bias_grad segment_loss_grad")},
      {"1-2 to 1-2", words("context_unpack")},
      {"1-2 to 2", words("head_norm")},
      {"1-2 to 3-4", words("route")},
      {"1-3 to 1", words("join_heads")},
      {"1-3 to 2-5", words("quantize")},
      {"1-5 to 2", words("attention")},
      {"2 to 2", words("rms_norm cross_entropy span_loss update_largest")},
      {"2-3 to 1", words("add_position add_expert_bias combine nll_loss_grad adafactor_sums")},
      {"2-3 to 2", words("layer_norm update_choice_biases")},
      {"2-5 to 2", words("context_attention")},
      {"2-6 to 1", words("expert_linear expert_linear_grad_input expert_linear_grad_weight "
                         "linear_grad_input linear_grad_weight")},
      {"2-7 to 1", words("linear")},
      {"3 to 2", words("swiglu_grad clamped_swiglu_grad gate_rows_grad")},
      {"3-4 to 1", words("cross_entropy_grad span_loss_grad")},
      {"3-4 to 1-2", words("head_norm_grad")},
      {"3-4 to 2", words("norm_parts muon_momentum")},
      {"3-5 to 1-2", words("route_grad")},
      {"4 to 1-2", words("rms_norm_grad")},
      {"4 to 1-3", words("layer_norm_grad norm_parts_sums")},
      {"4 to 2", words("combine_grad")},
      {"4-6 to 2-3", words("lamb_norms")},
      {"4-7 to 2-3", words("adafactor_norms")},
      {"4-8 to 1-4", words("attention_grad")},
      {"5 to 1", words("norm_parts_grad")},
      {"5-8 to 2-3", words("context_attention_grad")},
      {"2 to 1",
       words("embedding add_row concat_heads swiglu clamped_swiglu add select_positions "
             "cross_entropy_stats dispatch gate_rows multiply scale_rows scale_columns scores "
             "weigh_values nll_loss add_relative_bias add_bias prepend_row embedding_grad "
             "select_positions_grad dispatch_grad gelu_grad relu_grad squared_relu_grad tanh_grad "
             "cube_grad silu_grad mean_of_squares_grad inverse_root_grad row_dots "
             "scale_columns_grad weigh_transposed softmax_grad log_softmax_grad")},
  };
  found.erase("1 to 1");  // all operations that are not listed
  CHECK(found == wanted);
}
