// The optimizer step on a device: the arithmetic of exec/optimizer, with everything that changes
// from step to step in device memory (exec/optimizer/device_scalars.h). A step issues
// update_loss_scale() (fp16), then prepare_update(), then on each bucket the passes that its
// optimizer needs before the step (lamb_norms(), muon_momentum(), adafactor_sums(),
// adafactor_norms()) and optimizer_step(), and update_choice_biases() for routers. The host waits
// for none of these. Addresses are in device memory, unless a comment says otherwise.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/device_scalars.h"
#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"

namespace meshwright::exec::cuda {

// An OptimizerSegment in the form that kernels use. Blocks of threads take its elements chunk by
// chunk.
struct DeviceSegment {
  std::int64_t begin, end;               // elements of the bucket
  std::int64_t first_chunk;              // number of chunks of the segments before it
  double* norms;                         // lamb, adafactor: see OptimizerSegment; else null
  std::int32_t next_of_parameter;        // the next segment with the same norms, or -1
  std::int8_t decay, counted, is_first;  // is_first: of those with the same norms
  float scale;                           // muon: factor of the update, else 1
  RandomRounding rounding;               // of moments, if they are rounded at random
  std::int64_t first;  // index of its first element in this rank's part of the parameter
  AdafactorParameter adafactor;
  float* factors;
  double* factor_sums;
};

// The segments of one bucket, for one launch. `data` is a copy, in device memory, of what
// device_segments() returned.
struct DeviceSegments {
  const DeviceSegment* data = nullptr;
  int count = 0;
  std::int64_t chunks = 0;
};

// Returns the segments of a bucket that are not empty, in the form that kernels use. Called once
// for each bucket. The caller keeps a copy of the vector in device memory. The segments' `norms`
// must be device addresses.
std::vector<DeviceSegment> device_segments(std::span<const OptimizerSegment> segments);
// Returns the segments in the form for a launch. `copy` is the address of their copy in device
// memory. Without segments, `data` is null.
DeviceSegments segments_at(const DeviceSegment* copy, const std::vector<DeviceSegment>& segments);

// Applies after_step() (exec/optimizer/loss_scale_rule.h) to the loss [1] and the squared norm [1]
// of the scaled gradients, and writes the next step's scale to `loss_scale` [1]. A norm that is not
// finite counts as an overflow, and the step has no update. If the loss is not finite, the scale
// and `loss_scale` stay as they are.
void update_loss_scale(const LossScale& rule, const double* loss, const double* squared_norm,
                       UpdateScalars* scalars, float* loss_scale, cudaStream_t stream);

// Decides whether the step has an update, and computes its factors. Called once a step, after
// update_loss_scale() if the loss is scaled. A step has no update if its loss or norm is not
// finite.
void prepare_update(const StepSettings& training, const double* loss, const double* squared_norm,
                    UpdateScalars* scalars, cudaStream_t stream);

// Does on the device what exec::muon_momentum does, if there is an update.
void muon_momentum(const UpdateScalars* scalars, const DeviceSegments& segments,
                   const OptimizerState& state, cudaStream_t stream);

// These two functions do on the device what exec::adafactor_sums and exec::adafactor_norms do, if
// there is an update, and add in a fixed order. `segments` are in host memory, and `copy` is their
// copy on the device. `partial` is scratch memory, as for lamb_norms().
void adafactor_sums(const UpdateScalars* scalars, std::span<const DeviceSegment> segments,
                    const OptimizerState& state, cudaStream_t stream);
void adafactor_norms(const StepSettings& training, const UpdateScalars* scalars,
                     std::span<const DeviceSegment> segments, const DeviceSegments& copy,
                     const OptimizerState& state, void* partial, cudaStream_t stream);

// Does on the device what exec::optimizer_step does on the segments of one bucket, if there is an
// update. If the state has an `update` (muon), it must be orthogonal already (orthogonal.h).
// Elements between the segments stay as they are. This is fastest if all addresses of the state are
// aligned to 16 bytes.
void optimizer_step(const StepSettings& training, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream);

// Does on the device what exec::lamb_norms does, if there is an update, and adds in a fixed order.
// `partial` is scratch memory of lamb_scratch_bytes() bytes, aligned to 16.
void lamb_norms(const StepSettings& training, const UpdateScalars* scalars,
                const DeviceSegments& segments, const OptimizerState& state, void* partial,
                cudaStream_t stream);
std::int64_t lamb_scratch_bytes(const DeviceSegments& segments);

// Does on the device what exec::update_choice_biases does, if there is an update. `count` is the
// number of elements of `biases`.
void update_choice_biases(double rate, const UpdateScalars* scalars, const ChoiceBias* biases,
                          std::int64_t count, const OptimizerState& state, cudaStream_t stream);

}  // namespace meshwright::exec::cuda
