// Tests the models of Qwen3 and DeepSeek in the settings of Megatron-LM and of frameworks that are
// built on it.
#include "models/architectures/huggingface_config.h"
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::vector<std::string> cluster = {"cluster.machine=p4d.24xlarge", "cluster.count=4"};
const std::string blocks =
    "--bf16 --micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --lr 1e-4 --swiglu "
    "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --qk-layernorm ";

json model_of(const std::string& words) {
  return import_texts({{"run.sh", blocks + words}}, cluster, Framework::megatron_lm).job["model"];
}

std::string refusal(const std::string& words) {
  return message_of([&] { model_of(words); });
}

const std::string small =
                      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 99 ",
                  latent = "--multi-latent-attention --num-experts 16 --moe-ffn-hidden-size 24 ";

}  // namespace

TEST_CASE("Megatron-LM's settings of DeepSeek-V3 are its model", "[interop]") {
  const json made = model_of(
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--kv-channels 128 --max-position-embeddings 163840 --norm-epsilon 1e-6 --vocab-size 129280 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 "
      "--qk-pos-emb-head-dim 64 --v-head-dim 128 --rotary-scaling-factor 40 --mscale 1.0 "
      "--mscale-all-dim 1.0 --num-experts 256 --moe-layer-freq '([0]*3+[1]*58)' "
      "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 "
      "--moe-router-num-groups 8 --moe-router-group-topk 4 --moe-router-topk-scaling-factor 2.5 "
      "--moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-router-pre-softmax --moe-expert-capacity-factor 1.25");
  Model model = read_huggingface(Fields(made, "made")), expected = load_model("deepseek-v3", ".");
  model.name = expected.name;
  CHECK(huggingface_config(model).dump(1) == huggingface_config(expected).dump(1));
  CHECK((model == expected));
}

TEST_CASE("newer models come back from Megatron-LM and Megatron-Bridge", "[interop]") {
  for (const char* name : {"qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3"})
    for (const Framework framework : {Framework::megatron_lm, Framework::megatron_bridge}) {
      INFO(name << " " << name_of(framework));
      const json job = {{"model", name},
                        {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 4}}},
                        {"training",
                         {{"global_batch", 64},
                          {"micro_batch", 1},
                          {"sequence_length", 4096},
                          {"precision", "bf16"}}}};
      const bool bridge = framework == Framework::megatron_bridge;
      const std::string file = bridge ? "overrides.yaml" : "arguments.txt";
      const std::string text = exported_text(job, framework, 4, file);
      const json back = import_texts({{file, text}}, cluster, framework).job["model"];
      Model model = read_huggingface(Fields(back, "back")), expected = load_model(name, ".");
      model.name = expected.name;
      if (bridge) model.positions = expected.positions;  // which it has not
      CHECK(huggingface_config(model).dump(1) == huggingface_config(expected).dump(1));
      CHECK((model == expected));
    }
}

TEST_CASE("layers without experts are a pattern of Megatron-LM's", "[interop]") {
  const auto dense = [](const std::string& pattern) {
    return model_of(small + "--num-experts 4 --moe-layer-freq " + pattern)["mlp_only_layers"];
  };
  CHECK(dense("1") == json::array());
  CHECK(dense("2") == json{1, 3});
  CHECK(dense("[1,0,1,1]") == json{1});
  CHECK(dense("'([0]*2 + [1]*2)'") == json{0, 1});
  CHECK(dense("'([0] + [1])*2'") == json{0, 2});
  for (const char* wrong : {"0", "-1", "1.5", "[1,1]", "[1,1,1,2]", "'[1]*4*'", "'[1]*99999999999'",
                            "'(((((((((((((((((([1]*4'", "x"})
    CHECK(refusal(small + "--num-experts 4 --moe-layer-freq " + wrong)
              .find("is neither a number n, so that every n-th layer has experts, nor a list of 0 "
                    "and 1 for 4 layers") != std::string::npos);
}

TEST_CASE("all of Mixtral's layers have experts, however that is said", "[interop]") {
  const auto model = [](const std::string& pattern) {
    std::string text = blocks + small + "--num-experts 4 --moe-layer-freq " + pattern;
    text.erase(text.find("--qk-layernorm"), std::string("--qk-layernorm").size());
    return import_texts({{"run.sh", text}}, cluster, Framework::megatron_lm).job["model"];
  };
  for (const char* all : {"1", "[1,1,1,1]", "'([1]*4)'"})
    CHECK(model(all)["model_type"] == "mixtral");
  CHECK(message_of([&] { model("2"); })
            .ends_with("--moe-layer-freq: layers without experts are built with --qk-layernorm or "
                       "latent attention only"));
}

TEST_CASE("blocks of Megatron-LM's that are not built are refused by their setting", "[interop]") {
  const auto ends = [](const std::string& words, const std::string& message) {
    CHECK(refusal(words).ends_with(message));
  };
  ends(small + "--multi-latent-attention",
       "--multi-latent-attention: is built in models with experts (DeepSeek's) only");
  ends(small + latent,
       "--moe-router-score-function: 'softmax' of the chosen experts alone is not built with "
       "latent attention; give --moe-router-pre-softmax, or sigmoid");
  ends(small + latent + "--moe-router-score-function sigmoid --moe-layer-freq 2",
       "--moe-layer-freq: with latent attention, layers without experts must come first");
  ends(small + latent +
           "--moe-router-score-function sigmoid --moe-shared-expert-intermediate-size 25",
       "--moe-shared-expert-intermediate-size: 25 is no multiple of 24, the width of an expert; "
       "shared experts are whole ones");
  ends(small + "--num-experts 4 --moe-shared-expert-intermediate-size 24",
       "--moe-shared-expert-intermediate-size: shared experts are built with latent attention "
       "only");
  ends(small + "--num-experts 4 --moe-router-score-function sigmoid",
       "--moe-router-score-function: sigmoid scores are built with latent attention only");
}
