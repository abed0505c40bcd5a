// Values of accelerate and PyTorch that the plans for accelerate take over.
#pragma once

#include <cstdint>

#include "models/program/step_settings.h"

namespace meshwright::compiler {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t ddp_bucket_mebibytes = 25;  // the default of DistributedDataParallel

// The settings of torch.amp.GradScaler. GradScaler has no lower limit of the scale, so `minimum` is
// set to 1.
inline constexpr LossScale scale_of_grad_scaler = {
    .dynamic = true, .initial = 65536, .factor = 2, .minimum = 1, .window = 2000, .hysteresis = 1};

}  // namespace meshwright::compiler
