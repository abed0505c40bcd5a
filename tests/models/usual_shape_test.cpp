// Tests models of which only the family and the number of parameters are given, and names of models
// on the Hugging Face Hub.
#include "models/architectures/usual_shape.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/architectures/hub_names.h"
#include "models/architectures/model.h"
#include "models/program/graph/graph.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Model model_of(const std::string& family, const json& parameters) {
  return read_model(Fields(json{{"family", family}, {"parameters", parameters}}, "job"));
}

double count_of(const Model& model) {
  Training training;
  training.sequence_length = 128;
  training.global_batch = training.micro_batch = 1;
  return static_cast<double>(parameter_count(build_graph(model, training)));
}

}  // namespace

TEST_CASE("a usual shape has the parameters that were asked for", "[models][usual_shape]") {
  const std::pair<const char*, double> asked[] = {
      {"125M", 125e6}, {"350M", 350e6}, {"1.3B", 1.3e9}, {"3B", 3e9},    {"7B", 7e9},
      {"13B", 13e9},   {"34B", 34e9},   {"70B", 70e9},   {"175B", 175e9}};
  for (const char* family : {"llama", "gpt"})
    for (const auto& [text, parameters] : asked) {
      CAPTURE(family, text);
      const Model model = model_of(family, text);
      CHECK(count_of(model) == Approx(parameters).epsilon(0.05));
      CHECK(model.hidden % model.heads == 0);
      CHECK(model.heads % model.kv_heads == 0);
      const double aspect = static_cast<double>(model.hidden) / model.layers;
      CHECK(aspect > 50);
      CHECK(aspect < 260);
      if (parameters >= 3e9) CHECK(model.heads % 8 == 0);  // for tensor parallelism
    }
  CHECK(model_of("llama", 3e9) == model_of("llama", "3B"));
  CHECK(model_of("llama", "3 billion") == model_of("llama", "3B"));
  CHECK(model_of_words("llama:3B") == json({{"family", "llama"}, {"parameters", "3B"}}));
  CHECK_FALSE(model_of_words("llama-2-7b"));
}

TEST_CASE("a usual shape says what it lacks", "[models][usual_shape]") {
  const auto refused = [](const json& model) {
    return message_of([&] { read_model(Fields(model, "job")); });
  };
  CHECK(refused({{"family", "bert"}, {"parameters", "3B"}})
            .starts_with("job: /family: there is no usual shape of 'bert' here; use llama or gpt"));
  CHECK(refused({{"family", "llama"}, {"parameters", "big"}}) ==
        "job: /parameters: expected a number of parameters such as 3B or 350M, found 'big'");
  CHECK(refused({{"family", "llama"}, {"parameters", 3}}) ==
        "job: /parameters: is out of range; use 10M to 2T; did you mean 3B?");
  CHECK(refused({{"family", "llama"}, {"parameters", "largest"}}) ==
        "job: /parameters: the largest model is found by `plan` and `advise`, with --by or "
        "--budget");
  CHECK(refused({{"family", "llama"}, {"parameters", "3B"}, {"layers", 3}})
            .starts_with("job: /layers: given beside `parameters`"));
}

