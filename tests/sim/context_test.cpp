// Tests context parallelism in simulated time: what each rank computes, saves and sends.
#include <map>

#include "models/program/graph/op_table.h"
#include "sim/collectives/select.h"
#include "sim/collectives/timing.h"
#include "sim/predict/breakdown.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan long_sequences(int context) {
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.global_batch = 8;
  plan.training.sequence_length = 16384;
  plan.training.precision = Precision::fp16;
  plan.parallelism.context = context;
  return plan;
}

Model long_model() {
  Model model = small_model(2);
  model.positions = 16384;
  model.hidden = 2048;
  model.heads = model.kv_heads = 16;
  model.head_dim = 128;
  model.ffn = 8192;
  return model;
}

Cluster of_ranks(int ranks) { return {load_machine("p4d.24xlarge"), 1, ranks, {}, {}}; }

double attention_flops(const Graph& graph) {
  double flops = 0;
  std::vector<Kernel> kernels;
  for (const Node& node : graph.nodes) {
    std::vector<TensorType> inputs, outputs;
    for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
    for (int id : node.outputs) outputs.push_back(graph.tensor(id).type);
    kernels.clear();
    append_kernels({node.op, node.attributes, inputs, outputs}, graph.compiler, kernels);
    for (const Kernel& kernel : kernels)
      if (kernel.kind == Kernel::Kind::attention) flops += kernel.flops;
  }
  return flops;
}

ReplayResult replay_of(const Compiled& compiled, const Cluster& cluster, bool fold) {
  ReplayOptions options;
  options.fold = fold;
  return replay(compiled.stages, Topology(cluster), options);
}

}  // namespace

TEST_CASE("each rank of a context group has its share of attention and activations", "[context]") {
  const Compiled whole = compiled_for(long_model(), long_sequences(1), of_ranks(1));
  for (const int context : {2, 4, 8})
    for (const ContextExchange exchange : {ContextExchange::p2p, ContextExchange::all_gather,
                                           ContextExchange::all_to_all, ContextExchange::a2a_p2p}) {
      INFO("context " << context << " exchange " << static_cast<int>(exchange));
      Plan plan = long_sequences(context);
      plan.parallelism.context_exchange = exchange;
      if (exchange == ContextExchange::a2a_p2p && context == 2) continue;
      if (exchange == ContextExchange::a2a_p2p) plan.parallelism.context_heads = 2;
      const Compiled part = compiled_for(long_model(), plan, of_ranks(context));
      CHECK(attention_flops(part.graph) == Approx(attention_flops(whole.graph) / context));
      CHECK(model_flops(part.graph) == Approx(model_flops(whole.graph) / context));
      CHECK(part.stages[0].targets_per_step == whole.stages[0].targets_per_step);
      double kept = static_cast<double>(whole.stages[0].memory.slots[0].stride) / context;
      // If heads are exchanged, attention's outputs are saved twice: for some heads and all tokens,
      // and for all heads and some tokens. The model has two layers, in fp16.
      if (plan.parallelism.exchanges_heads()) kept += 2.0 * 16384 / context * 2048 * 2;
      CHECK(static_cast<double>(part.stages[0].memory.slots[0].stride) ==
            Approx(kept).epsilon(1e-3));
    }
}

TEST_CASE("heads are exchanged there and back in both directions, and waited for", "[context]") {
  const Cluster four = of_ranks(4);
  Plan plan = long_sequences(4);
  plan.parallelism.context_exchange = ContextExchange::all_to_all;
  const Compiled exchanged = compiled_for(long_model(), plan, four);
  verify(exchanged.stages);
  const std::int64_t tokens = 16384 / 4;
  std::map<std::int64_t, int> exchanges;  // by columns of a token
  for (const Node& node : exchanged.graph.nodes) {
    if (node.op != Op::context_exchange) continue;
    const TensorType& sent = exchanged.graph.tensor(node.inputs[0]).type;
    CHECK(sent.dtype == Dtype::f16);
    CHECK(sent.shape[0] == 4 * tokens);
    ++exchanges[sent.shape[1] * 4];
  }
  CHECK(exchanges == std::map<std::int64_t, int>{{2048, 2 * 2}, {3 * 2048, 2 * 2}});
  double waited = 0;
  for (const auto& [columns, count] : exchanges)
    waited += 8 * count *
              collective_time(Topology(four), CollectiveKind::all_to_all,
                              {static_cast<double>(tokens * columns * 2)}, {{0, 1, 2, 3}})
                  .value;
  const Prediction prediction = predict(exchanged, four);
  CHECK(prediction.exposed_communication_s >= waited * 0.999);
}

