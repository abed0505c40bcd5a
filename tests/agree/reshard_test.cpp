// Checks that a run that is saved under some degrees continues under any others. It compares three
// steps, a checkpoint and three more steps with six steps of one process. Equal degrees continue
// with the same bits.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/pieces.h"
#include "exec/checkpoint/resume.h"
#include "exec/checkpoint/saver.h"
#include "exec/comm/self.h"
#include "tests/agree/training.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/ranks_in_turn.h"
#include "tests/exec/small_run.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

constexpr int saved_steps = 3, all_steps = 6;

struct Cut {
  SmallDegrees degrees;
  bool rows = false;  // sequence parallelism
  int shard = 1;
  bool whole = false;  // parameters with owners
  std::int64_t persistence = 0;
  int expert = 1;
  OptimizerKind optimizer = OptimizerKind::adamw;
  Offload offload = Offload::none;
  int expert_tensor = 0;
};

Plan plan_of(const Model& model, const Cut& cut) {
  Plan plan = base_plan(model, cut.degrees);
  plan.parallelism.sequence_parallel = cut.rows;
  plan.parallelism.shard = cut.shard;
  plan.parallelism.shard_whole = cut.whole;
  plan.parallelism.persistence_threshold = cut.persistence;
  plan.parallelism.expert = cut.expert;
  plan.parallelism.expert_tensor = cut.expert_tensor;
  plan.parallelism.offload = cut.offload;
  plan.training.optimizer = cut.optimizer;
  if (cut.optimizer == OptimizerKind::muon) {
    plan.training.momentum = 0.95;
    plan.training.epsilon = 1e-3;  // of what AdamW steps: key biases stay where they are
  }
  plan.training.adafactor.eps1 = 1e-6;  // the same
  plan.snapshot = true;
  return plan;
}

// Returns the partitionings of `ranks` ranks that are tested.
std::vector<Cut> cuts(int ranks) {
  if (ranks == 2)
    return {{{.pipeline = 2}},
            {{.pipeline = 2, .virtual_stages = 2}},
            {{.tensor = 2}},
            {{.tensor = 2}, true},
            {{.data = 2}},
            {{.data = 2, .zero_stage = 1}},
            {{.data = 2, .zero_stage = 2}},
            {{.data = 2, .zero_stage = 3}},
            {{.data = 2, .zero_stage = 1}, false, 1, true},
            {.degrees = {.pipeline = 2}, .offload = Offload::optimizer},
            {.degrees = {.data = 2, .zero_stage = 1}, .offload = Offload::optimizer}};
  return {{{.pipeline = 4}},
          {{.tensor = 4}},
          {{.data = 4, .zero_stage = 3}},
          {{.data = 4, .zero_stage = 1}, false, 2},
          {{.pipeline = 2, .tensor = 2}, true},
          {{.pipeline = 2, .data = 2, .zero_stage = 2}},
          {{.pipeline = 2, .data = 2, .zero_stage = 1, .virtual_stages = 2}},
          {{.tensor = 2, .data = 2, .zero_stage = 3}},
          {{.tensor = 2, .data = 2}},
          {{.tensor = 2, .data = 2, .zero_stage = 1}, false, 1, true},
          {{.pipeline = 2, .data = 2, .zero_stage = 1}, false, 1, true},
          {{.data = 4, .zero_stage = 3}, false, 2, false, 100},
          {.degrees = {.tensor = 2, .data = 2, .zero_stage = 3}, .offload = Offload::optimizer}};
}

struct Run : SmallRun {
  Run(const Model& model_, const Plan& plan_, World& world)
      : SmallRun(model_, plan_, world), all(group_of_all(world)) {}
  std::vector<double> train(int first, int last) {
    std::vector<double> losses;
    for (int number = first; number <= last; ++number) losses.push_back(step(number).loss);
    return losses;
  }
  void save(const std::string& folder) {
    Saver saver(folder, 2, runtime, *all, [](const std::string& line) { FAIL(line); });
    Manifest about;
    about.run = "reshard";
    about.step = saved_steps;
    about.optimizer = optimizer();
    saver.save(about);
    CHECK(saver.finish());
  }
  void load(const std::string& folder) {
    const auto found = resume({folder, optimizer(), shapes_of(stages)}, runtime, *all,
                              [](const std::string& line) { FAIL(line); });
    REQUIRE(found);
    CHECK(found->step == saved_steps);
  }

  std::string optimizer() const {
    return optimizer_names()[static_cast<std::size_t>(plan.training.optimizer)];
  }

