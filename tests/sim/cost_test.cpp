#include "sim/cost/cost.h"

#include <memory>
#include <set>

#include "hwprofiles/load.h"
#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "sim/cost/gemm.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

// Returns a cluster with one device of 100 TFLOP/s in fp16, 10 TFLOP/s in fp32, 1 TB/s of memory
// bandwidth and 10 multiprocessors, without latency and with full efficiency.
Cluster plain_cluster() {
  Machine machine;
  machine.name = "plain";
  machine.gpu.kind = DeviceKind::gpu;
  machine.gpu.memory_bandwidth_bytes_per_s = 1e12;
  machine.gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] = 1e13;
  machine.gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp16)] = 1e14;
  machine.gpu.sm_count = 10;
  return {machine, 1, 1, {}, {}};
}

Training training_in(Precision precision) {
  Training training;
  training.precision = precision;
  return training;
}

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k, double bytes = 0) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return {Kernel::Kind::gemm, m, n, k, 1, flops, bytes};
}

Kernel traffic(double bytes) { return {Kernel::Kind::memory, 0, 0, 0, 1, 0, bytes}; }

double time_on(const Cluster& cluster, Precision precision, const Kernel& kernel) {
  return CostModel(cluster, training_in(precision)).time(kernel).value;
}

}  // namespace

TEST_CASE("a product takes its FLOPs or its bytes, whichever lasts longer", "[cost]") {
  const Cluster cluster = plain_cluster();
  // The product has 10 tiles of 256x128, one full wave on 10 multiprocessors: 2*2560*128*1000 /
  // 1e14 = 6.5536 us.
  CHECK(time_on(cluster, Precision::fp16, product(2560, 128, 1000)) == Approx(6.5536e-6));
  // Moving 100 MB at 1 TB/s takes 100 us.
  CHECK(time_on(cluster, Precision::fp16, product(2560, 128, 1000, 1e8)) == Approx(1e-4));
  CHECK(time_on(cluster, Precision::fp16, traffic(1e8)) == Approx(1e-4));
}

TEST_CASE("on a CPU a product takes its FLOPs and, to pack the operands, its bytes", "[cost]") {
  Cluster cluster = plain_cluster();
  cluster.machine.gpu.kind = DeviceKind::cpu;  // 10 cores of 10 TFLOP/s each
  // The arithmetic takes 2*2560*128*1000 / 1e14 = 6.5536 us, and packing 1 MB at 1 TB/s takes 1 us.
  CHECK(time_on(cluster, Precision::fp32, product(2560, 128, 1000, 1e6)) == Approx(7.5536e-6));
  // Operands are read from memory at 0.5 TB/s, even if this many bytes would fit into a cache.
  cluster.machine.gpu.memory_bound.points = {{1e6, 1}, {1e9, 0.5}};
  CHECK(time_on(cluster, Precision::fp32, product(2560, 128, 1000, 1e6)) == Approx(8.5536e-6));
  CHECK(time_on(cluster, Precision::fp32, traffic(1e6)) == Approx(1e-6));
}

TEST_CASE("efficiency curves and kernel latency apply", "[cost]") {
  Cluster cluster = plain_cluster();
  cluster.machine.gpu.gemm.points = {{1, 0.5}};
  cluster.machine.gpu.memory_bound.points = {{1, 0.25}};
  cluster.machine.gpu.kernel_latency_s = 3e-6;
  CHECK(time_on(cluster, Precision::fp16, product(2560, 128, 1000)) ==
        Approx(2 * 6.5536e-6 + 3e-6));
  CHECK(time_on(cluster, Precision::fp16, traffic(1e8)) == Approx(4e-4 + 3e-6));
}

TEST_CASE("fused attention has a curve of its own, and another one for its gradient", "[cost]") {
  Cluster cluster = plain_cluster();
  Kernel attention{Kernel::Kind::attention, 1024, 1024, 64, 4, 4e9, 0};  // 1e9 of each head
  cluster.machine.gpu.attention.points = {{1e8, 0.1}, {1e9, 0.5}};
  CHECK(time_on(cluster, Precision::fp16, attention) == Approx(4e9 / 0.5e14));
  attention.backward = true;
  CHECK(time_on(cluster, Precision::fp16, attention) == Approx(4e9 / 0.5e14));
  cluster.machine.gpu.attention_backward.points = {{1e9, 0.4}};
  CHECK(time_on(cluster, Precision::fp16, attention) == Approx(4e9 / 0.4e14));
  attention.backward = false;
  CHECK(time_on(cluster, Precision::fp16, attention) == Approx(4e9 / 0.5e14));
}

