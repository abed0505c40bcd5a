// Lists the activation functions of MLPs, with the operations that compute them and their names in
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "models/core/enum_words.h"
#include "models/program/graph/op.h"

namespace meshwright::architectures {

enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, squared_relu, silu };

struct ActivationInfo {
  Activation activation;
  Op op;                       // x -> activation(x)
  std::optional<Op> gated_op;  // gate, up -> activation(gate) * up, if one operation computes it
  std::string_view word;       // the usual word for it in a config.json
  // Names the activation in the description of a model that checkpoints store
  // (model_description.h). gelu and silu have no name there: `gated_ffn` tells them apart.
  std::string_view described;
};
inline constexpr ActivationInfo activation_table[] = {
    {Activation::gelu, Op::gelu, {}, "gelu", ""},
    {Activation::gelu_tanh, Op::gelu, {}, "gelu_new", "gelu_tanh"},  // with Attributes::gelu_tanh
    {Activation::relu, Op::relu, {}, "relu", "relu"},
    {Activation::squared_relu, Op::squared_relu, {}, "relu2", "squared_relu"},
    {Activation::silu, Op::silu, Op::swiglu, "silu", ""},
};
static_assert(has_row_of_each<Activation::silu>(activation_table, &ActivationInfo::activation));

inline const ActivationInfo& info(Activation activation) {
  return activation_table[static_cast<std::size_t>(activation)];
}

// Pairs a word of config.json files with an activation.
struct ActivationWord {
  std::string_view word;
  Activation activation;
};
struct ActivationWords {
  std::span<const ActivationWord> words;  // all that are read
  std::string_view tanh;                  // written for gelu_tanh, which has several words
};

namespace families {
inline constexpr ActivationWord gelu_words[] = {{"gelu", Activation::gelu},
                                                {"gelu_python", Activation::gelu},
                                                {"gelu_new", Activation::gelu_tanh},
                                                {"gelu_fast", Activation::gelu_tanh},
                                                {"gelu_pytorch_tanh", Activation::gelu_tanh}};
inline constexpr ActivationWord silu_words[] = {{"silu", Activation::silu},
                                                {"swish", Activation::silu}};
inline constexpr ActivationWords silu{silu_words, ""}, gelu{gelu_words, "gelu_pytorch_tanh"},
    older_gelu{gelu_words, "gelu_new"};
}  // namespace families

}  // namespace meshwright::architectures
