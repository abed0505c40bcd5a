#include "sim/validate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include "hwprofiles/cores.h"
#include "models/compile/compile.h"
#include "models/core/index.h"
#include "sim/collectives/select.h"
#include "sim/cost/target.h"
#include "sim/planner/clusters.h"
#include "sim/replay/replay.h"
#include "sim/validate/case.h"
#include "sim/validate/collective_case.h"

namespace meshwright {

namespace {

// A constant, where it lies, and how far a fit may take it: `spread` is the standard deviation of
// its logarithm that we hold likely before we have seen a measurement.
struct Constant {
  std::string_view name;
  std::vector<std::string> kinds;
  double& (*place)(Machine&);
  double start;  // from spec sheets and experience: what is taken where nothing was measured
  double spread, low, high;
  bool (*of_plan)(const Plan&);  // which training steps depend on it
};

// Prefixes of names of GPUs, or of machines.
const std::vector<std::string> v100 = {"V100"}, a100 = {"A100"}, h100 = {"H100", "H200"},
                               blackwell = {"B200", "B300", "GB200", "GB300"}, all;

// H100: the largest bf16 products of cuBLAS reach about 720 of 989 TFLOP/s under its power limit;
// instructions of the generation before, which the first flash kernels use, reach 63 % of the peak
// (Luo et al. 2024, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, table 8).
constexpr double h100_gemm = 0.73, h100_mma = 0.63;

bool always(const Plan&) { return true; }
bool fp32(const Plan& plan) { return plan.training.precision == Precision::fp32; }
bool tf32(const Plan& plan) { return plan.training.precision == Precision::tf32; }
bool wide(const Plan& plan) { return fp32(plan) || tf32(plan); }
bool unfused(const Plan& plan) { return plan.training.attention == AttentionKernel::unfused; }
bool flash(const Plan& plan) { return plan.training.attention == AttentionKernel::flash; }
bool flash2(const Plan& plan) { return plan.training.attention == AttentionKernel::flash2; }
bool cudnn(const Plan& plan) { return plan.training.attention == AttentionKernel::cudnn; }
bool in_one_kernel(const Plan& plan) { return !unfused(plan); }
bool fp8(const Plan& plan) { return plan.training.precision == Precision::fp8; }
bool none(const Plan& plan) { return plan.training.compiler == CompilerLevel::none; }
bool fused(const Plan& plan) { return plan.training.compiler == CompilerLevel::fused; }
bool full(const Plan& plan) { return plan.training.compiler == CompilerLevel::full; }
bool overlaps(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.overlap_gradients || p.overlap_parameters || p.overlap_tensor;
}
bool ranks(const Plan& plan) { return plan.degrees().ranks() > 1; }
bool layers(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.zero_stage == 3 || p.tensor > 1 || p.context > 1 || p.expert > 1;
}

#define PLACE(field) [](Machine& m) -> double& { return m.field; }

// Collectives inside a host, for each generation of NVSwitch. Latencies start near those that NCCL
// estimates with (github NVIDIA/nccl src/graph/tuning.cc); LL carries a quarter of the bandwidth
// there, NVLS begins 25 us later than a ring.
void add_switches(std::vector<Constant>& rows) {
  struct Generation {
    std::vector<std::string> kinds;
    double bytes_per_s, launch_s;
  };
  for (const auto& [kinds, paper, launch] :
       {Generation{a100, 300e9, 1e-5}, Generation{h100, 450e9, 6e-6},
        Generation{blackwell, 900e9, 9e-6}}) {
    const Constant of_switch[] = {
        {"host_latency_s", kinds, PLACE(host_latency.latency_s), launch, 0.5, 1e-6, 2e-4, ranks},
        {"host_step_latency_s", kinds, PLACE(host_latency.step_latency_s), 7e-7, 0.5, 1e-7, 1e-5,
         ranks},
        {"nvlink_efficiency", kinds, PLACE(nvlink.efficiency), 0.8, 0.1, 0.5, 0.95, ranks},
        {"own_share", kinds, PLACE(nvlink.own_share), 0.4, 0.5, 0.02, 1.5, ranks},
        {"ll_bandwidth", kinds, PLACE(nvlink.ll_bandwidth_bytes_per_s), paper / 4, 0.3, paper / 20,
         paper * 0.6, ranks},
        {"ll128_share", kinds, PLACE(nvlink.ll128_share), 0.7, 0.2, 0.3, 0.95, ranks},
        {"ll128_latency_s", kinds, PLACE(nvlink.ll128_latency_s), 6e-6, 0.7, 1e-6, 4e-5, ranks},
        {"simple_latency_s", kinds, PLACE(nvlink.simple_latency_s), 2e-5, 0.7, 1e-6, 8e-5, ranks},
        {"simple_fill_bytes", kinds, PLACE(nvlink.simple_fill_bytes), 2e6, 0.7, 2e5, 3e7, ranks},
        {"exchange_share", kinds, PLACE(nvlink.exchange_share), 0.85, 0.15, 0.4, 1.1, ranks},
        {"exchange_latency_s", kinds, PLACE(nvlink.exchange_latency_s), 6e-6, 0.5, 1e-6, 4e-5,
         ranks},
    };
    rows.insert(rows.end(), std::begin(of_switch), std::end(of_switch));
  }
  for (const auto& kinds : {h100, blackwell}) {
    const Constant of_nvls[] = {
        {"nvls_efficiency", kinds, PLACE(nvlink.nvls_efficiency), 1, 0.1, 0.7, 1.2, ranks},
        {"nvls_latency_s", kinds, PLACE(nvlink.nvls_latency_s), 2.5e-5, 0.4, 1e-5, 1e-4, ranks},
        {"nvls_ramp_bytes", kinds, PLACE(nvlink.nvls_ramp_bytes), 3e7, 0.7, 1e6, 4e8, ranks}};
    rows.insert(rows.end(), std::begin(of_nvls), std::end(of_nvls));
  }
}

std::vector<Constant> make_table() {
  std::vector<Constant> rows;
  const auto of_gpus = [&](Constant row) {
    for (const auto& kinds : {v100, a100, h100}) {
      row.kinds = kinds;
      rows.push_back(row);
    }
  };
  // Modules of 300, 350 and 450 W.
  for (const auto& [kind, start] : {std::pair("V100-SXM2", 0.9), std::pair("V100-SXM3", 0.95),
                                    std::pair("V100-SXM3-32GB-H", 1.0)})
    rows.push_back(
        {"sustained_clock", {kind}, PLACE(gpu.sustained_clock_share), start, 0.05, 0.7, 1, always});
  // 500 of 700 W.
  rows.push_back({"sustained_clock",
                  {"H100-96GB"},
                  PLACE(gpu.sustained_clock_share),
                  0.88,
                  0.1,
                  0.6,
                  1,
                  always});
  for (const auto& [kinds, start] :
       {std::pair(v100, 0.88), std::pair(a100, 0.8), std::pair(h100, h100_gemm)})
    rows.push_back(
        {"gemm", kinds, PLACE(gpu.gemm.points[0].fraction), start, 0.15, 0.3, 1, always});
  of_gpus(
      {"memory_bound", {}, PLACE(gpu.memory_bound.points[0].fraction), 0.8, 0.1, 0.4, 1, always});
  const Constant of_cube_mesh[] = {
      {"host_latency_s", v100, PLACE(host_latency.latency_s), 2e-5, 0.5, 1e-6, 2e-4, ranks},
      {"host_step_latency_s", v100, PLACE(host_latency.step_latency_s), 2e-6, 0.7, 1e-7, 1e-4,
       ranks},
      {"simple_latency_s", v100, PLACE(nvlink.simple_latency_s), 1e-5, 0.7, 1e-6, 5e-5, ranks}};
  rows.insert(rows.end(), std::begin(of_cube_mesh), std::end(of_cube_mesh));
  add_switches(rows);
  of_gpus({"straggling", {}, PLACE(gpu.kernels.straggling), 0.005, 1, 1e-4, 0.05, ranks});
  of_gpus(
      {"layer_straggling", {}, PLACE(gpu.kernels.layer_straggling), 0.01, 1, 1e-4, 0.05, layers});
  // Hosts of V100: two p3dn.24xlarge reach 10 of 12.5 GB/s, 8 to 32 of them 6 to 8
  // (NVIDIA/nccl#235).
  const std::pair<std::vector<std::string>, double> networks[] = {{{"dgx-1", "dgx-2", "v100"}, 0.7},
                                                                  {{"dgx-a100"}, 0.85},
                                                                  {{"dgx-h"}, 0.85},
                                                                  {{"p4"}, 0.85},
                                                                  {{"p5"}, 0.85},
                                                                  {{"p6"}, 0.9}};
  for (const auto& [machines, start] : networks)
    rows.push_back(
        {"network_efficiency", machines, PLACE(network.efficiency), start, 0.15, 0.3, 0.97, ranks});
  for (const char* machines : {"p4", "p5", "p6"}) {
    const Constant of_efa[] = {{"network_step_s",
                                {machines},
                                PLACE(network_latency.step_latency_s),
                                3e-5,
                                0.7,
                                5e-6,
                                2e-4,
                                ranks},
                               {"network_simple_step_s",
                                {machines},
                                PLACE(network.simple_step_latency_s),
                                4e-5,
                                0.7,
                                5e-6,
                                2e-4,
                                ranks}};
    rows.insert(rows.end(), std::begin(of_efa), std::end(of_efa));
  }
  for (const auto& [kinds, share] : {std::pair(a100, 1.0), std::pair(h100, h100_mma)}) {
    rows.push_back({"flash_forward", kinds, PLACE(gpu.kernels.flash_forward), 0.4 * share, 0.4,
                    0.05, 0.9, flash});
    rows.push_back({"flash_backward", kinds, PLACE(gpu.kernels.flash_backward), 0.3 * share, 0.4,
                    0.05, 0.9, flash});
  }
  // Hopper: of the second generation 35 to 40 % of the peak forward and 30 % backward, of the third
  // 66 and 55 % of long sequences (Shah et al. 2024, FlashAttention-3, figures 5 and 6).
  rows.push_back(
      {"flash2_forward", h100, PLACE(gpu.kernels.flash2_forward), 0.42, 0.1, 0.2, 0.9, flash2});
  rows.push_back(
      {"flash2_backward", h100, PLACE(gpu.kernels.flash2_backward), 0.34, 0.1, 0.1, 0.9, flash2});
  rows.push_back(
      {"cudnn_forward", h100, PLACE(gpu.kernels.cudnn_forward), 0.58, 0.1, 0.3, 0.9, cudnn});
  rows.push_back(
      {"cudnn_backward", h100, PLACE(gpu.kernels.cudnn_backward), 0.5, 0.2, 0.2, 0.9, cudnn});
  // Fits of forward times of 2k to 16k tokens: TensorRT-LLM's on A100, cuDNN's on H100.
  for (const auto& [kinds, start] : {std::pair(a100, 640.), std::pair(h100, 1450.)})
    rows.push_back({"attention_ramp", kinds, PLACE(gpu.kernels.attention_ramp), start, 0.4, 50,
                    5000, in_one_kernel});
  const Constant others[] = {
      // Products of 8,192 x 8,192 x 8,192 reach 1,243 TFLOP/s in fp8 with the conversion of their
      // input, and 783 in bf16: 0.63 and 0.79 of the peaks.
      {"fp8_share", h100, PLACE(gpu.kernels.fp8_share), 0.85, 0.1, 0.5, 1.1, fp8},
      {"fp32_share", v100, PLACE(gpu.kernels.fp32_share), 1, 0.1, 0.5, 1.15, fp32},
      {"tf32_share", a100, PLACE(gpu.kernels.tf32_share), 1, 0.2, 0.3, 1.2, tf32},
      {"batched_share", all, PLACE(gpu.kernels.batched_share), 0.6, 0.5, 0.1, 1.2, unfused},
      {"misaligned_share", all, PLACE(gpu.kernels.misaligned_share), 0.7, 0.5, 0.02, 1, always},
      {"misaligned_batched_share", all, PLACE(gpu.kernels.misaligned_batched_share), 0.3, 1, 0.02,
       1, unfused},
      {"depth_start", all, PLACE(gpu.kernels.depth_start), 64, 0.7, 4, 1000, always},
      {"narrow_head", all, PLACE(gpu.kernels.narrow_head), 0.9, 0.3, 0.3, 1.2, flash},
      {"score_traffic", all, PLACE(gpu.kernels.score_traffic), 1.3, 0.3, 0.3, 4, unfused},
      {"loss_traffic", all, PLACE(gpu.kernels.loss_traffic), 1, 0.3, 0.3, 4, always},
      // tanhf takes about 25 of them, the rest of the formula 10; conversions, addresses, loads;
      // and no kernel issues one in every cycle.
      {"gelu_instructions", all, PLACE(gpu.kernels.gelu_instructions), 60, 0.3, 20, 150, always},
      {"fp32_traffic", all, PLACE(gpu.kernels.fp32_traffic), 0.8, 0.3, 0.3, 1.5, wide},
      {"traffic none", all, PLACE(gpu.kernels.traffic[0]), 1.4, 0.3, 0.3, 4, none},
      {"traffic fused", all, PLACE(gpu.kernels.traffic[1]), 1.1, 0.3, 0.3, 4, fused},
      // OneFlow's kernels: of nobody else's at this level is anything published.
      {"traffic full", h100, PLACE(gpu.kernels.traffic[2]), 1, 0.3, 0.3, 2.5, full},
      {"traffic full", v100, PLACE(gpu.kernels.traffic[2]), 1, 0.5, 0.3, 4, full},
      {"host_launch_us", all, PLACE(host.host_launch_us), 8, 0.4, 4, 50, none},
      {"launches none", all, PLACE(gpu.kernels.launches[0]), 1.2, 0.3, 0.5, 4, none},
      {"launches fused", all, PLACE(gpu.kernels.launches[1]), 1.5, 0.3, 0.5, 6, fused},
      {"launches full", all, PLACE(gpu.kernels.launches[2]), 1, 0.3, 0.5, 4, full},
      {"optimizer_traffic none", all, PLACE(gpu.kernels.optimizer_traffic[0]), 1, 0.3, 0.2, 4,
       none},
      {"optimizer_traffic fused", all, PLACE(gpu.kernels.optimizer_traffic[1]), 1, 0.2, 0.5, 4,
       fused},
      {"optimizer_traffic full", all, PLACE(gpu.kernels.optimizer_traffic[2]), 1, 0.2, 0.5, 4,
       full},
      {"kernel_latency_s", all, PLACE(gpu.kernel_latency_s), 3e-6, 0.3, 1e-6, 1e-5, always},
      {"exposed_launch", all, PLACE(gpu.kernels.exposed_launch), 0.2, 0.7, 0.01, 1, always},
      // NCCL runs 16 to 24 of an A100's 108 multiprocessors.
      {"overlap_slowdown", all, PLACE(gpu.kernels.overlap_slowdown), 0.2, 0.5, 0.01, 1, overlaps},
  };
  rows.insert(rows.end(), std::begin(others), std::end(others));
  return rows;
}

#undef PLACE

const std::vector<Constant>& table() {
  static const std::vector<Constant> rows = make_table();
  return rows;
}

bool concerns(const Constant& constant, const Machine& machine) {
  if (constant.kinds.empty()) return true;
  return std::any_of(constant.kinds.begin(), constant.kinds.end(), [&](const std::string& kind) {
    return machine.gpu.name.starts_with(kind) || machine.name.starts_with(kind);
  });
}

// Collectives are measured alone.
bool is_of_links(const Constant& constant) {
  constexpr std::string_view beginnings[] = {
      "host_latency", "host_step", "network", "simple", "nvls", "nvlink", "own", "ll", "exchange"};
  return std::ranges::any_of(
      beginnings, [&](std::string_view begin) { return constant.name.starts_with(begin); });
}

bool is_free(const Constant& constant, const FitOptions& options) {
  if (options.links_alone) return is_of_links(constant);
  if (options.kernels_of.empty()) return true;
  return !is_of_links(constant) &&
         std::ranges::any_of(constant.kinds, [&](const std::string& kind) {
           return kind.starts_with(options.kernels_of);
         });
}

struct Row {
  double measured = 0, weight = 1;
  std::string source;
  Cluster cluster;
  std::string question;  // equal for rows that differ in their plans alone; none: a collective
  std::shared_ptr<const Compiled> compiled;  // none: a collective
  // Long steps are drawn out from two short ones: time = first + periods * (second - first).
  std::shared_ptr<const Compiled> longer;
  double periods = 0;
  CollectiveRow collective;
  std::vector<int> constants;  // that it may depend on
};

double predicted(const Row& row, const Cluster& cluster) {
  if (row.compiled) {
    const Topology topology(cluster);
    const auto step_time = [&](const Compiled& compiled) {
      return to_seconds(replay(compiled.stages, topology).step_time).value;
    };
    const double time = step_time(*row.compiled);
    if (!row.longer) return time;
    return time + row.periods * (step_time(*row.longer) - time);
  }
  return predicted_time(row.collective, cluster).value;
}

// Layouts of one question over several hosts are what plans choose between: each of k counts
// 1 + (k - 1) / k times.
double weight_of_layout(const Row& row, std::span<const Row> source) {
  if (row.question.empty() || row.cluster.hosts == 1) return 1;
  const auto layouts = std::ranges::count(source, row.question, &Row::question);
  return 2 - 1 / static_cast<double>(layouts);
}

// The fit as vectors: logarithms of the constants and of predicted / measured.
class Problem {
 public:
  Problem(std::span<const Evidence> evidence, const FitOptions& options)
      : links_alone_(options.links_alone),
        load_(options.load),
        near_profile_(options.near_profile) {
    for (const Constant& constant : table()) free_.push_back(is_free(constant, options));
    for (const Evidence& each : evidence) {
      const auto& left = options.leave_out;
      if (std::find(left.begin(), left.end(), each.source) != left.end()) continue;
      add(each);
    }
    for (Row& row : rows_)
      for (std::size_t c = 0; c < table().size(); ++c)
        if (free_[c] && concerns(table()[c], row.cluster.machine) && depends(row, table()[c]))
          row.constants.push_back(static_cast<int>(c));
    if (!options.kernels_of.empty())
      std::erase_if(rows_, [](const Row& row) { return row.constants.empty(); });
    for (std::size_t c = 0; c < table().size(); ++c) starts_.push_back(start_of(table()[c]));
    if (near_profile_)
      for (Row& row : rows_) row.weight = 1;
  }

