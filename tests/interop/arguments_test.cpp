// Tests arguments in shell scripts. They are resolved as a shell would resolve them, and never
// executed.
#include <filesystem>
#include <random>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/test_folder.h"
#include "tools/interop/formats/formats.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

Settings read(const std::string& text) { return read_arguments(text, "run.sh"); }

json value_of(const Settings& settings, const std::string& name) {
  for (const Setting& each : settings.all())
    if (each.name == name) return each.value;
  return nullptr;
}

std::string place_of(const Settings& settings, const std::string& name) {
  for (const Setting& each : settings.all())
    if (each.name == name) return each.place;
  return {};
}

std::string problem_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("arguments stand alone or in a script", "[interop]") {
  const Settings alone = read("--num-layers 2 --bf16 --lr=1e-4 --split 1 2 3 --micro_batch_size 4");
  CHECK(value_of(alone, "num-layers") == "2");
  CHECK(value_of(alone, "bf16") == true);
  CHECK(value_of(alone, "lr") == "1e-4");
  CHECK(value_of(alone, "split") == json::array({"1", "2", "3"}));
  CHECK(value_of(alone, "micro-batch-size") == "4");
  const Settings script = read(
      "#!/bin/bash\n#SBATCH --nodes=4   # hosts\nexport NCCL_DEBUG=WARN\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2\n");
  CHECK(value_of(script, "program") == "pretrain_gpt.py");
  CHECK(value_of(script, "sbatch.nodes") == "4");
  CHECK(value_of(script, "torchrun.nproc-per-node") == "8");
  CHECK(value_of(script, "env.NCCL_DEBUG") == "WARN");
  CHECK(value_of(script, "num-layers") == "2");
}

TEST_CASE("variables, arrays, defaults and arithmetic are resolved", "[interop]") {
  const Settings settings = read(
      "TP=4\nPP=\"2\"\nHOSTS=${HOSTS:-3}\nNAME=\"${NAME:-\"a b\"}\"\n: \"${CP:=2}\"\n"
      "WORLD=$((TP * $PP*${HOSTS}))\n"
      "MODEL=(\n  --num-layers 32\n  --hidden-size 64  # wide\n)\nMODEL+=(--bf16)\n"
      "TEXT=\"--seq-length 128 \\\n  --lr 1e-4\"\n"
      "torchrun pretrain_gpt.py ${MODEL[@]} \"${MODEL[@]}\" $TEXT --world $WORLD \\\n"
      "  --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} "
      "--context-parallel-size $CP --name \"$NAME\"\n");
  CHECK(value_of(settings, "num-layers") == "32");
  CHECK(value_of(settings, "hidden-size") == "64");
  CHECK(value_of(settings, "bf16") == true);
  CHECK(value_of(settings, "seq-length") == "128");
  CHECK(value_of(settings, "lr") == "1e-4");
  CHECK(value_of(settings, "world") == "24");
  CHECK(value_of(settings, "tensor-model-parallel-size") == "4");
  CHECK(value_of(settings, "pipeline-model-parallel-size") == "2");
  CHECK(value_of(settings, "context-parallel-size") == "2");
  CHECK(value_of(settings, "name") == "a b");
}

TEST_CASE("lines are counted through continuations, arrays and quotes", "[interop]") {
  const Settings settings = read(
      "# one\nA=(\n  --num-layers 2\n  --hidden-size 8\n)\nB=\"x\n\ny\"\n"
      "python pretrain_gpt.py \\\n  ${A[@]} \\\n  --lr 1 \\\n  --bf16\n");
  CHECK(place_of(settings, "num-layers") == "run.sh:3");
  CHECK(place_of(settings, "hidden-size") == "run.sh:4");
  CHECK(place_of(settings, "program") == "run.sh:9");
  CHECK(place_of(settings, "lr") == "run.sh:11");
  CHECK(place_of(settings, "bf16") == "run.sh:12");
}

