// Cross-entropy over a vocabulary (whole, or sharded over the ranks of a tensor group), and over
// the positions of a sequence (question answering).
#include <algorithm>
#include <cmath>

#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"
#include "models/core/error.h"

namespace meshwright::exec::cpu {

namespace {

// The columns of the vocabulary that this rank's logits have. Columns past the unpadded size are
// masked, with the same result as a logit of -infinity.
struct Columns {
  std::int64_t width = 0;    // columns of the logits
  std::int64_t first = 0;    // number of column 0 in the whole vocabulary
  std::int64_t visible = 0;  // columns that are not masked

  explicit Columns(const KernelCall& k) : width(k.in_shape(0)[1]), visible(width) {
    const Attributes& a = k.attributes();
    if (a.vocabulary_parallel) first = k.context.tensor_rank * width;
    if (a.vocabulary > 0) visible = std::clamp<std::int64_t>(a.vocabulary - first, 0, width);
  }
  // Returns the column of the target's logit, or -1 if it is not among this rank's visible columns:
  // another rank has it, or the target is not in the vocabulary.
  std::int64_t of(std::int32_t target) const {
    const std::int64_t column = target - first;
    return column >= 0 && column < visible ? column : -1;
  }
};

// Returns the factor of a loss's gradient: the operation's scale, times the loss scale if there is
// one. A loss scale is the operand after the targets.
template <typename T>
T scale_of(const KernelCall& k) {
  const T scale = static_cast<T>(k.attributes().scale);
  return k.call.inputs.size() > 3 ? scale * k.in<T>(3)[0] : scale;
}

}  // namespace

template <typename T>
void cross_entropy(const KernelCall& k) {
  const Columns columns(k);
  const T* logits = k.in<T>(0);
  const std::int32_t* targets = k.in<std::int32_t>(1);
  T* loss = k.out<T>(0);
  T* saved = k.out<T>(1);
  parallel_for(k.pool, k.in_shape(0)[0], rows_per_piece(columns.width),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   if (targets[r] == ignored_target) {
                     loss[r] = saved[r] = 0;
                     continue;
                   }
                   const T* row = logits + r * columns.width;
                   const std::int64_t target = columns.of(targets[r]);
                   MESHWRIGHT_CHECK(target >= 0, "a target is in the vocabulary");
                   const T maximum = maximum_of(row, columns.visible);
                   saved[r] = maximum + std::log(sum_of_exp(row, columns.visible, maximum));
                   loss[r] = saved[r] - row[target];
                 }
               });
}

// Writes three statistics of each row over this rank's columns: the maximum, the sum of exp(logit -
// maximum), and the target's logit (0 on the ranks that do not have it). An ignored row gets values
// whose combined loss is 0.
template <typename T>
void cross_entropy_stats(const KernelCall& k) {
  const Columns columns(k);
  const std::int64_t n = k.in_shape(0)[0];
  const T* logits = k.in<T>(0);
  const std::int32_t* targets = k.in<std::int32_t>(1);
  T* stats = k.out<T>(0);
  parallel_for(k.pool, n, rows_per_piece(columns.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (targets[r] == ignored_target) {
        stats[r] = stats[2 * n + r] = 0;
        stats[n + r] = columns.first == 0 ? 1 : 0;
        continue;
      }
      const T* row = logits + r * columns.width;
      const std::int64_t target = columns.of(targets[r]);
      const T maximum = maximum_of(row, columns.visible);
      stats[r] = maximum;
      stats[n + r] = sum_of_exp(row, columns.visible, maximum);
      stats[2 * n + r] = target < 0 ? T(0) : row[target];
    }
  });
}

// Computes each row's loss and log-sum-exp from the statistics of all ranks, which are stored one
// after the other in the order of the ranks.
template <typename T>
void cross_entropy_combine(const KernelCall& k) {
  const std::int64_t ranks = k.in_shape(0)[0] / 3, n = k.in_shape(0)[1];
  const T* stats = k.in<T>(0);
  T* loss = k.out<T>(0);
  T* saved = k.out<T>(1);
  for (std::int64_t r = 0; r < n; ++r) {
    T maximum = stats[r];
    for (std::int64_t t = 1; t < ranks; ++t) maximum = std::max(maximum, stats[3 * t * n + r]);
    T sum = 0, target_logit = 0;
    for (std::int64_t t = 0; t < ranks; ++t) {
      const T* of_rank = stats + 3 * t * n + r;
      sum += of_rank[n] * std::exp(of_rank[0] - maximum);
      target_logit += of_rank[2 * n];
    }
    saved[r] = maximum + std::log(sum);
    loss[r] = saved[r] - target_logit;
  }
}

