// The interface of the CPU backend's kernels: mostly one template per operation, for float and
// double, in a row of its file's table (tables.h). models/program/graph/op.h says what each one
// computes.
#pragma once

#include "exec/backends/backend.h"
#include "exec/core/thread_pool.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cpu {

// The arguments of a kernel: the operation, its operands' addresses, the calling rank's position
// and the threads to use.
struct KernelCall {
  const OpCall& call;
  const OpOperands& operands;
  const OpContext& context;
  ThreadPool& pool;

  const Attributes& attributes() const { return call.attributes; }
  // Return the first row of the first operand's tensor that this call computes, and the number of
  // rows of the whole tensor. They differ from 0 and in_shape(0)[0] only inside a fused operation.
  std::int64_t first_row() const { return context.first_row; }
  std::int64_t whole_rows() const {
    return context.whole_rows > 0 ? context.whole_rows : in_shape(0)[0];
  }
  const Shape& in_shape(std::size_t i) const { return call.inputs[i].shape; }
  const Shape& out_shape(std::size_t i) const { return call.outputs[i].shape; }
  template <typename T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(operands.inputs[i]);
  }
  // Returns where each token's document begins (models/program/graph/documents.h), or null if the
  // operation has no documents.
  const std::int32_t* documents() const {
    return attributes().documents ? in<std::int32_t>(call.inputs.size() - 1) : nullptr;
  }
  template <typename T>
  T* out(std::size_t i) const {
    return static_cast<T*>(operands.outputs[i]);
  }
};

using Kernel = void (*)(const KernelCall&);

// Matrix rows are handed out in pieces of about this many elements: long enough to hide the cost
// of a piece, short enough to stay in a first-level cache.
constexpr std::int64_t elements_per_piece = 16384;

constexpr std::int64_t rows_per_piece(std::int64_t width) {
  return std::max<std::int64_t>(1, elements_per_piece / std::max<std::int64_t>(1, width));
}

}  // namespace meshwright::exec::cpu
