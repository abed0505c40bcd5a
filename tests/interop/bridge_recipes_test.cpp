// Files of NeMo and Megatron-Bridge, in YAML and as recipes in Python: other decoders, adapters,
// kinds that are refused, and which recipe of a program is read.
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Imported import_bridge(const TestFolder& folder, const std::string& name, const std::string& text,
                       const std::map<std::string, std::string>& defines = {},
                       std::vector<std::string> more = {}) {
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  for (std::string& each : more) options.overrides.push_back(std::move(each));
  options.defines = defines;
  return import_settings({folder.file(name, text)}, options, machine_facts);
}

std::string refusal_of_bridge(const std::string& name, const std::string& text,
                              const std::map<std::string, std::string>& defines = {}) {
  try {
    (void)import_bridge(TestFolder(), name, text, defines);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool bridge_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool bridge_notes(const Imported& imported, const std::string& part) {
  return std::ranges::any_of(imported.remarks,
                             [&](const std::string& each) { return bridge_text_has(each, part); });
}

// In the form of NeMo 1's examples/nlp/language_modeling/conf.
std::string nemo_file(const std::string& model) {
  return "trainer:\n  devices: 8\n  num_nodes: 2\n  precision: bf16\n  max_steps: 100\n"
         "model:\n  micro_batch_size: 1\n  global_batch_size: 16\n"
         "  tensor_model_parallel_size: 1\n  encoder_seq_length: 2048\n"
         "  max_position_embeddings: ${.encoder_seq_length}\n  num_layers: 4\n"
         "  hidden_size: 512\n  num_attention_heads: 8\n  vocab_size: 32000\n" +
         model;
}

}  // namespace

TEST_CASE("NeMo's files of Gemma, Falcon and ChatGLM are these models", "[interop]") {
  const auto model_of = [](const std::string& text) {
    return import_bridge(TestFolder(), "nemo.yaml", nemo_file(text)).job["model"];
  };
  const std::string plain =
      "  bias: false\n  position_embedding_type: rope\n  rotary_percentage: 1.0\n";
  const json gemma = model_of(plain +
                              "  ffn_hidden_size: 2048\n  kv_channels: 96\n"
                              "  normalization: rmsnorm\n  activation: geglu\n"
                              "  share_embeddings_and_output_weights: true\n"
                              "  apply_embedding_scaling: true\n  num_query_groups: 1\n");
  CHECK(gemma["model_type"] == "gemma");
  CHECK(gemma["head_dim"] == 96);
  CHECK(gemma["num_key_value_heads"] == 1);
  CHECK(gemma["tie_word_embeddings"] == true);
  const json gemma2 = model_of(plain +
                               "  ffn_hidden_size: 2048\n  normalization: rmsnorm\n"
                               "  activation: fast-geglu\n  mcore_customization_config:\n"
                               "    query_pre_attn_scalar: 224\n    attn_logit_softcapping: 50.0\n"
                               "    final_logit_softcapping: 30.0\n");
  CHECK(gemma2["model_type"] == "gemma2");
  CHECK(gemma2["query_pre_attn_scalar"] == 224);
  CHECK(gemma2["final_logit_softcapping"] == 30);
  const json falcon = model_of(plain +
                               "  ffn_hidden_size: 2048\n  normalization: layernorm\n"
                               "  activation: gelu\n  num_query_groups: 1\n"
                               "  share_embeddings_and_output_weights: false\n"
                               "  mcore_customization_config:\n    parallel_attention: true\n"
                               "    new_decoder_architecture: false\n");
  CHECK(falcon["model_type"] == "falcon");
  CHECK(falcon["multi_query"] == true);
  CHECK(falcon["parallel_attn"] == true);
  const json glm = model_of(
      "  bias: false\n  position_embedding_type: rope\n  rotary_percentage: 0.5\n"
      "  rotary_interleaved: true\n  qkv_bias: true\n  ffn_hidden_size: 1024\n"
      "  normalization: rmsnorm\n  activation: fast-swiglu\n  num_query_groups: 2\n");
  CHECK(glm["model_type"] == "glm");
  CHECK(glm["partial_rotary_factor"] == 0.5);
  CHECK(glm["attention_bias"] == true);
  CHECK(bridge_text_has(
      refusal_of_bridge("nemo.yaml", nemo_file("  bias: true\n  activation: geglu\n"
                                               "  position_embedding_type: learned_absolute\n")),
      "is built in models as Gemma's only"));
}

TEST_CASE("adapters of NeMo and Megatron-Bridge are LoRA, or refused", "[interop]") {
  const auto with_scheme = [](const std::string& scheme) {
    return nemo_file("  peft:\n    peft_scheme: " + scheme +
                     "\n    lora_tuning:\n      target_modules: ['attention_qkv', 'mlp_fc2']\n"
                     "      adapter_dim: 16\n      alpha: ${model.peft.lora_tuning.adapter_dim}\n"
                     "      adapter_dropout: 0.1\n");
  };
  const Imported lora = import_bridge(TestFolder(), "nemo.yaml", with_scheme("lora"));
  CHECK(lora.job["training"]["lora"]["rank"] == 16);
  CHECK(lora.job["training"]["lora"]["alpha"] == 16);
  CHECK(lora.job["training"]["lora"]["dropout"] == 0.1);
  CHECK(lora.job["training"]["lora"]["target_modules"] ==
        json{"q_proj", "k_proj", "v_proj", "down_proj"});
  CHECK(!import_bridge(TestFolder(), "nemo.yaml", with_scheme("none"))
             .job["training"]
             .contains("lora"));
  CHECK(bridge_text_has(refusal_of_bridge("nemo.yaml", with_scheme("ia3")),
                        "'ia3': such adapters are not built"));
  const Imported bridge = import_bridge(
      TestFolder(), "bridge.yaml",
      "dataset:\n  seq_length: 4096\ntrain:\n  global_batch_size: 128\n  micro_batch_size: 2\n"
      "peft:\n  dim: 8\n  alpha: 16\nmodel:\n  seq_length: 4096\n  tensor_model_parallel_size: 1\n",
      {}, {"model=llama-3.2-1b"});
  CHECK(bridge.job["training"]["lora"] ==
        json{{"rank", 8}, {"alpha", 16.0}, {"dropout", 0.0}, {"target_modules", "all-linear"}});
}

TEST_CASE("files that train something else are refused by their kind", "[interop]") {
  const auto says = [](const std::string& more, const std::string& part) {
    return bridge_text_has(refusal_of_bridge("other.yaml", nemo_file(more)), part);
  };
  CHECK(says("  perception:\n    encoder: conformer\n", "trains a model of speech and text"));
  CHECK(says("  encoder:\n    num_layers: 2\n", "trains an encoder and a decoder"));
  CHECK(says("  activations_checkpoint_recurrent: false\n", "trains recurrent or state-space"));
  CHECK(says("  hyena:\n    use_bias: true\n", "long convolutions"));
  CHECK(says("  teacher:\n    num_layers: 2\n", "trains by a teacher"));
  CHECK(bridge_text_has(
      refusal_of_bridge("card.yaml", "title: x\nverification_index:\n  training: verified\n"),
      "is a card that says how a model was verified"));
  const std::string pictures =
      "model:\n  freeze_language_model: false\n  tensor_model_parallel_size: 2\n"
      "  seq_length: 2048\ntrain:\n  global_batch_size: 16\n  micro_batch_size: 1\n";
  CHECK(bridge_text_has(refusal_of_bridge("vl.yaml", pictures), "--set model=NAME"));
  const Imported language =
      import_bridge(TestFolder(), "vl.yaml", pictures, {}, {"model=qwen2.5-7b"});
  CHECK(language.job["model"] == "qwen2.5-7b");
  CHECK(bridge_notes(language, "the language model alone is planned"));
}

TEST_CASE("a recipe of Megatron-Bridge in Python is read", "[interop]") {
  const std::string text = R"(
from megatron.bridge import AutoBridge
from megatron.bridge.training.config import ConfigContainer

LENGTH = 4096


def _wide(cfg: ConfigContainer) -> None:
    cfg.model.tensor_model_parallel_size = 4


def tiny_pretrain_16gpu_h100_bf16_config() -> ConfigContainer:
    """Text with cfg.train.micro_batch_size = 7 is no code."""
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").get_model_config()
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 1
    cfg.model.context_parallel_size = 2
    cfg.model.pipeline_dtype = None
    cfg.model.sequence_parallel = True
    cfg.model.recompute_granularity = "full"
    cfg.model.recompute_method = "uniform"
    cfg.model.recompute_num_layers = 1
    cfg.dataset.seq_length = 2 * LENGTH
    cfg.train.global_batch_size = 64
    cfg.train.micro_batch_size = 1
    cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"
    cfg.env_vars = {"A": 1}
    return cfg


def tiny_sft_8gpu_h100_bf16_config(peft: str = "lora") -> ConfigContainer:
    cfg = tiny_pretrain_16gpu_h100_bf16_config()
    cfg.mixed_precision = "bf16_mixed"
    if peft == "lora":
        cfg.peft = default_peft_config(peft, dim=8)
    else:
        cfg.train.micro_batch_size = 4
    _wide(cfg)
    other_module_changes(cfg)
    return cfg
)";
  CHECK(bridge_text_has(refusal_of_bridge("recipe.py", text),
                        "holds 2 recipes; choose one with --define recipe=NAME: "
                        "tiny_pretrain_16gpu_h100_bf16_config or tiny_sft_8gpu_h100_bf16_config"));
  const Imported pretrain = import_bridge(TestFolder(), "recipe.py", text,
                                          {{"recipe", "tiny_pretrain_16gpu_h100_bf16_config"}});
  CHECK(pretrain.job["model"] == "llama-3-8b");
  CHECK(pretrain.job["cluster"]["count"] == 2);
  CHECK(pretrain.job["cluster"]["processes_per_host"] == 8);
  CHECK(pretrain.job["parallelism"]["tensor"] == 2);
  CHECK(pretrain.job["parallelism"]["context"] == 2);
  CHECK(pretrain.job["parallelism"]["sequence_parallel"] == true);
  CHECK(pretrain.job["training"]["sequence_length"] == 8192);
  CHECK(pretrain.job["training"]["global_batch"] == 64);
  CHECK(pretrain.job["training"]["micro_batch"] == 1);
  CHECK(pretrain.job["training"]["precision"] == "fp8");
  CHECK(pretrain.job["training"]["recompute"] == "full");
  const Imported tuned = import_bridge(TestFolder(), "recipe.py", text,
                                       {{"recipe", "tiny_sft_8gpu_h100_bf16_config"}});
  CHECK(tuned.job["cluster"]["count"] == 1);
  CHECK(tuned.job["parallelism"]["tensor"] == 4);
  CHECK(tuned.job["training"]["precision"] == "bf16");
  CHECK(tuned.job["training"]["lora"]["rank"] == 8);
  CHECK(tuned.job["training"]["micro_batch"] == 1);
  CHECK(bridge_notes(tuned, "other_module_changes() changes the recipe in another file"));
}

