// Tests predictions against values that can be worked out by hand.
#include <algorithm>

#include "models/program/graph/op_table.h"
#include "sim/collectives/select.h"
#include "sim/cost/cost.h"
#include "sim/cost/gemm.h"
#include "sim/predict/goodput.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/sim/failures.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan data_parallel(int data) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 2 * data;
  plan.training.sequence_length = 128;
  plan.parallelism.data = data;
  return plan;
}

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {Kernel::Kind::gemm, m, n, k, 1, 2.0 * static_cast<double>(m * n * k), 0};
}

double transfer_s(const Cluster& cluster, const std::vector<std::pair<int, int>>& pairs) {
  return transfer_time(Topology(cluster), {1e9}, pairs).value;
}

}  // namespace

TEST_CASE("tiles take as long to begin and to end whatever their arithmetic", "[cost]") {
  Gpu gpu;
  gpu.kind = DeviceKind::gpu;
  gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] = 1e13;
  gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp16)] = 1e14;
  gpu.sm_count = 10;
  gpu.kernels.depth_start = 256;
  // Ten processors compute 20 tiles of 128x128: two waves of depth 1000, and once a start of depth
  // 256 in fp16. In fp32, whose arithmetic is ten times slower, the start counts as 25.6. A tile
  // with a share of 97 % loses only a fifth of the other 3 % if operands are needed at 20 % of the
  // speed.
  CHECK(shape_efficiency(product(2560, 128, 1000), gpu, Precision::fp16) ==
        Approx(0.97 * 2000 / (2000 + 256)));
  CHECK(shape_efficiency(product(2560, 128, 1000), gpu, Precision::fp32) ==
        Approx(1 / (1 + 0.2 * (1 / 0.97 - 1)) * 2000 / (2000 + 25.6)));
}

TEST_CASE("a weight's gradient reads both operands and the sum, which it writes", "[cost]") {
  constexpr std::int64_t tokens = 96, from = 64, to = 160;
  const std::vector<TensorType> operands = {{Shape{tokens, from}, Dtype::f16},
                                            {Shape{tokens, to}, Dtype::f16}},
                                sum = {{Shape{from, to}, Dtype::f32}};
  Attributes attributes;
  const auto kernels_of = [&] {
    std::vector<Kernel> kernels;
    append_kernels({Op::linear_grad_weight, attributes, operands, sum}, CompilerLevel::fused,
                   kernels);
    return kernels;
  };
  const double read = 2.0 * tokens * (from + to), elements = from * to;
  std::vector<Kernel> kernels = kernels_of();
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].flops == 2.0 * tokens * elements);
  CHECK(kernels[0].bytes == read + (4 + 4) * elements);
  // If gradients are accumulated by a separate kernel, they are written in 16 bits and then added
  // to the sum's 32 bits.
  attributes.accumulate_separately = true;
  kernels = kernels_of();
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].bytes == read + 2 * elements);
  CHECK(kernels[1].bytes == (2 + 4 + 4) * elements);
}

TEST_CASE("copies to the host share what the GPUs of a switch have", "[cost][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 1, {}, {}};
  Pcie& pcie = cluster.machine.pcie;
  REQUIRE(pcie.switches.size() == 4);  // of two GPUs each
  pcie.gpu_bandwidth_bytes_per_s = 20e9;
  pcie.uplink_bandwidth_bytes_per_s = 30e9;
  CHECK(host_copy_bandwidth(cluster) == 15e9);
  pcie.uplink_bandwidth_bytes_per_s = 50e9;
  CHECK(host_copy_bandwidth(cluster) == 20e9);

  Plan plan = data_parallel(1);
  plan.training.global_batch = 16;
  plan.training.recompute = Recompute::full;
  plan.parallelism.schedule = ScheduleKind::gpipe;
  plan.parallelism.offload = Offload::activations;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const Program& program = compiled.stages[0];
  const CostModel cost(cluster, plan.training);
  double there = 0, back = 0;
  for (const Task& task : program.tasks)
    for (const Instruction& instruction :
         program.bodies[static_cast<std::size_t>(task.body)].instructions) {
      const bool out = instruction.kind == InstructionKind::copy_out;
      if (!runs(instruction, task) || (!out && instruction.kind != InstructionKind::copy_in))
        continue;
      const auto bytes = static_cast<double>(instruction.inputs[0].type.bytes());
      CHECK(cost.time(instruction, program).value ==
            Approx(bytes / 20e9 + cluster.machine.gpu.kernel_latency_s));
      (out ? there : back) += bytes;
    }
  // The offloaded tensors are the inputs of six blocks, 2 x 128 tokens of 256 elements in fp32, of
  // 8 micro-batches. With gpipe each comes back 8 tasks later.
  CHECK(there == 6 * 8 * 2 * 128 * 256 * 4.0);
  CHECK(back == there);
}

