// Runs the command `calibrate`, which measures this computer and writes the profile of machine
// `local`.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "tools/commands/commands.h"
#include "tools/measure/gpu_ranks.h"
#include "tools/measure/measure.h"
#include "tools/measure/ranks.h"
#include "tools/report/print_json.h"
#include "tools/report/progress.h"
#include "tools/session/engine.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

void say_cpu(const Machine& machine) {
  const double from_caches = machine.gpu.memory_bandwidth_bytes_per_s;
  std::printf("products  %.1f GFLOP/s per core\n", machine.gpu.peak(Precision::fp32).value / 1e9);
  std::printf("memory    %.1f GB/s, all cores; up to %.1f GB/s from caches\n",
              from_caches * machine.gpu.memory_bound.points.back().fraction / 1e9,
              from_caches / 1e9);
  std::printf(
      "ranks     %.2f GB/s in an all-reduce, %.2f GB/s in gathers and scatters, %s per round\n",
      machine.shared_memory->rank_bandwidth_bytes_per_s / 1e9,
      machine.shared_memory->copy_bandwidth_bytes_per_s / 1e9,
      show_seconds(machine.host_latency.step_latency_s).c_str());
}

json cpu_json(const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  const SharedMemory& memory = *machine.shared_memory;
  return {{"cores", gpu.sm_count},
          {"core_flop_per_s", gpu.peak(Precision::fp32).value},
          {"memory_bandwidth_bytes_per_s",
           gpu.memory_bandwidth_bytes_per_s * gpu.memory_bound.points.back().fraction},
          {"rank_bandwidth_bytes_per_s", memory.rank_bandwidth_bytes_per_s},
          {"rank_copy_bandwidth_bytes_per_s", memory.copy_bandwidth_bytes_per_s},
          {"rank_latency_s", machine.host_latency.step_latency_s}};
}

// Returns the measured rates of one GPU as JSON. The rate of matrix products in each precision
// follows from the efficiency of the largest products (the last point of gpu.gemm).
json gpu_json(const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  const KernelConstants& k = gpu.kernels;
  const double share = gpu.gemm.points.back().fraction;
  json products = json::object();
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8}) {
    const double own = precision == Precision::fp32   ? k.fp32_share
                       : precision == Precision::tf32 ? k.tf32_share
                                                      : 1;
    if (gpu.supports(precision))
      products[std::string(name_of(precision))] = gpu.peak(precision).value * share * own;
  }
  const auto attention = [&](const EfficiencyCurve& curve) {
    const Precision precision = gpu.supports(Precision::bf16) ? Precision::bf16 : Precision::fp16;
    return gpu.peak(precision).value * curve.points.back().fraction;
  };
  return {{"gpus", machine.gpus},
          {"gpu", gpu.name},
          {"product_flop_per_s", products},
          {"attention_flop_per_s", attention(gpu.attention)},
          {"attention_backward_flop_per_s", attention(gpu.attention_backward)},
          {"memory_bandwidth_bytes_per_s",
           gpu.memory_bandwidth_bytes_per_s * gpu.memory_bound.points.back().fraction},
          {"kernel_latency_s", gpu.kernel_latency_s},
          {"host_copy_bandwidth_bytes_per_s", machine.pcie.gpu_bandwidth_bytes_per_s},
          {"memory_bytes", gpu.memory_bytes},
          {"context_bytes", machine.overheads.context_bytes}};
}

void say_gpu(const Machine& machine) {
  const json answer = gpu_json(machine);
  std::printf("products  ");
  const char* comma = "";
  for (const auto& [precision, rate] : answer["product_flop_per_s"].items()) {
    std::printf("%s%s %.3g", comma, precision.c_str(), rate.get<double>() / 1e12);
    comma = ", ";
  }
  std::printf(" TFLOP/s\nattention %.3g TFLOP/s, backward %.3g\n",
              answer["attention_flop_per_s"].get<double>() / 1e12,
              answer["attention_backward_flop_per_s"].get<double>() / 1e12);
  std::printf("memory    %.4g GB/s; a kernel that does nothing takes %s\n",
              answer["memory_bandwidth_bytes_per_s"].get<double>() / 1e9,
              show_seconds(machine.gpu.kernel_latency_s).c_str());
  std::printf("host      %.3g GB/s to and from pinned memory\n",
              machine.pcie.gpu_bandwidth_bytes_per_s / 1e9);
  std::printf(
      "libraries %s of %s\n",
      show_bytes(machine.overheads.context_bytes + machine.overheads.workspace_bytes).c_str(),
      show_bytes(machine.gpu.memory_bytes).c_str());
  if (machine.nvlink.kind != NvlinkKind::none)
    std::printf("GPUs      %.4g GB/s in an all-reduce over %d\n",
                machine.nvlink.links_per_gpu * machine.nvlink.link_bandwidth_bytes_per_s *
                    machine.nvlink.efficiency / 1e9,
                machine.gpus);
}

bool shows_gpus(const Options& options) { return gpus_here() > 0 && !options.cpu; }

// Warns if the load average of the last minute exceeds half the processors, because other processes
// make the measured rates too low.
void warn_of_load() {
  double running = 0;  // processes, over the last minute
  const auto processors = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (getloadavg(&running, 1) == 1 && running > processors / 2)
    std::fprintf(stderr,
                 "warning: this computer is busy (in the last minute %.1f processes on %.0f "
                 "processors): what is measured is slower than it could be; calibrate again when "
                 "nothing else runs\n",
                 running, processors);
}

int run_calibrate(const Options& options) {
  if (options.as_rank)
    return shows_gpus(options) ? run_as_measured_gpu_rank(options) : run_as_measured_rank(options);
  check_writable("--profile", options.local_profile);
  if (shows_gpus(options) && options.ranks.value_or(1) > gpus_here())
    std::fprintf(stderr, "warning: %d ranks share %d GPU%s, which only tests want\n",
                 *options.ranks, gpus_here(), gpus_here() == 1 ? "" : "s");
  warn_of_load();
  std::optional<ProgressLine> line(std::in_place);
  const Machine machine =
      measure_this_computer(options, options.quick ? MeasureEffort::quick : MeasureEffort::thorough,
                            [&](double share, const char* what) { line->at(share, what); });
  line.reset();
  const std::filesystem::path path(options.local_profile);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw RunError(options.local_profile + ": " + error.message());
  write_machine(machine, options.local_profile);
  const bool is_cpu = machine.gpu.kind == DeviceKind::cpu;
  if (options.json) {
    json answer = is_cpu ? cpu_json(machine) : gpu_json(machine);
    answer["profile"] = options.local_profile;
    print_json(answer);
    return done;
  }
  std::printf("%s\n", machine.gpu.name.c_str());
  is_cpu ? say_cpu(machine) : say_gpu(machine);
  std::printf("wrote %s\n", options.local_profile.c_str());
  return done;
}

}  // namespace

const Command calibrate_command = {
    "calibrate",
    "",
    "",
    "measure this computer and write its profile",
    "json wide profile ranks cpu quick as-rank",
    run_calibrate,
    "Measures this computer, its GPUs where it has some, and writes the profile of machine "
    "`local`, which predictions for this computer use. docs/gpu.md says what is measured on GPUs."};

}  // namespace meshwright::tools
