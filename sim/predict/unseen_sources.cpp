#include "sim/predict/unseen_sources.h"

namespace meshwright::sim {

// The numbers are the output of tools/measure/unseen_intervals for automodel_h100_moe_lora,
// bridge_moe_h100_blackwell, fms_a100_finetune, internevo_7b_a100, qwen_finetune_a100,
// torchao_torchtitan_h100_b200_gb200, torchtune_a100 and xtuner_qwen3_235b_h800 of
// scenarios/evidence. One range serves all kinds of jobs: of the steps of a source, four in five
// are in the range of all other sources, but fewer are in the range of the few other sources of the
// same kind.
std::optional<Residuals::Interval> unseen_sources(const Training& training, bool has_experts) {
  const Framework framework = training.framework;
  const bool is_of_megatron =
      framework == Framework::megatron_lm || framework == Framework::megatron_bridge;
  const bool is_fitted =
      !is_of_pytorch(framework) && !(is_of_megatron && (has_experts || training.lora));
  if (is_fitted) return std::nullopt;
  return Residuals::Interval{0.936, 1.370, 150};
}

}  // namespace meshwright::sim
