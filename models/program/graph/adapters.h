// Low-rank adapters as a job names them, and the names that peft gives to them. The compiler adds
// them to a graph (add_adapters.h); the engine saves and reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

inline constexpr std::string_view all_linear = "all-linear";  // every linear layer of blocks

// Only adapters are trained: beside a linear layer W x they add (alpha / rank) * B A x, where A has
// `rank` rows (LoRA, Hu et al. 2021).
struct Lora {
  int rank = 8;
  double alpha = 8;
  double dropout = 0;  // of x
  std::vector<std::string> target_modules;
  bool operator==(const Lora&) const = default;
};

// Whether a name of training.lora.target_modules means the module: it is the end of the module's
// path, where `*` stands for any one name.
bool names_module(std::string_view target, std::string_view path);

// Returns the name of a module's matrix A, or of its `second`, B.
std::string adapter_name(std::string_view module, bool second);

}  // namespace meshwright
