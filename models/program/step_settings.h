// Defines the settings of a training step that are not in its instructions. Code that runs Programs
// (models/program/program.h), or predicts how long they take, reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/program/framework.h"
#include "models/program/graph/kernel_choice.h"

namespace meshwright::program {

// muon: updates matrices of linear layers in transformer blocks by their orthogonalized momentum,
// and all other parameters by adamw. adafactor: keeps, for matrices, only the means of squared
// gradients over rows and over columns.
enum class OptimizerKind : std::uint8_t { adamw, adam, lamb, sgd, lion, muon, adafactor };
enum class LearningRateSchedule : std::uint8_t {
  constant,
  linear,
  cosine,
  warmup_stable_decay,
  inverse_sqrt
};

// Returns the number of moments per element that are kept from step to step. If parameters differ
// (muon, adafactor), it is the number of those that have fewest. has_first_moment() and
// has_second_moment() return whether any parameter has such a moment.
constexpr int moments_of(OptimizerKind optimizer) {
  if (optimizer == OptimizerKind::adafactor) return 0;
  return optimizer == OptimizerKind::sgd || optimizer == OptimizerKind::lion ||
                 optimizer == OptimizerKind::muon
             ? 1
             : 2;
}
constexpr bool has_first_moment(OptimizerKind optimizer) {
  return optimizer != OptimizerKind::adafactor;
}
constexpr bool has_second_moment(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::muon || optimizer == OptimizerKind::adafactor ||
         moments_of(optimizer) == 2;
}
// Returns whether the squared norms of parameters and of their updates are measured before a step.
constexpr bool measures_parameters(OptimizerKind optimizer) {
  return optimizer == OptimizerKind::lamb || optimizer == OptimizerKind::adafactor;
}

// Returns the element type of second moments, given that of first moments.
constexpr Dtype second_moment_type(Dtype moments) {
  return moments == Dtype::block8 ? Dtype::block8u : moments;
}

// The copy that the optimizer keeps of weights that are stored in 16 bits, so that small updates
// are not lost.
enum class MasterWeights : std::uint8_t {
  fp32,
  remainders,  // the 16 bits that bf16 lacks: together they have the values of fp32
  none         // no copy; the 16-bit weights are updated themselves
};

struct LossScale {
  bool dynamic = false;
  double initial = 1, factor = 2, minimum = 1;
  int window = 1000, hysteresis = 1;
  bool operator==(const LossScale&) const = default;
};

// Settings of the optimizer adafactor (exec/optimizer/adafactor.h).
struct Adafactor {
  double eps1 = 1e-30, eps2 = 1e-3, clip_threshold = 1, decay_rate = -0.8;
  bool scale_parameter = false, relative_step = false;
  bool operator==(const Adafactor&) const = default;
};

constexpr int most_mtp_layers = 8;  // the most layers of multi-token prediction

// Number of sequences in each stretch of a mixture of data files. Within every stretch, the files
// have the weights that the job sets.
constexpr int mixture_stretch = 1 << 16;

struct StepSettings {
  std::int64_t global_batch = 0;  // sequences
  int micro_batch = 1;            // sequences per replica at once
  int sequence_length = 0;
  Precision precision = Precision::fp32;
  Dtype gradient_reduce = Dtype::f32;  // f32, f16 or bf16; f64 in precision fp64
  AttentionKernel attention = AttentionKernel::flash2;
  CompilerLevel compiler = CompilerLevel::fused;
  // The framework whose step is predicted. The engine ignores it, and the command `train` rejects a
  // job with another value than `meshwright`.
  Framework framework = Framework::meshwright;
  bool fuse_gradient_accumulation = true;
  bool cross_entropy_fusion = true;  // false: predicted as Megatron-LM's loss of separate kernels
  // Whether, on GPUs, no algorithm is chosen by timing and attention is not cuDNN's, so that runs
  // have the same bits on every GPU of a kind. Predictions assume the deterministic modes of
  // frameworks.
  bool deterministic = false;
  int steps = 1;
  std::uint64_t seed = 0;
  OptimizerKind optimizer = OptimizerKind::adamw;
  MasterWeights master_weights = MasterWeights::fp32;
  Dtype moments = Dtype::f32;      // f32, bf16 or block8; f64 in precision fp64
  bool moments_at_random = false;  // bf16: stochastic rounding, so that the mean is right
  double learning_rate = 1e-4;
  int warmup_steps = 0;
  LearningRateSchedule learning_rate_schedule = LearningRateSchedule::constant;
  int decay_steps = 0;  // of warmup_stable_decay; 0: a tenth of the steps, rounded up
  double weight_decay = 0, momentum = 0.9, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double gradient_clip = 0;        // by global norm; 0: off
  double gradient_clip_value = 0;  // each element; 0: off
  // The amount by which each step moves the bias of an expert that was chosen more or less often
  // than the mean (Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing"). 0: biases do not move.
  double router_bias_update_rate = 0;
  double ema_decay = 0;  // decay of the exponential moving average of weights; 0: no average
  Adafactor adafactor;
  std::optional<LossScale> loss_scale;
  // For ranks on GPUs: whether a step may be captured as one CUDA graph. Unset means that it may if
  // no messages travel between stages.
  std::optional<bool> cuda_graph;

  // Returns whether the loss is multiplied by a scale. It is always in fp16, and never in other
  // precisions. The scale moves and begins at 2^32 unless the job sets another.
  bool scales_loss() const { return precision == Precision::fp16; }
  // Returns the type of whatever is not rounded to less: averages of weights, and checkpoints.
  Dtype exact_type() const { return precision == Precision::fp64 ? Dtype::f64 : Dtype::f32; }
  // Returns the type of the masters, or nothing if the weights are their own masters.
  std::optional<Dtype> master_type() const {
    if (!is_16_bit(storage_of(precision)) || master_weights == MasterWeights::none) return {};
    return master_weights == MasterWeights::fp32 ? Dtype::f32 : Dtype::i16;
  }
  bool averages() const { return ema_decay > 0; }
  // Returns the mean bytes per element of masters, moments and averages that a rank keeps for the
  // elements that it updates. With muon and adafactor, some parameters need more.
  double optimizer_bytes() const {
    const std::optional<Dtype> master = master_type();
    return (master ? mean_bytes_of(*master) : 0) + moments_of(optimizer) * mean_bytes_of(moments) +
           (averages() ? mean_bytes_of(exact_type()) : 0);
  }
  // Returns the most values per element that a checkpoint has: the weight, its moments and its
  // average.
  int saved_states() const {
    return 1 + (has_first_moment(optimizer) ? 1 : 0) + (has_second_moment(optimizer) ? 1 : 0) +
           (averages() ? 1 : 0);
  }
  LossScale settled_loss_scale() const {
    return loss_scale.value_or(LossScale{.dynamic = true, .initial = 4294967296.0});
  }
  bool operator==(const StepSettings&) const = default;
};

// Return the words for these settings in job files and in Programs, in the order of the
// enumerators.
const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& master_weights_names();  // fp32 remainders none
const std::vector<std::string>& attention_names();
const std::vector<std::string>& compiler_names();
const std::vector<std::string>& learning_rate_schedule_names();

}  // namespace meshwright::program
