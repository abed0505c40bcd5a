// Prints how fast the simulator and the planner are, on one core. It is not a test.
//   bench_search [FIGURE...]   prints the named figures: replay, step, bounds, plan; by default all
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/job/job.h"
#include "sim/planner/bounds.h"
#include "sim/planner/search.h"
#include "sim/planner/sweep.h"
#include "tests/sim/compiled.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the CPU time of this process, in seconds, so that other programs on the core do not
// count.
double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Job job_of(const json& value) { return read_job(value, "bench.json", ".", machine_facts); }

// Measures the replay of many micro-batches. Only events are timed: Programs and the costs of their
// instructions are computed before.
void replay_rate() {
  json value = {{"model", "gpt3-175b"},
                {"training",
                 {{"global_batch", 1536},
                  {"micro_batch", 1},
                  {"sequence_length", 2048},
                  {"precision", "bf16"},
                  {"recompute", "selective"}}},
                {"cluster", {{"machine", "p4de.24xlarge"}, {"count", 128}}},
                {"parallelism",
                 {{"tensor", 8},
                  {"pipeline", 16},
                  {"data", 8},
                  {"sequence_parallel", true},
                  {"zero_stage", 1}}}};
  for (const int batch : {384, 1536, 6144, 24576}) {
    value["training"]["global_batch"] = batch;
    const Job job = job_of(value);
    const Cluster cluster = make_cluster(job.cluster, "p4de.24xlarge", 128);
    const Plan plan = settle(job, cluster.ranks(), machine_facts("p4de.24xlarge"));
    const Compiled compiled = compiled_for(job.model, plan, cluster);
    const Topology topology(cluster);
    double best = 1e9;
    std::int64_t instructions = 0;
    for (int round = 0; round < 3; ++round) {
      const double begin = now_s();
      const ReplayResult result = replay(compiled.stages, topology);
      best = std::min(best, now_s() - begin);
      instructions = result.instructions;
    }
    std::printf("replay of gpt3-175b, %9lld instructions   %8.3f million/s\n",
                static_cast<long long>(instructions),
                static_cast<double>(instructions) / best * 1e-6);
  }
}

void step() {
  const Job job = job_of({{"model", "llama-3-405b"},
                          {"training",
                           {{"global_batch", 2048},
                            {"micro_batch", 1},
                            {"sequence_length", 8192},
                            {"precision", "bf16"},
                            {"recompute", "selective"}}},
                          {"cluster", {{"machine", "p5.48xlarge"}, {"count", 2048}}},
                          {"parallelism",
                           {{"tensor", 8},
                            {"pipeline", 16},
                            {"data", 128},
                            {"sequence_parallel", true},
                            {"zero_stage", 1}}}});
  const double begin = now_s();
  const Cluster cluster = make_cluster(job.cluster, "p5.48xlarge", 2048);
  const Plan plan = settle(job, cluster.ranks(), machine_facts("p5.48xlarge"));
  const Compiled compiled = compiled_for(job.model, plan, cluster);
  const double built = now_s();
  const Prediction prediction = predict(compiled, cluster);
  std::printf(
      "llama-3-405b on 16,384 H100s: step %.2f s, built in %.3f s, simulated in %.3f s, together "
      "%.3f s, %.0f MiB\n",
      prediction.step_time_s, built - begin, now_s() - built, now_s() - begin, peak_mib());
}

json gpt3_on(int count) {
  return {{"model", "gpt3-175b"},
          {"training",
           {{"global_batch", 1536},
            {"sequence_length", 2048},
            {"precision", "bf16"},
            {"recompute", "auto"},
            {"recompute_fraction", "auto"},
            {"compiler", "auto"}}},
          {"cluster", {{"machine", "p4de.24xlarge"}, {"count", count}}},
          {"parallelism", "auto"}};
}

// Measures the bounds: first the loose bound of every plan of the space, then the closer bound of
// some plans.
void bounds() {
  const Job job = job_of(gpt3_on(64));
  const Cluster cluster = make_cluster(job.cluster, "p4de.24xlarge", 64);
  const Plan base = base_plan(job, machine_facts("p4de.24xlarge"));
  const double begin = now_s();
  const Space space = enumerate(job, base, cluster.ranks());
  const double listed = now_s();
  BoundMaker maker(job.model, base, cluster);
  const Limits none_of_time{cluster.device().memory_bytes, 0.0};
  Swept swept;
  // These limits allow any step time, so only plans that do not fit are pruned.
  Limits limits = none_of_time;
  limits.step_time_s = 1e9;
  for (const Branch& branch : space.branches) {
    sweep(branch, maker, limits, swept);
    if (swept.survivors.size() > 100'000) swept.survivors.resize(1000);
  }
  const double bounded = now_s();
  std::printf("%zu profiles\n", maker.profiles());
  std::printf("%lld plans listed in %.3f s; bounds %8.3f million/s\n",
              static_cast<long long>(space.enumerated), listed - begin,
              static_cast<double>(swept.bounded) / (bounded - listed) * 1e-6);
  double sum = 0;
  for (const Swept::Survivor& each : swept.survivors)
    sum += maker.memory(each.candidate).likely_bytes + maker.time(each.candidate).step_time_s;
  std::printf("close bounds %8.3f million/s (%g)\n",
              static_cast<double>(swept.survivors.size()) / (now_s() - bounded) * 1e-6, sum);
}

void plan() {
  for (const int count : {512, 128, 64}) {
    const double begin = cpu_s();
    const SearchResult result = search(job_of(gpt3_on(count)));
    std::printf(
        "plan gpt3-175b on %4d A100s: %lld plans, %lld simulated, %.2f s (%.2f CPU-s); best %.3f "
        "s, "
        "gap %.1f %%\n",
        count * 8, static_cast<long long>(result.candidates_enumerated),
        static_cast<long long>(result.candidates_simulated), result.search_wall_s, cpu_s() - begin,
        result.plans.empty() ? 0.0 : result.plans.front().prediction.step_time_s,
        100 * result.proven_gap);
  }
}

}  // namespace

int main(int argc, char* argv[]) {
  const std::vector<std::string> chosen(argv + 1, argv + argc);
  const auto wanted = [&](const char* name) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
  };
  if (wanted("step")) step();  // first: its memory is the process's
  if (wanted("replay")) replay_rate();
  if (wanted("bounds")) bounds();
  if (wanted("plan")) plan();
  return 0;
}
