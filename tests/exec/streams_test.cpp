// Runs Programs on a device whose streams run concurrently and whose memory the host cannot read.
// The order that the waits of a Program leave open must not change results.
#include <nlohmann/json.hpp>
#include <span>

#include "exec/comm/self.h"
#include "exec/comm/staged.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/job/job.h"
#include "tests/catch.h"
#include "tests/exec/far_backend.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

Trained train_far(const Model& model, const Plan& plan, World& host, std::uint64_t seed,
                  bool staged) {
  const auto backend = std::make_shared<FarBackend>(seed);
  const auto world = staged ? make_staged_world(host, *backend) : make_far_world(host, *backend);
  SmallRun run(model, plan, *world, backend);
  return train(run);
}

void compare_far_and_near() {
  World& world = test_world();
  int turn = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (const Plan& each : small_plans(model)) {
      if (each.parallelism.degrees().ranks() != world.size() || !is_tried(++turn, 5)) continue;
      Plan plan = in_few_steps(each, 3);
      plan.training.dropout = std::string_view(family) == "gpt" ? 0.1 : 0;
      INFO(family << " " << describe(plan));
      SmallRun near(model, plan, world);
      const Trained expected = train(near);
      for (std::uint64_t seed = 0; seed < 3; ++seed)
        CHECK(train_far(model, plan, world, seed, false) == expected);
      CHECK(train_far(model, plan, world, 0, true) == expected);
    }
  }
}

// Compares ranks that share each sequence and communicate with all others at once. Rings are not
// compared: their messages between two ranks go both ways at once, which this device does not do
// late.
void compare_context_groups() {
  World& world = test_world();
  if (world.size() == 1) return;
  const Model model = small_model("llama");
  for (const ContextExchange exchange :
       {ContextExchange::all_gather, ContextExchange::all_to_all}) {
    Plan plan = in_few_steps(small_plan(model, {.context = world.size()}), 3);
    plan.parallelism.context_exchange = exchange;
    INFO(describe(plan));
    SmallRun near(model, plan, world);
    const Trained expected = train(near);
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      CHECK(train_far(model, plan, world, seed, false) == expected);
  }
}

// Compares runs whose optimizer states are kept in host memory.
void compare_states_that_move() {
  World& world = test_world();
  if (world.size() > 2) return;
  const Model model = small_model("gpt");
  const SmallDegrees two[] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 2, 4, 1}, {1, 1, 2, 2, 3}};
  const SmallDegrees one[] = {{}};
  for (const SmallDegrees& degrees : world.size() == 1 ? std::span<const SmallDegrees>(one) : two)
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
      Plan plan = in_few_steps(small_plan(model, degrees), 3);
      plan.training.optimizer = optimizer;
      plan.training.precision = Precision::bf16;
      plan.parallelism.reduce_bucket_bytes = 8'192;
      INFO(describe(plan));
      SmallRun kept(model, plan, world);
      const Trained expected = train(kept);
      plan.parallelism.offload = Offload::optimizer;
      for (std::uint64_t seed = 0; seed < 3; ++seed)
        CHECK(train_far(model, plan, world, seed, false) == expected);
    }
}

// Returns a model in which the size of every parameter is a multiple of the alignment.
Model model_without_gaps(const std::string& family) {
  const nlohmann::json model = {{"family", family}, {"hidden", 64}, {"layers", 2},    {"heads", 4},
                                {"ffn", 128},       {"vocab", 64},  {"positions", 16}};
  return read_model(Fields(model, "without gaps"));
}

class CountsSquares : public FarBackend {
 public:
  CountsSquares() : FarBackend(0) {}
  void run(const OpCall& call, const OpOperands& operands, const OpContext& context) override {
    if (call.op == Op::sum_of_squares) ++counted;
    FarBackend::run(call, operands, context);
  }
  int counted = 0;
};

}  // namespace

// Each sum of squares takes two kernels on a GPU, which take longer to start than to run. So there
// must not be one for each parameter.
TEST_CASE("neighbouring gradients are one operation in the norm", "[exec][streams]") {
  const auto alone = make_self_world({});
  for (const char* family : {"gpt", "llama"}) {
    const Model model = model_without_gaps(family);
    const auto backend = std::make_shared<CountsSquares>();
    const auto world = make_far_world(*alone, *backend);
    SmallRun run(model, small_plan(model, {}), *world, backend);
    run.step(1);
    const Program& program = run.stages.front();
    CHECK(program.parameters.size() > 2 * program.buckets.size());
    CHECK(backend->counted == static_cast<int>(program.buckets.size()));
  }
}

// A stream continues when its message has been sent, and work that talks to other ranks has one
// order for all streams. As on NCCL, this needs messages that leave before they are received.
TEST_CASE("late streams and memory of its own change no bit", "[exec][streams][mpi]") {
  run_on_ranks(compare_far_and_near, RankMessages::buffered);
}

TEST_CASE("late messages of context groups change no bit", "[exec][streams][mpi]") {
  run_on_ranks(compare_context_groups, RankMessages::buffered);
}

TEST_CASE("states that come late change no bit", "[exec][streams][mpi]") {
  run_on_ranks(compare_states_that_move, RankMessages::buffered);
}
