// Tests faults during a step: values that are not finite, and ranks that do different things.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/checked.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/exec/worlds.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::map<std::string, std::vector<float>> parameters_of(const Model& model, Plan plan) {
  plan.parallelism = Parallelism{};
  return SmallRun(model, plan).parameters();
}

std::string complaint_of(SmallRun& run) {
  return message_of([&] { run.step(1); });
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an infinite parameter is found, and nothing is lost", "[exec][faults]") {
  World& world = test_world();
  const Model model = small_model("gpt");
  const int ranks = world.size();
  const bool piped = ranks == 2 || ranks == 4;
  SmallDegrees degrees;
  if (piped) degrees = {.pipeline = 2, .tensor = ranks / 2};
  if (!piped && ranks > 1) return;
  const Plan plan = small_plan(model, degrees);
  SmallRun run(model, plan, world);
  const std::string before = run.hash();

  // This is a weight of the last block's MLP. If there are two stages, it is on the second one.
  const std::string name = "h.3.mlp.c_fc.weight";
  std::map<std::string, std::vector<float>> values = parameters_of(model, plan);
  std::string full;
  for (const auto& [each, unused] : values)
    if (each.ends_with(name)) full = each;
  REQUIRE(!full.empty());
  std::vector<float> planted = values[full];
  planted[0] = infinity;
  run.runtime.parameters().set(full, planted);
  const std::string planted_hash = run.hash();
  const std::string complaint = complaint_of(run);
  INFO(complaint);
  CHECK(complaint.starts_with("step 1: the loss is not finite; stopped before the update"));
  CHECK(holds(complaint, "it began with linear in "));
  CHECK(holds(complaint, "h.3.mlp"));
  CHECK(holds(complaint, "forward, micro-batch 0, on rank "));
  CHECK(holds(complaint, piped ? "(stage 1)" : "(stage 0)"));
  CHECK(holds(complaint, "parameter " + full + " holds such a value"));

  CHECK(run.hash() == planted_hash);
  run.runtime.parameters().set(full, values[full]);
  CHECK(run.hash() == before);
  CHECK(std::isfinite(run.step(1).loss));
}

TEST_CASE("the first micro-batch that meets an infinite row of the embedding is named",
          "[exec][faults]") {
  Model model = small_model("llama");
  model.tied_embeddings = false;
  const Plan plan = small_plan(model, {});
  SmallRun run(model, plan);
  // Finds a token of the last micro-batch that no earlier one has.
  const std::int64_t length = plan.training.sequence_length, per = plan.training.micro_batch;
  const auto batches = static_cast<std::int64_t>(plan.micro_batches());
  std::set<std::int32_t> earlier;
  std::int32_t token = -1;
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(length));
  for (std::int64_t s = 0; s < batches * per; ++s) {
    run.loader.read(s, {.tokens = sequence.data()});
    for (std::int32_t each : sequence)
      if (s < (batches - 1) * per)
        earlier.insert(each);
      else if (!earlier.contains(each))
        token = each;
  }
  REQUIRE(token >= 0);
  for (auto& [name, values] : parameters_of(model, plan)) {
    if (!name.ends_with("embed_tokens.weight")) continue;
    values[static_cast<std::size_t>(token * model.hidden)] = infinity;
    run.runtime.parameters().set(name, values);
  }
  const std::string complaint = complaint_of(run);
  INFO(complaint);
  CHECK(holds(complaint, "it began with embedding in "));
  CHECK(holds(complaint, "forward, micro-batch " + std::to_string(batches - 1) + ", on rank 0"));
}

TEST_CASE("a sound step holds no value that is not finite", "[exec][faults]") {
  World& world = test_world();
  int searched = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (Plan plan : small_plans(model)) {
      if (plan.parallelism.degrees().ranks() != world.size() || ++searched % 4 != 1) continue;
      if (searched % 8 == 1) {
        plan.training.compiler = CompilerLevel::none;
        plan.training.attention = AttentionKernel::unfused;
      }
      INFO(describe(plan));
      SmallRun run(model, plan, world);
      run.step(1);
      const NonFiniteSearch::Finding found = run.runtime.find_non_finite();
      INFO(found.text.data());
      CHECK(!found.found);
    }
  }
}

