// The kernels of the CUDA backend. What each operation computes is said in
// models/program/graph/op.h; here is what each one is given. They compute in fp32 whatever the
// storage type (f32, f16, bf16) and add in an order that depends on the shapes alone: no
// floating-point atomics, so the same inputs give the same bits.
#pragma once

#include <cuda_runtime.h>

#include "exec/backends/backend.h"
#include "models/program/graph/op_table.h"

namespace meshwright::cuda {

class Products;         // products.h
class Fusions;          // fused.h
class AttentionChoice;  // attention_library.h

struct Device {
  int multiprocessors = 1;
  int major = 8, minor = 0;              // compute capability
  std::int64_t shared_bytes = 48 << 10;  // that a block may ask for
  Products* products = nullptr;
  Fusions* fusions = nullptr;
  AttentionChoice* attention = nullptr;  // null: attention is ours
};

// The position of the micro-batch's first sequence, counted from the run's first step. The step's
// own position is in device memory, so that a captured graph can be replayed for other steps.
struct FirstSequence {
  const long long* of_step;
  long long offset;
};

// Everything a kernel is given. Operands are aligned to 16 bytes.
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

// A row of a table of operations: each .cu file has one, cuda_backend.cpp goes through them all.
struct Row {
  Op op;
  Kernel run;
  // Bytes of scratch memory where the device's libraries have a say, which get ready for the
  // operation; null: gpu_scratch_bytes().
  std::int64_t (*prepare)(const OpCall&, const Device&) = nullptr;
};

}  // namespace meshwright::cuda
