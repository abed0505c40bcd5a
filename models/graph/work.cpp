#include "models/graph/work.h"

#include <algorithm>

#include "models/graph/fusion.h"
#include "models/graph/work_kernels.h"

namespace meshwright {

namespace {

// One kernel for all experts of this rank.
void expert_products(Kernels& kernels, const OpCall& call, const Shape& mnk, double traffic) {
  const double flops = 2.0 * call.attributes.experts * static_cast<double>(mnk.elements());
  kernels.push_back(
      {Kernel::Kind::gemm, mnk[0], mnk[1], mnk[2], call.attributes.experts, flops, traffic});
}

std::int64_t slots_of_expert(const OpCall& call) {
  return std::int64_t{call.attributes.micro_batch} * call.attributes.expert_capacity;
}

// Of the tokens that have slots, at most: what empty slots cost is not of the model.
double active_expert_flops(const OpCall& call) {
  const Attributes& a = call.attributes;
  const double chosen =
      static_cast<double>(a.micro_batch) * a.sequence_length * a.experts_per_token;
  return 2.0 * std::min(chosen, static_cast<double>(call.inputs[0].shape[0])) *
         static_cast<double>(call.inputs[0].shape[1]) *
         static_cast<double>(call.outputs[0].shape[1]);
}

}  // namespace

void work_nothing(const OpCall&, CompilerLevel, Kernels&) {}

void work_embedding(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double traffic = 2 * bytes(call.outputs[0]);
  memory_kernel(kernels, traffic);
  if (call.attributes.vocabulary_parallel && level != CompilerLevel::full)
    memory_kernel(kernels, traffic);  // other ranks' rows are set to zero afterwards
}

// The touched rows are read and written; dy is read.
void work_embedding_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes(call.inputs[1]) * (1 + 8 / element_size(call.inputs[1])));
}

// Reads as many bytes as it writes.
void work_rewrite(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes_of_all(call.outputs));
}

void work_add_row(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.outputs[0]));
}

void work_column_sum(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]) + bytes_of_all(call.outputs));
}

void work_layer_norm(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_rms_norm(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

// dx from x and dy; then the sums over rows for weight and bias.
void work_norm_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const double x = bytes(call.inputs[0]);
  memory_kernel(kernels, 3 * x);
  memory_kernel(kernels, 2 * x);
}

void work_norm_stats(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]));
}

