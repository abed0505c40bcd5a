"""Golden values of tiny models from an independent implementation: Hugging Face transformers.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/pip install peft  # for those with low-rank adapters
    venv/bin/python tests/golden/make_golden.py [folder]

(made with torch 2.15 and transformers 5.23). Writes tests/golden/transformers/<name>/:

    config.json   the model, as meshwright reads it (Hugging Face's keys, or ours)
    tensors.txt   one line per tensor: name, shape (2x12; a scalar is 1), offset in bytes
    tensors.bin   float32, little-endian, row-major

Tensors: `tokens` [b,s] (of images the pixels), `targets` [b,s] (or [b,p] masked, [b,2] question answering), `positions`
[b,p] (masked only; of images the class token's, of texts' classes that of the token which says it, [b,1]), `decoder_tokens` [b,s] (seq2seq only), `logits` (rows of the targets; all rows for the others), `loss` (mean over all
targets, and the experts' balancing loss), `weight/<name>` and `gradient/<name>` of every parameter. Token ids, targets and positions
are whole numbers stored as floats.

Of padded texts of encoders `documents` [b,s] hides the padding: 0 in the text, its own place in each token behind it.
Of rows that hold several documents, tests/golden/packed/<name>/ beside it: `documents` [b,s] has where each token's begins;
positions begin again there, and a mask of four dimensions hides the others.

With adapters, tests/golden/lora/<name>/ beside it: the same with adapter_config.json, of transformers and peft (0.21);
gradients of the adapters alone.

With multi-token prediction, tests/golden/mtp/<name>/ beside it: of each depth `ahead_tokens/1` and
`ahead_targets/1` [b,s] (0 and -1 where there is none), `ahead_logits/1` and `ahead_loss/1`; gradients of `loss` and
MTP_WEIGHT times the mean of those. transformers leaves such layers out; their block is its own.

Weights are drawn from a fixed seed, rounded to float32, and used in float64; the implementation
itself drops to float32 in places (norms and rotations of Llama, softmax), so about 1e-6 is the
accuracy of the values.
"""

import json
import math
import pathlib
import sys

import torch
import transformers
from transformers.models.mixtral import modeling_mixtral as mixtral

BATCH, SEQUENCE, PREDICTED, VOCABULARY = 2, 12, 3, 61

# name: (class, config.json, configuration where config.json is not Hugging Face's)
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "max_position_embeddings": 16, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5,
         "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False}
BERT = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 16, "type_vocab_size": 2,
        "vocab_size": VOCABULARY, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
ROBERTA = BERT | {"model_type": "roberta", "max_position_embeddings": 18, "type_vocab_size": 1,
                  "layer_norm_eps": 1e-5, "pad_token_id": 1}
# Heads wider than their share of the hidden size; distances of each kind of bucket.
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 32, "d_kv": 12,
      "d_ff": 64, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 12,
      "relative_attention_max_distance": 9, "feed_forward_proj": "relu", "vocab_size": VOCABULARY,
      "decoder_start_token_id": 0, "pad_token_id": 0, "tie_word_embeddings": True}
LATENT = LLAMA | {"num_hidden_layers": 3, "num_key_value_heads": 4, "kv_lora_rank": 10,
                  "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 5,
                  "rms_norm_eps": 1e-6, "rope_theta": 100.0, "moe_intermediate_size": 20,
                  "max_position_embeddings": 320, "n_routed_experts": 12,
                  "num_experts_per_tok": 3, "routed_scaling_factor": 1.5,
                  "first_k_dense_replace": 1}
