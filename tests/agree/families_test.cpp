// Checks that models of further families train alike under all degrees.
#include "tests/agree/variants.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"
#include "tests/message_of.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

Model golden_model(const std::string& name) {
  Model model =
      load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + name, "/");
  model.layers = 4;
  return model;
}

Plan plan_of(const Model& model, SmallDegrees degrees) {
  Plan plan = base_plan(model, degrees);
  plan.training.optimizer = OptimizerKind::sgd;
  if (model.reads_images()) plan.training.sequence_length = model.positions;
  return plan;
}

void whole_parameters(Plan& plan) { plan.parallelism.shard_whole = true; }
void offloads(Plan& plan) { plan.parallelism.offload = Offload::activations; }
void large_buckets(Plan& plan) { plan.parallelism.reduce_bucket_bytes = 1 << 20; }
void lamb(Plan& plan) { plan.training.optimizer = OptimizerKind::lamb; }

// Variants for a model whose layers share all parameters, which are split, sharded and copied to
// several stages.
constexpr Variant shared_layers[] = {{{1, 2, 1}, layout_of<TensorLayout::speed>},
                                     {{1, 2, 1}, layout_of<TensorLayout::memory>},
                                     {{1, 2, 1}, all_of<own_batches, full>},
                                     {{1, 1, 2, 2, 1}, whole_parameters},
                                     {{2, 1, 1}, zero_bubble},
                                     {{2, 1, 1}, gpipe},
                                     {{2, 1, 1}, lamb},
                                     {{2, 1, 2, 4, 1}, whole_parameters},
                                     {{2, 2, 1}, layout_of<TensorLayout::memory>},
                                     {{2, 2, 1}, all_of<rows, lamb>},
                                     {{4, 1, 1}, zero_bubble},
                                     {{4, 1, 1}, full},
                                     {{2, 1, 2, 4, 1, 2}, nothing},
                                     {{1, 1, 4, 1, 3}, in_pairs}};

// Variants for a model of images. The ranks of a tensor group have the patches whole and share the
// rows after them.
constexpr Variant images[] = {{{1, 2, 1}, layout_of<TensorLayout::speed>},
                              {{1, 2, 1}, all_of<own_batches, full>},
                              {{2, 1, 1}, zero_bubble},
                              {{2, 2, 1}, all_of<rows, layout_of<TensorLayout::speed>>},
                              {{2, 2, 1}, own_batches}};

template <int unit, int units = 11>
void cut_before(Plan& plan) {
  plan.stage_of_unit.assign(units, 1);
  std::fill_n(plan.stage_of_unit.begin(), unit, 0);
}

// Partitions `units` units into four stages. The template arguments are the first units of the
// second, third and fourth stage.
template <int units, int second, int third, int fourth>
void cut_in_four(Plan& plan) {
  plan.stage_of_unit.assign(units, 3);
  std::fill_n(plan.stage_of_unit.begin(), fourth, 2);
  std::fill_n(plan.stage_of_unit.begin(), third, 1);
  std::fill_n(plan.stage_of_unit.begin(), second, 0);
}

// Variants for an encoder and a decoder. Their units are an embedding, four blocks, another
// embedding (unit 5), four blocks and a head. A stage begins in the encoder, between the two, or in
// the decoder.
constexpr Variant decoders[] = {{{2, 1, 1}, cut_before<3>},
                                {{2, 1, 1}, cut_before<5>},
                                {{2, 1, 1}, cut_before<8>},
                                {{2, 1, 1}, all_of<cut_before<8>, full>},
                                {{2, 1, 1}, all_of<cut_before<3>, zero_bubble>},
                                {{2, 1, 1}, all_of<cut_before<8>, gpipe>},
                                {{1, 2, 1}, layout_of<TensorLayout::speed>},
                                {{1, 2, 1}, layout_of<TensorLayout::memory>},
                                {{1, 2, 1}, all_of<own_batches, full>},
                                {{1, 2, 1}, all_of<rows, selective, unfused>},
                                {{2, 2, 1}, cut_before<8>},
                                {{2, 2, 1}, all_of<rows, full, cut_before<8>>},
                                {{2, 2, 1}, all_of<layout_of<TensorLayout::memory>, cut_before<8>>},
                                {{2, 1, 1}, all_of<cut_before<8>, full, offloads>},
                                {{4, 1, 1}, cut_in_four<11, 3, 5, 8>},
                                {{4, 1, 1}, all_of<cut_in_four<11, 2, 4, 9>, zero_bubble>},
                                {{4, 1, 1}, all_of<cut_in_four<11, 1, 7, 9>, gpipe, full>},
                                {{4, 1, 1}, all_of<cut_in_four<11, 6, 7, 8>, drops>},
                                {{2, 1, 2, 4, 1, 2}, cut_in_four<11, 3, 5, 8>},
                                {{2, 1, 1, 4, 0, 2}, all_of<cut_in_four<11, 4, 6, 9>, full>},
                                {{2, 1, 1, 4, 0, 2}, all_of<cut_in_four<11, 3, 5, 8>, dualpipe_v>},
                                {{2, 1, 1, 4, 0, 3}, nothing},
                                {{4, 1, 1, 4, 0, 2}, nothing},
                                {{1, 1, 2}, all_of<full, offloads>},
                                {{2, 1, 2, 4, 3}, cut_before<8>},
                                {{1, 1, 4, 1, 3}, in_pairs}};