// The sums of the rows; then those of the columns, for weight and bias.
void work_norm_parts_sums(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_norm_parts_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

namespace {

// Frameworks pad the vocabulary only where ranks share it: an odd one gives rows that begin
// anywhere.
std::int64_t as_frameworks_pad(std::int64_t columns, const OpCall& call, CompilerLevel level) {
  const std::int64_t vocabulary = call.attributes.vocabulary;
  return level != CompilerLevel::full && vocabulary > 0 && vocabulary < columns ? vocabulary
                                                                                : columns;
}

}  // namespace

void work_linear(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  gemm(kernels, call.inputs[0].shape[0], as_frameworks_pad(call.outputs[0].shape[1], call, level),
       call.inputs[0].shape[1], bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

void work_linear_grad_input(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  gemm(kernels, call.inputs[0].shape[0], call.outputs[0].shape[1],
       as_frameworks_pad(call.inputs[0].shape[1], call, level),
       bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

// The product reads and writes the fp32 sum; or makes a gradient in the storage type that one more
// kernel adds.
void work_linear_grad_weight(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1];
  const double elements = static_cast<double>(x.shape[1]) * static_cast<double>(dy.shape[1]);
  const double sum_size = call.outputs.empty() ? 4 : element_size(call.outputs[0]);
  const double operands = bytes(x) + bytes(dy);
  const std::int64_t columns = as_frameworks_pad(dy.shape[1], call, level);
  if (!call.attributes.accumulate_separately) {
    gemm(kernels, x.shape[1], columns, x.shape[0], operands + 2 * sum_size * elements);
    return;
  }
  const double own_size = element_size(x);
  gemm(kernels, x.shape[1], columns, x.shape[0], operands + own_size * elements);
  memory_kernel(kernels, (own_size + 2 * sum_size) * elements);
}

// Hand-fused kernels add the bias of a row-cut product together with the residual that follows.
void work_add_bias(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  if (level == CompilerLevel::none) memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_rope(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_unary(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

// Reads every input that is as large as an output, writes the outputs.
void work_elementwise(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes_of_all(call.inputs) + bytes_of_all(call.outputs));
}

void work_gelu(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  work_unary(call, level, kernels);
  kernels.back().gelus = static_cast<double>(call.outputs[0].shape.elements());
}

// The same tanh or erf, and the derivative of what it is in.
void work_gelu_grad(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  constexpr double longer = 1.4;
  work_elementwise(call, level, kernels);
  kernels.back().gelus = longer * static_cast<double>(call.outputs[0].shape.elements());
}

// An eager framework writes a mask of one byte per element. A fused one adds it to the kernel that
// sums the bias and the residual, whose other traffic is counted there; the training compiler makes
// the mask again instead of keeping it.
void work_dropout(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double mask = static_cast<double>(call.inputs[0].shape.elements());
  if (level == CompilerLevel::none) memory_kernel(kernels, 2 * bytes(call.inputs[0]) + mask);
  if (level == CompilerLevel::fused) joining_traffic(kernels, mask);
}

// Neither bias nor residual have a gradient kernel that it could join.
void work_dropout_grad(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double mask = static_cast<double>(call.inputs[0].shape.elements());
  const double read = level == CompilerLevel::full ? 0 : mask;
  memory_kernel(kernels, 2 * bytes(call.inputs[0]) + read);
}

void work_swiglu(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

void work_swiglu_grad(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, 5 * bytes(call.inputs[0]));
}

// Logits are cast to fp32 first, except by the compiler's fused loss.
void work_cross_entropy(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double logits = bytes(call.inputs[0]);
  if (level == CompilerLevel::full) {
    memory_kernel(kernels, logits);
    return;
  }
  const double wide = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  if (element_size(call.inputs[0]) < 4) memory_kernel(kernels, logits + wide);
  memory_kernel(kernels, 2 * wide);
}

void work_cross_entropy_grad(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double logits = bytes(call.inputs[0]);
  if (level == CompilerLevel::full) {
    memory_kernel(kernels, 2 * logits);
    return;
  }
  const double wide = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  memory_kernel(kernels, 2 * wide);
  if (element_size(call.inputs[0]) < 4) memory_kernel(kernels, logits + wide);
}

void work_zero(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes_of_all(call.outputs));
}

// Softmax, the choice and the places of tokens in their experts' slots: eager frameworks run a
// kernel each, and one that sorts.
void work_route(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const double logits = 4.0 * static_cast<double>(call.inputs[0].shape.elements());
  const int launches = level == CompilerLevel::none ? 5 : level == CompilerLevel::fused ? 2 : 1;
  for (int i = 0; i < launches; ++i) memory_kernel(kernels, 2 * logits);
}

// Every token reads its slots.
void work_combine(const OpCall& call, CompilerLevel, Kernels& kernels) {
  memory_kernel(kernels, bytes(call.outputs[0]) * (1 + call.attributes.experts_per_token));
}

void work_expert_linear(const OpCall& call, CompilerLevel, Kernels& kernels) {
  expert_products(kernels, call,
                  {slots_of_expert(call), call.outputs[0].shape[1], call.inputs[0].shape[1]},
                  bytes_of_all(call.inputs) + bytes(call.outputs[0]));
}

void work_expert_linear_grad_input(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  work_expert_linear(call, level, kernels);
}

// As linear_grad_weight.
void work_expert_linear_grad_weight(const OpCall& call, CompilerLevel, Kernels& kernels) {
  const TensorType &x = call.inputs[0], &dy = call.inputs[1], &sum = call.outputs[0];
  const bool separate = call.attributes.accumulate_separately;
  const double elements = static_cast<double>(sum.shape.elements());
  const double own = element_size(x) * elements;
  expert_products(kernels, call, {x.shape[1], dy.shape[1], slots_of_expert(call)},
                  bytes(x) + bytes(dy) + (separate ? own : 2 * bytes(sum)));
  if (separate) memory_kernel(kernels, own + 2 * bytes(sum));
}

namespace {

double outside_traffic(const Fusion& fusion) {
  double traffic = 0;
  for (int id = 0; id < fusion.first_internal(); ++id)
    traffic += bytes(fusion.operands[static_cast<std::size_t>(id)]) * (fusion.is_sum(id) ? 2 : 1);
  return traffic;
}

// The kernels of a step on so many rows.
void append_step(const Fusion& fusion, const FusedStep& step, std::int64_t rows,
                 CompilerLevel level, Kernels& kernels) {
  std::vector<TensorType> inputs, outputs;
  for (int id : step.inputs) inputs.push_back(fusion.of_block(id, rows));
  for (int id : step.outputs) outputs.push_back(fusion.of_block(id, rows));
  append_kernels({step.op, step.attributes, inputs, outputs}, level, kernels);
}

// Products of one input, or into one output or of one output's parts, side by side: as one of all
// columns, or of the whole depth.
Kernel side_by_side(const Fusion& fusion, CompilerLevel level) {
  Kernels each;
  for (const FusedStep& step : fusion.steps) append_step(fusion, step, fusion.rows, level, each);
  Kernel all = each.front();
  const bool deeper = fusion.steps.front().op == Op::linear_grad_input;
  for (std::size_t i = 1; i < each.size(); ++i) {
    (deeper ? all.k : all.n) += deeper ? each[i].k : each[i].n;
    all.flops += each[i].flops;
  }
  return all;
}

}  // namespace

// One kernel that reads what comes in and writes what goes out. Long blocks: the kernels of every
// step, once for each block.
void work_fused(const OpCall& call, CompilerLevel level, Kernels& kernels) {
  const Fusion& fusion = *call.attributes.fusion;
  switch (fusion.loop) {
    case Fusion::Loop::blocks:
      memory_kernel(kernels, outside_traffic(fusion));
      break;
    case Fusion::Loop::long_blocks:
      for (std::int64_t first = 0; first < fusion.rows; first += fusion.block_rows)
        for (const FusedStep& step : fusion.steps)
          append_step(fusion, step, std::min(fusion.block_rows, fusion.rows - first), level,
                      kernels);
      break;
    case Fusion::Loop::product_first:
      append_step(fusion, fusion.steps.front(), fusion.rows, level, kernels);
      kernels.back().bytes = outside_traffic(fusion);
      break;
    case Fusion::Loop::products:
      kernels.push_back(side_by_side(fusion, level));
      kernels.back().bytes = outside_traffic(fusion);
      break;
  }
}

double model_flops(const OpCall& call) {
  if (call.op == Op::scores || call.op == Op::weigh_values) {
    const Shape& a = call.inputs[0].shape;
    return 2.0 * static_cast<double>(a.elements()) * static_cast<double>(call.outputs[0].shape[2]);
  }
  if (call.op == Op::attention || call.op == Op::context_attention) return attention_flops(call);
  if (call.op == Op::expert_linear) return active_expert_flops(call);
  if (call.op != Op::linear) return 0;
  return 2.0 * static_cast<double>(call.inputs[0].shape[0]) *
         static_cast<double>(call.inputs[0].shape[1]) *
         static_cast<double>(call.outputs[0].shape[1]);
}

namespace {

// The kernels of torch.optim over fp32 arrays (exec/optimizer/framework_optimizer.cpp), by the
// bytes that they move for each element.
void framework_optimizer_kernels(Kernels& kernels, const OptimizerWork& work, double working) {
  const double n = static_cast<double>(work.elements);
  const double g = static_cast<double>(bytes_of(work.gradients));
  const auto pass = [&](double bytes_of_element) { memory_kernel(kernels, n * bytes_of_element); };
  if (work.moments == 1) {
    for (const double each : {8.0, 8 + g, 12.0, 12.0}) pass(each);  // momentum, g, decay, update
  } else {
    pass(8);                                                   // decay
    for (const double each : {8 + g, 8.0, 8 + g}) pass(each);  // the moments: one, then two kernels
    for (int i = 0; i < 3; ++i) pass(8);  // the denominator: root, correction, epsilon
    pass(16);                             // the update
  }
  if (working > 0) pass(4 + working);
}

}  // namespace

// Reads the gradient; reads and writes the moments and the fp32 weight; writes the working copy:
// one kernel, but in an eager framework.
void append_optimizer_kernels(const OptimizerWork& work, CompilerLevel level, Kernels& kernels) {
  const double n = static_cast<double>(work.elements);
  const double working =
      work.weights == Dtype::f32 ? 0 : static_cast<double>(bytes_of(work.weights));
  if (level == CompilerLevel::none && !work.moments_are_ready)
    return framework_optimizer_kernels(kernels, work, working);
  const double states = work.moments_are_ready
                            ? 4.0 * work.moments
                            : 8.0 * work.moments + static_cast<double>(bytes_of(work.gradients));
  memory_kernel(kernels, n * (states + 8.0 + working));
}

}  // namespace meshwright