TEST_CASE("checked collectives change nothing where the ranks agree", "[exec][faults]") {
  World& world = test_world();
  if (world.size() == 3) return;
  const Model model = small_model("gpt");
  const Plan plan = world.size() == 4 ? small_plan(model, {.tensor = 2, .data = 2})
                                      : small_plan(model, {.data = world.size()});
  const auto checked = make_checked_world(world);
  SmallRun plain(model, plan, world), careful(model, plan, *checked);
  CHECK(plain.step(1).loss == careful.step(1).loss);
  CHECK(plain.hash() == careful.hash());
}

namespace {

// A world of one process that records the deadline that it is given.
class NotingWorld : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void* allocate(std::int64_t) override { return nullptr; }
  std::unique_ptr<Communicator> group(GroupKind, std::span<const int>) override { return nullptr; }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  void set_deadline(double seconds) override { deadline_s = seconds; }
  void abandon(int exit_code) override { std::_Exit(exit_code); }
  double deadline_s = 0;
};

}  // namespace

TEST_CASE("a checked world passes on the deadline", "[exec][faults]") {
  NotingWorld world;
  make_checked_world(world)->set_deadline(7);
  CHECK(world.deadline_s == 7);
}

TEST_CASE("ranks that disagree about an element type are told any of its names",
          "[exec][faults][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const auto checked = make_checked_world(world);
  const std::vector<int> ranks = {0, 1};
  const auto group = checked->group(GroupKind::world, ranks);
  std::uint16_t number = 0;
  const std::string complaint = message_of([&] {
    group->all_reduce(&number, 1, world.rank() == 0 ? Dtype::i16 : Dtype::block8u, false);
  });
  CHECK(holds(complaint, "all_reduce of 2 bytes i16"));
  CHECK(holds(complaint, "all_reduce of 1 bytes block8u"));
}

TEST_CASE("a Program that differs on one rank is an error that names both sides",
          "[exec][faults][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = small_model("gpt");
  const auto change_first = [&](const Plan& plan, InstructionKind kind, const auto& change) {
    std::vector<Program> stages = lower_small(model, plan);
    bool changed = world.rank() == 0;
    for (Program& program : stages)
      for (Body& body : program.bodies)
        for (std::size_t i = 0; i < body.instructions.size() && !changed; ++i)
          if (body.instructions[i].kind == kind) changed = change(body.instructions, i);
    REQUIRE(changed);
    const auto checked = make_checked_world(world);
    SmallRun run(model, plan, *checked, std::move(stages));
    const std::string complaint = complaint_of(run);
    INFO(complaint);
    CHECK(complaint.starts_with("step 1: "));
    CHECK(holds(complaint, "the ranks disagree: rank " + std::to_string(world.rank()) + " is at"));
    CHECK(holds(complaint, "; rank " + std::to_string(1 - world.rank()) + " is at"));
  };
  using List = std::vector<Instruction>;
  const Plan data = small_plan(model, {.data = 2}), tensor = small_plan(model, {.tensor = 2});
  change_first(data, InstructionKind::all_reduce, [](List& list, std::size_t i) {
    list[i].inputs[0].type.shape[0] -= 1;  // other bytes
    return true;
  });
  change_first(tensor, InstructionKind::all_reduce, [](List& list, std::size_t i) {
    list[i].maximum = !list[i].maximum;  // another operation
    return true;
  });
  change_first(tensor, InstructionKind::all_reduce, [](List& list, std::size_t i) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));  // one left out
    return true;
  });
  change_first(tensor, InstructionKind::all_reduce, [](List& list, std::size_t i) {
    list[i].group = GroupKind::norm;  // another group
    return true;
  });
}
