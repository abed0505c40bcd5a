// Tests jobs that are written on the command line, without a file. Models, machines and numbers are
// read as people write them, or refused with a line that says how to go on.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/program.h"

using nlohmann::json;

TEST_CASE("a plan needs no job file", "[tools][worded]") {
  const TestFolder folder;
  const std::string words =
      "plan --model openai-community/gpt2 --tokens 1B --on '4xV100-16GB' --length 512 --batch 32";
  const json answer = answer_of(words + " --write " + folder.file("kept.json"));
  const json& best = answer["plans"][0];
  CHECK(best["cluster"]["machine"] == "p3.8xlarge");
  CHECK(best["cluster"]["count"] == 1);
  CHECK(best["gpus"] == 4);
  CHECK(best["training"]["global_batch"] == 32);
  CHECK(best["training"]["sequence_length"] == 512);
  CHECK(best["total_tokens"].get<double>() == Approx(1e9));
  const json kept = json::parse(content_of(folder.file("kept.json")));
  CHECK(kept["model"] == "openai-community/gpt2");
  CHECK(kept["objective"]["tokens"] == 1e9);
  CHECK(answer_of("simulate " + folder.file("kept.json"))["step_time_s"] == best["step_time_s"]);
}

TEST_CASE("a job without batch and length gets usual ones, and says which", "[tools][worded]") {
  const TestFolder folder;
  const std::string said = folder.file("said");
  const auto notes_of = [&](const std::string& arguments) {
    CHECK(run("simulate " + arguments, said).code == 0);
    return content_of(said);
  };
  // For 124.4 M parameters and 10 B tokens, 6 N D is 7.46e18 FLOPs. The law 0.2920 *
  // (7.46e18)^0.3271 gives 435 k tokens, which are 425 sequences of 1024. The nearest power of two
  // is 512.
  const std::string pretrained = notes_of("--model gpt2 --tokens 10B --on p3.2xlarge");
  CHECK(pretrained.find("sequences of 1024 tokens, the model's length") != std::string::npos);
  CHECK(pretrained.find("a batch of 512 sequences, near the") != std::string::npos);
  CHECK(pretrained.find("the scaling law names for 10.00 B tokens of 124.4 M parameters") !=
        std::string::npos);
  const std::string tuned = notes_of("--model gpt2 --task lora --on p3.2xlarge");
  CHECK(tuned.find("a batch of 64 sequences, a usual one of lora; no law names it") !=
        std::string::npos);
  // A job file without batch and length gets them too.
  const std::string job = folder.file(
      "job.json", R"({"model": "gpt2", "training": {}, "cluster": {"machine": "p3.2xlarge"},
                      "objective": {"tokens": "10B"}})");
  CHECK(notes_of(job).find("a batch of 512 sequences") != std::string::npos);
  CHECK(run("train " + job).code == 2);  // what is trained is said by the job
}

TEST_CASE("words replace keys of a job file", "[tools][worded]") {
  const json best = answer_of("plan " + jobs +
                              "searched.json --on P3.2XLARGE --count 1 --batch 16 --length 256 "
                              "--tokens 1M --top 1")["plans"][0];
  CHECK(best["cluster"]["machine"] == "p3.2xlarge");
  CHECK(best["training"]["global_batch"] == 16);
  CHECK(best["training"]["sequence_length"] == 256);
  CHECK(best["total_tokens"].get<double>() == Approx(1e6).epsilon(0.01));
}

TEST_CASE("adapters and all weights are tasks", "[tools][worded]") {
  const auto trained = [](const std::string& task) {
    return answer_of("plan --model llama-3.2-1b --task " + task +
                     " --tokens 1M --on 1xA100-40GB --top 1")["plans"][0]["training"];
  };
  const json lora = trained("lora"), full = trained("finetune"), narrow = trained("qlora");
  CHECK(narrow["lora"]["base_weights"] == "nf4");
  CHECK(lora["lora"]["rank"] == 16);
  CHECK(lora["learning_rate"] == 2e-4);
  CHECK(lora["sequence_length"] == 4096);
  CHECK_FALSE(full.contains("lora"));
  CHECK(full["learning_rate"] == 1e-5);
  CHECK(full["global_batch"] == 64);
}

