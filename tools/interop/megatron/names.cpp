// Renames arguments of older versions and of forks to those that Megatron-LM has today.
#include "tools/interop/megatron/megatron.h"

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
};

bool is_true(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (each.name == name) return each.value == true || each.value == "true";
  return false;
}

}  // namespace

Settings with_names_of_today(Settings settings, const JobDraft&) {
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
