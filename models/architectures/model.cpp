#include "models/architectures/model.h"

#include <nlohmann/json.hpp>

#include "models/architectures/architecture.h"
#include "models/architectures/captured/captured_model.h"
#include "models/architectures/usual_shape.h"
#include "models/core/error.h"
#include "models/core/names_in.h"
#include "models/program/graph/experts.h"

namespace meshwright::architectures {

namespace {

// The limits of sizes are far beyond any model.
constexpr int max_hidden = 1 << 20, max_heads = 1 << 14, max_layers = 10'000, max_ffn = 1 << 24;
constexpr std::int64_t max_vocabulary = 100'000'000;
constexpr int max_positions = 100'000'000;
constexpr int max_image_size = 1 << 13, max_channels = 1 << 8;
constexpr std::string_view capacity_key = "expert_capacity_factor",
                           dropless_key = "expert_dropless",
                           rank_key = "expert_rank_capacity_factor",
                           overflow_key = "expert_overflow", balance_key = "router_aux_loss_coef";

struct FamilyName {
  std::string_view name;  // in our JSON
  Architecture architecture;
};
constexpr FamilyName families_of_json[] = {
    {"gpt", Architecture::gpt2},     {"llama", Architecture::llama},
    {"bert", Architecture::bert},    {"mpt", Architecture::mpt},
    {"bloom", Architecture::bloom},  {"mixtral", Architecture::mixtral},
    {"seq2seq", Architecture::bart}, {"vit", Architecture::vit},
};

void check_range(const Fields& fields, std::string_view key, std::int64_t value,
                 std::int64_t most) {
  if (value < 1 || value > most)
    fields.fail(key, std::to_string(value) + " is out of range; use 1 to " + std::to_string(most));
}

std::string divisors_of(int number) {
  std::vector<std::string> divisors;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(std::to_string(d));
  return list_of(divisors);
}

// Checks that the heads divide the hidden size (unless a head has a width of its own), that the
// key/value heads divide the heads, and that a family which packs queries, keys and values by head
// has equally many of them.
void check_heads(const Fields& fields, const SizeKeys& keys, const Model& model, bool own_width) {
  if (!own_width && model.hidden % model.heads != 0)
    fields.fail(keys.heads, std::to_string(model.heads) + " heads do not divide the hidden size " +
                                std::to_string(model.hidden) + "; use a number that does");
  const std::string_view key = keys.kv_heads.empty() ? keys.heads : keys.kv_heads;
  if (model.heads % model.kv_heads != 0)
    fields.fail(key, std::to_string(model.kv_heads) + " does not divide the " +
                         std::to_string(model.heads) + " heads; use " + divisors_of(model.heads));
  if (model.kv_heads != model.heads && info(model.architecture).packing == Packing::per_head)
    fields.fail(key, "this family packs queries, keys and values by head; use " +
                         std::to_string(model.heads) + " or leave it out");
}

Model model_of_family(Fields& fields) {
  const std::vector<std::string> known = names_in(families_of_json);
  if (!fields.has("family"))
    fields.fail("family",
                "missing; it is required: " + list_of(known) +
                    "; or name a known model instead of an object (`meshwright list models`)");
  const int index =
      choose(fields, "family", "family", fields.required<std::string>("family"), known);
  const FamilyName& row = families_of_json[index];
  Model model = model_of(row.architecture);
  model.name = row.name;
  return model;
}

}  // namespace

const ArchitectureInfo& info(Architecture architecture) {
  return all_architectures[static_cast<std::size_t>(architecture)].info;
}

std::string_view name_of(Architecture architecture) { return info(architecture).name; }

Model model_of(Architecture architecture) {
  Model model;
  static_cast<Traits&>(model) = info(architecture).traits;
  model.architecture = architecture;
  return model;
}

bool Model::shares_layers() const { return !info(architecture).shared_block.empty(); }

ModelInputs Model::inputs() const {
  constexpr Targets of_head[] = {Targets::next, Targets::masked, Targets::span, Targets::label};
  ModelInputs inputs;
  inputs.vocabulary = vocabulary;
  inputs.pixels = pixels();
  inputs.targets = has_decoder() ? Targets::pair : of_head[static_cast<std::size_t>(head)];
  inputs.start_token = decoder_start;
  inputs.classes = classes;
  inputs.label_of_last = is_causal();
  return inputs;
}

ModelSizes Model::sizes() const {
  ModelSizes sizes{hidden, layers, heads, kv_heads, ffn, positions, vocabulary, learned_positions,
                   experts};
  sizes.embedding = embedding;
  sizes.dropless = expert_dropless;
  sizes.balances = experts > 0 && router_aux_loss_coef > 0;
  sizes.shared_ffn = shared_ffn;
  sizes.dense_ffn = dense_ffn;
  sizes.sinks = attention_sinks;
  sizes.choice_biases = expert_bias;
  sizes.latent = kv_lora_rank > 0;
  sizes.bare_norms = info(architecture).bare_norms && rms_norm;
  sizes.shares_layers = shares_layers();
  sizes.has_decoder = has_decoder();
  sizes.reads_images = reads_images();
  sizes.can_pack = head == Head::lm && !has_decoder() && !reads_images() && !imported && !captured;
  if (captured) {
    sizes.captured = true;
    sizes.units = static_cast<int>(captured->units.size());
    auto degree = sizes.tensor_degrees.begin(), of_sequence = sizes.sequence_degrees.begin();
    for (const auto& each : captured->on_ranks)
      *(each->sequence_parallel ? of_sequence++ : degree++) = each->tensor_degree;
    if (!captured->fixed_micro_batch.empty()) sizes.micro_batch = captured->micro_batch;
    sizes.precision = captured->precision;
    sizes.tokens_per_sample = captured->tokens_per_sample;
  }
  sizes.can_predict_ahead = sizes.can_pack && rms_norm && !learned_positions && !shares_layers() &&
                            !sizes.bare_norms && embedding_width() == hidden;
  return sizes;
}

void read_experts(Fields& fields, const ExpertKeys& keys, Model& model) {
  if (is_given(fields, keys.experts)) model.experts = fields.required<int>(keys.experts);
  check_range(fields, keys.experts, model.experts, most_experts);
  if (is_given(fields, keys.per_token))
    model.experts_per_token = fields.required<int>(keys.per_token);
  check_range(fields, keys.per_token, model.experts_per_token, model.experts);
  if (is_given(fields, capacity_key)) {
    model.expert_capacity_factor = fields.required<double>(capacity_key);
    if (!(model.expert_capacity_factor > 0 && model.expert_capacity_factor <= most_experts))
      fields.fail(capacity_key, "must be above 0 and at most " + std::to_string(most_experts) +
                                    "; experts / experts_per_token and more drop no token");
  }
  // Without a capacity, the layers of experts are dropless unless the file says otherwise.
  model.expert_dropless = !is_given(fields, capacity_key);
  if (is_given(fields, dropless_key)) model.expert_dropless = fields.required<bool>(dropless_key);
  if (is_given(fields, rank_key)) {
    model.expert_rank_capacity_factor = fields.required<double>(rank_key);
    if (!(model.expert_rank_capacity_factor >= 0 &&
          model.expert_rank_capacity_factor <= most_experts))
      fields.fail(rank_key, "must be 0 to " + std::to_string(most_experts) +
                                "; 0: all tokens may choose the experts of one rank");
  }
  if (is_given(fields, overflow_key))
    model.expert_overflow_drops =
        choose(fields, overflow_key, "expert_overflow", fields.required<std::string>(overflow_key),
               {"error", "drop"}) == 1;
  if (is_given(fields, balance_key)) {
    model.router_aux_loss_coef = fields.required<double>(balance_key);
    if (!(model.router_aux_loss_coef >= 0 && model.router_aux_loss_coef <= 1e6))
      fields.fail(balance_key, "must be 0 or more");
  }
}

void read_decoder_start(Fields& fields, std::string_view key, Model& model) {
  if (is_given(fields, key)) model.decoder_start = fields.required<int>(key);
  if (model.decoder_start < 0 || model.decoder_start >= model.vocabulary)
    fields.fail(key, std::to_string(model.decoder_start) + " is not in the vocabulary; use 0 to " +
                         std::to_string(model.vocabulary - 1));
}

void check_classifies(const Fields& fields, std::string_view key, const Model& model) {
  if (model.has_decoder()) fields.fail(key, "only the language model's head is built for it");
  if (model.experts > 0)
    fields.fail(key,
                "not supported yet: the class of a text from a model with experts, whose balancing "
                "loss would count the padding; use a dense model");
}

void check_classes(const Fields& fields, std::string_view key, int classes) {
  if (classes < 2 || classes > most_classes)
    fields.fail(key, std::to_string(classes) + " classes are out of range; use 2 to " +
                         std::to_string(most_classes));
}

bool is_given(Fields& fields, std::string_view key) {
  return !key.empty() && fields.has(key) && !fields.raw(key).is_null();
}

void read_sizes(Fields& fields, const SizeKeys& keys, Model& model) {
  const auto number = [&](std::string_view key, int fallback, int most) {
    const int value = is_given(fields, key) ? fields.required<int>(key) : fallback;
    if (is_given(fields, key)) check_range(fields, key, value, most);
    return value;
  };
  for (std::string_view key : {keys.hidden, keys.layers, keys.heads, keys.vocabulary})
    if (!key.empty() && !is_given(fields, key))
      fields.fail(key, "missing; it is required (an integer)");
  model.hidden = number(keys.hidden, 0, max_hidden);
  model.layers = number(keys.layers, 0, max_layers);
  model.heads = number(keys.heads, 0, max_heads);
  if (!keys.vocabulary.empty()) {
    model.vocabulary = fields.required<std::int64_t>(keys.vocabulary);
    check_range(fields, keys.vocabulary, model.vocabulary,
                model.reads_images() ? most_classes : max_vocabulary);
  }
  model.kv_heads = number(keys.kv_heads, model.heads, max_heads);
  model.ffn = number(keys.ffn, 4 * model.hidden, max_ffn);
  model.positions = number(keys.positions, 0, max_positions);
  if (model.reads_images()) {
    const int across = model.image_size / model.patch_size;
    model.positions = across * across + 1;
  }
  if (model.learned_positions && model.positions == 0)
    fields.fail(keys.positions, "missing; the position table needs it (an integer)");
  const bool own_width = model.head_dim > 0;
  check_heads(fields, keys, model, own_width);
  if (!own_width) model.head_dim = model.hidden / model.heads;
}

void read_image_sizes(Fields& fields, const ImageKeys& keys, Model& model) {
  const auto number = [&](std::string_view key, int usual, int most) {
    const int value = is_given(fields, key) ? fields.required<int>(key) : usual;
    check_range(fields, key, value, most);
    return value;
  };
  model.image_size = number(keys.size, 224, max_image_size);
  model.patch_size = number(keys.patch, 16, model.image_size);
  model.channels = number(keys.channels, 3, max_channels);
  if (model.image_size % model.patch_size != 0)
    fields.fail(keys.patch, std::to_string(model.patch_size) + " does not divide the image size " +
                                std::to_string(model.image_size) + "; use a number that does");
}

Model read_model(Fields fields) {
  if (fields.has("parameters"))
    fields = Fields(with_usual_shape(fields), fields.where(), fields.pointer());
  Model model = model_of_family(fields);
  SizeKeys keys{"hidden", "layers", "heads", "kv_heads", "ffn", "vocab", "positions"};
  if (model.family == Family::vit) {
    keys.vocabulary = "classes";
    keys.kv_heads = keys.positions = "";
    read_image_sizes(fields, {"image_size", "patch_size", "channels"}, model);
  }
  read_sizes(fields, keys, model);
  model.rotary_dim = static_cast<int>(info(model.architecture).rotary_share * model.head_dim);
  if (model.rotary_dim % 2 != 0)
    fields.fail("heads", "a head is " + std::to_string(model.head_dim) +
                             " wide; rotary positions need an even width");
  if (model.experts > 0) {
    read_experts(fields, {"experts", "experts_per_token"}, model);
  } else {
    const bool gated = fields.optional<bool>("gated_ffn", model.gated_ffn);
    if (gated != model.gated_ffn) model.activation = gated ? Activation::silu : Activation::gelu;
    model.gated_ffn = gated;
  }
  if (!model.reads_images())
    model.tied_embeddings = fields.optional<bool>("tied_embeddings", model.tied_embeddings);
  if (model.has_decoder()) read_decoder_start(fields, "decoder_start", model);
  if (fields.has("head") && model.head != Head::label && !model.has_decoder()) {
    const auto word = fields.required<std::string>("head");
    model.head = static_cast<Head>(
        choose(fields, "head", "head", word, {"lm", "mlm", "qa", "classification"}));
    const Head other = model.family == Family::bert ? Head::lm : Head::mlm;
    if (model.head == other)
      fields.fail("head",
                  model.family == Family::bert
                      ? "bert sees both sides of a token; use 'mlm', 'qa' or 'classification'"
                      : "this family sees earlier tokens only; use 'lm', 'qa' or 'classification'");
    if (model.classifies_text()) {
      check_classifies(fields, "head", model);
      model.classes = fields.required<int>("classes");
      check_classes(fields, "classes", model.classes);
    }
  }
  fields.done();
  return model;
}

}  // namespace meshwright::architectures
