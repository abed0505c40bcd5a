// Lists the operations that make tensors of 8 or 4 bits, with their scales, transpose them, and
// widen weights that are stored in 4 bits.
#include <algorithm>

#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"
#include "models/program/graph/quantized.h"

namespace meshwright::program {

namespace {

void infer_amax(const Attributes& a, In, Out& out) {
  out.push_back(column(1, Dtype::f32));
  if (a.hadamard_key != 0) out.push_back(column(1, Dtype::f32));
}

TensorType scales_of(const Attributes& a, const Shape& matrix) {
  const std::int64_t rows = rows_of_scales(matrix), columns = matrix[-1];
  const std::int64_t height = a.scale_rows > 0 ? a.scale_rows : rows;
  const std::int64_t width = a.scale_columns > 0 ? a.scale_columns : columns;
  require(rows % height == 0 && columns % width == 0, "blocks with one scale are whole");
  return {Shape{rows / height, columns / width}, a.made == Dtype::e2m1 ? Dtype::e4m3 : Dtype::f32};
}

void infer_quantize(const Attributes& a, In in, Out& out) {
  require(is_quantized(a.made), "what is quantized has 8 or 4 bits");
  out.push_back({in[0].shape, a.made});
  out.push_back(scales_of(a, in[0].shape));
  if (!a.with_transposed) return;
  require(rows_of_scales(in[0].shape) % matrices_of(a, in[0].shape).count == 0,
          "whole matrices are transposed");
  const Shape turned = transposed(a, in[0].shape);
  out.push_back({turned, a.made});
  out.push_back(scales_of(a, turned));
}

void infer_transpose(const Attributes& a, In in, Out& out) {
  require(rows_of_scales(in[0].shape) % matrices_of(a, in[0].shape).count == 0,
          "whole matrices are transposed");
  out.push_back({transposed(a, in[0].shape), in[0].dtype});
}

void work_amax(const OpCall& call, CompilerLevel, KernelList& kernels) {
  if (!call.attributes.joins_maker) memory_kernel(kernels, bytes(call.inputs[0]));
}

// Appends the kernel that quantizes. With joins_maker there is none: the kernel that makes the
// input writes the quantized bits instead, so only additional bytes count.
void work_quantize(const OpCall& call, CompilerLevel, KernelList& kernels) {
  const double read = bytes(call.inputs[0]), written = bytes_of_all(call.outputs);
  if (call.attributes.joins_maker)
    joining_traffic(kernels, std::max(0.0, written - read));
  else
    memory_kernel(kernels, read + written);
}

void infer_widen_weights(const Attributes& a, In in, Out& out) {
  require(is_in_blocks(in[0].dtype), "widened weights are stored in blocks");
  out.push_back({in[0].shape, a.storage});
}

// Appends the kernel that widens. In an eager framework, bitsandbytes first widens scales that are
// quantized themselves, and then adds their mean.
void work_widen_weights(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const double read = bytes(call.inputs[0]), written = bytes(call.outputs[0]);
  if (level == CompilerLevel::none && call.inputs[0].dtype == Dtype::nf4_double) {
    const double scales = static_cast<double>(call.inputs[0].shape.elements()) /
                          static_cast<double>(dtype_block(Dtype::nf4).elements);
    const double wide = scales * static_cast<double>(bytes_of(Dtype::f32));
    memory_kernel(kernels, scales + wide);
    memory_kernel(kernels, 2 * wide);
  }
  memory_kernel(kernels, read + written);
}

constexpr OpInfo rows[] = {
    {.op = Op::amax,
     .name = "amax",
     .makes = {1, 2},
     .infer = infer_amax,
     .work = work_amax,
     .traffic = Traffic::quantized},
    {.op = Op::quantize,
     .name = "quantize",
     .takes = {1, 3},
     .makes = {2, 5},
     .infer = infer_quantize,
     .work = work_quantize,
     .traffic = Traffic::quantized},
    {.op = Op::transpose,
     .name = "transpose",
     .infer = infer_transpose,
     .work = work_unary,
     .traffic = Traffic::quantized,
     .widening = moves},
    {.op = Op::widen_weights,
     .name = "widen_weights",
     .infer = infer_widen_weights,
     .work = work_widen_weights,
     .traffic = Traffic::quantized,
     .widening = moves},
};

}  // namespace

std::span<const OpInfo> quantized_ops() { return rows; }

}  // namespace meshwright::program