  const std::unique_ptr<Communicator> all;
};

std::string path_of_rank_0(const TestFolder& own, World& world) {
  std::string path = own.path();  // all have the same length
  group_of_all(world)->broadcast(path.data(), static_cast<std::int64_t>(path.size()), 0);
  return path;
}

void check_losses(const std::vector<double>& got, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == Approx(expected[saved_steps + i]).epsilon(1e-5));
}

void check_family(const std::string& family, const std::vector<Cut>& all, int stride) {
  const Model model = small_model(family);
  World& world = test_world();
  if (world.size() == 1) return;
  const TestFolder own;
  const std::string shared = path_of_rank_0(own, world);
  const auto one = make_self_world({});
  const Plan alone = plan_of(model, {.degrees = {}, .optimizer = all[0].optimizer});
  const std::vector<double> expected = Run(model, alone, *one).train(1, all_steps);
  const auto folder_of = [&](std::size_t cut) { return shared + "/" + std::to_string(cut); };
  std::map<std::size_t, std::vector<double>> undisturbed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Run run(model, plan_of(model, all[i]), world);
    run.train(1, saved_steps);
    run.save(folder_of(i));
    undisturbed[i] = run.train(saved_steps + 1, all_steps);  // not disturbed by having saved
  }
  if (world.rank() == 0) {
    Run run(model, alone, *one);
    run.train(1, saved_steps);
    run.save(folder_of(all.size()));
  }
  int pairs = 0;
  for (std::size_t to = 0; to < all.size(); ++to)
    for (std::size_t from = to % stride; from <= all.size(); from += stride) {
      const Plan plan = plan_of(model, all[to]);
      INFO(family << ": " << (from < all.size() ? describe(plan_of(model, all[from])) : "alone")
                  << " -> " << describe(plan));
      Run run(model, plan, world);
      run.load(folder_of(from));
      const std::vector<double> losses = run.train(saved_steps + 1, all_steps);
      check_losses(losses, expected);
      if (from == to) CHECK(losses == undisturbed[to]);
      ++pairs;
    }
  // One process loads what many ranks saved.
  for (std::size_t from = 0; from < all.size() && world.rank() == 0; ++from) {
    INFO(family << ": " << describe(plan_of(model, all[from])) << " -> alone");
    Run run(model, alone, *one);
    run.load(folder_of(from));
    check_losses(run.train(saved_steps + 1, all_steps), expected);
    ++pairs;
  }
  if (world.rank() == 0) CHECK(pairs >= 20);  // 2 and 4 ranks, two families: over 80
}

// Returns the partitionings of `ranks` ranks that are tested with experts.
std::vector<Cut> expert_cuts(int ranks) {
  if (ranks == 2)
    return {{{.data = 2}},
            {.degrees = {.data = 2}, .expert = 2},
            {.degrees = {.data = 2, .zero_stage = 1}, .expert = 2},
            {.degrees = {.data = 2, .zero_stage = 3}, .expert = 2},
            {{.data = 2, .zero_stage = 3}},
            {{.tensor = 2}},
            {.degrees = {.tensor = 2}, .rows = true, .expert = 2, .expert_tensor = 1},
            {{.pipeline = 2}}};
  return {{.degrees = {.data = 4}, .expert = 4},
          {.degrees = {.tensor = 2, .data = 2}, .rows = true, .expert = 4, .expert_tensor = 1},
          {.degrees = {.tensor = 2, .data = 2, .zero_stage = 3}, .expert = 2, .expert_tensor = 1},
          {.degrees = {.tensor = 2, .data = 2, .zero_stage = 1}, .expert_tensor = 1},
          {.degrees = {.tensor = 2, .data = 2}, .expert = 2},
          {.degrees = {.tensor = 2, .data = 2, .zero_stage = 3}, .expert = 2},
          {.degrees = {.data = 4, .zero_stage = 3}, .expert = 2},
          {.degrees = {.data = 4, .zero_stage = 1}, .shard = 2, .expert = 2},
          {.degrees = {.data = 4, .zero_stage = 2}, .shard = 2, .expert = 4},
          {.degrees = {.pipeline = 2, .data = 2}, .expert = 2},
          {.degrees = {.pipeline = 2, .data = 2, .zero_stage = 3}, .expert = 2},
          {{.data = 4, .zero_stage = 3}}};
}

