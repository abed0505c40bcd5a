// The step's end on a device: the arithmetic of exec/optimizer, with all that changes from step to
// step in device memory (exec/optimizer/device_scalars.h). A step is, on one stream:
//   update_loss_scale (fp16), prepare_update, for every bucket lamb_norms (LAMB; then the norms are
//   summed over the ranks), for every bucket optimizer_step.
// Nothing waits for the host. Addresses are in device memory, unless said otherwise.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/device_scalars.h"
#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"

namespace meshwright::cuda {

// An OptimizerSegment as kernels find it: blocks of threads take its elements chunk by chunk.
struct DeviceSegment {
  std::int64_t begin, end;               // elements of the bucket
  std::int64_t first_chunk;              // chunks of the segments before it
  double* norms;                         // lamb: of the whole parameter; else null
  std::int32_t next_of_parameter;        // the next segment with the same norms; none: -1
  std::int8_t decay, counted, is_first;  // is_first: of those with the same norms
  float scale;                           // muon: of the update
  RandomRounding rounding;               // of moments, where they are rounded at random
  std::int64_t first;                    // the first element's place in the part of the parameter
  AdafactorParameter adafactor;
  float* factors;
  double* factor_sums;
};

// The segments of one bucket, in one launch. `data` is a copy of what device_segments made.
struct DeviceSegments {
  const DeviceSegment* data = nullptr;
  int count = 0;
  std::int64_t chunks = 0;
};

// Returns the segments of a bucket, made once. The caller copies the vector to the device. The
// segments' `norms` are device addresses.
std::vector<DeviceSegment> device_segments(std::span<const OptimizerSegment> segments);
// Returns the segments as kernels take them, with the address of the copy.
DeviceSegments segments_at(const DeviceSegment* copy, const std::vector<DeviceSegment>& segments);

// after_step (exec/optimizer/loss_scale_rule.h), from the loss [1] and the squared norm [1] of the
// scaled gradients; `loss_scale` [1] becomes that of the next step. A loss that is not finite
// changes nothing.
void update_loss_scale(const LossScale& rule, const double* loss, const double* squared_norm,
                       UpdateScalars* scalars, float* loss_scale, cudaStream_t stream);

// Decides whether there is an update, and computes its factors. Called once a step, after
// update_loss_scale if the loss is scaled. A step whose loss or norm is not finite has no update.
void prepare_update(const StepSettings& training, const double* loss, const double* squared_norm,
                    UpdateScalars* scalars, cudaStream_t stream);

// meshwright::muon_momentum.
void muon_momentum(const UpdateScalars* scalars, const DeviceSegments& segments,
                   const OptimizerState& state, cudaStream_t stream);

// meshwright::adafactor_sums and adafactor_norms, of segments in host memory and their copy;
// `partial` as for lamb_norms. In a fixed order.
void adafactor_sums(const UpdateScalars* scalars, std::span<const DeviceSegment> segments,
                    const OptimizerState& state, cudaStream_t stream);
void adafactor_norms(const StepSettings& training, const UpdateScalars* scalars,
                     std::span<const DeviceSegment> segments, const DeviceSegments& copy,
                     const OptimizerState& state, void* partial, cudaStream_t stream);

// meshwright::optimizer_step on the segments of one bucket, if there is an update. Elements between
// the segments are left alone. The state's `scratch` is not used. Fastest where all its addresses
// are aligned to 16 bytes.
void optimizer_step(const StepSettings& training, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream);

// meshwright::lamb_norms; `partial` holds lamb_scratch_bytes, aligned to 16. In a fixed order.
void lamb_norms(const StepSettings& training, const UpdateScalars* scalars,
                const DeviceSegments& segments, const OptimizerState& state, void* partial,
                cudaStream_t stream);
std::int64_t lamb_scratch_bytes(const DeviceSegments& segments);

// meshwright::update_choice_biases, of so many.
void update_choice_biases(double rate, const UpdateScalars* scalars, const ChoiceBias* biases,
                          std::int64_t count, const OptimizerState& state, cudaStream_t stream);

}  // namespace meshwright::cuda