TEST_CASE("sixty ways to say it are read, or answered with a way to go on", "[tools][worded]") {
  const std::string model = "--model gpt2 ", on = " --on p3.2xlarge ";
  const std::vector<std::string> read = {model + on,
                                         "--model GPT2" + on,
                                         "--model openai-community/gpt2" + on,
                                         "--model gpt2-medium" + on,
                                         "--model llama:150M" + on,
                                         "--model 'llama:150 million'" + on,
                                         "--model gpt:0.1B" + on,
                                         "--model meta-llama/Llama-3.2-1B-Instruct --on 8xH100",
                                         "--model llama-3.2-1B --on 'H100 x 8'",
                                         model + "--on P3.2XLARGE",
                                         model + "--on ml.p3.2xlarge",
                                         model + "--on 'p3 2xlarge'",
                                         model + "--on '1xV100'",
                                         model + "--on '1 V100-16GB'",
                                         model + "--on '8xA100'",
                                         model + "--on '8 x A100-80GB'",
                                         model + "--on 'A100 80GB x 8'",
                                         model + "--on a100:8",
                                         model + "--on 'DGX A100 40 GB'",
                                         model + "--on '2 dgx-a100-80gb'",
                                         model + "--on 'DGX H100'",
                                         model + "--on '1xT4'",
                                         model + "--on '4 L4'",
                                         model + on + "--count 1",
                                         model + on + "--tokens 1B",
                                         model + on + "--tokens 1e9",
                                         model + on + "--tokens '1 billion'",
                                         model + on + "--tokens 1,000,000,000",
                                         model + on + "--tokens '20M tokens'",
                                         model + on + "--tokens 0.5T",
                                         model + on + "--batch 64",
                                         model + on + "--batch 1k",
                                         model + on + "--length 512",
                                         model + on + "--length 1k",
                                         model + on + "--set objective.tokens=1B",
                                         model + on + "--set objective.budget_usd=15k",
                                         model + on + "--set 'objective.budget_usd=$15,000'",
                                         model + on + "--set 'objective.deadline_s=2 weeks'",
                                         model + on + "--set training.dropout=10%",
                                         model + on + "--set training.steps=2k",
                                         model + on + "--set training.sequence_length=1k",
                                         model + on + "--task finetune",
                                         model + on + "--task lora",
                                         model + on + "--task QLoRA",
                                         model + on + "--task fine-tuning",
                                         model + on + "--task SFT",
                                         "--model gpt-2" + on,
                                         "--model gpt2-small" + on,
                                         "--model hf://openai-community/gpt2" + on,
                                         "--model gpt2:latest" + on,
                                         "--model LLAMA:150M" + on,
                                         "--model Llama-3.2-1B-Instruct-Q4_K_M.gguf --on 8xH100",
                                         "--model llama3.2:1b --on '2 nodes of 8 H100'",
                                         model + "--on '8 NVIDIA A100 GPUs'",
                                         model + "--on 'A100 80G x 8'",
                                         model + "--on '2x8xA100'",
                                         model + "--on 'four p3.2xlarge'",
                                         model + "--on '4x ml.p3.2xlarge'",
                                         model + "--on 'aws p3.2xlarge'",
                                         model + "--on 'p3.2xlarge or p3.8xlarge'",
                                         model + on + "--count one",
                                         model + on + "--tokens '15 000 000'",
                                         model + on + "--tokens 10^9",
                                         model + on + "--tokens 'sixty billion'",
                                         model + on + "--batch '64k tokens' --length 1k",
                                         model + on + "--steps 1k",
                                         model + on + "--set 'training.steps = 2k'",
                                         model + on + "--set training.micro_batch='\"4\"'",
                                         model + "--set cluster.machine=p3.2xlarge"};
  const std::vector<std::pair<std::string, std::string>> answered = {
      {model, "--on names the machine, such as --on p5.48xlarge, --on 8xH100 or --on aws"},
      {"--on p3.2xlarge", "expected a job file, or --model with the model"},
      {"--model gpt5" + on, "unknown model 'gpt5'; did you mean 'gpt2'?"},
      {"--model bert:3B" + on, "there is no usual shape of 'bert' here; use llama or gpt"},
      {"--model llama:big" + on, "expected a number of parameters such as 3B or 350M"},
      {model + "--on p9.48xlarge", "did you mean"},
      {model + "--on 8xP100", "no known machine has 'P100'; GPUs that are known: A100"},
      {model + "--on a3-highgpu-8g", "the nearest machine is p5.48xlarge"},
      {model + "--on ND96isr_H100_v5", "the nearest machine is p5.48xlarge"},
      {model + "--on Standard_ND96amsr_A100_v4", "the nearest machine is p4de.24xlarge"},
      {model + "--on 8xH100 --count 2", "says how many hosts, and so does the count"},
      {model + on + "--tokens many", "expected a number such as 60e9, 60B or 20M, found 'many'"},
      {model + on + "--length long", "expected a number of tokens, such as 4096 or 128k"},
      {model + on + "--batch 1.5", "training/global_batch"},
      {model + on + "--task dance", "unknown task 'dance'; known: pretrain,"},
      {model + on + "--set objective.budget_usd=cheap", "expected dollars above 0"},
      {model + on + "--set objective.deadline_s=soon", "expected a duration such as 30d"},
      {model + "--on 0xH100", "counts 0; use a whole number"},
      {model + "--on 4090", "no known machine has '4090'"},
      {model + "--on 8xMI300X", "is a GPU of AMD"},
      {model + "--on gcp", "machines of Google Cloud have no profile here; name the GPUs"},
      {model + "--on '8 GPUs'", "does not say which GPU"},
      {"--model llama3" + on, "did you mean 'llama-3-405b', 'llama-3-70b', 'llama-3-8b'"},
      {"--model 7b" + on, "llama:7b is a usual shape of that size"},
      {"--model llama:7" + on, "did you mean 7B?"},
      {model + on + "--tokens 1,5B", "decimals have a point"},
      {model + on + "--tokens ''", "--tokens is empty"},
      {model + on + "--batch 4M", "write '4M tokens'"},
      {model + on + "--tp 8", "did you mean '--set parallelism.tensor=...'?"},
      {model + on + "--seq-len 8k", "did you mean '--length'?"},
      {model + on + "--set objective.budget_usd=15.000", "write 15 or 15000"},
      {model + on + "--set parallelism=tp8", "write {\"tensor\":8}"},
      {jobs + "searched.json --task lora", "goes with --model"},
      {model + on + "--tokens", "--tokens needs a value"}};
  CHECK(read.size() + answered.size() >= 60);
  const TestFolder folder;
  const std::string said = folder.file("said");
  for (const std::string& each : read) {
    const int code = run("simulate " + each, said).code;
    CAPTURE(each, content_of(said));
    CHECK(code == 0);
  }
  for (const auto& [each, answer] : answered) {
    const Answer found = run("simulate " + each, said);
    CAPTURE(each, content_of(said));
    CHECK(found.code == 2);
    CHECK(found.out.empty());
    CHECK(content_of(said).find(answer) != std::string::npos);
  }
}

