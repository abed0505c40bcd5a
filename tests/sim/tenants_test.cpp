// Tests two jobs of several stages on one fabric by closed forms: when each job sends over the
// spine, and how much of the spine the other job leaves.
#include <algorithm>
#include <array>

#include "hwprofiles/load.h"
#include "sim/advise/shared_fabric.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

// Returns a job of two stages of eight ranks on two hosts, the first of which is `first_host`.
// Leaves have two hosts, whose cards can all reach the spine at once.
Tenant tenant(const char* name, int first_host, const char* placement) {
  Cluster cluster{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  cluster.fabric = Fabric{};
  cluster.fabric->leaf_ports = 8;
  cluster.fabric->oversubscription = 1;
  cluster.fabric->first_host = first_host;
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 2 * 8 * 8;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.parallelism.pipeline = 2;
  plan.parallelism.data = 8;
  plan.parallelism.placement = placement;
  plan.parallelism.overlap_gradients = false;
  return {name, compiled_for(small_model(), plan, cluster), cluster};
}

// Seconds of a step in which the first stage sends to the second and back, and in which each stage
// reduces over groups that lie on both hosts.
struct Sent {
  double onwards = 0, back = 0;
  std::array<double, 2> reductions{};
  double mean_reductions() const { return (reductions[0] + reductions[1]) / 2; }
  double all() const { return onwards + back + mean_reductions(); }
};

bool is_on_both_hosts(const std::vector<int>& ranks) {
  const auto is_first = [](int rank) { return rank < 8; };
  return std::ranges::any_of(ranks, is_first) && !std::ranges::all_of(ranks, is_first);
}

Sent sent_by(const Tenant& tenant, double spine_share = 1) {
  Cluster cluster = tenant.cluster;
  cluster.fabric->spine_share = spine_share;
  const Topology topology = build_topology(cluster);
  const Mesh mesh = tenant.compiled.stages[0].settings->mesh();
  constexpr int micro_batches = 8;
  Sent sent;
  for (const Program& program : tenant.compiled.stages)
    for (const Body& body : program.bodies)
      for (const Instruction& instruction : body.instructions) {
        Bytes bytes;
        for (const Operand& operand : instruction.inputs)
          bytes.value += static_cast<double>(operand.type.bytes());
        if (instruction.kind == InstructionKind::send) {
          std::vector<std::pair<int, int>> pairs;
          for (int replica = 0; replica < 8; ++replica)
            pairs.emplace_back(mesh.rank({program.stage, 0, replica}),
                               mesh.rank({instruction.peer, 0, replica}));
          if (!is_on_both_hosts({pairs[0].first, pairs[0].second})) continue;
          (program.stage == 0 ? sent.onwards : sent.back) +=
              micro_batches * transfer_time(topology, bytes, pairs).value;
        } else if (instruction.kind == InstructionKind::all_reduce) {
          const Groups groups = mesh.groups(instruction.group);
          if (!is_on_both_hosts(groups[0])) continue;
          sent.reductions[program.stage] +=
              collective_time(topology, CollectiveKind::all_reduce, bytes, groups).value;
        }
      }
  return sent;
}

// Returns the share of a leaf's bandwidth to the spine that the other job leaves. The other job
// sends during the share `sends` of the time, and then needs the bandwidth of `wanted` of the
// leaf's two hosts.
double left_by(double sends, double wanted) { return 1 / (1 - sends + sends * 2 / (2 - wanted)); }

}  // namespace

TEST_CASE("stages on different hosts send messages over the spine, each its own way", "[fabric]") {
  const Tenant a = tenant("a", 1, "PDT"), b = tenant("b", 3, "PDT");
  const Sent sent = sent_by(a);
  REQUIRE(sent.onwards > 0);
  REQUIRE(sent.back > 0);
  REQUIRE(sent.mean_reductions() > 0);
  const std::vector<SharedStep> steps = share_fabric({a, b});
  for (const SharedStep& step : steps) {
    CHECK(step.sends == Approx(sent.all() / step.alone_s).epsilon(1e-3));
    CHECK(step.together_s == step.alone_s);
  }
  // The two jobs share the leaf that has the second stage of one and the first stage of the other.
  CHECK(steps[0].spine_share ==
        Approx(left_by(steps[1].sends, (sent.onwards + sent.mean_reductions()) / sent.all())));
  CHECK(steps[1].spine_share ==
        Approx(left_by(steps[0].sends, (sent.back + sent.mean_reductions()) / sent.all())));
}

TEST_CASE("stages side by side reduce over the spine, in the mean of the stages", "[fabric]") {
  const Tenant a = tenant("a", 1, "DPT"), b = tenant("b", 3, "DPT");
  const Sent sent = sent_by(a);
  REQUIRE(sent.onwards + sent.back == 0);
  REQUIRE(sent.reductions[0] > sent.reductions[1]);
  for (const SharedStep& step : share_fabric({a, b})) {
    CHECK(step.sends == Approx(sent.all() / step.alone_s).epsilon(1e-3));
    CHECK(step.spine_share == Approx(left_by(step.sends, 1)));
    CHECK(step.together_s == step.alone_s);
  }
}

TEST_CASE("where the way is full, each is slowed down while the other sends", "[fabric]") {
  Tenant a = tenant("a", 1, "DPT"), b = tenant("b", 3, "DPT");
  for (Tenant* each : {&a, &b}) each->cluster.fabric->oversubscription = 8;
  const Sent alone = sent_by(a);
  for (const SharedStep& step : share_fabric({a, b})) {
    const Sent together = sent_by(a, step.spine_share);
    // Both stages reduce at the same time, and tied embeddings are reduced after both.
    const auto more = [&](int stage) {
      return together.reductions[stage] - alone.reductions[stage];
    };
    CHECK(step.together_s - step.alone_s >= std::max(more(0), more(1)) * (1 - 1e-3));
    CHECK(step.together_s - step.alone_s <= (more(0) + more(1)) * (1 + 1e-3));
    CHECK(step.together_s > 1.05 * step.alone_s);
    CHECK(step.spine_share == Approx(1 / (1 + together.all() / step.together_s)).epsilon(1e-3));
  }
}

TEST_CASE("jobs whose leaves differ meet nowhere, however many stages they have", "[fabric]") {
  for (const SharedStep& step : share_fabric({tenant("a", 1, "PDT"), tenant("b", 5, "PDT")})) {
    CHECK(step.sends > 0);
    CHECK(step.spine_share == 1);
  }
}