MODELS = {
    "gpt2": ("GPT2LMHeadModel",
             {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16,
              "vocab_size": VOCABULARY, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5}, None),
    "llama": ("LlamaForCausalLM", LLAMA, None),
    "gpt_neox": ("GPTNeoXForCausalLM",
                 {"model_type": "gpt_neox", "hidden_size": 32, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "intermediate_size": 64,
                  "max_position_embeddings": 16, "rotary_pct": 0.5, "rotary_emb_base": 10000,
                  "use_parallel_residual": True, "vocab_size": VOCABULARY,
                  "layer_norm_eps": 1e-5, "hidden_act": "gelu", "tie_word_embeddings": False},
                 None),
    "gptj": ("GPTJForCausalLM",
             {"model_type": "gptj", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16,
              "n_inner": 64, "rotary_dim": 4, "vocab_size": VOCABULARY,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
              "tie_word_embeddings": False}, None),
    "bert": ("BertForMaskedLM", BERT | {"architectures": ["BertForMaskedLM"]}, None),
    "bert-qa": ("BertForQuestionAnswering",
                BERT | {"architectures": ["BertForQuestionAnswering"]}, None),
    "roberta": ("RobertaForMaskedLM",
                ROBERTA | {"architectures": ["RobertaForMaskedLM"]}, None),
    "mpt": ("MptForCausalLM",
            {"family": "mpt", "hidden": 32, "layers": 2, "heads": 4, "vocab": VOCABULARY,
             "positions": 16},
            transformers.MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=VOCABULARY,
                                   max_seq_len=16)),
    # Six heads: the slopes of ALiBi are not powers of one number.
    "bloom": ("BloomForCausalLM",
              {"family": "bloom", "hidden": 36, "layers": 2, "heads": 6, "vocab": VOCABULARY},
              transformers.BloomConfig(hidden_size=36, n_layer=2, n_head=6,
                                       vocab_size=VOCABULARY)),
    "mixtral": ("MixtralForCausalLM",
                LLAMA | {"model_type": "mixtral", "num_local_experts": 4,
                         "num_experts_per_tok": 2, "output_router_logits": True,
                         "router_aux_loss_coef": 0.02}, None),
    # RoBERTa by other names.
    "camembert": ("CamembertForMaskedLM", ROBERTA | {
        "model_type": "camembert", "architectures": ["CamembertForMaskedLM"]}, None),
    "xlm-roberta": ("XLMRobertaForMaskedLM", ROBERTA | {
        "model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}, None),
    "distilbert": ("DistilBertForMaskedLM",
                   {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"],
                    "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
                    "max_position_embeddings": 16, "vocab_size": VOCABULARY, "activation": "gelu"},
                   None),
    "albert": ("AlbertForMaskedLM",
               BERT | {"model_type": "albert", "architectures": ["AlbertForMaskedLM"],
                       "embedding_size": 20, "num_hidden_groups": 1, "inner_group_num": 1,
                       "num_hidden_layers": 3, "hidden_act": "gelu_new"}, None),
    "vit": ("ViTForImageClassification",
            {"model_type": "vit", "architectures": ["ViTForImageClassification"],
             "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 64, "image_size": 8, "patch_size": 4, "num_channels": 3,
             "num_labels": 21, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}, None),
    "bart": ("BartForConditionalGeneration",
             {"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
              "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
              "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
              "decoder_ffn_dim": 64, "max_position_embeddings": 16, "vocab_size": VOCABULARY,
              "activation_function": "gelu", "scale_embedding": False,
              "decoder_start_token_id": 2, "pad_token_id": 1}, None),
    "t5": ("T5ForConditionalGeneration", T5, None),
    "t5-v1_1": ("T5ForConditionalGeneration",
                T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, None),
    # A window shorter than the sequence.
    "gpt_neo": ("GPTNeoForCausalLM",
                {"model_type": "gpt_neo", "hidden_size": 32, "num_layers": 4, "num_heads": 4,
                 "intermediate_size": None, "max_position_embeddings": 16,
                 "vocab_size": VOCABULARY, "activation_function": "gelu_new",
                 "layer_norm_epsilon": 1e-5, "window_size": 5,
                 "attention_types": [[["global", "local"], 2]]}, None),
}
# Decoders after Llama. Windows are shorter than the sequence.
SMALL = {key: LLAMA[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads",
                                     "num_key_value_heads", "intermediate_size",
                                     "max_position_embeddings", "vocab_size", "rope_theta",
                                     "tie_word_embeddings")}
RMS = SMALL | {"rms_norm_eps": 1e-5, "hidden_act": "silu"}
MODELS |= {
    "qwen2": ("Qwen2ForCausalLM",
              RMS | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 5,
                     "max_window_layers": 1}, None),
    "starcoder2": ("Starcoder2ForCausalLM",
                   SMALL | {"model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh",
                            "norm_epsilon": 1e-5, "use_bias": True, "sliding_window": 5,
                            "tie_word_embeddings": True}, None),
    "stablelm": ("StableLmForCausalLM",
                 SMALL | {"model_type": "stablelm", "hidden_act": "silu", "layer_norm_eps": 1e-5,
                          "use_qkv_bias": True, "partial_rotary_factor": 0.5}, None),
    "stablelm-parallel": ("StableLmForCausalLM",
                          SMALL | {"model_type": "stablelm", "hidden_act": "silu",
                                   "layer_norm_eps": 1e-5, "use_parallel_residual": True,
                                   "partial_rotary_factor": 0.25}, None),
    "opt": ("OPTForCausalLM",
            {"model_type": "opt", "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 4, "ffn_dim": 48, "max_position_embeddings": 16,
             "vocab_size": VOCABULARY, "activation_function": "relu",
             "do_layer_norm_before": True, "word_embed_proj_dim": 32,
             "tie_word_embeddings": True}, None),
    "phi3": ("Phi3ForCausalLM",
             RMS | {"model_type": "phi3", "partial_rotary_factor": 0.5, "sliding_window": 5,
                    "pad_token_id": None}, None),
    "gemma": ("GemmaForCausalLM",
              SMALL | {"model_type": "gemma", "head_dim": 12, "rms_norm_eps": 1e-6,
                       "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True}, None),
    "olmo2": ("Olmo2ForCausalLM", RMS | {"model_type": "olmo2"}, None),
    "qwen3": ("Qwen3ForCausalLM", RMS | {"model_type": "qwen3", "head_dim": 12}, None),
    "nemotron": ("NemotronForCausalLM",
                 SMALL | {"model_type": "nemotron", "head_dim": 8, "hidden_act": "relu2",
                          "norm_eps": 1e-5, "partial_rotary_factor": 0.5}, None),
    "falcon": ("FalconForCausalLM",
               {"model_type": "falcon", "hidden_size": 32, "num_hidden_layers": 2,
                "num_attention_heads": 4, "vocab_size": VOCABULARY, "layer_norm_epsilon": 1e-5,
                "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False,
                "new_decoder_architecture": False}, None),
    # As the 40B: keys in groups, two norms of a block's input.
    "falcon-40b": ("FalconForCausalLM",
                   {"model_type": "falcon", "hidden_size": 32, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_kv_heads": 2, "vocab_size": VOCABULARY,
                    "layer_norm_epsilon": 1e-5, "bias": False, "alibi": False,
                    "new_decoder_architecture": True}, None),
    # One branch after the other, biases, a key for each head.
    "falcon-serial": ("FalconForCausalLM",
                      {"model_type": "falcon", "hidden_size": 32, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "ffn_hidden_size": 48, "vocab_size": VOCABULARY,
                       "layer_norm_epsilon": 1e-5, "multi_query": False, "parallel_attn": False,
                       "bias": True, "alibi": False, "new_decoder_architecture": False}, None),
    "gpt_bigcode": ("GPTBigCodeForCausalLM",
                    {"model_type": "gpt_bigcode", "n_embd": 32, "n_layer": 2, "n_head": 4,
                     "n_inner": 48, "n_positions": 16, "vocab_size": VOCABULARY,
                     "activation_function": "gelu_pytorch_tanh", "layer_norm_epsilon": 1e-5,
                     "multi_query": True}, None),
    "cohere": ("CohereForCausalLM",
               SMALL | {"model_type": "cohere", "hidden_act": "silu", "layer_norm_eps": 1e-5,
                        "logit_scale": 0.25, "tie_word_embeddings": True, "use_qk_norm": False},
               None),
    # Not one of transformers': Llama by other names, queries, keys and values in one matrix.
    "internlm2": ("LlamaForCausalLM",
                  RMS | {"model_type": "internlm2", "bias": False},
                  transformers.LlamaConfig(**RMS)),
    "mistral": ("MistralForCausalLM", RMS | {"model_type": "mistral", "sliding_window": 5}, None),
    # Pairs of each kind: one keeps its frequency, one's is blended, two are slower.
    "llama-3.1": ("LlamaForCausalLM",
                  LLAMA | {"max_position_embeddings": 128,
                           "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                                            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                            "original_max_position_embeddings": 100}}, None),
    "llama-linear": ("LlamaForCausalLM",
                     LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 2.5}}, None),
    # Caps as low as the scores and the logits of so small a model are.
    "gemma2": ("Gemma2ForCausalLM",
               SMALL | {"model_type": "gemma2", "head_dim": 12, "rms_norm_eps": 1e-6,
                        "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True,
                        "query_pre_attn_scalar": 20, "sliding_window": 5,
                        "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, None),
    "qwen3_moe": ("Qwen3MoeForCausalLM",
                  RMS | {"model_type": "qwen3_moe", "head_dim": 12, "moe_intermediate_size": 20,
                         "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": True,
                         "decoder_sparse_step": 1, "mlp_only_layers": [],
                         "output_router_logits": True, "router_aux_loss_coef": 0.02}, None),
    # Shares of all experts.
    "olmoe": ("OlmoeForCausalLM",
              RMS | {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 3,
                     "norm_topk_prob": False, "output_router_logits": True,
                     "router_aux_loss_coef": 0.02, "clip_qkv": None, "pad_token_id": None}, None),
    # A dense block, then two with experts, of which a token sees those of two groups.
    "glm4_moe": ("Glm4MoeForCausalLM",
                 RMS | {"model_type": "glm4_moe", "num_hidden_layers": 3, "head_dim": 12,
                        "use_qk_norm": True, "attention_bias": True,
                        "partial_rotary_factor": 0.5, "moe_intermediate_size": 20,
                        "n_routed_experts": 12, "num_experts_per_tok": 3, "n_group": 4,
                        "topk_group": 2, "n_shared_experts": 2, "routed_scaling_factor": 1.5,
                        "norm_topk_prob": True, "first_k_dense_replace": 1,
                        "num_nextn_predict_layers": 0}, None),
    # Experts in one block of two, but not where a dense one is named.
    "qwen3_moe-some": ("Qwen3MoeForCausalLM",
                       RMS | {"model_type": "qwen3_moe", "num_hidden_layers": 4, "head_dim": 12,
                              "moe_intermediate_size": 20, "num_experts": 6,
                              "num_experts_per_tok": 3, "norm_topk_prob": True,
                              "decoder_sparse_step": 2, "mlp_only_layers": [1],
                              "output_router_logits": True, "router_aux_loss_coef": 0.02}, None),
    # Latent queries, keys and values; pairs that keep their frequency, blended and slower ones.
    "deepseek_v3": ("DeepseekV3ForCausalLM",
                    LATENT | {"model_type": "deepseek_v3", "q_lora_rank": 14, "n_group": 4,
                              "topk_group": 2, "norm_topk_prob": True, "n_shared_experts": 1,
                              "num_nextn_predict_layers": 0, "attention_bias": True,
                              "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
                                               "beta_fast": 6, "beta_slow": 1, "mscale": 0.8,
                                               "mscale_all_dim": 0.8,
                                               "original_max_position_embeddings": 40}}, None),
    # Latent keys and values only; groups by their best expert; shares of all experts.
    "deepseek_v2": ("DeepseekV2ForCausalLM",
                    LATENT | {"model_type": "deepseek_v2", "q_lora_rank": None, "n_group": 4,
                              "topk_group": 2, "topk_method": "group_limited_greedy",
                              "norm_topk_prob": False, "n_shared_experts": 2}, None),
    # A shared expert with a gate of its own; a dense block.
    "qwen2_moe": ("Qwen2MoeForCausalLM",
                  RMS | {"model_type": "qwen2_moe", "num_hidden_layers": 3,
                         "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28,
                         "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": False,
                         "decoder_sparse_step": 1, "mlp_only_layers": [1],
                         "output_router_logits": True, "router_aux_loss_coef": 0.02}, None),
    # Factors of everything.
    "granitemoe": ("GraniteMoeForCausalLM",
                   RMS | {"model_type": "granitemoe", "num_local_experts": 6,
                          "num_experts_per_tok": 3, "embedding_multiplier": 6.0,
                          "attention_multiplier": 0.3, "residual_multiplier": 0.4,
                          "logits_scaling": 3.0, "pad_token_id": None,
                          "output_router_logits": True, "router_aux_loss_coef": 0.02}, None),
    # A limit as low as what so small a model multiplies is; pairs of each kind.
    "gpt_oss": ("GptOssForCausalLM",
                RMS | {"model_type": "gpt_oss", "num_hidden_layers": 3, "head_dim": 12,
                       "num_local_experts": 6, "num_experts_per_tok": 3, "swiglu_limit": 0.4,
                       "sliding_window": 5, "max_position_embeddings": 320, "rope_theta": 100.0,
                       "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 6.0,
                                        "beta_slow": 1.0, "truncate": False,
                                        "original_max_position_embeddings": 40},
                       "output_router_logits": True, "router_aux_loss_coef": 0.02}, None),
    "gemma3": ("Gemma3ForCausalLM",
               SMALL | {"model_type": "gemma3_text", "head_dim": 12, "rms_norm_eps": 1e-6,
                        "num_hidden_layers": 3, "hidden_activation": "gelu_pytorch_tanh",
                        "tie_word_embeddings": True, "query_pre_attn_scalar": 20,
                        "sliding_window": 5, "sliding_window_pattern": 2, "rope_theta": 1000.0,
                        "rope_local_base_freq": 50.0,
                        "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, None),
    # Chunks and texts that queries grow with, shorter than the sequence; the third block has no
    # rotary positions, the second and the fourth have experts.
    "llama4": ("Llama4ForCausalLM",
               RMS | {"model_type": "llama4_text", "num_hidden_layers": 4, "head_dim": 12,
                      "intermediate_size": 20, "intermediate_size_mlp": 28,
                      "num_local_experts": 4, "num_experts_per_tok": 1,
                      "interleave_moe_layer_step": 2, "no_rope_layer_interval": 3,
                      "use_qk_norm": True, "attention_chunk_size": 5,
                      "attn_temperature_tuning": True, "floor_scale": 3, "attn_scale": 0.7,
                      "max_position_embeddings": 128, "pad_token_id": None,
                      "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                                       "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                       "original_max_position_embeddings": 100}}, None),
    # Without norms of queries and keys; pairs keep their frequency or are slower, none between.
    "llama4-no-norm": ("Llama4ForCausalLM",
                       RMS | {"model_type": "llama4_text", "num_hidden_layers": 3, "head_dim": 8,
                              "intermediate_size": 20, "intermediate_size_mlp": 28,
                              "num_local_experts": 3, "num_experts_per_tok": 1,
                              "moe_layers": [0, 1], "no_rope_layers": [1, 0, 1],
                              "use_qk_norm": False, "attention_chunk_size": 4,
                              "attn_temperature_tuning": False, "attention_bias": True,
                              "max_position_embeddings": 128, "pad_token_id": None,
                              "rope_scaling": {"rope_type": "llama3", "factor": 16.0,
                                               "low_freq_factor": 1.0, "high_freq_factor": 1.0,
                                               "original_max_position_embeddings": 100}}, None),
}
# The class of a text: of a decoder's last token before the padding, or of an encoder's first.
MODELS |= {
    "gpt2-classes": ("GPT2ForSequenceClassification",
                     MODELS["gpt2"][1] | {"architectures": ["GPT2ForSequenceClassification"],
                                          "num_labels": 3, "pad_token_id": 0}, None),
    "llama-classes": ("LlamaForSequenceClassification",
                      LLAMA | {"architectures": ["LlamaForSequenceClassification"],
                               "num_labels": 5, "pad_token_id": 0}, None),
    "bert-classes": ("BertForSequenceClassification",
                     BERT | {"architectures": ["BertForSequenceClassification"], "num_labels": 3},
                     None),
    "roberta-classes": ("RobertaForSequenceClassification",
                        ROBERTA | {"architectures": ["RobertaForSequenceClassification"],
                                   "num_labels": 4}, None),
    "distilbert-classes": ("DistilBertForSequenceClassification",
                           MODELS["distilbert"][1] | {
                               "architectures": ["DistilBertForSequenceClassification"],
                               "num_labels": 2}, None),
    "albert-classes": ("AlbertForSequenceClassification",
                       MODELS["albert"][1] | {"architectures": ["AlbertForSequenceClassification"],
                                              "num_labels": 3}, None),
}
# How the published checkpoints name a layer's experts and their matrices.
EXPERTS = {"MixtralForCausalLM": ("block_sparse_moe", "w1", "w3", "w2"),
           "Qwen3MoeForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj"),
           "Qwen2MoeForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj"),
           "Glm4MoeForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj"),
           "DeepseekV2ForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj"),
           "DeepseekV3ForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj"),
           "GraniteMoeForCausalLM": None, "GptOssForCausalLM": None,  # as they are here
           "Llama4ForCausalLM": None,
           "OlmoeForCausalLM": ("mlp", "gate_proj", "up_proj", "down_proj")}
