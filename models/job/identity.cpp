#include "models/job/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "models/architectures/model_description.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"

namespace meshwright::job {

namespace {

using enum ChangeRule;

// The rules of all keys. Values of the model may change by word if people do change them between
// two phases of a training: the scaling of positions and the windows for longer texts, how experts
// are chosen and balanced, and constants that trained weights can adapt to. Almost every other
// value of the model gives the same weights another meaning.
constexpr KeyChange rows[] = {
    {"model.family", never},
    {"model.architecture", never},
    {"model.head", never},
    {"model.hidden", never},
    {"model.layers", never},
    {"model.heads", never},
    {"model.kv_heads", never},
    {"model.ffn", never},
    {"model.positions", freely},  // if they are learned, the shape of their table shows it
    {"model.embedding", never},
    {"model.vocabulary", never},
    {"model.classes", never},
    {"model.pad_token", by_word},
    {"model.decoder_start", by_word},
    {"model.image_size", never},
    {"model.patch_size", never},
    {"model.channels", never},
    {"model.gated_ffn", never},
    {"model.gated_gelu", never},
    {"model.relu", never},
    {"model.squared_relu", never},
    {"model.activation_dropout", by_word},
    {"model.tied_embeddings", never},
    {"model.head_dim", never},
    {"model.rms_norm", never},
    {"model.learned_positions", never},
    {"model.parallel_residual", never},
    {"model.alibi", never},
    {"model.one_norm", never},
    {"model.biases", never},
    {"model.norm_bias", never},
    {"model.attention_bias", never},
    {"model.attention_out_bias", never},
    {"model.gelu_tanh", by_word},
    {"model.norm_epsilon", by_word},
    {"model.rotary_base", by_word},
    {"model.rotary_dim", never},
    {"model.rotary_interleaved", never},
    {"model.rotary_factor", by_word},
    {"model.rotary_low", by_word},
    {"model.rotary_high", by_word},
    {"model.rotary_original", by_word},
    {"model.rotary_yarn", by_word},
    {"model.rotary_truncate", by_word},
    {"model.score_factor", by_word},
    {"model.query_key_norm", never},
    {"model.one_plus_norms", never},
    {"model.embedding_scale", never},
    {"model.logit_scale", never},
    {"model.residual_scale", never},
    {"model.swiglu_limit", by_word},
    {"model.attention_sinks", never},
    {"model.score_width", never},
    {"model.score_cap", by_word},
    {"model.logit_cap", by_word},
    {"model.token_types", never},
    {"model.position_offset", never},
    {"model.relative_buckets", never},
    {"model.relative_distance", by_word},
    {"model.local_window", by_word},
    {"model.local_from", by_word},
    {"model.local_to", by_word},
    {"model.local_period", by_word},
    {"model.global_place", by_word},
    {"model.local_rotary_base", by_word},
    {"model.unrotated_blocks", never},
    {"model.attention_chunk", by_word},
    {"model.temperature", by_word},
    {"model.temperature_floor", by_word},
    {"model.experts", never},
    {"model.experts_per_token", by_word},
    {"model.q_lora_rank", never},
    {"model.kv_lora_rank", never},
    {"model.v_head_dim", never},
    {"model.dense_ffn", never},
    {"model.dense_blocks", never},
    {"model.shared_ffn", never},
    {"model.shared_mean", never},
    {"model.shared_gate", never},
    {"model.sigmoid_scores", never},
    {"model.expert_bias", never},
    {"model.router_bias", never},
    {"model.expert_biases", never},
    {"model.expert_groups", by_word},
    {"model.groups_per_token", by_word},
    {"model.groups_by_two", by_word},
    {"model.expert_weight_scale", never},
    {"model.expert_weights_of_all", never},
    {"model.weighed_inputs", never},
    {"model.expert_dropless", by_word},
    {"model.expert_rank_capacity_factor", by_word},
    {"model.expert_overflow_drops", by_word},
    {"model.expert_capacity_factor", by_word},
    {"model.router_aux_loss_coef", by_word},
    {"model.imported", never},
    {"model.captured", never},

    {"training.global_batch", by_word},
    {"training.sequence_length", by_word},
    {"training.micro_batch", freely},
    {"training.precision", by_word},
    {"training.fp8_recipe", by_word},
    {"training.fp8_experts", by_word},
    {"training.fp8_gathers", freely},
    {"training.first_layers_in_bf16", by_word},
    {"training.last_layers_in_bf16", by_word},
    {"training.gradient_reduce_precision", by_word},
    {"training.recompute", freely},
    {"training.recompute_modules", freely},
    {"training.recompute_fraction", freely},
    {"training.recompute_budget", freely},
    {"training.attention", freely},
    {"training.compiler", freely},
    {"training.framework", freely},
    {"training.memory_of", freely},
    {"training.passes_off", freely},
    {"training.rematerialize_rows", freely},
    {"training.loss_block_bytes", freely},
    {"training.fuse_gradient_accumulation", freely},
    {"training.cross_entropy_fusion", freely},
    {"training.predicted_positions", by_word},
    {"training.packing", by_word},
    {"training.documents_per_row", by_word},
    {"training.mtp_layers", never},
    {"training.mtp_loss_weight", by_word},
    {"training.steps", by_word},
    {"training.seed", by_word},
    {"training.optimizer", never},
    {"training.adafactor", by_word},
    {"training.master_weights", by_word},
    {"training.moments_precision", by_word},
    {"training.moments_rounding", by_word},
    {"training.learning_rate", by_word},
    {"training.warmup_steps", by_word},
    {"training.learning_rate_schedule", by_word},
    {"training.decay_steps", by_word},
    {"training.weight_decay", by_word},
    {"training.momentum", by_word},
    {"training.beta1", by_word},
    {"training.beta2", by_word},
    {"training.epsilon", by_word},
    {"training.gradient_clip", by_word},
    {"training.gradient_clip_value", by_word},
    {"training.ema_decay", by_word},
    {"training.lora", by_word},
    {"training.dropout", by_word},
    {"training.router_bias_update_rate", by_word},
    {"training.expert_imbalance", freely},
    {"training.expert_skew", freely},
    {"training.measure_expert_load", freely},
    {"training.loss_scale", by_word},
    {"training.deterministic", freely},
    {"training.cuda_graph", freely},

    {"data.files", by_word},
    {"data.format", by_word},
    {"data.tokenizer", by_word},
    {"data.template", by_word},
    {"data.end_token", by_word},
    {"data.weights", by_word},
    {"data.shuffle", by_word},
    {"data.seed", by_word},
    {"data.mask_token", by_word},
    {"data.document_end", by_word},
    {"data.evaluation.files", by_word},
    {"data.evaluation.batches", by_word},
    {"data.evaluation.every_steps", freely},
    {"data.bytes_per_sample", freely},
    {"data.decode_s", freely},
    {"data.workers", freely},
    {"data.storage_bytes_per_s", freely},

    {"parallelism.pipeline", freely},
    {"parallelism.tensor", freely},
    {"parallelism.data", freely},
    {"parallelism.shard", freely},
    {"parallelism.context", freely},
    {"parallelism.context_exchange", freely},
    {"parallelism.context_heads", freely},
    {"parallelism.expert", freely},
    {"parallelism.expert_tensor", freely},
    {"parallelism.expert_dispatch", freely},
    {"parallelism.virtual_stages", freely},
    {"parallelism.schedule", freely},
    {"parallelism.sequence_parallel", freely},
    {"parallelism.zero_stage", freely},
    {"parallelism.reduce_gradients", freely},
    {"parallelism.reshard_after_forward", freely},
    {"parallelism.active_microbatches", freely},
    {"parallelism.overlap", freely},
    {"parallelism.tensor_chunks", freely},
    {"parallelism.pipeline_scatter_gather", freely},
    {"parallelism.placement", freely},
    {"parallelism.partition", freely},
    {"parallelism.memory_weight", freely},
    {"parallelism.tensor_layout", freely},
    {"parallelism.tensor_batch", freely},
    {"parallelism.offload", freely},
    {"parallelism.offload_horizon", freely},
    {"parallelism.shard_layout", freely},
    {"parallelism.reduce_bucket_bytes", freely},
    {"parallelism.max_live_parameters", freely},
    {"parallelism.persistence_threshold", freely},
    {"parallelism.hierarchical_gather", freely},

    {"cluster.*", freely},
    {"objective.*", freely},
    {"faults.*", freely},
    {"failures.*", freely},
    {"checkpoint.*", freely},
    {"log.*", freely}};

constexpr const char* not_given = "not given";
constexpr std::string_view of_model = "model.", adapters = "training.lora";

// Returns whether one of `words` is the key, or a section that contains the key.
bool names(const std::vector<std::string>& words, std::string_view key) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return key == word || key.starts_with(word + "."); });
}

