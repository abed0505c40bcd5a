#include "tests/golden/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace meshwright::tests {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors.bin is little-endian");

std::ifstream open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  return file;
}

// "2x12" -> {2, 12}.
std::vector<std::int64_t> shape_of(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream stream(text);
  for (std::string size; std::getline(stream, size, 'x');) shape.push_back(std::stoll(size));
  return shape;
}

// `...experts.0...`, `...experts.1...`, ... become `...experts.*...`, one after the other.
void stack_experts(std::map<std::string, GoldenTensor>& tensors) {
  const std::string first = ".experts.0.";
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name.find(first) != std::string::npos) names.push_back(name);
  for (const std::string& name : names) {
    const auto numbered = [&](const std::string& number) {
      std::string changed = name;
      return changed.replace(name.find(first), first.size(), ".experts." + number + ".");
    };
    GoldenTensor all;
    std::int64_t count = 0;
    for (;; ++count) {
      const auto next = tensors.find(numbered(std::to_string(count)));
      if (next == tensors.end()) break;
      all.shape = next->second.shape;
      all.values.insert(all.values.end(), next->second.values.begin(), next->second.values.end());
      tensors.erase(next);
    }
    all.shape.insert(all.shape.begin(), count);
    tensors[numbered("*")] = std::move(all);
  }
}

}  // namespace

const GoldenTensor& Golden::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw std::runtime_error(folder + ": no tensor " + name);
  return found->second;
}

std::vector<std::int32_t> Golden::integers(const std::string& name) const {
  std::vector<std::int32_t> result;
  for (float value : tensor(name).values)
    result.push_back(static_cast<std::int32_t>(std::lround(value)));
  return result;
}

std::vector<std::string> Golden::parameters() const {
  const std::string prefix = "weight/";
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  return names;
}

Golden load_golden(const std::string& folder) {
  Golden golden{folder, {}};
  std::ifstream index = open(folder + "/tensors.txt");
  std::ifstream data = open(folder + "/tensors.bin");
  std::string name, shape;
  for (std::int64_t offset = 0; index >> name >> shape >> offset;) {
    GoldenTensor tensor{shape_of(shape), {}};
    std::int64_t elements = 1;
    for (std::int64_t size : tensor.shape) elements *= size;
    tensor.values.resize(static_cast<std::size_t>(elements));
    data.seekg(offset);
    data.read(reinterpret_cast<char*>(tensor.values.data()),
              elements * static_cast<std::int64_t>(sizeof(float)));
    if (!data) throw std::runtime_error(folder + "/tensors.bin: ends before " + name);
    golden.tensors[name] = std::move(tensor);
  }
  stack_experts(golden.tensors);
  return golden;
}

std::vector<std::string> golden_folders() {
  std::vector<std::string> folders;
  const std::string root = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers";
  for (const auto& entry : std::filesystem::directory_iterator(root))
    folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace meshwright::tests
