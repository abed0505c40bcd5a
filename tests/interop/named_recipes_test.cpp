// Recipes of Megatron-Bridge in Python: how they are followed, the machines and models that they
// name, and models that are not built.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Imported import_named(const std::string& recipe, std::vector<std::string> overrides = {}) {
  ImportOptions options;
  options.overrides = std::move(overrides);
  return import_settings({TestFolder().file("recipe.py", recipe)}, options, machine_facts);
}

std::string refusal_of_named(const std::string& recipe, std::vector<std::string> overrides = {}) {
  try {
    (void)import_named(recipe, std::move(overrides));
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

bool named_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool named_notes(const Imported& imported, const std::string& part) {
  return std::ranges::any_of(imported.remarks,
                             [&](const std::string& each) { return named_text_has(each, part); });
}

// A recipe for a model of the Hub, with lines of its own.
std::string recipe_of(const std::string& hub_name, const std::string& lines,
                      const std::string& gpus = "16gpu_h100") {
  return "from megatron.bridge import AutoBridge\n"
         "from megatron.bridge.training.config import ConfigContainer\n\n\n"
         "def tiny_pretrain_" +
         gpus +
         "_bf16_config() -> ConfigContainer:\n"
         "    cfg = _pretrain_common()\n"
         "    cfg.model = AutoBridge.from_hf_pretrained(\"" +
         hub_name +
         "\").to_megatron_provider()\n"
         "    cfg.model.tensor_model_parallel_size = 1\n"
         "    cfg.model.seq_length = 4096\n"
         "    cfg.train.global_batch_size = 64\n"
         "    cfg.train.micro_batch_size = 1\n"
         "    cfg.mixed_precision = \"bf16_mixed\"\n" +
         lines + "    return cfg\n";
}

}  // namespace

TEST_CASE("a recipe is followed through its helpers", "[interop]") {
  const std::string text = R"(
from functools import partial
from megatron.bridge import AutoBridge
from megatron.bridge.training.config import ConfigContainer

STAGES: int = 4


def _layout(pipeline: int, virtual: int, tail=None):
    layouts = {
        (4, 1): [["embedding"] + ["decoder"] * 7] + [["decoder"] * 8] * 2 + [["decoder"] * 9 + [tail]],
    }
    if (pipeline, virtual) not in layouts:
        raise ValueError("no such layout")
    return layouts[(pipeline, virtual)]


def _set_layout(model, layout=None) -> None:
    if layout is not None:
        model.pipeline_model_parallel_layout = layout
        return
    build = partial(_layout, tail="loss")
    try:
        model.pipeline_model_parallel_layout = build(
            model.pipeline_model_parallel_size or 1, model.virtual_pipeline_model_parallel_size or 1
        )
    except ValueError:
        pass


def _optimizer(rate: float = 1e-4):
    scheduler = SchedulerConfig(lr_warmup_iters=2 + 3 * 4)
    optimizer = OptimizerConfig(optimizer="adam", lr=rate)
    return optimizer, scheduler


def tiny_pretrain_8gpu_h100_bf16_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").to_megatron_provider()
    cfg.optimizer, cfg.scheduler = _optimizer(rate=2e-4)
    cfg.model.pipeline_model_parallel_size = STAGES
    cfg.model.tensor_model_parallel_size = 1
    cfg.model.seq_length = 4096
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 8
    for factor in range(1, 4):
        cfg.train.global_batch_size *= factor
    if not isinstance(cfg.mixed_precision, str): cfg.train.micro_batch_size = 7
    _set_layout(cfg.model)
    return cfg
)";
  const json job = import_named(text).job;
  CHECK(job["parallelism"]["pipeline"] == 4);
  CHECK(job["parallelism"]["partition"] != "even");
  CHECK(job["training"]["global_batch"] == 48);
  CHECK(job["training"]["micro_batch"] == 1);
  CHECK(job["training"]["learning_rate"] == 2e-4);
  CHECK(job["training"]["warmup_steps"] == 14);
  std::string raises = text;
  raises.replace(raises.find("    _set_layout(cfg.model)"), 26, "    _layout(3, 1)");
  CHECK(named_text_has(refusal_of_named(raises), "raises ValueError: no such layout"));
}

TEST_CASE("the name of a recipe says its GPUs", "[interop]") {
  const auto cluster = [](const std::string& gpus) {
    return import_named(recipe_of("meta-llama/Meta-Llama-3-8B", "", gpus)).job["cluster"];
  };
  CHECK(cluster("64gpu_h100") ==
        json{{"count", 8}, {"machine", "dgx-h100"}, {"processes_per_host", 8}});
  CHECK(cluster("64gpu_gb200") ==
        json{{"count", 1}, {"machine", "gb200-nvl72"}, {"processes_per_host", 64}});
  CHECK(import_named(recipe_of("meta-llama/Meta-Llama-3-8B", "", "8gpu_b300"),
                     {"cluster.machine=p6-b300.48xlarge"})
            .job["cluster"]["machine"] == "p6-b300.48xlarge");
}

TEST_CASE("of models of pictures and texts the language model is planned", "[interop]") {
  const std::string trains =
      "    cfg.model.freeze_language_model = False\n    cfg.model.freeze_vision_model = True\n";
  const Imported language = import_named(recipe_of("Qwen/Qwen3-VL-8B-Instruct", trains));
  CHECK(language.job["model"] == "qwen3-8b");
  CHECK(named_notes(language, "it reads pictures or speech too"));
  CHECK(named_notes(language, "without pictures"));
  CHECK(named_text_has(refusal_of_named(recipe_of("Qwen/Qwen3-VL-8B-Instruct",
                                                  "    cfg.model.freeze_language_model = True\n")),
                       "beside a frozen language model"));
  CHECK(named_text_has(refusal_of_named(recipe_of("LGAI-EXAONE/EXAONE-4.5-33B", trains)),
                       "its language model alone is planned with --set model=NAME"));
}

