#include "sim/predict/kernel_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "sim/predict/device_work.h"

namespace meshwright::sim {

namespace {

constexpr std::array<std::string_view, compute_kind_count + communication_kind_count> kind_names = {
    "matrix products",        "attention",           "normalization",
    "softmax and loss",       "elementwise kernels", "optimizer",
    "other kernels",          "all-reduce",          "all-gather",
    "reduce-scatter",         "all-to-all",          "broadcast and reduce",
    "messages between ranks", "host copies",         "other communication"};

// A part of a name, in lower case and without underscores and spaces, and the kind that it means.
// The first rule that matches decides.
struct NameRule {
  std::string_view part;
  KernelKind kind;
};

constexpr NameRule collective_rules[] = {
    {"allreduce", KernelKind::all_reduce},
    {"allgather", KernelKind::all_gather},
    {"reducescatter", KernelKind::reduce_scatter},
    {"alltoall", KernelKind::all_to_all},
    {"all2all", KernelKind::all_to_all},
    {"broadcast", KernelKind::broadcast},
    {"barrier", KernelKind::all_reduce},  // with NCCL, PyTorch runs a barrier as an all-reduce
    {"send", KernelKind::messages},
    {"recv", KernelKind::messages},
    {"reduce", KernelKind::broadcast},
};

constexpr NameRule kernel_rules[] = {
    {"memcpyhtod", KernelKind::host_copies},
    {"memcpydtoh", KernelKind::host_copies},
    {"memcpy", KernelKind::other},
    {"memset", KernelKind::other},
    {"multitensorapply", KernelKind::optimizer},
    {"adam", KernelKind::optimizer},
    {"adagrad", KernelKind::optimizer},
    {"lambstage", KernelKind::optimizer},
    {"sgd", KernelKind::optimizer},
    {"flash", KernelKind::attention},
    {"fmha", KernelKind::attention},
    {"attention", KernelKind::attention},
    {"attn", KernelKind::attention},
    {"sdpa", KernelKind::attention},
    {"layernorm", KernelKind::normalization},
    {"rmsnorm", KernelKind::normalization},
    {"batchnorm", KernelKind::normalization},
    {"groupnorm", KernelKind::normalization},
    {"lnfwd", KernelKind::normalization},
    {"lnbwd", KernelKind::normalization},
    {"gammabeta", KernelKind::normalization},
    {"rowwisemoments", KernelKind::normalization},
    {"welford", KernelKind::normalization},
    {"softmax", KernelKind::softmax},
    {"nllloss", KernelKind::softmax},
    {"crossentropy", KernelKind::softmax},
    {"xentropy", KernelKind::softmax},
    {"gemm", KernelKind::products},
    {"gemv", KernelKind::products},
    {"nvjet", KernelKind::products},
    {"cutlass", KernelKind::products},
    {"cublas", KernelKind::products},
    {"splitk", KernelKind::products},
    {"xmma", KernelKind::products},
    {"convolve", KernelKind::products},
    {"conv2d", KernelKind::products},
    {"tritontem", KernelKind::products},
    {"tritonmm", KernelKind::products},
    {"elementwise", KernelKind::elementwise},
    {"pointwise", KernelKind::elementwise},
    {"tritonpoi", KernelKind::elementwise},
    {"dropout", KernelKind::elementwise},
    {"gelu", KernelKind::elementwise},
    {"silu", KernelKind::elementwise},
    {"swiglu", KernelKind::elementwise},
    {"rotary", KernelKind::elementwise},
};

// The names of matmuls of cuBLAS begin with the GPU that they are for, and those of rocBLAS with
// "Cijk".
constexpr std::string_view product_prefixes[] = {"volta", "turing", "ampere", "hopper", "sm70",
                                                 "sm75",  "sm80",   "sm86",   "sm89",   "sm90",
                                                 "sm100", "sm120",  "cijk"};

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (c != '_' && c != ' ')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <std::size_t Count>
const NameRule* rule_for(const NameRule (&rules)[Count], const std::string& name) {
  const auto found = std::ranges::find_if(
      rules, [&](const NameRule& rule) { return name.find(rule.part) != std::string::npos; });
  return found == std::end(rules) ? nullptr : found;
}

KernelKind collective_kind(const std::string& name) {
  const NameRule* rule = rule_for(collective_rules, name);
  return rule == nullptr ? KernelKind::other_communication : rule->kind;
}

KernelKind kind_of_op(Op op) {
  switch (op) {
    case Op::layer_norm:
    case Op::layer_norm_grad:
    case Op::rms_norm:
    case Op::rms_norm_grad:
    case Op::norm_stats:
    case Op::norm_parts:
    case Op::norm_parts_sums:
    case Op::norm_parts_grad:
      return KernelKind::normalization;
    case Op::cross_entropy:
    case Op::cross_entropy_grad:
    case Op::cross_entropy_stats:
    case Op::cross_entropy_combine:
    case Op::span_loss:
    case Op::span_loss_grad:
    case Op::softmax:
    case Op::softmax_grad:
    case Op::log_softmax:
    case Op::log_softmax_grad:
    case Op::nll_loss:
    case Op::nll_loss_grad:
      return KernelKind::softmax;
    case Op::rope:
    case Op::rope_grad:
    case Op::add_constant:
    case Op::cube:
    case Op::cube_grad:
    case Op::silu:
    case Op::silu_grad:
    case Op::inverse_root:
    case Op::inverse_root_grad:
    case Op::scale_rows:
    case Op::clamped_swiglu:
    case Op::clamped_swiglu_grad:
    case Op::add_expert_bias:
    case Op::gate_rows:
    case Op::gate_rows_grad:
    case Op::scale_columns:
    case Op::rotate_half:
    case Op::rotate_half_grad:
    case Op::times_cosine:
    case Op::times_sine:
    case Op::add_alibi:
    case Op::mask_scores:
    case Op::add_relative_bias:
    case Op::drop_probabilities:
    case Op::drop_probabilities_grad:
      return KernelKind::elementwise;
    default:
      break;
  }
  const OpInfo& row = info(op);
  return row.in_place || !row.elements[0].empty() ? KernelKind::elementwise : KernelKind::other;
}

// Returns the kind that the name of a fused kernel would tell: normalization if any step
// normalizes, else softmax if any step takes a softmax or a loss, else elementwise if all steps are
// elementwise, else other.
KernelKind kind_of_steps(const Fusion& fusion) {
  bool all_elementwise = true, softmax = false;
  for (const FusedStep& step : fusion.steps) {
    const KernelKind kind = kind_of_op(step.op);
    if (kind == KernelKind::normalization) return kind;
    softmax = softmax || kind == KernelKind::softmax;
    all_elementwise = all_elementwise && kind == KernelKind::elementwise;
  }
  if (softmax) return KernelKind::softmax;
  return all_elementwise ? KernelKind::elementwise : KernelKind::other;
}

KernelKind kind_of_compute(const Instruction& instruction, const StepSettings& training) {
  switch (work_of_kernels(instruction, training)) {
    case DeviceWork::products:
      return KernelKind::products;
    case DeviceWork::attention:
      return KernelKind::attention;
    default:
      return instruction.op == Op::fused ? kind_of_steps(*instruction.attributes.fusion)
                                         : kind_of_op(instruction.op);
  }
}

}  // namespace

KernelKind kind_of_instruction(const Instruction& instruction, const Body& body,
                               const StepSettings& training) {
  switch (instruction.kind) {
    case InstructionKind::all_reduce:
      return KernelKind::all_reduce;
    case InstructionKind::all_gather:
      return KernelKind::all_gather;
    case InstructionKind::reduce_scatter:
      return KernelKind::reduce_scatter;
    case InstructionKind::all_to_all:
      return KernelKind::all_to_all;
    case InstructionKind::broadcast:
    case InstructionKind::reduce:
      return KernelKind::broadcast;
    case InstructionKind::send:
    case InstructionKind::recv:
    case InstructionKind::ring_shift:
      return KernelKind::messages;
    case InstructionKind::copy_in:
    case InstructionKind::copy_out:
      return KernelKind::host_copies;
    case InstructionKind::optimizer_step:
      return KernelKind::optimizer;
    case InstructionKind::load_input:
      return KernelKind::other;
    case InstructionKind::compute:
      break;
  }
  if (body.kind == Body::Kind::step_begin || body.kind == Body::Kind::step_end)
    return KernelKind::optimizer;
  return kind_of_compute(instruction, training);
}

std::string_view name_of(KernelKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

KernelKind kind_of_kernel(std::string_view name, std::string_view collective) {
  const std::string text = plain(name);
  if (!collective.empty()) {
    const NameRule* rule = rule_for(collective_rules, plain(collective));
    if (rule != nullptr) return rule->kind;
    return collective_kind(text);
  }
  for (const std::string_view library : {"nccl", "rccl", "nvshmem"})
    if (text.find(library) != std::string::npos) return collective_kind(text);
  if (const NameRule* rule = rule_for(kernel_rules, text)) return rule->kind;
  const bool product = std::ranges::any_of(
      product_prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
  return product ? KernelKind::products : KernelKind::other;
}

}  // namespace meshwright::sim
