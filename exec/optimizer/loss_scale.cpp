#include "exec/optimizer/loss_scale.h"

#include <type_traits>

#include "models/core/error.h"

namespace meshwright::exec {

LossScaleState first_state(const StepSettings& training) {
  if (!training.scales_loss()) return {};
  const LossScale rule = training.settled_loss_scale();
  return {rule.initial, 0, rule.hysteresis, 0};
}

std::map<std::string, double> to_numbers(const LossScaleState& state) {
  return {{"loss_scale", state.scale},
          {"loss_scale_good_steps", static_cast<double>(state.good_steps)},
          {"loss_scale_hysteresis_left", static_cast<double>(state.hysteresis_left)}};
}

LossScaleState from_numbers(const std::map<std::string, double>& numbers, LossScaleState state) {
  const auto take = [&](const char* key, double least, double most, auto& value) {
    const auto found = numbers.find(key);
    if (found == numbers.end()) return;
    if (!(found->second >= least && found->second <= most))
      throw InputError(std::string(key) + ": " + std::to_string(found->second) +
                       " is out of range; use " + std::to_string(least) + " or more");
    value = static_cast<std::remove_reference_t<decltype(value)>>(found->second);
  };
  constexpr double many = 0x1p53;
  take("loss_scale", 1 / largest_loss_scale, largest_loss_scale, state.scale);
  take("loss_scale_good_steps", 0, many, state.good_steps);
  take("loss_scale_hysteresis_left", 1, many, state.hysteresis_left);
  return state;
}

}  // namespace meshwright::exec
