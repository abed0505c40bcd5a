// Kinds of kernels that can be told by a kernel's name alone, so that a profiler's trace of any
// training framework can be compared with a prediction. Which kernels are a recomputation, or
// which process group a collective is of, no name tells.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright {

enum class KernelKind : std::uint8_t {
  // on the device itself
  products,
  attention,
  normalization,
  softmax,  // and the loss
  elementwise,
  optimizer,
  other,  // reductions, embeddings, copies on the device, what no rule knows
  // between devices, or with the host
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,  // and reductions to one rank
  messages,   // from one rank to another
  host_copies,
  other_communication
};
constexpr std::size_t compute_kind_count = 7;
constexpr std::size_t communication_kind_count = 8;
constexpr bool is_communication(KernelKind kind) { return kind >= KernelKind::all_reduce; }
std::string_view name_of(KernelKind kind);  // "matrix products", "all-reduce"

// Of a kernel of the libraries of CUDA and ROCm, PyTorch, Triton and Apex, by parts of its name
// that are usual there. `collective`: PyTorch's name of the collective, where it knows one
// ("_allgather_base"); it tells an all-to-all from the sends and receives that NCCL makes of it.
KernelKind kind_of_kernel(std::string_view name, std::string_view collective = {});

// Of the instructions of a program as its kernels would be told, each found once. A recomputed
// product is a product.
class KernelKinds {
 public:
  explicit KernelKinds(const Program& program);
  KernelKind of(const TimelineEntry& entry);

 private:
  const Program& program_;
  std::vector<std::vector<std::int8_t>> known_;  // [body][instruction]; -1: not yet
};

}  // namespace meshwright