namespace {

// Returns the bytes that context groups exchange in a step between ranks of different hosts.
double sent_to_other_hosts(const std::vector<Program>& stages, const Cluster& cluster) {
  const Program& program = stages[0];
  const Mesh mesh = program.settings->mesh();
  double bytes = 0;
  for (const Task& task : program.tasks)
    for (const Instruction& each : program.bodies[static_cast<std::size_t>(task.body)].instructions)
      for (const std::vector<int>& group : mesh.groups(each.group)) {
        const bool exchanges = each.kind == InstructionKind::all_to_all;
        if (!exchanges && each.kind != InstructionKind::ring_shift) break;
        const auto ranks = group.size();
        const auto sent = static_cast<double>(each.inputs[0].type.bytes());
        for (std::size_t from = 0; from < ranks; ++from)
          for (std::size_t to = 0; to < ranks; ++to) {
            if (cluster.host_of(group[from]) == cluster.host_of(group[to])) continue;
            if (exchanges) bytes += sent / static_cast<double>(ranks);
            if (!exchanges && to == (from + 1) % ranks) bytes += sent;
          }
      }
  return bytes;
}

Plan on_two_hosts(ContextExchange exchange, int heads = 0) {
  Plan plan = long_sequences(16);
  plan.parallelism.context_exchange = exchange;
  plan.parallelism.context_heads = heads;
  return plan;
}

}  // namespace

// There are 16 ranks, eight on a host, each with 1024 tokens of 2048 elements in fp16. The model
// has two layers, and a step eight micro-batches. A ring of all ranks sends keys and values (2 x
// 2048 for each token) over two of its 16 links between hosts, 15 times forward, and with their
// gradients 31 times backward. An exchange among all ranks sends, in either direction, queries,
// keys, values and outputs (4 x 2048), a 16th to each of the eight ranks of the other host. If
// heads are exchanged inside a host, eight rings of two ranks remain: each rank sends the same keys
// and values once forward and three times backward.
TEST_CASE("two exchanges send less between hosts than a ring of all", "[context]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  const auto sent = [&](const Plan& plan) {
    const Compiled compiled = compiled_for(long_model(), plan, cluster);
    verify(compiled.stages);
    return sent_to_other_hosts(compiled.stages, cluster);
  };
  const double width = 2.0 * 1024 * 2048 * 2 * 8;  // of all tokens' one vector, in a step
  CHECK(sent(on_two_hosts(ContextExchange::p2p)) == 2 * (15 + 31) * 2 * width);
  CHECK(sent(on_two_hosts(ContextExchange::all_to_all)) == 2 * 16 * 8 * 4 * width / 16);
  CHECK(sent(on_two_hosts(ContextExchange::a2a_p2p, 8)) == 16 * (1 + 3) * 2 * width);
  CHECK(sent(on_two_hosts(ContextExchange::a2a_p2p, 2)) == 2 * 2 * (7 + 15) * 2 * width);
}

TEST_CASE("two exchanges are as fast as both parts, each in its own groups", "[context]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  const auto predicted = [&](const Plan& plan) {
    return predict(compiled_for(long_model(), plan, cluster), cluster);
  };
  const Prediction both = predicted(on_two_hosts(ContextExchange::a2a_p2p, 8));
  CHECK(both.step_time_s < predicted(on_two_hosts(ContextExchange::p2p)).step_time_s);
  const auto waited = [&](GroupKind group) {
    return breakdown(both).front().exposed_s[static_cast<std::size_t>(group)];
  };
  CHECK(waited(GroupKind::context) == 0);
  // Neighbours exchange everything in two all-to-alls: one of queries, keys and values together,
  // one of outputs.
  const Topology topology(cluster);
  Groups hosts(2);
  for (int rank = 0; rank < 16; ++rank) hosts[static_cast<std::size_t>(rank / 8)].push_back(rank);
  double exchanged = 0;
  for (const double columns : {3 * 2048.0, 2048.0})
    exchanged +=
        collective_time(topology, CollectiveKind::all_to_all, {1024 * columns * 2}, hosts).value;
  CHECK(waited(GroupKind::context_heads) >= 8 * 2 * 2 * exchanged * 0.999);
  CHECK(waited(GroupKind::context_heads) <= 8 * 2 * 2 * exchanged * 1.1);
}

TEST_CASE("attention of packed rows has the work of their documents", "[context]") {
  Plan plan = long_sequences(1);
  const double whole = attention_flops(compiled_for(long_model(), plan, of_ranks(1)).graph);
  plan.training.packing = true;
  for (const double documents : {1.0, 3.0, 9.5}) {
    plan.training.documents_per_row = documents;
    const Compiled packed = compiled_for(long_model(), plan, of_ranks(1));
    CHECK(attention_flops(packed.graph) == Approx(whole * 2 / (documents + 1)));
    // The model FLOPs that MFU is computed from stay the same with packed documents. They are not
    // halved for the mask either.
    Plan one = plan;
    one.training.packing = false;
    one.training.documents_per_row.reset();
    CHECK(model_flops(packed.graph) ==
          model_flops(compiled_for(long_model(), one, of_ranks(1)).graph));
  }
}