# The tied table by the name of its first user.
HEAD_FIRST = {"lm_head.decoder.bias": "lm_head.bias",
              "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight"}
# Names that this version of transformers gives otherwise than the published checkpoints.
RENAMED = {"GPTNeoXForCausalLM": {"lm_head.weight": "embed_out.weight"},
           "BertForMaskedLM": {"cls.predictions.decoder.bias": "cls.predictions.bias"},
           "RobertaForMaskedLM": {"lm_head.decoder.bias": "lm_head.bias"},
           "AlbertForMaskedLM": {"predictions.decoder.bias": "predictions.bias"},
           "CamembertForMaskedLM": HEAD_FIRST,
           "XLMRobertaForMaskedLM": HEAD_FIRST}


# The same for parts of names.
RENAMED_PARTS = {"GraniteMoeForCausalLM": {
    "experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight",
    "router.weight": "router.layer.weight"}, "ViTForImageClassification": {
    "vit.layers.": "vit.encoder.layer.", ".q_proj.": ".attention.query.",
    ".k_proj.": ".attention.key.", ".v_proj.": ".attention.value.",
    ".o_proj.": ".output.dense.", ".mlp.fc1.": ".intermediate.dense.",
    ".mlp.fc2.": ".output.dense."}}


def published(class_name, name, tensor):
    """The published tensors of one parameter: transformers keeps those of all experts together."""
    for part, other in RENAMED_PARTS.get(class_name, {}).items():
        name = name.replace(part, other)
    if EXPERTS.get(class_name) is None:
        return [(RENAMED.get(class_name, {}).get(name, name), tensor)]
    module, gate_name, up_name, down_name = EXPERTS[class_name]
    name = name.replace(".mlp.", f".{module}.")
    if name.endswith("gate_up_proj"):
        gate, up = tensor.chunk(2, dim=1)
        parts = [(gate_name, gate), (up_name, up)]
    elif name.endswith("down_proj"):
        parts = [(down_name, tensor)]
    else:
        return [(name, tensor)]
    layer = name.rsplit(".", 1)[0]
    return [(f"{layer}.{expert}.{part}.weight", of_experts[expert])
            for part, of_experts in parts for expert in range(len(of_experts))]


