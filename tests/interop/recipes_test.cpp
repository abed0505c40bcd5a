// Tests recipes in YAML of public repositories: Megatron-LM's own tests, FlagScale and NeMo
// AutoModel.
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Imported import_recipe(const TestFolder& folder, const std::string& name, const std::string& text,
                       const std::map<std::string, std::string>& defines = {}) {
  ImportOptions options;
  options.overrides = {"cluster.machine=dgx-h100"};
  options.defines = defines;
  return import_settings({folder.file(name, text)}, options, machine_facts);
}

Imported import_recipe(const std::string& text,
                       const std::map<std::string, std::string>& defines = {}) {
  return import_recipe(TestFolder(), "recipe.yaml", text, defines);
}

std::string refusal_of_recipe(const std::string& text) {
  try {
    (void)import_recipe(text);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool recipe_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool recipe_notes(const Imported& imported, const std::string& part) {
  return std::ranges::any_of(imported.remarks,
                             [&](const std::string& each) { return recipe_text_has(each, part); });
}

// Returns a recipe in the form of Megatron-LM's tests/functional_tests.
std::string megatron_recipe(const std::string& more) {
  return "ENV_VARS:\n  CUDA_DEVICE_MAX_CONNECTIONS: 1\nTEST_TYPE: regular\nMODEL_ARGS:\n"
         "  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
         "  --max-position-embeddings: 1024\n  --seq-length: 1024\n  --micro-batch-size: 4\n"
         "  --global-batch-size: 32\n  --train-iters: 50\n  --bf16: true\n" +
         more;
}
constexpr const char* null_tokenizer = "  --tokenizer-type: NullTokenizer\n  --vocab-size: 50256\n";

// A recipe in the form of FlagScale's examples/*/conf.
constexpr const char* flagscale_recipe =
    "system:\n  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 2\n"
    "  sequence_parallel: True\n  use_distributed_optimizer: True\n  disable_bias_linear: True\n"
    "  precision:\n    bf16: True\n    fp16: False\n"
    "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
    "  group_query_attention: True\n  num_query_groups: 8\n  ffn_hidden_size: 14336\n"
    "  seq_length: 4096\n  max_position_embeddings: 8192\n  swiglu: True\n"
    "  normalization: RMSNorm\n  position_embedding_type: rope\n  rotary_base: 500000\n"
    "  untie_embeddings_and_output_weights: True\n  micro_batch_size: 1\n"
    "  global_batch_size: 64\n  seed: ${experiment.seed}\n  train_iters: 100\n"
    "  optimizer:\n    weight_decay: 0.1\n    lr_scheduler:\n      lr: 1.0e-4\n"
    "data:\n  tokenizer:\n    tokenizer_type: Llama3TokenizerFS\n    vocab_size: 128256\n";

// Returns a recipe in the form of AutoModel's examples/llm_finetune.
std::string automodel_recipe(const std::string& more) {
  return "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
         "step_scheduler:\n  global_batch_size: 64\n  local_batch_size: 2\n  max_steps: 100\n"
         "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
         "  pretrained_model_name_or_path: Qwen/Qwen2.5-7B\n  torch_dtype: bf16\n"
         "dataset:\n  seq_length: 2048\n"
         "optimizer:\n  _target_: torch.optim.AdamW\n  lr: 1.0e-5\n  betas: [0.9, 0.999]\n" +
         more;
}

}  // namespace

TEST_CASE("arguments of Megatron-LM in YAML are read as its command line", "[interop]") {
  const json job =
      import_recipe(
          megatron_recipe(std::string(null_tokenizer) +
                          "  --tensor-model-parallel-size: 2\n  --log-params-norm: false\n"
                          "  --pipeline-model-parallel-size: ${PP}\n"),
          {{"PP", "2"}})
          .job;
  CHECK(job["model"]["model_type"] == "gpt2");
  CHECK(job["model"]["vocab_size"] == 50257);
  CHECK(job["parallelism"]["tensor"] == 2);
  CHECK(job["parallelism"]["pipeline"] == 2);
  CHECK(job["training"]["precision"] == "bf16");
  CHECK(recipe_text_has(
      refusal_of_recipe(
          megatron_recipe(std::string(null_tokenizer) + "  --tensor-model-parallel-size: ${TP}\n")),
      "--define TP=VALUE"));
}

TEST_CASE("word pieces in such arguments are a BERT's or a T5's", "[interop]") {
  const std::string pieces = "  --tokenizer-type: BertWordPieceCase\n  --vocab-size: 29056\n";
  CHECK(import_recipe(megatron_recipe(pieces)).job["model"]["model_type"] == "bert");
  CHECK(recipe_text_has(
      refusal_of_recipe(megatron_recipe(pieces + "  --decoder-seq-length: 128\n")), "trains a T5"));
}

TEST_CASE("state-space layers are refused by their kind", "[interop]") {
  CHECK(recipe_text_has(refusal_of_recipe(megatron_recipe("  --hybrid-layer-pattern: M-M-M*\n")),
                        "state-space layers"));
  CHECK(recipe_text_has(refusal_of_recipe(megatron_recipe(
                            "  --spec: megatron.core.models.mamba.specs mamba_stack_spec\n")),
                        "state-space layers"));
}

TEST_CASE("shapes that no config.json has are in the job file's words", "[interop]") {
  const json rotary =
      import_recipe(
          megatron_recipe(std::string(null_tokenizer) +
                          "  --position-embedding-type: rope\n  --normalization: RMSNorm\n"
                          "  --disable-bias-linear: true\n"))
          .job["model"];
  CHECK(rotary["family"] == "llama");
  CHECK(rotary["gated_ffn"] == false);
  CHECK(rotary["vocab"] == 50257);
  const json gated =
      import_recipe(megatron_recipe(std::string(null_tokenizer) + "  --swiglu: true\n"))
          .job["model"];
  CHECK(gated["family"] == "gpt");
  CHECK(gated["gated_ffn"] == true);
  CHECK(gated["ffn"] == 1344);
}

TEST_CASE("ALiBi of Megatron-LM's forks is BLOOM's", "[interop]") {
  const Imported bloom = import_recipe(
      megatron_recipe(std::string(null_tokenizer) + "  --position-embedding-type: alibi\n"));
  CHECK(bloom.job["model"]["model_type"] == "bloom");
  CHECK(bloom.job["model"]["n_layer"] == 12);
  CHECK(recipe_notes(bloom, "one norm more"));
}

TEST_CASE("gradients that the optimizer keeps in bf16 are reduced in bf16", "[interop]") {
  const std::string aware = std::string(null_tokenizer) +
                            "  --use-precision-aware-optimizer: true\n"
                            "  --use-distributed-optimizer: true\n";
  CHECK(import_recipe(megatron_recipe(aware)).job["training"]["gradient_reduce_precision"] ==
        "fp32");
  CHECK(import_recipe(megatron_recipe(aware + "  --main-grads-dtype: bf16\n"))
            .job["training"]["gradient_reduce_precision"] == "bf16");
}

TEST_CASE("groups of queries act with their flag only", "[interop]") {
  const std::string llama = std::string(null_tokenizer) +
                            "  --position-embedding-type: rope\n  --normalization: RMSNorm\n"
                            "  --swiglu: true\n  --disable-bias-linear: true\n"
                            "  --num-query-groups: 2\n";
  const Imported alone = import_recipe(megatron_recipe(llama));
  CHECK(alone.job["model"]["num_key_value_heads"] == 8);
  CHECK(recipe_notes(alone, "every head has keys of its own"));
  CHECK(import_recipe(megatron_recipe(llama + "  --group-query-attention: true\n"))
            .job["model"]["num_key_value_heads"] == 2);
}

TEST_CASE("FlagScale's experiments are read with the file that they name", "[interop]") {
  const Imported alone = import_recipe(flagscale_recipe);
  CHECK(alone.job["parallelism"]["tensor"] == 4);
  CHECK(alone.job["parallelism"]["pipeline"] == 2);
  CHECK(alone.job["training"]["precision"] == "bf16");
  CHECK(alone.job["model"]["num_key_value_heads"] == 8);
  CHECK(recipe_notes(alone, "a GPT is taken"));

  const TestFolder folder;
  std::filesystem::create_directory(folder.path() + "/train");
  folder.file("train/8b.yaml", flagscale_recipe);
  const std::string start =
      "defaults:\n  - _self_\n  - train: 8b\nexperiment:\n  seed: 42\n  task:\n    type: train\n"
      "    backend: megatron\n    entrypoint: flagscale/train/train_gpt.py\n"
      "  runner:\n    nnodes: 4\n    nproc_per_node: 8\n  envs:\n    NCCL_DEBUG: INFO\n";
  const json job = import_recipe(folder, "train.yaml", start).job;
  CHECK(job["cluster"]["count"] == 4);
  CHECK(job["cluster"]["processes_per_host"] == 8);
  CHECK(job["training"]["seed"] == 42);
  CHECK(job["training"]["global_batch"] == 64);

  CHECK(recipe_text_has(refusal_of_recipe("experiment:\n  task:\n    type: serve\n"),
                        "trains no model"));
  CHECK(recipe_text_has(
      refusal_of_recipe("experiment:\n  task:\n    type: train\n    backend: megatron\n"
                        "    entrypoint: train_rwkv.py\n" +
                        std::string(flagscale_recipe)),
      "trains an RWKV"));
}

TEST_CASE("recipes of NeMo AutoModel are read", "[interop]") {
  const json job =
      import_recipe(
          automodel_recipe("distributed:\n  strategy: fsdp2\n  dp_size: none\n  tp_size: 2\n"
                           "  cp_size: 1\n  activation_checkpointing: true\nci:\n  nodes: 2\n"))
          .job;
  CHECK(job["model"] == "qwen2.5-7b");
  CHECK(job["cluster"]["count"] == 2);
  CHECK(job["parallelism"]["tensor"] == 2);
  CHECK(job["parallelism"]["zero_stage"] == 3);
  CHECK(job["training"]["micro_batch"] == 2);
  CHECK(job["training"]["global_batch"] == 64);
  CHECK(job["training"]["sequence_length"] == 2048);
  CHECK(job["training"]["recompute"] == "full");
  CHECK(job["training"]["master_weights"] == "none");
  CHECK(job["training"]["steps"] == 100);

  const json narrow =
      import_recipe(automodel_recipe("parallelizer:\n  activation_checkpointing: true\n"))
          .job["training"];
  CHECK(narrow["recompute"] == "full");
  std::string te = automodel_recipe("");
  const std::string type = "  torch_dtype: bf16\n";
  te.insert(te.find(type) + type.size(), "  backend:\n    te_fp8:\n      recipe: block\n");
  const Imported in_8_bits = import_recipe(te);
  CHECK(in_8_bits.job["training"]["precision"] == "fp8");
  CHECK(recipe_notes(in_8_bits, "one scale for a tensor"));

  const json stages =
      import_recipe(automodel_recipe("distributed:\n  pp_size: 4\n  dp_size: 2\n  pipeline:\n"
                                     "    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 1\n"
                                     "    layers_per_stage: 4\n"))
          .job;
  CHECK(stages["parallelism"]["pipeline"] == 4);
  CHECK(stages["parallelism"]["virtual_stages"] == 2);
  CHECK(stages["parallelism"]["schedule"] == "interleaved");
  CHECK(stages["training"]["micro_batch"] == 1);
  CHECK(stages["training"]["recompute"] == "none");
}

TEST_CASE("adapters of AutoModel stand where its patterns put them", "[interop]") {
  const auto adapters = [](const std::string& modules) {
    return import_recipe(automodel_recipe(
                             "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
                             "  dim: 16\n  alpha: 64\n  target_modules: " +
                             modules + "\n"))
        .job["training"]["lora"];
  };
  CHECK(adapters("'*_proj'")["target_modules"] == "all-linear");
  CHECK(adapters("'*_proj'")["rank"] == 16);
  CHECK(adapters("'*_proj'")["alpha"] == 64);
  CHECK(adapters("[\"*.q_proj\", \"*.v_proj\"]")["target_modules"] == json{"q_proj", "v_proj"});
}

TEST_CASE("recipes of AutoModel on other objectives are refused by their kind", "[interop]") {
  std::string text = automodel_recipe("");
  text.replace(text.find("TrainFinetuneRecipeForNextTokenPrediction"), 41, "FinetuneRecipeForVLM");
  CHECK(recipe_text_has(refusal_of_recipe(text), "FinetuneRecipeForVLM"));
  CHECK(recipe_text_has(
      refusal_of_recipe(automodel_recipe("distributed:\n  tensor_and_expert_size: 4\n")),
      "unknown setting"));
}