// Returns the partitionings that muon supports. Some of them split its matrices.
std::vector<Cut> muon_cuts(int ranks) {
  std::vector<Cut> all = {{{.pipeline = 2}},
                          {{.tensor = 2}},
                          {{.tensor = 2}, true},
                          {{.data = 2}},
                          {{.data = 2, .zero_stage = 1}, false, 1, true}};
  if (ranks == 4)
    all = {{{.pipeline = 4}},
           {{.tensor = 4}},
           {{.pipeline = 2, .tensor = 2}, true},
           {{.tensor = 2, .data = 2}},
           {{.tensor = 2, .data = 2, .zero_stage = 1}, false, 1, true},
           {{.pipeline = 2, .data = 2, .zero_stage = 1}, false, 1, true}};
  for (Cut& cut : all) cut.optimizer = OptimizerKind::muon;
  return all;
}

// Returns the partitionings that adafactor supports.
std::vector<Cut> adafactor_cuts(int ranks) {
  std::vector<Cut> all = cuts(ranks);
  std::erase_if(all, [](const Cut& cut) { return cut.offload != Offload::none; });
  for (Cut& cut : all) cut.optimizer = OptimizerKind::adafactor;
  return all;
}

void check_16_bit() {
  const Model model = small_model("gpt");
  World& world = test_world();
  if (world.size() == 1) return;
  const TestFolder own;
  const std::string shared = path_of_rank_0(own, world);
  int saved = 0;
  for (const Cut& cut : cuts(world.size())) {
    Plan plan = plan_of(model, cut);
    plan.training.precision = ++saved % 2 == 0 ? Precision::fp16 : Precision::bf16;
    INFO(describe(plan));
    const std::string folder = shared + "/" + std::to_string(saved);
    Run first(model, plan, world), second(model, plan, world);
    first.train(1, saved_steps);
    first.save(folder);
    second.load(folder);
    const std::vector<double> undisturbed = first.train(saved_steps + 1, all_steps);
    CHECK(second.train(saved_steps + 1, all_steps) == undisturbed);
    CHECK(second.hash() == first.hash());
  }
}

// Returns the biases of routers. They are not parameters in transformers, but its checkpoints
// contain them.
Values choice_biases_of(Run& run) {
  Values biases = run.parameters();
  std::erase_if(biases, [](const auto& each) { return !each.first.ends_with("correction_bias"); });
  return biases;
}

void check_choice_biases() {
  Model model =
      load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/glm4_moe", "/");
  model.expert_rank_capacity_factor = 0;  // no choice finds no row
  World& world = test_world();
  const TestFolder own;
  const std::string shared = path_of_rank_0(own, world);
  int saved = 0;
  for (const Cut& cut : expert_cuts(world.size())) {
    if (cut.degrees.pipeline > 1) continue;  // of three layers
    Plan plan = plan_of(model, cut), alone = plan_of(model, {{}});
    plan.training.router_bias_update_rate = alone.training.router_bias_update_rate = 0.01;
    INFO(describe(plan));
    const std::string folder = shared + "/" + std::to_string(++saved);
    Run first(model, plan, world), second(model, plan, world);
    first.train(1, saved_steps);
    first.save(folder);
    second.load(folder);
    const Values biases = choice_biases_of(first);
    CHECK(choice_biases_of(second) == biases);
    if (world.rank() == 0) {
      CHECK(biases.size() == 2);  // the first block is dense
      for (const auto& [name, values] : biases)
        CHECK(std::ranges::any_of(values, [](float x) { return x != 0; }));
      const auto self = make_self_world({});
      Run one(model, alone, *self);
      one.load(folder);
      CHECK(choice_biases_of(one) == biases);
    }
    CHECK(second.train(saved_steps + 1, all_steps) == first.train(saved_steps + 1, all_steps));
    CHECK(second.hash() == first.hash());
  }
  CHECK(saved > 2);
}

// Returns the averages of all parameters of `run`'s model, read from its checkpoint in `folder`.
Values averages_in(const std::string& folder, const Run& run) {
  const Checkpoint found(step_folder(folder, saved_steps));
  REQUIRE(found.average() > 0);
  Values averages;
  for (const auto& [name, shape] : shapes_of(run.stages)) {
    std::vector<float>& values = averages[name];
    values.resize(static_cast<std::size_t>(shape.elements()));
    const ParameterRun all{0, 0, shape.elements()};
    found.read(name, found.average(), {&all, 1}, values.data());
  }
  return averages;
}

