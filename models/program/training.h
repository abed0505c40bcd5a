// How a model is trained: what a step is made with (step_settings.h), and what graphs are built and
// compiled from. The job file's `training` has these words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/program/graph/adapters.h"
#include "models/program/step_settings.h"

namespace meshwright {

enum class Recompute : std::uint8_t { none, selective, full, each, contiguous, group };

// Whose memory decides what fits: this engine's, or that of a framework that would run the job
// (sim/framework/framework_memory.h).
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
  std::vector<std::string> recompute_modules;  // of blocks, each repeated by itself; * is any name
  // Memory for one micro-batch's activations on one virtual stage: up to 1 the share of what is
  // kept without recomputation, above 1 bytes (models/compiler/passes/dataflow/recompute_budget.h).
  std::optional<double> recompute_budget;
  MemoryOf memory_of = MemoryOf::engine;
  std::vector<std::string>
      passes_off;  // optional passes of the compiler that are left out, by name
  // Whether rematerialize_rows runs. Unset means that compile() decides by the memory. A list of
  // passes by itself takes the choice with the least memory.
  std::optional<bool> rematerialize_rows;
  // Bytes of logits that fuse_loss computes at once. 0 means that compile() chooses by the memory.
  // Where the choice is left to the passes, they take about least_loss_block_bytes.
  std::int64_t loss_block_bytes = 0;
  // Whether a step clears all gradients, as published steps of other frameworks do, or the first
  // micro-batch overwrites them (models/compiler/lower/first_sums.h). No key: what runs here
  // overwrites.
  bool clears_gradients = false;
  std::optional<Lora> lora;     // none: all parameters are trained
  int predicted_positions = 0;  // mlm
  // Whether rows hold several documents (models/program/graph/documents.h). For predictions,
  // `documents_per_row` is their mean number. Unset means one.
  bool packing = false;
  std::optional<double> documents_per_row;
  // Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): blocks behind the model's
  // own, of which the k-th says the token k further on; their losses' mean counts so much.
  int mtp_layers = 0;
  std::optional<double> mtp_loss_weight;  // none: default_mtp_loss_weight
  double dropout = 0;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensorwise;
  bool fp8_experts = false;  // their products too
  bool fp8_gathers = false;  // what is multiplied in 8 bits alone travels in them (ZeRO 3)
  // For predictions of dropless experts that ranks share: tokens of the most loaded rank relative
  // to the mean, at least 1. Unset means 1, unless `expert_skew` is set.
  std::optional<double> expert_imbalance;
  double expert_skew = 0;            // instead: of the choices (models/program/graph/expert_skew.h)
  bool measure_expert_load = false;  // what that is in a run: StepResult::expert_load
  // Numbers of blocks at the beginning and at the end of a stack whose products stay in 16 bits.
  int first_layers_in_bf16 = 0, last_layers_in_bf16 = 0;
  bool has_layers_in_bf16() const { return first_layers_in_bf16 + last_layers_in_bf16 > 0; }
  bool is_in_bf16(int block, int blocks) const {
    return block < first_layers_in_bf16 || block >= blocks - last_layers_in_bf16;
  }
  bool operator==(const Training&) const = default;
};

}  // namespace meshwright
