// Tests that HyperPod's recipes become a job and recipes again.
#include <algorithm>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> on_p4d = {"cluster.machine=p4d.24xlarge"};

std::string recipe(const std::string& more) {
  return "trainer:\n  devices: 8\n  num_nodes: 2\n  precision: bf16\n"
         "use_smp_model: true\n"
         "model:\n  model_type: llama_v3\n  train_batch_size: 2\n  max_context_width: 8192\n"
         "  max_position_embeddings: ${.max_context_width}\n"
         "  num_hidden_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n"
         "  intermediate_size: 14336\n  vocab_size: 128256\n  num_key_value_heads: 8\n"
         "  rope_theta: 500000.0\n  fp8: false\n" +
         more;
}

json imported_recipe(const std::string& yaml, const std::vector<std::string>& overrides = on_p4d) {
  return import_texts({{"a.yaml", yaml}}, overrides, Framework::hyperpod).job;
}

std::string refused_recipe(const std::string& yaml) {
  const std::string message = message_of([&] { imported_recipe(yaml); });
  const std::size_t at = message.find("a.yaml");
  return at == std::string::npos ? message : message.substr(at);
}

}  // namespace

TEST_CASE("a recipe's degrees, batch and model", "[interop]") {
  const json job =
      imported_recipe(recipe("  tensor_model_parallel_degree: 2\n  shard_degree: 4\n"
                             "  activation_checkpointing: true\n"
                             "  offload_activations: true\n"
                             "  activation_loading_horizon: 3\n"));
  CHECK(job["parallelism"]["tensor"] == 2);
  CHECK(job["parallelism"]["zero_stage"] == 3);
  CHECK(job["parallelism"]["shard"] == 4);
  CHECK(job["parallelism"]["offload"] == "layers");
  CHECK(job["parallelism"]["offload_horizon"] == 3);
  CHECK(job["training"]["global_batch"] == 16);  // 2 x 16 ranks / tensor 2
  CHECK(job["training"]["recompute"] == "full");
  CHECK(job["training"]["precision"] == "bf16");
  CHECK(job["training"]["warmup_steps"] == 500);  // the recipe's default
  CHECK(job["model"]["max_position_embeddings"] == 8192);
  CHECK(job["model"]["rope_theta"] == 500000.0);
}

TEST_CASE("a shard degree of all ranks is a full shard, strategies name the rest", "[interop]") {
  CHECK_FALSE(imported_recipe(recipe("  shard_degree: 16\n"))["parallelism"].contains("shard"));
  CHECK(imported_recipe(recipe(
            "  sharding_strategy: shard_grad_op\n"))["parallelism"]["reshard_after_forward"] ==
        "never");
  CHECK(imported_recipe(recipe("  sharding_strategy: no_shard\n"))["parallelism"]["zero_stage"] ==
        0);
}

TEST_CASE("recipes of NeMo become Megatron's plans", "[interop]") {
  const json job = imported_recipe(
      "trainer:\n  devices: 8\n  num_nodes: 4\n  max_steps: 10\n"
      "data:\n  global_batch_size: 64\n  micro_batch_size: 1\n  seq_length: 2048\n"
      "strategy:\n  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 2\n"
      "  num_distributed_optimizer_instances: 2\n  sequence_parallel: true\n"
      "ddp:\n  grad_reduce_in_fp32: true\n  overlap_param_gather: true\n"
      "optim:\n  config:\n    use_distributed_optimizer: true\n    lr: 0.0003\n"
      "plugins:\n  precision: bf16-mixed\n",
      {"cluster.machine=p4d.24xlarge", "model=llama-2-7b"});
  CHECK(job["parallelism"]["tensor"] == 4);
  CHECK(job["parallelism"]["pipeline"] == 2);
  CHECK(job["parallelism"]["zero_stage"] == 1);
  CHECK(job["parallelism"]["shard"] == 2);  // 32 / 8 / 2 instances
  CHECK(job["parallelism"]["placement"] == "PDT");
  CHECK(job["training"]["global_batch"] == 64);
  CHECK(job["training"]["gradient_reduce_precision"] == "fp32");
}

TEST_CASE("adapters of a recipe are adapters of the job", "[interop]") {
  const json job =
      imported_recipe(recipe("  peft:\n    peft_type: lora\n    rank: 16\n"
                             "    alpha: 8\n    dropout: 0.1\n"));
  CHECK(job["training"]["lora"] ==
        json{{"rank", 16}, {"alpha", 8.0}, {"dropout", 0.1}, {"target_modules", "all-linear"}});
  const json nemo = imported_recipe(
      "trainer:\n  devices: 8\n  num_nodes: 2\n"
      "data:\n  global_batch_size: 2\n  micro_batch_size: 1\n  seq_length: 2048\n"
      "strategy:\n  tensor_model_parallel_size: 8\nmodel:\n  peft:\n    peft_scheme: lora\n"
      "optim:\n  config:\n    lr: 0.0001\nddp:\n  suggested_communication_unit_size: 1000\n",
      {"cluster.machine=p4d.24xlarge", "model=llama-2-70b"});
  CHECK(nemo["training"]["lora"]["rank"] == 32);
  CHECK_FALSE(
      imported_recipe(recipe("  peft:\n    peft_type: null\n"))["training"].contains("lora"));
  CHECK(refused_recipe(recipe("  peft:\n    peft_type: qlora_4bit\n"))
            .find("such adapters are not built") != std::string::npos);
  CHECK(refused_recipe("evaluation:\n  task: mmlu\nrun:\n  name: x\n")
            .find("the recipe evaluates a model") != std::string::npos);
}

