#include "models/job/job.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/job_lookup.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json small_job() {
  return json::parse(R"({
    "model": "gpt2",
    "training": {"global_batch": 64, "micro_batch": 2, "sequence_length": 512},
    "parallelism": {"pipeline": 2, "tensor": 2},
    "cluster": {"machine": "p4d.24xlarge", "count": 2}
  })");
}

Job read(const json& value) { return read_job(value, "job.json", ".", lookup_for_tests); }

std::string refused(const json& value) {
  return message_of([&] { read(value); });
}

// Reads the job `value` from a file, with --set texts.
Job read_with(const json& value, const std::vector<std::string>& overrides) {
  const TestFolder folder;
  return read_job(folder.file("job.json", value.dump()), overrides, lookup_for_tests);
}

MachineFacts facts(const std::string& machine) { return lookup_for_tests(machine); }

}  // namespace

TEST_CASE("the content of a config.json is a model", "[models][job]") {
  json value = small_job();
  const Job named = read(value);
  value["model"] = json::parse(read_file(zoo_folder() + "/gpt2.json"));
  Job inlined = read(value);
  CHECK(inlined.model_path.empty());
  CHECK(to_json(inlined, inlined.plan, "p4d.24xlarge", 2)["model"] == value["model"]);
  inlined.model.name = named.model.name;
  CHECK(inlined.model == named.model);
  value["model"]["n_head"] = 5;
  CHECK(refused(value).starts_with("job.json: /model"));
}

TEST_CASE("defaults of a small job", "[models][job]") {
  const Job job = read(small_job());
  CHECK(job.name == "job");
  CHECK(job.model.layers == 12);
  CHECK(job.cluster.machines == std::vector<std::string>{"p4d.24xlarge"});
  CHECK(job.cluster.counts == std::vector<int>{2});
  CHECK(job.is_auto("parallelism.data"));
  CHECK(job.is_auto("training.precision"));
  CHECK_FALSE(job.is_auto("training.micro_batch"));
  CHECK(job.plan.training.optimizer == OptimizerKind::adamw);
  CHECK(job.plan.training.compiler == CompilerLevel::fused);
  CHECK(job.plan.parallelism.overlap_gradients);
  CHECK_FALSE(job.plan.parallelism.overlap_tensor);
  CHECK(job.warnings.empty());
  json value = small_job();
  value["training"].erase("micro_batch");
  CHECK(read(value).is_auto("training.micro_batch"));
}

TEST_CASE("settling follows the ranks and the machine", "[models][job]") {
  const Job job = read(small_job());
  const Plan a100 = settle(job, 16, facts("p4d.24xlarge"));
  CHECK(a100.parallelism.data == 4);  // 16 / (2 * 2)
  CHECK(a100.training.precision == Precision::bf16);
  CHECK(a100.training.attention == AttentionKernel::flash2);
  const Plan v100 = settle(job, 8, facts("p3.16xlarge"));
  CHECK(v100.parallelism.data == 2);
  CHECK(v100.training.precision == Precision::fp16);
  CHECK(v100.training.attention == AttentionKernel::flash);
  const Plan cpu = settle(job, 4, facts("local"));
  CHECK(cpu.training.precision == Precision::fp32);
  CHECK(cpu.training.attention == AttentionKernel::flash2);
  json value = small_job();
  value["training"]["precision"] = "fp32";
  CHECK(settle(read(value), 16, facts("p4d.24xlarge")).training.attention ==
        AttentionKernel::unfused);
}

TEST_CASE("degrees against ranks", "[models][job]") {
  json value = small_job();
  value["parallelism"]["data"] = 3;
  CHECK(refused(value) ==
        "job.json: /parallelism: pipeline 2 x tensor 2 x context 1 x data 3 = 12, but the cluster "
        "has 16 ranks; use data 4");
  value = small_job();
  value["parallelism"]["pipeline"] = 3;
  CHECK(refused(value) ==
        "job.json: /parallelism: pipeline 3 x tensor 2 x context 1 = 6 does not divide the "
        "cluster's 16 ranks; use degrees whose product divides the ranks");
}

TEST_CASE("instance_type is a short cluster", "[models][job]") {
  json value = small_job();
  value.erase("cluster");
  value["instance_type"] = "ml.p3.16xlarge";
  value["instance_count"] = 4;
  const Job job = read(value);
  CHECK(job.cluster.machines == std::vector<std::string>{"p3.16xlarge"});
  CHECK(job.cluster.counts == std::vector<int>{4});
  const Job local = read_with(value, {"cluster.machine=local", "cluster.count=1"});
  CHECK(local.cluster.machines == std::vector<std::string>{"local"});
}