INTERNLM2_PARTS = {"embed_tokens": "tok_embeddings", "self_attn.o_proj": "attention.wo",
                   "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
                   "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
                   "post_attention_layernorm": "ffn_norm", "lm_head": "output"}


def as_internlm2(config, tensors):
    """Tensors of Llama as InternLM2 publishes them: the queries, the key and the value of each
    group of heads together."""
    groups, width = config["num_key_value_heads"], config["hidden_size"]
    made = {}
    for name, tensor in tensors.items():
        if name.endswith(("self_attn.k_proj.weight", "self_attn.v_proj.weight")):
            continue
        if name.endswith("self_attn.q_proj.weight"):
            parts = [tensors[name.replace("q_proj", part)].reshape(groups, -1, width)
                     for part in ("q_proj", "k_proj", "v_proj")]
            tensor = torch.cat(parts, dim=1).reshape(-1, width)
            name = name.replace("self_attn.q_proj", "attention.wqkv")
        for part, other in INTERNLM2_PARTS.items():
            name = name.replace(part, other)
        made[name] = tensor
    return made


def balancing_loss(configuration, router_logits):
    """As transformers has it, of each layer and sequence by itself; the mean of all."""
    experts = getattr(configuration, "num_local_experts", None) or configuration.num_experts
    losses = [mixtral.load_balancing_loss_func((of_sequence,), experts,
                                               configuration.num_experts_per_tok)
              for of_layer in router_logits for of_sequence in of_layer.chunk(BATCH)]
    return configuration.router_aux_loss_coef * sum(losses) / len(losses)


