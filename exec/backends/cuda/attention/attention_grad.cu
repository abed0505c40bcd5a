// Attention, backward (attention_backward.h): the sums over rows that are computed before both
// passes, and the operations that run the passes.
#include "exec/backends/cuda/attention/attention_backward.h"
#include "exec/backends/cuda/attention/attention_library.h"
#include "exec/backends/cuda/attention/attention_relative.h"
#include "exec/backends/cuda/attention/latent.h"
#include "exec/backends/cuda/attention/sinks.h"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/context.h"
#include "models/program/graph/documents.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int sum_threads = 256, lanes_of_row = 8;

// Writes two arrays [batch * heads, held]: the log-sum-exp in base 2, or 0 if `log_sums` is null,
// and the sum of dY Y over each head of each token. Eight lanes have one head of a token.
template <typename T>
__global__ void __launch_bounds__(sum_threads)
    attention_row_sums(AttentionShape shape, NearHeads<const T> y, NearHeads<const T> dy,
                       const float* log_sums, float* log_sums_base_2, float* row_sums) {
  constexpr int unit = vector_of<T>;
  const long long place =
      (static_cast<long long>(blockIdx.x) * sum_threads + threadIdx.x) / lanes_of_row;
  const int lane = static_cast<int>(threadIdx.x) % lanes_of_row;
  const long long token = place / shape.heads;
  const int head = static_cast<int>(place % shape.heads);
  const bool valid = token < static_cast<long long>(shape.batch) * shape.held;
  float sum = 0.0f;
  if (valid) {
    const T* const a = y.at(token, head);
    const T* const b = dy.at(token, head);
    if (shape.vectors) {
      for (int c = lane * unit; c < shape.dim; c += lanes_of_row * unit) {
        float x[unit], dx[unit];
        load<unit>(a + c, x);
        load<unit>(b + c, dx);
#pragma unroll
        for (int i = 0; i < unit; ++i) sum = fmaf(x[i], dx[i], sum);
      }
    } else {
      for (int c = lane; c < shape.dim; c += lanes_of_row)
        sum = fmaf(widened(a[c]), widened(b[c]), sum);
    }
  }
#pragma unroll
  for (int distance = lanes_of_row / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (!valid || lane != 0) return;
  const long long row = (token / shape.held * shape.heads + head) * shape.held + token % shape.held;
  log_sums_base_2[row] = log_sums == nullptr ? 0.0f : log_sums[row] * log2_e;
  row_sums[row] = sum;
}

template <typename T>
void run_backward(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                  const BackwardOperands<T>& operands, const float* log_sums) {
  const std::int64_t rows = std::int64_t{shape.batch} * shape.held * shape.heads;
  launch(attention_row_sums<T>, {blocks_for(rows, sum_threads / lanes_of_row)}, {sum_threads}, 0,
         k.stream, shape, operands.y, operands.dy, log_sums, operands.log_sums, operands.row_sums);
  query_gradients(k, shape, extras, operands);
  key_gradients(k, shape, extras, operands);
}

void attention_grad_of_one_width(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::size_t tensors = a.packing == Packing::separate ? 3 : 1;
  const AttentionShape shape = shape_of(k);
  const Dtype dtype = k.call.inputs[0].dtype;
  with_type(dtype, [&](auto element) {
    using T = decltype(element);
    std::array<const T*, 3> in{};
    std::array<T*, 3> out{};
    for (std::size_t i = 0; i < tensors; ++i) {
      in[i] = k.in<T>(i);
      out[i] = k.out<T>(i);
    }
    const bool unfused = a.attention == AttentionKernel::unfused;
    const QueryKeyValue<const T> heads = heads_of<const T>(a, in);
    const QueryKeyValue<T> gradients = heads_of<T>(a, out);
    const AttentionGradScratch scratch(a, dtype);
    float* const scratch_sums = k.workspace<float>();
    BackwardOperands<T> operands{.q = heads.q,
                                 .k = heads.k,
                                 .v = heads.v,
                                 .y = heads_in_rows(a, k.in<T>(tensors)),
                                 .dy = heads_in_rows(a, k.in<T>(tensors + 2)),
                                 .dq = gradients.q,
                                 .dk = gradients.k,
                                 .dv = gradients.v,
                                 .probabilities = unfused ? k.in<T>(tensors + 1) : nullptr,
                                 .log_sums = scratch_sums,
                                 .row_sums = scratch_sums + scratch.rows};
    const float* const log_sums = unfused ? nullptr : k.in<float>(tensors + 1);
    ScoreExtras extras = extras_of(k);
    if (a.sinks) add_sink_gradients(k, 3);
    if (a.relative_buckets == 0) return run_backward(k, shape, extras, operands, log_sums);
    float* const bias = operands.row_sums + scratch.rows;
    extras.bias = make_relative_bias(k, k.in<void>(tensors + 3), dtype, bias);
    operands.distances = bias + scratch.bias;
    run_backward(k, shape, extras, operands, log_sums);
    add_relative_gradient(k, operands.distances,
                          rows_of_query_gradient(k.device, dtype, a.head_dim),
                          operands.distances + scratch.distances, k.out<void>(tensors),
                          k.call.outputs[tensors].dtype);
  });
}

void own_attention_grad(const KernelCall& k) { with_wide_values(k, attention_grad_of_one_width); }

void context_attention_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  with_type(k.call.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const QueryKeyValue<const T> kv = keys_values(a, k.in<T>(1));
    const QueryKeyValue<T> dkv = keys_values(a, k.out<T>(1));
    const bool continues = inputs_but_documents(k.call) == 6 && !adds_sinks(a);
    const AttentionGradScratch scratch(a, k.call.inputs[0].dtype);
    float* const scratch_sums = k.workspace<float>();
    const BackwardOperands<T> operands{
        .q = heads_of<const T>(a, {k.in<T>(0), nullptr, nullptr}).q,
        .k = kv.k,
        .v = kv.v,
        .y = heads_in_rows(a, k.in<T>(2)),
        .dy = heads_in_rows(a, k.in<T>(4)),
        .dq = heads_in_rows(a, k.out<T>(0)),
        .dk = dkv.k,
        .dv = dkv.v,
        .dq_before = heads_in_rows(a, continues ? k.in<T>(5) : nullptr),
        .log_sums = scratch_sums,
        .row_sums = scratch_sums + scratch.rows};
    run_backward(k, context_shape_of(k), extras_of(k), operands, k.in<float>(3));
  });
  if (adds_sinks(a)) add_sink_gradients(k, 2);
}

void attention_grad(const KernelCall& k) {
  if (k.device.attention == nullptr || !k.device.attention->run(k)) own_attention_grad(k);
}
std::int64_t prepare_attention_grad(const OpCall& call, const Device& device) {
  const std::int64_t planned = gpu_scratch_bytes(call);
  if (device.attention != nullptr)
    device.attention->prepare(call, device, own_attention_grad, planned);
  return planned;
}

constexpr Row rows[] = {{Op::attention_grad, attention_grad, prepare_attention_grad},
                        {Op::context_attention_grad, context_attention_grad}};

}  // namespace

std::span<const Row> attention_grad_rows() { return rows; }

}  // namespace meshwright::exec::cuda
