// Tests how the settings of sharding change the predicted step.
#include <array>

#include "sim/predict/predict.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan zero_3(int ranks) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = std::int64_t{2} * 4 * ranks;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.parallelism.data = ranks;
  plan.parallelism.zero_stage = 3;
  return plan;
}

ReplayResult replayed(const Plan& plan, const Cluster& cluster) {
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  verify(compiled.stages);
  return replay(compiled.stages, Topology(cluster));
}

SimTime step_time(const Plan& plan, const Cluster& cluster) {
  return replayed(plan, cluster).step_time;
}

}  // namespace

TEST_CASE("more live parameters are never slower", "[replay][shard]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      Plan plan = zero_3(cluster.ranks());
      plan.training.recompute = recompute;
      // A block has 0.8 million elements, the tied embedding 0.3 million.
      std::array<SimTime, 2> ends{};
      SimTime before = 0;
      for (const std::int64_t cap : {1, 2'000'000, 3'000'000, 100'000'000}) {
        plan.parallelism.max_live_parameters = cap;
        const ReplayResult result = replayed(plan, cluster);
        const SimTime time = result.step_time;
        INFO(machine.name << " x" << machine.hosts << " cap " << cap);
        if (cap == 1) ends[0] = before = time;
        CHECK(time <= before + result.instructions);  // each ends at a whole picosecond
        ends[1] = before = time;
      }
      CHECK(ends[1] < ends[0]);  // prefetch hides something
    }
  }
}

// The job runs on 32 hosts, with eight stages of six chunks each and 192 micro-batches. A replica
// has 2.7 GiB of gradients per rank.
TEST_CASE("GPT 175B under ZeRO 2 takes the time of ZeRO 1 where it reduces once a step",
          "[replay][shard]") {
  const Cluster cluster{load_machine("p4de.24xlarge"), 32, 8, {}, {}};
  const Model model = load_model("gpt3-175b", ".");
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.global_batch = 768;
  plan.training.sequence_length = 2048;
  plan.training.precision = Precision::bf16;
  Parallelism& p = plan.parallelism;
  p.tensor = 8, p.pipeline = 8, p.data = 4;
  p.schedule = ScheduleKind::interleaved;
  p.virtual_stages = 6;
  p.sequence_parallel = true;
  const auto seconds = [&](int zero, ReduceGradients reduce, bool keeps = false) {
    p.zero_stage = zero;
    p.reduce_gradients = reduce;
    p.keeps_gathered = keeps;
    const Compiled compiled = compiled_for(model, plan, cluster);
    return to_seconds(replay(compiled.stages, Topology(cluster)).step_time).value;
  };
  const double zero_1 = seconds(1, ReduceGradients::usual);
  CHECK(seconds(2, ReduceGradients::usual) == Approx(zero_1));
  CHECK(seconds(2, ReduceGradients::each) > 2.3 * zero_1);
  CHECK(seconds(3, ReduceGradients::last, true) < 1.02 * zero_1);
}

TEST_CASE("what is gathered once for forward and backward saves half of the gathers",
          "[replay][shard]") {
  Cluster cluster = machine_cases()[0].cluster();
  cluster.machine.concurrent_streams = false;  // nothing hides
  Plan plan = zero_3(cluster.ranks());
  const auto gathering = [&] {
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    ReplayOptions options;
    options.timeline = true;
    const ReplayResult result = replay(compiled.stages, Topology(cluster), options);
    SimTime time = 0;
    for (const TimelineEntry& entry : result.timeline.entries) {
      const Program& program = compiled.stages[0];
      const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
      const auto& list = program.bodies[static_cast<std::size_t>(task.body)].instructions;
      if (list[static_cast<std::size_t>(entry.instruction)].kind == InstructionKind::all_gather)
        time += entry.end - entry.begin;
    }
    return static_cast<double>(time);
  };
  const double always = gathering();
  plan.parallelism.keeps_gathered = true;
  CHECK(gathering() == Approx(always / 2));
  plan.parallelism.reduce_gradients = ReduceGradients::last;
  CHECK(gathering() == Approx(always / 2 / 4));  // once in four micro-batches
}

TEST_CASE("gathers of weights can overlap with the next step's forward in the memory of ZeRO 1",
          "[replay][shard]") {
  const Cluster cluster = machine_cases()[0].cluster();
  Plan plan = zero_3(cluster.ranks());
  plan.parallelism.zero_stage = 1;
  const SimTime at_the_end = step_time(plan, cluster);
  const std::int64_t kept =
      stage_memory(compiled_for(small_model(), plan, cluster).stages[0], cluster).peak_bytes;
  plan.parallelism.zero_stage = 3;
  plan.parallelism.keeps_gathered = true;
  plan.parallelism.reduce_gradients = ReduceGradients::last;
  CHECK(step_time(plan, cluster) < at_the_end);
  const std::int64_t gathered =
      stage_memory(compiled_for(small_model(), plan, cluster).stages[0], cluster).peak_bytes;
  CHECK(static_cast<double>(gathered) == Approx(static_cast<double>(kept)).epsilon(0.02));
}

TEST_CASE("small parameters left whole save gathers", "[replay][shard]") {
  const Cluster cluster = machine_cases()[0].cluster();
  Plan plan = zero_3(cluster.ranks());
  const SimTime all = step_time(plan, cluster);
  plan.parallelism.persistence_threshold = 1'000'000'000;
  CHECK(step_time(plan, cluster) < all);
}

TEST_CASE("gathers in one level over hosts wait longer", "[replay][shard]") {
  const Cluster cluster = machine_cases()[2].cluster();  // two hosts
  Plan plan = zero_3(cluster.ranks());
  const SimTime two_levels = step_time(plan, cluster);
  plan.parallelism.hierarchical_gather = false;
  CHECK(step_time(plan, cluster) > two_levels);
}

TEST_CASE("more buckets in a unit cost latency at least", "[replay][shard]") {
  Cluster cluster = machine_cases()[0].cluster();
  cluster.machine.concurrent_streams = false;  // nothing hides
  Plan plan = zero_3(cluster.ranks());
  const SimTime whole_units = step_time(plan, cluster);
  plan.parallelism.reduce_bucket_bytes = 100'000;
  CHECK(step_time(plan, cluster) > whole_units);
}

TEST_CASE("an owner's step is that of the rank that owns most", "[replay][shard]") {
  const Cluster cluster = machine_cases()[0].cluster();
  Plan plan = zero_3(cluster.ranks());
  plan.parallelism.zero_stage = 1;
  plan.parallelism.shard_whole = true;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const Program& program = compiled.stages[0];
  ReplayOptions options;
  options.timeline = true;
  const ReplayResult result = replay(compiled.stages, Topology(cluster), options);
  std::int64_t stepped = 0, most = 0, all = 0;
  std::vector<std::int64_t> of_owner(static_cast<std::size_t>(cluster.ranks()), 0);
  for (const Bucket& bucket : program.buckets) {
    std::int64_t& own = of_owner[static_cast<std::size_t>(bucket.owner.rdp)];
    own += bucket.elements;
    all += bucket.elements;
    most = std::max(most, own);
  }
  for (const TimelineEntry& entry : result.timeline.entries) {
    const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
    const Instruction& instruction = program.bodies[static_cast<std::size_t>(task.body)]
                                         .instructions[static_cast<std::size_t>(entry.instruction)];
    if (instruction.kind == InstructionKind::optimizer_step && entry.end > entry.begin)
      stepped += program.buckets[static_cast<std::size_t>(instruction.bucket)].elements;
  }
  CHECK(stepped == most);
  CHECK(stepped < all / 4);  // of eight owners
}