def make_model(class_name, config, configuration, generator, extend=None):
    """`extend` adds modules before the weights are drawn."""
    if configuration is None:
        keys = {key: value for key, value in config.items() if key != "model_type"}
        configuration = transformers.AutoConfig.for_model(config["model_type"], **keys)
    configuration._attn_implementation = configuration._experts_implementation = "eager"
    model = getattr(transformers, class_name)(configuration).double().eval()
    if extend is not None:
        extend(model)
    model.tie_weights()
    if config.get("feed_forward_proj") == "gated-gelu":  # published with a head of its own
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    for name, parameter in sorted(model.named_parameters()):
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.dim() > 1:
            values *= 0.2
        else:
            values = 0.1 * values + (1.0 if is_norm_weight(name) else 0.0)
        parameter.data.copy_(values.float())
    for name, bias in choice_biases(model):
        bias.copy_((0.3 * torch.randn(bias.shape, generator=generator)).float())
    return model


def choice_biases(model):
    """What is added to the scores of experts for the choice: no parameters, but part of the
    checkpoint. Without a gradient."""
    return sorted((name, buffer) for name, buffer in model.named_buffers()
                  if name.endswith("e_score_correction_bias"))


def is_norm_weight(name):
    return name.endswith(".weight")  # every vector called `weight` belongs to a norm


