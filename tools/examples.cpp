#include "tools/examples.h"

#include <algorithm>
#include <iterator>

namespace meshwright::tools {

namespace {

struct Example {
  std::string_view command, line;
};

constexpr Example examples[] = {
    {"plan", "meshwright plan --model llama-3-8b --tokens 60B --on 8xH100 --write planned.json"},
    {"simulate", "meshwright simulate scenarios/llama-2-7b-4-p4d.json --report step.html"},
    {"train", "meshwright train scenarios/quickstart-train.json --steps 20"},
    {"launch", "meshwright launch job.json -- python train.py"},
    {"evaluate", "meshwright evaluate job.json --checkpoint checkpoints --data held_out.bin"},
    {"generate",
     "meshwright generate job.json --checkpoint checkpoints --prompt \"Once upon\" --temperature "
     "0.8"},
    {"scale", "meshwright scale scenarios/bert-large-4-p3dn.json"},
    {"advise",
     "meshwright advise --model llama:3B --tokens 60B --budget 15k --by \"2 weeks\" --on aws"},
    {"sensitivity", "meshwright sensitivity scenarios/bert-large-4-p3dn.json"},
    {"explain", "meshwright explain scenarios/llama-2-7b-4-p4d.json --set parallelism.tensor=4"},
    {"share", "meshwright share jobs.json"},
    {"validate", "meshwright validate scenarios/evidence/torchtune_a100.json"},
    {"calibrate", "meshwright calibrate --quick"},
    {"fit", "meshwright fit --runs measured.json --output cluster.json"},
    {"compile", "meshwright compile scenarios/gpt2-local.json"},
    {"import", "meshwright import job.json --from scenarios/interop/llama-3-8b.sh"},
    {"export", "meshwright export planned.json --for torchtitan --to run"},
    {"capture", "meshwright capture train.py:make --output own.model.json"},
    {"tokenize", "meshwright tokenize text.txt --tokenizer tokenizer.json --output tokens.bin"},
    {"import-weights", "meshwright import-weights job.json --from model"},
    {"export-weights", "meshwright export-weights job.json --to weights"},
    {"rehearse", "meshwright rehearse --on p5.48xlarge -- torchrun --nproc-per-node 8 train.py"},
    {"list", "meshwright list machines"},
    {"serve", "meshwright serve --port 8080"},
    {"mcp", "meshwright mcp"},
    {"schema", "meshwright schema job"},
    {"completion", "meshwright completion bash"},
    {"manual", "meshwright manual man"}};

}  // namespace

std::string_view example_of(std::string_view name) {
  const auto found = std::ranges::find(examples, name, &Example::command);
  return found == std::end(examples) ? "" : found->line;
}

}  // namespace meshwright::tools
