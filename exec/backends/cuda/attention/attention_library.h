// Attention by a library's kernels beside ours. Which are faster is measured before the first step,
// for each shape, and kept on disk as the choices of products are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// What a library has for Op::attention and Op::attention_grad. One for each device, used by one
// thread.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual std::string version() const = 0;  // "cuDNN 9.19.0"
  // Bytes of scratch memory; none: the library has no kernel for the call. A call's first time
  // takes long, and is before the first step.
  virtual std::optional<std::int64_t> workspace_bytes(const OpCall& call) = 0;
  // Issues the operation. Of a call with workspace_bytes.
  virtual void run(const KernelCall& k) = 0;
};

class AttentionChoice {
 public:
  // How a call that the library has a kernel for is decided.
  enum class By : std::uint8_t { time, always };

  // `device`: its name, under which choices are kept in `cache`.
  AttentionChoice(std::unique_ptr<AttentionLibrary> library, By by, std::string device,
                  KernelCache& cache);

  // Decides for calls of this shape, where the job lets cuDNN compute them (may_be_cudnns) and the
  // library gets along with `planned` bytes of scratch memory. `own`: our kernel, which does. Where
  // there is no memory to measure in, ours is chosen.
  void prepare(const OpCall& call, const Device& device, Kernel own, std::int64_t planned);
  // By the library's kernel, where `prepare` chose that; false: nothing was done.
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

// All that a choice depends on: "attention 4x4096, 32 heads of 64 on 4, concatenated, causal,
// times 0.125, bf16".
std::string text_of_attention(const OpCall& call);

}  // namespace meshwright::cuda
