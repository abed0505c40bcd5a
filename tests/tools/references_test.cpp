// Compares the prediction of a step with records of what frameworks did in it (tests/references).
// A prediction that is wrong today has a bound that says by how much, so that a change is noticed.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

namespace {

const std::string references = MESHWRIGHT_SOURCE_DIR "/tests/references/";

json llama_layers(int hidden, int heads, int kv_heads, int ffn) {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"hidden_size", hidden},
          {"num_hidden_layers", 2},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"intermediate_size", ffn},
          {"max_position_embeddings", 8192},
          {"vocab_size", 32000},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false}};
}

json job_of_reference(const json& model, int batch, int length, const char* machine,
                      const json& cut) {
  const int ranks = cut["data"];
  return {{"model", model},
          {"training",
           {{"global_batch", batch},
            {"micro_batch", batch / ranks},
            {"sequence_length", length},
            {"precision", "bf16"}}},
          {"cluster", {{"machine", machine}, {"processes_per_host", ranks}}},
          {"parallelism", cut}};
}

// Holds a reference, the job of the same step, and today's ratio of the predicted to the recorded
// peak of tensors.
struct ReferenceRow {
  const char* name;
  json job;
  double memory_ratio;
};

const std::vector<ReferenceRow>& reference_rows() {
  static const json gpt = {{"family", "gpt"}, {"hidden", 768},  {"layers", 2},
                           {"heads", 12},     {"vocab", 50257}, {"positions", 1024}};
  static const json large = llama_layers(4096, 32, 8, 14336);
  static const std::vector<ReferenceRow> all = {
      {"plain-gpt2", job_of_reference(gpt, 8, 1024, "p4d.24xlarge", {{"data", 1}}), 0.437},
      {"transformers-llama-small",
       job_of_reference(llama_layers(512, 8, 8, 1408), 8, 512, "p4d.24xlarge", {{"data", 1}}),
       0.453},
      {"transformers-llama-8b", job_of_reference(large, 1, 4096, "p5.48xlarge", {{"data", 1}}),
       1.875},
      {"ddp-llama-8b", job_of_reference(large, 8, 4096, "p5.48xlarge", {{"data", 8}}), 0.893},
      {"fsdp2-llama-8b",
       job_of_reference(large, 8, 4096, "p5.48xlarge", {{"data", 8}, {"zero_stage", 3}}), 1.068}};
  return all;
}

json recorded_step_of(const ReferenceRow& row) {
  return json::parse(content_of(references + row.name + ".json"));
}

json predicted_step(const ReferenceRow& row) {
  const TestFolder folder;
  const Answer answer = run("simulate " + folder.file("job.json", row.job.dump()) + " --json");
  REQUIRE(answer.code == 0);
  return json::parse(answer.out);
}

// Returns the model FLOPs of one rank. A fifth of backward attention computes the scores again and
// does not count.
double model_flops(const json& recorded) {
  double flops = 0;
  for (const json& each : recorded["operations"]) {
    const std::string name = each["operation"];
    const bool repeats = name.find("attention_backward") != std::string::npos;
    flops += each["flops"].get<double>() * (repeats ? 0.8 : 1);
  }
  return flops;
}

}  // namespace

TEST_CASE("a predicted step has the FLOPs and, within today's bounds, the memory of frameworks",
          "[tools][references]") {
  std::printf("%-26s %12s %12s %12s %12s\n", "reference", "FLOPs", "predicted", "peak GB",
              "predicted");
  for (const ReferenceRow& row : reference_rows()) {
    CAPTURE(row.name);
    const json recorded = recorded_step_of(row), step = predicted_step(row);
    CHECK(recorded["batch"]["tokens"].get<int>() * recorded["ranks"].get<int>() ==
          row.job["training"]["global_batch"].get<int>() *
              row.job["training"]["sequence_length"].get<int>());
    const double flops = model_flops(recorded);
    const double flops_predicted =
        step["model_flops_per_s_per_gpu"].get<double>() * step["step_time_s"].get<double>();
    const double peak = recorded["memory"]["peak_allocated_bytes"];
    const double peak_predicted =
        step["peak_memory_bytes"].get<double>() - step["memory"][0]["library_bytes"].get<double>();
    std::printf("%-26s %12.4g %12.4g %12.2f %12.2f\n", row.name, flops, flops_predicted, peak / 1e9,
                peak_predicted / 1e9);
    CHECK(flops_predicted == Approx(flops).epsilon(2e-3));
    CHECK(peak_predicted / peak == Approx(row.memory_ratio).epsilon(0.02));
  }
}

TEST_CASE("references show what frameworks do to gradients and weights", "[tools][references]") {
  constexpr double parameters = 698'372'096;  // of two layers, both tables and a norm
  const auto bytes_of = [](const json& recorded, const char* kind) {
    double bytes = 0;
    for (const json& each : recorded["collectives"])
      if (each["kind"] == kind) bytes += each["bytes"].get<double>() * each["times"].get<int>();
    return bytes;
  };
  const json ddp = json::parse(content_of(references + "ddp-llama-8b.json"));
  CHECK(bytes_of(ddp, "all-reduce") == Approx(4 * parameters).epsilon(1e-3));
  CHECK(ddp["state_bytes"].get<double>() == Approx(12 * parameters).epsilon(1e-3));
  const json fsdp = json::parse(content_of(references + "fsdp2-llama-8b.json"));
  CHECK(8 * bytes_of(fsdp, "reduce-scatter") == Approx(4 * parameters).epsilon(1e-3));
  CHECK(8 * bytes_of(fsdp, "all-gather") > 2 * parameters);  // forward, and backward again
  CHECK(fsdp["state_bytes"].get<double>() == Approx(12 * parameters).epsilon(1e-3));
}
