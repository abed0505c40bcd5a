// Bounds for how far two runs in 16, 8 or 4 bits may differ, and functions that measure how far
// they do. Splitting a model changes where values are rounded, not what is computed: for example,
// partial sums of a tensor group are rounded before they are added, and so are gradients of
// micro-batches.
//
// With u the unit roundoff (2^-11 in fp16, 2^-8 in bf16, 2^-4 in fp8, 2^-2 in nvfp4), a rounding is
// off by at most u of the value, and by 0.4 u as a root mean square, in either direction (uniform
// within half a step, values anywhere between two powers of two).
//
// Loss: the residual of eight blocks is stored after each of 16 additions, so it is off by sqrt(16)
// 0.4 u = 1.6 u of itself. So are the logits, whose size is 0.11 (a normalised row of 32 times
// weights of 0.02): 0.18 u. The loss is the mean over 64 targets, whose errors are independent,
// with a standard deviation of 0.18 u / 8 = 0.023 u. The bound is five of those, 0.12 u, and also
// holds between a 16-bit run and the fp32 run.
//
// Weights: gradients pass the 16 additions backwards, and are products with activations that passed
// them forwards. They are off by sqrt(2) 1.6 u = 2.3 u of themselves, and so is their sum over
// SGD's steps.
#pragma once

#include "tests/agree/training.h"

namespace meshwright::tests {

constexpr double loss_bound = 0.12, update_bound = 2.3;  // in units of u

double unit_of(Precision precision);  // unit roundoff u

// Changes the plan to this precision. The loss scale of fp16 stays at 1024.
void store_in(Precision precision, Plan& plan);

double largest_difference(const Trained& a, const Trained& b);  // of the losses
// Returns |a - b| / |b - begin| over all parameters.
double difference_of_updates(const Trained& a, const Trained& b, const Values& begin);

}  // namespace meshwright::tests