  const std::vector<Row>& rows() const { return rows_; }
  // That rows which depend on a free constant are of, in the order of the files.
  std::vector<std::string> sources() const {
    std::vector<std::string> names;
    for (const Row& row : rows_)
      if (!row.constants.empty() && std::ranges::count(names, row.source) == 0)
        names.push_back(row.source);
    return names;
  }

  Cluster changed(const Row& row, const Eigen::VectorXd& x) const {
    Cluster cluster = row.cluster;
    for (int c = 0; c < x.size(); ++c)
      if (free_[at(c)] && concerns(table()[at(c)], cluster.machine))
        table()[at(c)].place(cluster.machine) = value(c, x);
    return cluster;
  }

  bool may_change(int c) const { return free_[at(c)]; }
  double start(int c) const { return starts_[at(c)]; }
  double value(int c, const Eigen::VectorXd& x) const { return start(c) * std::exp(x[c]); }

  Eigen::VectorXd errors(const Eigen::VectorXd& x) const {
    Eigen::VectorXd result(std::ssize(rows_));
    parallel([&](std::size_t i) {
      result[static_cast<Eigen::Index>(i)] =
          std::log(predicted(rows_[i], changed(rows_[i], x)) / rows_[i].measured);
    });
    return result;
  }

  Eigen::MatrixXd derivatives(const Eigen::VectorXd& x, const Eigen::VectorXd& errors) const {
    constexpr double step = 0.02;
    Eigen::MatrixXd result = Eigen::MatrixXd::Zero(std::ssize(rows_), x.size());
    parallel([&](std::size_t i) {
      const auto row = static_cast<Eigen::Index>(i);
      for (const int c : rows_[i].constants) {
        Eigen::VectorXd moved = x;
        moved[c] += step;
        result(row, c) =
            (std::log(predicted(rows_[i], changed(rows_[i], moved)) / rows_[i].measured) -
             errors[row]) /
            step;
      }
    });
    return result;
  }

