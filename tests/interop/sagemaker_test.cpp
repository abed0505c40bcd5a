// Tests that SageMaker's dictionaries become a job and dictionaries again.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json imported(const json& estimator, const std::vector<std::string>& overrides = {}) {
  return import_texts({{"a.json", estimator.dump(1)}}, overrides, Framework::sagemaker).job;
}

std::string refused(const json& estimator, const std::vector<std::string>& overrides = {}) {
  const std::string message = message_of([&] { imported(estimator, overrides); });
  const std::size_t at = message.find("a.json");
  return at == std::string::npos ? message : message.substr(at);
}

json version_2() {
  return {{"instance_type", "ml.p4d.24xlarge"},
          {"instance_count", 2},
          {"distribution",
           {{"torch_distributed", {{"enabled", true}}},
            {"smdistributed",
             {{"modelparallel",
               {{"enabled", true},
                {"parameters", {{"hybrid_shard_degree", 8}, {"tensor_parallel_degree", 2}}}}}}}}},
          {"hyperparameters",
           {{"model_type", "llama_v2"},
            {"num_layers", 32},
            {"hidden_width", 4096},
            {"num_heads", 32},
            {"llama_intermediate_size", 11008},
            {"train_batch_size", 4},
            {"max_context_width", 4096},
            {"activation_checkpointing", 1},
            {"bf16", 1}}}};
}

}  // namespace

TEST_CASE("a dictionary of version 2 stays as it is; hyperparameters become training",
          "[interop]") {
  const json job = imported(version_2());
  CHECK(job["distribution"] == version_2()["distribution"]);
  CHECK(job["cluster"]["machine"] == "p4d.24xlarge");
  CHECK(job["cluster"]["count"] == 2);
  CHECK(job["training"]["global_batch"] == 32);  // 4 x 16 ranks / tensor 2
  CHECK(job["training"]["micro_batch"] == 4);
  CHECK(job["training"]["sequence_length"] == 4096);
  CHECK(job["training"]["precision"] == "bf16");
  CHECK(job["training"]["recompute"] == "full");
  CHECK(job["model"]["intermediate_size"] == 11008);
}

TEST_CASE("SDK 3 sends the library's parameters as text", "[interop]") {
  json trainer = version_2();
  trainer.erase("distribution");
  trainer["hyperparameters"]["mp_parameters"] =
      R"({"hybrid_shard_degree": 8, "tensor_parallel_degree": 2})";
  const json job = imported(trainer);
  CHECK(job["distribution"] == version_2()["distribution"]);
  trainer["hyperparameters"]["mp_parameters"] = "{";
  CHECK(refused(trainer).find("is no dictionary written as JSON") != std::string::npos);
  trainer["hyperparameters"].erase("mp_parameters");
  trainer["distributed"] = {{"process_count_per_node", 8},
                            {"smp", {{"hybrid_shard_degree", 8}, {"tensor_parallel_degree", 2}}}};
  const json torchrun = imported(trainer);
  CHECK(torchrun["distribution"] == version_2()["distribution"]);
  CHECK(torchrun["cluster"]["processes_per_host"] == 8);
}

TEST_CASE("version 1: the batch is of replicas that read their own", "[interop]") {
  json estimator = version_2();
  estimator["distribution"] = {{"mpi", {{"enabled", true}, {"processes_per_host", 8}}},
                               {"smdistributed",
                                {{"modelparallel",
                                  {{"enabled", true},
                                   {"parameters",
                                    {{"pipeline_parallel_degree", 2},
                                     {"tensor_parallel_degree", 4},
                                     {"microbatches", 2},
                                     {"ddp", true},
                                     {"prescaled_batch", true},
                                     {"fp16", true}}}}}}}};
  estimator["hyperparameters"].erase("bf16");
  CHECK(imported(estimator)["training"]["global_batch"] == 8);  // 4 x 16 / 2 / 4
  estimator["distribution"]["smdistributed"]["modelparallel"]["parameters"]["prescaled_batch"] =
      false;
  CHECK(imported(estimator)["training"]["global_batch"] == 32);
}

