// Tests that on a device whose times follow a rule, `calibrate` finds the constants of the rule and
// makes a profile with which the cost model predicts each operation that was measured.
#include "tools/measure/gpu_rates.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "models/compiler/plan/plan.h"
#include "sim/cost/cost.h"
#include "sim/cost/gemm.h"
#include "tests/catch.h"
#include "tests/tools/pretend_device.h"

using namespace meshwright::tests;

namespace {

constexpr double latency_s = 4e-6, bandwidth = 2e12, bf16_rate = 8e12, fp32_rate = 5e11;
constexpr double start = 96;  // elements along k that a product takes to begin and to end
constexpr double misaligned = 0.5, batched = 0.75, batched_misaligned = 0.6;
constexpr double forward_share = 0.5, backward_share = 0.25;  // of fused attention
constexpr double backward_traffic = 2, loss_traffic = 3, score_traffic = 1.5;
constexpr double optimizer_traffic = 1.25;

double factor_of(Op op) {
  switch (op) {
    case Op::gelu_grad:
    case Op::layer_norm_grad:
      return backward_traffic;
    case Op::cross_entropy:
    case Op::cross_entropy_grad:
      return loss_traffic;
    case Op::softmax:
    case Op::softmax_grad:
      return score_traffic;
    default:
      return 1;
  }
}

double time_of(const Kernel& kernel, const OpCall& call) {
  switch (kernel.kind) {
    case Kernel::Kind::memory:
      return latency_s + factor_of(call.op) * kernel.bytes / bandwidth;
    case Kernel::Kind::attention:
      return latency_s +
             kernel.flops / (bf16_rate * (kernel.backward ? backward_share : forward_share));
    case Kernel::Kind::batched_gemm:
      return latency_s +
             kernel.flops / (bf16_rate * batched * (kernel.m % 8 == 0 ? 1 : batched_misaligned));
    case Kernel::Kind::gemm:
      break;
  }
  const Dtype dtype = call.inputs[0].dtype;
  const double rate = dtype == Dtype::f32    ? fp32_rate
                      : bytes_of(dtype) == 1 ? 2 * bf16_rate
                                             : bf16_rate;
  const bool odd = dtype != Dtype::f32 && kernel.k % 8 != 0;
  const double k = static_cast<double>(kernel.k);
  return latency_s + kernel.flops * (k + start) / k / (rate * (odd ? misaligned : 1));
}

double seconds_of(const OpCall& call) {
  std::vector<Kernel> kernels;
  append_kernels(call, CompilerLevel::fused, kernels);
  double seconds = 0;
  for (const Kernel& kernel : kernels) seconds += time_of(kernel, call);
  return seconds;
}

struct Measured {
  PretendDevice device;
  Gpu gpu;
  std::vector<std::string> names;

  Measured() {
    gpu.sm_count = 96;
    gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::bf16)] = 1e13;
    device.seconds_of = seconds_of;
    device.optimizer_seconds = [](std::int64_t elements) {
      // The optimizer has two moments, masters in fp32 and parameters in bf16.
      std::vector<Kernel> kernels;
      append_optimizer_kernels({elements, 2, Dtype::bf16, Dtype::f32, Dtype::f32},
                               CompilerLevel::fused, kernels);
      double seconds = 0;
      for (const Kernel& kernel : kernels)
        seconds += latency_s + optimizer_traffic * kernel.bytes / bandwidth;
      return seconds;
    };
    // With hours of time nothing is left out, however busy this computer is.
    GpuBench bench(
        device, 1 << 20,
        {.probe_s = 1e4, .end = std::chrono::steady_clock::now() + std::chrono::hours(10)});
    GpuRates rates(bench, gpu, names);
    rates.kernel_latency();
    rates.memory(Dtype::bf16);
    rates.products(Precision::bf16);
    rates.other_products(Precision::fp32, gpu.kernels.fp32_share);
    rates.attention(Precision::bf16);
    rates.traffic(Dtype::bf16);
    rates.optimizer(Dtype::bf16);
    rates.score_products(Precision::bf16);
    rates.fp8_products();
  }
};

const Measured& measured() {
  static const Measured all;
  return all;
}

CostModel cost_with(const Gpu& gpu, Precision precision) {
  Cluster cluster;
  cluster.machine.gpus = 1;
  cluster.machine.gpu = gpu;
  StepSettings training;
  training.precision = precision;
  training.compiler = CompilerLevel::fused;
  return {cluster, training};
}

// Returns the predicted time of all kernels of a probe, in seconds. `traffic` multiplies their
// bytes.
double predicted(const Probe& probe, Precision precision, double traffic = 1) {
  const CostModel cost = cost_with(measured().gpu, precision);
  double seconds = 0;
  for (const Kernel& kernel : probe.kernels()) seconds += cost.time(kernel, traffic).value;
  return seconds;
}

