// Tests that DeepSpeed's settings become a job and settings again, compared word for word.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> given = {"model=gpt2", "cluster.machine=p4d.24xlarge",
                                        "cluster.count=1", "training.sequence_length=1024"};

json imported(const json& config, const json& arguments = nullptr) {
  std::vector<NamedText> texts = {{"ds.json", config.dump(1)}};
  if (!arguments.is_null()) texts.push_back({"args.json", arguments.dump(1)});
  return import_texts(texts, given, Framework::deepspeed).job;
}

}  // namespace

TEST_CASE("DeepSpeed's buckets are elements, and its own defaults count", "[interop]") {
  const json job = imported({{"train_batch_size", 64},
                             {"train_micro_batch_size_per_gpu", 2},
                             {"bf16", {{"enabled", true}}},
                             {"zero_optimization", {{"stage", 3}, {"reduce_bucket_size", 1000}}}});
  const json& p = job["parallelism"];
  CHECK(p["zero_stage"] == 3);
  CHECK(p["reduce_gradients"] == "each");
  CHECK(p["reduce_bucket_bytes"] == 2000);  // bf16
  CHECK(p["max_live_parameters"] == 1000000000);
  CHECK(p["persistence_threshold"] == 100000);
  CHECK(p["overlap"] == json{"gradients", "parameters"});
  CHECK(job["training"]["gradient_reduce_precision"] == "bf16");
  CHECK(job["training"]["gradient_clip"] == 1.0);
}

TEST_CASE("DeepSpeed's fp16 has a moving scale, and its Adam decouples decay", "[interop]") {
  const json job = imported(
      {{"train_batch_size", 64},
       {"gradient_accumulation_steps", 2},
       {"fp16", {{"enabled", true}, {"initial_scale_power", 12}}},
       {"optimizer", {{"type", "Adam"}, {"params", {{"lr", 1e-3}, {"betas", {0.8, 0.9}}}}}}});
  const json& t = job["training"];
  CHECK(
      t["loss_scale"] ==
      json{
          {"initial", 4096.0}, {"factor", 2}, {"window", 1000}, {"hysteresis", 2}, {"minimum", 1}});
  CHECK(t["optimizer"] == "adamw");
  CHECK(t["beta1"] == 0.8);
  CHECK(t["micro_batch"] == 4);  // 64 / 8 replicas / 2
  CHECK(job["parallelism"]["zero_stage"] == 0);
}

TEST_CASE("\"auto\" is what the Trainer's arguments say", "[interop]") {
  const json config = {{"train_batch_size", "auto"},
                       {"train_micro_batch_size_per_gpu", "auto"},
                       {"gradient_accumulation_steps", "auto"},
                       {"gradient_clipping", "auto"},
                       {"bf16", {{"enabled", "auto"}}},
                       {"zero_optimization", {{"stage", 2}}}};
  const json job = imported(config, {{"output_dir", "out"},
                                     {"per_device_train_batch_size", 4},
                                     {"gradient_accumulation_steps", 2},
                                     {"bf16", true},
                                     {"learning_rate", 2e-5},
                                     {"max_grad_norm", 0.5},
                                     {"gradient_checkpointing", true}});
  const json& t = job["training"];
  CHECK(t["micro_batch"] == 4);
  CHECK(t["global_batch"] == 64);
  CHECK(t["precision"] == "bf16");
  CHECK(t["learning_rate"] == 2e-5);
  CHECK(t["gradient_clip"] == 0.5);
  CHECK(t["recompute"] == "full");
  CHECK(t["seed"] == 42);
  CHECK(message_of([&] { imported(config); }).find("--set training.global_batch") !=
        std::string::npos);
}

TEST_CASE("ranks that share sequences in DeepSpeed exchange heads", "[interop]") {
  const json job = imported({{"train_batch_size", 64},
                             {"train_micro_batch_size_per_gpu", 2},
                             {"sequence_parallel_size", 4},
                             {"zero_optimization", {{"stage", 3}}}});
  CHECK(job["parallelism"]["context"] == 4);
  CHECK(job["parallelism"]["context_exchange"] == "all_to_all");
  const json config = json::parse(exported_text(job, Framework::deepspeed, 1, "ds_config.json"));
  CHECK(config["sequence_parallel_size"] == 4);
}

TEST_CASE("batches of DeepSpeed's that contradict are refused", "[interop]") {
  const std::string message = message_of([] {
    imported({{"train_batch_size", 64},
              {"train_micro_batch_size_per_gpu", 2},
              {"gradient_accumulation_steps", 2},
              {"zero_optimization", {{"stage", 1}}}});
  });
  CHECK(
      message.ends_with("train_batch_size: 64 is not train_micro_batch_size_per_gpu 2 x "
                        "gradient_accumulation_steps 2 x 8 replicas = 32"));
}

TEST_CASE("a plan as ds_config.json", "[interop]") {
  const json job = {{"model", "gpt2"},
                    {"cluster", {{"machine", "p4d.24xlarge"}}},
                    {"training",
                     {{"global_batch", 64},
                      {"sequence_length", 1024},
                      {"micro_batch", 2},
                      {"gradient_reduce_precision", "bf16"}}},
                    {"parallelism", {{"zero_stage", 2}, {"reduce_bucket_bytes", 4096}}}};
  const json config = json::parse(exported_text(job, Framework::deepspeed, 1, "ds_config.json"));
  CHECK(config["train_batch_size"] == 64);
  CHECK(config["train_micro_batch_size_per_gpu"] == 2);
  CHECK(config["gradient_accumulation_steps"] == 4);
  CHECK(config["zero_optimization"]["stage"] == 2);
  CHECK(config["zero_optimization"]["reduce_bucket_size"] == 2048);
  CHECK(config["communication_data_type"] == "bf16");
  CHECK(config["optimizer"]["type"] == "AdamW");
  const json arguments =
      json::parse(exported_text(job, Framework::deepspeed, 1, "training_args.json"));
  CHECK(arguments["deepspeed"] == "ds_config.json");
  CHECK(arguments["per_device_train_batch_size"] == 2);
  CHECK(arguments["block_size"] == 1024);
}
