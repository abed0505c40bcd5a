// Tests the text of a prediction. All its numbers differ, so that a wrong one is noticed.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tools/report/prediction.h"
#include "tools/session/screen.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

constexpr std::int64_t mebi = 1 << 20;

Prediction prediction() {
  Prediction p;
  p.step_time_s = 0.25;
  p.interval = StepInterval{0.125, 0.5, 12};
  p.calibration = Calibration::this_machine;
  p.sequences_per_s = 128;
  p.tokens_per_s = 65536;
  p.model_flops_per_s_per_gpu = 5e13;
  p.mfu = 0.4375;
  p.bubble_fraction = 0.0625;
  p.exposed_communication_s = 0.03125;
  p.fits = false;
  p.memory_limit_bytes = 3 * mebi;
  p.peak_memory_bytes = 7 * mebi;
  p.host_memory_bytes = 11 * mebi;
  p.host_memory_limit_bytes = 13 * mebi;
  p.usd_per_hour = 24.5;
  p.usd_per_million_tokens = 0.125;
  p.goodput = Goodput{0.75, 0.875, 100, 40, 4800, 6};
  p.instructions = 999;
  p.simulation_wall_s = 0.001;
  for (int stage = 0; stage < 2; ++stage) {
    StageMemory memory;
    memory.stage = stage;
    for (int cls = 0; cls < memory_class_count - 1; ++cls)
      memory.class_bytes[static_cast<std::size_t>(cls)] = (stage * 10 + cls + 1) * mebi;
    memory.library_bytes = (stage + 20) * mebi;
    memory.peak_bytes = (stage + 30) * mebi;
    p.memory.push_back(memory);
  }
  return p;
}

}  // namespace

TEST_CASE("the JSON of a prediction has each number under its own key", "[tools][report][json]") {
  CHECK(prediction_json(prediction()) == json::parse(R"({
    "step_time_s": 0.25, "step_time_interval_s": [0.125, 0.5], "calibration": "calibrated on this machine",
    "sequences_per_s": 128.0, "tokens_per_s": 65536.0, "model_flops_per_s_per_gpu": 5e13,
    "mfu": 0.4375, "bubble_fraction": 0.0625, "exposed_communication_s": 0.03125, "fits": false,
    "memory_limit_bytes": 3145728.0, "peak_memory_bytes": 7340032, "framework_memory": null,
    "memory": [
      {"stage": 0, "library_bytes": 20971520, "peak_bytes": 31457280, "parameters_bytes": 1048576,
       "gradients_bytes": 2097152, "optimizer_bytes": 3145728, "activations_bytes": 4194304,
       "workspace_bytes": 5242880, "communication_bytes": 6291456, "snapshot_bytes": 0},
      {"stage": 1, "library_bytes": 22020096, "peak_bytes": 32505856, "parameters_bytes": 11534336,
       "gradients_bytes": 12582912, "optimizer_bytes": 13631488, "activations_bytes": 14680064,
       "workspace_bytes": 15728640, "communication_bytes": 16777216, "snapshot_bytes": 0}],
    "host_memory_bytes": 11534336, "host_memory_limit_bytes": 13631488.0,
    "usd_per_hour": 24.5, "usd_per_million_tokens": 0.125,
    "goodput": 0.75, "checkpoint_interval_s": 25.0, "checkpoint_write_s": 6.0,
    "best_goodput": 0.875, "best_checkpoint_interval_s": 10.0,
    "cluster_mean_time_between_failures_s": 4800.0,
    "instructions": 999, "simulation_wall_s": 0.001})"));
  Prediction less = prediction();
  less.interval.reset();
  less.usd_per_hour.reset();
  less.usd_per_million_tokens.reset();
  less.goodput.reset();
  FrameworkUse use;
  use.fit.bytes = 17 * mebi;
  use.limit_bytes = 19 * mebi;
  less.framework = use;
  const json value = prediction_json(less);
  for (const char* key : {"step_time_interval_s", "usd_per_hour", "usd_per_million_tokens",
                          "goodput", "checkpoint_interval_s", "checkpoint_write_s", "best_goodput",
                          "best_checkpoint_interval_s", "cluster_mean_time_between_failures_s"})
    CHECK(value[key].is_null());
  CHECK(value["framework_memory"] ==
        json({{"peak_memory_bytes", 17 * mebi}, {"memory_limit_bytes", 19 * mebi}}));
}