// Computes the averages in plain code: after each step an average is 0.75 of its previous value
// plus a quarter of the new weight.
Values averages_by_steps(Run& run) {
  Values averages = run.parameters();
  for (int step = 1; step <= saved_steps; ++step) {
    run.train(step, step);
    for (const auto& [name, values] : run.parameters())
      for (std::size_t i = 0; i < values.size(); ++i) {
        float& average = averages[name][i];
        average = float(0.75 * double(average) + 0.25 * double(values[i]));
      }
  }
  return averages;
}

void check_alike(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, values] : expected) {
    INFO(name);
    REQUIRE(got.at(name).size() == values.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(double(got.at(name)[i]) - double(values[i])) /
                                  std::max(1.0, std::abs(double(values[i]))));
    CHECK(worst <= saved_steps * 4 * 0x1p-23);
  }
}

void check_averages(const Model& model, const std::vector<Cut>& all,
                    const std::function<void(Plan&)>& change) {
  World& world = test_world();
  const TestFolder own;
  const std::string shared = path_of_rank_0(own, world);
  int saved = 0, turn = 0;
  for (const Cut& cut : all) {
    if (!is_tried(turn++, 2)) continue;
    Plan plan = plan_of(model, cut);
    plan.training.ema_decay = 0.75;
    change(plan);
    INFO(describe(plan));
    const std::string folder = shared + "/" + std::to_string(++saved);
    Run first(model, plan, world), second(model, plan, world);
    const Values expected = averages_by_steps(first);
    first.save(folder);
    const Values averages = world.rank() == 0 ? averages_in(folder, first) : Values{};
    if (world.rank() == 0) check_alike(averages, expected);
    // A resumed run saves the same averages. With the same degrees it also continues with the same
    // bits.
    second.load(folder);
    second.save(folder + "-again");
    if (world.rank() == 0) CHECK(averages_in(folder + "-again", second) == averages);
    CHECK(second.train(saved_steps + 1, all_steps) == first.train(saved_steps + 1, all_steps));
    first.save(folder + "-later");
    second.save(folder + "-later-too");
    if (world.rank() != 0) continue;
    const Values later = averages_in(folder + "-later", first);
    CHECK(later == averages_in(folder + "-later-too", second));
    CHECK(later != averages);
    // One process continues from the checkpoint that many have saved.
    Plan alone = on_one_process(plan);
    alone.snapshot = true;
    const auto self = make_self_world({});
    Run one(model, alone, *self);
    one.load(folder);
    one.save(folder + "-alone");
    CHECK(averages_in(folder + "-alone", one) == averages);
  }
}

void check_averages() {
  const int ranks = test_world().size();
  const Model gpt = small_model("gpt");
  const std::vector<Cut> all = ranks == 1 ? std::vector<Cut>{{}} : cuts(ranks);
  check_averages(gpt, all, [](Plan&) {});
  check_averages(gpt, {all.front(), all.back()},
                 [](Plan& plan) { plan.training.precision = Precision::bf16; });
  check_averages(gpt, {all.front(), all.back()}, [](Plan& plan) {
    plan.training.precision = Precision::bf16;
    plan.training.master_weights = MasterWeights::remainders;
    plan.training.optimizer = OptimizerKind::lamb;
  });
  if (ranks == 1) return;
  check_averages(small_model("mixtral"), expert_cuts(ranks), [](Plan&) {});
  check_averages(small_model("llama"), muon_cuts(ranks), [](Plan&) {});
}

}  // namespace

TEST_CASE_ON_RANKS("averages of weights are those of the steps, under all degrees",
                   "[agree][checkpoint]") {
  check_averages();
}

// If a checkpoint has no averages, they begin as its weights. If it has averages but the run keeps
// none, the run continues without them.
TEST_CASE("a run begins an average, or ends it, with a line", "[agree][checkpoint]") {
  const Model model = small_model("gpt");
  const auto one = make_self_world({});
  Plan plain = plan_of(model, {}), averaged = plain;
  averaged.training.ema_decay = 0.75;
  const TestFolder folder;
  const std::string without = folder.path() + "/without", with = folder.path() + "/with";
  Run begins(model, averaged, *one), ends(model, plain, *one);
  std::vector<std::string> said;
  const auto load = [&](Run& run, const std::string& from) {
    REQUIRE(resume({from, "adamw", shapes_of(run.stages)}, run.runtime, *run.all,
                   [&](const std::string& line) { said.push_back(line); }));
  };
  ends.train(1, saved_steps);
  ends.save(without);
  load(begins, without);
  REQUIRE(said.size() == 1);
  CHECK(
      said[0].ends_with(": holds no average of the weights; training.ema_decay begins one with "
                        "the weights it holds"));
  begins.save(with);
  CHECK(averages_in(with, begins) == begins.parameters());
  load(ends, with);
  REQUIRE(said.size() == 2);
  CHECK(
      said[1].ends_with(": holds an average of the weights, which goes no further: the job has no "
                        "training.ema_decay"));
  CHECK(ends.train(saved_steps + 1, all_steps) == begins.train(saved_steps + 1, all_steps));
}