TEST_CASE("conditions that the script decides choose their branch", "[interop]") {
  const std::string text =
      "KIND=fp8\nEMPTY=\"\"\nN=4\nA=()\n"
      "if [[ \"$KIND\" == \"fp8\" ]]; then\n  A+=(\"--fp8-format hybrid\")\nelse\n"
      "  A+=(--no-fp8-wgrad)\nfi\n"
      "if [ -n \"$EMPTY\" ]; then A+=(--first 1); elif [ $N -eq 4 ]; then A+=(--second 2)\n"
      "else A+=(--third 3); fi\n"
      "if [ -z \"$EMPTY\" ]; then\n  if [ \"$N\" -gt 8 ]; then\n    A+=(--inner 1)\n  fi\n"
      "  A+=(--outer 1)\nfi\n"
      "python pretrain_gpt.py ${A[@]}\n";
  const Settings settings = read(text);
  CHECK(value_of(settings, "fp8-format") == "hybrid");
  CHECK(value_of(settings, "no-fp8-wgrad") == nullptr);
  CHECK(value_of(settings, "first") == nullptr);
  CHECK(value_of(settings, "second") == "2");
  CHECK(value_of(settings, "third") == nullptr);
  CHECK(value_of(settings, "inner") == nullptr);
  CHECK(value_of(settings, "outer") == "1");
  // If only the shell knows a condition, both branches are read, and the later one counts.
  const Settings open =
      read("if [ -d /somewhere ]; then A=1; else A=2; fi\npython pretrain_gpt.py --lr $A\n");
  CHECK(value_of(open, "lr") == "2");
}

TEST_CASE("no command of a script is executed", "[interop]") {
  const TestFolder folder;
  const std::string file = folder.file("made");
  for (const std::string& text :
       {"X=$(touch " + file + ")\n", "X=`touch " + file + "`\n", "touch " + file + "\n",
        "eval \"touch " + file + "\"\n", "X=${Y:-$(touch " + file + ")}\n",
        "trap 'touch " + file + "' EXIT\n", "cat <(touch " + file + ")\n"}) {
    try {
      read(text + "python pretrain_gpt.py --num-layers $(touch " + file + ") --lr $X\n");
    } catch (const InputError&) {
    }
    CHECK(!std::filesystem::exists(file));
  }
  const Settings settings = read("python pretrain_gpt.py --num-layers $(nproc) --lr `cat lr`\n");
  CHECK(value_of(settings, "num-layers") == "$(nproc)");
  CHECK(value_of(settings, "lr") == "`cat lr`");
}

TEST_CASE("what a script leaves open is an error with its line", "[interop]") {
  CHECK(problem_of("python a.py --x 1\npython b.py --y 2\n") ==
        "run.sh:2: b.py is started a second time (first in line 1); keep one command that trains");
  CHECK(problem_of("A=1\nB='x\n") == "run.sh:2: a quote (') is not closed");
  CHECK(problem_of("\n\nB=\"x\n") == "run.sh:3: a quote (\") is not closed");
  CHECK(problem_of("A=(--x 1\n") == "run.sh:1: a '(' is not closed");
  CHECK(problem_of("\nA=${B\n") == "run.sh:2: a '{' is not closed");
  CHECK(problem_of("A=`x\n") == "run.sh:1: a quote (`) is not closed");
  CHECK(problem_of(std::string("A\0B", 3)).starts_with("run.sh: contains a null byte"));
}

TEST_CASE("no mutation of a script crashes its reader", "[interop]") {
  const std::string script =
      "#!/bin/bash\n#SBATCH --nodes=2 --x\nexport A=${A:-\"1\"}\n: \"${B:=2}\"\nC=$((A*(B+3)%7))\n"
      "D=(--x $A '--y z' \"${D[@]}\")\nD+=(--w)\nif [[ \"$A\" == 1 ]] || [ -z $B ]; then\n  "
      "E=\"`d`\"\n"
      "elif [ $A -gt 2 ]; then E=3\nelse\n  E+=4\nfi\ncat <<EOT > x\n{ $A }\nEOT\n"
      "srun torchrun --nnodes=$B -m pretrain_gpt \\\n  \"${D[@]}\" ${C} --lr=$E | tee log\n";
  constexpr std::string_view pieces[] = {
      "\"",   "'",    "`",     "$(", "${",  "((", "))", "}",  "(", ")",    "\\", "\n", "$", "if ",
      "then", "fi\n", "<<EOT", "=",  "+=(", "[[", "--", "%0", "*", "\r\n", "#",  ";",  "|", "\xff"};
  std::mt19937 random(7);
  const int tries = sanitized ? 2000 : 20000;
  int read_well = 0;
  for (int i = 0; i < tries; ++i) {
    std::string text = script;
    for (unsigned change = 0; change <= random() % 4; ++change) {
      const std::size_t at = random() % text.size();
      const std::string_view piece = pieces[random() % std::size(pieces)];
      switch (random() % 3) {
        case 0:
          text.insert(at, piece);
          break;
        case 1:
          text.erase(at, 1 + random() % 12);
          break;
        default:
          text.replace(at, 1, piece);
      }
      if (text.empty()) text = " ";
    }
    try {
      read(text);
      ++read_well;
    } catch (const InputError&) {
    }
  }
  CHECK(read_well > tries / 10);
}