TEST_CASE("a CPU's copies to the host are read and written in one memory", "[cost][offload]") {
  Machine local;
  local.gpus = 4;
  local.gpu.kind = DeviceKind::cpu;
  local.gpu.sm_count = 4;
  local.gpu.memory_bandwidth_bytes_per_s = 24e9;
  local.gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] = 50e9;
  local.shared_memory = SharedMemory{4e9, 8e9};
  const Cluster cluster{local, 1, 2, {}, {}};
  CHECK(host_copy_bandwidth(cluster) == 24e9 / 2 / 2);  // two ranks share it

  // Memory into which a CPU offloads still belongs to the process.
  Plan plan = data_parallel(2);
  plan.training.global_batch = 32;
  plan.training.recompute = Recompute::full;
  plan.parallelism.schedule = ScheduleKind::gpipe;
  plan.parallelism.offload = Offload::activations;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const auto memory = stage_memory(compiled.stages, cluster);
  const std::int64_t on_host = compiled.stages[0].memory.host_bytes;
  CHECK(on_host > 0);
  CHECK(memory[0].peak_bytes ==
        memory[0].arena_bytes + memory[0].scratch_bytes + memory[0].library_bytes + on_host);
}

TEST_CASE("groups on the second host take what those on the first do", "[sim][collectives]") {
  for (const char* machine : {"p3.16xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.12xlarge"}) {
    const int gpus = load_machine(machine).gpus;
    const Topology topology(Cluster{load_machine(machine), 2, gpus, {}, {}});
    for (const int size : {2, 4}) {
      Groups first, second, both;
      for (int begin = 0; begin < gpus; begin += size) {
        std::vector<int> group;
        for (int rank = begin; rank < begin + size; ++rank) group.push_back(rank);
        first.push_back(group), both.push_back(group);
        for (int& rank : group) rank += gpus;
        second.push_back(group), both.push_back(group);
      }
      for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
        for (const double bytes : {1e4, 1e8}) {
          INFO(machine << " groups of " << size << " kind " << static_cast<int>(kind) << " "
                       << bytes);
          const double alone = collective_time(topology, kind, {bytes}, first).value;
          CHECK(collective_time(topology, kind, {bytes}, second).value == alone);
          CHECK(collective_time(topology, kind, {bytes}, both).value == alone);
        }
    }
  }
}

TEST_CASE("groups side by side take as long as the slowest of them", "[sim][collectives]") {
  // In the cube mesh, GPUs 0 and 3 are joined by two NVLinks, GPUs 1 and 6 by none.
  const Topology topology(Cluster{load_machine("p3.16xlarge"), 2, 8, {}, {}});
  const auto time = [&](const Groups& groups) {
    return collective_time(topology, CollectiveKind::all_reduce, {1e8}, groups).value;
  };
  const double linked = time({{0, 3}}), apart = time({{1, 6}});
  CHECK(apart > 1.5 * linked);
  CHECK(time({{0, 3}, {1, 6}}) == apart);
  CHECK(time({{1, 6}, {0, 3}}) == apart);
  CHECK(time({{0, 3}, {9, 14}}) == apart);
}

