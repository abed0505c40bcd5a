#include "sim/cost/measured.h"

#include "sim/cost/gemm.h"

namespace meshwright::sim {

const MeasuredProducts* MeasuredKernels::products_in(Precision precision) const {
  if (rates_ == nullptr) return nullptr;
  if (precision == Precision::bf16 || precision == Precision::fp16) return &rates_->products;
  const bool in_8_bits =
      precision == Precision::fp8 && !rates_->products_in_8_bits.measured.empty();
  return in_8_bits ? &rates_->products_in_8_bits : nullptr;
}

std::optional<double> MeasuredKernels::product_rate(const Kernel& product, const Gpu& gpu,
                                                    Precision precision) const {
  const MeasuredProducts* measured = products_in(precision);
  const bool is_known = measured != nullptr && product.kind == Kernel::Kind::gemm &&
                        product.flops > 0 && gpu.supports(precision);
  if (!is_known) return std::nullopt;
  const MeasuredProduct& near = nearest_product(*measured, product.m, product.n, product.k);
  const Kernel like{.kind = Kernel::Kind::gemm, .m = near.m, .n = near.n, .k = near.k};
  return near.flop_per_s * shape_efficiency(product, gpu, precision) /
         shape_efficiency(like, gpu, precision);
}

std::optional<double> MeasuredKernels::attention_rate(const Kernel& attention) const {
  if (rates_ == nullptr || rates_->attention.empty()) return std::nullopt;
  return nearest_attention(*rates_, attention.n).flop_per_s *
         (attention.k <= 64 ? rates_->narrow_share : 1) *
         (attention.backward ? rates_->backward_share : 1);
}

std::optional<double> MeasuredKernels::flash2_share(const Kernel& attention) const {
  if (rates_ == nullptr || rates_->flash2.forward == 0) return std::nullopt;
  const FlashShares& flash2 = rates_->flash2;
  const auto keys = static_cast<double>(attention.n);
  return (attention.backward ? flash2.backward : flash2.forward) * keys / (keys + flash2.ramp) *
         (attention.k <= 64 ? rates_->narrow_share : 1);
}

}  // namespace meshwright::sim
