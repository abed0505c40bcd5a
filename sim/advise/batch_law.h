// Estimates how large a batch may be before training needs more tokens.
#pragma once

namespace meshwright::sim {

// Returns the number of tokens per step with which a causal language model learns best, where
// `flops` are the floating-point operations of its whole training: 0.2920 C^0.3271, where C is
// `flops` (DeepSeek LLM, 2024, arXiv:2401.02954, section 3.1, fitted to runs of 1e17 to 2e19
// FLOPs). The optimum is flat: half or twice as many tokens per step cost little. Larger batches
// need more tokens for the same loss.
double useful_batch_tokens(double flops);

}  // namespace meshwright::sim