Probe linear(std::int64_t size, Dtype dtype) {
  const TensorType square{Shape{size, size}, dtype};
  return {Op::linear, {}, {square, square}};
}

}  // namespace

TEST_CASE("calibrate finds the constants of a device that follows a rule", "[tools][measure]") {
  const Gpu& gpu = measured().gpu;
  const TensorType few{Shape{1, 8}, Dtype::f32};
  CHECK(gpu.kernel_latency_s == Approx(seconds_of(Probe(Op::add, {}, {few, few}).call())));
  // The latency is subtracted from each measured time, but at least a tenth of the time remains.
  // The largest operation determines the bandwidth.
  CHECK(gpu.memory_bandwidth_bytes_per_s == Approx(bandwidth).epsilon(1e-3));
  CHECK(gpu.memory_bound.points.size() == 7);
  CHECK(gpu.memory_bound.points.back().fraction == Approx(1).epsilon(1e-3));
  CHECK(gpu.kernels.depth_start == Approx(start).epsilon(1e-3));
  CHECK(gpu.kernels.misaligned_batched_share == Approx(batched_misaligned).epsilon(0.05));
  CHECK(gpu.kernels.loss_traffic == Approx(loss_traffic).epsilon(1e-2));
  CHECK(gpu.kernels.score_traffic == Approx(score_traffic).epsilon(1e-2));
  CHECK(gpu.kernels.gelu_instructions == 0);
  for (const double traffic : gpu.kernels.optimizer_traffic)
    CHECK(traffic == Approx(optimizer_traffic).epsilon(1e-2));
  for (const double traffic : gpu.kernels.traffic) {
    CHECK(traffic > 1);
    CHECK(traffic < backward_traffic);
  }
  CHECK(measured().names ==
        std::vector<std::string>{"kernel_latency_s", "memory_bound", "depth_start", "gemm",
                                 "misaligned_share", "fp32 products", "attention", "traffic",
                                 "loss_traffic", "score_traffic", "optimizer_traffic",
                                 "batched_share, misaligned_batched_share", "fp8 products"});
}

TEST_CASE("products take as long as the profile of a calibrated device predicts",
          "[tools][measure]") {
  // Smaller products are left out. With fewer tiles the cost model expects less than this device
  // reaches, because its times do not depend on tiles.
  for (const std::int64_t size : {1536, 2048, 3072, 4096, 6144, 8192}) {
    CAPTURE(size);
    const Probe product = linear(size, Dtype::bf16);
    CHECK(predicted(product, Precision::bf16) == Approx(seconds_of(product.call())).epsilon(0.01));
  }
  const Probe odd = linear(2047, Dtype::bf16);
  CHECK(predicted(odd, Precision::bf16) == Approx(seconds_of(odd.call())).epsilon(0.01));
  const Probe wide = linear(4096, Dtype::f32);
  // For fp32 the share of the shape is taken from products with another peak, so the prediction is
  // less exact.
  CHECK(predicted(wide, Precision::fp32) == Approx(seconds_of(wide.call())).epsilon(0.1));
}

TEST_CASE("the curve of products is of what the shape leaves of the peak", "[tools][measure]") {
  const Gpu& gpu = measured().gpu;
  CHECK(gpu.peak(Precision::bf16).value == 1e13);  // on paper: it stays
  CHECK(gpu.peak(Precision::fp32).value > 0);      // unknown before
  CHECK(gpu.kernels.fp32_share == 1);
  REQUIRE(gpu.gemm.points.size() == 9);
  for (const EfficiencyCurve::Point& point : gpu.gemm.points) {
    const double size = std::cbrt(point.x / 2);
    const auto whole = static_cast<std::int64_t>(std::lround(size));
    const Kernel kernel = linear(whole, Dtype::bf16).kernels().at(0);
    CAPTURE(whole);
    CHECK(point.x == kernel.flops);
    const double reached = bf16_rate * size / (size + start);  // by the rule
    CHECK(point.fraction ==
          Approx(std::min(1.0, reached / 1e13 / shape_efficiency(kernel, gpu, Precision::bf16)))
              .epsilon(0.01));
  }
}

