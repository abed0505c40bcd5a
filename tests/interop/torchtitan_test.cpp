// Tests that torchtitan's settings become a job and settings again, compared word for word.
#include "tools/interop/torchtitan/torchtitan.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> two_hosts = {"cluster.machine=p4d.24xlarge", "cluster.count=2"};

json imported(const std::string& toml, const std::vector<std::string>& overrides = two_hosts) {
  return import_texts({{"a.toml", toml}}, overrides, Framework::torchtitan).job;
}

std::string refused_settings(const std::string& toml) {
  const std::string message = message_of([&] { imported(toml); });
  const std::size_t at = message.find("a.toml");
  return at == std::string::npos ? message : message.substr(at);
}

const std::string model = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";

const json cut_job = {
    {"model", "llama-3-8b"},
    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 2}}},
    {"training",
     {{"global_batch", 64},
      {"sequence_length", 4096},
      {"micro_batch", 1},
      {"compiler", "full"},
      {"recompute", "full"},
      {"recompute_fraction", 0.5}}},
    {"parallelism", {{"tensor", 2}, {"pipeline", 2}, {"zero_stage", 3}, {"shard", 2}}}};

}  // namespace

TEST_CASE("torchtitan's shard mesh holds context ranks, -1 is what others leave", "[interop]") {
  const json job = imported(model +
                            "[training]\nlocal_batch_size = 2\nseq_len = 8192\n"
                            "[parallelism]\ndata_parallel_replicate_degree = 2\n"
                            "tensor_parallel_degree = 2\ncontext_parallel_degree = 2\n");
  CHECK(job["parallelism"]["data"] == 4);   // 16 ranks / 2 / 2
  CHECK(job["parallelism"]["shard"] == 4);  // 2 x context 2
  CHECK(job["parallelism"]["zero_stage"] == 3);
  CHECK(job["parallelism"]["sequence_parallel"] == true);
  CHECK(job["parallelism"]["context_exchange"] == "all_gather");
  CHECK(job["parallelism"]["placement"] == "PDT");
  CHECK(job["training"]["global_batch"] == 8);
  CHECK(job["training"]["micro_batch"] == 2);
}

TEST_CASE("torchtitan's stages keep parameters and count the embedding and the head", "[interop]") {
  const json job = imported(model +
                            "[training]\nlocal_batch_size = 8\n"
                            "[parallelism]\npipeline_parallel_degree = 4\n");
  CHECK(job["parallelism"]["reshard_after_forward"] == "never");
  CHECK(job["parallelism"]["reduce_gradients"] == "last");
  CHECK(job["training"]["micro_batch"] == 1);
  CHECK(job["training"]["global_batch"] == 32);
  // 34 layers on 4 stages are split into 9, 9, 8 and 8, of which the first has the embedding, the
  // last the head and both fewer layers.
  const json stages = {{"model.embed_tokens", 0},
                       {"model.layers.0", 0},
                       {"model.layers.8", 1},
                       {"model.layers.17", 2},
                       {"model.layers.25", 3}};
  CHECK(job["parallelism"]["partition"] == stages);
}

TEST_CASE("torchtitan's recomputation, compiler and optimizer", "[interop]") {
  const auto training = [](const std::string& more) { return imported(model + more)["training"]; };
  const json usual = training("");
  CHECK(usual["recompute"] == "full");  // every second block
  CHECK(usual["recompute_fraction"] == 0.5);
  CHECK(usual["compiler"] == "none");
  CHECK(usual["learning_rate"] == 8e-4);
  CHECK(usual["beta2"] == 0.95);
  CHECK(usual["gradient_clip"] == 1.0);
  CHECK(usual["warmup_steps"] == 200);
  const json other = training(
      "[compile]\nenable = true\n[activation_checkpoint]\nmode = \"memory_budget\"\n"
      "memory_budget = 0.75\n[training]\nmax_norm = inf\ndtype = \"bfloat16\"\n"
      "[lr_scheduler]\ndecay_ratio = 0.0\n");
  CHECK(other["recompute_budget"] == 0.75);
  CHECK(other["compiler"] == "full");
  CHECK(other["gradient_clip"] == 0);
  CHECK(other["master_weights"] == "none");
  CHECK(other["moments_precision"] == "bf16");
  CHECK(other["learning_rate_schedule"] == "constant");
}

