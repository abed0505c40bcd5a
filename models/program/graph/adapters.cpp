#include "models/program/graph/adapters.h"

#include <fmt/format.h>

#include <algorithm>

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