TEST_CASE("a CPU host starts as many processes as the degrees need", "[models][job]") {
  json value = small_job();
  value["cluster"] = {{"machine", "local"}};
  const Job job = read(value);
  CHECK(job.cluster.processes_per_host == 4);  // 2 * 2
  REQUIRE(job.warnings.size() == 1);
  CHECK(job.warnings[0] == "job.json: 4 processes share 2 cores of local");
  CHECK(settle(job, 4, facts("local")).parallelism.data == 1);
}

TEST_CASE("auto stands for degrees, batches and clusters", "[models][job]") {
  json value = small_job();
  value["parallelism"] = "auto";
  value["training"]["recompute"] = "auto";
  value["training"]["compiler"] = "auto";
  value["cluster"] = {{"machine", {"p3.16xlarge", "ml.p4d.24xlarge"}}, {"count", {1, 2, 4}}};
  const Job job = read(value);
  for (const char* key :
       {"parallelism.pipeline", "parallelism.tensor", "parallelism.data", "parallelism.shard",
        "parallelism.zero_stage", "parallelism.schedule", "training.recompute", "training.compiler",
        "cluster.machine", "cluster.count"})
    CHECK(job.is_auto(key));
  CHECK(job.cluster.machines == std::vector<std::string>{"p3.16xlarge", "p4d.24xlarge"});
  value["cluster"] = {{"machine", "auto"}, {"count", "auto"}};
  CHECK(read(value).cluster.machines.empty());
  CHECK(read(value).cluster.counts.empty());
}

TEST_CASE("keys that a job leaves out are open to a search, unless stages are given by hand",
          "[models][job]") {
  json value = small_job();
  value["training"].erase("recompute");
  const auto searched = [&] {
    return read_job_text(value.dump(), "job.json", {}, facts, LeftOut::is_open);
  };
  for (const json& given : {json(nullptr), json::object(), json("auto")}) {
    value["parallelism"] = given;
    if (given.is_null()) value.erase("parallelism");
    const Job job = searched();
    for (const char* key : {"parallelism.pipeline", "parallelism.tensor", "parallelism.zero_stage",
                            "parallelism.schedule", "training.recompute"})
      CHECK(job.is_auto(key));
    CHECK(job.is_auto("parallelism.offload") == (given == "auto"));
  }
  value["parallelism"] = {{"tensor", 2}, {"partition", {{"transformer.h.6", 1}}}, {"pipeline", 2}};
  value["training"]["recompute_budget"] = 0.5;
  const Job given = searched();
  CHECK(given.plan.parallelism.tensor == 2);
  CHECK_FALSE(given.is_auto("parallelism.tensor"));
  CHECK_FALSE(given.is_auto("parallelism.schedule"));
  CHECK_FALSE(given.is_auto("training.recompute"));
  CHECK(given.is_auto("parallelism.zero_stage"));
  CHECK(given.leaves_out("parallelism.offload"));
  value["parallelism"] = {{"data", 16}};
  CHECK(read(value).leaves_out("parallelism.tensor"));
  CHECK_FALSE(read(value).leaves_out("parallelism.data"));
}

TEST_CASE("an override reaches every key", "[models][job]") {
  json value = small_job();
  const Job job = read_with(value, {"training.micro_batch=4", "name=mine", "cluster.count=1",
                                    "objective.minimize=usd", "training.dropout=0.0"});
  CHECK(job.plan.training.micro_batch == 4);
  CHECK(job.name == "mine");
  CHECK(job.objective.minimize == Minimize::usd);
  value["parallelism"] = "auto";
  const Job fixed = read_with(value, {"parallelism.tensor=2"});
  CHECK(fixed.plan.parallelism.tensor == 2);
  CHECK_FALSE(fixed.is_auto("parallelism.tensor"));
  CHECK(fixed.is_auto("parallelism.pipeline"));
  value["cluster"]["machine"] = {"p3.16xlarge", "p4d.24xlarge"};
  CHECK(read_with(value, {"cluster.machine.0=local"}).cluster.machines[0] == "local");
  CHECK_THROWS_AS(read_with(value, {"cluster.machine.2=local"}), InputError);
  CHECK_THROWS_AS(read_with(value, {"model.layers=2"}), InputError);
  CHECK_THROWS_AS(read_with(value, {"name"}), InputError);
}

