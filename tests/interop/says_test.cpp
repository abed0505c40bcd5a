// Tests the messages and notes of every framework's reader, word for word, with the tables of
// `says/`. A block of a table is a file of settings (lines that begin with `|`), values for --set,
// and then each line that the import must print. A block without such a line must be accepted
// without a message.
#include <sstream>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/settings_files.h"
#include "tests/models/job_lookup.h"
#include "tools/interop/export.h"

using namespace meshwright::tests;

namespace {

struct Block {
  std::string file, text;
  std::vector<std::string> set;
  std::string said;
};

std::vector<Block> blocks_of(const std::string& table) {
  std::vector<Block> blocks;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("file: "))
      blocks.push_back({line.substr(6), "", {}, ""});
    else if (line.starts_with("set: "))
      blocks.back().set.push_back(line.substr(5));
    else if (line.starts_with("|"))
      blocks.back().text += line.substr(std::min<std::size_t>(2, line.size())) + "\n";
    else if (!line.empty())
      blocks.back().said += line + "\n";
  }
  return blocks;
}

std::string said_of(const Block& block, std::optional<Framework> framework) {
  const TestFolder folder;
  const std::string file = folder.file(block.file, block.text);
  std::string said;
  try {
    const Imported imported = import_settings(
        {file}, {.format = framework, .overrides = block.set, .allow_unknown = false},
        machine_facts);
    for (const std::string& remark : imported.remarks) said += "note: " + remark + "\n";
  } catch (const InputError& error) {
    said = std::string("error: ") + error.what() + "\n";
  }
  for (std::size_t at = said.find(file); at != std::string::npos; at = said.find(file, at))
    said.replace(at, file.size(), "{file}");
  return said;
}

}  // namespace

TEST_CASE("readers of settings say what their tables hold, word for word", "[interop]") {
  int blocks = 0;
  const std::string folder = MESHWRIGHT_SOURCE_DIR "/tests/interop/says";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    for (const Block& block : blocks_of(content_of(entry.path()))) {
      INFO(name << ": " << block.file << "\n" << block.text);
      CHECK(said_of(block, name == "any" ? std::nullopt : std::optional(framework_of(name))) ==
            block.said);
      ++blocks;
    }
  }
  CHECK(blocks >= 150);
}

TEST_CASE("what a framework has no way to run is refused in words", "[interop]") {
  const nlohmann::json job = {{"model", "llama-2-7b"},
                              {"cluster", {{"machine", "p4d.24xlarge"}}},
                              {"parallelism", {{"pipeline", 1}}},
                              {"training",
                               {{"global_batch", 16},
                                {"micro_batch", 1},
                                {"sequence_length", 1024},
                                {"precision", "bf16"}}}};
  const auto said = [&](const char* framework, const char* pointer, const nlohmann::json& value) {
    nlohmann::json changed = job;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    changed["training"]["sequence_length"] = changed["model"] == "bert-large" ? 512 : 1024;
    try {
      const Job read = read_job(changed, "job.json", ".", lookup_for_tests);
      const Plan plan = settle(read, 8, lookup_for_tests("p4d.24xlarge"));
      export_plan(read, plan, "p4d.24xlarge", 1, 8, framework_of(framework), {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string none = "; no plan of this model can be run there";
  const std::string of_megatron =
      " has the blocks of GPT-2 with the tanh form of GELU, GPT-NeoX's with the erf form and one "
      "branch after the other, and those of Llama, Mixtral, Qwen3 and DeepSeek";
  const std::string of_trainer = " trains causal language models of transformers without experts";
  for (const auto& [framework, why] :
       {std::pair{"megatron-lm", of_megatron},
        {"megatron-bridge", of_megatron},
        {"torchtitan", " has Llama models without biases and with a head of its own"},
        {"deepspeed", of_trainer},
        {"accelerate", of_trainer},
        {"sagemaker", " builds language models from a config.json of transformers"},
        {"hyperpod", " has recipes for Llama and Mixtral"}})
    CHECK(said(framework, "/model", "bert-large") ==
          std::string("job.json: /model: ") + framework + why + none);
  // The message names the nearest plan that the framework can run.
  CHECK(
      said("deepspeed", "/parallelism/pipeline", 2) ==
      "job.json: /parallelism/pipeline: 2: deepspeed has stages in a model's own code only; 1; the "
      "nearest plan that it can run has training.compiler \"full\", parallelism.pipeline 1, "
      "parallelism.data 8 and parallelism.partition \"even\"");
}
