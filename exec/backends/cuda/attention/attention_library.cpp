#include "exec/backends/cuda/attention/attention_library.h"

#include <fmt/format.h>

#include <vector>

#include "exec/backends/cuda/device/resources.h"
#include "exec/backends/cuda/device/stopwatch.h"
#include "models/program/graph/gpu_scratch.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec::cuda {

namespace {

// Operands for timing kernels, in memory that nothing else uses.
class TrialOperands {
 public:
  // Allocates the operands. Returns false if the device has no memory for them.
  bool take(const OpCall& call, std::int64_t workspace_bytes) {
    bool all = true;
    const auto of = [&](std::int64_t bytes) {
      void* memory = nullptr;
      if (!all || cudaMalloc(&memory, bytes + 1) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        all = false;
        return memory;
      }
      memory_.emplace_back(memory);
      // This pattern of bytes is a number of moderate size in every type.
      constexpr int pattern = 0x3c;
      fill_device(memory, pattern, bytes + 1);
      return memory;
    };
    for (const TensorType& type : call.inputs) inputs_.push_back(of(type.bytes()));
    for (const TensorType& type : call.outputs) outputs_.push_back(of(type.bytes()));
    context_.workspace = of(workspace_bytes);
    return all;
  }
  OpOperands operands() const { return {inputs_, outputs_}; }
  const OpContext& context() const { return context_; }

 private:
  std::vector<DeviceMemory> memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  OpContext context_;
};

struct NoMemory {};

}  // namespace

std::string text_of_attention(const OpCall& call) {
  const Attributes& a = call.attributes;
  constexpr const char* packings[] = {"separate", "concatenated", "per head"};
  constexpr const char* types[] = {"f64", "f32", "f16", "bf16"};
  return fmt::format("{} {}x{}, {} heads of {} on {}, {}{}, times {}, {}", info(call.op).name,
                     a.micro_batch, a.sequence_length, a.heads, a.head_dim, a.kv_heads,
                     packings[static_cast<std::size_t>(a.packing)], a.causal ? ", causal" : "",
                     score_scale(a), types[static_cast<std::size_t>(call.inputs[0].dtype)]);
}

AttentionChoice::AttentionChoice(std::unique_ptr<AttentionLibrary> library, By by,
                                 std::string device, KernelCache& cache)
    : library_(std::move(library)), by_(by), device_(std::move(device)), cache_(cache) {}

bool AttentionChoice::is_faster(const OpCall& call, const Device& device, Kernel own,
                                std::int64_t planned) {
  const auto faster = [&] {
    TrialOperands trial;
    if (!trial.take(call, planned)) throw NoMemory{};
    const Stopwatch stopwatch;
    constexpr int times = 5, rounds = 2;  // the device's clock may rise during the first round
    float least[2] = {};
    for (int i = 0; i < 2 * rounds; ++i) {
      const float passed = stopwatch.milliseconds(times, [&](cudaStream_t stream) {
        const KernelCall k{call, trial.operands(), trial.context(), device, {nullptr, 0}, stream};
        i % 2 == 0 ? own(k) : library_->run(k);
      });
      float& of = least[i % 2];
      if (i < 2 || passed < of) of = passed;
    }
    ++timed_;
    return std::string(least[1] < least[0] ? "library" : "own");
  };
  try {
    return cache_.get({text_of_attention(call), device_, library_->version()}, faster) == "library";
  } catch (const NoMemory&) {
    return false;
  }
}

void AttentionChoice::prepare(const OpCall& call, const Device& device, Kernel own,
                              std::int64_t planned) {
  if (!may_be_cudnns(call)) return;
  const auto [found, is_new] = takes_library_.try_emplace(text_of_attention(call), false);
  if (!is_new) return;
  const std::optional<std::int64_t> bytes = library_->workspace_bytes(call);
  found->second =
      bytes && *bytes <= planned && (by_ == By::always || is_faster(call, device, own, planned));
}

bool AttentionChoice::run(const KernelCall& k) const {
  if (!may_be_cudnns(k.call)) return false;
  const auto found = takes_library_.find(text_of_attention(k.call));
  if (found == takes_library_.end() || !found->second) return false;
  library_->run(k);
  return true;
}

}  // namespace meshwright::exec::cuda
