// The narrow interface between the runtime and a device: memory, and one operation at a time.
// The operands of every operation are in the comments of models/graph/op.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/graph/op.h"

namespace meshwright {

// Addresses in the backend's memory, in the order of the operation's types. Outputs marked (+) in
// op.h are added to; every other output is written whole, whatever it held before. The gradient of
// a loss may be given the logits' address.
struct OpOperands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
};

// Where in its tensor and context groups the calling rank stands, and scratch memory where the
// operation asked for some.
struct OpContext {
  int tensor_rank = 0;
  int tensor_size = 1;
  void* workspace = nullptr;
  int context_rank = 0;
  std::int64_t first_sequence = 0;  // of the micro-batch: its position since the run's first step
  // Inside a fused operation: the operands are rows [first_row, ..) of `whole_rows`.
  std::int64_t first_row = 0, whole_rows = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  // Whether the operation is a kernel of this backend with activations of this type. Collectives
  // (tensor_reduce, sequence_gather, ...) are not: the runtime gives them to a communicator.
  virtual bool supports(Op op, Dtype dtype) const = 0;
  virtual std::int64_t workspace_bytes(const OpCall& call) const = 0;
  // May return before the work is done; later calls see its results.
  virtual void run(const OpCall& call, const OpOperands& operands, const OpContext& context) = 0;
  // Returns when everything issued above is complete.
  virtual void wait() = 0;

  // At least 64-byte aligned; never null. The memory is not cleared.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  // Between any two of host memory and this backend's memory, in order with `run`.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
};

}  // namespace meshwright
