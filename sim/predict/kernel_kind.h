// Classifies kernels into kinds that are known from the name of a kernel, so that a profiler's
// trace of any training framework can be compared with a prediction. A name does not tell which
// kernels are a recomputation, or which process group a collective belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/predict/classified.h"

namespace meshwright::sim {

enum class KernelKind : std::uint8_t {
  // Kernels that run on one device only.
  products,
  attention,
  normalization,
  softmax,  // softmax and the loss
  elementwise,
  optimizer,
  other,  // reductions, embeddings, copies on the device, and names that no rule covers
  // Communication between devices, or with the host.
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,  // broadcasts, and reductions to one rank
  messages,   // messages from one rank to another, in a ring too
  host_copies,
  other_communication
};
constexpr std::size_t compute_kind_count = 7;
constexpr std::size_t communication_kind_count = 8;
constexpr bool is_communication(KernelKind kind) { return kind >= KernelKind::all_reduce; }
std::string_view name_of(KernelKind kind);  // such as "all-reduce"

// Returns the kind of a kernel of the libraries of CUDA and ROCm, PyTorch, Triton and Apex, by
// parts that are usual in its name. `collective` is the name of the collective in PyTorch's trace
// ("_allgather_base"), or empty if the trace has none. With it an all-to-all is known from other
// sends and receives, of which NCCL makes it.
KernelKind kind_of_kernel(std::string_view name, std::string_view collective = {});

// Returns the kind that the names of an instruction's kernels would tell. A recomputed matmul is a
// matmul.
KernelKind kind_of_instruction(const Instruction& instruction, const Body& body,
                               const StepSettings& training);
using KernelKinds = Classified<KernelKind, kind_of_instruction>;

}  // namespace meshwright::sim