TEST_CASE("torchtitan's newer flags are read", "[interop]") {
  const json job =
      import_texts({{"a.txt",
                     "--module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 8\n"
                     "--training.max_context_length 4096\n"
                     "--training.num_tokens_per_microbatch_per_dp_rank 8192\n"
                     "--training.num_tokens_per_train_step 65536\n"}},
                   two_hosts, Framework::torchtitan)
          .job;
  CHECK(job["parallelism"]["tensor"] == 8);
  CHECK(job["training"]["sequence_length"] == 4096);
  CHECK(job["training"]["micro_batch"] == 2);
  CHECK(job["training"]["global_batch"] == 16);
  CHECK(job["model"]["hidden_size"] == 4096);
}

TEST_CASE("torchtitan's families and flavors are models of the zoo", "[interop]") {
  const auto model_of = [](const std::string& family, const std::string& flavor) {
    return imported("[model]\nname = \"" + family + "\"\nflavor = \"" + flavor + "\"\n")["model"];
  };
  // Experts take all tokens there, and the zoo's have a capacity.
  const json deepseek = model_of("deepseek_v3", "671B");
  CHECK(deepseek["n_routed_experts"] == 256);
  CHECK(!deepseek.contains("expert_capacity_factor"));
  CHECK(deepseek["expert_rank_capacity_factor"] == 1.5);
  CHECK(model_of("deepseek_v3", "16B")["model_type"] == "deepseek_v2");
  CHECK(model_of("qwen3", "30B-A3B")["num_experts"] == 128);
  CHECK(model_of("llama4", "17bx16e_irope")["num_local_experts"] == 16);
  CHECK(model_of("llama4", "debugmodel")["interleave_moe_layer_step"] == 2);
  CHECK(model_of("gpt_oss", "debugmodel")["num_local_experts"] == 8);
  CHECK(model_of("llama", "7B") == "llama-2-7b");
  CHECK(model_of("llama2", "70B") == "llama-2-70b");
  CHECK(model_of("qwen3", "debugmodel")["hidden_size"] == 256);
  CHECK(model_of("deepseek_v3", "debugmodel")["n_routed_experts"] == 8);
  CHECK(imported("[model]\nname = \"transformers_modeling_backend\"\nflavor = \"full\"\n"
                 "[hf_transformers]\nmodel = \"Qwen/Qwen3-4B\"\n")["model"] == "qwen3-4b");
  CHECK(refused_settings("[model]\nname = \"flux\"\nflavor = \"flux-dev\"\n") ==
        "a.toml:2: model.name: 'flux' trains a model of images by diffusion, which is not read");
  CHECK(
      refused_settings("[model]\nname = \"qwen3\"\nflavor = \"7B\"\n") ==
      "a.toml:2: model.name: 'qwen3 7B': its sizes are not known here; give its config.json beside "
      "this file, or --set model=NAME");
  CHECK(imported(model + "norm_type = \"rmsnorm\"\n[infra]\nset_gpu_affinity = true\n")["model"]
            .is_object());
}

TEST_CASE("what torchtitan's settings must not say is refused with its line", "[interop]") {
  CHECK(refused_settings(model + "[parallelism]\ntensor_paralel_degree = 8\n") ==
        "a.toml:5: parallelism.tensor_paralel_degree: unknown setting of torchtitan; did you mean "
        "'parallelism.tensor_parallel_degree'? It names a degree, experts, a stage or a precision, "
        "which --allow-unknown does not skip: say it with --set, and take it out");
  CHECK(refused_settings(model + "[parallelism]\ntensor_parallel_degree = 3\n") ==
        "a.toml: parallelism.data_parallel_shard_degree: 16 ranks are no multiple of the other "
        "degrees, 3");
  CHECK(refused_settings("[model]\nflavor = \"9B\"\n") ==
        "a.toml:2: model.flavor: 'llama3 9B': its sizes are not known here; give its config.json "
        "beside this file, or --set model=NAME");
}

TEST_CASE("a plan as torchtitan's TOML", "[interop]") {
  const std::string text = exported_text(cut_job, Framework::torchtitan, 2, "torchtitan.toml");
  const auto has = [&](const std::string& line) {
    CAPTURE(text, line);
    CHECK(("\n" + text).find("\n" + line + "\n") != std::string::npos);
  };
  has("flavor = \"8B\"");
  has("data_parallel_replicate_degree = 2");
  has("data_parallel_shard_degree = 2");
  has("tensor_parallel_degree = 2");
  has("pipeline_parallel_degree = 2");
  has("pipeline_parallel_microbatch_size = 1");
  has("local_batch_size = 16");
  has("global_batch_size = 64");
  has("selective_ac_option = \"2\"");
  has("enable = true");
  has("fsdp_reshard_after_forward = \"always\"");
}