// Variants with dropout after the activation too, in which ranks have parts of the dropped tensor.
constexpr Variant dropped[] = {{{1, 2, 1}, all_of<rows, drops>},
                               {{1, 2, 1}, all_of<layout_of<TensorLayout::memory>, drops>},
                               {{1, 2, 1}, all_of<rows, pruned, drops>},
                               {{2, 1, 1}, all_of<cut_before<8>, eager, unfused, drops>},
                               {{2, 1, 1}, all_of<cut_before<8>, full, pruned, drops>}};

// Variants for T5, which has a norm after each stack, and whose blocks share a table of relative
// positions. Both stages use the table, even if one of them has only one block of a stack.
template <int unit>
constexpr Change t5_before = cut_before<unit, 13>;
constexpr Variant relative_positions[] = {
    {{2, 1, 1}, t5_before<2>},
    {{2, 1, 1}, t5_before<6>},
    {{2, 1, 1}, t5_before<10>},
    {{2, 1, 1}, all_of<t5_before<9>, full>},
    {{2, 1, 1}, all_of<t5_before<3>, zero_bubble>},
    {{2, 1, 1}, all_of<t5_before<9>, eager, unfused, drops>},
    {{1, 2, 1}, layout_of<TensorLayout::speed>},
    {{1, 2, 1}, layout_of<TensorLayout::memory>},
    {{1, 2, 1}, all_of<own_batches, full>},
    {{1, 2, 1}, all_of<rows, selective, unfused>},
    {{1, 2, 1}, all_of<eager, unfused, rows, drops>},
    {{1, 2, 1}, pruned},
    {{1, 1, 2, 2, 3}, all_of<eager, unfused, selective>},
    {{1, 1, 2, 2, 2}, pruned},
    {{1, 1, 2}, budget<50>},
    {{2, 2, 1}, all_of<rows, full, t5_before<9>>},
    {{2, 2, 1}, all_of<layout_of<TensorLayout::memory>, t5_before<3>>},
    {{2, 1, 2, 4, 3}, all_of<t5_before<2>, large_buckets>},
    {{2, 1, 2, 4, 2}, t5_before<10>},
    {{2, 1, 2, 4, 1}, all_of<t5_before<9>, pruned>},
    {{4, 1, 1}, cut_in_four<13, 3, 6, 9>},
    {{4, 1, 1}, all_of<cut_in_four<13, 1, 3, 10>, pruned, drops>},
    {{4, 1, 1}, all_of<cut_in_four<13, 4, 8, 12>, eager, unfused>},
    {{2, 1, 2, 4, 2, 2}, cut_in_four<13, 3, 6, 9>},
    {{2, 1, 1, 4, 0, 2}, all_of<cut_in_four<13, 3, 7, 9>, zero_bubble_v>},
    {{2, 1, 1, 4, 0, 2}, cut_in_four<13, 4, 8, 11>},
    {{2, 1, 2, 4, 1, 3}, pruned},
    {{4, 1, 1, 4, 0, 2}, full},
    {{1, 1, 4, 1, 3}, in_pairs}};

// Variants for an MLP with a product of two branches, and a head that is not tied.
constexpr Variant gated[] = {{{1, 2, 1}, layout_of<TensorLayout::speed>},
                             {{1, 2, 1}, all_of<layout_of<TensorLayout::memory>, drops>},
                             {{1, 2, 1}, all_of<rows, pruned, drops>},
                             {{2, 1, 1}, all_of<t5_before<9>, eager>}};

// Variants for decoders newer than Llama, with norms of queries and keys, windows, grouped keys or
// scaled embeddings.
constexpr Variant newer[] = {{{1, 2, 1}, nothing},
                             {{1, 2, 1}, all_of<rows, selective, unfused>},
                             {{1, 2, 1}, layout_of<TensorLayout::speed>},
                             {{1, 2, 1}, layout_of<TensorLayout::memory>},
                             {{1, 2, 1}, all_of<own_batches, full>},
                             {{1, 2, 1}, all_of<eager, unfused>},
                             {{1, 2, 1}, pruned},
                             {{2, 1, 1}, all_of<zero_bubble, full>},
                             {{1, 1, 2, 2, 3}, full},
                             {{1, 1, 1, 4, 0, 1, 2}, nothing},
                             {{1, 1, 1, 4, 0, 1, 2}, all_of<gathers, full>},
                             {{2, 2, 1}, all_of<rows, pruned>},
                             {{1, 2, 1, 4, 0, 1, 2}, rows},
                             {{2, 1, 2, 4, 2, 2}, nothing}};

