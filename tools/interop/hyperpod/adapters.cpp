// Reads adapters of LoRA in recipes of the model parallel library (`model.peft.peft_type`, `rank`)
// and in those that start NeMo (`model.peft.peft_scheme`, `dim`).
#include <algorithm>

#include "tools/interop/hyperpod/hyperpod.h"

namespace meshwright::interop {

namespace {

constexpr const char *adapter_kind = "model.peft.peft_type", *scheme = "model.peft.peft_scheme";

void read_recipe_adapter(Settings& from, JobDraft& to) {
  const char* name = from.has(scheme) ? scheme : adapter_kind;
  const Setting* setting = from.read(name);
  if (setting == nullptr || setting->value == false || setting->value == "none") return;
  const std::string word = setting->value.is_string() ? setting->value.get<std::string>() : "";
  if (word != "lora")
    from.fail(name, setting->value.dump() +
                        ": such adapters are not built; lora is, and null, with which all "
                        "parameters are trained");
  if (to.is_given("training.lora")) return;
  constexpr std::int64_t usual_rank = 32;
  const std::int64_t rank =
      from.count("model.peft.rank").value_or(from.count("model.peft.dim").value_or(usual_rank));
  const double alpha = from.number("model.peft.alpha").value_or(static_cast<double>(usual_rank));
  to.set("training.lora", {{"rank", rank},
                           {"alpha", alpha},
                           {"dropout", from.number("model.peft.dropout").value_or(0)},
                           {"target_modules", "all-linear"}});
  to.remark(from.spelled(name) + " lora: adapters of rank " + std::to_string(rank) +
            " at all linear layers of the blocks");
}

}  // namespace

Rule recipe_adapter_rule() {
  return {{"training.lora"},
          {adapter_kind, scheme, "model.peft.rank", "model.peft.alpha", "model.peft.dropout"},
          [](Settings& from, JobDraft& to) {
            if (!is_fine_tuning_recipe(from)) read_recipe_adapter(from, to);
          },
          nullptr,
          "LoRA; read only"};
}

}  // namespace meshwright::interop