TEST_CASE("a recipe of NeMo 2 in Python is read", "[interop]") {
  const std::string text = R"(
import nemo_run as run
from nemo import lightning as nl


def model():
    return run.Config(LlamaModel, config=run.Config(Llama3Config8B))


def trainer(tensor_parallelism: int = 1, num_nodes: int = 1, devices: int = 8, max_steps: int = 9):
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=tensor_parallelism,
        context_parallel_size=2,
        ddp=run.Config(DistributedDataParallelConfig, grad_reduce_in_fp32=True),
    )
    return run.Config(nl.Trainer, num_nodes=num_nodes, devices=devices, max_steps=max_steps,
                      plugins=bf16_mixed(), strategy=strategy)


def pretrain_recipe(num_nodes: int = 1, performance_mode: bool = False) -> run.Partial:
    recipe = run.Partial(
        pretrain,
        model=model(),
        trainer=trainer(tensor_parallelism=4, num_nodes=num_nodes),
        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1),
        optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4),
    )
    if performance_mode:
        recipe = faster(recipe)
    return recipe
)";
  const Imported imported = import_bridge(TestFolder(), "llama3_8b.py", text, {{"num_nodes", "4"}});
  CHECK(imported.job["model"] == "llama-3-8b");
  CHECK(imported.job["cluster"]["count"] == 4);
  CHECK(imported.job["parallelism"]["tensor"] == 4);
  CHECK(imported.job["parallelism"]["context"] == 2);
  CHECK(imported.job["training"]["sequence_length"] == 8192);
  CHECK(imported.job["training"]["global_batch"] == 512);
  CHECK(imported.job["training"]["steps"] == 9);
  CHECK(imported.job["training"]["learning_rate"] == 3e-4);
  CHECK(imported.job["training"]["precision"] == "bf16");
}
