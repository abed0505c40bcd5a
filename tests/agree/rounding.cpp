#include "tests/agree/rounding.h"

#include <cmath>

namespace meshwright::tests {

double unit_of(Precision precision) {
  if (precision == Precision::nvfp4) return 0x1p-2;  // e2m1's
  if (precision == Precision::fp8) return 0x1p-4;    // e4m3's
  return precision == Precision::fp16 ? 0x1p-11 : 0x1p-8;
}

void store_in(Precision precision, Plan& plan) {
  plan.training.precision = precision;
  if (precision != Precision::fp16) return;
  plan.training.loss_scale = LossScale{};
  plan.training.loss_scale->initial = 1024;
}

double largest_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]));
  return largest;
}

double difference_of_updates(const Trained& a, const Trained& b, const Values& begin) {
  double apart = 0, moved = 0;
  for (const auto& [name, values] : b.parameters) {
    const std::vector<float>&other = a.parameters.at(name), &first = begin.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(double(other[i]) - values[i], 2);
      moved += std::pow(double(values[i]) - first[i], 2);
    }
  }
  return std::sqrt(apart / moved);
}

}  // namespace meshwright::tests