// `moe` and the number of experts are said apart; a recipe has experts only where both agree.
TEST_CASE("a recipe's model has experts where it says both that and how many", "[interop]") {
  struct Said {
    const char* lines;
    bool has_experts;
  };
  for (const Said& said : {
           Said{"", false},
           Said{"  moe: true\n", false},
           Said{"  moe: false\n", false},
           Said{"  num_local_experts: 0\n", false},
           Said{"  moe: true\n  num_local_experts: 0\n", false},
           Said{"  moe: false\n  num_local_experts: 8\n", false},
           Said{"  num_local_experts: 8\n", true},
           Said{"  moe: true\n  num_local_experts: 8\n", true},
       }) {
    INFO(said.lines);
    const json model = imported_recipe(recipe(said.lines))["model"];
    CHECK(model["model_type"] == (said.has_experts ? "mixtral" : "llama"));
    CHECK(model.value("num_local_experts", 0) == (said.has_experts ? 8 : 0));
    CHECK(model.value("num_experts_per_tok", 0) == (said.has_experts ? 2 : 0));
  }
}

TEST_CASE("what is wrong in a recipe is told at its line", "[interop]") {
  CHECK(refused_recipe(recipe("  shard_degree: 3\n")) ==
        "a.yaml:19: model.shard_degree: 3 x tensor 1 x expert 1 does not divide the 16 ranks");
  CHECK(refused_recipe(recipe("  sharding_strategy: full\n")).find("unknown word 'full'") !=
        std::string::npos);
  CHECK(refused_recipe(recipe("  shard_degre: 3\n")).find("did you mean 'model.shard_degree'?") !=
        std::string::npos);
  CHECK(
      refused_recipe(recipe("  optim:\n    betas: [0.9]\n")).find("is not a list of two numbers") !=
      std::string::npos);
}

// HyperPod fine-tunes a model of a given name unless the recipe sets do_finetune to false.
TEST_CASE("an exported recipe trains from the beginning", "[interop]") {
  const json job = {{"model", "llama-2-7b"},
                    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 2}}},
                    {"training", {{"global_batch", 64}, {"sequence_length", 4096}}},
                    {"parallelism", {{"zero_stage", 3}}}};
  const std::string text = exported_text(job, Framework::hyperpod, 2, "recipe.yaml");
  CHECK(text.find("\n  do_finetune: false\n") != std::string::npos);
}

TEST_CASE("recipes that train without checkpoints are read by the name of their model",
          "[interop]") {
  const std::string text =
      "run:\n  name: openai-gpt-oss-120b\n  model_type: hyperpod_checkpointless_nemo\n"
      "trainer:\n  devices: 8\n  num_nodes: 16\n"
      "data:\n  global_batch_size: 256\n  micro_batch_size: 1\n  seq_length: 2048\n"
      "model:\n  config:\n    add_bias_linear: false\n    num_layers: 36\n"
      "    num_moe_experts: 128\n    cross_entropy_loss_fusion: false\n"
      "    recompute_granularity: selective\n    recompute_modules: [mlp, core_attn]\n"
      "plugins:\n  precision: bf16-mixed\n"
      "strategy:\n  tensor_model_parallel_size: 1\n  expert_model_parallel_size: 8\n";
  const Imported imported =
      import_texts({{"a.yaml", text}}, {"cluster.machine=p5.48xlarge"}, Framework::hyperpod);
  CHECK(imported.job["model"]["num_local_experts"] == 128);
  CHECK(imported.job["training"]["cross_entropy_fusion"] == false);
  CHECK(imported.job["training"]["recompute"] == "selective");
  CHECK(std::ranges::any_of(imported.remarks, [](const std::string& each) {
    return each.find("mlp: recomputation of such modules is not predicted") != std::string::npos;
  }));
  std::string other = text;
  other.replace(other.find("num_layers: 36"), 14, "num_layers: 24");
  CHECK(refused_recipe(other).find("24, but the named model has 36") != std::string::npos);
  CHECK(
      refused_recipe("run:\n  name: x\nllm_as_judge:\n  metrics: ''\n").find("evaluates a model") !=
      std::string::npos);
}
