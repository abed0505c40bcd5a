#include "sim/predict/target.h"

#include "sim/cost/cost.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

DeviceFacts device_facts(const Cluster& cluster, Precision precision) {
  const Gpu device = cluster.device();
  return {.flops_per_byte = device.peak(executed_precision(device, precision)).value /
                            device.memory_bandwidth_bytes_per_s,
          .transposes_8_bits = device.transposes_8_bits,
          .snapshot_on_host = device.kind == DeviceKind::gpu};
}

Target target_of(const Cluster& cluster, const StepSettings& training, double usable) {
  return {device_facts(cluster, training.precision),
          [cost = CostModel(cluster, training)](const Graph& graph) {
            return UnitCosts{cost.unit_costs(graph), cost.unit_memory(graph)};
          },
          [&cluster](const Program& program) {
            return static_cast<double>(stage_memory(program, cluster).peak_bytes);
          },
          usable * cluster.device().memory_bytes};
}

}  // namespace meshwright::sim
