// Rates of products and fused attention as they were measured on a kind of GPU
// (hwprofiles/measured_rates.h). Recorded steps and steps of frameworks are priced by them.
#pragma once

#include <optional>

#include "hwprofiles/measured_rates.h"
#include "models/program/graph/op_table.h"

namespace meshwright::sim {

class MeasuredKernels {
 public:
  explicit MeasuredKernels(const Gpu& gpu) : rates_(measured_rates(gpu)) {}

  // Returns the FLOP/s of a product in 16 or 8 bits, or none if none was measured on this GPU: that
  // of the nearest measured shape, corrected by what the two shapes allow (gemm.h). The clock is
  // the one at which the rates were measured. In 8 bits, quantization is a kernel of its own.
  std::optional<double> product_rate(const Kernel& product, const Gpu& gpu,
                                     Precision precision) const;
  // Returns the FLOP/s of fused causal attention, of which half of the scores count.
  std::optional<double> attention_rate(const Kernel& attention) const;
  // Returns what FlashAttention-2 reaches, as a share of the peak, if its authors report it.
  std::optional<double> flash2_share(const Kernel& attention) const;

 private:
  // Returns the products that were measured in this precision, or null.
  const MeasuredProducts* products_in(Precision precision) const;

  const MeasuredRates* rates_;  // null: none
};

}  // namespace meshwright::sim