ChangeRule change_of(std::string_view key) {
  const auto row = std::ranges::find(rows, key, &KeyChange::key);
  return row == std::end(rows) ? by_word : row->change;
}

// Returns whether a key has an effect on what is computed, given the other values of the job.
bool has_effect(std::string_view key, const Job& job, const Training& training) {
  using enum LearningRateSchedule;
  const LearningRateSchedule schedule = training.learning_rate_schedule;
  if (key == "training.steps") return schedule != constant && schedule != inverse_sqrt;
  if (key == "training.documents_per_row") return !job.data;  // data files have documents already
  return true;
}

std::string text_of(const json& job, std::string_view key) {
  std::string place = "/" + std::string(key);
  std::ranges::replace(place, '.', '/');
  const json::json_pointer pointer(place);
  return job.contains(pointer) ? job.at(pointer).dump() : not_given;
}

// Returns a value for a message. Only its first 80 bytes are kept, because a list of files may be
// long.
std::string shortened(const std::string& value) {
  constexpr std::size_t longest = 80;
  return value.size() <= longest ? value : value.substr(0, longest) + " ...";
}

}  // namespace

std::span<const KeyChange> key_changes() { return rows; }

Identity identity_of_weights(const Job& job) {
  Identity identity;
  for (const auto& [name, value] : description_of(job.model)) {
    const std::string key = std::string(of_model) + name;
    if (change_of(key) != freely) identity[key] = value;
  }
  identity[std::string(adapters)] = text_of({{"training", to_json(job.plan.training)}}, adapters);
  return identity;
}

