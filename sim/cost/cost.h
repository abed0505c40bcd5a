// Predicts how long one kernel and one instruction take on one GPU of a cluster, by a roofline with
// the machine's efficiency curves and the host's launch cost. sim/collectives predicts
// communication.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/program/graph/graph.h"
#include "models/program/graph/op_table.h"
#include "models/program/program.h"
#include "sim/cost/measured.h"

namespace meshwright::sim {

// The launches, bytes and time of some kernels together.
struct KernelWork {
  std::int64_t kernels = 0;  // launches
  double bytes = 0;          // to and from memory
  double time_s = 0;         // no less than launching them takes
  KernelWork& operator+=(const KernelWork& other);
  bool operator==(const KernelWork&) const = default;
};

class CostModel {
 public:
  CostModel(const Cluster& cluster, const StepSettings& training);

  // Returns the device time of a kernel. A memory-bound kernel moves `traffic_factor` times the
  // bytes that it has to.
  Seconds time(const Kernel& kernel, double traffic_factor = 1) const;
  // Returns the device time of a compute or optimizer_step instruction, or of a copy between device
  // and host memory. It is zero for all other kinds.
  Seconds time(const Instruction& instruction, const Program& program) const;
  // Returns the time that the host needs to launch the instruction's kernels, while the device may
  // still run earlier ones. It is zero on a CPU, where one thread does both and time() includes the
  // launch.
  Seconds launch_time(const Instruction& instruction, const Program& program) const;
  int launches(const Instruction& instruction, const Program& program) const;  // kernels it starts
  // Returns the device time of all kernels of each kind that the instruction runs, by Kernel::Kind.
  std::array<Seconds, 4> times_by_kind(const Instruction& instruction,
                                       const Program& program) const;
  bool host_launches() const;  // kernel by kernel, which takes time
  KernelWork work(const Instruction& instruction, const Program& program) const;
  KernelWork work(const Graph& graph) const;  // of all its nodes
  // Returns the seconds of compute of every unit of a graph, for the partitioner: all phases that
  // the graph holds, or three times the forward if it holds no other.
  std::vector<double> unit_costs(const Graph& graph) const;
  // Returns the bytes of every unit: parameters with gradients and optimizer states, and the
  // activations saved for the backward phase.
  std::vector<double> unit_memory(const Graph& graph) const;

 private:
  void append(const Instruction& instruction, const Program& program,
              std::vector<Kernel>& kernels) const;
  void append(const OpCall& call, std::vector<Kernel>& kernels) const;
  double traffic_factor(const Instruction& instruction) const;
  double traffic_factor(Op op) const;
  Seconds device_time(const std::vector<Kernel>& kernels, double traffic_factor) const;
  Seconds launch_time(const std::vector<Kernel>& kernels) const;
  double product_share(const Kernel& product, Precision precision) const;  // of the peak
  std::optional<double> measured_attention_share(const Kernel& kernel) const;
  double attention_share(const Kernel& kernel) const;  // of the peak
  KernelWork work(const std::vector<Kernel>& kernels, double traffic_factor) const;

  Gpu gpu_;
  // The rates of a framework's kernels. Unset for steps of this engine, whose constants are fitted.
  std::optional<MeasuredKernels> measured_;
  Seconds host_launch_;
  double host_copy_bytes_per_s_;
  StepSettings training_;
  bool pads_vocabulary_;            // at every level, as the engine does
  std::size_t level_;               // of the compiler
  Precision products_, attention_;  // the arithmetic that the device has for them
  double gelu_s_ = 0;               // of one, while the whole device computes them
};

// Returns the factor by which compute takes longer because ranks wait for the slowest: all `ranks`
// once a step, `in_layers` of them in every layer. The largest of n normal numbers is about sqrt(2
// ln n) standard deviations above their mean.
double straggling(const KernelConstants& kernels, int ranks, int in_layers);

// Returns the bandwidth, in bytes per second, of one direction between a device and its host's
// memory while all devices of the host copy. The copies go over PCIe, or within the memory of a CPU
// computer, which every byte enters and leaves.
double host_copy_bandwidth(const Cluster& cluster);

// Returns the precision whose peak a device reaches when asked for `wanted`. fp8 and nvfp4 run in
// bf16 on a device without such units, and a precision without tensor cores runs in fp32.
Precision executed_precision(const Gpu& gpu, Precision wanted);

}  // namespace meshwright::sim