TEST_CASE("sixty more ways to say it are read, or answered with a way to go on",
          "[tools][worded]") {
  const TestFolder folder;
  const std::string said = folder.file("said");
  const auto is_read = [&](const std::string& line) {
    const int code = run(line, said).code;
    CAPTURE(line, content_of(said));
    CHECK(code == 0);
  };
  const auto is_answered = [&](const std::string& line, const std::string& answer) {
    const Answer found = run(line, said);
    CAPTURE(line, content_of(said));
    CHECK(found.code == 2);
    CHECK(found.out.empty());
    CHECK(content_of(said).find(answer) != std::string::npos);
  };
  const std::string gpt2 = "--model gpt2 --on p3.2xlarge ";
  for (const char* model :
       {"models--openai-community--gpt2", "https://huggingface.co/openai-community/gpt2/tree/main",
        "https://huggingface.co/gpt2/blob/main/config.json", "openai-community/gpt2/", "./gpt2",
        "openai-community/gpt2@main", R"({"family": "gpt", "parameters": "150M"})", "bert large",
        "Llama 3.2 1B", "meta-llama/Meta-Llama-3.1-8B/", "GPT-J 6B", "qwen2.5:7B", "gemma2 9b",
        "mixtral 8x7b", "Qwen/Qwen2.5-72B-Instruct-AWQ"})
    is_read(std::string("simulate --on 8xH100 --model '") + model + "'");
  for (const char* machine :
       {"A100-40GB-SXM4", "a100 80gb sxm", "V100 32GB SXM2", "nvidia-h100-80gb-hbm3", "8 h100 sxm",
        "8×H100", "h100*8", "p5.48xl", "p4d.24xlarge (2)", "ml.p4d.24xlarge x 2", "eight H100s",
        "p4d and p5", "V100 32G", "4xL40S"})
    is_read(std::string("simulate --model gpt2 --on '") + machine + "'");
  for (const char* tokens : {"60Bn", "60 000 000 000", "6×10^10", "~60B", "60_000_000_000", "60G"})
    is_read("simulate " + gpt2 + "--tokens '" + tokens + "'");
  for (const char* by :
       {"3 wks", "a weekend", "1w 2d", "half a day", "within a week", "two months"})
    is_read("plan " + gpt2 + "--tokens 10M --by '" + by + "'");
  for (const char* budget : {"USD 15k", "15 grand", "15,000.00", "< $15k", "15K dollars"})
    is_read("plan " + gpt2 + "--tokens 10M --budget '" + budget + "'");

  for (const auto& [set, answer] : std::initializer_list<std::pair<const char*, const char*>>{
           {"training.precision=16", "known: fp32, tf32, fp16, bf16"},
           {"training.precision=true", "known: fp32, tf32, fp16, bf16"},
           {"training.recompute=true", "known: none, selective, full"},
           {"parallelism.schedule=true", "known: gpipe, 1f1b"},
           {"objective.minimize=1", "known: step_time, usd"},
           {"objective.price=on-demand", "did you mean 'on_demand'?"},
           {"objective.region=mars-1", "is known for these machines, only in us-east-1"},
           {"parallelism.zero_stage=ZeRO-3", "write 3"},
           {"parallelism.zero_stage=stage 2", "write 2"},
           {"parallelism.tensor=2x", "write 2"},
           {"parallelism.pipeline=all", "write \"auto\""},
           {"training.micro_batch=max", "write \"auto\""},
           {"parallelism.fsdp=full_shard", "did you mean 'zero_stage'?"},
           {"training.batch_size=64", "did you mean 'global_batch' or 'micro_batch'?"},
           {"training.learning_rate=0,0003", "decimals have a point"}})
    is_answered("simulate " + gpt2 + "--set '" + set + "'", answer);
  for (const auto& [by, answer] : std::initializer_list<std::pair<const char*, const char*>>{
           {"P2DT3H", "write 2d 3h for P2DT3H"},
           {"1:30:00", "write 12h 30min"},
           {"2026-02-30", "there is no day '2026-02-30'"}})
    is_answered("plan " + gpt2 + "--tokens 10M --by '" + by + "'", answer);
  is_answered("plan " + gpt2 + "--budget '15k-20k'", "give one number, not a range");
  is_answered("plan " + gpt2 + "--budget '¥100000'", "prices here are in US dollars");
  is_answered("simulate --model '{family: llama, parameters: 3B}' --on 8xH100",
              "llama:3b is a usual shape of that size");
}
