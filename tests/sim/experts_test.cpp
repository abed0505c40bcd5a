// Tests experts in simulated time: what a rank of an expert group computes, keeps and sends.
#include <nlohmann/json.hpp>

#include "sim/collectives/deduplicated.h"
#include "sim/planner/bounds.h"
#include "sim/planner/search.h"
#include "sim/predict/breakdown.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Model expert_model() {
  Model model = load_model("mixtral-8x7b", ".");
  model.layers = 2;
  model.hidden = 1024;
  model.heads = 8;
  model.kv_heads = 4;
  model.head_dim = model.rotary_dim = 128;
  model.ffn = 3584;
  model.vocabulary = 1000;
  return model;
}

Plan plan_of(int data, int expert, int zero = 0) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 4 * data;
  plan.training.sequence_length = 1024;
  plan.training.precision = Precision::fp16;
  plan.parallelism.data = data;
  plan.parallelism.expert = expert;
  plan.parallelism.zero_stage = zero;
  return plan;
}

const Instruction& instruction_of(const Program& program, const TimelineEntry& entry) {
  const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
  return program.bodies[static_cast<std::size_t>(task.body)]
      .instructions[static_cast<std::size_t>(entry.instruction)];
}

SimTime exchange_time(const Model& model, const Plan& plan, const Cluster& cluster) {
  const Compiled compiled = compiled_for(model, plan, cluster);
  Timeline timeline;
  predict(compiled, cluster, {.timeline = &timeline});
  SimTime longest = 0;
  for (const TimelineEntry& entry : timeline.entries) {
    if (instruction_of(compiled.stages[0], entry).kind == InstructionKind::all_to_all)
      longest = std::max(longest, entry.end - entry.begin);
  }
  return longest;
}

// Returns how long kernels of the first rank overlap with all-to-alls. Kernels of the gradients of
// expert weights do not count.
SimTime beside_exchanges(const Model& model, const Plan& plan, const Cluster& cluster) {
  const Compiled compiled = compiled_for(model, plan, cluster);
  Timeline timeline;
  predict(compiled, cluster, {.timeline = &timeline});
  const Program& program = compiled.stages[0];
  std::vector<std::pair<SimTime, SimTime>> exchanges;
  SimTime sum = 0;
  for (const bool of_exchanges : {true, false})
    for (const TimelineEntry& entry : timeline.entries) {
      if (entry.rank != timeline.entries.front().rank) continue;
      const Instruction& instruction = instruction_of(program, entry);
      const bool exchange = instruction.kind == InstructionKind::all_to_all;
      if (exchange && of_exchanges) exchanges.emplace_back(entry.begin, entry.end);
      if (of_exchanges || instruction.stream != Stream::compute ||
          instruction.op == Op::expert_linear_grad_weight)
        continue;
      for (const auto& [begin, end] : exchanges)
        sum += std::max<SimTime>(0, std::min(end, entry.end) - std::max(begin, entry.begin));
    }
  return sum;
}

ReplayResult replay_of(const Compiled& compiled, const Cluster& cluster, bool fold) {
  ReplayOptions options;
  options.fold = fold;
  return replay(compiled.stages, Topology(cluster), options);
}

}  // namespace

TEST_CASE("ranks that share the experts hold a share of them", "[sim][experts]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Model model = expert_model();
  // The experts are 3 matrices of 1024 x 3584 in each of 8 experts and 2 layers.
  const double experts = 3.0 * 1024 * 3584 * 8 * 2;
  const auto parameters = [&](int expert) {
    const Compiled compiled = compiled_for(model, plan_of(8, expert), cluster);
    return static_cast<double>(stage_memory(compiled.stages, cluster)[0]
                                   .class_bytes[static_cast<std::size_t>(MemoryClass::parameters)]);
  };
  const double whole = parameters(1);
  for (const int expert : {2, 4, 8})
    CHECK(whole - parameters(expert) ==
          Approx(2 * experts * (1 - 1.0 / expert)).epsilon(1e-4));  // two bytes each
}

