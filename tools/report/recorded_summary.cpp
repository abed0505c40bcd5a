#include "tools/report/recorded_summary.h"

#include <array>
#include <map>

#include "models/core/json.h"
#include "sim/rehearsal/price.h"

namespace meshwright::tools {

namespace {

// Sums up the kernels of a class of work, or of an operation.
struct KernelSum {
  std::int64_t kernels = 0, recomputed = 0;
  double flops = 0;
  std::int64_t bytes = 0;

  void add(const Recording& recording, const RecordedEvent& event) {
    ++kernels;
    recomputed += event.recomputed ? 1 : 0;
    bytes += event.bytes;
    if (event.kernel < 0) return;
    const RecordedKernel& kernel = recording.kernels[static_cast<std::size_t>(event.kernel)];
    flops += kernel.flops;
    bytes += static_cast<std::int64_t>(kernel.kernel.bytes);
  }
  json row(const char* key, std::string_view name) const {
    return {{key, name},
            {"kernels", kernels},
            {"recomputed", recomputed},
            {"flops", flops},
            {"bytes", bytes}};
  }
};

json work_rows(const Recording& recording) {
  std::array<KernelSum, recorded_work_count> sums;
  for (const RecordedEvent& event : recording.events)
    if (runs_on_device(event.what) && event.what != Recorded::collective)
      sums[static_cast<std::size_t>(recorded_work(recording, event))].add(recording, event);
  json rows = json::array();
  for (std::size_t use = 0; use < recorded_work_count; ++use)
    if (sums[use].kernels > 0)
      rows.push_back(sums[use].row("work", name_of(static_cast<RecordedWork>(use))));
  return rows;
}

json operation_rows(const Recording& recording) {
  std::map<std::string, KernelSum> sums;
  for (const RecordedEvent& event : recording.events)
    if (event.what == Recorded::kernel)
      sums[event.op < 0 ? "" : recording.operations[static_cast<std::size_t>(event.op)]].add(
          recording, event);
  json rows = json::array();
  for (const auto& [name, sum] : sums) rows.push_back(sum.row("operation", name));
  return rows;
}

// Returns the collectives in the order of the host. Equal ones that follow each other are one row.
json collective_rows(const Recording& recording) {
  json rows = json::array();
  for (const RecordedEvent& event : recording.events) {
    if (event.what != Recorded::collective) continue;
    json row = {{"kind", recorded_collective_names()[static_cast<std::size_t>(event.collective)]},
                {"ranks", recording.groups[static_cast<std::size_t>(event.group)].size()},
                {"bytes", event.bytes},
                {"times", 1}};
    if (!rows.empty()) {
      json last = rows.back();
      last["times"] = 1;
      if (last == row) {
        rows.back()["times"] = rows.back()["times"].get<int>() + 1;
        continue;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

json memory_row(const Recording& recording) {
  json row = {{"allocated_before_step_bytes", recording.memory.allocated_before_step_bytes},
              {"peak_allocated_bytes", recording.memory.peak_allocated_bytes},
              {"peak_reserved_bytes", recording.memory.peak_reserved_bytes}};
  if (!recording.phases) return row;
  for (std::size_t phase = 0; phase < step_phase_count; ++phase)
    row["peak_bytes"][step_phase_names()[phase]] = (*recording.phases)[phase].peak_allocated_bytes;
  row["kept_for_backward_bytes"] =
      (*recording.phases)[static_cast<std::size_t>(StepPhase::forward)].kept_bytes;
  return row;
}

}  // namespace

json recorded_summary(const Recording& recording) {
  std::int64_t waits = 0;
  for (const RecordedEvent& event : recording.events)
    waits += event.what == Recorded::host_waits || event.waits ? 1 : 0;
  json value = {{"script", recording.script},
                {"versions", recording.versions},
                {"ranks", recording.ranks},
                {"kernels", work_rows(recording)},
                {"operations", operation_rows(recording)},
                {"memory", memory_row(recording)},
                {"collectives", collective_rows(recording)},
                {"host_waits", waits},
                {"state_bytes", recording.state_bytes}};
  if (recording.batch)
    value["batch"] = {{"samples", recording.batch->samples},
                      {"tokens", recording.batch->tokens},
                      {"replicas", recording.batch->replicas}};
  return value;
}

}  // namespace meshwright::tools
