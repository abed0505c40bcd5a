// The interface of the CUDA backend's kernels. models/program/graph/op.h says what each operation
// computes. Tensors are mostly f32, f16 or bf16. Sums are in fp32 or wider, and no sum of
// floating-point numbers uses atomics, whose order would depend on timing. So these kernels give
// the same bits for the same inputs on the same GPU. Kernels of libraries may not: matmul
// algorithms may be chosen by timing (products.h), and cuDNN's attention adds gradients in an order
// that changes (cudnn_attention.h).
#pragma once

#include <cuda_runtime.h>

#include "exec/backends/backend.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec::cuda {

class Products;         // products.h
class Fusions;          // fused.h
class AttentionChoice;  // attention_library.h

struct Device {
  int multiprocessors = 1;
  int major = 8, minor = 0;              // compute capability
  std::int64_t shared_bytes = 48 << 10;  // most shared memory of a block
  Products* products = nullptr;
  Fusions* fusions = nullptr;
  AttentionChoice* attention = nullptr;  // null: no library computes attention
};

// The number of sequences of the run that come before the micro-batch's first one: *of_step +
// offset. *of_step counts those before the step (OpContext::step_position). It is in device memory,
// so that a captured graph can be replayed for other steps.
struct FirstSequence {
  const long long* of_step;
  long long offset;
};

// The arguments of a kernel. Whole tensors are aligned to 16 bytes.
struct KernelCall {
  const OpCall& call;
  const OpOperands& operands;
  const OpContext& context;
  const Device& device;
  FirstSequence first_sequence;
  cudaStream_t stream;

  const Attributes& attributes() const { return call.attributes; }
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
  template <typename T>
  T* workspace() const {
    return static_cast<T*>(context.workspace);
  }
};

// A function that issues an operation on the call's stream. The device may complete the operation
// after the function has returned.
using Kernel = void (*)(const KernelCall&);

// A row of a table of operations. Files of kernels define such tables, and row_of() in tables.h
// searches them all.
struct Row {
  Op op;
  Kernel run;
  // Returns the bytes of scratch memory that the operation needs, and prepares libraries for the
  // operation. If the pointer is null, there is nothing to prepare, and gpu_scratch_bytes() returns
  // the bytes.
  std::int64_t (*prepare)(const OpCall&, const Device&) = nullptr;
};

}  // namespace meshwright::exec::cuda
