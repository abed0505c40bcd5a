#include "tests/exec/launch_model.h"

#include <algorithm>
#include <map>

#include "exec/backends/cuda/cuda_backend.h"
#include "exec/backends/cuda/fused/epilogue.h"
#include "exec/optimizer/bucket_state.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/widen.h"
#include "tests/test_folder.h"

namespace meshwright::tests {

namespace {

using emulated::Asked;

// Returns the FLOP/s of fused causal attention in bf16 on an H200: the faster of cuDNN's kernel and
// this project's.
double attention_flop_per_s(const Attributes& a, bool backward) {
  const bool is_long = a.sequence_length > 1024;
  if (backward) return is_long ? 376e12 : 232e12;
  return is_long ? 437e12 : 312e12;
}

bool is_attention(Op op) { return op == Op::attention || op == Op::attention_grad; }

// Returns the bytes that the steps of a fusion read and write, except for matmuls. Sums are read
// too, unless they are overwritten.
double bytes_of_steps(const Fusion& fusion, std::uint32_t overwrites) {
  const bool in_memory = fusion.loop == Fusion::Loop::long_blocks;
  std::map<int, double> bytes;  // each operand once, except between steps
  double between = 0;
  const auto touch = [&](int id) {
    const TensorType& type = fusion.operands[id];
    const auto size = static_cast<double>(type.bytes());
    if (fusion.is_internal(id)) {
      if (in_memory) between += size;
      return;
    }
    const bool reads = fusion.is_sum(id) && (overwrites >> (id - fusion.inputs) & 1U) == 0;
    bytes[id] = reads ? 2 * size : size;
  };
  for (const FusedStep& step : fusion.steps) {
    if (is_product(step.op)) continue;  // counted by itself
    for (int id : step.inputs) touch(id);
    for (int id : step.outputs) touch(id);
  }
  double sum = between;
  for (const auto& [id, size] : bytes) sum += size;
  return sum;
}

// Returns the bytes that the operation's kernels move, except for matmuls.
double kernel_bytes(const OpCall& call, double scratch) {
  if (call.op == Op::fused) {
    const Fusion& fusion = *call.attributes.fusion;
    if (fusion.loop != Fusion::Loop::product_first)
      return bytes_of_steps(fusion, call.overwrites) + scratch;
    const cuda::Lead lead = cuda::leads_of(fusion).front();
    Fusion rest = cuda::without_led(fusion, lead);
    rest.steps.erase(rest.steps.begin());
    return bytes_of_steps(rest, call.overwrites) + scratch;
  }
  std::vector<Kernel> kernels;
  append_kernels(call, CompilerLevel::full, kernels);
  double bytes = scratch;
  for (const Kernel& kernel : kernels)
    if (kernel.kind == Kernel::Kind::memory) bytes += kernel.bytes;
  return bytes;
}

class Player {
 public:
  Player(const Program& program, const DeviceModel& device)
      : program_(program),
        device_(device),
        hardware_({.multiprocessors = static_cast<int>(device.multiprocessors)}),
        backend_(make_cuda_backend({.deterministic = true, .folder = folder_.path()})) {
    backend_->begin_step(0);
    backend_->wait();
  }

  std::vector<KernelRow> play() {
    emulated::Listing listing;
    updater_ = backend_->make_updater(program_.settings->training);
    for (const Task& task : program_.tasks)
      for (const Instruction& instruction : program_.bodies[task.body].instructions)
        if (runs(instruction, task)) play(listing, instruction, task);
    std::vector<KernelRow> rows;
    for (auto& [name, row] : rows_) rows.push_back(std::move(row));
    std::ranges::sort(rows, std::ranges::greater(), &KernelRow::modelled_s);
    return rows;
  }

 private:
  // Returns an address that is never accessed. Addresses are further apart than any buffer is long.
  static void* address(const Operand& operand) {
    constexpr std::int64_t apart = std::int64_t{1} << 36;
    return reinterpret_cast<void*>((operand.buffer + 1) * apart + operand.offset);
  }