TEST_CASE("a masked model predicts 15 in 100 positions unless told", "[models][job]") {
  json value = small_job();
  value["model"] = "bert-large";
  value["parallelism"] = {{"data", 16}};
  CHECK(read(value).plan.training.predicted_positions == 77);  // 0.15 * 512 = 76.8
  value["training"]["predicted_positions"] = 80;
  CHECK(read(value).plan.training.predicted_positions == 80);
}

TEST_CASE("a settled job written as JSON reads back as itself", "[models][job]") {
  json value = small_job();
  value["training"].merge_patch(json::parse(R"({
      "precision": "fp16", "loss_scale": {"initial": 1024, "window": 10}, "recompute": "full",
      "deterministic": true, "cuda_graph": false,
      "recompute_fraction": 0.5, "gradient_clip": 1.5, "seed": 7, "beta2": 0.95})"));
  value["parallelism"].merge_patch(json::parse(R"({
      "zero_stage": 1, "overlap": ["gradients", "tensor"], "placement": "TPD",
      "partition": {"transformer.wte": 0, "transformer.h.6": 1}})"));
  value["cluster"]["network"] = {{"nics", 2}, {"gbps_per_nic", 100}};
  value["data"] = {{"files", {"text/a.txt"}}, {"format", "uint16"}, {"shuffle", true}};
  value["checkpoint"] = {{"folder", "saved"}, {"every_steps", 10}};
  value["log"] = {{"json", "log.json"}};
  value["objective"] = {{"minimize", "usd"}, {"tokens", 1e9}};
  const Job job = read(value);
  const Plan plan = settle(job, 16, facts("p4d.24xlarge"));
  const json written = to_json(job, plan, "p4d.24xlarge", 2);
  const Job again = read(written);
  const Plan plan_again = settle(again, 16, facts("p4d.24xlarge"));
  CHECK(again.autos.empty());
  CHECK(to_json(plan_again) == to_json(plan));
  CHECK(to_json(again, plan_again, "p4d.24xlarge", 2) == written);
  CHECK(written["data"]["files"] == json({"text/a.txt"}));
  CHECK(written["training"]["loss_scale"]["window"] == 10);
  CHECK(written["training"]["deterministic"] == true);
  CHECK(written["training"]["cuda_graph"] == false);
  CHECK(written["parallelism"]["data"] == 4);
  // The job asks for two 100 Gb/s cards per host.
  CHECK(again.cluster.network->nics == 2);
}

TEST_CASE("a budget for recomputation is read and written", "[models][job]") {
  json value = small_job();
  for (const double budget : {0.5, 3e9}) {
    value["training"]["recompute_budget"] = budget;
    const Job job = read(value);
    CHECK(job.plan.training.recompute_budget == budget);
    const Plan plan = settle(job, 16, facts("p4d.24xlarge"));
    const json written = to_json(job, plan, "p4d.24xlarge", 2);
    CHECK(written["training"]["recompute_budget"] == budget);
    CHECK(read(written).plan.training.recompute_budget == budget);
  }
}

TEST_CASE("a settled job of images reads back as itself", "[models][job]") {
  json value = small_job();
  value["model"] = "vit-base-patch16-224";
  value["training"]["sequence_length"] = 197;
  value["parallelism"] = json::object();
  value["data"] = {{"files", {"images.bin"}}};
  const Job job = read(value);
  const json written = to_json(job, settle(job, 16, facts("p4d.24xlarge")), "p4d.24xlarge", 2);
  CHECK(read(written).data->files == job.data->files);
}

TEST_CASE("the jobs of the published measurements read", "[models][job]") {
  const auto any_machine = [](const std::string&) {
    MachineFacts every;
    every.gpus = 72;
    every.has_bf16 = every.has_tf32 = every.has_fp8 = every.has_fp4 = true;
    every.has_cudnn_attention = true;
    return every;
  };
  const std::string folder = MESHWRIGHT_SOURCE_DIR "/scenarios/evidence";
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const json file = parse_json(read_file(entry.path().string()), entry.path().string());
    for (const json& row : file["rows"]) {
      if (!row.contains("job")) continue;
      ++jobs;
      CHECK_NOTHROW(read_job(row["job"], row["id"].get<std::string>(), folder, any_machine));
    }
  }
  CHECK(jobs > 1000);
}

