// Tests that accelerate's settings become a job and settings again, compared word for word.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> given = {"model=llama-3-8b", "cluster.machine=p4d.24xlarge",
                                        "training.sequence_length=4096", "training.micro_batch=1",
                                        "training.global_batch=32"};

json imported(const std::string& yaml) {
  return import_texts({{"a.yaml", yaml}}, given, Framework::accelerate).job;
}

}  // namespace

TEST_CASE("accelerate's FSDP of both versions", "[interop]") {
  const json first = imported(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
      "fsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n");
  CHECK(first["parallelism"]["zero_stage"] == 3);
  CHECK(first["parallelism"]["shard"] == 8);
  CHECK(first["parallelism"]["reshard_after_forward"] == "always");
  CHECK(first["parallelism"]["reduce_gradients"] == "last");
  CHECK(first["training"]["gradient_reduce_precision"] == "bf16");
  CHECK(first["cluster"]["count"] == 2);
  CHECK(first["cluster"]["processes_per_host"] == 8);
  const json second = imported(
      "distributed_type: FSDP\nmixed_precision: fp16\nnum_processes: 8\nfsdp_config:\n"
      "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"
      "  fsdp_activation_checkpointing: true\n"
      "parallelism_config:\n  parallelism_config_dp_shard_size: 4\n"
      "  parallelism_config_tp_size: 2\ndynamo_config:\n  dynamo_backend: INDUCTOR\n");
  CHECK(second["parallelism"]["reshard_after_forward"] == "never");
  CHECK(second["parallelism"]["tensor"] == 2);
  CHECK(second["training"]["recompute"] == "full");
  CHECK(second["training"]["compiler"] == "full");
  CHECK(second["training"]["loss_scale"]["initial"] == 65536.0);
  CHECK(second["training"]["loss_scale"]["window"] == 2000);
}

TEST_CASE("accelerate's sequence ranks exchange heads, its context ranks keys and values",
          "[interop]") {
  const auto exchange = [](const std::string& degree) {
    const json job = imported(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
        "  fsdp_version: 2\nparallelism_config:\n  parallelism_config_dp_shard_size: 4\n  " +
        degree + "\n");
    CHECK(job["parallelism"]["context"] == 2);
    return job["parallelism"]["context_exchange"];
  };
  CHECK(exchange("parallelism_config_sp_size: 2") == "all_to_all");
  CHECK(exchange("parallelism_config_cp_size: 2") == "all_gather");
}

TEST_CASE("accelerate's plugins for DeepSpeed and Megatron-LM", "[interop]") {
  const json deepspeed = imported(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n"
      "  zero_stage: 2\n  gradient_clipping: 0.5\n");
  CHECK(deepspeed["parallelism"]["zero_stage"] == 2);
  CHECK(deepspeed["parallelism"]["reduce_gradients"] == "each");
  CHECK(deepspeed["training"]["gradient_clip"] == 0.5);
  const json megatron = imported(
      "distributed_type: MEGATRON_LM\nmixed_precision: bf16\nnum_processes: 8\n"
      "megatron_lm_config:\n  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 2\n"
      "  megatron_lm_sequence_parallelism: true\n  megatron_lm_use_distributed_optimizer: true\n");
  CHECK(megatron["parallelism"]["tensor"] == 2);
  CHECK(megatron["parallelism"]["pipeline"] == 2);
  CHECK(megatron["parallelism"]["sequence_parallel"] == true);
  CHECK(megatron["parallelism"]["zero_stage"] == 1);
}

TEST_CASE("accelerate's processes fill its hosts evenly", "[interop]") {
  CHECK(message_of([] {
          imported("distributed_type: MULTI_GPU\nnum_machines: 3\nnum_processes: 8\n");
        }).ends_with("a.yaml:3: num_processes: 8 is no multiple of num_machines 3"));
}

TEST_CASE("a plan as accelerate's YAML", "[interop]") {
  const json job = {
      {"model", "llama-3-8b"},
      {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 2}}},
      {"training", {{"global_batch", 32}, {"sequence_length", 4096}, {"micro_batch", 1}}},
      {"parallelism", {{"tensor", 2}, {"zero_stage", 3}, {"shard", 4}}}};
  const std::string text = exported_text(job, Framework::accelerate, 2, "accelerate.yaml");
  const auto has = [&](const std::string& line) {
    CAPTURE(text, line);
    CHECK(text.find(line + "\n") != std::string::npos);
  };
  has("distributed_type: FSDP");
  has("num_machines: 2");
  has("num_processes: 16");
  has("  fsdp_version: 2");
  has("  fsdp_reshard_after_forward: true");
  has("  parallelism_config_dp_replicate_size: 2");
  has("  parallelism_config_dp_shard_size: 4");
  has("  parallelism_config_tp_size: 2");
  has("mixed_precision: bf16");
}

TEST_CASE("a plan with Adafactor names it to the Trainer", "[interop]") {
  const json job = {{"model", "llama-3-8b"},
                    {"cluster", {{"machine", "p4d.24xlarge"}}},
                    {"training",
                     {{"global_batch", 32},
                      {"sequence_length", 4096},
                      {"micro_batch", 1},
                      {"optimizer", "adafactor"}}},
                    {"parallelism", {{"zero_stage", 3}}}};
  const std::string text = exported_text(job, Framework::accelerate, 1, "training_args.json");
  CAPTURE(text);
  CHECK(text.find("\"optim\": \"adafactor\"") != std::string::npos);
}
