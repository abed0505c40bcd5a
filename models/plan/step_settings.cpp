#include "models/plan/step_settings.h"

namespace meshwright {

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"adamw", "adam", "lamb",     "sgd",
                                                 "lion",  "muon", "adafactor"};
  return names;
}

const std::vector<std::string>& attention_names() {
  static const std::vector<std::string> names = {"unfused", "flash", "flash2", "flash3", "cudnn"};
  return names;
}

const std::vector<std::string>& master_weights_names() {
  static const std::vector<std::string> names = {"fp32", "remainders", "none"};
  return names;
}

const std::vector<std::string>& compiler_names() {
  static const std::vector<std::string> names = {"none", "fused", "full"};
  return names;
}

const std::vector<std::string>& learning_rate_schedule_names() {
  static const std::vector<std::string> names = {"constant", "linear", "cosine",
                                                 "warmup_stable_decay", "inverse_sqrt"};
  return names;
}

}  // namespace meshwright