TEST_CASE("an exchange over hosts takes as long as the network needs", "[sim][experts]") {
  Model model = expert_model();
  model.experts = 16;
  Plan plan = plan_of(16, 16);
  plan.training.micro_batch = 16;  // large, so that latency does not count
  plan.training.global_batch = 16 * 16;
  const Cluster hosts{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  const double over = to_seconds(exchange_time(model, plan, hosts)).value;
  // Half of the data of eight ranks leaves a host: 16 experts x 16 sequences x 160 slots of 1024
  // elements in 16 bits each. (An expert has 1.25 x 1024 tokens x 2 / 16 = 160 slots per sequence.)
  const double bytes = 8 * 0.5 * 16 * 16 * 160 * 1024 * 2;
  const Network& network = hosts.machine.network;
  const double wire = bytes / (network.nics * network.gbit_per_s_each * 1e9 / 8);
  CHECK(over >= wire);
  CHECK(over * network.efficiency < 2 * wire);
  plan.parallelism.expert = 8;  // a group on each host
  const double inside = to_seconds(exchange_time(model, plan, hosts)).value;
  CHECK(inside > 0);
  CHECK(inside < over / 2);
}

// Two of four experts are in the same half in 2 of 6 pairs.
TEST_CASE("a token travels once to each host that has one of its experts", "[sim][experts]") {
  CHECK(expected_holders({.experts = 8, .per_token = 1}, 4) == Approx(1));
  CHECK(expected_holders({.experts = 4, .per_token = 2}, 2) == Approx(2 - 2.0 / 6));
  CHECK(expected_holders({.experts = 8, .per_token = 3}, 8) == Approx(3));
  CHECK(expected_holders({.experts = 8, .per_token = 8}, 4) == Approx(4));
  // All experts of a token belong to one group. Hosts have whole groups, or half of a group.
  const ExpertChoices grouped{.experts = 16, .per_token = 2, .groups = 4, .groups_per_token = 1};
  CHECK(expected_holders(grouped, 2) == Approx(1));
  CHECK(expected_holders(grouped, 4) == Approx(1));
  CHECK(expected_holders(grouped, 8) == Approx(2 - 2.0 / 6));
  const ExpertChoices two{.experts = 16, .per_token = 4, .groups = 4, .groups_per_token = 2};
  // Two hosts have two groups each. Both chosen groups are on one host in 2 of 6 pairs. Otherwise
  // the four experts are in one group in 2 of C(8, 4) = 70 cases.
  CHECK(expected_holders(two, 2) == Approx(1.0 / 3 + 2.0 / 3 * (2 - 2.0 / 70)));
}

TEST_CASE("deduplicated exchanges take the time of the copies that they send", "[sim][experts]") {
  const Cluster hosts{load_machine("dgx-h100"), 4, 8, {}, {}};
  const Topology topology(hosts);
  Groups group(1);
  for (int rank = 0; rank < 32; ++rank) group[0].push_back(rank);
  const ExpertChoices choices{.experts = 128, .per_token = 8};
  const Bytes bytes{1e9};
  const double plain = collective_time(topology, CollectiveKind::all_to_all, bytes, group).value;
  const double once = deduplicated_time(topology, choices, bytes, group).value;
  // The network limits the time. Of 3.6 copies of each token, 3 of 4 go to other hosts, through one
  // card of 400 Gb/s per rank, of which 84.7 % are reached.
  const double copies = expected_holders(choices, 4);
  CHECK(copies == Approx(3.63).epsilon(0.01));
  CHECK(once == Approx(copies * bytes.value / 8 * 0.75 / (50e9 * 0.847)).epsilon(0.02));
  CHECK(once < plain / 2);
  // On one host, 5.4 of 8 ranks on average have an expert of a token.
  Groups inside(1, {0, 1, 2, 3, 4, 5, 6, 7});
  const double all = collective_time(topology, CollectiveKind::all_to_all, bytes, inside).value;
  CHECK(deduplicated_time(topology, choices, bytes, inside).value ==
        Approx(all * expected_holders(choices, 8) / 8).epsilon(0.02));
}

// A layer has four all-to-alls: to the experts and back, and their gradients the same way. The last
// one overlaps with the gradients of two of the experts' three weights, which take longer. The
// first one of the backward overlaps with the router's gradients, which take less time. Kernels are
// slower during the overlap.
TEST_CASE("a quarter of what experts exchange is hidden beside the gradients of their weights",
          "[sim][experts]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const auto predicted = [&](bool overlaps) {
    Plan plan = plan_of(8, 8);
    plan.parallelism.overlap_expert = overlaps;
    return predict(compiled_for(expert_model(), plan, cluster), cluster);
  };
  const auto exposed = [](const Prediction& prediction) {
    return breakdown(prediction).front().exposed_s[static_cast<std::size_t>(GroupKind::expert)];
  };
  const Prediction before = predicted(false), after = predicted(true);
  CHECK(exposed(before) > 0.02 * before.step_time_s);
  Plan plan = plan_of(8, 8);
  plan.parallelism.overlap_expert = true;
  const double router = to_seconds(beside_exchanges(expert_model(), plan, cluster)).value;
  CHECK(exposed(after) == Approx(0.75 * exposed(before) - router).epsilon(0.01));
  const double hidden = exposed(before) - exposed(after);
  CHECK(after.step_time_s < before.step_time_s - 0.5 * hidden);
  CHECK(after.step_time_s >= before.step_time_s - hidden);
}

TEST_CASE("replays with expert groups hold together", "[sim][experts][replay]") {
  struct Degrees {
    int pipeline, data, expert, zero, shard = 1;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
  };
  for (const MachineCase& machine : machine_cases())
    for (const Degrees& d :
         {Degrees{1, 8, 8, 0}, Degrees{1, 8, 4, 3}, Degrees{1, 8, 2, 3, 2}, Degrees{2, 4, 4, 1},
          Degrees{2, 4, 2, 2}, Degrees{2, 4, 2, 1, 1, ScheduleKind::zero_bubble}}) {
      const Cluster cluster = machine.cluster();
      Plan plan = plan_of(d.data, d.expert, d.zero);
      plan.training.sequence_length = 128;
      Parallelism& p = plan.parallelism;
      p.pipeline = d.pipeline, p.shard = d.shard, p.schedule = d.schedule;
      INFO(machine.name << " p" << d.pipeline << " d" << d.data << " e" << d.expert << " zero "
                        << d.zero);
      const Compiled compiled = compiled_for(expert_model(), plan, cluster);
      verify(compiled.stages);
      const ReplayResult folded = replay_of(compiled, cluster, true);
      const ReplayResult every = replay_of(compiled, cluster, false);
      CHECK(folded.step_time > 0);
      CHECK(folded.step_time == every.step_time);
      Topology faster(cluster);
      for (const LinkKind kind : {LinkKind::nvlink, LinkKind::nic}) faster.scale_links(kind, 2);
      CHECK(replay(compiled.stages, faster).step_time <= folded.step_time);
    }
}

