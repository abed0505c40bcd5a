#include "sim/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/program/graph/op_table.h"
#include "models/program/graph/widen.h"
#include "models/program/step_work.h"
#include "sim/cost/gemm.h"

namespace meshwright::sim {

namespace {

using Types = std::vector<TensorType>;

void copy_types(const std::vector<Operand>& operands, Types& types) {
  types.clear();
  for (const Operand& operand : operands) types.push_back(operand.type);
}

void copy_types(const Graph& graph, const TensorIds& ids, Types& types) {
  types.clear();
  for (int id : ids) types.push_back(graph.tensor(id).type);
}

bool is_copy(const Instruction& instruction) {
  return instruction.kind == InstructionKind::copy_out ||
         instruction.kind == InstructionKind::copy_in;
}

std::pair<double, double> fused_attention_shares(const KernelConstants& constants,
                                                 AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::flash2:
      return {constants.flash2_forward, constants.flash2_backward};
    case AttentionKernel::flash3:
      return {constants.flash3_forward, constants.flash3_backward};
    case AttentionKernel::cudnn:
      return {constants.cudnn_forward, constants.cudnn_backward};
    default:
      return {constants.flash_forward, constants.flash_backward};
  }
}

// Returns the mean share of the multiprocessors that work while the gradient of fused attention is
// summed in a fixed order. FlashAttention-2 then splits the keys of each head of each sequence into
// as many blocks as together fill the device at least once, so that a second wave may be mostly
// empty (flash_bwd_launch_template.h). `heads` counts the heads of all sequences.
double busy_in_order(std::int64_t heads, int multiprocessors) {
  if (multiprocessors == 0) return 1;
  const std::int64_t parts = (multiprocessors + heads - 1) / heads;
  const std::int64_t waves = (parts * heads + multiprocessors - 1) / multiprocessors;
  return static_cast<double>(parts * heads) / static_cast<double>(waves * multiprocessors);
}

auto launched(const std::vector<Kernel>& kernels) {
  return std::ranges::count(kernels, false, &Kernel::joins_neighbour);
}

}  // namespace

double straggling(const KernelConstants& kernels, int ranks, int in_layers) {
  const auto slowest_of = [](int count) { return std::sqrt(2 * std::log(count)); };
  return 1 + kernels.straggling * slowest_of(ranks) +
         kernels.layer_straggling * slowest_of(in_layers);
}

double host_copy_bandwidth(const Cluster& cluster) {
  const Machine& machine = cluster.machine;
  if (machine.shared_memory) return cluster.device().memory_bandwidth_bytes_per_s / 2;
  double bandwidth = machine.pcie.gpu_bandwidth_bytes_per_s;
  for (const PcieSwitch& below : machine.pcie.switches)
    bandwidth =
        std::min(bandwidth, machine.pcie.uplink_bandwidth_bytes_per_s /
                                static_cast<double>(std::max<std::size_t>(1, below.gpus.size())));
  return bandwidth;
}

Precision executed_precision(const Gpu& gpu, Precision wanted) {
  if (gpu.supports(wanted)) return wanted;
  if (quantizes(wanted) && gpu.supports(Precision::bf16)) return Precision::bf16;
  return Precision::fp32;
}

namespace {

// Returns the host's time to launch one kernel. It is 0 if a GPU's step is recorded as a CUDA
// graph, because the host then launches the whole step at once.
Seconds launch_of(const Cluster& cluster, const StepSettings& training) {
  const bool recorded =
      cluster.machine.gpu.kind == DeviceKind::gpu && training.cuda_graph.value_or(false);
  return recorded ? Seconds{0} : cluster.host_launch();
}

// Returns whether a step is priced by the rates that its kernels were measured to reach. That holds
// for frameworks of PyTorch on GPUs, because the list of their kernels is known. Other steps are
// priced by the constants of the profile, which are fitted to steps of Megatron-LM, among others. A
// profile that `calibrate` made holds measurements of this engine and is used for all frameworks.
bool is_of_framework(const Cluster& cluster, const StepSettings& training) {
  return is_of_pytorch(training.framework) && cluster.machine.gpu.kind == DeviceKind::gpu &&
         !cluster.machine.runs_engine();
}

// Returns the device without the fitted factors that stand for work that is missing from the list
// of kernels. A framework's list is complete.
Gpu without_factors(Gpu gpu) {
  KernelConstants& kernels = gpu.kernels;
  kernels.traffic = kernels.optimizer_traffic = kernels.launches = {1, 1, 1};
  return gpu;
}

}  // namespace

