// Golden values of a tiny model, made by make_golden.py: inputs, logits, loss, weights and
// gradients.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meshwright::tests {

struct GoldenTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major
};

struct Golden {
  std::string folder;  // holds config.json, which load_model() reads
  std::map<std::string, GoldenTensor> tensors;

  // `tokens`, `targets`, `positions`, `logits`, `loss`, `weight/<name>`, `gradient/<name>`; an
  // unknown name throws. Those of a layer's experts are one tensor, `...experts.*...`.
  const GoldenTensor& tensor(const std::string& name) const;
  bool has(const std::string& name) const { return tensors.contains(name); }
  // Token ids, targets and positions as integers.
  std::vector<std::int32_t> integers(const std::string& name) const;
  // The names of the parameters, without `weight/`.
  std::vector<std::string> parameters() const;
};

// `folder`: one of golden_folders(). Throws std::runtime_error when a file is missing or short.
Golden load_golden(const std::string& folder);

// tests/golden/transformers/* of the source tree, sorted.
std::vector<std::string> golden_folders();

}  // namespace meshwright::tests
