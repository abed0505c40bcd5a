// Adafactor (Shazeer and Stern 2018) on a flat part of the parameters. Of a matrix it keeps the
// means of squared gradients of every row and column, whose product divided by the mean of all
// stands for the second moment of an element; of other parameters the second moment itself. No
// first moment. A step is three passes over a bucket, between which the ranks that hold the parts
// of a parameter add what they found:
//   adafactor_sums     squares of rows and columns
//   adafactor_norms    factors and moments move on; squared norms of parameters and their updates
//   optimizer_step     weights
// With t the number of the update, beta = 1 - t^decay_rate, g the gradient:
//   R = beta R + (1 - beta) (mean of g^2 over a row + eps1), C the same of columns
//   u = g / sqrt(R / mean(R) * C), of what is no matrix v = beta v + (1 - beta) (g^2 + eps1) and
//   u = g / sqrt(v)
//   a = learning rate, with relative_step at most 1 / sqrt(t); with scale_parameter times
//   max(eps2, rms(weights))
//   weights = weights (1 - a decay) - a u / max(1, rms(u) / clip_threshold)
#pragma once

#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"

namespace meshwright {

// A parameter that a rank holds elements of. OptimizerSegment::factors are R, then C, and
// factor_sums this step's sums of squares of rows, then of columns; from adafactor_norms on what
// the gradients of a row, and of a column, are multiplied by.
struct AdafactorParameter {
  std::int64_t rows = 0, columns = 0;  // of the whole matrix; 0: no factors are kept
  std::int64_t elements = 0;           // of the whole parameter
  WholePlaces places;                  // of this rank's part in the whole matrix
  std::int64_t width = 0;              // elements of one of the part's rows
};

// Adds to the sums; nothing where another rank has the same elements (OptimizerSegment::counted).
void adafactor_sums(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool);
// The sums are those of all ranks. Adds to the segments' norms.
void adafactor_norms(const StepSettings& training, const OptimizerScalars& scalars,
                     std::span<const OptimizerSegment> segments, const OptimizerState& state,
                     ThreadPool& pool);
// The norms are those of all ranks.
void adafactor_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool);

}  // namespace meshwright