 private:
  bool depends(const Row& row, const Constant& constant) const {
    if (constant.name.starts_with("network") && row.cluster.hosts == 1) return false;
    return row.compiled ? constant.of_plan(row.compiled->plan) : is_of_links(constant);
  }

  // Of a constant that the machine has none of: 0, whatever it is multiplied by.
  double start_of(const Constant& constant) const {
    if (!near_profile_ || rows_.empty()) return constant.start;
    Machine machine = rows_.front().cluster.machine;
    return concerns(constant, machine) ? constant.place(machine) : constant.start;
  }

  const Machine& machine(const std::string& name) {
    const auto found = machines_.find(name);
    if (found != machines_.end()) return found->second;
    return machines_.emplace(name, load_(name)).first->second;
  }

  void add(const StepRow& row) {
    StepCase step = case_of(row, machine(machine_of(row)));
    Row added;
    added.measured = row.step_time_s;
    added.cluster = step.cluster;
    added.question = step.question;
    const auto compiled = [&](std::int64_t micro_batches) {
      Plan plan = step.plan;
      plan.training.global_batch =
          plan.training.global_batch / step.plan.micro_batches() * micro_batches;
      return std::make_shared<const Compiled>(
          compile(step.job.model, plan, target_of(step.cluster, plan.training)));
    };
    const std::int64_t batches = step.plan.micro_batches(), period = step.plan.parallelism.pipeline;
    if (batches > 6 * period) {
      added.compiled = compiled(2 * period);
      added.longer = compiled(3 * period);
      added.periods = static_cast<double>(batches - 2 * period) / static_cast<double>(period);
    } else {
      added.compiled = compiled(batches);
    }
    rows_.push_back(std::move(added));
  }

