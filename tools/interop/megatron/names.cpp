// Renames arguments of older versions and of forks to those that Megatron-LM has today.
#include <algorithm>
#include <tuple>

#include "tools/interop/amounts.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/other_steps.h"

namespace meshwright::interop {

namespace {

struct OtherName {
  std::string_view other, today;
};
// Megatron-LM of 2019 to 2021, Megatron-DeepSpeed, bigscience's fork and Pai-Megatron-Patch.
constexpr OtherName other_names[] = {
    {"model-parallel-size", "tensor-model-parallel-size"},
    {"pipe-model-parallel-size", "pipeline-model-parallel-size"},
    {"batch-size", "micro-batch-size"},
    {"checkpoint-num-layers", "recompute-num-layers"},
    {"warmup", "lr-warmup-fraction"},
    {"num-key-value-heads", "num-query-groups"},
    {"moe-expert-parallel-size", "expert-model-parallel-size"},
    {"topk", "moe-router-topk"},
    {"moe-train-capacity-factor", "moe-expert-capacity-factor"},
    {"moe-loss-coeff", "moe-aux-loss-coeff"},
    {"rope-theta", "rotary-base"},
    {"rotary-emb-base", "rotary-base"},
    {"use-flash-attn-v1", "use-flash-attn"},
    {"use-flash-attn-v2", "use-flash-attn"},
    {"use-flash-attn-triton", "use-flash-attn"},
    {"intermediate-size", "ffn-hidden-size"},
    {"num-attn-heads", "num-attention-heads"},
    {"max-seq-len", "seq-length"},
    {"n-layers", "num-layers"},
    {"encoder-seq-length", "seq-length"},
    {"padded-vocab-size", "vocab-size"},
    {"rotary-position-embeddings-theta", "rotary-base"},
    {"expert-interval", "moe-layer-freq"},
    {"shared-moe-ffn-hidden-size", "moe-shared-expert-intermediate-size"},
    {"distribute-checkpointed-activations", "distribute-saved-activations"},
};

// Adds the defaults of Megatron-DeepSpeed that differ from those of Megatron-LM, if its arguments
// for experts are used: every second layer has experts, and a token goes to one of them
// (megatron/arguments.py).
void add_defaults_of_deepspeed(Settings& settings) {
  const std::vector<Setting> all = settings.all();
  const auto of_fork = std::ranges::find_if(all, [](const Setting& each) {
    return same_name(each.name, "moe-expert-parallel-size") ||
           same_name(each.name, "moe-train-capacity-factor") ||
           same_name(each.name, "moe-min-capacity") ||
           same_name(each.name, "create-moe-param-group");
  });
  const bool has_experts = std::ranges::any_of(all, [](const Setting& each) {
    return same_name(each.name, "num-experts") && each.value != "1" && each.value != 1;
  });
  if (of_fork == all.end() || !has_experts) return;
  for (const auto& [name, today, usual] : {std::tuple{"topk", "moe-router-topk", 1},
                                           std::tuple{"expert-interval", "moe-layer-freq", 2}}) {
    if (settings.has(name) || settings.has(today)) continue;
    settings.add(today, usual, of_fork->place);
    settings.show_as(today, "--" + std::string(name) + " (" + std::to_string(usual) +
                                ", Megatron-DeepSpeed's default)");
  }
}

// Multiplies both batches of a task whose samples are several sequences: each question of RACE has
// four answers (Megatron-LM, tasks/race/data.py).
void count_answers(Settings& settings) {
  const std::vector<Setting> all = settings.all();
  if (std::ranges::none_of(
          all, [](const Setting& each) { return each.name == "task" && each.value == "RACE"; }))
    return;
  for (const Setting& each : all) {
    if (each.name != "micro-batch-size" && each.name != "global-batch-size") continue;
    const auto samples = settings.whole(each.name);
    if (!samples) continue;
    settings.add(each.name, product({4, *samples}), each.place);
    settings.note(settings.where(each) + "each of RACE's " + std::to_string(*samples) +
                  " questions is four sequences");
  }
}

bool is_true(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (each.name == name) return each.value == true || each.value == "true";
  return false;
}

}  // namespace

Settings with_names_of_today(Settings settings, const JobDraft&) {
  check_other_steps(settings);
  add_defaults_of_deepspeed(settings);
  for (const OtherName& row : other_names)
    for (const Setting& each : std::vector<Setting>(settings.all())) {
      if (!same_name(each.name, row.other)) continue;
      const std::string spelling = settings.spelled(each.name);
      settings.remove(row.other);
      if (settings.has(row.today)) continue;
      settings.add(std::string(row.today), each.value, each.place);
      settings.show_as(std::string(row.today), spelling);
      if (row.other == "num-key-value-heads") {
        settings.add("group-query-attention", true, each.place);
        settings.show_as("group-query-attention", spelling);
      }
    }
  count_answers(settings);
  // A file of DeepSpeed says the precision too.
  for (const char* precision : {"bf16", "fp16"})
    if (is_true(settings, precision + std::string(".enabled")) && !settings.has("bf16") &&
        !settings.has("fp16"))
      for (const Setting& each : std::vector<Setting>(settings.all()))
        if (each.name == precision + std::string(".enabled")) {
          settings.add(precision, true, each.place);
          settings.show_as(precision, each.name);
        }
  return settings;
}

}  // namespace meshwright::interop
