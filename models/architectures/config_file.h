// Describes the config.json of one model type of Hugging Face: its classes, the keys of its sizes,
// and rows that read and write the other keys. huggingface.cpp goes through them in both
// directions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/architectures/model.h"

namespace meshwright::architectures {

// Names the keys under which a file gives the sizes. A key is "" if the file does not give that
// size.
struct SizeKeys {
  std::string_view hidden = "hidden_size", layers = "num_hidden_layers",
                   heads = "num_attention_heads", kv_heads = "num_key_value_heads",
                   ffn = "intermediate_size", vocabulary = "vocab_size",
                   positions = "max_position_embeddings";
};

// Describes a key that is read and written. Most rows name the field of the model that has its
// value. Others have functions, which may read and write several keys. An absent key and a null
// mean `usual`, except that a null means that there is no `cap`.
struct ConfigKey {
  std::string_view key = "";
  bool Model::*flags[3] = {};              // all of them have this value
  bool Model::*negated = nullptr;          // a flag with the opposite value
  int Model::*count = nullptr;             // `least` or more
  double Model::*positive = nullptr;       // above 0
  double Model::*cap = nullptr;            // above 0, or null if there is none
  QueryKeyNorm norm = QueryKeyNorm::none;  // for a flag: queries and keys have this norm
  double usual = 0;
  int least = 1;
  bool is_written = true;
  // The two functions are used instead of the fields above. `read` throws InputError for a value
  // that is not supported.
  void (*read)(Fields& fields, Model& model) = nullptr;
  void (*write)(const Model& model, nlohmann::json& config) = nullptr;
};

// Describes a key for which only one value can be built, as JSON. An absent key and a null mean
// that value. The key is only written, and not read, if there is no reason `why` others are
// rejected.
struct FixedKey {
  std::string_view key = "", value = "", why = "";
  bool is_written = false;
};

// Names classes of transformers. `body` is how the name of the class that classifies texts begins,
// if there is one. If it is "", that name begins as the generator's.
struct ClassNames {
  std::string_view generator = "";  // with a language model's head
  std::string_view reader = "";     // with a head for question answering; "": there is none
  std::string_view body = "";
  bool has_classifier = true;
};

// Names the key of the activation ("": there is none), and the words for it.
struct ActivationKey {
  ActivationWords values = families::silu;
  std::string_view key = "hidden_act";
};

struct ConfigFile {
  std::string_view model_type = "";  // "": the architecture's name
  ClassNames classes = {};
  bool in_text_config = false;  // the model also reads images; `text_config` describes this part
  SizeKeys sizes = {};
  // Tell whether sizes must be given, because their default depends on the model type more than a
  // reader would expect.
  bool needs_ffn = true, needs_kv_heads = false;
  std::string_view epsilon = "rms_norm_eps";  // "": no such key
  ActivationKey activation = {};
  // Name the keys of rotary positions as they are written: their base, and the part of a head that
  // is rotated, as a share or as a number of elements. A key that is "" is not written.
  std::string_view rotary_base = "rope_theta", rotary_share = "", rotary_width = "";
  std::string_view no_yarn = "";  // why YaRN cannot be built for it, and the remedy
  FixedKey fixed[4] = {};
  // The rows are in the order in which they are read: before the sizes, after them, and after the
  // activation and `tie_word_embeddings`. The empty rows at the end of a list do nothing.
  ConfigKey early_keys[2] = {};
  ConfigKey keys[10] = {};
  ConfigKey late_keys[2] = {};
};

}  // namespace meshwright::architectures
