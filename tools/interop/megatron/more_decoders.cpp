#include "tools/interop/megatron/more_decoders.h"

namespace meshwright::interop {

namespace {

std::int64_t head_width_of(const json& sized, const DecoderBlocks& blocks) {
  const std::int64_t heads = sized["num_attention_heads"];
  return blocks.head_width.value_or(sized["hidden_size"].get<std::int64_t>() / heads);
}

// Gemma 2 has soft caps, and a window in every second block.
json gemma_config(Settings& from, json model, const DecoderBlocks& blocks) {
  const auto scores = from.number("attn-logit-softcapping");
  const auto logits = from.number("final-logit-softcapping");
  const auto width = from.number("query-pre-attn-scalar");
  model["model_type"] = scores || logits ? "gemma2" : "gemma";
  model["head_dim"] = head_width_of(model, blocks);
  model["rms_norm_eps"] = blocks.epsilon;
  if (!scores && !logits) {
    model["hidden_act"] = "gelu_pytorch_tanh";
    return model;
  }
  model["hidden_activation"] = "gelu_pytorch_tanh";
  model["attn_logit_softcapping"] = scores ? json(*scores) : json(nullptr);
  model["final_logit_softcapping"] = logits ? json(*logits) : json(nullptr);
  model["query_pre_attn_scalar"] =
      width ? static_cast<std::int64_t>(*width) : head_width_of(model, blocks);
  model["sliding_window"] = 4096;
  return model;
}

json glm_config(json model, const DecoderBlocks& blocks) {
  model["model_type"] = "glm";
  model["head_dim"] = head_width_of(model, blocks);
  model["rms_norm_eps"] = blocks.epsilon;
  model["hidden_act"] = "silu";
  model["attention_bias"] = blocks.qkv_bias;
  model["partial_rotary_factor"] = blocks.rotary_share;
  return model;
}

json falcon_config(Settings& from, json model, const DecoderBlocks& blocks) {
  model["model_type"] = "falcon";
  model["multi_query"] = model["num_key_value_heads"] == 1;
  model["new_decoder_architecture"] = false;
  model["parallel_attn"] = from.flag("parallel-attention").value_or(false);
  model["bias"] = false;
  model["alibi"] = false;
  model["ffn_hidden_size"] = model["intermediate_size"];
  model["layer_norm_epsilon"] = blocks.epsilon;
  for (const char* key : {"num_key_value_heads", "intermediate_size"}) model.erase(key);
  return model;
}

}  // namespace

std::optional<json> more_decoder(Settings& from, json sized, const DecoderBlocks& blocks) {
  const bool whole_heads = blocks.rotary_share == 1;
  if (from.flag("geglu").value_or(false)) {
    if (!blocks.is_rope || !blocks.rms || !blocks.no_bias || blocks.qkv_bias || !whole_heads ||
        blocks.swiglu || blocks.squared)
      from.fail("geglu",
                "is built in models as Gemma's only (rope, RMSNorm, --disable-bias-linear); gelu, "
                "--swiglu and --squared-relu are built in others");
    return gemma_config(from, std::move(sized), blocks);
  }
  if (!blocks.is_rope || !blocks.no_bias || blocks.squared) return {};
  if (blocks.rms && blocks.swiglu && !whole_heads) return glm_config(std::move(sized), blocks);
  const json& groups = sized["num_key_value_heads"];
  const bool old_groups = groups == 1 || groups == sized["num_attention_heads"];
  const bool is_new = from.flag("new-decoder-architecture").value_or(false);
  if (!blocks.rms && !blocks.swiglu && !blocks.qkv_bias && whole_heads && !blocks.head_width &&
      old_groups && !is_new)
    return falcon_config(from, std::move(sized), blocks);
  return {};
}

std::vector<std::string> settings_of_more_decoders() {
  return {"geglu",
          "attn-logit-softcapping",
          "final-logit-softcapping",
          "query-pre-attn-scalar",
          "parallel-attention",
          "new-decoder-architecture"};
}

}  // namespace meshwright::interop
