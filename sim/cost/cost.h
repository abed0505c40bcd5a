// How long one kernel and one instruction take on one GPU of a cluster: a roofline with the
// machine's efficiency curves and the host's launch cost. Communication is the business of
// sim/collectives.
#pragma once

#include <vector>

#include "hwprofiles/machine.h"
#include "models/program/graph/graph.h"
#include "models/program/graph/op_table.h"
#include "models/program/program.h"

namespace meshwright {

// What some kernels are together.
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

  // `traffic_factor`: bytes really moved by a memory-bound kernel for each that it has to.
  Seconds time(const Kernel& kernel, double traffic_factor = 1) const;
  // Device time of a compute or optimizer_step instruction; of a copy between device and host
  // memory; zero for all other kinds.
  Seconds time(const Instruction& instruction, const Program& program) const;
  // What the host needs to launch its kernels, while the device may still run earlier ones. Zero on
  // a CPU, where one thread does both and time() is no less than that.
  Seconds launch_time(const Instruction& instruction, const Program& program) const;
  int launches(const Instruction& instruction, const Program& program) const;  // kernels it starts
  bool host_launches() const;  // kernel by kernel, which takes time
  KernelWork work(const Instruction& instruction, const Program& program) const;
  KernelWork work(const Graph& graph) const;  // of all its nodes
  // Compute of every unit of a graph, for the partitioner: all phases that the graph holds, or
  // three times the forward where it holds no other.
  std::vector<double> unit_costs(const Graph& graph) const;
  // Bytes of every unit: parameters with gradients and optimizer states, and the activations kept
  // for the backward phase.
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
  double attention_share(const Kernel& kernel) const;                      // of the peak
  KernelWork work(const std::vector<Kernel>& kernels, double traffic_factor) const;

  Gpu gpu_;
  Seconds host_launch_;
  double host_copy_bytes_per_s_;
  StepSettings training_;
  bool pads_vocabulary_;            // at every level, as the engine does
  std::size_t level_;               // of the compiler
  Precision products_, attention_;  // the arithmetic that the device has for them
  double gelu_s_ = 0;               // of one, while the whole device computes them
};

// How many times as long compute takes where ranks wait for the slowest: all `ranks` once a step,
// `in_layers` of them in every layer. The largest of n normal numbers lies about sqrt(2 ln n)
// standard deviations above their mean.
double straggling(const KernelConstants& kernels, int ranks, int in_layers);

// One way between a device and its host's memory while all devices of the host copy: over PCIe, or
// within the memory of a CPU computer, which every byte enters and leaves. Bytes per
// second.
double host_copy_bandwidth(const Cluster& cluster);

// The precision whose peak a device reaches when asked for `wanted`: fp8 and nvfp4 without such
// units run in bf16, and what has no tensor cores for it runs in fp32.
Precision executed_precision(const Gpu& gpu, Precision wanted);

}  // namespace meshwright
