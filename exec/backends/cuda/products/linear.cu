// Linear layers, those of experts, and their gradients: matmuls through cuBLASLt.
#include "exec/backends/cuda/products/linear.h"

#include <array>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/products/counted.h"
#include "exec/backends/cuda/products/products.h"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/experts.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/quantized.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;

// Adds a product to `sum`, or stores it there if `overwrites` is set. It is for gradients whose
// matmul is stored apart, in scratch memory.
template <typename T, int n>
__global__ void add_to_sum(const T* product, float* sum, long long count, bool overwrites) {
  const long long i = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * n;
  if (i >= count) return;
  float term[n], total[n] = {};
  load<n>(product + i, term);
  if (!overwrites) load<n>(sum + i, total);
  for (int j = 0; j < n; ++j) total[j] += term[j];
  store<n>(sum + i, total);
}

// Returns the alignment, in bytes, of an address that is `bytes` bytes after one that has the
// alignment `alignment`.
int alignment_after(std::int64_t bytes, int alignment) {
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// The matmuls of experts, in turns. In each turn, every expert's matrix is multiplied by one of its
// groups of rows, and all these are one batch.
struct Turns {
  std::int64_t count = 1;
  ProductForm form;
  std::array<std::int64_t, 2> in_bytes{};  // from a turn's input to the next one's
  std::int64_t out_bytes = 0;
};

Turns turns_of(const OpCall& call) {
  const ExpertProduct product = expert_product_of(call);
  Turns turns{product.groups / product.experts, {}, {}, 0};
  const OpCall one{
      product.op, call.attributes, product.inputs(), {&product.output, 1}, call.overwrites};
  turns.form = form_of(one);
  turns.form.batch = product.experts;
  const auto apart = [&](const TensorType& whole, const TensorType& part) {
    return whole.shape.rank == 3 ? 0 : part.bytes() * product.experts;
  };
  for (std::size_t i = 0; i < 2; ++i) {
    turns.in_bytes[i] = apart(call.inputs[i], product.inputs()[i]);
    turns.form.alignment = alignment_after(turns.in_bytes[i], turns.form.alignment);
  }
  turns.out_bytes = apart(call.outputs[0], product.output);
  turns.form.alignment = alignment_after(turns.out_bytes, turns.form.alignment);
  return turns;
}

// Returns the matmul of a turn. The first turn may overwrite a gradient. Later turns add to it.
ProductForm of_turn(const Turns& turns, Op op, std::int64_t turn) {
  ProductForm form = turns.form;
  form.adds = form.adds || (turn > 0 && op == Op::expert_linear_grad_weight);
  return form;
}

// Returns the matmul of a gradient that is first stored in scratch memory in type `dtype` and then
// added to the sum. `adds` is for turns after the first.
ProductForm stored_apart(ProductForm form, Dtype dtype, bool adds) {
  form.result = dtype;
  form.adds = adds;
  return form;
}

void add_apart(const KernelCall& k) {
  const std::int64_t count = k.call.outputs[0].shape.elements();
  with_type(made_type(k.call), [&](auto number) {
    using T = decltype(number);
    constexpr int n = vector_of<T>;
    const bool vectors = count % n == 0;
    launch(vectors ? add_to_sum<T, n> : add_to_sum<T, 1>,
           {blocks_for(vectors ? count / n : count, threads)}, {threads}, 0, k.stream,
           k.workspace<T>(), k.out<float>(0), static_cast<long long>(count),
           k.call.overwrites_output(0));
  });
}

void refuse_blocks(const OpCall& call) {
  if (!has_quantized_factors(call)) return;
  for (const std::size_t factor : {0, 1})
    if (call.inputs[scale_input(factor)].shape.elements() > 1)
      throw NotSupportedYet(
          "/training/fp8_recipe: products on GPUs take one scale for each factor; use "
          "'tensorwise'");
}

std::int64_t linear_workspace(const OpCall& call, const Device& device) {
  refuse_blocks(call);
  ProductForm form = form_of(call);
  if (bytes_apart(call) > 0) form = stored_apart(form, made_type(call), false);
  device.products->prepare(form);
  return bytes_apart(call);
}

void run_linear(const KernelCall& k) {
  const LinearProduct product = product_of(k.call);
  const bool apart = bytes_apart(k.call) > 0;
  ProductForm form = form_of(k.call);
  if (apart) form = stored_apart(form, made_type(k.call), false);
  const bool scaled = has_quantized_factors(k.call);
  const auto scale_of = [&](std::size_t factor) {
    return scaled ? k.operands.inputs[scale_input(factor)] : nullptr;
  };
  const ProductOperands operands{
      .a = k.operands.inputs[product.a],
      .b = k.operands.inputs[product.b],
      .c = apart ? k.context.workspace : k.operands.outputs[0],
      .bias = has_bias(k.call) ? k.operands.inputs[bias_input(k.call)] : nullptr,
      .a_scale = scale_of(product.a),
      .b_scale = scale_of(product.b)};
  k.device.products->run(form, operands, k.stream);
  if (apart) add_apart(k);
}

std::int64_t expert_workspace(const OpCall& call, const Device& device) {
  if (is_dropless(call.attributes)) return gpu_scratch_bytes(call);
  const Turns turns = turns_of(call);
  if (bytes_apart(call) > 0) {
    device.products->prepare(stored_apart(turns.form, call.inputs[0].dtype, false));
    if (turns.count > 1)
      device.products->prepare(stored_apart(turns.form, call.inputs[0].dtype, true));
  } else {
    device.products->prepare(turns.form);
    if (turns.count > 1) device.products->prepare(of_turn(turns, call.op, 1));
  }
  return bytes_apart(call);
}

void run_experts(const KernelCall& k) {
  if (is_dropless(k.attributes())) return run_counted_experts(k);
  const Turns turns = turns_of(k.call);
  const ExpertProduct product = expert_product_of(k.call);
  const OpCall one{product.op, k.attributes(), product.inputs(), {&product.output, 1}};
  const LinearProduct factors = product_of(one);
  const bool apart = bytes_apart(k.call) > 0;
  for (std::int64_t turn = 0; turn < turns.count; ++turn) {
    const auto in = [&](std::size_t i) { return k.in<std::byte>(i) + turn * turns.in_bytes[i]; };
    const ProductForm form = apart ? stored_apart(turns.form, k.call.inputs[0].dtype, turn > 0)
                                   : of_turn(turns, k.call.op, turn);
    std::byte* out =
        apart ? k.workspace<std::byte>() : k.out<std::byte>(0) + turn * turns.out_bytes;
    k.device.products->run(form, {.a = in(factors.a), .b = in(factors.b), .c = out}, k.stream);
  }
  if (apart) add_apart(k);
}

constexpr Row rows[] = {
    {Op::linear, run_linear, linear_workspace},
    {Op::linear_grad_input, run_linear, linear_workspace},
    {Op::linear_grad_weight, run_linear, linear_workspace},
    {Op::expert_linear, run_experts, expert_workspace},
    {Op::expert_linear_grad_input, run_experts, expert_workspace},
    {Op::expert_linear_grad_weight, run_experts, expert_workspace},
};

}  // namespace

ProductForm form_of(const OpCall& call) {
  const LinearProduct product = product_of(call);
  const Dtype first = call.inputs[product.a].dtype, second = call.inputs[product.b].dtype;
  return {.m = product.m,
          .n = product.n,
          .k = product.k,
          .transpose_a = product.transpose_a,
          .transpose_b = product.transpose_b,
          .adds = product.adds,
          .factors = first,
          .second = second != first ? std::optional(second) : std::nullopt,
          .result = call.outputs[0].dtype,
          .epilogue = has_bias(call) ? Epilogue::bias : Epilogue::none};
}

std::span<const Row> linear_rows() { return rows; }

}  // namespace meshwright::exec::cuda
