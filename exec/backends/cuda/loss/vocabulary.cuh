// Code that the kernels of cross-entropy share.
#pragma once

#include <algorithm>
#include <cmath>

#include "exec/backends/cuda/rows/softmax.cuh"

namespace meshwright::exec::cuda {

// The columns of the vocabulary that this rank's logits have. Columns past the unpadded size are
// masked, with the same result as a logit of -infinity.
struct Columns {
  int width = 0;        // of the logits
  long long first = 0;  // number of column 0 in the whole vocabulary
  int visible = 0;      // columns that are not masked

  explicit Columns(const KernelCall& k) : width(width_of(k.in_shape(0)[1])), visible(width) {
    const Attributes& a = k.attributes();
    if (a.vocabulary_parallel) first = static_cast<long long>(k.context.tensor_rank) * width;
    if (a.vocabulary > 0)
      visible = static_cast<int>(std::clamp<long long>(a.vocabulary - first, 0, width));
  }
  // Returns the column of the target's logit, or -1 if it is not among this rank's visible columns:
  // another rank has it, or the target is not in the vocabulary.
  __device__ int of(int target) const {
    const long long column = target - first;
    return column >= 0 && column < visible ? static_cast<int>(column) : -1;
  }
  // Returns the gradient of a logit: softmax * factor, minus factor at the target. Masked columns
  // get exactly 0, and so do all columns if `factor` is 0.
  __device__ float gradient(int column, float logit, float log_sum, float factor,
                            int target) const {
    if (column >= visible || factor == 0.0f) return 0.0f;  // even if the logit is NaN
    const float share = exp_below_0(logit - log_sum) * factor;
    return column == target ? share - factor : share;
  }
};

// Returns element `target` of a row of logits. If the target is negative, because it is none of the
// row's columns, returns NaN, so that the loss becomes NaN.
template <typename T>
__device__ inline float logit_of(const T* row, int target) {
  return target >= 0 ? widened(row[target]) : NAN;
}

// Returns the address of the loss scale that cross_entropy_grad or span_loss_grad takes as the
// operand after the targets, or null if there is none.
inline const float* loss_scale_of(const KernelCall& k) {
  return k.call.inputs.size() > 3 ? k.in<float>(3) : nullptr;
}

}  // namespace meshwright::exec::cuda
