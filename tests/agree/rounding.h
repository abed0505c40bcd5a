// How far two runs in 16 bits, or 8 or 4, may be apart, and how far they are.
// Cutting a model changes where numbers are rounded, not
// what is computed: partial sums of a tensor group are rounded before they are added, gradients of
// micro-batches are. With u the unit roundoff (2^-11 in fp16, 2^-8 in bf16, 2^-4 in fp8, 2^-2 in
// nvfp4), a
// rounding is off by at most u of the number, 0.4 u as a root mean square (uniform within half a
// step, numbers anywhere between two powers of two), in either direction. Loss: the residual of
// eight blocks is stored after each of 16 additions: off by sqrt(16) 0.4 u = 1.6 u of itself, and
// so are the logits, which are 0.11 in size (a normalised row of 32 times weights of 0.02): 0.18 u.
// The loss is the mean over 64 targets, whose errors are independent: a standard deviation of 0.18
// u / 8 = 0.023 u. The bound is five of those, 0.12 u, and holds between a 16-bit run and the fp32
// run as well. Weights: gradients pass the 16 additions backwards, and are products with
// activations that passed them forwards: off by sqrt(2) 1.6 u = 2.3 u of themselves, as is what SGD
// adds up of them.
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