def draw(high, shape, generator):
    return torch.randint(2, high, shape, generator=generator)  # 0 and 1 are padding in RoBERTa


def run_images(model, generator):
    """As `run`, for images: pixels of 0 to 255, scaled as the published models' are."""
    config = model.config
    shape = (BATCH, config.num_channels, config.image_size, config.image_size)
    pixels = torch.randint(0, 256, shape, generator=generator)
    labels = torch.randint(0, config.num_labels, (BATCH,), generator=generator)
    logits = model(pixel_values=pixels.double() / 127.5 - 1).logits
    loss = torch.nn.functional.cross_entropy(logits, labels)
    return {"tokens": pixels.reshape(BATCH, -1), "targets": labels.reshape(BATCH, 1),
            "positions": torch.zeros(BATCH, 1), "logits": logits, "loss": loss}, loss


def run_classes(model, tokens, generator):
    """As `run`, for classes of texts; the second row is padded. Encoders are told of it by a mask."""
    config, first = model.config, model.config.model_type not in ("gpt2", "llama")
    tokens = tokens.clone()
    positions = torch.full((BATCH, 1), 0 if first else SEQUENCE - 1)
    there = SEQUENCE - PREDICTED
    tokens[1, there:] = config.pad_token_id
    if not first:
        positions[1] -= PREDICTED
    labels = torch.randint(0, config.num_labels, (BATCH,), generator=generator)
    mask, documents = torch.ones_like(tokens), torch.zeros_like(tokens)
    mask[1, there:] = 0
    documents[1, there:] = torch.arange(there, SEQUENCE)
    logits = model(input_ids=tokens, attention_mask=mask).logits if first else model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits, labels)
    return {"tokens": tokens, "targets": labels.reshape(BATCH, 1), "positions": positions,
            "logits": logits, "loss": loss} | ({"documents": documents} if first else {}), loss


