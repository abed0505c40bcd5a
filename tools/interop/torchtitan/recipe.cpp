// Writes a plan for torchtitan 0.3, whose settings are Python: a module with one function that
// returns a Trainer.Config. Names: torchtitan 0.3.0, trainer.py, config/configs.py,
// models/llama3/__init__.py, models/common/config_utils.py, components/optimizer/,
// components/quantization/, distributed/activation_checkpoint.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/core/quote.h"
#include "tools/interop/target.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

std::string literal(const json& value) {
  if (value.is_boolean()) return value == true ? "True" : "False";
  if (value.is_null()) return "None";
  if (value.is_number_float() && std::isinf(value.get<double>())) return "float(\"inf\")";
  if (value.is_string()) return double_quoted(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& each : value) text += (text.empty() ? "" : ", ") + literal(each);
  return "[" + text + "]";
}

// Returns the settings of one section as arguments of its Python class, one per line, except those
// in `left_out`.
std::string arguments(const Settings& settings, const std::string& section,
                      const std::vector<std::string_view>& left_out = {}) {
  std::string text;
  for (const Setting& each : settings.all()) {
    if (!each.name.starts_with(section + ".")) continue;
    const std::string name = each.name.substr(section.size() + 1);
    if (std::ranges::find(left_out, name) != left_out.end()) continue;
    if (each.value.is_array() && !each.value.empty() && each.value[0].is_array()) {
      text += "            " + name + "=[\n";
      for (const json& part : each.value) text += "                " + literal(part) + ",\n";
      text += "            ],\n";
    } else {
      text += "            " + name + "=" + literal(each.value) + ",\n";
    }
  }
  return text;
}

// Returns the settings with the names of torchtitan 0.3, which calls the head lm_head instead of
// output.
Settings with_names_of_recipes(const Settings& settings) {
  Settings renamed;
  for (const Setting& each : settings.all()) {
    json value = each.value;
    if (each.name == "parallelism.module_fqns_per_model_part")
      for (json& part : value)
        for (json& module : part)
          if (module == "output") module = "lm_head";
    renamed.add(each.name, std::move(value));
  }
  return renamed;
}

std::string checkpointing(const Training& t) {
  if (t.recompute_budget)
    return "MemoryBudgetAC.Config(memory_budget=" + literal(*t.recompute_budget) + ")";
  if (t.recompute == Recompute::selective) return "SelectiveAC.Config()";
  return t.recompute == Recompute::full ? "FullAC.Config()" : "None";
}

std::string class_of(const std::string& call) { return call.substr(0, call.find('.')); }

// Returns torchtitan 0.3's name of the attention kernel. FlashAttention (varlen) needs 16 bits and
// does not split sequences over context ranks, so FlexAttention (flex) is taken otherwise.
const char* attention_of(const Plan& plan) {
  const bool flashes = plan.parallelism.context == 1 && plan.training.precision != Precision::fp32;
  return flashes ? "varlen" : "flex";
}

std::string converter_of(const Training& t) {
  if (t.precision != Precision::fp8) return {};
  return t.fp8_recipe == Fp8Recipe::mxfp8 ? "MXFP8LinearConverter" : "Float8LinearConverter";
}

std::string converter_call(const Training& t) {
  const bool compiles = t.compiler == CompilerLevel::full;
  return converter_of(t) + ".Config(model_compile_enabled=" + literal(compiles) + ")";
}

