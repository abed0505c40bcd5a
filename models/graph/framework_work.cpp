// The operations that only an eager framework has (models/passes/framework_operations.h).
#include "models/graph/work.h"
#include "models/graph/work_kernels.h"

namespace meshwright {

namespace {

// Bytes of the fp32 copy that an eager framework makes of a 16-bit tensor; else of the tensor.
double wide_bytes(const TensorType& type) {
  return 4.0 * static_cast<double>(type.shape.elements());
}

// The kernel that makes such a copy, or the 16-bit one of it.
void cast(Kernels& kernels, const TensorType& type) {
  if (element_size(type) < 4) memory_kernel(kernels, bytes(type) + wide_bytes(type));
}

}  // namespace

// A framework squares in one kernel and takes the mean in another.
void work_mean_of_squares(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const double x = wide_bytes(call.inputs[0]);
  cast(kernels, call.inputs[0]);
  memory_kernel(kernels, 2 * x);
  memory_kernel(kernels, x);
}

void work_mean_of_squares_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
}

void work_scale_rows(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
  cast(kernels, call.outputs[0]);
}

// The product of all elements, then the sums of its rows; or of its columns.
void work_row_dots(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const double x = wide_bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  memory_kernel(kernels, x);
}

void work_scale_columns_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  memory_kernel(kernels, x);
}

// A half is negated; the halves are concatenated.
void work_rotate_half(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, x);
  memory_kernel(kernels, 2 * x);
}

void work_scores(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  batched_gemm(kernels, q[0], {q[1], k[1], q[2]}, element_size(call.inputs[0]));
}

void work_weigh(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const Shape &w = call.inputs[0].shape, &x = call.inputs[1].shape;
  batched_gemm(kernels, w[0], {w[1], x[2], w[2]}, element_size(call.inputs[0]));
}

void work_log_softmax(const OpCall& call, CompilerLevel, Kernels& kernels) {
  cast(kernels, call.inputs[0]);
  memory_kernel(kernels, 2 * wide_bytes(call.inputs[0]));
}

void work_log_softmax_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 3 * wide_bytes(call.inputs[0]));
  cast(kernels, call.outputs[0]);
}

// Reads one element of each row.
void work_nll_loss(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 3 * bytes(call.outputs[0]));
}

}  // namespace meshwright