TEST_CASE("models with unbuilt layers are refused by their names", "[interop]") {
  const auto says = [](const std::string& name, const std::string& part) {
    return named_text_has(refusal_of_named(recipe_of(name, "")), part);
  };
  CHECK(says("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "state-space layers (Mamba)"));
  CHECK(says("Qwen/Qwen3-Next-80B-A3B-Instruct", "linear attention"));
  CHECK(says("zai-org/GLM-5.2", "an indexer chooses"));
  std::string hybrid = recipe_of("x/y", "");
  const std::string made = "AutoBridge.from_hf_pretrained(\"x/y\").to_megatron_provider()";
  hybrid.replace(hybrid.find(made), made.size(), "HybridModelProvider(num_layers=52)");
  CHECK(named_text_has(refusal_of_named(hybrid), "state-space layers (Mamba)"));
  CHECK(import_named(recipe_of("zai-org/GLM-5.2", ""), {"model=llama-3-8b"}).job["model"] ==
        "llama-3-8b");
}

TEST_CASE("experts of a named model take all their tokens", "[interop]") {
  const std::string degrees =
      "    cfg.model.tensor_model_parallel_size = 2\n"
      "    cfg.model.expert_model_parallel_size = 16\n"
      "    cfg.model.sequence_parallel = True\n"
      "    cfg.comm_overlap.overlap_moe_expert_parallel_comm = True\n";
  const Imported imported = import_named(recipe_of("Qwen/Qwen3-30B-A3B", degrees));
  const json model = imported.job["model"];
  CHECK(model["num_experts"] == 128);
  CHECK(!model.contains("expert_capacity_factor"));
  CHECK(model["expert_rank_capacity_factor"] == 1.5);
  CHECK(imported.job["parallelism"]["expert"] == 16);
  CHECK(imported.job["parallelism"]["expert_tensor"] == 1);
  CHECK(named_notes(imported, "dualpipe_v"));
  const json given =
      import_named(recipe_of("Qwen/Qwen3-30B-A3B",
                             degrees + "    cfg.model.moe_expert_capacity_factor = 1.1\n"
                                       "    cfg.model.vocab_size = 32000\n"))
          .job["model"];
  CHECK(given["expert_capacity_factor"] == 1.1);
  CHECK(given["vocab_size"] == 32000);
  std::string narrow = recipe_of("Qwen/Qwen3-30B-A3B", degrees);
  narrow.replace(narrow.find("bf16_mixed"), 10, "bf16_with_mxfp8_mixed");
  CHECK(named_notes(import_named(narrow), "multiply in 16 bits here"));
}

TEST_CASE("a recipe's optimizer and adapters act, or are asked for", "[interop]") {
  const Imported muon = import_named(
      recipe_of("moonshotai/Moonlight-16B-A3B",
                "    cfg.optimizer = OptimizerConfig(optimizer=\"dist_muon\", muon_momentum=0.9)\n"
                "    cfg.ddp.use_distributed_optimizer = False\n"));
  CHECK(muon.job["training"]["optimizer"] == "muon");
  CHECK(muon.job["training"]["momentum"] == 0.9);
  CHECK(named_notes(muon, "every replica keeps all of its own"));
  std::string narrow =
      recipe_of("meta-llama/Meta-Llama-3-8B", "    cfg.peft = LoRA(dim=8, alpha=16)\n");
  narrow.replace(narrow.find("bf16_mixed"), 10, "bf16_with_fp8_current_scaling_mixed");
  CHECK(named_text_has(refusal_of_named(narrow), "--set training.precision=bf16"));
  const json wide = import_named(narrow, {"training.precision=bf16"}).job["training"];
  CHECK(wide["precision"] == "bf16");
  CHECK(wide["lora"]["rank"] == 8);
}

TEST_CASE("single settings of NeMo act or are refused", "[interop]") {
  const auto file = [](const std::string& model) {
    return "trainer:\n  devices: 8\n  num_nodes: 1\n  precision: bf16\n"
           "model:\n  micro_batch_size: 1\n  global_batch_size: 16\n  encoder_seq_length: 512\n"
           "  max_position_embeddings: 512\n  num_layers: 4\n  hidden_size: 512\n"
           "  num_attention_heads: 8\n  ffn_hidden_size: 2048\n" +
           model;
  };
  const auto job_of = [&](const std::string& model) {
    ImportOptions options;
    options.overrides = {"cluster.machine=dgx-h100"};
    return import_settings({TestFolder().file("nemo.yaml", file(model))}, options, machine_facts)
        .job;
  };
  const auto refusal = [&](const std::string& model) -> std::string {
    try {
      (void)job_of(model);
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  CHECK(job_of("  override_vocab_size: 32000\n  drop_layers: []\n")["model"]["vocab_size"] ==
        32000);
  CHECK(named_text_has(refusal("  vocab_size: 32000\n  drop_layers: [0, 1]\n"), "drop_layers"));
  CHECK(job_of("  vocab_size: 32000\n  add_pooler: true\n  add_lm_head: true\n"
               "  mcore_bert: true\n")["model"]["model_type"] == "bert");
  const std::string plateau =
      "  vocab_size: 32000\n  optim:\n    name: fused_adam\n    sched:\n"
      "      name: CosineAnnealing\n      reduce_on_plateau: ";
  CHECK(job_of(plateau + "false\n")["training"]["learning_rate_schedule"] == "cosine");
  CHECK(named_text_has(refusal(plateau + "true\n"), "wait for the loss"));
}
