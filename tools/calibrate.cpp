// `calibrate`: measures this computer and writes the profile of machine `local`.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "tools/commands.h"
#include "tools/fast_products.h"
#include "tools/measure.h"
#include "tools/measure_ranks.h"
#include "tools/report/print_json.h"
#include "tools/report/text.h"
#include "tools/write_file.h"

namespace meshwright {

int run_calibrate(const Options& options) {
  if (options.as_rank) return run_as_measured_rank(options);
  use_fastest_products(options);
  check_writable("--profile", options.local_profile);
  const Machine machine = measure_this_computer(options, MeasureEffort::thorough);
  const std::filesystem::path path(options.local_profile);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw RunError(options.local_profile + ": " + error.message());
  write_machine(machine, options.local_profile);
  const double peak = machine.gpu.peak(Precision::fp32).value;
  const double from_caches = machine.gpu.memory_bandwidth_bytes_per_s;
  const double bandwidth = from_caches * machine.gpu.memory_bound.points.back().fraction;
  if (options.json) {
    print_json(
        {{"profile", options.local_profile},
         {"cores", machine.gpu.sm_count},
         {"core_flop_per_s", peak},
         {"memory_bandwidth_bytes_per_s", bandwidth},
         {"rank_bandwidth_bytes_per_s", machine.shared_memory->rank_bandwidth_bytes_per_s},
         {"rank_copy_bandwidth_bytes_per_s", machine.shared_memory->copy_bandwidth_bytes_per_s},
         {"rank_latency_s", machine.host_latency.step_latency_s}});
    return done;
  }
  std::printf("%s\n", machine.gpu.name.c_str());
  std::printf("products  %.1f GFLOP/s per core\n", peak / 1e9);
  std::printf("memory    %.1f GB/s, all cores; up to %.1f GB/s from caches\n", bandwidth / 1e9,
              from_caches / 1e9);
  std::printf(
      "ranks     %.2f GB/s in an all-reduce, %.2f GB/s in gathers and scatters, %s per round\n",
      machine.shared_memory->rank_bandwidth_bytes_per_s / 1e9,
      machine.shared_memory->copy_bandwidth_bytes_per_s / 1e9,
      show_seconds(machine.host_latency.step_latency_s).c_str());
  std::printf("wrote %s\n", options.local_profile.c_str());
  return done;
}

}  // namespace meshwright
