#include "models/architectures/hub_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/core/letters.h"

namespace meshwright::architectures {

namespace {

// Maps names to models of the zoo with the same shape, such as those of models that were trained
// further. The first row applies whose `begin` is the beginning of the name. An empty `of` means
// that the zoo has no model of this shape.
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
    {"deepseek-r1-distill", ""},
    {"deepseek-r1-0528-qwen3-8b", "qwen3-8b"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.2", ""},
    {"deepseek-v3", "deepseek-v3"},
    {"gpt2-small", "gpt2"},
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
    {"starcoderbase-", ""},  // starcoderbase-1b, -3b and -7b
    {"starcoderbase", "starcoder"},
};

// Has the ends of the names of tuned, converted and dated models.
constexpr std::string_view ends_of_tuned[] = {
    "-hf",       "-instruct", "-chat", "-base",     "-it",      "-v0.1",    "-v0.2", "-v0.3",
    "-2507",     "-bf16",     "-fp8",  "-bnb-4bit", "-unsloth", "-deduped", "-v1.0", "-pt",
    "-thinking", "-python",   "-sft",  "-latest",   "-main",    "-text"};

// Has the ends of the names of quantized and converted weights, also of GGUF files: "-q4-k-m" for
// "-Q4_K_M.gguf". `#` stands for a number.
constexpr std::string_view ends_of_quantized[] = {
    ".gguf",   "-bnb-#bit", "-gptq-int#", "-awq-int#", "-gguf",  "-gptq", "-awq",    "-exl2",
    "-mlx",    "-nf4",      "-int#",      "-#bit",     "-w#a#",  "-f16",  "-fp16",   "-fp8",
    "-q#-k-m", "-q#-k-s",   "-q#-k-l",    "-q#-k",     "-q#-0",  "-q#-1", "-iq#-xs", "-iq#-xxs",
    "-iq#-s",  "-iq#-m",    "-iq#-nl",    "-qat",      "-mxfp4", "-nvfp4"};

// Returns the letters and digits of the name in lower case. Of the characters between its words,
// only those between two digits stay: "Llama 3-8B" becomes "llama3-8b".
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

// Returns the zoo's name for which people write `name`, or "" if there is none or there are
// several.
std::string zoo_name_written(std::string_view name) {
  std::string found;
  for (const std::string& each : zoo_names()) {
    if (!is_written_for(name, each)) continue;
    if (!found.empty()) return "";
    found = each;
  }
  return found;
}

// Returns the length of the end of `name` that matches `pattern`, in which # stands for a number.
// Returns 0 if it has another end.
std::size_t length_of_end(std::string_view name, std::string_view pattern) {
  std::size_t at = name.size();
  for (auto sign = pattern.rbegin(); sign != pattern.rend(); ++sign) {
    if (*sign != '#') {
      if (at == 0 || name[at - 1] != *sign) return 0;
      --at;
      continue;
    }
    const std::size_t end = at;
    while (at > 0 && std::isdigit(static_cast<unsigned char>(name[at - 1])) != 0) --at;
    if (at == end) return 0;
  }
  return name.size() - at;
}

// Removes one end that marks a tuned or quantized model, and returns whether there was one.
bool remove_end(std::string& name) {
  const auto remove = [&](std::string_view end) {
    const std::size_t length = length_of_end(name, end);
    name.resize(name.size() - length);
    return length > 0;
  };
  return std::ranges::any_of(ends_of_quantized, remove) ||
         std::ranges::any_of(ends_of_tuned, remove);
}

// Returns the last part of a name or address in lower case, with hyphens for underscores, blanks
// and colons, without a revision after "@" or in the path, and without "meta-" at its beginning.
// The folder of the hub's cache, models--OWNER--NAME, is a name too.
std::string last_part(const std::string& hub_name) {
  std::string name = hub_name;
  for (const char* revision : {"/tree/", "/blob/", "/resolve/"})
    if (const std::size_t at = name.find(revision); at != std::string::npos) name.resize(at);
  if (name.find("models--") != std::string::npos) name.erase(0, name.rfind("--") + 2);
  while (name.ends_with('/') || name.ends_with(' ')) name.pop_back();
  if (const std::size_t revision = name.find('@'); revision != std::string::npos && revision > 0)
    name.resize(revision);
  name.erase(0, name.rfind('/') + 1);
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '_' || c == ' ' || c == ':' ? '-' : static_cast<char>(std::tolower(c));
  });
  if (name.starts_with("meta-")) name.erase(0, 5);
  return name;
}

