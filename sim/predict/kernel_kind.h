// Classifies kernels into kinds that can be told by a kernel's name only, so that a profiler's
// trace of any training framework can be compared with a prediction. A name does not tell which
// kernels are a recomputation, or which process group a collective belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/predict/classified.h"

namespace meshwright::sim {

enum class KernelKind : std::uint8_t {
  // kernels that run on the device itself
  products,
  attention,
  normalization,
  softmax,  // and the loss
  elementwise,
  optimizer,
  other,  // reductions, embeddings, copies on the device, what no rule knows
  // communication between devices, or with the host
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

// Returns the kind of a kernel of the libraries of CUDA and ROCm, PyTorch, Triton and Apex, by
// parts of its name that are usual there. `collective` is the collective's name in PyTorch's trace
// ("_allgather_base"), or empty if the trace has none. It tells an all-to-all from the sends and
// receives that NCCL makes of it.
KernelKind kind_of_kernel(std::string_view name, std::string_view collective = {});

// Returns the kind of an instruction of a body, as the names of its kernels would tell it. A
// recomputed matmul is a matmul.
KernelKind kind_of_instruction(const Instruction& instruction, const Body& body,
                               const StepSettings& training);
using KernelKinds = Classified<KernelKind, kind_of_instruction>;

}  // namespace meshwright::sim
