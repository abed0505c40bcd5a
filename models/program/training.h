// Defines how a model is trained: the settings of a step (step_settings.h), and those from which
// graphs are built and compiled. Most have the names of keys in the job file's section `training`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/program/graph/adapters.h"
#include "models/program/step_settings.h"

namespace meshwright::program {

enum class Recompute : std::uint8_t { none, selective, full, each, contiguous, group };

// Says whose use of memory decides what fits: that of this engine, or of a framework that would run
// the job (sim/framework/framework_memory.h).
enum class MemoryOf : std::uint8_t {
  engine,
  pytorch,  // mixed precision by autocast, operation by operation
  xla       // the same step as one program of PyTorch/XLA
};

inline constexpr double default_mtp_loss_weight = 0.1;  // Megatron-Core's mtp_loss_scaling_factor

struct Training : StepSettings {
  Recompute recompute = Recompute::none;
  int recompute_group = 1;  // N of group_N
  double recompute_fraction = 1;
  // Modules of blocks that are recomputed, each by itself. In their names, * is any name.
  std::vector<std::string> recompute_modules;
  // Memory for the saved activations of one micro-batch on one virtual stage. Up to 1, it is a
  // share of what is saved without recomputation; above 1, it is in bytes
  // (models/compiler/passes/dataflow/recompute_budget.h).
  std::optional<double> recompute_budget;
  MemoryOf memory_of = MemoryOf::engine;
  std::vector<std::string>
      passes_off;  // names of optional passes of the compiler that are left out
  // Whether the pass rematerialize_rows runs. If it is unset, compile() decides by the memory. A
  // list of passes that runs without compile() takes the choice with the least memory.
  std::optional<bool> rematerialize_rows;
  // Bytes of logits that the pass fuse_loss computes at once. If it is 0, compile() chooses by the
  // memory. Passes that run without compile() then take about least_loss_block_bytes.
  std::int64_t loss_block_bytes = 0;
  // Whether a step clears all gradients before it adds to them, as published steps of other
  // frameworks do. Otherwise its first micro-batch overwrites them
  // (models/compiler/lower/first_sums.h). The job file has no key for it, and runs always
  // overwrite.
  bool clears_gradients = false;
  std::optional<Lora> lora;     // unset: all parameters are trained
  int predicted_positions = 0;  // of each sequence, in a model that predicts masked tokens (mlm)
  // Whether rows of tokens hold several documents (models/program/graph/documents.h).
  // `documents_per_row` is their mean number, for predictions; unset means one.
  bool packing = false;
  std::optional<double> documents_per_row;
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): blocks after the model's
  // own, of which the k-th predicts the token k positions after the one that the model predicts.
  // The mean of their losses is multiplied by the weight and added to the loss.
  int mtp_layers = 0;
  std::optional<double> mtp_loss_weight;  // unset: default_mtp_loss_weight
  double dropout = 0;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;
  bool fp8_experts = false;  // matrix multiplications of experts use fp8 too
  bool fp8_gathers = false;  // ZeRO 3 gathers weights in 8 bits if only 8-bit matmuls read them
  // For predictions of dropless experts that ranks share: tokens of the most loaded rank relative
  // to the mean, at least 1. Unset means 1, unless `expert_skew` is set.
  std::optional<double> expert_imbalance;
  // The skew of the choices (models/program/graph/expert_skew.h), from which predictions derive the
  // imbalance if `expert_imbalance` is unset.
  double expert_skew = 0;
  bool measure_expert_load = false;  // a run measures the imbalance: StepResult::expert_load
  // Numbers of blocks at the beginning and at the end of a stack whose matrix multiplications stay
  // in 16 bits (bf16).
  int first_layers_in_bf16 = 0, last_layers_in_bf16 = 0;
  bool has_layers_in_bf16() const { return first_layers_in_bf16 + last_layers_in_bf16 > 0; }
  bool is_in_bf16(int block, int blocks) const {
    return block < first_layers_in_bf16 || block >= blocks - last_layers_in_bf16;
  }
  bool operator==(const Training&) const = default;
};

}  // namespace meshwright::program