CostModel::CostModel(const Cluster& cluster, const StepSettings& training)
    : gpu_(is_of_framework(cluster, training) ? without_factors(cluster.device())
                                              : cluster.device()),
      host_launch_(launch_of(cluster, training)),
      host_copy_bytes_per_s_(host_copy_bandwidth(cluster)),
      training_(training),
      pads_vocabulary_(cluster.machine.runs_engine()),
      level_(static_cast<std::size_t>(training.compiler)),
      products_(executed_precision(gpu_, training.precision)),
      attention_(quantizes(training.precision)
                     ? executed_precision(gpu_, Precision::bf16)  // kernels that stay in bf16
                     : products_) {
  if (is_of_framework(cluster, training)) measured_.emplace(gpu_);
  // One instruction is a fused multiply-add, which counts as two FLOPs of the peak.
  const double instructions_per_s =
      gpu_.peak(Precision::fp32).value / 2 * gpu_.sustained_clock_share;
  if (instructions_per_s > 0) gelu_s_ = gpu_.kernels.gelu_instructions / instructions_per_s;
}

double CostModel::product_share(const Kernel& product, Precision precision) const {
  const KernelConstants& constants = gpu_.kernels;
  const auto measured =
      measured_ ? measured_->product_rate(product, gpu_, precision) : std::optional<double>();
  if (measured) return *measured * gpu_.sustained_clock_share / gpu_.peak(precision).value;
  double share = gpu_.gemm.at(product.flops) * shape_efficiency(product, gpu_, precision) *
                 gpu_.sustained_clock_share;
  if (precision == Precision::fp32) share *= constants.fp32_share;
  if (precision == Precision::tf32) share *= constants.tf32_share;
  if (quantizes(precision)) share *= constants.fp8_share;
  if (precision == Precision::nvfp4) share *= constants.fp4_share;
  if (product.kind == Kernel::Kind::batched_gemm) share *= constants.batched_share;
  return share;
}

std::optional<double> CostModel::measured_attention_share(const Kernel& kernel) const {
  if (!measured_ || training_.attention != AttentionKernel::flash2) return std::nullopt;
  return measured_->flash2_share(kernel);
}

double CostModel::attention_share(const Kernel& kernel) const {
  const bool in_order =
      kernel.backward && training_.deterministic && training_.attention == AttentionKernel::flash2;
  const double busy = in_order ? busy_in_order(kernel.batch, gpu_.sm_count) : 1;
  if (const auto measured = measured_attention_share(kernel))
    return busy * *measured * gpu_.sustained_clock_share;
  if (!gpu_.attention.points.empty()) {
    const bool own = kernel.backward && !gpu_.attention_backward.points.empty();
    const EfficiencyCurve& curve = own ? gpu_.attention_backward : gpu_.attention;
    return busy * curve.at(kernel.flops / static_cast<double>(kernel.batch));
  }
  const KernelConstants& constants = gpu_.kernels;
  const auto [forward, backward] = fused_attention_shares(constants, training_.attention);
  const double narrow = kernel.k <= 64 ? constants.narrow_head : 1;
  const double keys = static_cast<double>(kernel.n);
  return busy * (kernel.backward ? backward : forward) * narrow * gpu_.sustained_clock_share *
         keys / (keys + constants.attention_ramp);
}

double CostModel::traffic_factor(const Instruction& instruction) const {
  if (instruction.kind == InstructionKind::optimizer_step)
    return gpu_.kernels.optimizer_traffic[level_];
  return traffic_factor(instruction.op);
}

double CostModel::traffic_factor(Op op) const {
  const KernelConstants& constants = gpu_.kernels;
  const bool casts = is_16_bit(storage_of(training_.precision));
  const double everywhere = casts ? 1 : constants.fp32_traffic;
  switch (info(op).traffic) {
    case Traffic::scores:
      return everywhere * constants.score_traffic;
    case Traffic::loss:
      return everywhere * constants.loss_traffic;
    case Traffic::quantized:  // kernels that quantize move only the bytes that they have to
      return 1;
    case Traffic::elementwise:
      break;
  }
  return everywhere * constants.traffic[level_];
}

