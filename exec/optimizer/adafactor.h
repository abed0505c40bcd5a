// Adafactor (Shazeer and Stern 2018) on a flat part of the parameters. For a matrix it keeps the
// means of squared gradients of every row and column. Their product, divided by the mean of all,
// stands for the second moment of an element. For other parameters it keeps the second moment
// itself. There is no first moment. A step is three passes over a bucket. After each of the first
// two, the ranks that hold the parts of a parameter add up what they found:
//   adafactor_sums     squares of rows and columns
//   adafactor_norms    updates factors and moments; squared norms of parameters and their updates
//   optimizer_step     weights
// With t the number of the update, beta = 1 - t^decay_rate, g the gradient:
//   R = beta R + (1 - beta) (mean of g^2 over a row + eps1), C the same for columns
//   u = g / sqrt(R / mean(R) * C) for a matrix, otherwise
//   v = beta v + (1 - beta) (g^2 + eps1) and u = g / sqrt(v)
//   a = learning rate (with relative_step at most 1 / sqrt(t)), with scale_parameter times
//   max(eps2, rms(weights))
//   weights = weights (1 - a decay) - a u / max(1, rms(u) / clip_threshold)
#pragma once

#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"

namespace meshwright::exec {

// A parameter that a rank holds elements of. OptimizerSegment::factors holds R, then C.
// OptimizerSegment::factor_sums holds this step's sums of squares of the rows, then of the columns.
// adafactor_norms() replaces these sums by the factors that multiply the gradients of a row and of
// a column.
struct AdafactorParameter {
  std::int64_t rows = 0, columns = 0;  // the whole matrix's; 0: no factors
  std::int64_t elements = 0;           // the whole parameter's
  WholePlaces places;                  // maps this rank's part to the whole matrix
  std::int64_t width = 0;              // elements of one of the part's rows
};

// Adds the squares of this rank's gradients to the sums of rows and columns. Adds nothing for
// parameters without factors, or if another rank counts the same elements
// (OptimizerSegment::counted).
void adafactor_sums(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool);
// Updates factors and second moments, and adds to the segments' norms. The sums must be those of
// all ranks by now.
void adafactor_norms(const StepSettings& training, const OptimizerScalars& scalars,
                     std::span<const OptimizerSegment> segments, const OptimizerState& state,
                     ThreadPool& pool);
// Updates the weights, and their average if there is one. The norms must be those of all ranks by
// now.
void adafactor_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool);

}  // namespace meshwright::exec