TEST_CASE("torchtitan's DualPipeV takes two micro-batches for each stage", "[interop]") {
  json job = cut_job;
  job["parallelism"] = {
      {"tensor", 8}, {"pipeline", 2}, {"schedule", "dualpipe_v"}, {"virtual_stages", 2}};
  const auto text = [&](int batch) {
    job["training"]["global_batch"] = batch;
    return exported_text(job, Framework::torchtitan, 2, "torchtitan.toml");
  };
  const std::string toml = text(4);
  CHECK(toml.find("pipeline_parallel_schedule = \"DualPipeV\"") != std::string::npos);
  const json back = imported(toml)["parallelism"];
  CHECK(back["schedule"] == "dualpipe_v");
  CHECK(back["virtual_stages"] == 2);
  CHECK(text(3).find("pipeline_parallel_schedule = \"1F1B\"") != std::string::npos);
}

TEST_CASE("a plan as a recipe of torchtitan 0.3", "[interop]") {
  const std::string text = exported_text(cut_job, Framework::torchtitan, 2, "meshwright_recipe.py");
  CHECK(
      text ==
      R"PYTHON(# The settings of torchtitan.toml for torchtitan 0.3, where they are Python. In the files
# that start it `--module meshwright_recipe --config job` takes the place of
# `--job.config_file torchtitan.toml`.
# torchtitan 0.3 recomputes all blocks; the plan a part of them.
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    OptimizersContainer,
    ParamGroupConfig,
)
from torchtitan.config import CompileConfig, DebugConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer


def job() -> Trainer.Config:
    model_spec = model_registry("8B", attn_backend="varlen")
    return Trainer.Config(
        model_spec=model_spec,
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
        hf_assets_path=".",
        # torchtitan's own sample; a real run names its data here.
        dataloader=HuggingFaceTextDataLoader.Config(dataset="c4_test"),
        training=TrainingConfig(
            seq_len=4096,
            local_batch_size=16,
            global_batch_size=64,
            dtype="float32",
            mixed_precision_param="bfloat16",
            mixed_precision_reduce="float32",
            max_norm=float("inf"),
            steps=1,
            disable_cuda_graphs=True,
        ),
        parallelism=ParallelismConfig(
            data_parallel_replicate_degree=2,
            data_parallel_shard_degree=2,
            fsdp_reshard_after_forward="always",
            tensor_parallel_degree=2,
            context_parallel_degree=1,
            pipeline_parallel_degree=2,
            pipeline_parallel_schedule="1F1B",
            module_fqns_per_model_part=[
                ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "layers.6", "layers.7", "layers.8", "layers.9", "layers.10", "layers.11", "layers.12", "layers.13", "layers.14", "layers.15"],
                ["layers.16", "layers.17", "layers.18", "layers.19", "layers.20", "layers.21", "layers.22", "layers.23", "layers.24", "layers.25", "layers.26", "layers.27", "layers.28", "layers.29", "layers.30", "layers.31", "norm", "lm_head"],
            ],
            expert_parallel_degree=1,
            pipeline_parallel_microbatch_size=1,
        ),
        optimizer=OptimizersContainer.Config(
            param_groups=[
                ParamGroupConfig(
                    pattern=r".*",
                    optimizer_name="AdamW",
                    optimizer_kwargs={
                        "lr": 0.0001,
                        "betas": (0.9, 0.999),
                        "eps": 1e-08,
                        "weight_decay": 0.0,
                    },
                )
            ]
        ),
        lr_scheduler=LRSchedulersContainer.Config(
            warmup_steps=0,
            decay_ratio=0.0,
            decay_type="linear",
        ),
        activation_checkpoint=FullAC.Config(),
        compile=CompileConfig(
            enable=True,
            components=["model", "loss"],
            enable_async_tensor_parallel=False,
        ),
        debug=DebugConfig(
            seed=0,
            deterministic=False,
        ),
    )
)PYTHON");
}