// Returns the first size in a name, such as "70b" in "70b-llama", or "" if there is none.
std::string size_in(std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(name[i])) == 0) continue;
    const std::size_t end = std::min(name.find_first_not_of("0123456789.", i), name.size());
    const bool is_size =
        end < name.size() && (name[end] == 'b' || name[end] == 'm') &&
        (end + 1 == name.size() || std::isalnum(static_cast<unsigned char>(name[end + 1])) == 0);
    if (is_size) return std::string(name.substr(i, end + 1 - i));
    i = end;
  }
  return "";
}

// Returns the zoo's names with the same letters, or else those that begin with the words of `name`,
// or else one that is near.
std::vector<std::string> zoo_names_near(const std::string& name) {
  std::vector<std::string> found;
  const std::string letters = letters_of(name), joined = joined_words(name);
  if (letters.empty()) return found;
  for (const std::string& each : zoo_names())
    if (letters_of(each) == letters) found.push_back(each);
  if (!found.empty()) return found;
  for (const std::string& each : zoo_names())
    if (joined.size() >= 3 && joined_words(each).starts_with(joined)) found.push_back(each);
  if (!found.empty()) return found;
  // If `joined` begins with names of several words, the longest of these is the near one:
  // bert-large for bert-large-uncased.
  std::string longest;
  for (const std::string& each : zoo_names())
    if (each.size() > longest.size() && each.find('-') != std::string::npos &&
        joined.starts_with(joined_words(each)))
      longest = each;
  if (!longest.empty()) return {longest};
  if (const std::string near = nearest(name, zoo_names()); !near.empty()) found.push_back(near);
  return found;
}

}  // namespace

std::string zoo_name_of(const std::string& hub_name) {
  std::string name = last_part(hub_name);
  // Tuned models have the shape of the models that they were made from.
  for (;;) {
    if (is_zoo_name(name)) return name;
    for (const SameShape& row : same_shapes)
      if (name.starts_with(row.begin)) return std::string(row.of);
    if (const std::string written = zoo_name_written(name); !written.empty()) return written;
    if (!remove_end(name)) return "";
  }
}

std::string note_on_name(const std::string& hub_name) {
  const std::string zoo = zoo_name_of(hub_name), name = last_part(hub_name);
  if (zoo.empty()) return "";
  const bool is_quantized = std::ranges::any_of(ends_of_quantized, [&](std::string_view end) {
    return end != "-f16" && end != "-fp16" && length_of_end(name, end) > 0;
  });
  if (is_quantized)
    return "'" + hub_name + "' means " + zoo + "; its weights are trained in training.precision, " +
           "not as they are quantized in that file";
  if (letters_of(name).find(letters_of(zoo)) != std::string::npos) return "";
  return "'" + hub_name + "' has the shape of " + zoo;
}

std::string unknown_model(const std::string& ref) {
  const std::string name = last_part(ref);
  std::string text = "unknown model '" + ref + "'; ";
  for (const std::string_view end : {".gguf", ".safetensors", ".pt", ".pth", ".bin", ".ckpt"})
    if (name.ends_with(end))
      return text + "a file of weights does not describe the model; name the config.json beside it";
  const std::string size = size_in(name);
  std::vector<std::string> near = zoo_names_near(name);
  if (!size.empty() && letters_of(size) == letters_of(name)) near.clear();
  constexpr std::size_t most = 6;
  const std::size_t more = near.size() > most ? near.size() - most : 0;
  near.resize(near.size() - more);
  if (more > 0) near.push_back(std::to_string(more) + " more");
  for (std::string& each : near)
    if (is_zoo_name(each)) each = "'" + each + "'";
  if (!near.empty()) text += "did you mean " + list_of(near, "or") + "? ";
  if (!size.empty()) text += "llama:" + size + " is a usual shape of that size; ";
  return text +
         "`meshwright list models` names those that are known; others come by the path of a "
         "config.json or an ONNX file";
}

}  // namespace meshwright::architectures
