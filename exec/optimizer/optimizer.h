// One optimizer step over a flat part of the parameters, in fp32.
// adamw: moments m, v; weights shrink by learning_rate * weight_decay (Loshchilov and Hutter 2019).
// adam: the decay is added to the gradient. sgd: m = momentum * m + g, weights -= learning_rate *
// m.
#pragma once

#include <cstdint>
#include <span>

#include "exec/backends/cpu/thread_pool.h"
#include "models/plan/plan.h"

namespace meshwright {

// Consecutive elements that are treated alike.
struct OptimizerSegment {
  std::int64_t begin = 0, count = 0;
  bool decay = true;  // weight decay applies
};

struct OptimizerState {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;  // adam, adamw
};

struct OptimizerScalars {
  int step = 1;  // counts from 1: the bias correction needs it
  double learning_rate = 0;
  double gradient_factor = 1;  // clipping
};

// Elements outside the segments are left alone. Each element's result depends on nothing else, so
// the number of threads does not change it. lamb is NotSupportedYet.
void optimizer_step(const Training& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    cpu::ThreadPool& pool);

void check_supported(OptimizerKind kind);  // InputError for lamb, before anything is started

}  // namespace meshwright