def run(class_name, model, generator):
    """Inputs, logits and loss by the rules of the head, in the order of the targets."""
    if class_name.endswith("ImageClassification"):
        return run_images(model, generator)
    text = draw(VOCABULARY, (BATCH, SEQUENCE + 1), generator)
    tokens = text[:, :-1]
    tensors = {"tokens": tokens}
    if class_name.endswith("SequenceClassification"):
        return run_classes(model, tokens, generator)
    if class_name.endswith("QuestionAnswering"):
        out = model(input_ids=tokens)
        logits = torch.stack([out.start_logits, out.end_logits], dim=-1)  # [b,s,2]
        tensors["targets"] = torch.randint(0, SEQUENCE, (BATCH, 2), generator=generator)
        scores = logits.transpose(1, 2).reshape(-1, SEQUENCE)
    elif class_name.endswith("MaskedLM"):
        order = torch.stack([torch.randperm(SEQUENCE, generator=generator) for _ in range(BATCH)])
        positions = tensors["positions"] = order[:, :PREDICTED].sort(dim=1).values
        tensors["targets"] = draw(VOCABULARY, (BATCH, PREDICTED), generator)
        all_logits = model(input_ids=tokens).logits
        logits = torch.stack([all_logits[b, positions[b]] for b in range(BATCH)])
        scores = logits.reshape(-1, VOCABULARY)
    elif class_name.endswith("ForConditionalGeneration"):
        targets = tensors["targets"] = draw(VOCABULARY, (BATCH, SEQUENCE), generator)
        start = torch.full((BATCH, 1), model.config.decoder_start_token_id)
        read = tensors["decoder_tokens"] = torch.cat([start, targets[:, :-1]], dim=1)
        logits = model(input_ids=tokens, decoder_input_ids=read).logits
        scores = logits.reshape(-1, VOCABULARY)
    else:
        tensors["targets"] = text[:, 1:]
        out = model(input_ids=tokens)
        logits = out.logits
        scores = logits.reshape(-1, VOCABULARY)
    loss = torch.nn.functional.cross_entropy(scores, tensors["targets"].reshape(-1))
    if class_name in EXPERTS and getattr(model.config, "output_router_logits", False):
        loss = loss + balancing_loss(model.config, out.router_logits)
    tensors["logits"] = logits.reshape(-1, logits.shape[-1])
    tensors["loss"] = loss
    return tensors, loss