// Returns Python code for a model whose sizes are no flavor of llama3: its function model_of()
// makes the model.
std::string own_model(const Model& m) {
  const auto size = [](auto value) { return json(value).dump(); };
  return fmt::format(R"(WIDTH, HEADS, KV_HEADS, MLP, VOCABULARY = {}, {}, {}, {}, {}
ONES = {{"weight": nn.init.ones_}}
NORMAL = {{"weight": partial(nn.init.trunc_normal_, std=0.02)}}


def norm():
    return RMSNorm.Config(normalized_shape=WIDTH, eps={}, param_init=ONES)


def block(layer, attention):
    deep = {{"weight": partial(nn.init.trunc_normal_, std=depth_scaled_std(0.02, layer))}}
    return Llama3TransformerBlock.Config(
        attention_norm=norm(),
        ffn_norm=norm(),
        attention=make_gqa_config(
            dim=WIDTH,
            n_heads=HEADS,
            n_kv_heads=KV_HEADS,
            wqkv_param_init=NORMAL,
            wo_param_init=deep,
            inner_attention=get_attention_config(attention),
            rope=ComplexRoPE.Config(dim=WIDTH // HEADS, max_seq_len={}, theta={}),
            fuse_qkv=True,
        ),
        feed_forward=make_ffn_config(
            dim=WIDTH, hidden_dim=MLP, w1_param_init=NORMAL, w2w3_param_init=deep
        ),
    )


# A Llama of these sizes, with the functions of torchtitan's own.
def model_of(attention, converters=()):
    model = Llama3Model.Config(
        dim=WIDTH,
        vocab_size=VOCABULARY,
        tok_embeddings=Embedding.Config(
            num_embeddings=VOCABULARY, embedding_dim=WIDTH, param_init=NORMAL
        ),
        norm=norm(),
        lm_head=Linear.Config(in_features=WIDTH, out_features=VOCABULARY, param_init=NORMAL),
        layers=[block(layer, attention) for layer in range({})],
    )
    for converter in converters:
        model = converter.build().convert(model)
    return replace(model_registry("debugmodel"), flavor="job", model=model)


)",
                     size(m.hidden), size(m.heads), size(m.kv_heads), size(m.ffn),
                     size(m.vocabulary), size(m.norm_epsilon), size(m.positions),
                     size(m.rotary_base), size(m.layers));
}

std::string model_call(const JobValues& job) {
  const std::string flavor = flavor_of(job.model);
  std::string call = flavor.empty() ? "model_of(" : "model_registry(" + literal(flavor) + ", ";
  call += (flavor.empty() ? "" : "attn_backend=") + literal(attention_of(job.plan));
  if (!converter_of(job.plan.training).empty())
    call += ", converters=[" + converter_call(job.plan.training) + "]";
  return call + ")";
}

std::string imports(const JobValues& job) {
  const bool is_own = flavor_of(job.model).empty();
  const std::string policy = checkpointing(job.plan.training);
  const std::string converter = converter_of(job.plan.training);
  std::string text;
  if (is_own)
    text +=
        "from dataclasses import replace\nfrom functools import partial\n\nimport torch.nn as nn\n";
  text +=
      "from torchtitan.components.loss import CrossEntropyLoss\n"
      "from torchtitan.components.optimizer import (\n"
      "    LRSchedulersContainer,\n"
      "    OptimizersContainer,\n"
      "    ParamGroupConfig,\n"
      ")\n";
  if (!converter.empty())
    text += "from torchtitan.components.quantization import " + converter + "\n";
  text +=
      "from torchtitan.config import CompileConfig, DebugConfig, ParallelismConfig, "
      "TrainingConfig\n";
  if (policy != "None")
    text += "from torchtitan.distributed.activation_checkpoint import " + class_of(policy) + "\n";
  text += "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader\n";
  if (is_own)
    text +=
        "from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm\n"
        "from torchtitan.models.common.config_utils import (\n"
        "    decoder_vocab_size,\n"
        "    get_attention_config,\n"
        "    make_ffn_config,\n"
        "    make_gqa_config,\n"
        ")\n"
        "from torchtitan.models.common.param_init import depth_scaled_std\n";
  else
    text += "from torchtitan.models.common.config_utils import decoder_vocab_size\n";
  text += "from torchtitan.models.llama3 import model_registry\n";
  if (is_own)
    text += "from torchtitan.models.llama3.model import Llama3Model, Llama3TransformerBlock\n";
  return text + "from torchtitan.trainer import Trainer\n\n";
}