TEST_CASE("the table of memory has a column for each class, of snapshots where there are any",
          "[tools][report]") {
  Prediction p = prediction();
  CHECK(memory_table(p).text(without_end) ==
        "stage  parameters  gradients  optimizer  activations  workspace  communication   library"
        "      peak\n"
        "0         1.0 MiB    2.0 MiB    3.0 MiB      4.0 MiB    5.0 MiB        6.0 MiB  20.0 MiB"
        "  30.0 MiB\n"
        "1        11.0 MiB   12.0 MiB   13.0 MiB     14.0 MiB   15.0 MiB       16.0 MiB  21.0 MiB"
        "  31.0 MiB\n");
  p.memory[1].class_bytes[static_cast<std::size_t>(MemoryClass::snapshot)] = 9 * mebi;
  const auto rows = memory_table(p).rows();
  CHECK(rows[0][7] == "snapshot");
  CHECK(rows[1][7] == "0 B");
  CHECK(rows[2][7] == "9.0 MiB");
}

TEST_CASE("the memory that a framework takes is said before this engine's", "[tools][report]") {
  Prediction p = prediction();
  Plan plan;
  CHECK(peak_memory_text(plan, p) == "peak 7.0 MiB of 3.0 MiB");
  FrameworkUse use;
  use.fit.bytes = 17 * mebi;
  use.limit_bytes = 19 * mebi;
  p.framework = use;
  plan.training.memory_of = MemoryOf::pytorch;
  CHECK(peak_memory_text(plan, p) ==
        "pytorch 17.0 MiB of 19.0 MiB; this engine's peak 7.0 MiB of 3.0 MiB");
}

TEST_CASE("goodput is said with the interval, and with a better one where there is one",
          "[tools][report]") {
  Prediction p = prediction();
  CHECK(goodput_text(p) ==
        "a failure every 4800 s, a checkpoint every 100 steps (25.000 s); best every 40 steps "
        "(10.000 s): 87.5 %");
  p.goodput->best_every_steps = 100;
  CHECK(goodput_text(p) == "a failure every 4800 s, a checkpoint every 100 steps (25.000 s)");
}

TEST_CASE("prices and bills are said with what they are for", "[tools][report]") {
  const Price price{"m", PriceKind::spot, "us-east-1", 3.5, "2026-03-02", "a list"};
  const int day = *day_of("2026-03-02");
  const json value = price_json(price, day + 90);
  CHECK(value == json({{"kind", "spot"},
                       {"region", "us-east-1"},
                       {"usd_per_hour", 3.5},
                       {"as_of", "2026-03-02"},
                       {"source", "a list"},
                       {"stale", false}}));
  CHECK(price_json(price, day + 91)["stale"] == true);
  CHECK(price_json({}, day).is_null());
  CHECK(bill_text({}) == "no price");
  CHECK(bill_text(Bill{123, 0, 0}) == "$123");
  CHECK(bill_text(Bill{123, 4.5, 14}) == "$123: 14 days in capacity blocks, $4.50 of it idle");
  CHECK(bill_json(Bill{123, 4.5, 14}) ==
        json({{"usd", 123.0}, {"idle_usd", 4.5}, {"block_days", 14}}));
  CHECK(bill_json({}) == json({{"usd", nullptr}, {"idle_usd", nullptr}, {"block_days", nullptr}}));
}

TEST_CASE("where a stage's time goes is said part by part, exposed groups by name",
          "[tools][report][json]") {
  StageBreakdown one;
  one.compute_s = 1, one.launch_s = 2, one.bubble_s = 3, one.idle_s = 4;
  one.exposed_s[static_cast<std::size_t>(GroupKind::none)] = 5;
  one.exposed_s[static_cast<std::size_t>(GroupKind::tensor)] = 6;
  CHECK(breakdown_json({{}, one}) == json::parse(R"([
    {"stage": 0, "compute_s": 0.0, "launch_s": 0.0, "exposed_s": {}, "bubble_s": 0.0,
     "idle_s": 0.0},
    {"stage": 1, "compute_s": 1.0, "launch_s": 2.0, "exposed_s": {"host copies": 5.0, "tensor": 6.0},
     "bubble_s": 3.0, "idle_s": 4.0}])"));
}
