// Decoders of which Megatron-LM's arguments say one or two things that GPT, Llama and their like do
// not have: Gemma, GLM and Falcon.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/interop/job_draft.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Describes a decoder's blocks as the arguments do, besides their sizes.
struct DecoderBlocks {
  bool is_rope = false, rms = false, swiglu = false, no_bias = false, qkv_bias = false,
       squared = false;
  double rotary_share = 1, epsilon = 1e-5;
  std::optional<std::int64_t> head_width = {};
};

// Returns the config.json of such a decoder, or nothing if it is none of them. `sized` has the
// sizes of a config.json with grouped queries. Called by the rule of the model before it looks at
// the usual families. Throws InputError for --geglu in a model that is not Gemma's.
std::optional<json> more_decoder(Settings& from, json sized, const DecoderBlocks& blocks);
std::vector<std::string> settings_of_more_decoders();

}  // namespace meshwright::interop