TEST_CASE("each fused attention has shares of its own, which short sequences reach a part of",
          "[cost]") {
  Cluster cluster = plain_cluster();
  KernelConstants& constants = cluster.machine.gpu.kernels;
  constants.flash2_forward = 0.4, constants.flash2_backward = 0.2;
  constants.cudnn_forward = 0.8, constants.cudnn_backward = 0.5;
  Kernel attention{Kernel::Kind::attention, 1024, 1024, 128, 4, 4e9, 0};
  const auto takes = [&](AttentionKernel kernel) {
    Training training = training_in(Precision::fp16);
    training.attention = kernel;
    return CostModel(cluster, training).time(attention).value;
  };
  CHECK(takes(AttentionKernel::flash2) == Approx(4e9 / 0.4e14));
  CHECK(takes(AttentionKernel::cudnn) == Approx(4e9 / 0.8e14));
  constants.attention_ramp = 512;  // 1024 of 1536
  CHECK(takes(AttentionKernel::cudnn) == Approx(1.5 * 4e9 / 0.8e14));
  attention.backward = true;
  CHECK(takes(AttentionKernel::flash2) == Approx(1.5 * 4e9 / 0.2e14));
  CHECK(takes(AttentionKernel::cudnn) == Approx(1.5 * 4e9 / 0.5e14));
}

TEST_CASE("in a fixed order the gradient of attention leaves multiprocessors idle", "[cost]") {
  Cluster cluster = plain_cluster();  // 10 multiprocessors
  cluster.machine.gpu.attention.points = {{1, 0.5}};
  Training training = training_in(Precision::fp16);
  const auto slower = [&](std::int64_t heads, bool backward) {
    const Kernel kernel{.kind = Kernel::Kind::attention,
                        .m = 1024,
                        .n = 1024,
                        .k = 128,
                        .batch = heads,
                        .flops = 1e12,
                        .backward = backward};
    training.deterministic = false;
    const double usual = CostModel(cluster, training).time(kernel).value;
    training.deterministic = true;
    return CostModel(cluster, training).time(kernel).value / usual;
  };
  CHECK(slower(4, false) == Approx(1));
  CHECK(slower(5, true) == Approx(1));           // two blocks a head: one full wave
  CHECK(slower(4, true) == Approx(20.0 / 12));   // three blocks a head: two waves for 12
  CHECK(slower(32, true) == Approx(40.0 / 32));  // a block a head
  training.attention = AttentionKernel::cudnn;
  CHECK(slower(4, true) == Approx(1));  // has an order of its own
}

TEST_CASE("in deterministic mode what an operation makes is filled first", "[cost]") {
  const Cluster cluster = plain_cluster();
  Training training = training_in(Precision::fp32);
  Graph graph;
  graph.add_module("m", graph.add_unit("u", true));
  const int x = graph.add_tensor({{1000, 1000}, Dtype::f32}, Role::activation);
  graph.add(Op::relu, 0, {x}, {});
  const double bytes = CostModel(cluster, training).work(graph).bytes;
  training.deterministic = true;
  CHECK(CostModel(cluster, training).work(graph).bytes == bytes + 4e6);
}

TEST_CASE("in deterministic mode nothing is filled where no kernel runs", "[cost]") {
  Training training = training_in(Precision::fp32);
  training.compiler = CompilerLevel::fused;
  Model model = small_model();
  Plan plan;
  plan.training = training;
  plan.training.sequence_length = 128;
  plan.parallelism.tensor = 2;  // an all-reduce is in place
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  std::int64_t launching = 0;
  std::vector<Kernel> kernels;
  for (const Node& node : graph.nodes) {
    std::vector<TensorType> inputs, outputs;
    for (const int id : node.inputs) inputs.push_back(graph.tensor(id).type);
    for (const int id : node.outputs) outputs.push_back(graph.tensor(id).type);
    kernels.clear();
    append_kernels({node.op, node.attributes, inputs, outputs}, plan.training.compiler, kernels);
    launching += !kernels.empty() && !node.attributes.adds;
  }
  const Cluster cluster = plain_cluster();
  const std::int64_t usual = CostModel(cluster, plan.training).work(graph).kernels;
  plan.training.deterministic = true;
  CHECK(CostModel(cluster, plan.training).work(graph).kernels == usual + launching);
}

