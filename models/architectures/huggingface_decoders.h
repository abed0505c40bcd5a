// Reads the keys that the config.json of each family of decoders has besides sizes.
#pragma once

#include "models/architectures/architecture.h"

namespace meshwright::decoders {

// Returns whether the file gives the width of a head in `head_dim`. If it does not, sets the width
// to the default of the model's family.
bool gives_head_width(Fields& fields, Model& model);

// Each of these reads the keys of one family besides sizes, after the sizes are read. Each throws
// InputError for a value that is not supported.
void read_biases(Fields& fields, Model& model);  // attention_bias, mlp_bias
void read_window(Fields& fields, Model& model);  // sliding_window, of all blocks
void read_mistral(Fields& fields, Model& model);
void read_qwen2(Fields& fields, Model& model);
void read_qwen3(Fields& fields, Model& model);
void read_qwen3_moe(Fields& fields, Model& model);
void read_qwen2_moe(Fields& fields, Model& model);
void read_granitemoe(Fields& fields, Model& model);
void read_gpt_oss(Fields& fields, Model& model);
void read_glm4_moe(Fields& fields, Model& model);
void read_llama4(Fields& fields, Model& model);
void read_deepseek_v2(Fields& fields, Model& model);
void read_deepseek_v3(Fields& fields, Model& model);
void read_olmoe(Fields& fields, Model& model);
void read_starcoder2(Fields& fields, Model& model);
void read_stablelm(Fields& fields, Model& model);
void read_opt(Fields& fields, Model& model);
void read_gemma(Fields& fields, Model& model);
void read_gemma2(Fields& fields, Model& model);
void read_gemma3(Fields& fields, Model& model);
void read_falcon(Fields& fields, Model& model);
void read_gpt_bigcode(Fields& fields, Model& model);
void read_cohere(Fields& fields, Model& model);
void read_internlm2(Fields& fields, Model& model);

}  // namespace meshwright::decoders