std::string optimizer_of(const Settings& settings, const Training& t) {
  std::string name;
  for (const Setting& each : settings.all())
    if (each.name == "optimizer.name") name = literal(each.value);
  return fmt::format(R"(        optimizer=OptimizersContainer.Config(
            param_groups=[
                ParamGroupConfig(
                    pattern=r".*",
                    optimizer_name={},
                    optimizer_kwargs={{
                        "lr": {},
                        "betas": ({}, {}),
                        "eps": {},
                        "weight_decay": {},
                    }},
                )
            ]
        ),
)",
                     name, literal(t.learning_rate), literal(t.beta1), literal(t.beta2),
                     literal(t.epsilon), literal(t.weight_decay));
}

}  // namespace

std::vector<std::string> torchtitan_recipe_differences(const Plan& plan) {
  std::vector<std::string> found;
  const Training& t = plan.training;
  if (is_ddp(plan.parallelism))
    found.emplace_back("torchtitan 0.3 reduces gradients block by block; the plan has buckets");
  if (plan.parallelism.context > 1 && plan.parallelism.context_exchange == ContextExchange::p2p)
    found.emplace_back("torchtitan 0.3 gathers keys and values; the plan sends them around a ring");
  if (t.recompute_fraction < 1)
    found.emplace_back("torchtitan 0.3 recomputes all blocks; the plan a part of them");
  if (converter_of(t) == "Float8LinearConverter")
    found.emplace_back(
        "torchtitan 0.3 scales 8 bits row by row; the plan has one scale for a tensor");
  if (t.fp8_gathers)
    found.emplace_back("torchtitan 0.3 gathers weights in 16 bits then; the plan in 8");
  return found;
}

std::string torchtitan_recipe(const JobValues& job, const Settings& all) {
  const Settings settings = with_names_of_recipes(all);
  const Training& t = job.plan.training;
  std::string text =
      "# The settings of torchtitan.toml for torchtitan 0.3, where they are Python. In the files\n"
      "# that start it `--module meshwright_recipe --config job` takes the place of\n"
      "# `--job.config_file torchtitan.toml`.\n";
  for (const std::string& difference : torchtitan_recipe_differences(job.plan))
    text += "# " + difference + ".\n";
  text += imports(job) + "\n";
  if (flavor_of(job.model).empty()) text += own_model(job.model);
  const auto section = [&](const char* name, const char* type, const std::string& inside) {
    text += fmt::format("        {}={}(\n{}        ),\n", name, type, inside);
  };
  text += "def job() -> Trainer.Config:\n    model_spec = " + model_call(job) + "\n";
  text +=
      "    return Trainer.Config(\n"
      "        model_spec=model_spec,\n"
      "        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),\n"
      "        hf_assets_path=\".\",\n"
      "        # torchtitan's own sample; a real run names its data here.\n"
      "        dataloader=HuggingFaceTextDataLoader.Config(dataset=\"c4_test\"),\n";
  section("training", "TrainingConfig",
          arguments(settings, "training") + "            disable_cuda_graphs=True,\n");
  section("parallelism", "ParallelismConfig",
          arguments(settings, "parallelism",
                    {"context_parallel_rotate_method", "enable_async_tensor_parallel"}));
  text += optimizer_of(settings, t);
  section("lr_scheduler", "LRSchedulersContainer.Config", arguments(settings, "lr_scheduler"));
  text += "        activation_checkpoint=" + checkpointing(t) + ",\n";
  section("compile", "CompileConfig",
          arguments(settings, "compile") + "            enable_async_tensor_parallel=" +
              literal(job.plan.parallelism.overlap_tensor) + ",\n");
  section("debug", "DebugConfig", arguments(settings, "debug"));
  return text + "    )\n";
}

}  // namespace meshwright::interop