TEST_CASE("a loss of separate kernels moves 24 bytes a logit more", "[cost]") {
  const int tensor = GENERATE(1, 2);
  const CompilerLevel level = GENERATE(CompilerLevel::fused, CompilerLevel::full);
  const Cluster cluster = plain_cluster();
  Plan plan;
  plan.training = training_in(Precision::bf16);
  plan.training.compiler = level;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  plan.parallelism.tensor = tensor;
  const Model model = small_model();
  const auto bytes = [&](bool fusion) {
    plan.training.cross_entropy_fusion = fusion;
    return CostModel(cluster, plan.training)
        .work(run_passes(build_graph(model, plan.training), plan))
        .bytes;
  };
  const double logits =
      2.0 * 128 * static_cast<double>(padded_vocabulary(model.vocabulary, tensor)) / tensor;
  CHECK(bytes(false) - bytes(true) == (level == CompilerLevel::fused ? 24 * logits : 0));
}

TEST_CASE("without units for a precision the device computes in fp32", "[cost]") {
  const Cluster cluster = plain_cluster();
  const double fp32 = time_on(cluster, Precision::fp32, product(2560, 128, 1000));
  CHECK(fp32 == Approx(6.5536e-5));
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp8})
    CHECK(time_on(cluster, precision, product(2560, 128, 1000)) == Approx(fp32));
  const Gpu h100 = load_machine("p5.48xlarge").gpu;
  CHECK(executed_precision(h100, Precision::fp64) == Precision::fp32);
  Cluster cpu = cluster;  // whose vectors hold half as many numbers of 64 bits
  cpu.machine.gpu.kind = DeviceKind::cpu;
  CHECK(time_on(cpu, Precision::fp64, product(2560, 128, 1000)) ==
        Approx(2 * time_on(cpu, Precision::fp32, product(2560, 128, 1000))).epsilon(0.01));
  CHECK(executed_precision(h100, Precision::fp8) == Precision::fp8);
  CHECK(executed_precision(load_machine("p4d.24xlarge").gpu, Precision::fp8) == Precision::bf16);
}

// The head, attention and all other matmuls that are not rounded run in bf16.
TEST_CASE("in fp8 the products of 8 bits alone run at its peak", "[cost]") {
  Cluster cluster{load_machine("p5.48xlarge"), 1, 1, {}, {}};
  const Kernel whole = product(8192, 8192, 8192);
  Kernel rounded = whole;
  rounded.quantized = true;
  const double bf16 = time_on(cluster, Precision::bf16, whole);
  CHECK(time_on(cluster, Precision::fp8, whole) == bf16);
  const double fp8 = time_on(cluster, Precision::fp8, rounded);
  CHECK(fp8 < 0.6 * bf16);
  cluster.machine.gpu.kernels.fp8_share /= 2;
  CHECK(time_on(cluster, Precision::fp8, rounded) > 1.9 * fp8);
  CHECK(time_on(cluster, Precision::fp8, whole) == bf16);
}

TEST_CASE("in nvfp4 the products of 4 bits run at the peak in fp4, others in bf16", "[cost]") {
  Cluster cluster{load_machine("p6-b200.48xlarge"), 1, 1, {}, {}};
  const Kernel whole = product(8192, 8192, 8192);
  Kernel rounded = whole;
  rounded.quantized = true;
  CHECK(time_on(cluster, Precision::nvfp4, whole) == time_on(cluster, Precision::bf16, whole));
  // Measured matmuls of size 4096 or more are 1.56 times as fast as in fp8.
  const double fp8 = time_on(cluster, Precision::fp8, rounded);
  const double fp4 = time_on(cluster, Precision::nvfp4, rounded);
  CHECK(fp8 / fp4 == Approx(1.56).epsilon(0.05));
  cluster.machine.gpu.kernels.fp4_share /= 2;
  CHECK(time_on(cluster, Precision::nvfp4, rounded) > 1.9 * fp4);
  CHECK(time_on(cluster, Precision::fp8, rounded) == fp8);
  const Gpu h100 = load_machine("p5.48xlarge").gpu;
  CHECK(executed_precision(h100, Precision::nvfp4) == Precision::bf16);
  for (const char* machine :
       {"p6-b200.48xlarge", "p6-b300.48xlarge", "gb200-nvl72", "gb300-nvl72"}) {
    const Gpu gpu = load_machine(machine).gpu;
    CHECK(executed_precision(gpu, Precision::nvfp4) == Precision::nvfp4);
    CHECK(gpu.kernels.fp4_share < 0.8);
  }
}

