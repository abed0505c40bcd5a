#include "models/program/graph/adapters.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::program {

namespace {

std::vector<std::string_view> words_of_path(std::string_view path) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    words.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

namespace {
constexpr Dtype group_types[] = {Dtype::int4_32, Dtype::int4_64, Dtype::int4_128, Dtype::int4_256};
}

Dtype base_type(const Lora& lora, Dtype storage) {
  if (lora.base_weights == BaseWeights::unquantized) return storage;
  if (lora.base_weights == BaseWeights::nf4)
    return lora.double_quantization ? Dtype::nf4_double : Dtype::nf4;
  const int size = lora.group_size > 0 ? lora.group_size : default_group_size;
  for (const Dtype dtype : group_types)
    if (dtype_block(dtype).elements == size) return dtype;
  MESHWRIGHT_CHECK(false, "a plan has legal group sizes");
  return storage;
}

std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (const Dtype dtype : group_types)
    sizes.push_back(static_cast<int>(dtype_block(dtype).elements));
  return sizes;
}

bool names_module(std::string_view target, std::string_view path) {
  const std::vector<std::string_view> wanted = words_of_path(target), words = words_of_path(path);
  if (wanted.size() > words.size()) return false;
  return std::equal(
      wanted.rbegin(), wanted.rend(), words.rbegin(),
      [](std::string_view one, std::string_view word) { return one == "*" || one == word; });
}

std::string adapter_name(std::string_view module, bool second) {
  return fmt::format("base_model.model.{}.lora_{}.weight", module, second ? 'B' : 'A');
}

}  // namespace meshwright::program