namespace {

Job job_of(int batch) {
  const nlohmann::json model = {{"family", "mixtral"},
                                {"hidden", 256},
                                {"layers", 4},
                                {"heads", 4},
                                {"vocab", 1000},
                                {"experts", 4},
                                {"expert_capacity_factor", 1}};
  return read_job({{"model", model},
                   {"training",
                    {{"global_batch", batch},
                     {"sequence_length", 128},
                     {"precision", "fp16"},
                     {"recompute", "auto"}}},
                   {"cluster", {{"machine", "p3.16xlarge"}, {"count", 1}}},
                   {"parallelism", "auto"}},
                  "job.json", ".", machine_facts);
}

}  // namespace

TEST_CASE("the planner takes expert degrees that divide experts and replicas", "[sim][experts]") {
  const Job job = job_of(2);
  const Space space = enumerate(job, base_plan(job, machine_facts("p3.16xlarge")), 2);
  const std::vector<Candidate> candidates = space.candidates();
  std::map<std::pair<int, int>, int> found;  // by (data, expert)
  int cut = 0;
  for (const Candidate& candidate : candidates)
    candidate.tensor > 1 ? ++cut : ++found[{candidate.data, candidate.expert}];
  CHECK(cut > 0);
  // With data 2 there is one micro-batch of 1 sequence, and zero_stage 0 to 3. Under zero_stage 3
  // parameters are gathered again for the backward or kept. Recomputation is none, or full with
  // nothing, activations or layers offloaded. It is never selective, because fused attention has no
  // scores. With pipeline 2 there are micro-batches of 1 or 2 and several schedules.
  CHECK(found[{2, 1}] == 5 * 4);
  CHECK(found[{2, 2}] == 5 * 4);
  CHECK(found[{1, 1}] > 0);
  CHECK(found.size() == 3);
}

TEST_CASE("bounds of plans with expert groups are below what is simulated", "[sim][experts]") {
  const Job job = job_of(32);
  const Cluster cluster{load_machine("p3.16xlarge"), 1, 8, {}, {}};
  const Plan base = base_plan(job, machine_facts("p3.16xlarge"));
  const Space space = enumerate(job, base, 8);
  const std::vector<Candidate> candidates = space.candidates();
  BoundMaker bounds(job.model, base, cluster);
  int with_experts = 0;
  for (std::size_t i = 0; i < candidates.size(); i += 13) {
    const Candidate& candidate = candidates[i];
    with_experts += candidate.expert > 1;
    const Compiled compiled = compiled_for(job.model, to_plan(candidate, base), cluster);
    const Prediction prediction = predict(compiled, cluster);
    INFO(to_json(compiled.plan).dump());
    CHECK(bounds.time(candidate).step_time_s <= prediction.step_time_s);
    CHECK(bounds.memory(candidate).least_bytes <=
          static_cast<double>(prediction.peak_memory_bytes));
  }
  CHECK(with_experts > 10);
}

TEST_CASE("bounds of expert groups over hosts know what is shared by whom", "[sim][experts]") {
  Job job = job_of(64);
  job.model.experts = 16;
  job.model.expert_capacity_factor = 0;
  job.model.expert_dropless = true;
  if (GENERATE(false, true)) {
    job.model.shared_ffn = job.model.ffn;
    job.model.dense_ffn = job.model.ffn;
    job.model.dense_blocks = {0, 2};
  }
  const Cluster cluster{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  const Plan base = base_plan(job, machine_facts("p4d.24xlarge"));
  BoundMaker bounds(job.model, base, cluster);
  std::vector<Candidate> candidates = enumerate(job, base, 16).candidates();
  std::erase_if(candidates, [](const Candidate& each) { return each.expert == 1; });
  REQUIRE(candidates.size() > 1000);
  for (std::size_t i = 0; i < candidates.size(); i += 997) {
    const Candidate& candidate = candidates[i];
    const Compiled compiled = compiled_for(job.model, to_plan(candidate, base), cluster);
    const Prediction prediction = predict(compiled, cluster);
    INFO(to_json(compiled.plan).dump());
    CHECK(bounds.time(candidate).step_time_s <= prediction.step_time_s);
    CHECK(bounds.pipeline_time(candidate) <= prediction.step_time_s);
    CHECK(bounds.memory(candidate).least_bytes <=
          static_cast<double>(prediction.peak_memory_bytes));
  }
}
