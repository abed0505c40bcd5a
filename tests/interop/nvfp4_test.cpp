// Tests precision nvfp4, and layers that stay in bf16, in the settings of the frameworks that have
// them.
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
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

TEST_CASE("Megatron-LM leaves one layer on either side in bf16, or as many as it is told",
          "[interop]") {
  const std::string others =
      " --micro-batch-size 1 --global-batch-size 16 --seq-length 4096 --lr 1e-4 ";
  for (const char* narrow : {"--bf16 --fp4-format e2m1 --fp4-recipe nvfp4 ",
                             "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 "}) {
    const auto training = [&](const std::string& words) {
      return imported(Framework::megatron_lm, "run.sh", narrow + words + others)["training"];
    };
    CHECK_FALSE(training("").contains("first_layers_in_bf16"));
    // Without the flag, the numbers of layers have no effect.
    CHECK_FALSE(training("--num-layers-at-end-in-bf16 4").contains("last_layers_in_bf16"));
    CHECK(training("--first-last-layers-bf16")["first_layers_in_bf16"] == 1);
    CHECK(training("--first-last-layers-bf16")["last_layers_in_bf16"] == 1);
    const std::string words =
        "--first-last-layers-bf16 --num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 4";
    CHECK_FALSE(training(words).contains("first_layers_in_bf16"));
    CHECK(training(words)["last_layers_in_bf16"] == 4);
  }
  const json job = imported(Framework::megatron_lm, "run.sh",
                            "--bf16 --fp4-format e2m1 --first-last-layers-bf16 "
                            "--num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 4" +
                                others);
  const std::string text = exported(Framework::megatron_lm, job);
  for (const char* words : {"--first-last-layers-bf16", "--num-layers-at-start-in-bf16 2",
                            "--num-layers-at-end-in-bf16 4"})
    CHECK(text.find(words) != std::string::npos);
}

TEST_CASE("Megatron-Bridge's recipe of current scaling leaves a layer on either side in bf16",
          "[interop]") {
  const std::string others =
      "model:\n  seq_length: 4096\ntrain:\n  global_batch_size: 16\n  micro_batch_size: 1\n";
  const auto training = [&](const std::string& words) {
    return imported(Framework::megatron_bridge, "a.yaml", others + words)["training"];
  };
  const json usual = training("mixed_precision: bf16_with_fp8_current_scaling_mixed\n");
  CHECK(usual["first_layers_in_bf16"] == 1);
  CHECK(usual["last_layers_in_bf16"] == 1);
  for (const char* name : {"bf16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed"})
    CHECK_FALSE(
        training(std::string("mixed_precision: ") + name + "\n").contains("first_layers_in_bf16"));
  const std::string fields = "mixed_precision:\n  bf16: true\n  fp4: e2m1\n";
  CHECK_FALSE(
      training(fields + "  num_layers_at_end_in_bf16: 4\n").contains("last_layers_in_bf16"));
  const std::string asked =
      fields + "  first_last_layers_bf16: true\n  num_layers_at_end_in_bf16: 4\n";
  CHECK_FALSE(training(asked).contains("first_layers_in_bf16"));
  CHECK(training(asked)["last_layers_in_bf16"] == 4);
  const std::string text = exported(Framework::megatron_bridge,
                                    imported(Framework::megatron_bridge, "a.yaml", others + asked));
  CHECK(text.find("first_last_layers_bf16: true") != std::string::npos);
  CHECK(text.find("num_layers_at_start_in_bf16: 0") != std::string::npos);
  CHECK(text.find("num_layers_at_end_in_bf16: 4") != std::string::npos);
}
