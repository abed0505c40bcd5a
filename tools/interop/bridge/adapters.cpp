// Reads adapters of LoRA: `peft` of Megatron-Bridge, `model.peft` of NeMo.
#include <algorithm>

#include "tools/interop/bridge/bridge.h"

namespace meshwright::interop {

namespace {

// Names of the matrices of a block that adapters stand at, and those that transformers' Llama has
// in their place.
struct Place {
  const char* name;
  std::vector<std::string> modules;
};

const std::vector<Place>& places() {
  static const std::vector<std::string> qkv = {"q_proj", "k_proj", "v_proj"}, out = {"o_proj"},
                                        up = {"gate_proj", "up_proj"}, down = {"down_proj"};
  static const std::vector<std::string> attention = {"q_proj", "k_proj", "v_proj", "o_proj"},
                                        mlp = {"gate_proj", "up_proj", "down_proj"};
  static const std::vector<Place> rows = {{"linear_qkv", qkv},      {"linear_proj", out},
                                          {"linear_fc1", up},       {"linear_fc2", down},
                                          {"attention_qkv", qkv},   {"attention_dense", out},
                                          {"mlp_fc1", up},          {"mlp_fc2", down},
                                          {"attention", attention}, {"mlp", mlp}};
  return rows;
}

json modules_of(Settings& from, const std::string& name, const json& usual) {
  std::vector<std::string> asked = from.words(name);
  if (asked.empty()) return usual;
  std::vector<std::string> modules;
  for (const std::string& word : asked) {
    if (word == "all") return "all-linear";
    const auto found = std::ranges::find(places(), word, &Place::name);
    if (found == places().end())
      from.fail(name, "'" + word +
                          "': such a module is not known; linear_qkv, linear_proj, linear_fc1 and "
                          "linear_fc2 are (give --set training.lora.target_modules=[...])");
    for (const std::string& module : found->modules)
      if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  }
  constexpr std::size_t of_block = 7;
  return modules.size() == of_block ? json("all-linear") : json(modules);
}

void set_adapter(Settings& from, const std::string& part, const char* rank_name,
                 const char* dropout_name, const json& usual_modules, JobDraft& to) {
  constexpr std::int64_t usual_rank = 32;  // both frameworks'
  const std::int64_t rank = from.count(part + rank_name).value_or(usual_rank);
  const Setting* alpha = from.read(part + "alpha");
  const bool is_rank = alpha == nullptr || (alpha->value.is_string() &&
                                            alpha->value.get<std::string>().starts_with("${"));
  const double scaled = is_rank ? static_cast<double>(rank) : from.number(part + "alpha").value();
  to.set("training.lora",
         {{"rank", rank},
          {"alpha", scaled},
          {"dropout", from.number(part + dropout_name).value_or(0)},
          {"target_modules", modules_of(from, part + "target_modules", usual_modules)}});
  to.remark("the adapters of queries, keys and values have a first matrix each, " +
            from.spelled(part + "target_modules") + " one for the three, and so of gate and input");
}

void read_adapter(Settings& from, JobDraft& to) {
  if (from.has("model.peft.peft_scheme")) {
    const std::string scheme = from.word("model.peft.peft_scheme").value_or("none");
    if (scheme == "none" || scheme == "None" || scheme == "null") return;
    if (scheme != "lora")
      from.fail("model.peft.peft_scheme",
                "'" + scheme +
                    "': such adapters are not built; lora is, and null, with which all parameters "
                    "are trained");
    if (!to.is_given("training.lora"))
      set_adapter(from, "model.peft.lora_tuning.", "adapter_dim", "adapter_dropout",
                  json::array({"q_proj", "k_proj", "v_proj"}), to);
    return;
  }
  const Setting* word = from.read("peft");
  const Setting* target = from.read("peft._target_");
  const bool has_part = std::ranges::any_of(
      from.all(), [](const Setting& each) { return each.name.starts_with("peft."); });
  if (word == nullptr && !has_part) return;
  const std::string kind =
      word != nullptr && word->value.is_string()       ? word->value.get<std::string>()
      : target != nullptr && target->value.is_string() ? target->value.get<std::string>()
                                                       : "lora";
  if (word != nullptr && (word->value == false || kind == "none" || kind == "None")) return;
  if (kind != "lora" && !kind.ends_with(".LoRA"))
    from.fail(word != nullptr ? "peft" : "peft._target_",
              "'" + kind + "': such adapters are not built; lora is");
  const std::string precision = to.word("training.precision", "bf16");
  if (!to.is_given("training.precision") && (precision == "fp8" || precision == "nvfp4"))
    from.fail(word != nullptr ? "peft" : "peft._target_",
              "adapters are not built beside products in " + precision +
                  "; --set training.precision=bf16 plans them in 16 bits, which takes longer");
  if (!to.is_given("training.lora")) set_adapter(from, "peft.", "dim", "dropout", "all-linear", to);
}

}  // namespace

Rule bridge_adapter_rule() {
  return {{"training.lora"},
          {"peft", "peft.dim", "peft.alpha", "peft.dropout", "peft.target_modules",
           "model.peft.peft_scheme", "model.peft.lora_tuning.adapter_dim",
           "model.peft.lora_tuning.alpha", "model.peft.lora_tuning.adapter_dropout",
           "model.peft.lora_tuning.target_modules"},
          read_adapter,
          nullptr,
          "LoRA; read only"};
}

}  // namespace meshwright::interop
