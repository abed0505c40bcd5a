// Describes low-rank adapters (LoRA) as a job does, and gives the names that the library peft has
// for their matrices. The compiler adds adapters to a graph (add_adapters.h), and the engine saves
// and reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/dtype.h"

namespace meshwright::program {

inline constexpr std::string_view all_linear = "all-linear";  // every linear layer of blocks

// Says how the frozen weights of linear layers in transformer blocks are stored
// (exec/core/weight_blocks.h). Other weights stay in the precision's type.
enum class BaseWeights : std::uint8_t { unquantized, nf4, int4 };

// Settings of LoRA (Hu et al. 2021). Only adapters are trained, and the head of a model that
// predicts classes. An adapter adds (alpha / rank) * B A x to the output W x of a linear layer,
// where A has `rank` rows.
struct Lora {
  int rank = 8;
  double alpha = 8;
  double dropout = 0;  // probability of dropout of x
  std::vector<std::string> target_modules;
  BaseWeights base_weights = BaseWeights::unquantized;
  bool double_quantization = false;  // nf4: the scales are in 8 bits
  int group_size = 0;                // int4: elements with one scale; 0: default_group_size
  bool operator==(const Lora&) const = default;
};

inline constexpr int default_group_size = 128;

// Returns the type of quantized base weights, or `storage` if they are not quantized. A group size
// must be legal.
Dtype base_type(const Lora& lora, Dtype storage);
// Returns the legal group sizes, in ascending order.
std::vector<int> group_sizes();

// Returns whether `target`, a name in training.lora.target_modules, means the module at `path`: the
// path must end in the words of `target`, where `*` stands for any one word.
bool names_module(std::string_view target, std::string_view path);

// Returns peft's name for the adapter's matrix A of a module or, if `second`, for its matrix B.
std::string adapter_name(std::string_view module, bool second);

}  // namespace meshwright::program