Seconds CostModel::time(const Kernel& kernel, double traffic_factor) const {
  // A GPU loads tiles while it multiplies others. A CPU core first packs the operands, which adds
  // to the time. The operands come from memory, because since their last use a step has gone
  // through more bytes than caches hold.
  const bool packs = gpu_.kind == DeviceKind::cpu && (kernel.kind == Kernel::Kind::gemm ||
                                                      kernel.kind == Kernel::Kind::batched_gemm);
  const double size = packs ? std::numeric_limits<double>::max() : kernel.bytes;
  const double traffic = kernel.kind == Kernel::Kind::memory ? traffic_factor : 1;
  const double memory =
      traffic * kernel.bytes / (gpu_.memory_bandwidth_bytes_per_s * gpu_.memory_bound.at(size));
  const Seconds latency{
      kernel.joins_neighbour ? 0 : gpu_.kernel_latency_s * gpu_.kernels.launches[level_]};
  double arithmetic = 0;
  const auto usual = [&](Precision precision) {
    return kernel.precision ? executed_precision(gpu_, *kernel.precision) : precision;
  };
  switch (kernel.kind) {
    case Kernel::Kind::memory:
      arithmetic = kernel.gelus * gelu_s_;
      break;
    case Kernel::Kind::gemm:
    case Kernel::Kind::batched_gemm: {
      const Precision precision = usual(kernel.quantized ? products_ : attention_);
      arithmetic = kernel.flops / (gpu_.peak(precision).value * product_share(kernel, precision));
      break;
    }
    case Kernel::Kind::attention: {
      arithmetic = kernel.flops / (gpu_.peak(usual(attention_)).value * attention_share(kernel));
      break;
    }
  }
  return Seconds{packs ? arithmetic + memory : std::max(arithmetic, memory)} + latency;
}

void CostModel::append(const OpCall& call, std::vector<Kernel>& kernels) const {
  const std::size_t before = kernels.size();
  if (pads_vocabulary_ && call.attributes.vocabulary > 0 && is_product(call.op)) {
    Attributes whole = call.attributes;
    whole.vocabulary = 0;
    append_kernels({call.op, whole, call.inputs, call.outputs}, training_.compiler, kernels);
  } else {
    append_kernels(call, training_.compiler, kernels);
  }
  if (!training_.deterministic || gpu_.kind == DeviceKind::cpu) return;
  // There is no new memory if no kernel runs or if the operation adds to its output in place.
  if (kernels.size() == before || call.attributes.adds) return;
  // With deterministic algorithms PyTorch fills all memory that torch.empty returns
  // (torch.utils.deterministic.fill_uninitialized_memory).
  double filled = 0;
  for (const TensorType& type : call.outputs) filled += static_cast<double>(type.bytes());
  kernels.push_back({.bytes = filled});
}

void CostModel::append(const Instruction& instruction, const Program& program,
                       std::vector<Kernel>& kernels) const {
  kernels.clear();
  if (!concerns(program, instruction, program.fullest)) return;
  if (instruction.kind == InstructionKind::optimizer_step) {
    append_step_kernels(program, instruction, kernels);
  } else if (instruction.kind == InstructionKind::compute) {
    Types inputs, outputs;
    copy_types(instruction.inputs, inputs);
    copy_types(instruction.outputs, outputs);
    const OpCall call{instruction.op, instruction.attributes, inputs, outputs};
    append(call, kernels);
    const double converted = gpu_.kind == DeviceKind::cpu ? conversion_bytes(call) : 0;
    if (converted > 0) kernels.push_back({Kernel::Kind::memory, 0, 0, 0, 1, 0, converted});
  }
}

Seconds CostModel::device_time(const std::vector<Kernel>& kernels, double traffic_factor) const {
  Seconds device;
  for (const Kernel& kernel : kernels) device += time(kernel, traffic_factor);
  return device;
}

Seconds CostModel::launch_time(const std::vector<Kernel>& kernels) const {
  const double operations = gpu_.kernels.launches[level_];
  return host_launch_ * (operations * static_cast<double>(launched(kernels)));
}

bool CostModel::host_launches() const {
  return gpu_.kind == DeviceKind::gpu && host_launch_.value > 0 &&
         gpu_.kernels.launches[level_] > 0;
}

Seconds CostModel::time(const Instruction& instruction, const Program& program) const {
  if (is_copy(instruction))
    return Seconds{static_cast<double>(instruction.inputs[0].type.bytes()) /
                   host_copy_bytes_per_s_} +
           Seconds{gpu_.kernel_latency_s};
  std::vector<Kernel> kernels;
  append(instruction, program, kernels);
  const Seconds device = device_time(kernels, traffic_factor(instruction));
  if (gpu_.kind == DeviceKind::cpu) return std::max(device, launch_time(kernels));
  return device + launch_time(kernels) * gpu_.kernels.exposed_launch;
}

