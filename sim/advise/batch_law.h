// Estimates how large a batch may be before training needs more tokens.
#pragma once

namespace meshwright::sim {

// Returns the tokens per step with which a causal language model learns best for the floating-point
// operations `flops` of its whole training: 0.2920 C^0.3271, where C is `flops` (DeepSeek LLM,
// 2024, arXiv:2401.02954, section 3.1, from runs of 1e17 to 2e19 FLOPs, checked there at 1e20 and
// for their 7B and 67B models). The law is flat: half or twice as much costs little. Larger batches
// need more tokens for the same loss.
double useful_batch_tokens(double flops);

}  // namespace meshwright::sim
