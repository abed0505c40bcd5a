// Tests what offloading costs and saves in simulated time and memory.
#include <algorithm>

#include "sim/predict/predict.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

// Returns a plan of GPipe with 8 micro-batches of 2 sequences.
Plan plan_of(int pipeline, int data, Offload offload) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 16 * data;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.training.recompute = Recompute::full;
  plan.parallelism.pipeline = pipeline;
  plan.parallelism.data = data;
  plan.parallelism.schedule = ScheduleKind::gpipe;
  plan.parallelism.offload = offload;
  return plan;
}

struct Simulated {
  Prediction prediction;
  // Seconds that rank 0 spends in copies, and in the optimizer at the end of the step.
  double copies_s = 0, optimizer_s = 0;
};

Simulated simulate(const Plan& plan, const Cluster& cluster) {
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  Timeline timeline;
  Simulated result{predict(compiled, cluster, {.timeline = &timeline})};
  for (const TimelineEntry& entry : timeline.entries) {
    const Program& program = compiled.stages.front();
    if (entry.rank != 0) continue;
    const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
    const Instruction& instruction = program.bodies[static_cast<std::size_t>(task.body)]
                                         .instructions[static_cast<std::size_t>(entry.instruction)];
    if (instruction.stream == Stream::copy_out || instruction.stream == Stream::copy_in)
      result.copies_s += to_seconds(entry.end - entry.begin).value;
    if (instruction.kind == InstructionKind::optimizer_step || instruction.op == Op::lamb_norms)
      result.optimizer_s += to_seconds(entry.end - entry.begin).value;
  }
  return result;
}

}  // namespace

TEST_CASE("offloading takes from the device what it gives to the host", "[sim][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Prediction kept = simulate(plan_of(2, 4, Offload::none), cluster).prediction;
  CHECK(kept.host_memory_bytes == 0);
  for (const Offload offload : {Offload::activations, Offload::layers}) {
    INFO(offload_names()[static_cast<std::size_t>(offload)]);
    const Plan plan = plan_of(2, 4, offload);
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    const Prediction sent = predict(compiled, cluster);
    CHECK(sent.peak_memory_bytes < kept.peak_memory_bytes);
    // The one host has four replicas of both stages.
    CHECK(sent.host_memory_bytes ==
          4 * (compiled.stages[0].memory.host_bytes + compiled.stages[1].memory.host_bytes));
    CHECK(sent.fits);
    Cluster small = cluster;
    small.machine.host.memory_bytes = static_cast<double>(sent.host_memory_bytes - 1);
    CHECK_FALSE(predict(compiled, small).fits);
  }
}

TEST_CASE("without recomputation blocks' activations leave, but for some of the last",
          "[sim][offload]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 1, {}, {}};
  const auto memory = [&](Offload offload, int horizon) {
    Plan plan = plan_of(1, 1, offload);
    plan.training.recompute = Recompute::none;
    plan.parallelism.schedule = ScheduleKind::one_f_one_b;
    plan.parallelism.offload_horizon = horizon;
    return predict(compiled_for(small_model(12), plan, cluster), cluster);
  };
  const Prediction kept = memory(Offload::none, 0);
  std::int64_t fewer = kept.peak_memory_bytes, on_host = 0;
  for (const int layers : {8, 4, 2}) {
    INFO(layers);
    const Prediction sent = memory(Offload::layers, layers);
    const std::int64_t saved = kept.peak_memory_bytes - sent.peak_memory_bytes;
    CHECK(sent.peak_memory_bytes <= fewer);
    CHECK(sent.host_memory_bytes > on_host);
    // The device has memory for the saved tensors of two blocks, which offloaded blocks use
    // round-robin.
    CHECK(static_cast<double>(saved) ==
          Approx(static_cast<double>(sent.host_memory_bytes) * (12 - layers) / (14 - layers))
              .epsilon(0.02));
    fewer = sent.peak_memory_bytes, on_host = sent.host_memory_bytes;
  }
}

TEST_CASE("copies run beside compute where streams do, and in line where not", "[sim][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 1, {}, 0.0};
  for (const Offload offload : {Offload::activations, Offload::layers}) {
    INFO(offload_names()[static_cast<std::size_t>(offload)]);
    const Plan none = plan_of(1, 1, Offload::none), plan = plan_of(1, 1, offload);
    cluster.machine.concurrent_streams = true;
    const double alone = simulate(none, cluster).prediction.step_time_s;
    const Simulated beside = simulate(plan, cluster);
    CHECK(beside.copies_s > 0);
    CHECK(beside.prediction.step_time_s >= alone);
    CHECK(beside.prediction.step_time_s < alone + 0.5 * beside.copies_s);
    cluster.machine.concurrent_streams = false;
    const double serial = simulate(none, cluster).prediction.step_time_s;
    const Simulated in_line = simulate(plan, cluster);
    CHECK(in_line.prediction.step_time_s == Approx(serial + in_line.copies_s));
  }
}

