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
  std::int64_t kernels = 0;  // number of kernel launches
  double bytes = 0;          // bytes read from and written to memory
  double time_s = 0;         // device time, but no less than launching the kernels takes
  KernelWork& operator+=(const KernelWork& other);
  bool operator==(const KernelWork&) const = default;
};

class CostModel {
 public:
  CostModel(const Cluster& cluster, const StepSettings& training);

  // Returns the device time of a kernel. A kernel of kind `memory` moves `traffic_factor` times the
  // bytes that it has to.
  Seconds time(const Kernel& kernel, double traffic_factor = 1) const;
  // Returns the device time of a compute or optimizer_step instruction on the most loaded rank
  // (Program::fullest), or of a copy between device and host memory. It is zero for all other
  // kinds. On a GPU it includes the exposed part of the launches.
  Seconds time(const Instruction& instruction, const Program& program) const;
  // Returns the time that the host needs to launch the instruction's kernels, while the device may
  // still run earlier ones. It is zero on a CPU, where one thread launches and computes, so that
  // time() covers the launch.
  Seconds launch_time(const Instruction& instruction, const Program& program) const;
  // Returns the number of kernels that the instruction launches.
  int launches(const Instruction& instruction, const Program& program) const;
  // Returns the device time of all kernels of each kind that the instruction runs, indexed by
  // Kernel::Kind. Copies and launches do not count.
  std::array<Seconds, 4> times_by_kind(const Instruction& instruction,
                                       const Program& program) const;
  bool host_launches() const;  // whether the host launches each kernel, which takes time
  KernelWork work(const Instruction& instruction, const Program& program) const;
  KernelWork work(const Graph& graph) const;  // the sum of the work of all nodes
  // Returns the seconds of compute of every unit of a graph in a micro-batch, for the partitioner:
  // all phases that the graph holds, or three times the forward if it holds no other. Nodes that
  // run once per step do not count.
  std::vector<double> unit_costs(const Graph& graph) const;
  // Returns the bytes of every unit: weights, gradients and optimizer states of those that train,
  // tensors that live for a step, and the activations saved for the backward phase. If the graph
  // holds only the forward phase, all activations count.
  std::vector<double> unit_memory(const Graph& graph) const;

 private:
  void append(const Instruction& instruction, const Program& program,
              std::vector<Kernel>& kernels) const;
  void append(const OpCall& call, std::vector<Kernel>& kernels) const;
  double traffic_factor(const Instruction& instruction) const;
  double traffic_factor(Op op) const;
  Seconds device_time(const std::vector<Kernel>& kernels, double traffic_factor) const;
  Seconds launch_time(const std::vector<Kernel>& kernels) const;
  // Returns the share of the peak FLOP/s that a matmul reaches.
  double product_share(const Kernel& product, Precision precision) const;
  std::optional<double> measured_attention_share(const Kernel& kernel) const;
  // Returns the share of the peak FLOP/s that fused attention reaches.
  double attention_share(const Kernel& kernel) const;
  KernelWork work(const std::vector<Kernel>& kernels, double traffic_factor) const;

  Gpu gpu_;
  // The measured rates by which steps of PyTorch's frameworks are priced. Unset for all others,
  // whose prediction uses the constants of the profile.
  std::optional<MeasuredKernels> measured_;
  Seconds host_launch_;
  double host_copy_bytes_per_s_;
  StepSettings training_;
  // Whether matmuls over the vocabulary are padded at every level, as in the engine.
  bool pads_vocabulary_;
  std::size_t level_;               // compiler level, an index into the constants of the profile
  Precision products_, attention_;  // precision in which the device computes matmuls and attention
  double gelu_s_ = 0;               // seconds per element, while the whole device computes them
};

// Returns the factor by which compute takes longer because ranks wait for the slowest: all `ranks`
// once a step, and `in_layers` of them in every layer. The largest of n normal numbers is about
// sqrt(2 ln n) standard deviations above their mean.
double straggling(const KernelConstants& kernels, int ranks, int in_layers);

// Returns the bandwidth, in bytes per second, of one direction between a device and its host's
// memory while all devices of the host copy. The copies go over PCIe, or within the memory of a CPU
// computer, which every byte enters and leaves.
double host_copy_bandwidth(const Cluster& cluster);

// Returns the precision whose peak a device reaches when asked for `wanted`. If the device does not
// support `wanted`, fp8 and nvfp4 run in bf16 if it supports that. Everything else runs in fp32.
Precision executed_precision(const Gpu& gpu, Precision wanted);

}  // namespace meshwright::sim
