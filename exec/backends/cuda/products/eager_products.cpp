// The matmuls of an eager framework's attention, over the matrices of all heads. The query heads
// that share a head of keys and values follow one another, so they form one taller matrix.
#include "exec/backends/cuda/products/products.h"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

namespace {

// Returns the matmul of an operation: q k^T for `scores`, w v for `weigh_values`, and w^T x for
// `weigh_transposed`. The last one sums over the query heads that share keys and values, by a
// longer k.
ProductForm form_of(const OpCall& call) {
  const Shape &first = call.inputs[0].shape, &second = call.inputs[1].shape;
  const std::int64_t group = call.attributes.heads / call.attributes.kv_heads;
  ProductForm form{
      .batch = first[0] / group, .factors = call.inputs[0].dtype, .result = call.outputs[0].dtype};
  switch (call.op) {
    case Op::scores:
      form.m = group * first[1], form.n = second[1], form.k = first[2];
      form.transpose_b = true;
      break;
    case Op::weigh_values:
      form.m = group * first[1], form.n = second[2], form.k = first[2];
      break;
    default:
      form.m = first[2], form.n = second[2], form.k = group * first[1];
      form.transpose_a = true;
      break;
  }
  return form;
}

std::int64_t no_workspace(const OpCall& call, const Device& device) {
  device.products->prepare(form_of(call));
  return 0;
}

void run(const KernelCall& k) {
  k.device.products->run(
      form_of(k.call),
      {.a = k.operands.inputs[0], .b = k.operands.inputs[1], .c = k.operands.outputs[0]}, k.stream);
}

constexpr Row rows[] = {
    {Op::scores, run, no_workspace},
    {Op::weigh_values, run, no_workspace},
    {Op::weigh_transposed, run, no_workspace},
};

}  // namespace

std::span<const Row> framework_product_rows() { return rows; }

}  // namespace meshwright::exec::cuda