TEST_CASE("a slower bus to the host is never faster", "[sim][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 2, {}, {}};
  for (const Offload offload : {Offload::activations, Offload::layers, Offload::optimizer}) {
    const Plan plan = plan_of(2, 1, offload);
    const Pcie pcie = cluster.machine.pcie;
    double before = 0;
    for (const double factor : {100.0, 1.0, 0.1, 0.001}) {
      INFO(offload_names()[static_cast<std::size_t>(offload)] << " " << factor);
      cluster.machine.pcie.gpu_bandwidth_bytes_per_s = pcie.gpu_bandwidth_bytes_per_s * factor;
      cluster.machine.pcie.uplink_bandwidth_bytes_per_s =
          pcie.uplink_bandwidth_bytes_per_s * factor;
      const Prediction p = simulate(plan, cluster).prediction;
      CHECK(p.step_time_s >= before);
      before = p.step_time_s;
    }
    cluster.machine.pcie = pcie;
    CHECK(before > simulate(plan, cluster).prediction.step_time_s);  // 1000 times slower shows
  }
}

TEST_CASE("states of the optimizer leave the device, and their copies take the bus's time",
          "[sim][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 1, {}, 0.0};
  cluster.machine.concurrent_streams = true;
  for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
    Plan plan = plan_of(1, 1, Offload::none);
    plan.training.recompute = Recompute::none;
    plan.training.optimizer = optimizer;
    plan.training.micro_batch = 1, plan.training.sequence_length = 16;
    plan.parallelism.reduce_bucket_bytes = 1 << 16;
    const Simulated kept = simulate(plan, cluster);
    plan.parallelism.offload = Offload::optimizer;
    const Simulated sent = simulate(plan, cluster);
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    const Program& program = compiled.stages.front();
    const auto end = static_cast<std::size_t>(program.tasks.back().body);
    double in = 0, out = 0;
    std::int64_t largest = 0, place = 0;
    for (const Instruction& each : program.bodies[end].instructions) {
      if (each.kind == InstructionKind::copy_in)
        in += static_cast<double>(each.inputs[0].type.bytes());
      if (each.kind == InstructionKind::copy_out)
        out += static_cast<double>(each.inputs[0].type.bytes());
    }
    for (const Buffer& buffer : program.memory.buffers)
      if (buffer.name == "states") largest = std::max(largest, buffer.bytes), ++place;
    CHECK(place == 2);
    // Device memory falls by the size of the states, except for two buffers, which may fit into
    // memory that the bodies use anyway.
    const std::int64_t saved =
        kept.prediction.peak_memory_bytes - sent.prediction.peak_memory_bytes;
    CHECK(saved <= program.memory.state_bytes);
    CHECK(saved >= program.memory.state_bytes - 2 * (largest + arena_alignment));
    CHECK(sent.prediction.host_memory_bytes == program.memory.state_bytes);
    // Copies in both directions overlap with each other and with the optimizer. So the step grows
    // by no less than the longer direction needs, and by no more than all copies one after another.
    const double bandwidth = cluster.machine.pcie.gpu_bandwidth_bytes_per_s;
    const double grows = sent.prediction.step_time_s - kept.prediction.step_time_s;
    const double step_alone = kept.optimizer_s;
    CHECK(grows >= std::max(in, out) / bandwidth - step_alone);
    CHECK(grows <= sent.copies_s);
    CHECK(sent.copies_s >= (in + out) / bandwidth);
    // Copies of one bucket overlap with copies of another bucket in the other direction.
    CHECK(grows < 0.9 * sent.copies_s);
    CHECK(sent.optimizer_s >= kept.optimizer_s);  // the same work, in more kernels
  }
}

TEST_CASE("states that exceed the hosts' memory do not fit", "[sim][offload]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Plan plan = plan_of(2, 4, Offload::optimizer);
  const Prediction sent = simulate(plan, cluster).prediction;
  CHECK(sent.fits);
  cluster.machine.host.memory_bytes = static_cast<double>(sent.host_memory_bytes - 1);
  CHECK_FALSE(simulate(plan, cluster).prediction.fits);
}