TEST_CASE("a recipe of torchtitan 0.3 makes models that are none of its flavors", "[interop]") {
  json job = cut_job;
  job["model"] = "llama-2-7b";
  job["training"] = {{"global_batch", 16},       {"sequence_length", 4096}, {"micro_batch", 1},
                     {"recompute", "selective"}, {"precision", "bf16"},     {"compiler", "full"}};
  job["parallelism"] = {{"zero_stage", 3}};
  const std::string text = exported_text(job, Framework::torchtitan, 2, "meshwright_recipe.py");
  const auto has = [&](const std::string& line) {
    CAPTURE(text, line);
    CHECK(("\n" + text).find("\n" + line + "\n") != std::string::npos);
  };
  has("WIDTH, HEADS, KV_HEADS, MLP, VOCABULARY = 4096, 32, 32, 11008, 32000");
  has("        layers=[block(layer, attention) for layer in range(32)],");
  has("    model_spec = model_of(\"varlen\")");
  has("        activation_checkpoint=SelectiveAC.Config(),");
}

TEST_CASE("an export says what torchtitan 0.3 does another way", "[interop]") {
  const Job job = read_job(cut_job, "job.json", ".", lookup_for_tests);
  const Plan plan = settle(job, 16, lookup_for_tests("p4d.24xlarge"));
  const std::optional<Plan> near = nearest_plan(Framework::torchtitan, plan, job.model);
  REQUIRE(near);
  const Exported exported =
      export_plan(job, *near, "p4d.24xlarge", 2, 8, Framework::torchtitan, {"torchrun"});
  CHECK(exported.warnings ==
        std::vector<std::string>{"meshwright_recipe.py: torchtitan 0.3 recomputes all blocks; the "
                                 "plan a part of them"});
}

TEST_CASE("each thing that torchtitan 0.3 does another way has its words", "[interop]") {
  const auto said = [](const auto& change) {
    Plan plan;
    plan.parallelism.zero_stage = 3;
    change(plan);
    std::string text;
    for (const std::string& each : torchtitan_recipe_differences(plan)) text += each + "\n";
    return text;
  };
  CHECK(said([](Plan&) {}) == "");
  CHECK(said([](Plan& plan) {
          plan.parallelism.zero_stage = 0;
          plan.parallelism.data = 2;
        }) == "torchtitan 0.3 reduces gradients block by block; the plan has buckets\n");
  CHECK(said([](Plan& plan) {
          plan.parallelism.context = 2;
          plan.parallelism.context_exchange = ContextExchange::p2p;
        }) == "torchtitan 0.3 gathers keys and values; the plan sends them around a ring\n");
  CHECK(said([](Plan& plan) {
          plan.parallelism.context = 2;
          plan.parallelism.context_exchange = ContextExchange::all_gather;
        }) == "");
  CHECK(said([](Plan& plan) { plan.training.recompute_fraction = 0.5; }) ==
        "torchtitan 0.3 recomputes all blocks; the plan a part of them\n");
  CHECK(said([](Plan& plan) { plan.training.precision = Precision::fp8; }) ==
        "torchtitan 0.3 scales 8 bits row by row; the plan has one scale for a tensor\n");
  CHECK(said([](Plan& plan) {
          plan.training.precision = Precision::fp8;
          plan.training.fp8_recipe = Fp8Recipe::mxfp8;
        }) == "");
  CHECK(said([](Plan& plan) { plan.training.fp8_gathers = true; }) ==
        "torchtitan 0.3 gathers weights in 16 bits then; the plan in 8\n");
}

TEST_CASE("ranks follow from degrees that are all given", "[interop]") {
  const auto read = [](const std::string& degrees) {
    return import_texts({{"a.toml",
                          "[model]\nname = \"llama\"\nflavor = \"7B\"\n[training]\n"
                          "batch_size = 1\nseq_len = 2048\nfp8_linear = \"\"\n" +
                              degrees}},
                        {"cluster.machine=p5.48xlarge"}, Framework::torchtitan);
  };
  const Imported part = read("[parallelism]\ndata_parallel_shard_degree = 2\n");
  CHECK(part.job["cluster"]["processes_per_host"] == 2);
  CHECK(part.job["model"] == "llama-2-7b");
  CHECK(read("[parallelism]\ndata_parallel_shard_degree = 16\n").job["cluster"]["count"] == 2);
  const Imported alone = read("sequence_parallel_degree = 8\n");
  CHECK(alone.job["parallelism"]["tensor"] == 8);
  CHECK(std::ranges::any_of(alone.remarks, [](const std::string& each) {
    return each.find("products are planned in fp32") != std::string::npos;
  }));
  const std::string hosts = message_of(
      [&] { read("[parallelism]\ntensor_parallel_degree = 8\npipeline_parallel_degree = 4\n"); });
  CHECK(hosts.find("give --set cluster.count=4") != std::string::npos);
}
