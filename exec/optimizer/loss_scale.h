// The factor by which fp16 multiplies the loss, so that small gradients do not vanish: static, or
// moved by overflows (Micikevicius et al. 2018). A step whose scaled gradients overflow is skipped.
#pragma once

#include <map>
#include <string>

#include "exec/optimizer/loss_scale_rule.h"
#include "models/program/step_settings.h"

namespace meshwright {

LossScaleState first_state(const StepSettings& training);

// What a checkpoint has of it beside its counts of steps and updates. Numbers that are not there
// leave `otherwise`; impossible ones are an InputError.
std::map<std::string, double> to_numbers(const LossScaleState& state);
LossScaleState from_numbers(const std::map<std::string, double>& numbers, LossScaleState otherwise);

}  // namespace meshwright
