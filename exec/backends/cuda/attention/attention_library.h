// Lets a library's attention kernels replace this backend's own. The faster kernel for each shape
// that both can compute is found by timing before the first step, and kept on disk like the choices
// of matmul algorithms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// A library's kernels for Op::attention and Op::attention_grad. Each device has one object, which
// only one thread uses.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual std::string version() const = 0;  // such as "cuDNN 9.19.0"
  // Returns the bytes of scratch memory, or nothing if the library has no kernel for the call. The
  // first call for a shape takes long, so it must come before the first step.
  virtual std::optional<std::int64_t> workspace_bytes(const OpCall& call) = 0;
  // Issues the operation. The call must be one for which workspace_bytes() returned a value.
  virtual void run(const KernelCall& k) = 0;
};

class AttentionChoice {
 public:
  // `time` takes the library's kernel for a call if it is faster than this backend's own. `always`
  // takes it whenever the library has one.
  enum class By : std::uint8_t { time, always };

  // `device` is the device's name, under which choices are kept in `cache`.
  AttentionChoice(std::unique_ptr<AttentionLibrary> library, By by, std::string device,
                  KernelCache& cache);

  // Chooses the kernel for calls of this shape, once. The library's kernel can be chosen only if
  // the job lets cuDNN compute the call (may_be_cudnns()) and `planned` bytes of scratch memory
  // suffice for it. `own` is this backend's kernel, for which these bytes suffice. If there is no
  // memory in which to measure, `own` is chosen.
  void prepare(const OpCall& call, const Device& device, Kernel own, std::int64_t planned);
  // Runs the library's kernel if prepare() chose it for the call's shape. Otherwise does nothing
  // and returns false.
  bool run(const KernelCall& k) const;

  std::int64_t timed() const { return timed_; }  // shapes that were measured

 private:
  bool is_faster(const OpCall& call, const Device& device, Kernel own, std::int64_t planned);

  std::unique_ptr<AttentionLibrary> library_;
  By by_;
  std::string device_;
  KernelCache& cache_;
  std::map<std::string, bool> takes_library_;  // by text_of_attention
  std::int64_t timed_ = 0;
};

// Returns a text of the call's properties on which a choice depends, such as "attention 4x4096, 32
// heads of 64 on 4, concatenated, causal, times 0.125, bf16".
std::string text_of_attention(const OpCall& call);

}  // namespace meshwright::exec::cuda