TEST_CASE("attention takes as long as the profile of a calibrated device predicts",
          "[tools][measure]") {
  const Gpu& gpu = measured().gpu;
  REQUIRE(gpu.attention.points.size() == 7);
  REQUIRE(gpu.attention_backward.points.size() == 7);
  // Shares are of a peak of 1e13.
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(gpu.attention.points[i].fraction == Approx(0.8 * forward_share).epsilon(0.02));
    CHECK(gpu.attention_backward.points[i].fraction == Approx(0.8 * backward_share).epsilon(0.02));
    // The backward pass has five products where the forward pass has two.
    CHECK(gpu.attention_backward.points[i].x == Approx(2.5 * gpu.attention.points[i].x));
    if (i == 0) continue;
    // From point to point the sequence doubles, which gives four times the FLOPs. At one point the
    // heads also grow from 64 to 128, which doubles them again.
    CHECK(gpu.attention.points[i].x ==
          Approx((i == 4 ? 8 : 4) * gpu.attention.points[i - 1].x).epsilon(0.02));
  }
  Attributes attributes;
  attributes.sequence_length = 2048;
  attributes.micro_batch = 2;
  attributes.heads = attributes.kv_heads = 16;
  attributes.head_dim = 128;
  const TensorType x{Shape{2 * 2048, 16 * 128}, Dtype::bf16};
  const TensorType saved{Shape{2 * 16, 2048}, Dtype::f32};
  for (const Probe& probe : {Probe(Op::attention, attributes, {x, x, x}),
                             Probe(Op::attention_grad, attributes, {x, x, x, x, saved, x})})
    CHECK(predicted(probe, Precision::bf16) == Approx(seconds_of(probe.call())).epsilon(0.02));
}

TEST_CASE("products batched over heads take as long as the profile predicts", "[tools][measure]") {
  for (const std::int64_t length : {1024, 1023}) {
    CAPTURE(length);
    Attributes attributes;
    attributes.sequence_length = static_cast<int>(length);
    attributes.micro_batch = 4;
    attributes.heads = attributes.kv_heads = 16;
    attributes.head_dim = 64;
    const TensorType x{Shape{64, length, 64}, Dtype::bf16};
    const Probe probe(Op::scores, attributes, {x, x});
    CHECK(predicted(probe, Precision::bf16) == Approx(seconds_of(probe.call())).epsilon(0.02));
  }
}

TEST_CASE("operations without matmuls take together as long as the profile predicts",
          "[tools][measure]") {
  const Gpu& gpu = measured().gpu;
  Attributes tanh_form;
  tanh_form.gelu_tanh = true;
  const TensorType x{Shape{8192, 1024}, Dtype::bf16}, weight{Shape{1024}, Dtype::bf16};
  const TensorType gradient{Shape{1024}, Dtype::f32}, saved{Shape{8192, 2}, Dtype::f32};
  double real = 0, expected = 0;
  for (const Probe& probe :
       {Probe(Op::add, {}, {x, x}), Probe(Op::gelu, tanh_form, {x}),
        Probe(Op::gelu_grad, tanh_form, {x, x}), Probe(Op::layer_norm, {}, {x, weight, weight}),
        Probe(Op::layer_norm_grad, {}, {x, weight, saved, x}, {gradient, gradient})}) {
    real += seconds_of(probe.call());
    expected += predicted(probe, Precision::bf16, gpu.kernels.traffic[1]);
  }
  CHECK(expected == Approx(real).epsilon(0.01));
}

TEST_CASE("a peak that is not known is the fastest product's", "[tools][measure]") {
  PretendDevice device;
  device.seconds_of = seconds_of;
  Gpu gpu;
  gpu.sm_count = 96;
  std::vector<std::string> names;
  GpuBench bench(
      device, 1 << 20,
      {.probe_s = 1e4, .end = std::chrono::steady_clock::now() + std::chrono::hours(10)});
  GpuRates rates(bench, gpu, names);
  rates.kernel_latency();
  rates.products(Precision::bf16);
  double highest = 0;
  for (const EfficiencyCurve::Point& point : gpu.gemm.points)
    highest = std::max(highest, point.fraction);
  CHECK(highest == Approx(1));
  // The rule makes products in 8 bits twice as fast as in bf16, and in fp32 a sixteenth as fast.
  // The bounds are wide because shapes leave the precisions different shares.
  rates.fp8_products();
  CHECK(gpu.peak(Precision::fp8).value / gpu.peak(Precision::bf16).value == Approx(2).epsilon(0.2));
  double share = 0.5;
  rates.other_products(Precision::fp32, share);
  CHECK(share == 1);
  CHECK(gpu.peak(Precision::fp32).value / gpu.peak(Precision::bf16).value ==
        Approx(1.0 / 16).epsilon(0.2));
  // A peak that is known stays, and products reach a share of it.
  gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] *= 2;
  const double paper = gpu.peak(Precision::fp32).value;
  rates.other_products(Precision::fp32, share);
  CHECK(gpu.peak(Precision::fp32).value == paper);
  CHECK(share < 0.6);
  CHECK(share > 0.4);
}