TEST_CASE("names of the hub are models of the zoo", "[models][usual_shape]") {
  for (const auto& [hub, zoo] :
       {std::pair{"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
        std::pair{"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
        std::pair{"meta-llama/Meta-Llama-3-70B", "llama-3-70b"},
        std::pair{"openai-community/gpt2-xl", "gpt2-xl"}, std::pair{"Llama-2-7b-hf", "llama-2-7b"},
        std::pair{"GPT2", "gpt2"}, std::pair{"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"}}) {
    CAPTURE(hub);
    CHECK(zoo_name_of(hub) == zoo);
    CHECK(load_model(hub, "").hidden == load_model(zoo, "").hidden);
  }
  CHECK(zoo_name_of("nobody/knows-this").empty());
  for (const auto& [written, zoo] :
       {std::pair{"gpt-2-xl", "gpt2-xl"}, std::pair{"Llama3 8B", "llama-3-8b"},
        std::pair{"Qwen 2.5 7B Instruct", "qwen2.5-7b"}, std::pair{"qwen2-5-7b", "qwen2.5-7b"}}) {
    CAPTURE(written);
    CHECK(zoo_name_of(written) == zoo);
  }
  for (const char* other : {"qwen2-57b", "opt-27b", "llama-2.7b", "llama-27b", "gemma-22b"}) {
    CAPTURE(other);
    CHECK(zoo_name_of(other).empty());
  }
  // A size of a family that the zoo does not have is not mistaken for another size.
  CHECK(zoo_name_of("bigcode/starcoderbase") == "starcoder");
  CHECK(zoo_name_of("bigcode/starcoderbase-1b").empty());
  CHECK(zoo_name_of("HuggingFaceH4/zephyr-7b-beta") == "mistral-7b-v0.1");
  CHECK(zoo_name_of("HuggingFaceH4/zephyr-7b-gemma-v0.1").empty());
}

TEST_CASE("models are found as other tools write their names", "[models][usual_shape]") {
  for (const auto& [written, zoo] :
       {std::pair{"https://huggingface.co/openai-community/gpt2", "gpt2"},
        std::pair{"hf://meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
        std::pair{"meta-llama/Llama-3.1-8B@main", "llama-3.1-8b"},
        std::pair{"meta-llama/Llama-3.1-8B ", "llama-3.1-8b"},
        std::pair{"llama3.1:8b", "llama-3.1-8b"}, std::pair{"llama3:8b", "llama-3-8b"},
        std::pair{"llama-3-8b:latest", "llama-3-8b"}, std::pair{"qwen2.5:7b", "qwen2.5-7b"},
        std::pair{"TheBloke/Llama-2-7B-Chat-GPTQ", "llama-2-7b"},
        std::pair{"TheBloke/Llama-2-7B-GGUF", "llama-2-7b"},
        std::pair{"Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b"},
        std::pair{"hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b"},
        std::pair{"unsloth/Llama-3.2-1B-bnb-4bit", "llama-3.2-1b"},
        std::pair{"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
        std::pair{"DeepSeek-V3-0324", "deepseek-v3"}, std::pair{"gpt2-small", "gpt2"}}) {
    CAPTURE(written);
    CHECK(zoo_name_of(written) == zoo);
    CHECK_FALSE(model_of_words(written));
  }
  for (const char* other : {"deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-R1-Distill-X"})
    CHECK(zoo_name_of(other).empty());
  CHECK(model_of_words("LLAMA: 3B"));
  CHECK(with_usual_shape(
            Fields(json{{"family", "Llama"}, {"parameters", "3B"}}, "job"))["family"] == "llama");
  CHECK(note_on_name("gpt2").empty());
  CHECK(note_on_name("meta-llama/Meta-Llama-3-8B-Instruct").empty());
  CHECK(note_on_name("lmsys/vicuna-7b-v1.5") ==
        "'lmsys/vicuna-7b-v1.5' has the shape of llama-2-7b");
  CHECK(
      note_on_name("TheBloke/Llama-2-7B-GGUF")
          .starts_with("'TheBloke/Llama-2-7B-GGUF' means llama-2-7b; its weights are trained in "));
}

TEST_CASE("an unknown model is answered with names that are near", "[models][usual_shape]") {
  const std::pair<const char*, const char*> rows[] = {
      {"llama3", "did you mean 'llama-3-405b', 'llama-3-70b', 'llama-3-8b'"},
      {"gpt3", "did you mean 'gpt3-175b'?"},
      {"phi3-mini", "did you mean 'phi-3-mini-4k-instruct'?"},
      {"gpt-j", "did you mean 'gpt-j-6b'?"},
      {"llama31-8b", "did you mean 'llama-3.1-8b'?"},
      {"bert-large-uncased", "did you mean 'bert-large'?"},
      {"mixtral", "did you mean 'mixtral-8x22b' or 'mixtral-8x7b'?"},
      {"meta-llama/Llama-9-8B", "unknown model 'meta-llama/Llama-9-8B'; did you mean"},
      {"7b", "; llama:7b is a usual shape of that size; "},
      {"a 7B model", "llama:7b is a usual shape of that size"},
      {"70b-llama", "llama:70b is a usual shape of that size"},
      {"model.safetensors", "a file of weights does not describe the model; name the config.json"},
      {"gpt2-xll", "did you mean 'gpt2-xl'? `meshwright list models` names those that are known"}};
  for (const auto& [written, expected] : rows) {
    const std::string message = message_of([&] { load_model(written, ""); });
    CAPTURE(written, message);
    CHECK(message.find(expected) != std::string::npos);
  }
}
