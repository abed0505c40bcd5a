// Exponential and related functions, written so that compilers vectorise loops over them. The float
// forms of exp, tanh and the normal distribution are written here, with their errors stated. Their
// double forms call the standard library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace meshwright::exec::cpu {

// Returns exp(x) with an error of at most 2 units in the last place. The result is 0 below -86.9,
// so that there are no denormals, and infinite above 88.72.
inline float exp_of(float x) {
  // x = n ln 2 + r with |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to an integer, which is then in
  // the low bits of the sum.
  constexpr float to_integer = 12582912.0F;
  const float shifted = x * 1.44269504F + to_integer;
  const float n = shifted - to_integer;
  // ln 2 is split in two parts. The first has few bits, so that its product with n is exact.
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  // Taylor's series of exp(r). The first omitted term is r^8/8! < 6e-9.
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  // 2^n is applied as two factors, because n can be 128.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23U;
  const float power = std::bit_cast<float>(exponent + 0x3F000000U);  // 2^(n-1)
  const float result = (sum * 2.0F) * power;
  const float low = x < -86.9F ? 0.0F : result;
  return x > 88.72F ? std::numeric_limits<float>::infinity() : low;
}
inline double exp_of(double x) { return std::exp(x); }

// Returns the logistic function, 1 / (1 + exp(-x)).
template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

// Returns tanh(x) with a relative error below 1e-6. From |x| = 0.35 on, it is 1 - 2 / (1 +
// exp(2|x|)) with the sign of x. That form loses digits for smaller |x|, where Taylor's series is
// used instead. The first omitted term of the series is below 3e-9 |x|.
inline float tanh_of(float x) {
  const float size = std::fabs(x), square = x * x;
  float sum = 21844.0F / 6081075;
  sum = sum * square - 1382.0F / 155925;
  sum = sum * square + 62.0F / 2835;
  sum = sum * square - 17.0F / 315;
  sum = sum * square + 2.0F / 15;
  sum = sum * square - 1.0F / 3;
  sum = sum * square + 1.0F;
  const float far = std::copysign(1.0F - 2.0F / (1.0F + exp_of(2.0F * size)), x);
  return size < 0.35F ? x * sum : far;
}
inline double tanh_of(double x) { return std::tanh(x); }

// Returns the derivative of tanh, 4 e / (1 + e)^2 with e = exp(-2|x|). The usual form 1 - tanh(x)^2
// would lose digits where the derivative is small.
template <typename T>
T tanh_slope_of(T x) {
  const T e = exp_of(T(-2) * std::fabs(x));
  const T sum = T(1) + e;
  return T(4) * e / (sum * sum);
}

// Returns the normal distribution function, Phi(x) = erfc(-x / sqrt 2) / 2. The relative error is
// below 1e-6 for x > -5, and the absolute error is below 2e-7 everywhere.
inline float normal_cdf(float x) {
  // erfc(z) = t P(t) exp(-z^2) with t = 1 / (1 + 0.4 z). The polynomial P interpolates at the
  // Chebyshev points of z in [0, 9.5], with a relative error of 9e-8.
  const float z = std::fabs(x) * 0.707106781F;
  const float t = 1.0F / (1.0F + 0.4F * z);
  float p = 0.03738383429375591F;
  p = p * t - 0.12183466405175557F;
  p = p * t + 0.04653391121973035F;
  p = p * t + 0.1298883995964711F;
  p = p * t + 0.051478724103560684F;
  p = p * t + 0.20513115582027613F;
  p = p * t + 0.19896605273588908F;
  p = p * t + 0.2268410884434061F;
  p = p * t + 0.2256115327003001F;
  const float tail = 0.5F * t * p * exp_of(-0.5F * x * x);
  return x < 0 ? tail : 1.0F - tail;
}
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }

// Returns the density of the normal distribution, exp(-x^2 / 2) / sqrt(2 pi).
template <typename T>
T normal_density(T x) {
  return T(0.39894228040143267794) * exp_of(T(-0.5) * x * x);
}

}  // namespace meshwright::exec::cpu
