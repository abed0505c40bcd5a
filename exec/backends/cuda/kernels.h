// The interface of the CUDA backend's kernels. models/program/graph/op.h says what each operation
// computes. Kernels compute in fp32 whatever the storage type (f32, f16, bf16) and add in an order
// that depends only on the shapes, without floating-point atomics. So the same inputs give the same
// bits, except in cuDNN's attention (cudnn_attention.h).
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
  std::int64_t shared_bytes = 48 << 10;  // that a block may have
  Products* products = nullptr;
  Fusions* fusions = nullptr;
  AttentionChoice* attention = nullptr;  // null: no library's kernels
};

// The number of the micro-batch's first sequence, counted from the run's first step: *of_step +
// offset. *of_step is the step's position, in device memory, so that a captured graph can be
// replayed for other steps.
struct FirstSequence {
  const long long* of_step;
  long long offset;
};

// The arguments of a kernel. Operands are aligned to 16 bytes.
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

// Issues the operation on the stream, and returns before it is done.
using Kernel = void (*)(const KernelCall&);

// A row of a table of operations. Every file of kernels has such a table, and row_of() in tables.h
// searches them all.
struct Row {
  Op op;
  Kernel run;
  // Returns the bytes of scratch memory, and lets the device's libraries get ready for the
  // operation. Null if no library has a say: then gpu_scratch_bytes() are needed.
  std::int64_t (*prepare)(const OpCall&, const Device&) = nullptr;
};

}  // namespace meshwright::exec::cuda
