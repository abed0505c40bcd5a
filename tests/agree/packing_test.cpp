// Checks that packed rows of several documents train as the documents do by themselves, however the
// training is split.
#include <map>
#include <string>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

constexpr int steps_of_rows = 4;

void packs(Plan& plan) {
  plan.training.packing = true;
  plan.training.documents_per_row = 3;
}

constexpr Variant packed_variants[] = {
    {{1, 1, 1}, all_of<packs, pruned>},
    {{1, 1, 1}, all_of<packs, eager, unfused>},
    {{1, 1, 1}, all_of<packs, full>},
    {{2, 1, 1}, packs},
    {{2, 1, 1}, all_of<packs, zero_bubble, pruned>},
    {{2, 1, 1}, all_of<packs, full>},
    {{2, 1, 1, 4, 0, 2}, packs},
    {{2, 1, 1, 4, 0, 2}, all_of<packs, zero_bubble_v, full>},
    {{2, 1, 1, 4, 0, 2}, all_of<packs, dualpipe_v>},
    {{1, 2, 1}, packs},
    {{1, 2, 1}, all_of<packs, rows, full, pruned>},
    {{1, 2, 1}, all_of<packs, eager, unfused>},
    {{1, 2, 1}, all_of<packs, layout_of<TensorLayout::speed>, rows>},
    {{1, 2, 1}, all_of<packs, layout_of<TensorLayout::memory>>},
    {{1, 2, 1}, all_of<packs, own_batches>},
    {{2, 2, 1}, all_of<packs, own_batches>},
    {{1, 2, 1}, all_of<packs, layout_of<TensorLayout::memory>, own_batches, full>},
    {{1, 1, 2}, all_of<packs, budget<50>>},
    {{1, 1, 2, 4, 2}, all_of<packs, pruned>},
    {{1, 1, 2, 4, 3}, packs},
    {{1, 1, 1, 4, 0, 1, 2}, packs},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<packs, gathers, pruned>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<packs, heads_exchanged>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<packs, heads_exchanged, unfused, full>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<packs, two_exchanges>},
    {{2, 1, 1, 4, 0, 1, 2}, all_of<packs, heads_exchanged, zero_bubble>},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<packs, heads_exchanged, own_batches>},
    {{2, 2, 1}, all_of<packs, rows, tensor_overlaps>},
    {{1, 1, 2, 2, 3, 1, 2}, all_of<packs, full>},
    {{4, 1, 1}, packs},
};

// Returns lines with documents of 2 to 10 tokens. The first 1 to 5 are the prompt, and the rest, 1
// to 5, is learned.
std::string documents() {
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    const auto letters = [&](int first, int count) {
      std::string part;
      for (int k = 0; k < count; ++k)
        part += "\\u000" + std::to_string(1 + (first + k) * (i + 1) % 7);
      return part;
    };
    lines += "{\"prompt\": \"" + letters(i, 1 + i % 5) + "\", \"completion\": \"" +
             letters(2 * i, 1 + i * i % 6) + "\"}\n";
  }
  return lines;
}

Loader loader_of(const std::string& path, const Model& model, const Plan& plan) {
  LoaderOptions options;
  options.files = {path};
  options.format = TokenFormat::pairs;
  options.sequence_length = plan.training.sequence_length;
  options.vocabulary = model.vocabulary;
  options.packing = plan.training.packing;
  options.global_batch = plan.training.global_batch;
  return Loader(options);
}

Plan plain_steps(const Model& model) {
  Plan plan = base_plan(model, {});
  plan.training.optimizer = OptimizerKind::sgd;
  plan.training.momentum = plan.training.weight_decay = plan.training.gradient_clip = 0;
  plan.training.learning_rate = 1;
  plan.training.global_batch = plan.training.micro_batch = 1;
  return plan;
}

using Moves = std::map<std::string, std::vector<double>>;

// Adds how far one step on the sequence at a position moves the parameters, which is minus the
// gradient.
void add_moves(const Model& model, const Plan& plan, Loader& loader, std::int64_t position,
               double share, double& loss, Moves& moves) {
  SmallRun run(model, plan);
  const Values before = run.parameters();
  loss += share * run.runtime.step(1, position, loader).loss;
  for (const auto& [name, values] : run.parameters()) {
    std::vector<double>& sum = moves[name];
    sum.resize(values.size());
    for (std::size_t k = 0; k < values.size(); ++k)
      sum[k] += share * (double(values[k]) - before.at(name)[k]);
  }
}

double norm_of(const Moves& moves) {
  double squares = 0;
  for (const auto& [name, values] : moves)
    for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

void check_rows_are_documents(const Model& model, const Plan& alone) {
  const TestFolder folder;
  const std::string path = folder.file("pairs.jsonl", documents());
  Plan packed = alone;
  packed.training.packing = true;
  Loader in_rows = loader_of(path, model, packed), by_themselves = loader_of(path, model, alone);
  REQUIRE(in_rows.sequences() < by_themselves.sequences());
  const auto counted = static_cast<double>(in_rows.counted_targets(0, in_rows.sequences()).value());
  REQUIRE(counted ==
          static_cast<double>(by_themselves.counted_targets(0, by_themselves.sequences()).value()));
  double loss = 0, expected_loss = 0;
  Moves moves, expected;
  const auto add_all = [&](const Plan& plan, Loader& loader, double& sum, Moves& into) {
    for (std::int64_t i = 0; i < loader.sequences(); ++i)
      add_moves(model, plan, loader, i,
                static_cast<double>(loader.counted_targets(i, 1).value()) / counted, sum, into);
  };
  add_all(packed, in_rows, loss, moves);
  add_all(alone, by_themselves, expected_loss, expected);
  CHECK(loss == Approx(expected_loss).epsilon(1e-6));
  Moves difference = moves;
  for (auto& [name, values] : difference)
    for (std::size_t k = 0; k < values.size(); ++k) values[k] -= expected.at(name)[k];
  CHECK(norm_of(expected) > 0);
  CHECK(norm_of(difference) <= 1e-5 * norm_of(expected));
}

}  // namespace

TEST_CASE("a row has the loss and the gradients of its documents", "[agree]") {
  // The families have learned positions, rotary positions and distances of keys. A local window
  // ends at the document's begin.
  for (const char* family : {"gpt", "llama", "bloom"})
    for (const CompilerLevel level :
         {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
      Model model = small_model(family);
      Plan plan = plain_steps(model);
      plan.training.compiler = level;
      if (level == CompilerLevel::none) plan.training.attention = AttentionKernel::unfused;
      if (std::string(family) == "llama" && level == CompilerLevel::full) model.local_window = 3;
      INFO(family << ", compiler " << static_cast<int>(level));
      check_rows_are_documents(model, plan);
    }
}

TEST_CASE_ON_RANKS("packed rows are learned alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  const TestFolder folder;
  const std::string path = folder.file("pairs.jsonl", documents());
  for_each_variant(packed_variants, world, [&](const Model& model, Plan plan) {
    plan.training.steps = steps_of_rows;
    for (const bool of_file : {false, true}) {
      SmallRun alone(model, on_one_process(plan)), run(model, plan, world);
      if (of_file) {
        alone.loader = loader_of(path, model, alone.plan);
        run.loader = loader_of(path, model, plan);
      }
      const Trained expected = train(alone), got = train(run);
      compare_losses(got, expected);
      if (world.rank() == 0) compare_each(got, expected);
      CHECK(run.runtime.evaluate(8, run.loader).mean() ==
            Approx(alone.runtime.evaluate(8, alone.loader).mean()).epsilon(1e-5));
    }
  });
}
