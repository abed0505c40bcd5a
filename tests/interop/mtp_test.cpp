// Tests the settings of multi-token prediction in Megatron-LM and in frameworks that are built on
// it.
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> cluster_and_model = {"cluster.machine=p4d.24xlarge",
                                                    "cluster.count=1", "model=llama-3-8b"};

json of_megatron(const std::string& words) {
  const std::string text =
      "--bf16 --micro-batch-size 1 --global-batch-size 16 --seq-length 4096 --lr 1e-4 " + words;
  return import_texts({{"run.sh", text}}, cluster_and_model, Framework::megatron_lm).job;
}

}  // namespace

TEST_CASE("Megatron-LM's layers of multi-token prediction come and go", "[interop][mtp]") {
  CHECK_FALSE(of_megatron("")["training"].contains("mtp_layers"));
  const json usual = of_megatron("--mtp-num-layers 1");
  CHECK(usual["training"]["mtp_layers"] == 1);
  CHECK_FALSE(usual["training"].contains("mtp_loss_weight"));  // 0.1 in both
  const json job = of_megatron(
      "--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3 --pipeline-model-parallel-size 2 "
      "--pipeline-model-parallel-layout 'Et*15|t*17,mmL'");
  CHECK(job["training"]["mtp_layers"] == 2);
  CHECK(job["training"]["mtp_loss_weight"] == 0.3);
  CHECK(job["parallelism"]["partition"]["model.layers.15"] == 1);
  const std::string text = exported_text(job, Framework::megatron_lm, 1, "arguments.txt");
  for (const char* written : {"--mtp-num-layers 2", "--mtp-loss-scaling-factor 0.3", "tmmL"})
    CHECK(text.find(written) != std::string::npos);
}

TEST_CASE("Megatron-Bridge's mtp_num_layers is read like Megatron-LM's", "[interop][mtp]") {
  const auto training = [](const std::string& lines) {
    return import_texts({{"a.yaml", "model:\n  seq_length: 4096\n" + lines +
                                        "train:\n  micro_batch_size: 1\n  global_batch_size: 16\n"
                                        "mixed_precision: bf16_mixed\n"}},
                        cluster_and_model, Framework::megatron_bridge)
        .job["training"];
  };
  CHECK_FALSE(training("  mtp_num_layers: null\n").contains("mtp_layers"));
  const json found = training("  mtp_num_layers: 1\n  mtp_loss_scaling_factor: 0.2\n");
  CHECK(found["mtp_layers"] == 1);
  CHECK(found["mtp_loss_weight"] == 0.2);
}

TEST_CASE("other frameworks are written without multi-token prediction", "[interop][mtp]") {
  const Model model = load_model("llama-3-8b", ".");
  Plan plan;
  plan.training.global_batch = 16;
  plan.training.sequence_length = 4096;
  plan.training.mtp_layers = 1;
  plan.parallelism.data = 8;
  for (const Framework framework : {Framework::torchtitan, Framework::deepspeed}) {
    REQUIRE(broken_limit(framework, plan, model) != nullptr);
    CHECK(nearest_plan(framework, plan, model).value().training.mtp_layers == 0);
  }
  CHECK(nearest_plan(Framework::megatron_lm, plan, model).value().training.mtp_layers == 1);
}
