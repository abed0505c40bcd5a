#include "tools/measure/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "exec/backends/cpu/cpu_backend.h"
#include "hwprofiles/cores.h"
#include "models/program/graph/op_table.h"
#include "tools/measure/gpu.h"
#include "tools/measure/library.h"
#include "tools/measure/ranks.h"
#include "tools/session/engine.h"
#include "tools/session/process_memory.h"

namespace meshwright::tools {

namespace {

using Clock = std::chrono::steady_clock;

// Runs `work` once to warm up caches and threads, and then repeatedly for `budget_s` seconds, at
// least three times. Returns the time in seconds that `share` of the runs do not exceed, by default
// the median.
double seconds_of(double budget_s, const std::function<void()>& work, double share = 0.5) {
  work();
  std::vector<double> times;
  for (double spent = 0; times.size() < 3 || spent < budget_s; spent += times.back()) {
    const auto begin = Clock::now();
    work();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const auto at =
      times.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(times.size()) * share);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

// Holds one operation with operands of its own, to be run many times. `outputs` are given only for
// an operation that adds to its outputs. Otherwise they are inferred.
class Probe {
 public:
  Probe(Backend& backend, Op op, Attributes attributes, std::vector<TensorType> inputs,
        std::vector<TensorType> outputs = {})
      : backend_(backend),
        op_(op),
        attributes_(attributes),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {
    if (outputs_.empty()) info(op).infer(attributes_, inputs_, outputs_);
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
  double size = 0;   // FLOPs or bytes of one kernel
  double per_s = 0;  // of one core, or of the threads that share the kernel
};

// Measures one core, or `threads` threads that share kernels, while the other cores do the same, as
// far as they make up whole groups of threads, because cores share caches, memory and the clock, as
// in a training step. measure(backend) measures one core or group of threads, which has operands of
// its own.
class AllCores {
 public:
  explicit AllCores(int cores, int threads = 1) {
    for (int core = 0; core + threads <= cores; core += threads)
      backends_.push_back(make_cpu_backend(threads));
  }

  int count() const { return static_cast<int>(backends_.size()); }
  // Measures all cores, or all groups of threads, at the same time and returns their mean rate.
  Rate rate(const std::function<Rate(Backend&)>& measure) const {
    std::vector<Rate> own(backends_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t core = 0; core < own.size(); ++core)
        threads.emplace_back([&, core] { own[core] = measure(*backends_[core]); });
    }
    double sum = 0;
    for (const Rate& each : own) sum += each.per_s;
    return {own[0].size, sum / static_cast<double>(own.size())};
  }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
};

std::vector<Rate> product_rates(const AllCores& cores, double budget_s) {
  std::vector<Rate> rates;
  for (std::int64_t size : {32, 64, 128, 256, 512, 1024})
    rates.push_back(cores.rate([&](Backend& backend) -> Rate {
      const Probe probe(backend, Op::linear, {}, {matrix(size, size), matrix(size, size)});
      const double seconds = seconds_of(budget_s, [&] { probe.run(); });
      return {probe.kernel().flops, probe.kernel().flops / seconds};
    }));
  return rates;
}

// Returns the rate of causal attention, forward and backward. Its size is the mean of their FLOPs
// for one head.
Rate attention_rate(Backend& backend, int sequence, int width, double budget_s, double share) {
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
    seconds += seconds_of(
        budget_s, [&] { probe->run(); }, share);
    flops += probe->kernel().flops;
  }
  return {flops / 2 / (4.0 * attributes.micro_batch), flops / seconds};
}

// Returns the rates of attention for short and long sequences with narrow and wide heads.
std::vector<Rate> attention_rates(const AllCores& cores, double budget_s, double share = 0.5) {
  std::vector<Rate> rates;
  for (const auto& [sequence, width] :
       {std::pair{32, 32}, {64, 64}, {128, 32}, {128, 64}, {512, 64}, {1024, 128}})
    rates.push_back(cores.rate([&, length = sequence, wide = width](Backend& backend) {
      return attention_rate(backend, length, wide, budget_s, share);
    }));
  std::ranges::sort(rates, [](const Rate& a, const Rate& b) { return a.size < b.size; });
  return rates;
}

// Returns the rate in bytes per second of the memory-bound operations that a training step runs
// between its matmuls. Its size is their mean number of bytes.
Rate memory_rate(Backend& backend, std::int64_t rows, double budget_s, double share = 0.5) {
  constexpr std::int64_t width = 1024;
  Attributes tanh_form;
  tanh_form.gelu_tanh = true;
  const TensorType x = matrix(rows, width), weight{Shape{width}, Dtype::f32};
  double bytes = 0, seconds = 0;
  const auto add = [&](Op op, const Attributes& attributes, std::vector<TensorType> inputs) {
    const Probe probe(backend, op, attributes, std::move(inputs));
    seconds += seconds_of(
        budget_s, [&] { probe.run(); }, share);
    bytes += probe.kernel().bytes;
  };
  add(Op::add, {}, {x, x});
  add(Op::gelu, tanh_form, {x});
  add(Op::layer_norm, {}, {x, weight, weight});
  return {bytes / 3, bytes / seconds};
}

// Returns the rates for sizes from those that fit a core's own cache to those that no cache holds:
// 192 MiB, or less if all cores together would need more than 3.75 GiB.
std::vector<Rate> memory_rates(const AllCores& cores, double budget_s) {
  constexpr int most_rows = 16384 * 20;  // of 12 KiB
  std::vector<Rate> rates;
  for (int rows : {16, 64, 256, 1024, 4096, 16384})
    if (rows <= 1024 || rows * cores.count() <= most_rows)
      rates.push_back(
          cores.rate([&](Backend& backend) { return memory_rate(backend, rows, budget_s); }));
  return rates;
}

// Is the share of the runs that are faster than the one whose time counts if threads share a
// kernel. If another process displaces one of the threads, the others wait for it, so fast runs
// tell most about how the threads share.
constexpr double undisturbed = 0.1;

// Returns the rates of matmuls for groups of threads: those of a linear layer, forward and
// backward, whose input has four times as many rows as columns. It is not square, because the
// number of pieces that threads find in a matmul depends on its shape.
std::vector<Rate> shared_product_rates(const AllCores& cores, double budget_s) {
  std::vector<Rate> rates;
  for (std::int64_t width : {32, 64, 128, 256, 512})
    rates.push_back(cores.rate([&](Backend& backend) -> Rate {
      const TensorType x = matrix(4 * width, width), weight = matrix(width, width);
      const Probe forward(backend, Op::linear, {}, {x, weight});
      const Probe input(backend, Op::linear_grad_input, {}, {x, weight});
      const Probe gradient(backend, Op::linear_grad_weight, {}, {x, x}, {weight});
      const double flops = forward.kernel().flops;
      double seconds = 0;
      for (const Probe* probe : {&forward, &input, &gradient})
        seconds += seconds_of(
            budget_s / 3, [&] { probe->run(); }, undisturbed);
      return {flops, 3 * flops / seconds};
    }));
  return rates;
}

// Returns the rates of memory-bound operations for groups of threads. The sizes begin below those
// of memory_rates(), because for small ones sharing costs more than it gains.
std::vector<Rate> shared_memory_rates(const AllCores& cores, double budget_s) {
  std::vector<Rate> rates;
  for (int rows : {1, 4, 16, 64, 256, 1024, 4096})
    rates.push_back(cores.rate(
        [&](Backend& backend) { return memory_rate(backend, rows, budget_s, undisturbed); }));
  return rates;
}

EfficiencyCurve shared_rates(const std::vector<Rate>& together, const std::vector<Rate>& alone,
                             int threads) {
  EfficiencyCurve curve;
  for (std::size_t i = 0; i < together.size(); ++i)
    curve.points.push_back(
        {together[i].size, std::min(1.0, together[i].per_s / (alone[i].per_s * threads))});
  return curve;
}

// Returns the efficiency of kernels that 2, 4, 8 ... threads share, up to all cores. A single core
// has none.
std::vector<ThreadScaling> thread_scaling(const AllCores& one, double budget_s) {
  const int cores = one.count();
  std::vector<ThreadScaling> scaling;
  if (cores == 1) return scaling;
  const std::vector<Rate> products = shared_product_rates(one, budget_s),
                          memory = shared_memory_rates(one, budget_s),
                          attention = attention_rates(one, budget_s, undisturbed);
  for (int threads = 2;; threads = std::min(2 * threads, cores)) {
    const AllCores groups(cores, threads);
    scaling.push_back(
        {threads, shared_rates(shared_product_rates(groups, budget_s), products, threads),
         shared_rates(shared_memory_rates(groups, budget_s), memory, threads),
         shared_rates(attention_rates(groups, budget_s, undisturbed), attention, threads)});
    if (threads == cores) return scaling;
  }
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

Machine measure_processor(const Options& options, MeasureEffort effort, const MeasureWatch& watch) {
  const double budget_s = effort == MeasureEffort::quick ? 0.05 : 0.5;
  const int cores = usable_cores();
  const AllCores all(cores);
  watch(0.01, "matrix products");
  const std::vector<Rate> products = product_rates(all, budget_s);
  watch(0.2, "memory");
  const std::vector<Rate> memory = memory_rates(all, budget_s);
  const auto backend = make_cpu_backend(1);
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
  watch(0.35, "attention");
  machine.gpu.attention = curve(attention_rates(all, budget_s), largest(products));
  watch(0.45, "threads together");
  machine.gpu.thread_scaling = thread_scaling(all, budget_s / 3);
  machine.gpu.memory_bandwidth_bytes_per_s = largest(memory) * cores;
  machine.gpu.memory_bound = curve(memory, largest(memory));
  machine.gpu.kernel_latency_s = seconds_of(0.01, [&] { nothing.run(); });
  watch(0.8, "collectives");
  const RankRates ranks =
      measure_ranks(options, std::max(2, std::min(cores, options.ranks.value_or(2))));
  machine.shared_memory =
      SharedMemory{ranks.bandwidth_bytes_per_s, ranks.bandwidth_bytes_per_s * cores,
                   ranks.copy_bandwidth_bytes_per_s};
  machine.host_latency = {0, ranks.latency_s};
  machine.host.vcpus = cores;
  machine.host.memory_bytes = machine.gpu.memory_bytes;
  machine.concurrent_streams = false;
  machine.calibration = Calibration::this_machine;
  for (const char* block :
       {"gpu", "efficiency", "shared_memory", "collectives", "host", "overheads"})
    machine.sources.emplace_back(block, "measured on this computer");
  if (!ranks.is_measured)
    for (auto& [block, source] : machine.sources)
      if (block == "shared_memory" || block == "collectives")
        source = "a guess: processes could not be measured together";
  watch(0.95, "memory of a rank");
  machine.overheads = measure_library(options, machine);
  return machine;
}

}  // namespace

Machine measure_this_computer(const Options& options, MeasureEffort effort,
                              const MeasureWatch& watch) {
  const auto told = watch ? watch : [](double, const char*) {};
  if (gpus_here() > 0 && !options.cpu) return measure_this_gpu(options, effort, told);
  return measure_processor(options, effort, told);
}

}  // namespace meshwright::tools