  void play(emulated::Listing& listing, const Instruction& instruction, const Task& task) {
    listing.asked.clear();
    if (instruction.kind == InstructionKind::optimizer_step) return step(listing, instruction);
    if (instruction.kind != InstructionKind::compute) return;
    std::vector<TensorType> input_types, output_types;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const Operand& each : instruction.inputs) {
      input_types.push_back(each.type);
      inputs.push_back(address(each));
    }
    for (const Operand& each : instruction.outputs) {
      output_types.push_back(each.type);
      outputs.push_back(address(each));
    }
    const OpCall call{instruction.op, instruction.attributes, input_types, output_types,
                      overwrites_in(instruction, task)};
    const auto scratch = static_cast<double>(backend_->workspace_bytes(call));
    OpContext context;
    context.workspace = address({static_cast<int>(program_.memory.buffers.size()), 0, {}, {}});
    listing.asked.clear();
    backend_->run(call, {inputs, outputs}, context);
    note(call, scratch, listing.asked);
  }

  void step(emulated::Listing& listing, const Instruction& instruction) {
    const Bucket& bucket = program_.buckets[instruction.bucket];
    std::vector<OptimizerSegment> segments;
    for (int index : bucket.parameters) {
      const StageParameter& each = program_.parameters[index];
      segments.push_back({each.offset, each.parameter.shape.elements(), each.parameter.decay});
    }
    updater_->step(instruction.bucket, segments, state_of(bucket, address));
    const StepSettings& training = program_.settings->training;
    std::vector<Kernel> kernels;
    append_optimizer_kernels(
        {bucket.shard_elements, bucket.second_moment.buffer >= 0 ? 2 : 1, bucket.weights.type.dtype,
         bucket.gradients.type.dtype, training.master_type(), training.moments, false},
        CompilerLevel::full, kernels);
    double bytes = 0;
    for (const Kernel& kernel : kernels) bytes += kernel.bytes;
    for (const Asked& asked : listing.asked)
      if (asked.kind == Asked::Kind::kernel) add_kernel("optimizer_step", asked, bytes);
  }

  void note(const OpCall& call, double scratch, const std::vector<Asked>& asked) {
    const std::string name =
        call.op == Op::fused ? name_of(*call.attributes.fusion) : std::string(info(call.op).name);
    if (is_attention(call.op)) return add_attention(name, call, asked);
    std::vector<const Asked*> kernels;
    for (const Asked& each : asked) {
      if (each.kind == Asked::Kind::product) add_product(call, each);
      if (each.kind == Asked::Kind::memory) add_memory(name, static_cast<double>(each.bytes));
      if (each.kind == Asked::Kind::kernel) kernels.push_back(&each);
    }
    if (kernels.empty()) return;
    // The first kernel reads and writes the operands, and the scratch memory that the others read.
    // The kernels of several blocks of rows share all of this equally.
    const bool by_blocks =
        call.op == Op::fused && call.attributes.fusion->loop == Fusion::Loop::long_blocks;
    const double bytes = kernel_bytes(call, scratch), others = scratch;
    const auto count = static_cast<double>(kernels.size());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const bool first = i == 0 || by_blocks;
      add_kernel(first ? name : name + ": sums", *kernels[i],
                 by_blocks ? bytes / count
                 : first   ? bytes
                           : others / (count - 1));
    }
  }

  KernelRow& row(const std::string& name) {
    KernelRow& found = rows_[name];
    found.name = name;
    ++found.launches;
    return found;
  }

  void add(const std::string& name, double bytes, double flops, double modelled_s,
           const Waves& waves) {
    KernelRow& to = row(name);
    to.bytes += bytes, to.flops += flops;
    to.ideal_s += std::max(bytes / device_.bytes_per_s, flops / device_.flop_per_s);
    to.modelled_s += modelled_s + device_.kernel_s;
    if (waves.blocks > to.waves.blocks) to.waves = waves;
  }

