#include "models/program/step_settings.h"

#include "models/core/enum_words.h"

namespace meshwright::program {

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = words_up_to<OptimizerKind::adafactor>(
      {"adamw", "adam", "lamb", "sgd", "lion", "muon", "adafactor"});
  return names;
}

const std::vector<std::string>& attention_names() {
  static const std::vector<std::string> names =
      words_up_to<AttentionKernel::cudnn>({"unfused", "flash", "flash2", "flash3", "cudnn"});
  return names;
}

const std::vector<std::string>& master_weights_names() {
  static const std::vector<std::string> names =
      words_up_to<MasterWeights::none>({"fp32", "remainders", "none"});
  return names;
}

const std::vector<std::string>& compiler_names() {
  static const std::vector<std::string> names =
      words_up_to<CompilerLevel::full>({"none", "fused", "full"});
  return names;
}

const std::vector<std::string>& learning_rate_schedule_names() {
  static const std::vector<std::string> names = words_up_to<LearningRateSchedule::inverse_sqrt>(
      {"constant", "linear", "cosine", "warmup_stable_decay", "inverse_sqrt"});
  return names;
}

}  // namespace meshwright::program
