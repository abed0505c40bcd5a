// Low-rank adapters (LoRA) as a job describes them, and the names that peft gives to their
// matrices. The compiler adds adapters to a graph (add_adapters.h), and the engine saves and reads
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright::program {

inline constexpr std::string_view all_linear = "all-linear";  // every linear layer of blocks

// Settings of LoRA (Hu et al. 2021), under which only adapters are trained. An adapter adds (alpha
// / rank) * B A x to the output W x of a linear layer, where A has `rank` rows.
struct Lora {
  int rank = 8;
  double alpha = 8;
  double dropout = 0;  // probability of dropout of x
  std::vector<std::string> target_modules;
  bool operator==(const Lora&) const = default;
};

// Returns whether `target`, a name in training.lora.target_modules, means the module at `path`: it
// is equal to the last words of the path, where `*` stands for any one word.
bool names_module(std::string_view target, std::string_view path);

// Returns the name of the weight of a module's matrix A or, if `second`, of its matrix B.
std::string adapter_name(std::string_view module, bool second);

}  // namespace meshwright::program