Identity identity_of(const Job& job, const Plan& plan) {
  Identity identity = identity_of_weights(job);
  Job from_its_file = job;  // its paths are compared relative to the job file
  from_its_file.folder = std::filesystem::absolute(job.file).parent_path().string();
  const json all = to_json(from_its_file, plan, "", 0);
  for (const auto& [key, change] : rows)
    if (change != freely && !key.starts_with(of_model))
      identity[std::string(key)] =
          has_effect(key, job, plan.training) ? text_of(all, key) : not_given;
  return identity;
}

IdentityChanges changes_between(const Identity& saved, const Identity& now,
                                const std::vector<std::string>& allowed) {
  IdentityChanges changes;
  std::string refused, words;
  bool may_be_allowed = true;
  for (const auto& [key, value] : now) {
    const auto found = saved.find(key);
    if (found == saved.end()) {
      changes.unknown.push_back(key);
      continue;
    }
    if (found->second == value) continue;
    if (names(allowed, key) && change_of(key) == by_word) {
      changes.allowed += fmt::format("{}{} {} to {}", changes.allowed.empty() ? "" : ", ", key,
                                     shortened(found->second), shortened(value));
      continue;
    }
    refused += fmt::format("{}{} was {}, the job's is {}", refused.empty() ? "" : "; ", key,
                           shortened(found->second), shortened(value));
    words += " --allow-changed " + key;
    may_be_allowed = may_be_allowed && change_of(key) == by_word;
  }
  if (refused.empty()) return changes;
  changes.refused =
      refused + (may_be_allowed
                     ? "; use what it was, or go on with the job's:" + words
                     : "; use the job that it was saved with, or another checkpoint folder");
  return changes;
}

void check_allowed_changes(const std::vector<std::string>& allowed) {
  for (const std::string& word : allowed) {
    const auto is_meant = [&](const KeyChange& row) { return names({word}, row.key); };
    if (std::ranges::any_of(
            rows, [&](const KeyChange& row) { return is_meant(row) && row.change == by_word; }))
      continue;
    const auto row = std::ranges::find_if(rows, is_meant);
    const std::string where = "--allow-changed " + word + ": ";
    if (row == std::end(rows))
      throw InputError(where + "is no key of a job or a model; use one that a refusal names");
    throw InputError(where + (row->change == freely
                                  ? "may change without a word; leave it out"
                                  : "may not change: what was trained would mean something else"));
  }
}

std::string change_list() {
  constexpr std::pair<ChangeRule, const char*> classes[] = {
      {never, "never"}, {by_word, "with `--allow-changed KEY`"}, {freely, "freely"}};
  std::string list;
  for (const auto& [change, words] : classes) {
    list += fmt::format("- {}", words);
    std::string_view section;
    for (const KeyChange& row : rows) {
      if (row.change != change) continue;
      const std::size_t dot = row.key.rfind('.');
      if (row.key.substr(0, dot) != section) {
        section = row.key.substr(0, dot);
        list += fmt::format("\n  - `{}`:", section);
      }
      list += fmt::format(" `{}`", row.key.substr(dot + 1));
    }
    list += "\n";
  }
  return list;
}

}  // namespace meshwright::job
