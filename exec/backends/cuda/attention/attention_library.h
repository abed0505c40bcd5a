// Uses a library's attention kernels in addition to ours. Which kernel is faster is measured before
// the first step, for each shape, and kept on disk like the choices of matmul algorithms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// A library's kernels for Op::attention and Op::attention_grad. Each device has an object, used by
// one thread.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual std::string version() const = 0;  // "cuDNN 9.19.0"
  // Returns the bytes of scratch memory, or nothing if the library has no kernel for the call. A
  // call's first time takes long, and is before the first step.
  virtual std::optional<std::int64_t> workspace_bytes(const OpCall& call) = 0;
  // Issues the operation. The call must be one for which workspace_bytes() returned a value.
  virtual void run(const KernelCall& k) = 0;
};

class AttentionChoice {
 public:
  // The way to choose the kernel for a call that the library supports.
  enum class By : std::uint8_t { time, always };

  // `device` is the device's name, under which choices are kept in `cache`.
  AttentionChoice(std::unique_ptr<AttentionLibrary> library, By by, std::string device,
                  KernelCache& cache);

  // Decides for calls of this shape, where the job lets cuDNN compute them (may_be_cudnns) and the
  // library gets along with `planned` bytes of scratch memory. `own`: our kernel, which does. Where
  // there is no memory to measure in, ours is chosen.
  void prepare(const OpCall& call, const Device& device, Kernel own, std::int64_t planned);
  // Runs the library's kernel if `prepare` chose it. Otherwise does nothing and returns false.
  bool run(const KernelCall& k) const;

  std::int64_t timed() const { return timed_; }  // shapes that were measured

 private:
  bool is_faster(const OpCall& call, const Device& device, Kernel own, std::int64_t planned);

  std::unique_ptr<AttentionLibrary> library_;
  By by_;
  std::string device_;
  KernelCache& cache_;
  std::map<std::string, bool> takes_library_;  // by text_of
  std::int64_t timed_ = 0;
};

// Returns all that a choice depends on: "attention 4x4096, 32 heads of 64 on 4, concatenated,
// causal, times 0.125, bf16".
std::string text_of_attention(const OpCall& call);

}  // namespace meshwright::cuda
