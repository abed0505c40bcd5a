// One optimizer step over a flat part of the parameters. It computes in fp32, whatever types the
// states are kept in, or in fp64 if all arrays are in fp64. g is the gradient, m and v are the
// first and the second moment.
//   adamw: weights shrink by learning_rate * weight_decay (Loshchilov and Hutter 2019).
//   adam: the decay is added to the gradient.
//   sgd: the decay is added to the gradient, m = momentum * m + g, weights -= learning_rate * m.
//   lion: the update is the sign of beta1 * m + (1 - beta1) * g, and m is the mean by beta2.
//       The decay is as in adamw (Chen et al. 2023).
//   lamb: Adam's update with the decay added to it, scaled by |weights| / |update| of the whole
//       parameter (You et al. 2019), in two halves: lamb_norms(), then optimizer_step().
//   muon: orthogonal updates of matrices, made from muon_momentum(). Other parameters get adamw.
//   adafactor: see adafactor.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/core/thread_pool.h"
#include "models/program/step_settings.h"

namespace meshwright::exec {

// muon: `count` whole matrices, one after the other. The ranks of a tensor group may hold parts of
// them.
struct WholeMatrix {
  std::int64_t count = 1, rows = 0, columns = 0;
  int cut_dim = -1;                         // 0: rows, 1: columns; -1: this rank has all
  std::vector<std::int64_t> segments = {};  // sizes along cut_dim; a rank has a part of each
  int parts = 1, part = 0;
};

struct RandomRounding;
struct AdafactorParameter;

// Consecutive elements of one parameter, by their indices in this rank's part of a bucket.
struct OptimizerSegment {
  std::int64_t begin = 0, count = 0;
  bool decay = true;        // weight decay applies
  double* norms = nullptr;  // lamb, adafactor: squared norms of the whole parameter and its update
  bool counted = true;      // false: another rank adds these elements to norms
  const WholeMatrix* matrix = nullptr;       // muon
  const RandomRounding* rounding = nullptr;  // set if moments are rounded at random
  std::int64_t first = 0;  // index of its first element in this rank's part of the parameter
  const AdafactorParameter* adafactor = nullptr;
  float* factors = nullptr;       // a matrix's: those of its rows, then of its columns
  double* factor_sums = nullptr;  // as many sums as factors
  int parameter = 0;              // index into Program::parameters
};

// The part of a router's choice bias that is among the elements of a bucket.
struct ChoiceBias {
  std::int64_t begin = 0, count = 0;  // elements
  std::int64_t first = 0;             // the expert of the first of them
  std::int64_t experts = 0;           // number of experts in the layer
  const double* counts = nullptr;     // [experts]: tokens that chose each
};

struct OptimizerState {
  // The masters, in fp32 or as the 16 bits that `working` lacks of them (i16). Without masters, the
  // weights, of any type.
  void* weights = nullptr;
  const void* gradients = nullptr;
  void* first_moment = nullptr;
  void* second_moment = nullptr;  // null: the optimizer has none
  Dtype weights_type = Dtype::f32;
  Dtype gradient_type = Dtype::f32;
  // f32, f64, bf16, or block8, which is the first moment's type (the second moment is in block8u).
  // With block8, segments begin where blocks begin.
  Dtype moment_type = Dtype::f32;
  void* working = nullptr;  // the 16-bit copy that is made of the masters
  Dtype working_type = Dtype::f32;
  // muon: the updates that replace the gradients of matrices. `update` holds those of this rank,
  // `updates` those of all ranks that share the matrices.
  float* update = nullptr;
  float* updates = nullptr;
  std::int64_t elements = 0;  // muon: elements of the bucket
  float* scratch = nullptr;   // for eager_optimizer_step(), and for muon
  std::int64_t scratch_elements = 0;
  bool moments_at_random = false;  // bf16: rounded as the segments say; else to nearest
  void* average = nullptr;         // mean of weights over steps, fp32 or fp64
};

struct OptimizerScalars {
  std::int64_t step = 1;  // from 1, without skipped steps: the bias correction needs it
  double learning_rate = 0;
  double gradient_factor = 1;  // clipping, and the inverse of the loss scale
};

// Updates the weights of the segments' elements, their moments unless an earlier pass has done
// that, and the 16-bit copy of masters. The average, if there is one, then moves towards the new
// weights, before these are rounded. Other elements stay as they are. The number of threads does
// not change the results.
void optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool);

// lamb: updates the moments and adds to the segments' norms. The caller then sums the norms of the
// parts of a parameter over the ranks, and optimizer_step() reads the sums.
void lamb_norms(const StepSettings& training, const OptimizerScalars& scalars,
                std::span<const OptimizerSegment> segments, const OptimizerState& state,
                ThreadPool& pool);

// muon: updates the first moment m and writes g + momentum * m to `update`. Segments may be any
// parts of matrices. The caller then makes whole matrices orthogonal, and optimizer_step() reads
// them from `update`.
void muon_momentum(const StepSettings& training, const OptimizerScalars& scalars,
                   std::span<const OptimizerSegment> segments, const OptimizerState& state,
                   ThreadPool& pool);

// Moves each bias by `rate`, in fp32: up if its expert was chosen less often than the mean of the
// layer, down if more often. Otherwise the bias stays.
void update_choice_biases(double rate, std::span<const ChoiceBias> biases,
                          const OptimizerState& state);

// Returns the factor of an orthogonal update. With it, elements are as large as AdamW's usually
// are, whatever the shape (Liu et al. 2025, "Muon is scalable for LLM training").
double muon_scale(const WholeMatrix& matrix);

// Coefficients of the five Newton-Schulz steps X = a X + (b A + c A A) X with A = X X^T that muon
// applies to momentum * m + g (Jordan et al. 2024). They bring all singular values near 1.
inline constexpr int muon_steps = 5;
inline constexpr float muon_a = 3.4445F, muon_b = -4.7750F, muon_c = 2.0315F;
inline constexpr float muon_epsilon = 1e-7F;  // added to the norm that X begins with

}  // namespace meshwright::exec
