// The factor by which fp16 multiplies the loss, so that small gradients do not vanish: static, or
// moved by overflows (Micikevicius et al. 2018). A step whose scaled gradients overflow is skipped.
#pragma once

#include <map>
#include <string>

#include "exec/optimizer/loss_scale_rule.h"
#include "models/program/step_settings.h"

namespace meshwright::exec {

LossScaleState first_state(const StepSettings& training);

// Convert the state to and from what a checkpoint stores of it, in addition to its counts of steps
// and updates. Missing numbers leave the values of `otherwise`. Impossible numbers throw
// InputError.
std::map<std::string, double> to_numbers(const LossScaleState& state);
LossScaleState from_numbers(const std::map<std::string, double>& numbers, LossScaleState otherwise);

}  // namespace meshwright::exec