Seconds CostModel::launch_time(const Instruction& instruction, const Program& program) const {
  if (gpu_.kind == DeviceKind::cpu) return {0};
  std::vector<Kernel> kernels;
  append(instruction, program, kernels);
  return launch_time(kernels);
}

int CostModel::launches(const Instruction& instruction, const Program& program) const {
  std::vector<Kernel> kernels;
  append(instruction, program, kernels);
  return static_cast<int>(launched(kernels));
}

std::array<Seconds, 4> CostModel::times_by_kind(const Instruction& instruction,
                                                const Program& program) const {
  std::vector<Kernel> kernels;
  append(instruction, program, kernels);
  std::array<Seconds, 4> times;
  for (const Kernel& kernel : kernels)
    times[static_cast<std::size_t>(kernel.kind)] += time(kernel, traffic_factor(instruction));
  return times;
}

KernelWork& KernelWork::operator+=(const KernelWork& other) {
  kernels += other.kernels;
  bytes += other.bytes;
  time_s += other.time_s;
  return *this;
}

KernelWork CostModel::work(const std::vector<Kernel>& kernels, double traffic_factor) const {
  KernelWork sum{launched(kernels), 0,
                 std::max(device_time(kernels, traffic_factor), launch_time(kernels)).value};
  for (const Kernel& kernel : kernels) sum.bytes += kernel.bytes;
  return sum;
}

KernelWork CostModel::work(const Instruction& instruction, const Program& program) const {
  std::vector<Kernel> kernels;
  append(instruction, program, kernels);
  return work(kernels, traffic_factor(instruction));
}

KernelWork CostModel::work(const Graph& graph) const {
  KernelWork sum;
  Types inputs, outputs;
  std::vector<Kernel> kernels;
  for (const Node& node : graph.nodes) {
    copy_types(graph, node.inputs, inputs);
    copy_types(graph, node.outputs, outputs);
    kernels.clear();
    append({node.op, node.attributes, inputs, outputs}, kernels);
    sum += work(kernels, traffic_factor(node.op));
  }
  return sum;
}

std::vector<double> CostModel::unit_costs(const Graph& graph) const {
  std::vector<double> costs(graph.units.size(), 0);
  bool only_forward = true;
  Types inputs, outputs;
  std::vector<Kernel> kernels;
  for (const Node& node : graph.nodes) {
    only_forward = only_forward && node.phase == Phase::forward;
    if (is_of_step(graph, node)) continue;
    copy_types(graph, node.inputs, inputs);
    copy_types(graph, node.outputs, outputs);
    kernels.clear();
    append({node.op, node.attributes, inputs, outputs}, kernels);
    costs[graph.unit_of(node)] +=
        std::max(device_time(kernels, traffic_factor(node.op)), launch_time(kernels)).value;
  }
  if (only_forward)
    for (double& cost : costs) cost *= 3;
  return costs;
}

std::vector<double> CostModel::unit_memory(const Graph& graph) const {
  std::vector<double> bytes(graph.units.size(), 0);
  const double states =
      static_cast<double>(bytes_of(training_.gradient_reduce)) + training_.optimizer_bytes();
  std::vector<bool> counted(graph.tensors.size(), false);
  bool only_forward = true;
  for (const Node& node : graph.nodes) only_forward = only_forward && node.phase == Phase::forward;
  for (const Node& node : graph.nodes)
    for (int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (counted[id]) continue;
      const double size = static_cast<double>(tensor.type.bytes());
      if (is_weight(tensor)) {
        const double elements = static_cast<double>(tensor.type.shape.elements());
        const bool trains = graph.parameters[tensor.parameter].trainable;
        bytes[graph.unit_of(node)] += size + (trains ? states * elements : 0);
        counted[id] = true;
      } else if (tensor.role == Role::of_step) {
        bytes[graph.unit_of(node)] += size;
        counted[id] = true;
      } else if (tensor.role == Role::activation && tensor.producer >= 0) {
        const Node& maker = graph.nodes[tensor.producer];
        const bool kept = maker.phase == Phase::forward && node.phase != Phase::forward;
        if (!kept && !only_forward) continue;
        bytes[graph.unit_of(maker)] += size;
        counted[id] = true;
      }
    }
  return bytes;
}

}  // namespace meshwright::sim
