// Precision nvfp4 in the words of those frameworks that have it.
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright;
using nlohmann::json;

namespace {

const std::string machine = "p6-b200.48xlarge";

json imported(Framework framework, const std::string& file, const std::string& text) {
  return import_texts({{file, text}},
                      {"cluster.machine=" + machine, "cluster.count=1", "model=llama-2-7b"},
                      framework)
      .job;
}

std::string exported(Framework framework, const json& value) {
  const Job job = read_job(value, "job.json", ".", lookup_for_tests);
  const Plan plan = settle(job, 8, lookup_for_tests(machine));
  const std::optional<Plan> near = nearest_plan(framework, plan, job.model);
  REQUIRE(near);
  CHECK(near->training.precision == Precision::nvfp4);
  const JobValues values(job, *near, machine, 1, 8);
  const InteropTarget& target = interop_target(framework);
  std::string all;
  for (const ExportedFile& each : target.files(values, settings_of(values, target)))
    all += each.text;
  return all;
}

}  // namespace

TEST_CASE("Megatron-LM has nvfp4 as --fp4-format, and comes back", "[interop]") {
  const std::string words = "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4";
  const std::string others =
      " --micro-batch-size 1 --global-batch-size 16 --seq-length 4096 --lr 1e-4 ";
  const json job = imported(Framework::megatron_lm, "run.sh", words + others);
  CHECK(job["training"]["precision"] == "nvfp4");
  const std::string text = exported(Framework::megatron_lm, job);
  CHECK(text.find("--fp4-format e2m1") != std::string::npos);
  CHECK(text.find("--fp8-format") == std::string::npos);
  CHECK(message_of([&] {
          imported(Framework::megatron_lm, "run.sh", words + " --fp8-format hybrid" + others);
        }).find("keep one of them") != std::string::npos);
}

TEST_CASE("Megatron-Bridge has nvfp4 as a recipe and as fields, and comes back", "[interop]") {
  const std::string others =
      "model:\n  seq_length: 4096\ntrain:\n  global_batch_size: 16\n  micro_batch_size: 1\n";
  for (const char* words : {"mixed_precision: bf16_with_nvfp4_mixed\n",
                            "mixed_precision:\n  bf16: true\n  fp4: e2m1\n  fp4_recipe: nvfp4\n"}) {
    const json job = imported(Framework::megatron_bridge, "a.yaml", others + words);
    CHECK(job["training"]["precision"] == "nvfp4");
    const std::string text = exported(Framework::megatron_bridge, job);
    CHECK(text.find("fp4: e2m1") != std::string::npos);
    CHECK(text.find("fp4_recipe: nvfp4") != std::string::npos);
  }
}