TEST_CASE("the ranks of a CPU host share its network card", "[sim][collectives]") {
  Machine local;
  local.name = "local";
  local.gpus = 64;
  local.gpu.kind = DeviceKind::cpu;
  local.shared_memory = SharedMemory{40e9, 80e9};
  local.network.nics = 1;
  local.network.gbit_per_s_each = 8;
  local.network.efficiency = 0.5;
  Cluster cluster{local, 2, 2, {}, {}};  // 8 Gbit/s at one half: 0.5 GB/s
  CHECK(transfer_s(cluster, {{0, 2}}) == Approx(2).epsilon(1e-3));
  CHECK(transfer_s(cluster, {{0, 2}, {1, 3}}) == Approx(4).epsilon(1e-3));
  CHECK(transfer_s(cluster, {{0, 2}, {3, 1}}) == Approx(2).epsilon(1e-3));  // the other way
  cluster.machine.network.nics = 2;
  CHECK(transfer_s(cluster, {{0, 2}, {1, 3}}) == Approx(2).epsilon(1e-3));
}

TEST_CASE("a network fault slows the network that the job gives", "[faults]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 2, 1, {}, {}};
  Plan plan = data_parallel(1);
  plan.parallelism.pipeline = 2;
  plan.training.global_batch = 2;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const auto step = [&](std::optional<double> gbps, std::optional<double> factor) {
    cluster.network_override.reset();
    if (gbps) cluster.network_override = NetworkOverride{1, gbps, {}};
    cluster.faults.degraded_links.clear();
    if (factor) cluster.faults.degraded_links = {{FaultyLink::network, {}, *factor}};
    return to_seconds(replay(compiled.stages, Topology(cluster)).step_time).value;
  };
  // The messages are activations and their gradients, 2 x 128 tokens of 256 elements in fp32, there
  // and back. In addition, the gradients of the table that both stages have, 1,000 words padded to
  // 1,024, are summed in a ring of two ranks, which sends as many bytes as they have.
  const double bytes = 2.0 * 2 * 128 * 256 * 4 + 1024.0 * 256 * 4,
               share = cluster.machine.network.efficiency;
  const auto wire = [&](double gbps) { return bytes / (gbps * 1e9 / 8 * share); };
  const double ten = step(10, {}), one = step(1, {});
  CHECK(one - ten == Approx(wire(1) - wire(10)).epsilon(1e-3));
  CHECK(step(10, 0.1) == Approx(one).epsilon(1e-6));
  CHECK(step(1, 0.1) - one == Approx(wire(0.1) - wire(1)).epsilon(1e-3));
}

TEST_CASE("a checkpoint's copy stops training for what the memory needs", "[goodput]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 2, 8, {}, {}};
  const Compiled compiled = compiled_for(small_model(), data_parallel(16), cluster);
  cluster.failures = sudden_failures(1e4, 100, 1e6);
  // The memory is slow, so that the stall of a checkpoint counts: 12 bytes per parameter, shared by
  // 16 ranks, are read and written.
  cluster.machine.gpu.memory_bandwidth_bytes_per_s = 1e6;
  const double bytes = 12.0 * static_cast<double>(parameter_count(compiled.graph));
  const FailureModel failures{1e4 / 2, 100, 2 * bytes / 16 / 1e6, bytes / 2 / 1e6};
  const double step_s = 3;
  for (const int every : {1, 5, 50}) {
    const Goodput found = goodput_of(compiled, cluster, every, step_s).value();
    CHECK(found.every_steps == every);
    CHECK(found.share == Approx(goodput(failures, every * step_s)));
    CHECK(found.checkpoint_write_s == Approx(failures.write_s));
    FailureModel without = failures;
    without.stall_s = 0;
    CHECK(found.share < goodput(without, every * step_s) * (1 - 1e-4));
  }
}