TEST_CASE("shapes that do not fit tiles, waves or alignment lose", "[cost]") {
  const Gpu gpu = plain_cluster().machine.gpu;
  const auto share = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return shape_efficiency(product(m, n, k), gpu, Precision::fp16);
  };
  CHECK(share(2560, 128, 1000) == Approx(1.0));
  // 11 tiles of 256x128 need two waves of 10, which uses 11/20 of the device. Another tile size may
  // do better, but not reach the full device.
  CHECK(share(2816, 128, 128) >= 0.55);
  CHECK(share(2816, 128, 128) < 1.0);
  CHECK(share(2560, 128, 1001) == Approx(0.7 * share(2560, 128, 1000)));
  CHECK(shape_efficiency(product(2560, 128, 1001), gpu, Precision::fp32) == Approx(1.0));
  // A product of one tile of 64x64 on ten multiprocessors is cut eight times along k at 0.9 of the
  // speed. With the tile's share of 0.7 this gives 0.7 * 0.9 * 8/10, more than a larger tile that
  // is only partly used.
  CHECK(share(64, 64, 4096) == Approx(0.7 * 0.9 * 0.8));
  // In fp32 the arithmetic is ten times slower and operands have twice the size, so such a tile
  // loses only a fifth as much time.
  CHECK(shape_efficiency(product(64, 64, 4096), gpu, Precision::fp32) ==
        Approx(0.9 * 0.8 / (1 + 0.2 * (1 / 0.7 - 1))));
}

TEST_CASE("the host launches kernels one after the other, while the device works", "[cost]") {
  Cluster cluster = plain_cluster();
  cluster.host_launch_us = 8;
  cluster.machine.gpu.kernels.launches = {2, 1.5, 1};
  const CostModel cost(cluster, training_in(Precision::fp16));
  Instruction add;
  add.op = Op::add;
  const auto operand = [](std::int64_t rows) {
    return Operand{0, 0, {Shape{rows, 1000}, Dtype::f16}, GroupKind::none};
  };
  Program program;
  add.inputs = {operand(1), operand(1)};
  add.outputs = {operand(1)};
  CHECK(cost.launches(add, program) == 1);
  CHECK(cost.launch_time(add, program).value == Approx(1.5 * 8e-6));
  CHECK(cost.time(add, program).value == Approx(3 * 2e3 / 1e12));
  add.inputs = {operand(10000), operand(10000)};
  add.outputs = {operand(10000)};
  CHECK(cost.time(add, program).value == Approx(3 * 2e7 / 1e12));  // 20 MB each
  // A quarter of the launch time is not hidden, so the device waits that much longer.
  cluster.machine.gpu.kernels.exposed_launch = 0.25;
  CHECK(CostModel(cluster, training_in(Precision::fp16)).time(add, program).value ==
        Approx(6e-5 + 0.25 * 1.5 * 8e-6));
  // A step that is recorded as one graph is started at once, so it waits for no launches.
  StepSettings recorded = training_in(Precision::fp16);
  recorded.cuda_graph = true;
  CHECK(CostModel(cluster, recorded).time(add, program).value == Approx(6e-5));
  CHECK_FALSE(CostModel(cluster, recorded).host_launches());
  Instruction send;
  send.kind = InstructionKind::send;
  CHECK(cost.time(send, program).value == 0);
}

TEST_CASE("a fused dropout costs the bytes of its mask", "[cost]") {
  Cluster cluster = plain_cluster();
  cluster.machine.gpu.kernel_latency_s = 3e-6;
  Program program;
  Instruction dropout;
  dropout.op = Op::dropout;
  dropout.inputs = dropout.outputs = {{0, 0, {Shape{1000, 1000}, Dtype::f16}, GroupKind::none}};
  Instruction gradient = dropout;
  gradient.op = Op::dropout_grad;
  const auto time = [&](CompilerLevel level, const Instruction& instruction) {
    Training training = training_in(Precision::fp16);
    training.compiler = level;
    return CostModel(cluster, training).time(instruction, program).value;
  };
  // The tensor has a million elements: 2 MB are read, 2 MB written, and a mask of 1 MB.
  CHECK(time(CompilerLevel::fused, dropout) == Approx(1e-6));  // 1 MB at 1 TB/s, no launch
  CHECK(time(CompilerLevel::full, dropout) == 0);
  CHECK(time(CompilerLevel::none, dropout) == Approx(5e-6 + 3e-6));
  CHECK(time(CompilerLevel::fused, gradient) == Approx(5e-6 + 3e-6));
  CHECK(time(CompilerLevel::full, gradient) == Approx(4e-6 + 3e-6));
}

