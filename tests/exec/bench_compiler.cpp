// Prints the time of a training step at each compiler level, and the memory of its activations. The
// levels run in turn, so that other load of the computer meets all of them. A turn begins with a
// step that is not timed. It is not a test.
//   bench_compiler [MODEL] [MICRO_BATCH] [SEQUENCE] [THREADS] [ROUNDS] [ATTENTION] [PASS...]
// MODEL is gpt2, or llama with the same sizes. ATTENTION is unfused or flash. The default is that
// of a job that does not set it: unfused at level none, otherwise flash. Each PASS adds a row for
// level `full` without that pass.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/runtime/runtime.h"
#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

double wall_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Model model_of(const std::string& name) {
  if (name == "gpt2") return load_model("gpt2", "/");
  const auto sizes = nlohmann::json::parse(
      R"({"family": "llama", "hidden": 768, "layers": 12, "heads": 12, "ffn": 2048,
          "vocab": 32000, "positions": 1024})");
  return read_model(Fields(sizes, "bench_compiler"));
}

struct Level {
  Level(const Model& model, const Plan& chosen, World& world, int threads)
      : plan(chosen),
        stages(lower_small(model, plan)),
        backend(make_cpu_backend(threads)),
        runtime(stages, world, *backend, {threads, model.layers, false}) {}

  void step(int number, Loader& loader) {
    const double wall = wall_seconds();
    const std::clock_t cpu = std::clock();
    runtime.step(number, (number - 1) * plan.training.global_batch, loader);
    cpu_s.push_back(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    wall_s.push_back(wall_seconds() - wall);
  }
  double activation_bytes() const {
    const auto& bytes = stages.front().memory.class_bytes;
    return static_cast<double>(bytes[static_cast<std::size_t>(MemoryClass::activations)] +
                               bytes[static_cast<std::size_t>(MemoryClass::workspace)]);
  }

  Plan plan;
  std::vector<Program> stages;
  std::unique_ptr<Backend> backend;
  Runtime runtime;
  std::vector<double> cpu_s, wall_s;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int argument(int argc, char* argv[], int index, int otherwise) {
  return argc > index ? std::max(1, std::atoi(argv[index])) : otherwise;
}

}  // namespace

int main(int argc, char* argv[]) {
  const std::string name = argc > 1 ? argv[1] : "gpt2";
  const int micro_batch = argument(argc, argv, 2, 4), sequence = argument(argc, argv, 3, 256);
  const int threads = argument(argc, argv, 4, 1), rounds = argument(argc, argv, 5, 3);
  const std::string attention = argc > 6 ? argv[6] : "default";
  const Model model = model_of(name);
  Plan plan = small_plan(model, {.micro_batches = 1});
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = micro_batch;
  plan.training.sequence_length = sequence;
  plan.parallelism.reduce_bucket_bytes = 0;
  LoaderOptions data;
  data.sequence_length = sequence;
  data.vocabulary = model.vocabulary;
  Loader loader(data);
  const auto world = make_world("self");
  std::vector<std::unique_ptr<Level>> levels;
  for (const CompilerLevel level :
       {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
    plan.training.compiler = level;
    const bool unfused =
        attention == "unfused" || (attention == "default" && level == CompilerLevel::none);
    plan.training.attention = unfused ? AttentionKernel::unfused : AttentionKernel::flash2;
    levels.push_back(std::make_unique<Level>(model, plan, *world, threads));
    levels.back()->runtime.step(1, 0, loader);  // touches all memory
  }
  for (int i = 7; i < argc; ++i) {
    plan.training.passes_off = {argv[i]};
    check_passes_off(plan.training);
    levels.push_back(std::make_unique<Level>(model, plan, *world, threads));
    levels.back()->runtime.step(1, 0, loader);
  }
  for (int round = 0; round < rounds; ++round)
    for (auto& level : levels) {
      level->runtime.step(2 * round + 2, 0, loader);  // touches its memory again
      level->step(2 * round + 3, loader);
    }
  const double cpu = median(levels[0]->cpu_s), wall = median(levels[0]->wall_s);
  const double bytes = levels[0]->activation_bytes();
  for (const auto& level : levels)
    std::printf(
        "%-5s %d x %d, %s, %d thread(s), %-5s%s: step %.3f CPU-s %.3f s; activations %.0f MB; none "
        "is %.2f x (CPU-s), %.2f x (s); memory %.2f x\n",
        name.c_str(), micro_batch, sequence, attention.c_str(), threads,
        compiler_names()[static_cast<std::size_t>(level->plan.training.compiler)].c_str(),
        level->plan.training.passes_off.empty()
            ? ""
            : (" without " + level->plan.training.passes_off.front()).c_str(),
        median(level->cpu_s), median(level->wall_s), level->activation_bytes() / 1e6,
        cpu / median(level->cpu_s), wall / median(level->wall_s),
        level->activation_bytes() / bytes);
  return 0;
}