TEST_CASE("a value that a message suggests passes every rule", "[models][job]") {
  // 1 is the only common divisor of 25 heads and 16 ranks, so it is offered whichever of the two
  // rules is broken first.
  const auto message = [](json value) {
    return message_of([&] { read_job(value, "job.json", ".", lookup_for_tests); });
  };
  json value = json::parse(R"({
    "model": "gpt2-xl", "training": {"global_batch": 64, "micro_batch": 1, "sequence_length": 512},
    "instance_type": "p4d.24xlarge", "instance_count": 2,
    "distribution": {"mpi": {"enabled": true, "processes_per_host": 8},
      "smdistributed": {"modelparallel": {"enabled": true,
        "parameters": {"pipeline_parallel_degree": 1, "microbatches": 4, "ddp": true}}}}})");
  json& parameters = value["distribution"]["smdistributed"]["modelparallel"]["parameters"];
  value["training"].erase("micro_batch");
  for (const int tensor : {2, 5}) {
    parameters["tensor_parallel_degree"] = tensor;
    CAPTURE(tensor);
    CHECK(message(value).ends_with("; use 1"));
  }
  // 16 divides the ranks too, but 12 layers do not fill 16 stages. The same value is tried for the
  // key's old name, `partitions`.
  json both = value;
  both["model"] = "gpt2";
  json& named = both["distribution"]["smdistributed"]["modelparallel"]["parameters"];
  named = {{"pipeline_parallel_degree", 3}, {"partitions", 3}, {"microbatches", 4}, {"ddp", true}};
  CHECK(message(both).ends_with("3 does not divide the 16 processes; use 1, 2, 4 or 8"));
  // 1, 2, 3, 4, 6 and 12 divide the 12 heads. Only three of these numbers divide the 16 ranks.
  json native = json::parse(R"({
    "model": "gpt2", "training": {"global_batch": 64, "micro_batch": 1, "sequence_length": 512},
    "instance_type": "p4d.24xlarge", "instance_count": 2, "parallelism": {"tensor": 8}})");
  CHECK(message(native).ends_with("8 does not divide 12 heads; use 1, 2 or 4"));
  // Each number that is offered is accepted.
  for (const int tensor : {1, 2, 4}) {
    native["parallelism"]["tensor"] = tensor;
    CHECK(message(native) == "");
  }
}

TEST_CASE("overlap of tensor groups that are not there is said to change nothing",
          "[models][job]") {
  json value = json::parse(R"({"model": "gpt2", "training": {"global_batch": 16,
    "sequence_length": 64}, "cluster": {"machine": "p4d.24xlarge"},
    "parallelism": {"tensor": 2, "overlap": ["gradients", "tensor"], "tensor_chunks": 2}})");
  const auto warnings = [&] { return read_job(value, "job.json", ".", lookup_for_tests).warnings; };
  CHECK(warnings().empty());
  value["parallelism"]["tensor"] = 1;
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0] ==
        "job.json: /parallelism/overlap: 'tensor' has no effect while tensor is 1");
  value["parallelism"]["overlap"] = {"gradients"};
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0] ==
        "job.json: /parallelism/tensor_chunks: no effect while overlap does not name 'tensor'");
}

TEST_CASE("defaults of the loss scale, and amounts above 0", "[models][job]") {
  json value = json::parse(R"({"model": "gpt2", "training": {"global_batch": 16,
    "sequence_length": 64, "precision": "fp16", "loss_scale": {}},
    "cluster": {"machine": "p4d.24xlarge"}})");
  const auto scale =
      read_job(value, "job.json", ".", lookup_for_tests).plan.training.loss_scale.value();
  CHECK(scale.dynamic);
  CHECK(scale.initial == 4294967296.0);  // 2^32
  CHECK(scale.factor == 2);
  CHECK(scale.window == 1000);
  CHECK(scale.minimum == 1);
  CHECK(scale.hysteresis == 1);
  for (const char* key : {"tokens", "deadline_s", "budget_usd"}) {
    value["objective"] = {{key, 0}};
    CHECK(message_of([&] { read_job(value, "job.json", ".", lookup_for_tests); }) ==
          std::string("job.json: /objective/") + key + ": 0 must be above 0");
  }
}

TEST_CASE("a stack is named by a word or by a year") {
  json job = small_job();
  CHECK(read(job).cluster.stack.empty());
  job["cluster"]["stack"] = "2023";
  const Job read_back = read(job);
  CHECK(read_back.cluster.stack == "2023");
  CHECK(to_json(read_back, read_back.plan, "p4d.24xlarge", 2).at("cluster").at("stack") == "2023");
  CHECK(read_with(small_job(), {"cluster.stack=2023"}).cluster.stack == "2023");
}