TEST_CASE("a ring hides behind attention where sequences are long", "[context]") {
  const Cluster one = of_ranks(1), eight = of_ranks(8);
  const Prediction alone = predict(compiled_for(long_model(), long_sequences(1), one), one);
  Plan plan = long_sequences(8);
  const Prediction ring = predict(compiled_for(long_model(), plan, eight), eight);
  plan.parallelism.context_exchange = ContextExchange::all_gather;
  const Prediction gathered = predict(compiled_for(long_model(), plan, eight), eight);
  CHECK(ring.step_time_s < alone.step_time_s / 5);
  CHECK(ring.step_time_s > alone.step_time_s / 8);
  CHECK(ring.tokens_per_s == Approx(8 * 16384 / ring.step_time_s));
  CHECK(ring.exposed_communication_s < gathered.exposed_communication_s);
  CHECK(ring.mfu <= 1);
}

TEST_CASE("PyTorch's ring has the keys and values of all heads and waits for them", "[context]") {
  Model model = long_model();
  model.kv_heads = 4;
  const Cluster four = of_ranks(4);
  Plan plan = long_sequences(4);
  const Compiled own = compiled_for(model, plan, four);
  plan.parallelism.context_of_pytorch = true;
  const Compiled pytorch = compiled_for(model, plan, four);
  verify(pytorch.stages);
  CHECK(attention_flops(pytorch.graph) == Approx(attention_flops(own.graph)));
  CHECK(model_flops(pytorch.graph) == Approx(model_flops(own.graph)));
  const std::int64_t tokens = 16384 / 4, width = 2 * 16 * 128;
  int gathers = 0, shifts = 0;
  for (const Node& node : pytorch.graph.nodes) {
    if (node.op != Op::context_gather && node.op != Op::context_shift) continue;
    const TensorType& sent = pytorch.graph.tensor(node.inputs[0]).type;
    CHECK(sent.shape == Shape{tokens, width});
    CHECK(sent.dtype == (node.op == Op::context_gather ? Dtype::f16 : Dtype::f32));
    ++(node.op == Op::context_gather ? gathers : shifts);
  }
  CHECK(gathers == 2 * 2);  // of both phases of two layers
  CHECK(shifts == 4 * 2);
  const Prediction ring = predict(own, four), waits = predict(pytorch, four);
  CHECK(waits.step_time_s > ring.step_time_s);
  // Compute waits for all communication: in each layer two gathers and four shifts.
  const Topology topology(four);
  const Groups groups = {{0, 1, 2, 3}};
  const double kept = static_cast<double>(tokens * width);
  const double gathered =
      collective_time(topology, CollectiveKind::all_gather, {4 * 2 * kept}, groups).value;
  const double shifted =
      transfer_time(topology, {4 * kept}, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}).value;
  CHECK(waits.exposed_communication_s >= 8 * 2 * (2 * gathered + 4 * shifted) * 0.999);
}

TEST_CASE("replays with context groups hold together", "[context][replay]") {
  using enum ContextExchange;
  struct Degrees {
    int pipeline, tensor, context, data, zero;
    ContextExchange exchange;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
  };
  for (const MachineCase& machine : machine_cases())
    for (const Degrees& d : {Degrees{1, 1, 8, 1, 0, p2p}, Degrees{1, 1, 4, 2, 3, all_gather},
                             Degrees{1, 2, 4, 1, 2, p2p}, Degrees{2, 2, 2, 1, 1, all_gather},
                             Degrees{2, 1, 2, 2, 1, p2p, ScheduleKind::zero_bubble},
                             Degrees{1, 1, 4, 2, 3, all_to_all}, Degrees{2, 2, 2, 1, 1, all_to_all},
                             Degrees{2, 1, 2, 2, 1, all_to_all, ScheduleKind::zero_bubble},
                             Degrees{1, 1, 8, 1, 3, a2a_p2p}, Degrees{2, 1, 4, 1, 1, a2a_p2p}}) {
      const Cluster cluster = machine.cluster();
      Plan plan;
      plan.training.micro_batch = 2;
      plan.training.global_batch = 16 * d.data;
      plan.training.sequence_length = 128;
      Parallelism& p = plan.parallelism;
      p.pipeline = d.pipeline, p.tensor = d.tensor, p.context = d.context, p.data = d.data;
      p.zero_stage = d.zero;
      p.context_exchange = d.exchange;
      if (d.exchange == a2a_p2p) p.context_heads = 2;
      p.schedule = d.schedule;
      INFO(machine.name << " p" << p.pipeline << " t" << p.tensor << " c" << p.context);
      const Compiled compiled = compiled_for(small_model(), plan, cluster);
      verify(compiled.stages);
      const ReplayResult folded = replay_of(compiled, cluster, true);
      const ReplayResult every = replay_of(compiled, cluster, false);
      CHECK(folded.step_time > 0);
      CHECK(folded.step_time == every.step_time);
      CHECK(folded.bytes_sent == every.bytes_sent);
      Topology faster(cluster);
      for (const LinkKind kind : {LinkKind::nvlink, LinkKind::nic}) faster.scale_links(kind, 2);
      CHECK(replay(compiled.stages, faster).step_time <= folded.step_time);
    }
}