  // Of sources with hundreds of alike steps every n-th stands for n; collectives take no time.
  void add(const Evidence& evidence) {
    constexpr std::size_t most_rows = 80;
    constexpr double weight_of_source = 24;
    const std::size_t before = rows_.size();
    const std::size_t thin = (evidence.steps.size() + most_rows - 1) / most_rows;
    if (!links_alone_)
      for (std::size_t i = 0; i < evidence.steps.size(); i += thin) add(evidence.steps[i]);
    for (const CollectiveRow& row : evidence.collectives) {
      Row added;
      added.measured = row.time_s;
      added.cluster = cluster_of(row, machine(row.machine));
      added.collective = row;
      rows_.push_back(std::move(added));
    }
    const double count = static_cast<double>(rows_.size() - before);
    for (Row& row : std::span(rows_).subspan(before)) row.source = evidence.source;
    for (Row& row : std::span(rows_).subspan(before))
      row.weight =
          weight_of_source / count * weight_of_layout(row, std::span(rows_).subspan(before));
  }

  template <typename Work>
  void parallel(const Work& work) const {
    const auto threads = static_cast<std::size_t>(usable_cores());
    std::vector<std::thread> pool;
    std::vector<std::exception_ptr> failures(threads);
    for (std::size_t t = 0; t < threads; ++t)
      pool.emplace_back([&, t] {
        try {
          for (std::size_t i = t; i < rows_.size(); i += threads) work(i);
        } catch (...) {
          failures[t] = std::current_exception();
        }
      });
    for (std::thread& thread : pool) thread.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  bool links_alone_ = false;
  std::vector<Row> rows_;
  std::vector<double> starts_;  // of the constants
  std::vector<bool> free_;      // which of them the fit changes
  std::map<std::string, Machine> machines_;
  MachineLoader load_;
  bool near_profile_ = false;
};

constexpr double prior_weight = 0.05;

// Sum of weighted absolute errors (near zero their squares), and the priors.
double cost(const Problem& problem, const Eigen::VectorXd& x, const Eigen::VectorXd& errors) {
  constexpr double small = 0.03;
  double sum = 0;
  for (Eigen::Index i = 0; i < errors.size(); ++i) {
    const double size = std::abs(errors[i]);
    const double loss = size < small ? size * size / (2 * small) : size - small / 2;
    sum += problem.rows()[static_cast<std::size_t>(i)].weight * loss;
  }
  for (Eigen::Index c = 0; c < x.size(); ++c) {
    const double deviation = x[c] / table()[static_cast<std::size_t>(c)].spread;
    sum += prior_weight * deviation * deviation / 2;
  }
  return sum;
}

// A profile may lie outside already.
void keep_inside(const Problem& problem, Eigen::VectorXd& x) {
  for (int c = 0; c < x.size(); ++c) {
    const Constant& constant = table()[at(c)];
    const double start = problem.start(c);
    if (start <= 0) continue;
    x[c] = std::clamp(x[c], std::min(0., std::log(constant.low / start)),
                      std::max(0., std::log(constant.high / start)));
  }
}

// Of squared errors, such that near the minimum they weigh as much as cost() has them.
Eigen::VectorXd weights_of(const Problem& problem, const Eigen::VectorXd& errors) {
  Eigen::VectorXd weights(errors.size());
  for (Eigen::Index i = 0; i < errors.size(); ++i)
    weights[i] =
        problem.rows()[static_cast<std::size_t>(i)].weight / std::max(std::abs(errors[i]), 0.03);
  return weights;
}

// J^T W J + prior: what rows and prior say together about the constants.
Eigen::MatrixXd information(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& weights) {
  Eigen::MatrixXd sum = jacobian.transpose() * weights.asDiagonal() * jacobian;
  for (Eigen::Index c = 0; c < sum.cols(); ++c) {
    const double spread = table()[static_cast<std::size_t>(c)].spread;
    sum(c, c) += prior_weight / (spread * spread);
  }
  return sum;
}

// Of the rows' predictions, given the covariance of the constants.
double spread_of(const Eigen::MatrixXd& jacobian, const Eigen::MatrixXd& covariance) {
  if (jacobian.rows() == 0) return 0;
  return std::sqrt((jacobian * covariance * jacobian.transpose()).trace() /
                   static_cast<double>(jacobian.rows()));
}

}  // namespace

Fit fit_constants(std::span<const Evidence> evidence, const FitOptions& options) {
  const Problem problem(evidence, options);
  const auto size = std::ssize(table());
  Eigen::VectorXd x = Eigen::VectorXd::Zero(size);
  Eigen::VectorXd errors = problem.errors(x);
  double best = cost(problem, x, errors), damping = 1e-2;
  Eigen::MatrixXd jacobian;
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (options.progress) options.progress(iteration, best);
    jacobian = problem.derivatives(x, errors);
    const Eigen::VectorXd weights = weights_of(problem, errors);
    const Eigen::MatrixXd known = information(jacobian, weights);
    const double before = best;
    for (int attempt = 0; attempt < 6; ++attempt) {
      Eigen::MatrixXd normal = known;
      Eigen::VectorXd right = -jacobian.transpose() * weights.asDiagonal() * errors;
      for (Eigen::Index c = 0; c < size; ++c) {
        const double spread = table()[static_cast<std::size_t>(c)].spread;
        right[c] -= prior_weight / (spread * spread) * x[c];
        normal(c, c) *= 1 + damping;
        normal(c, c) += 1e-9;
      }
      Eigen::VectorXd next = x + normal.ldlt().solve(right);
      keep_inside(problem, next);
      const Eigen::VectorXd next_errors = problem.errors(next);
      const double next_cost = cost(problem, next, next_errors);
      if (next_cost < best) {
        x = next, errors = next_errors, best = next_cost;
        damping = std::max(1e-4, damping / 5);
        break;
      }
      damping *= 6;
    }
    if (before - best < 1e-4 * before) break;
  }
  Fit fit;
  fit.sources = problem.sources();
  fit.rows = static_cast<int>(problem.rows().size());
  fit.links_alone = options.links_alone;
  jacobian = problem.derivatives(x, errors);
  const Eigen::MatrixXd after =
      prior_weight * information(jacobian, weights_of(problem, errors)).inverse();
  Eigen::VectorXd variances(size);
  for (int c = 0; c < size; ++c) variances[c] = table()[at(c)].spread * table()[at(c)].spread;
  fit.spread_before = spread_of(jacobian, variances.asDiagonal());
  fit.spread_after = spread_of(jacobian, after);
  for (int c = 0; c < size; ++c) {
    FittedConstant constant{.name = std::string(table()[at(c)].name),
                            .kinds = table()[at(c)].kinds,
                            .before = problem.start(c),
                            .after = problem.value(c, x),
                            .held = !problem.may_change(c),
                            .spread_before = table()[at(c)].spread,
                            .spread_after = std::sqrt(after(c, c))};
    for (const Row& row : problem.rows())
      constant.rows +=
          static_cast<double>(std::count(row.constants.begin(), row.constants.end(), c));
    fit.constants.push_back(std::move(constant));
  }
  return fit;
}

Machine with_constants(Machine machine, const Fit& fit) {
  for (std::size_t c = 0; c < fit.constants.size(); ++c)
    if (concerns(table()[c], machine) && !fit.constants[c].held &&
        (!fit.links_alone || fit.constants[c].rows > 0))
      table()[c].place(machine) = fit.constants[c].after;
  return machine;
}

}  // namespace meshwright
