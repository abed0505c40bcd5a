// Rejects files of Megatron-Bridge and NeMo that train something that has no job here, by kind and
// in one message.
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/bridge/bridge.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view speech = "trains a model of speech and text, which is not read";
constexpr std::string_view two_stacks =
    "trains an encoder and a decoder (T5, BART), which are not read from NeMo's settings; a "
    "config.json of one is a model here (docs/models.md)";
constexpr std::string_view recurrent =
    "trains recurrent or state-space layers (Griffin, Mamba), which are not built; `meshwright "
    "capture` makes a model of PyTorch code (docs/own-model.md)";
constexpr std::string_view pictures =
    "trains a model of pictures and texts; its language model alone is planned with --set "
    "model=NAME";

// A setting, or with a `.` at the end a section, that only files of this kind have.
struct OtherKind {
  std::string_view name, kind;
  bool is_fine_with_model = false;  // --set model=NAME makes a job of it
};
constexpr OtherKind kinds[] = {
    {"verification_index.", "is a card that says how a model was verified; it holds no settings"},
    {"data.common.", speech},
    {"model.perception.", speech},
    {"model.encoder.", two_stacks},
    {"model.decoder.", two_stacks},
    {"model.pipeline_model_parallel_split_rank", two_stacks},
    {"model.retro.", "trains a model with retrieval (RETRO), which is not built"},
    {"model.retro_encoder_num_layers", "trains a model with retrieval (RETRO), which is not built"},
    {"model.chunk_size", "trains a model with retrieval (RETRO), which is not built"},
    {"base_model.", "searches scales of muP, which are not built"},
    {"model.hyena.", "trains layers of long convolutions (Hyena), which are not built"},
    {"model.activations_checkpoint_recurrent", recurrent},
    {"model.hybrid_override_pattern", recurrent},
    {"quantization.", "trains weights that are rounded in every forward, which is not built"},
    {"model.only_mlm_loss",
     "trains a BERT of NeMo's own collection, which is not read; a config.json of one is a model "
     "here (docs/models.md)"},
    {"model.teacher.", "trains by a teacher, which is not built"},
    {"model.kd_teacher_restore_from_path", "trains by a teacher, which is not built"},
    {"model.freeze_language_model", pictures, true},
    {"model.freeze_vision_model", pictures, true},
    {"model.use_hf_vision_model", pictures, true},
    {"model.vision_config.", pictures, true},
};

bool is_in(const Settings& settings, std::string_view name, const Setting*& found) {
  const auto at = std::ranges::find_if(settings.all(), [&](const Setting& each) {
    if (each.value.is_null()) return false;
    return name.ends_with('.') ? each.name.starts_with(name) : each.name == name;
  });
  found = at == settings.all().end() ? nullptr : &*at;
  return found != nullptr;
}

// Returns whether --set gives the model, or the recipe names one whose language model is known.
bool names_language_model(const Settings& settings, const JobDraft& given) {
  const Setting* named = nullptr;
  return given.is_given("model") ||
         (is_in(settings, "recipe.model", named) && named->value.is_string() &&
          !language_model_of(named->value).empty());
}

}  // namespace

void refuse_other_bridge_files(Settings& settings, const JobDraft& given) {
  const Setting* found = nullptr;
  if (!given.is_given("model") && is_in(settings, "recipe.model", found) &&
      found->value.is_string())
    if (const std::string why = why_unbuilt(found->value); !why.empty())
      throw InputError(found->place + ": " + why);
  if (is_in(settings, "model.freeze_language_model", found) && found->value == true)
    throw InputError(found->place + ": " + found->name +
                     ": the file trains the towers of pictures beside a frozen language model, "
                     "which is not built");
  for (const OtherKind& row : kinds) {
    if (!is_in(settings, row.name, found)) continue;
    if (!row.is_fine_with_model || !names_language_model(settings, given))
      throw InputError(found->place + ": " + found->name + ": the file " + std::string(row.kind));
    settings.note(settings.where(*found) + "the language model alone is planned, without pictures");
    return;
  }
  // A file that generates text has no optimizer, and says how tokens are chosen.
  const Setting* optimizer = nullptr;
  if (is_in(settings, "inference.", found) && is_in(settings, "trainer.", optimizer) &&
      !is_in(settings, "model.optim.", optimizer) && !settings.has("model.hidden_size"))
    throw InputError(found->place + ": " + found->name +
                     ": the file generates text; give the file of a training");
}

}  // namespace meshwright::interop