def write(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    index, data = [], bytearray()
    for name, tensor in tensors.items():
        shape = "x".join(str(size) for size in tensor.shape) or "1"
        index.append(f"{name} {shape} {len(data)}")
        data += tensor.detach().to(torch.float32).contiguous().numpy().astype("<f4").tobytes()
    (folder / "tensors.txt").write_text("\n".join(index) + "\n")
    (folder / "tensors.bin").write_bytes(bytes(data))


# name: (model, what of its layers is adapted and how)
LORA = {
    # Layers that are stored [in,out], of all kinds.
    "gpt2": ("gpt2", {"r": 4, "lora_alpha": 8, "target_modules": ["c_attn", "c_proj", "c_fc"],
                      "fan_in_fan_out": True}),
    "llama": ("llama", {"r": 3, "lora_alpha": 7.5,
                        "target_modules": ["q_proj", "v_proj", "o_proj", "down_proj"]}),
}


def make_adapted(root):
    import peft
    for number, (name, (base, options)) in enumerate(LORA.items()):
        class_name, config, configuration = MODELS[base]
        generator = torch.Generator().manual_seed(3000 + number)
        model = peft.get_peft_model(make_model(class_name, config, configuration, generator),
                                    peft.LoraConfig(task_type="CAUSAL_LM", **options)).double()
        for key, parameter in sorted(model.named_parameters()):
            if "lora_" in key:  # B begins at zero, which would hide much
                values = 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.data.copy_(values.float())
        tensors, loss = run(class_name, model, generator)
        loss.backward()
        for key, parameter in sorted(model.named_parameters()):
            if parameter.requires_grad:
                stored = key.replace(".default", "")
                tensors["gradient/" + stored] = parameter.grad
            else:
                stored = key.removeprefix("base_model.model.").replace(".base_layer", "")
            tensors["weight/" + stored] = parameter
        write(root / name, config, tensors)
        (root / name / "adapter_config.json").write_text(json.dumps(options, indent=2) + "\n")
        print(f"{name} with adapters: loss {loss.item():.6f}")


# Begins of the documents of a row, and the models that read such rows.
DOCUMENTS = ((0, 5, 6), (0, 9))
PACKED = ("gpt2", "llama", "gptj")


def make_packed(root):
    for number, name in enumerate(PACKED):
        class_name, config, configuration = MODELS[name]
        generator = torch.Generator().manual_seed(4000 + number)
        model = make_model(class_name, config, configuration, generator)
        text = draw(VOCABULARY, (BATCH, SEQUENCE + 1), generator)
        place = torch.arange(SEQUENCE)
        documents = torch.stack([torch.tensor([max(b for b in begins if b <= i) for i in range(SEQUENCE)])
                                 for begins in DOCUMENTS])
        seen = (place[None, None, :] <= place[None, :, None]) & (place[None, None, :] >= documents[:, :, None])
        mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -1e30)[:, None]
        logits = model(input_ids=text[:, :-1], position_ids=place - documents, attention_mask=mask).logits
        targets = text[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        loss.backward()
        tensors = {"tokens": text[:, :-1], "targets": targets, "documents": documents,
                   "logits": logits.reshape(-1, VOCABULARY), "loss": loss}
        for key, parameter in sorted(model.named_parameters()):
            for kind, tensor in (("weight/", parameter), ("gradient/", parameter.grad)):
                for published_name, part in published(class_name, key, tensor):
                    tensors[kind + published_name] = part
        write(root / name, config, tensors)
        print(f"{name} of packed rows: loss {loss.item():.6f}")


# Models with blocks of multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2), how many, and
# how much their losses count.
AHEAD = (("deepseek_v3", 1), ("llama", 2))
MTP_WEIGHT = 0.3


def add_blocks_ahead(model, depths):
    """Under the names that DeepSeek-V3 is published with; what runs the model takes its own alone."""
    of_model, config = model.model, model.config
    for depth in range(depths):
        block = type(of_model.layers[-1])(config, config.num_hidden_layers - 1)
        block.enorm, block.hnorm = (type(of_model.norm)(config.hidden_size, config.rms_norm_eps) for _ in range(2))
        block.eh_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        block.shared_head = torch.nn.Module()
        block.shared_head.norm = type(of_model.norm)(config.hidden_size, config.rms_norm_eps)
        of_model.layers.append(block.double())


def predict_ahead(model, block, hidden, tokens):
    """What the block makes of the hidden states of the depth before it and of the tokens ahead."""
    of_model, place = model.model, torch.arange(SEQUENCE)[None]
    embedded = of_model.embed_tokens(tokens)
    joined = block.eh_proj(torch.cat([block.enorm(embedded), block.hnorm(hidden)], dim=-1))
    mask = torch.full((SEQUENCE, SEQUENCE), -1e30, dtype=torch.float64).triu(1)[None, None]
    made = block(joined, attention_mask=mask, position_ids=place,
                 position_embeddings=of_model.rotary_emb(joined, place))
    return block.shared_head.norm(made[0] if isinstance(made, tuple) else made)


def make_ahead(root):
    for number, (name, depths) in enumerate(AHEAD):
        class_name, config, configuration = MODELS[name]
        generator = torch.Generator().manual_seed(5000 + number)
        model = make_model(class_name, config, configuration, generator,
                           lambda model: add_blocks_ahead(model, depths))
        text = draw(VOCABULARY, (BATCH, SEQUENCE + 1), generator)
        tokens, targets = text[:, :-1], text[:, 1:]
        hidden = model.model(input_ids=tokens).last_hidden_state
        logits = model.lm_head(hidden)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        tensors = {"tokens": tokens, "targets": targets, "logits": logits.reshape(-1, VOCABULARY), "loss": loss}
        total = loss
        for depth in range(1, depths + 1):
            there = SEQUENCE - depth  # rows with a token to predict
            read = torch.zeros_like(tokens)
            read[:, :there + 1] = text[:, depth:]
            wanted = torch.full_like(tokens, -1)
            wanted[:, :there] = text[:, depth + 1:]
            hidden = predict_ahead(model, model.model.layers[config["num_hidden_layers"] + depth - 1], hidden, read)
            logits = model.lm_head(hidden)
            ahead = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), wanted.reshape(-1),
                                                      ignore_index=-1)
            total = total + MTP_WEIGHT / depths * ahead
            tensors |= {f"ahead_tokens/{depth}": read, f"ahead_targets/{depth}": wanted,
                        f"ahead_logits/{depth}": logits.reshape(-1, VOCABULARY), f"ahead_loss/{depth}": ahead}
        total.backward()
        parameters = sorted(model.named_parameters())
        kinds = {"weight/": dict(parameters + choice_biases(model)),
                 "gradient/": {key: each.grad for key, each in parameters} |
                              {key: torch.zeros_like(each) for key, each in choice_biases(model)}}
        for kind, values in kinds.items():
            for key, value in values.items():
                for published_name, tensor in published(class_name, key, value):
                    tensors[kind + published_name] = tensor
        write(root / f"{name}-{depths}", config, tensors)
        print(f"{name} with {depths} blocks ahead: losses {loss.item():.6f} and {ahead.item():.6f}")


def main():
    here = pathlib.Path(__file__).resolve().parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "transformers"
    for number, (name, (class_name, config, configuration)) in enumerate(MODELS.items()):
        generator = torch.Generator().manual_seed(1000 + number)
        model = make_model(class_name, config, configuration, generator)
        tensors, loss = run(class_name, model, generator)
        assert math.isfinite(loss.item())
        loss.backward()
        parameters = sorted(model.named_parameters())
        kinds = {"weight/": dict(parameters + choice_biases(model)),
                 "gradient/": {key: each.grad for key, each in parameters} |
                              {key: torch.zeros_like(each) for key, each in choice_biases(model)}}
        if name == "internlm2":
            kinds = {kind: as_internlm2(config, values) for kind, values in kinds.items()}
        for name_here in kinds["weight/"]:
            for kind, values in kinds.items():
                for published_name, tensor in published(class_name, name_here, values[name_here]):
                    tensors[kind + published_name] = tensor
        write(root / name, config, tensors)
        print(f"{name}: loss {loss.item():.6f}")
    make_packed(root.parent / "packed")
    make_adapted(root.parent / "lora")
    make_ahead(root.parent / "mtp")


if __name__ == "__main__":
    main()
