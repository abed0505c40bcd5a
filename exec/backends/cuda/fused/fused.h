// Runs fused operations (models/program/graph/fusion.h). If a fusion begins with a matmul, cuBLASLt
// computes it, with the steps that fit into its epilogue. One kernel, which is generated and
// compiled for the fusion (fused_source.h), computes the steps that are left. If there can be no
// such kernel, these steps run one by one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "exec/backends/cuda/device/kernel_cache.h"
#include "exec/backends/cuda/fused/epilogue.h"
#include "exec/backends/cuda/fused/fused_source.h"
#include "exec/backends/cuda/fused/kernel_library.h"
#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

// Prepares and runs the fusions of one device. Only one thread may use it.
class Fusions {
 public:
  // `cache` holds compiled kernels and must live longer. `architecture` is a name like "sm_90".
  Fusions(KernelCache& cache, std::string architecture)
      : cache_(cache), architecture_(std::move(architecture)) {}

  // Returns the bytes of scratch memory that the fusion needs. Loads its kernel, after compiling it
  // if the cache does not have it, and chooses the algorithm of its matmul. So it must be called
  // before the fusion first runs, outside of a capture.
  std::int64_t prepare(const OpCall& call, const Device& device);
  void run(const KernelCall& call);

  std::int64_t kernels() const { return static_cast<std::int64_t>(loaded_.size()); }

 private:
  struct Loaded {
    std::unique_ptr<KernelLibrary> library;
    cudaKernel_t kernel = nullptr, sums = nullptr;
  };
  struct Generated {
    FusedKernel source;
    const Loaded* loaded = nullptr;
  };
  struct Prepared {
    std::shared_ptr<const Fusion> fusion;
    std::optional<Lead> lead;
    std::optional<Generated> generated;
    Fusion steps;  // steps after those of `lead`; run one by one without `generated`
    std::int64_t workspace = 0;
  };

  const Loaded& load(const FusedKernel& kernel);
  void prepare_lead(Prepared& prepared, const Device& device) const;
  void prepare_steps(Prepared& prepared, const OpCall& call, const Device& device);
  static void run_lead(const KernelCall& call, const Fusion& fusion, const Lead& lead);
  static void run_generated(const KernelCall& call, const Fusion& fusion,
                            const Generated& generated);

  KernelCache& cache_;
  std::string architecture_;
  std::map<std::string, Loaded> loaded_;                // by source, because layers share kernels
  using Key = std::pair<const Fusion*, std::uint32_t>;  // second: OpCall::overwrites
  std::map<Key, Prepared> prepared_;
};

}  // namespace meshwright::exec::cuda
