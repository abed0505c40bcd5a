// Rates of matmuls and fused attention as they were measured on a kind of GPU
// (hwprofiles/measured_rates.h). Recorded steps and steps of PyTorch's frameworks are priced by
// them.
#pragma once

#include <optional>

#include "hwprofiles/measured_rates.h"
#include "models/program/graph/op_table.h"

namespace meshwright::sim {

class MeasuredKernels {
 public:
  explicit MeasuredKernels(const Gpu& gpu) : rates_(measured_rates(gpu)) {}

  // Returns the FLOP/s of a single matmul (not a batched one) in fp16, bf16 or fp8, at the clock at
  // which the rates were measured. It is the rate of the nearest measured shape, corrected by what
  // the two shapes allow (gemm.h). Returns none if no such matmul was measured on this GPU, or if
  // the GPU lacks the precision. In fp8, quantization is a kernel of its own.
  std::optional<double> product_rate(const Kernel& product, const Gpu& gpu,
                                     Precision precision) const;
  // Returns the FLOP/s of fused causal attention, counting the half of the scores that the mask
  // keeps, or none if it was not measured on this GPU.
  std::optional<double> attention_rate(const Kernel& attention) const;
  // Returns the share of the peak that FlashAttention-2 reaches on this GPU, or none if its authors
  // do not report it.
  std::optional<double> flash2_share(const Kernel& attention) const;

 private:
  // Returns the matmuls that were measured in this precision, or null.
  const MeasuredProducts* products_in(Precision precision) const;

  const MeasuredRates* rates_;  // null: no rates are known for this GPU
};

}  // namespace meshwright::sim