TEST_CASE("a fused softmax takes 16-bit scores of heads and tokens in fours", "[cost]") {
  Program program;
  const auto launched = [&](Op op, CompilerLevel level, int micro_batch, int heads, int tokens) {
    const std::int64_t rows = std::int64_t{micro_batch} * tokens;
    Instruction attention;
    attention.op = op;
    attention.inputs.assign(3, {0, 0, {Shape{rows, heads * 64}, Dtype::f16}, GroupKind::none});
    attention.outputs.assign(1, attention.inputs[0]);
    attention.attributes.attention = AttentionKernel::unfused;
    attention.attributes.micro_batch = micro_batch;
    attention.attributes.heads = heads;
    attention.attributes.head_dim = 64;
    attention.attributes.sequence_length = tokens;
    Training training = training_in(Precision::fp16);
    training.compiler = level;
    return CostModel(plain_cluster(), training).launches(attention, program);
  };
  constexpr CompilerLevel fused = CompilerLevel::fused;
  // The forward has two products and a softmax, the gradient four products and the softmax's
  // gradient.
  CHECK(launched(Op::attention, fused, 1, 4, 1024) == 3);
  CHECK(launched(Op::attention, fused, 2, 2, 1024) == 3);
  CHECK(launched(Op::attention_grad, fused, 2, 2, 1024) == 5);
  // Without the fused softmax there are five kernels: conversion, scaling, mask, softmax, and
  // conversion back.
  CHECK(launched(Op::attention, fused, 1, 2, 1024) == 2 + 5);
  CHECK(launched(Op::attention_grad, fused, 1, 2, 1024) == 4 + 5);
  CHECK(launched(Op::attention, fused, 4, 4, 1023) == 2 + 5);
  CHECK(launched(Op::attention, fused, 4, 4, 8192) == 2 + 5);
  CHECK(launched(Op::attention, CompilerLevel::full, 1, 2, 1023) == 3);
}

TEST_CASE("a GELU takes as long as its instructions where its bytes take less", "[cost]") {
  Cluster cluster = plain_cluster();
  Program program;
  Instruction gelu;
  gelu.op = Op::gelu;
  gelu.inputs = gelu.outputs = {{0, 0, {Shape{1000, 1000}, Dtype::f16}, GroupKind::none}};
  Instruction gradient = gelu;
  gradient.op = Op::gelu_grad;
  gradient.inputs.push_back(gelu.inputs[0]);
  const auto time = [&](double instructions, const Instruction& instruction) {
    cluster.machine.gpu.kernels.gelu_instructions = instructions;
    return CostModel(cluster, training_in(Precision::fp16)).time(instruction, program).value;
  };
  CHECK(time(0, gelu) == Approx(4e-6));    // 2 MB in, 2 MB out
  CHECK(time(15, gelu) == Approx(4e-6));   // a million of 15, at half of 10 TFLOP/s: 3 us
  CHECK(time(50, gelu) == Approx(10e-6));  // 50 / 5e12
  CHECK(time(15, gradient) == Approx(6e-6));
  CHECK(time(50, gradient) == Approx(14e-6));  // of 1.4 as many
}