TEST_CASE("what is wrong in a dictionary is told at its place", "[interop]") {
  json estimator = version_2();
  estimator["hyperparameters"].erase("train_batch_size");
  CHECK(refused(estimator).find("no setting says training.global_batch") != std::string::npos);
  estimator = version_2();
  estimator["hyperparameters"]["fp16"] = 1;
  CHECK(refused(estimator).find("hyperparameters.fp16: given beside bf16") != std::string::npos);
  estimator = version_2();
  estimator["instance_typ"] = "ml.p5.48xlarge";
  CHECK(refused(estimator).find("did you mean 'instance_type'?") != std::string::npos);
  estimator = version_2();
  estimator["distribution"]["smdistributed"]["modelparallel"]["parameters"]
           ["tensor_parallel_degree"] = 3;
  CHECK(refused(estimator, {"training.global_batch=32"}).find("does not divide the 16 processes") !=
        std::string::npos);
}

TEST_CASE("an export names the keys of version 2, with stages those of version 1", "[interop]") {
  json job = {
      {"name", "x"},
      {"model", "gpt2-medium"},
      {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 1}}},
      {"training",
       {{"global_batch", 16}, {"sequence_length", 512}, {"micro_batch", 2}, {"precision", "bf16"}}},
      {"parallelism", {{"zero_stage", 3}}}};
  const json two = json::parse(exported_text(job, Framework::sagemaker, 1, "estimator.json"));
  const json& library = two["distribution"]["smdistributed"]["modelparallel"]["parameters"];
  CHECK(library["hybrid_shard_degree"] == 0);
  CHECK(library["tensor_parallel_degree"] == 1);
  CHECK(two["hyperparameters"]["train_batch_size"] == 2);
  CHECK(two["instance_type"] == "ml.p4d.24xlarge");
  job["parallelism"] = {{"pipeline", 2}};
  job["training"]["precision"] = "fp16";
  const json one = json::parse(exported_text(job, Framework::sagemaker, 1, "estimator.json"));
  const json& first = one["distribution"]["smdistributed"]["modelparallel"]["parameters"];
  CHECK(first["pipeline_parallel_degree"] == 2);
  CHECK(first["microbatches"] == 2);
  CHECK(one["distribution"]["mpi"]["enabled"] == true);
  CHECK(exported_text(job, Framework::sagemaker, 1, "model_trainer.json").empty());
}

TEST_CASE("the Trainer's fsdp says how ranks share the model, and the dictionary how they start",
          "[interop]") {
  const json estimator = {
      {"instance_type", "ml.p4d.24xlarge"},
      {"instance_count", 2},
      {"job_name", "tune"},
      {"model_dir", "/opt/ml/model"},
      {"debugger_hook_config", {{"collection_configs", json::array()}}},
      {"distribution", {{"smdistributed", {{"dataparallel", {{"enabled", true}}}}}}},
      {"hyperparameters",
       {{"fsdp", "full_shard auto_wrap"}, {"per_device_train_batch_size", 2}, {"bf16", true}}}};
  const json job = imported(
      estimator, {"model=gpt2", "training.sequence_length=512", "training.global_batch=32"});
  CHECK(job["parallelism"]["zero_stage"] == 3);
  CHECK_FALSE(job.contains("distribution"));
  CHECK(job["cluster"]["count"] == 2);
  CHECK(job["training"]["precision"] == "bf16");
  json unsaid = estimator;
  unsaid["hyperparameters"].erase("bf16");
  CHECK(imported(unsaid, {"model=gpt2", "training.sequence_length=512",
                          "training.global_batch=32"})["training"]["precision"] == "fp32");
}

TEST_CASE("switches of the library may be written 1 and 0", "[interop]") {
  json estimator = version_2();
  estimator["distribution"] = {{"mpi", {{"enabled", 1}, {"processes_per_host", 8}}},
                               {"smdistributed",
                                {{"modelparallel",
                                  {{"enabled", 1},
                                   {"parameters",
                                    {{"partitions", 1},
                                     {"ddp", 1},
                                     {"tensor_parallel_degree", 2},
                                     {"prescaled_batch", 1}}}}}}}};
  const json parameters =
      imported(estimator)["distribution"]["smdistributed"]["modelparallel"]["parameters"];
  CHECK(parameters["prescaled_batch"] == true);
  CHECK(parameters["ddp"] == true);
  CHECK(parameters["tensor_parallel_degree"] == 2);
}