TEST_CASE_ON_RANKS("a checkpoint keeps the biases of routers", "[agree][checkpoint]") {
  if (test_world().size() > 1) check_choice_biases();
}

TEST_CASE_ON_RANKS("a checkpoint is loaded under any degrees", "[agree][checkpoint]") {
  check_family("gpt", cuts(test_world().size()),
               2);  // tied embeddings: one copy, or two on two stages
}

TEST_CASE_ON_RANKS("a checkpoint of untied embeddings is loaded under any degrees",
                   "[agree][checkpoint]") {
  check_family("llama", cuts(test_world().size()), 4);
}

TEST_CASE_ON_RANKS("a checkpoint of experts is loaded under any degrees", "[agree][checkpoint]") {
  check_family("mixtral", expert_cuts(test_world().size()), 1);
}

TEST_CASE_ON_RANKS("a checkpoint of adafactor is loaded under any degrees", "[agree][checkpoint]") {
  check_family("gpt", adafactor_cuts(test_world().size()), 3);
}

TEST_CASE_ON_RANKS("a checkpoint of muon is loaded under any degrees", "[agree][checkpoint]") {
  check_family("llama", muon_cuts(test_world().size()), 1);
}

TEST_CASE_ON_RANKS("a run in 16 bits continues to the bit under its own degrees",
                   "[agree][checkpoint]") {
  check_16_bit();
}

// Three ranks cannot share a bucket evenly, so the last slice is shorter.
TEST_CASE("three replicas save each element once", "[agree][checkpoint]") {
  const Model model = small_model("gpt");
  for (int zero = 0; zero <= 3; ++zero) {
    INFO("zero " << zero);
    const TestFolder folder;
    const auto plan_for = [&](const SmallDegrees& degrees) {
      Plan plan = plan_of(model, {degrees});
      plan.training.global_batch = 6;
      return plan;
    };
    std::string hash;
    std::vector<double> losses;
    std::set<std::int64_t> saved;  // elements, of each rank
    run_in_turn(3, [&] {
      Run run(model, plan_for({.data = 3, .zero_stage = zero}), world_in_turn());
      run.train(1, saved_steps);
      run.save(folder.path());
      const std::string own = run.hash();
      if (world_in_turn().rank() == 0) hash = own;
      std::int64_t elements = 0;
      for (const PieceSource& source : pieces_of(run.runtime)) elements += source.piece.elements();
      saved.insert(elements);
      const std::vector<double> undisturbed = run.train(saved_steps + 1, all_steps);
      if (world_in_turn().rank() == 0) losses = undisturbed;
    });
    CHECK(saved.size() > 1);  // not evenly
    const auto one = make_self_world({});
    Run alone(model, plan_for({}), *one);
    const Checkpoint found(step_folder(folder.path(), saved_steps));
    CHECK(found.shards() == 3);
    found.check_holds(shapes_of(alone.stages));
    alone.load(folder.path());
    CHECK(alone.hash() == hash);
    const std::vector<double> resumed = alone.train(saved_steps + 1, all_steps);
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(resumed[i] == Approx(losses[i]).epsilon(1e-5));
    // All ranks detect damage in the last rank's data, and so does one process.
    const std::string last = step_folder(folder.path(), saved_steps) + "/rank-00002.shard";
    std::string content = content_of(last);
    content.back() = static_cast<char>(content.back() ^ 1);
    write_content(last, content);
    const auto passed_over = [&](Run& run) {
      std::vector<std::string> said;
      CHECK_FALSE(resume({folder.path(), "adamw", shapes_of(run.stages)}, run.runtime, *run.all,
                         [&](const std::string& line) { said.push_back(line); }));
      return said;
    };
    REQUIRE(passed_over(alone).size() == 1);
    CHECK(passed_over(alone)[0].find(last + ": the ") == 0);
    run_in_turn(3, [&] {
      Run run(model, plan_for({.data = 3, .zero_stage = zero}), world_in_turn());
      CHECK(passed_over(run).size() == (world_in_turn().rank() == 0 ? 1 : 0));
    });
  }
}
