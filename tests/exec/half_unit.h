// Tells how far rounding moves a number.
#pragma once

#include <algorithm>
#include <cmath>

#include "models/core/dtype.h"

namespace meshwright::tests {

// Returns half a unit of x's last place in f32, f16 or bf16.
inline double half_unit(Dtype dtype, double x) {
  const int digits = dtype == Dtype::f32 ? 24 : dtype == Dtype::f16 ? 11 : 8;
  const int least = dtype == Dtype::f16 ? -14 : -126;
  return x == 0 ? 0 : std::ldexp(1.0, std::max(std::ilogb(x), least) - digits);
}

}  // namespace meshwright::tests