// Computes the gradient of the logits: (softmax - 1 at the target) * scale, and exactly 0 in masked
// columns and ignored rows.
template <typename T>
void cross_entropy_grad(const KernelCall& k) {
  const Columns columns(k);
  const T scale = scale_of<T>(k);
  const T* logits = k.in<T>(0);
  const T* saved = k.in<T>(1);
  const std::int32_t* targets = k.in<std::int32_t>(2);
  T* d_logits = k.out<T>(0);
  parallel_for(k.pool, k.in_shape(0)[0], rows_per_piece(columns.width),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const T* row = logits + r * columns.width;
                   T* out = d_logits + r * columns.width;
                   if (targets[r] == ignored_target) {
                     std::fill_n(out, columns.width, T(0));
                     continue;
                   }
                   const T log_sum = saved[r];
#pragma omp simd
                   for (std::int64_t c = 0; c < columns.visible; ++c)
                     out[c] = exp_of(row[c] - log_sum) * scale;
                   std::fill(out + columns.visible, out + columns.width, T(0));
                   const std::int64_t target = columns.of(targets[r]);
                   if (target >= 0) out[target] -= scale;
                 }
               });
}

namespace {

// One classification of question answering: over the sequence's tokens, for the start (0) or the
// end (1) of the answer.
template <typename T>
struct Span {
  const T* logits;  // token 0's; token i's is at 2 * i
  std::int64_t tokens;
  std::int64_t target;

  Span(const KernelCall& k, std::size_t targets_input, std::int64_t index) {
    tokens = k.attributes().sequence_length;
    logits = k.in<T>(0) + index / 2 * tokens * 2 + index % 2;
    target = k.in<std::int32_t>(targets_input)[index];
    MESHWRIGHT_CHECK(target >= 0 && target < tokens, "an answer is in its sequence");
  }
};

}  // namespace

template <typename T>
void span_loss(const KernelCall& k) {
  T* loss = k.out<T>(0);
  T* saved = k.out<T>(1);
  for (std::int64_t i = 0; i < k.in_shape(1).elements(); ++i) {
    const Span<T> span(k, 1, i);
    T maximum = span.logits[0];
    for (std::int64_t j = 1; j < span.tokens; ++j) maximum = std::max(maximum, span.logits[2 * j]);
    T sum = 0;
    for (std::int64_t j = 0; j < span.tokens; ++j) sum += std::exp(span.logits[2 * j] - maximum);
    saved[i] = maximum + std::log(sum);
    loss[i] = saved[i] - span.logits[2 * span.target];
  }
}

template <typename T>
void span_loss_grad(const KernelCall& k) {
  const T scale = scale_of<T>(k);
  const T* saved = k.in<T>(1);
  T* d_logits = k.out<T>(0);
  for (std::int64_t i = 0; i < k.in_shape(2).elements(); ++i) {
    const Span<T> span(k, 2, i);
    T* out = d_logits + (span.logits - k.in<T>(0));
    for (std::int64_t j = 0; j < span.tokens; ++j)
      out[2 * j] = std::exp(span.logits[2 * j] - saved[i]) * scale;
    out[2 * span.target] -= scale;
  }
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(cross_entropy),
    MESHWRIGHT_CPU_ROW(cross_entropy_stats),
    MESHWRIGHT_CPU_ROW(cross_entropy_combine),
    MESHWRIGHT_CPU_ROW(cross_entropy_grad),
    MESHWRIGHT_CPU_ROW(span_loss),
    MESHWRIGHT_CPU_ROW(span_loss_grad),
};

std::span<const Row> loss_rows() { return rows; }

}  // namespace meshwright::exec::cpu