// Variants in which each rank of a context group has some of the heads.
constexpr Variant exchanged[] = {{{1, 1, 1, 4, 0, 1, 2}, heads_exchanged},
                                 {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, full, pruned>},
                                 {{1, 1, 1, 4, 3, 1, 2}, all_of<heads_exchanged, drops>},
                                 {{2, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, selective>},
                                 {{1, 2, 1, 4, 0, 1, 2}, all_of<heads_exchanged, rows>},
                                 {{1, 1, 1, 4, 0, 1, 4}, heads_exchanged},
                                 {{1, 1, 1, 4, 0, 1, 4}, two_exchanges},
                                 {{1, 1, 1, 4, 3, 1, 4}, all_of<two_exchanges, drops, full>}};

constexpr SmallDegrees cases[] = {
    {1, 1, 2},       {1, 2, 1},       {2, 1, 1},       {1, 1, 2, 2, 1}, {1, 1, 2, 2, 2},
    {1, 1, 2, 2, 3}, {2, 2, 1},       {2, 1, 2},       {1, 2, 2, 2, 1}, {2, 1, 2, 4, 1},
    {2, 1, 2, 4, 2}, {2, 1, 2, 4, 3}, {1, 2, 2, 2, 3}, {1, 4, 1}};

}  // namespace

TEST_CASE_ON_RANKS("further families train alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  int turn = 0;
  for (const char* name : {"distilbert", "albert", "vit", "bart", "t5", "t5-v1_1"}) {
    ++turn;
    for (const SmallDegrees& degrees : cases) {
      if (ranks_of(degrees) != world.size()) continue;
      ++turn;
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        if (!is_tried(++turn, 2)) continue;
        const Model model = golden_model(name);
        Plan plan = plan_of(model, degrees);
        plan.training.recompute = recompute;
        plan.parallelism.sequence_parallel = degrees.tensor > 1 && degrees.pipeline > 1;
        INFO(name << " " << describe(plan));
        check_plan(model, plan, world);
      }
    }
  }
}

TEST_CASE_ON_RANKS("decoders after Llama train alike", "[agree][mpi]") {
  World& world = test_world();
  int first = 0;
  for (const char* name : {"qwen2", "starcoder2", "stablelm", "stablelm-parallel", "opt", "phi3",
                           "gemma", "gemma2", "olmo2", "qwen3", "nemotron", "falcon-40b",
                           "falcon-serial", "cohere", "mistral", "llama-3.1"}) {
    int turn = ++first;
    for (const Variant& variant : newer) {
      if (!is_tried(++turn, 3) || ranks_of(variant.degrees) != world.size()) continue;
      const Model model = golden_model(name);
      Plan plan = plan_of(model, variant.degrees);
      variant.change(plan);
      INFO(name << " " << describe(plan));
      check_plan(model, plan, world);
    }
  }
}

TEST_CASE_ON_RANKS("decoders whose heads are exchanged train alike", "[agree][mpi]") {
  World& world = test_world();
  int trained = 0;
  for (const char* name : {"gpt_neo", "bloom", "mpt", "falcon-40b", "gemma2", "gemma3", "qwen3",
                           "mistral", "stablelm"})
    for (const Variant& variant : exchanged) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      const Model model = golden_model(name);
      Plan plan = plan_of(model, variant.degrees);
      variant.change(plan);
      const Parallelism& p = plan.parallelism;
      if (model.kv_heads % (p.tensor * p.ranks_of_heads()) != 0) continue;
      INFO(name << " " << describe(plan));
      check_plan(model, plan, world);
      ++trained;
    }
  CHECK((world.size() == 1 || trained > 4));
}

// All heads share one key, which no degree splits.
TEST_CASE_ON_RANKS("multi-query decoders train alike under degrees that do not cut heads",
                   "[agree][mpi]") {
  World& world = test_world();
  for (const char* name : {"falcon", "gpt_bigcode"})
    for (const Variant& variant : newer) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      const Model model = golden_model(name);
      Plan plan = plan_of(model, variant.degrees);
      variant.change(plan);
      INFO(name << " " << describe(plan));
      if (variant.degrees.tensor == 1)
        check_plan(model, plan, world);
      else
        CHECK(message_of([&] { verify(plan, model.sizes()); }).find("kv_heads") !=
              std::string::npos);
    }
}

TEST_CASE_ON_RANKS("further families train alike in less usual ways", "[agree][mpi]") {
  const auto check_model = [&](const char* name, const Model& model,
                               std::span<const Variant> variants) {
    World& world = test_world();
    for (const Variant& variant : variants) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      Plan plan = plan_of(model, variant.degrees);
      variant.change(plan);
      INFO(name << " " << describe(plan));
      check_plan(model, plan, world);
    }
  };
  const auto check = [&](const char* name, std::span<const Variant> variants) {
    check_model(name, golden_model(name), variants);
  };
  check("albert", shared_layers);
  check("vit", images);
  check("bart", decoders);
  Model bart = golden_model("bart");
  bart.activation_dropout = true;
  check_model("bart", bart, dropped);
  check("t5", relative_positions);
  check("t5-v1_1", gated);
}