TEST_CASE("an optimizer step touches what its shard owns", "[cost]") {
  const CostModel cost(plain_cluster(), training_in(Precision::fp16));
  Program program;
  Bucket bucket;
  bucket.elements = 4'000'000;
  bucket.shard_elements = 1'000'000;
  bucket.weights.type.dtype = Dtype::f16;
  bucket.gradients.type.dtype = Dtype::f32;
  bucket.second_moment.buffer = 0;
  program.buckets = {bucket};
  Instruction step;
  step.kind = InstructionKind::optimizer_step;
  step.bucket = 0;
  const auto time_in = [&](const Training& training) {
    auto settings = std::make_shared<JobSettings>();
    settings->training = training;
    program.settings = settings;
    return CostModel(plain_cluster(), training).time(step, program).value;
  };
  // An element moves 4 bytes of gradient, 8 each of two moments and the master (read and written),
  // and 2 of the working copy.
  CHECK(time_in(training_in(Precision::fp16)) == Approx(1e6 * (4 + 3 * 8 + 2) / 1e12));
  // With remainders, the step also reads the weight. The moments in bf16 and the remainder have 2
  // bytes less than fp32 values.
  Training parts = training_in(Precision::bf16);
  parts.master_weights = MasterWeights::remainders;
  parts.moments = Dtype::bf16;
  CHECK(time_in(parts) == Approx(1e6 * (4 + 3 * 4 + 4) / 1e12));
  // Moments in 8 bits with their scales are read and written.
  parts.moments = Dtype::block8;
  CHECK(time_in(parts) == Approx(1e6 * (4 + 2 * 2 + 4 * (1 + 4.0 / 256) + 4) / 1e12));
  parts.moments = Dtype::bf16;
  // An average in fp32 is read and written.
  program.buckets[0].average.buffer = 0;
  CHECK(time_in(parts) == Approx(1e6 * (4 + 3 * 4 + 4 + 8) / 1e12));
  program.buckets[0].average.buffer = -1;
  // With LAMB, the kernels of the norms have already read the gradients and written the moments, so
  // the step only reads moments.
  Training lamb = training_in(Precision::fp16);
  lamb.optimizer = OptimizerKind::lamb;
  CHECK(time_in(lamb) == Approx(1e6 * (2 * 4 + 8 + 2) / 1e12));
  // adafactor is like LAMB, but its update reads the gradient again. Matrices have no second
  // moments.
  Training adafactor = lamb;
  adafactor.optimizer = OptimizerKind::adafactor;
  CHECK(time_in(adafactor) == Approx(1e6 * (4 + 4 + 8 + 2) / 1e12));
  program.buckets[0].second_moment.buffer = -1;
  CHECK(time_in(adafactor) == Approx(1e6 * (4 + 8 + 2) / 1e12));
  program.buckets[0].second_moment.buffer = 0;
  Instruction norms;
  norms.op = Op::lamb_norms;
  const Operand state{0, 0, {Shape{1'000'000}, Dtype::f32}, GroupKind::none};
  norms.inputs = {state, state, state, state};  // gradients, masters, both moments
  norms.outputs = {state, state};               // moments
  CHECK(CostModel(plain_cluster(), lamb).time(norms, program).value ==
        Approx(1e6 * (4 * 4 + 2 * 4) / 1e12));
}

TEST_CASE("a CPU converts 16-bit operands, a GPU does not", "[cost]") {
  Cluster cluster = plain_cluster();
  const Program program;
  Instruction add;
  add.op = Op::add;
  const Operand rows{0, 0, {Shape{1000, 1000}, Dtype::f16}, GroupKind::none};
  add.inputs = {rows, rows};
  add.outputs = {rows};
  const double moved = 3 * 2e6 / 1e12;
  CHECK(CostModel(cluster, training_in(Precision::fp16)).time(add, program).value == Approx(moved));
  cluster.machine.gpu.kind = DeviceKind::cpu;
  // A CPU reads or writes each of three operands in 2 bytes, and moves its widened copy of 4 bytes.
  CHECK(CostModel(cluster, training_in(Precision::fp16)).time(add, program).value ==
        Approx(moved + 3 * 6e6 / 1e12));
}

TEST_CASE("a unit's memory is its parameters, their states, and what its forward leaves",
          "[cost]") {
  const Cluster cluster = plain_cluster();
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  plan.training.compiler = CompilerLevel::none;
  Model model = small_model();
  model.vocabulary = 1024;  // which is not padded
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  const CostModel cost(cluster, plan.training);
  // Adds up each tensor of the forward phase that a later phase reads, once.
  std::set<int> kept;
  double bytes = 0;
  for (const Node& node : graph.nodes)
    for (const int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role != Role::activation || tensor.producer < 0 || node.phase == Phase::forward)
        continue;
      const Node& maker = graph.nodes[static_cast<std::size_t>(tensor.producer)];
      if (maker.phase != Phase::forward || !kept.insert(id).second) continue;
      bytes += static_cast<double>(tensor.type.bytes());
    }
  CHECK(bytes > 0);
  double sum = 0;
  for (const double unit : cost.unit_memory(graph)) sum += unit;
  // A parameter has a weight, a gradient and two moments, 4 bytes each.
  CHECK(sum == Approx(bytes + 16 * static_cast<double>(parameter_count(graph))));
}

