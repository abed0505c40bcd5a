#include "tools/measure.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "exec/backends/cpu/cpu_backend.h"
#include "tools/measure_ranks.h"
#include "tools/process_memory.h"

namespace meshwright {

namespace {

using Clock = std::chrono::steady_clock;

// The fastest of several runs within the time given: what the device can do, not what else it did.
double fastest_seconds(double budget_s, const std::function<void()>& work) {
  work();  // caches and threads warm
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int run = 0; run < 3 || spent < budget_s; ++run) {
    const auto begin = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds);
    spent += seconds;
    if (run >= 2 && spent >= budget_s) break;
  }
  return best;
}

// One operation with operands of its own.
class Probe {
 public:
  Probe(Backend& backend, Op op, Attributes attributes, std::vector<TensorType> inputs)
      : backend_(backend), op_(op), attributes_(attributes), inputs_(std::move(inputs)) {
    info(op).infer(attributes_, inputs_, outputs_);
    for (const TensorType& type : inputs_) in_.push_back(filled(type));
    for (const TensorType& type : outputs_) out_.push_back(filled(type));
  }
  ~Probe() {
    for (const void* memory : in_) backend_.deallocate(const_cast<void*>(memory));
    for (void* memory : out_) backend_.deallocate(memory);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void run() const {
    backend_.run({op_, attributes_, inputs_, outputs_}, {in_, out_}, {});
    backend_.wait();
  }
  Kernel kernel() const {
    std::vector<Kernel> kernels;
    append_kernels({op_, attributes_, inputs_, outputs_}, CompilerLevel::fused, kernels);
    return kernels.at(0);
  }

 private:
  void* filled(const TensorType& type) const {
    void* memory = backend_.allocate(type.bytes());
    auto* values = static_cast<float*>(memory);
    for (std::int64_t i = 0; i < type.shape.elements(); ++i)
      values[i] = 0.01F * static_cast<float>(i % 97) - 0.5F;
    return memory;
  }

  Backend& backend_;
  Op op_;
  Attributes attributes_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

TensorType matrix(std::int64_t rows, std::int64_t columns) {
  return {Shape{rows, columns}, Dtype::f32};
}

struct Rate {
  double size = 0;  // FLOPs or bytes of one kernel
  double per_s = 0;
};

std::vector<Rate> product_rates(Backend& backend, double budget_s) {
  std::vector<Rate> rates;
  for (std::int64_t size : {32, 64, 128, 256, 512, 1024}) {
    const Probe probe(backend, Op::linear, {}, {matrix(size, size), matrix(size, size)});
    const double seconds = fastest_seconds(budget_s, [&] { probe.run(); });
    rates.push_back({probe.kernel().flops, probe.kernel().flops / seconds});
  }
  return rates;
}

// Causal attention, forward and backward, of short and long sequences with narrow and wide heads.
std::vector<Rate> attention_rates(Backend& backend, double budget_s) {
  std::vector<Rate> rates;
  for (const auto& [sequence, width] :
       {std::pair{32, 32}, {64, 64}, {128, 32}, {128, 64}, {512, 64}, {1024, 128}}) {
    Attributes attributes;
    attributes.sequence_length = sequence;
    attributes.micro_batch = std::max(1, 256 / sequence);
    attributes.heads = attributes.kv_heads = 4;
    attributes.head_dim = width;
    const TensorType query = matrix(attributes.micro_batch * sequence, 4 * width);
    const Probe forward(backend, Op::attention, attributes, {query, query, query});
    const TensorType saved{Shape{std::int64_t{attributes.micro_batch} * 4, sequence}, Dtype::f32};
    const Probe gradient(backend, Op::attention_grad, attributes,
                         {query, query, query, query, saved, query});
    double flops = 0, seconds = 0;
    for (const Probe* probe : {&forward, &gradient}) {
      seconds += fastest_seconds(budget_s, [&] { probe->run(); });
      flops += probe->kernel().flops;
    }
    rates.push_back({flops / 2 / (4.0 * attributes.micro_batch), flops / seconds});
  }
  std::sort(rates.begin(), rates.end(),
            [](const Rate& a, const Rate& b) { return a.size < b.size; });
  return rates;
}

// The mean of the rates of what a training step runs between its products.
std::vector<Rate> memory_rates(Backend& backend, double budget_s) {
  std::vector<Rate> rates;
  for (std::int64_t rows : {16, 64, 256, 1024, 4096, 16384}) {
    constexpr std::int64_t width = 1024;
    Attributes tanh_form;
    tanh_form.gelu_tanh = true;
    const Probe add(backend, Op::add, {}, {matrix(rows, width), matrix(rows, width)});
    const Probe gelu(backend, Op::gelu, tanh_form, {matrix(rows, width)});
    const TensorType weight{Shape{width}, Dtype::f32};
    const Probe norm(backend, Op::layer_norm, {}, {matrix(rows, width), weight, weight});
    double bytes = 0, seconds = 0;
    for (const Probe* probe : {&add, &gelu, &norm}) {
      seconds += fastest_seconds(budget_s, [&] { probe->run(); });
      bytes += probe->kernel().bytes;
    }
    rates.push_back({bytes / 3, bytes / seconds});
  }
  return rates;
}

double largest(const std::vector<Rate>& rates) {
  double best = 0;
  for (const Rate& rate : rates) best = std::max(best, rate.per_s);
  return best;
}

EfficiencyCurve curve(const std::vector<Rate>& rates, double whole) {
  EfficiencyCurve curve;
  for (const Rate& rate : rates)
    curve.points.push_back({rate.size, std::min(1.0, rate.per_s / whole)});
  return curve;
}

double physical_memory_bytes() {
  struct sysinfo info {};
  sysinfo(&info);
  return static_cast<double>(info.totalram) * info.mem_unit;
}

}  // namespace

Machine measure_this_computer(const Options& options, MeasureEffort effort) {
  const double budget_s = effort == MeasureEffort::quick ? 0.05 : 0.5;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto backend = make_cpu_backend(1);
  const std::vector<Rate> products = product_rates(*backend, budget_s);
  const std::vector<Rate> memory = memory_rates(*backend, budget_s);
  const Probe nothing(*backend, Op::add, {}, {matrix(1, 1), matrix(1, 1)});

  Machine machine;
  machine.name = "local";
  machine.gpus = 64;
  machine.gpu.name = "CPU, " + std::to_string(cores) + " cores";
  machine.gpu.kind = DeviceKind::cpu;
  machine.gpu.memory_bytes = physical_memory_bytes();
  machine.gpu.sm_count = cores;
  machine.gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] = largest(products);
  machine.gpu.gemm = curve(products, largest(products));
  machine.gpu.attention = curve(attention_rates(*backend, budget_s), largest(products));
  machine.gpu.memory_bandwidth_bytes_per_s = largest(memory) * cores;
  machine.gpu.memory_bound = curve(memory, largest(memory));
  machine.gpu.kernel_latency_s = fastest_seconds(0.01, [&] { nothing.run(); });
  const RankRates ranks =
      measure_ranks(options, std::max(2, std::min(cores, options.ranks.value_or(2))));
  machine.shared_memory =
      SharedMemory{ranks.bandwidth_bytes_per_s, ranks.bandwidth_bytes_per_s * cores};
  machine.host_latency = {0, ranks.latency_s};
  machine.host.vcpus = cores;
  machine.host.memory_bytes = machine.gpu.memory_bytes;
  machine.overheads.context_bytes = ranks.process_bytes;
  machine.concurrent_streams = false;
  machine.calibration = "calibrated on this machine";
  for (const char* block :
       {"gpu", "efficiency", "shared_memory", "collectives", "host", "overheads"})
    machine.sources.emplace_back(block, "measured on this computer");
  return machine;
}

}  // namespace meshwright