  void add_kernel(const std::string& name, const Asked& asked, double bytes) {
    add(name, bytes, 0, memory_seconds(device_, asked, bytes), waves_of(device_, asked));
  }
  void add_memory(const std::string& name, double bytes) {
    add(name, bytes, 0, bytes / (device_.bytes_per_s * device_.memory_share), {});
  }

  void add_product(const OpCall& call, const Asked& asked) {
    const auto m = static_cast<double>(asked.m), n = static_cast<double>(asked.n),
               k = static_cast<double>(asked.k), batch = static_cast<double>(asked.batch);
    const double flops = 2 * batch * m * n * k;
    const bool sums = call.outputs[0].dtype == Dtype::f32 || call.op == Op::linear_grad_weight;
    const double bytes = batch * (2 * (m * k + k * n) + (sums ? 4 : 2) * m * n);
    const double seconds = std::max(flops / device_.product_flop_per_s,
                                    bytes / (device_.bytes_per_s * device_.memory_share));
    add("products", bytes, flops, seconds, {});
  }

  void add_attention(const std::string& name, const OpCall& call, const std::vector<Asked>& asked) {
    std::vector<Kernel> kernels;
    append_kernels(call, CompilerLevel::full, kernels);
    double flops = 0, bytes = 0;
    for (const Kernel& kernel : kernels) flops += kernel.flops, bytes += kernel.bytes;
    Waves most;
    for (const Asked& each : asked)
      if (each.kind == Asked::Kind::kernel && waves_of(device_, each).blocks > most.blocks)
        most = waves_of(device_, each);
    const bool backward = call.op == Op::attention_grad;
    add(name, bytes, flops, flops / attention_flop_per_s(call.attributes, backward), most);
  }

  const Program& program_;
  const DeviceModel& device_;
  TestFolder folder_;
  emulated::OtherHardware hardware_;
  std::unique_ptr<CudaBackend> backend_;
  std::unique_ptr<Updater> updater_;
  std::map<std::string, KernelRow> rows_;
};

}  // namespace

Waves waves_of(const DeviceModel& device, const Asked& kernel) {
  const auto size = [](const emulated::Extent& extent) {
    return std::int64_t{extent.x} * extent.y * extent.z;
  };
  constexpr std::int64_t of_the_system = 1 << 10;  // shared memory of every block
  const std::int64_t resident =
      std::min({device.blocks, device.threads / size(kernel.threads),
                device.shared_bytes / (kernel.shared_bytes + of_the_system)});
  Waves waves{size(kernel.blocks), device.multiprocessors * resident, 0};
  waves.waves = static_cast<double>(waves.blocks) / static_cast<double>(waves.at_once);
  return waves;
}

double memory_seconds(const DeviceModel& device, const Asked& kernel, double bytes) {
  const Waves waves = waves_of(device, kernel);
  const auto threads = static_cast<double>(kernel.threads.x * kernel.threads.y * kernel.threads.z);
  const auto busy = [&](std::int64_t blocks) {
    return std::min(1.0,
                    static_cast<double>(blocks) * threads /
                        static_cast<double>(device.multiprocessors * device.saturating_threads));
  };
  const auto share = [&](std::int64_t blocks) {
    return static_cast<double>(blocks) / static_cast<double>(waves.blocks);
  };
  const std::int64_t last = waves.blocks % waves.at_once, before = waves.blocks - last;
  double time = 0;
  if (before > 0) time += share(before) / busy(waves.at_once);
  if (last > 0) time += share(last) / busy(last);
  return time * bytes / (device.bytes_per_s * device.memory_share);
}

std::vector<KernelRow> model_launches(const Program& program, const DeviceModel& device) {
  return Player(program, device).play();
}

}  // namespace meshwright::tests