TEST_CASE("the engine pads an odd vocabulary at every level, frameworks leave it", "[cost]") {
  Cluster cluster = plain_cluster();
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.training.compiler = CompilerLevel::fused;
  Model model = small_model();
  model.vocabulary = 1001;
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  const auto time = [&](Calibration calibration, double misaligned_share) {
    cluster.machine.calibration = calibration;
    cluster.machine.gpu.kernels.misaligned_share = misaligned_share;
    return CostModel(cluster, plan.training).work(graph).time_s;
  };
  CHECK(time(Calibration::this_machine, 0.1) == time(Calibration::this_machine, 1));
  CHECK(time(Calibration::evidence, 0.1) > time(Calibration::evidence, 1));
}

TEST_CASE("blocks of a model cost alike, its head costs by its vocabulary", "[cost]") {
  const Model model = load_model("gpt2", ".");
  Training training = training_in(Precision::fp16);
  training.sequence_length = 1024;
  const Graph graph = build_graph(model, training);
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, 0.0};
  const CostModel cost(cluster, training);
  const std::vector<double> units = cost.unit_costs(graph);
  const std::vector<double> memory = cost.unit_memory(graph);
  REQUIRE(units.size() == graph.units.size());
  double block = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    CHECK(memory[u] > 0);
    if (!graph.units[u].is_block) continue;
    if (block > 0) CHECK(units[u] == Approx(block));
    block = units[u];
  }
  CHECK(units.back() > block);  // 50257 x 768 against 12 x 768 x 768 weights
}

TEST_CASE("tiles that leave a wave half empty are cut along k", "[cost]") {
  const Gpu gpu = plain_cluster().machine.gpu;
  // 12 tiles of 256x128 on ten multiprocessors need two waves, which are 6/10 full. Cut into five
  // along k, they make six full waves.
  CHECK(shape_efficiency(product(256 * 12, 128, 32768), gpu, Precision::fp16) == Approx(0.9));
  // A product is not cut if a part would be less than 512 deep.
  CHECK(shape_efficiency(product(256 * 12, 128, 512), gpu, Precision::fp16) < 0.85);
}

TEST_CASE("a product's epilogue takes the time of what it moves", "[cost]") {
  const auto product_first = [](bool sums) {
    const std::int64_t rows = 64, from = 32, to = 16;
    auto fusion = std::make_shared<Fusion>();
    fusion->operands = {{Shape{rows, from}, Dtype::f16},
                        {Shape{from, to}, Dtype::f16},
                        {Shape{rows, to}, Dtype::f16},
                        {Shape{rows, to}, Dtype::f16},
                        {Shape{to}, Dtype::f32}};
    fusion->cut = {1, 0, 1, 1, 0};
    fusion->inputs = 3, fusion->outputs = 1, fusion->accumulated = sums ? 1 : 0;
    if (!sums) fusion->operands.pop_back(), fusion->cut.pop_back();
    fusion->rows = rows, fusion->block_rows = 4;
    fusion->loop = Fusion::Loop::product_first;
    fusion->steps = {{Op::linear_grad_input, {}, {0, 1}, {3}}, {Op::gelu_grad, {}, {2, 3}, {3}}};
    if (sums) fusion->steps.push_back({Op::bias_grad, {}, {3}, {4}});
    std::vector<TensorType> inputs(fusion->operands.begin(), fusion->operands.begin() + 3);
    std::vector<TensorType> outputs{fusion->operands[3]};
    Attributes attributes;
    attributes.fusion = fusion;
    std::vector<Kernel> kernels;
    append_kernels({Op::fused, attributes, inputs, outputs}, CompilerLevel::full, kernels);
    return kernels;
  };
  const std::vector<Kernel> element_wise = product_first(false), sums = product_first(true);
  REQUIRE(element_wise.size() == 2);
  CHECK(element_wise[0].bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16));
  CHECK(element_wise[1].bytes == 2 * 64 * 16);  // what GELU was given
  CHECK(element_wise[1].joins_neighbour);
  // The bias gradient reads the epilogue's output, and adds to its sum.
  REQUIRE(sums.size() == 2);
  CHECK(sums[1].bytes == 2 * 64 * 16 + 2 * 64 * 16 + 2 * 4 * 16);
}
