#include "models/architectures/hub_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "models/architectures/model.h"

namespace meshwright::architectures {

namespace {

// Models that other people made from one of the zoo, or that differ from it in what is learnt
// alone. The first row that a name begins with holds. Without `of` the model has a shape of its
// own.
struct SameShape {
  std::string_view begin, of;
};
constexpr SameShape same_shapes[] = {
    {"llama-3.3-70b", "llama-3.1-70b"},
    {"llama-3.1-405b", "llama-3-405b"},
    {"deepseek-r1-distill-llama-8b", "llama-3.1-8b"},
    {"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    {"deepseek-r1-distill-qwen-7b", "qwen2.5-7b"},
    {"deepseek-r1-distill-qwen-14b", "qwen2.5-14b"},
    {"deepseek-r1-distill-qwen-32b", "qwen2.5-32b"},
    {"qwen2.5-coder-7b", "qwen2.5-7b"},
    {"qwen2.5-coder-14b", "qwen2.5-14b"},
    {"qwen2.5-coder-32b", "qwen2.5-32b"},
    {"qwen2.5-math-7b", "qwen2.5-7b"},
    {"open-llama-7b", "llama-7b"},
    {"open-llama-13b", "llama-13b"},
    {"vicuna-7b", "llama-2-7b"},
    {"vicuna-13b", "llama-2-13b"},
    {"zephyr-7b-gemma", ""},
    {"zephyr-7b", "mistral-7b-v0.1"},
    {"mistral-7b", "mistral-7b-v0.1"},
    {"mistral-nemo", "mistral-nemo-base-2407"},
    {"mistral-small-24b", "mistral-small-24b-base-2501"},
    {"mixtral-8x7b", "mixtral-8x7b"},
    {"mixtral-8x22b", "mixtral-8x22b"},
    {"tinyllama", "tinyllama-1.1b"},
    {"smollm-135m", "smollm2-135m"},
    {"smollm-360m", "smollm2-360m"},
    {"smollm-1.7b", "smollm2-1.7b"},
    {"yi-1.5-6b", "yi-6b"},
    {"yi-1.5-34b", "yi-34b"},
    {"starcoderbase-", ""},  // -1b, -3b, -7b
    {"starcoderbase", "starcoder"},
};

// How the names of tuned, converted and dated models end.
constexpr std::string_view ends_of_tuned[] = {
    "-hf",      "-instruct", "-chat", "-base",     "-it",     "-v0.1",
    "-v0.2",    "-v0.3",     "-2507", "-bf16",     "-fp8",    "-bnb-4bit",
    "-unsloth", "-deduped",  "-v1.0", "-thinking", "-python", "-sft"};

// Returns the name in lower case without what separates its words, but for what stands between two
// digits: "Llama 3-8B" is "llama3-8b".
std::string joined_words(std::string_view name) {
  const auto is_digit = [&](std::size_t i) {
    return i < name.size() && std::isdigit(static_cast<unsigned char>(name[i]));
  };
  std::string joined;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (std::isalnum(c))
      joined += static_cast<char>(std::tolower(c));
    else if (i > 0 && is_digit(i - 1) && is_digit(i + 1))
      joined += name[i];
  }
  return joined;
}

// Returns whether people write `written` for the zoo's name: "gpt-2" for gpt2, "qwen2-5-7b" for
// qwen2.5-7b. No digits are joined: "opt-27b" is not opt-2.7b.
bool is_written_for(std::string_view written, std::string_view zoo) {
  return std::ranges::equal(joined_words(written), joined_words(zoo), [](char one, char other) {
    return one == other || (one == '-' && other == '.');
  });
}

// Returns the zoo's name that this is written for, or "" if it is none or several.
std::string zoo_name_written(std::string_view name) {
  std::string found;
  for (const std::string& each : zoo_names()) {
    if (!is_written_for(name, each)) continue;
    if (!found.empty()) return "";
    found = each;
  }
  return found;
}

}  // namespace

std::string zoo_name_of(const std::string& hub_name) {
  std::string name = hub_name;
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.rfind('/') + 1);
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  });
  if (name.starts_with("meta-")) name.erase(0, 5);
  const auto known = [](const std::string& each) {
    return is_zoo_name(each) ? each : std::string();
  };
  // Tuned models have the shape of those that they were made from.
  for (;;) {
    if (const std::string found = known(name); !found.empty()) return found;
    for (const SameShape& row : same_shapes)
      if (name.starts_with(row.begin)) return std::string(row.of);
    bool is_shorter = false;
    for (const std::string_view end : ends_of_tuned)
      if (name.ends_with(end)) {
        name.resize(name.size() - end.size());
        is_shorter = true;
        break;
      }
    if (!is_shorter) break;
  }
  return zoo_name_written(name);
}

}  // namespace meshwright::architectures
