#include "tools/measure/gpu_rates.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "exec/optimizer/updater.h"
#include "models/program/graph/op_table.h"
#include "sim/cost/gemm.h"

namespace meshwright::tools {

namespace {

TensorType matrix(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  return {Shape{rows, columns}, dtype};
}

// Clamps a share to (0, 1], because the reader of profiles rejects any other.
double share_of(double share) { return std::clamp(share, 1e-6, 1.0); }

// Returns the matmuls of an FP8 linear layer as the pass `quantize` leaves them on GPUs: both
// operands are contiguous along the dimension that is summed.
std::vector<Probe> layer_in_8_bits(std::int64_t m, std::int64_t n, std::int64_t k) {
  const TensorType scale{Shape{1, 1}, Dtype::f32};
  Attributes forward, of_input, of_weight;
  forward.made = of_input.made = of_weight.made = Dtype::bf16;
  of_input.weight_in_out = true;
  of_weight.factors_transposed = true;
  const auto factors = [&](const TensorType& first, const TensorType& second) {
    return std::vector<TensorType>{first, second, scale, scale};
  };
  return {{Op::linear, forward, factors(matrix(m, k, Dtype::e4m3), matrix(n, k, Dtype::e4m3))},
          {Op::linear_grad_input, of_input,
           factors(matrix(m, n, Dtype::e5m2), matrix(k, n, Dtype::e4m3))},
          {Op::linear_grad_weight,
           of_weight,
           factors(matrix(k, m, Dtype::e4m3), matrix(n, m, Dtype::e5m2)),
           {matrix(n, k, Dtype::f32)}}};
}

std::vector<Probe> linear_layer(std::int64_t m, std::int64_t n, std::int64_t k,
                                Precision precision) {
  if (precision == Precision::fp8) return layer_in_8_bits(m, n, k);
  const Dtype dtype = storage_of(precision);
  const TensorType x = matrix(m, k, dtype), weight = matrix(n, k, dtype), y = matrix(m, n, dtype);
  return {{Op::linear, {}, {x, weight}},
          {Op::linear_grad_input, {}, {y, weight}},
          {Op::linear_grad_weight, {}, {x, y}, {matrix(n, k, Dtype::f32)}}};
}

}  // namespace

GpuRates::Together GpuRates::run(const std::vector<Probe>& probes) {
  Together sum;
  for (const Probe& probe : probes) {
    const double latency = gpu_.kernel_latency_s * static_cast<double>(probe.kernels().size());
    const double seconds = bench_.seconds(probe);
    sum.seconds += std::max(seconds - latency, seconds / 10);
    for (const Kernel& kernel : probe.kernels()) {
      sum.flops += kernel.flops;
      sum.bytes += kernel.bytes;
      sum.kernels.push_back(kernel);
    }
  }
  return sum;
}

void GpuRates::kernel_latency() {
  const TensorType few = matrix(1, 8, Dtype::f32);
  gpu_.kernel_latency_s = bench_.seconds(Probe(Op::add, {}, {few, few}));
  measured_.emplace_back("kernel_latency_s");
}

void GpuRates::memory(Dtype storage) {
  constexpr std::int64_t width = 1024;
  Attributes tanh_form;
  tanh_form.gelu_tanh = true;
  struct Point {
    double bytes, per_s;
  };
  std::vector<Point> points;
  double expected_s = 0;
  for (const std::int64_t rows : {64, 256, 1024, 4096, 16384, 65536, 262144}) {
    if (!points.empty() && !bench_.affords(expected_s)) break;
    const TensorType x = matrix(rows, width, storage), weight{Shape{width}, storage};
    const Together all = run({{Op::add, {}, {x, x}},
                              {Op::gelu, tanh_form, {x}},
                              {Op::layer_norm, {}, {x, weight, weight}}});
    points.push_back({all.bytes / 3, all.bytes / all.seconds});
    expected_s = 4 * all.seconds;
  }
  double& most = gpu_.memory_bandwidth_bytes_per_s;
  for (const Point& point : points) most = std::max(most, point.per_s);
  gpu_.memory_bound.points.clear();
  for (const Point& point : points)
    gpu_.memory_bound.points.push_back({point.bytes, share_of(point.per_s / most)});
  measured_.emplace_back("memory_bound");
}

GpuRates::Rate GpuRates::linear_rate(std::int64_t m, std::int64_t n, std::int64_t k,
                                     Precision precision) {
  const Together all = run(linear_layer(m, n, k, precision));
  product_flops_per_s_ = all.flops / all.seconds;
  // This is the rate at which the three matmuls would take the measured time if each reached the
  // share of it that shape_efficiency() gives.
  double work = 0;
  for (const Kernel& kernel : all.kernels)
    if (kernel.kind == Kernel::Kind::gemm)
      work += kernel.flops / shape_efficiency(kernel, gpu_, precision);
  return {all.flops / 3, work / all.seconds};
}

// Measures how long a matmul takes before it multiplies, in elements of its depth k. A shallow and
// a deep matmul with one tile per multiprocessor define a line t(k) = slope * (k + depth_start).
void GpuRates::depth_start(Precision precision) {
  std::int64_t rows = 1;
  for (std::int64_t r = 1; r * r <= gpu_.sm_count; ++r)
    if (gpu_.sm_count % r == 0) rows = r;
  const std::int64_t m = 256 * rows, n = 128 * (gpu_.sm_count / rows);
  const std::int64_t deep = affordable({4096, 1024, 256}, [&](std::int64_t k) {
    return 2.0 * static_cast<double>(m * n * k) / product_flops_per_s_;
  });
  if (deep == 0) return;
  const std::int64_t shallow = deep / 8;
  const auto seconds = [&](std::int64_t k) {
    const Dtype dtype = storage_of(precision);
    return run({{Op::linear, {}, {matrix(m, k, dtype), matrix(n, k, dtype)}}}).seconds;
  };
  const double first = seconds(shallow), second = seconds(deep);
  const double slope = (second - first) / static_cast<double>(deep - shallow);
  if (slope <= 0) return;
  gpu_.kernels.depth_start = std::clamp(first / slope - static_cast<double>(shallow), 0.0, 512.0);
  measured_.emplace_back("depth_start");
}

void GpuRates::products(Precision precision) {
  double& peak = gpu_.peak_flop_per_s[static_cast<std::size_t>(precision)];
  const bool known = peak > 0;
  if (!known) peak = 1;                   // replaced below by the fastest rate
  linear_rate(256, 256, 256, precision);  // sets product_flops_per_s_ for depth_start()
  depth_start(precision);
  std::vector<Rate> rates;
  for (const std::int64_t size : {256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192}) {
    const double flops = 6.0 * std::pow(static_cast<double>(size), 3);
    if (!rates.empty() && !bench_.affords(flops / product_flops_per_s_)) break;
    rates.push_back(linear_rate(size, size, size, precision));
  }
  if (!known)
    for (const Rate& rate : rates) peak = std::max(peak, rate.per_s);
  gpu_.gemm.points.clear();
  for (const Rate& rate : rates)
    gpu_.gemm.points.push_back({rate.flops, share_of(rate.per_s / peak)});
  measured_.emplace_back("gemm");

  const std::int64_t odd = affordable({2047, 511, 127}, [&](std::int64_t size) {
    return 4 * 6.0 * std::pow(static_cast<double>(size), 3) / product_flops_per_s_;
  });
  if (odd == 0) return;
  gpu_.kernels.misaligned_share = 1;
  const Rate rate = linear_rate(odd, odd, odd, precision);
  gpu_.kernels.misaligned_share = share_of(rate.per_s / peak / gpu_.gemm.at(rate.flops));
  measured_.emplace_back("misaligned_share");
}

void GpuRates::other_products(Precision precision, double& share) {
  double& peak = gpu_.peak_flop_per_s[static_cast<std::size_t>(precision)];
  const bool known = peak > 0;
  // An unknown peak is replaced by the fastest known one while it is measured, because it has
  // little effect on the efficiency of a shape.
  const double fastest =
      std::max(gpu_.peak(Precision::bf16).value, gpu_.peak(Precision::fp16).value);
  Rate largest;
  for (const std::int64_t size : {256, 512, 1024, 2048, 4096}) {
    const double flops = 6.0 * std::pow(static_cast<double>(size), 3);
    if (largest.flops > 0 && !bench_.affords(flops / product_flops_per_s_)) break;
    if (!known) peak = fastest;
    largest = linear_rate(size, size, size, precision);
  }
  const double at_curve = gpu_.gemm.at(largest.flops);
  if (!known) peak = largest.per_s / at_curve;
  share = known ? largest.per_s / peak / at_curve : 1;
  measured_.emplace_back(std::string(name_of(precision)) + " products");
}

// Measures matmuls in 8 bits and derives their peak from the measurement. It does not include
// rounding the operands, because other kernels do that.
void GpuRates::fp8_products() {
  gpu_.peak_flop_per_s[static_cast<std::size_t>(Precision::fp8)] = 0;
  double ignored = 1;
  other_products(Precision::fp8, ignored);
}

void GpuRates::attention(Precision precision) {
  const double peak = gpu_.peak(precision).value;
  const Dtype dtype = storage_of(precision);
  constexpr int heads = 16;
  EfficiencyCurve forward, backward;
  double flops_per_s = 0;
  for (const auto& [sequence, width] : {std::pair{128, 64},
                                        {256, 64},
                                        {512, 64},
                                        {1024, 64},
                                        {2048, 128},
                                        {4096, 128},
                                        {8192, 128}}) {
    Attributes attributes;
    attributes.sequence_length = sequence;
    attributes.micro_batch = std::max(1, gpu_.sm_count * 4 * 128 / (heads * sequence));
    attributes.heads = attributes.kv_heads = heads;
    attributes.head_dim = width;
    // Measures the attention that a job gets by default: cuDNN's if the GPU has constants for it.
    if (gpu_.kernels.cudnn_forward > 0) attributes.attention = AttentionKernel::cudnn;
    const std::int64_t rows = std::int64_t{attributes.micro_batch} * sequence;
    const TensorType x = matrix(rows, std::int64_t{heads} * width, dtype);
    const TensorType saved =
        matrix(std::int64_t{attributes.micro_batch} * heads, sequence, Dtype::f32);
    const Probe there(Op::attention, attributes, {x, x, x});
    const Probe back(Op::attention_grad, attributes, {x, x, x, x, saved, x});
    const double flops = back.kernels().at(0).flops;
    if (flops_per_s > 0 && !bench_.affords(flops / flops_per_s)) break;
    const Together one = run({there}), two = run({back});
    const double of_head = 1.0 / (heads * attributes.micro_batch);
    forward.points.push_back({one.flops * of_head, share_of(one.flops / one.seconds / peak)});
    backward.points.push_back({two.flops * of_head, share_of(two.flops / two.seconds / peak)});
    flops_per_s = two.flops / two.seconds;
  }
  gpu_.attention = forward;
  gpu_.attention_backward = backward;
  measured_.emplace_back("attention");
}

// Measures the matmuls of unfused attention, which keeps its scores in memory.
void GpuRates::score_products(Precision precision) {
  const auto scores = [&](std::int64_t length) {
    Attributes attributes;
    attributes.sequence_length = static_cast<int>(length);
    attributes.micro_batch = 4;
    attributes.heads = attributes.kv_heads = 16;
    attributes.head_dim = 64;
    const TensorType x{Shape{64, length, 64}, storage_of(precision)};
    return Probe(Op::scores, attributes, {x, x});
  };
  const std::int64_t length = affordable({1024, 256, 64}, [&](std::int64_t size) {
    return 4 * scores(size).kernels().at(0).flops / product_flops_per_s_;
  });
  if (length == 0) return;
  KernelConstants& constants = gpu_.kernels;
  constants.batched_share = constants.misaligned_batched_share = 1;
  const auto share = [&](std::int64_t size) {
    const Probe probe = scores(size);
    const Kernel kernel = probe.kernels().at(0);
    const Together one = run({probe});
    return one.flops / one.seconds /
           (gpu_.peak(precision).value * gpu_.gemm.at(kernel.flops) *
            shape_efficiency(kernel, gpu_, precision));
  };
  const double aligned = share_of(share(length)), misaligned = share(length - 1);
  constants.batched_share = aligned;
  constants.misaligned_batched_share = share_of(misaligned / aligned);
  measured_.emplace_back("batched_share, misaligned_batched_share");
}

// Returns the measured time of the operations divided by the time in which memory moves the bytes
// that the simulator counts for them.
double GpuRates::traffic_of(const std::vector<Probe>& probes) {
  const Together all = run(probes);
  double expected = 0;
  for (const Kernel& kernel : all.kernels)
    expected +=
        kernel.bytes / (gpu_.memory_bandwidth_bytes_per_s * gpu_.memory_bound.at(kernel.bytes));
  return all.seconds / expected;
}

void GpuRates::traffic(Dtype storage) {
  const auto slowest =
      gpu_.memory_bandwidth_bytes_per_s * gpu_.memory_bound.points.front().fraction;
  // Returns a function from a number of rows to an estimate of the seconds that operations take.
  // `bytes_of_row` is what all their tensors together have in one row. The estimate is four times
  // the time of these bytes at the lowest memory bandwidth of the profile.
  const auto seconds = [&](double bytes_of_row) {
    return
        [=](std::int64_t rows) { return 4 * bytes_of_row * static_cast<double>(rows) / slowest; };
  };
  constexpr std::int64_t width = 1024, vocabulary = 50304, heads = 64;
  const auto element = static_cast<double>(bytes_of(storage));
  if (const std::int64_t rows = affordable({8192, 512, 32}, seconds(8 * width * element))) {
    Attributes tanh_form;
    tanh_form.gelu_tanh = true;
    const TensorType x = matrix(rows, width, storage), weight{Shape{width}, storage};
    const TensorType gradient{Shape{width}, Dtype::f32}, saved = matrix(rows, 2, Dtype::f32);
    gpu_.kernels.traffic.fill(
        traffic_of({{Op::add, {}, {x, x}},
                    {Op::gelu, tanh_form, {x}},
                    {Op::gelu_grad, tanh_form, {x, x}},
                    {Op::layer_norm, {}, {x, weight, weight}},
                    {Op::layer_norm_grad, {}, {x, weight, saved, x}, {gradient, gradient}}}));
    gpu_.kernels.gelu_instructions = 0;  // `traffic` has what they cost
    measured_.emplace_back("traffic");
  }
  if (const std::int64_t rows = affordable({1024, 32, 1}, seconds(4 * vocabulary * element))) {
    Attributes loss;
    loss.vocabulary = vocabulary;
    const TensorType logits = matrix(rows, vocabulary, storage), sums{Shape{rows}, Dtype::f32};
    const TensorType targets{Shape{rows}, Dtype::i32};
    gpu_.kernels.loss_traffic =
        traffic_of({{Op::cross_entropy, loss, {logits, targets}},
                    {Op::cross_entropy_grad, loss, {logits, sums, targets}}});
    measured_.emplace_back("loss_traffic");
  }
  const auto squares = [&](std::int64_t length) {
    return seconds(4 * element * heads * static_cast<double>(length))(length);
  };
  if (const std::int64_t length = affordable({512, 128, 32}, squares)) {
    Attributes attention;
    attention.sequence_length = static_cast<int>(length);
    attention.micro_batch = 4;
    attention.heads = attention.kv_heads = heads / 4;
    const TensorType scores{Shape{heads, length, length}, storage};
    gpu_.kernels.score_traffic = traffic_of(
        {{Op::softmax, attention, {scores}}, {Op::softmax_grad, attention, {scores, scores}}});
    measured_.emplace_back("score_traffic");
  }
}

void GpuRates::optimizer(Dtype storage) {
  Training training;
  training.optimizer = OptimizerKind::adamw;
  Backend& backend = bench_.backend();
  const auto updater = backend.make_updater(training);
  void* sums = backend.allocate(16);
  clear(backend, sums, 16);
  const auto* zero = static_cast<const double*>(sums);
  updater->begin_step(1, 1e-4, 1);
  updater->decide({.loss = zero, .squared_norm = zero});
  double per_byte = 1 / gpu_.memory_bandwidth_bytes_per_s, factor = 0;
  int bucket = 0;
  std::optional<Dtype> master;
  if (storage != Dtype::f32) master = Dtype::f32;
  for (const std::int64_t elements :
       {std::int64_t{1} << 16, std::int64_t{1} << 20, std::int64_t{1} << 26}) {
    std::vector<Kernel> kernels;
    append_optimizer_kernels({elements, 2, storage, Dtype::f32, master}, CompilerLevel::fused,
                             kernels);
    double bytes = 0, expected = 0, latency = 0;
    for (const Kernel& kernel : kernels) {
      bytes += kernel.bytes;
      latency += gpu_.kernel_latency_s;
      expected +=
          kernel.bytes / (gpu_.memory_bandwidth_bytes_per_s * gpu_.memory_bound.at(kernel.bytes));
    }
    if (factor > 0 && !bench_.affords(bytes * per_byte)) break;
    char* memory = bench_.outputs(elements * 18);
    const char* gradients = bench_.inputs(elements * 4);
    OptimizerState state;
    state.weights = memory;
    state.first_moment = memory + 4 * elements;
    state.second_moment = memory + 8 * elements;
    state.gradients = gradients;
    if (storage != Dtype::f32) {
      state.working = memory + 12 * elements;
      state.working_type = storage;
    }
    clear(backend, memory, elements * 18);
    const std::vector<OptimizerSegment> segments = {{.begin = 0, .count = elements}};
    const double seconds =
        bench_.seconds([&](std::int64_t) { updater->step(bucket, segments, state); });
    factor = std::max(seconds - latency, seconds / 10) / expected;
    per_byte = seconds / bytes;
    ++bucket;
  }
  backend.deallocate(sums);
  gpu_.kernels.optimizer_traffic.fill(factor);
  measured_.emplace_back("optimizer_traffic");
}

}  // namespace meshwright::tools
