#include "models/program/framework.h"

#include "models/core/enum_words.h"

namespace meshwright::program {

const std::vector<std::string>& framework_words() {
  static const std::vector<std::string> words = words_up_to<Framework::tensorflow>(
      {"meshwright", "megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "accelerate",
       "sagemaker", "hyperpod", "transformers", "pytorch", "jax", "tensorflow"});
  return words;
}

}  // namespace meshwright::program
