// Tests that an exported and imported plan is the same, key by key, and has the same prediction,
// for random plans of every framework.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/architectures/huggingface_config.h"
#include "models/compiler/partition/partition.h"
#include "models/core/error.h"
#include "models/job/keys.h"
#include "models/program/graph/graph.h"
#include "sim/planner/clusters.h"
#include "sim/predict/target.h"
#include "tests/catch.h"
#include "tests/fuzz/random_job.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"
#include "tools/interop/export.h"
#include "tools/interop/import.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

MachineFacts facts_of_name(const std::string& name) {
  return facts_of(fuzz::load_machine_of_job(name));
}

struct Drawn {
  Job job;
  Plan plan;  // as the framework runs it
  std::string machine;
  int hosts = 1, ranks = 1;
};

// Returns random stages as a planner might find them: units are in order, and no stage is empty.
std::vector<int> random_stages(const Plan& plan, const Model& model, fuzz::Random& random) {
  const int parts = plan.virtual_stage_count();
  const std::vector<Unit> all = build_graph(model, plan.training).units;
  const std::size_t units = all.size();
  std::vector<int> cuts(static_cast<std::size_t>(parts), 0);
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < units; ++i)
    if (!all[i - 1].predicts_ahead) places.push_back(i);
  std::shuffle(places.begin(), places.end(), random);
  places.resize(std::min<std::size_t>(places.size(), static_cast<std::size_t>(parts - 1)));
  std::sort(places.begin(), places.end());
  std::vector<int> stages(units, 0);
  for (std::size_t u = 0; u < units; ++u)
    stages[u] =
        static_cast<int>(std::upper_bound(places.begin(), places.end(), u) - places.begin());
  return stages;
}

// Returns the stages that the plan's partitioner finds if all units have the same costs.
std::vector<int> found_stages(const Plan& plan, const Model& model) {
  const Graph graph = build_graph(model, plan.training);
  const std::vector<double> alike(graph.units.size(), 1);
  return partition(graph, plan, alike, alike);
}

std::optional<Drawn> draw(Framework framework, fuzz::Random& random) {
  Drawn drawn;
  try {
    drawn.job = fuzz::read_random_job(fuzz::random_job(random));
    if (!fuzz::leaves_no_choice(drawn.job)) return std::nullopt;
    drawn.machine = machines_of(drawn.job.cluster).front();
    drawn.hosts = counts_of(drawn.job.cluster).front();
    const Machine machine = fuzz::load_machine_of_job(drawn.machine);
    drawn.ranks = make_cluster(drawn.job.cluster, machine, drawn.hosts).ranks();
    const Plan plan = settle(drawn.job, drawn.ranks, facts_of(machine));
    std::optional<Plan> near = nearest_plan(framework, plan, drawn.job.model);
    if (!near) return std::nullopt;
    if (near->virtual_stage_count() > 1) {
      near->stage_of_unit = random() % 2 == 0 ? random_stages(*near, drawn.job.model, random)
                                              : found_stages(*near, drawn.job.model);
      near = nearest_plan(framework, *near, drawn.job.model);
      if (!near) return std::nullopt;
    }
    // Version 1 of SageMaker's library, which runs pipeline stages, does not support this machine.
    if (framework == Framework::sagemaker && near->parallelism.pipeline > 1 &&
        drawn.machine == "p5.48xlarge")
      return std::nullopt;
    near->snapshot = false;  // of the job's checkpoints, which no plan holds
    drawn.plan = *near;
    // The nearest plan may need hardware that this machine lacks. Such a draw is discarded.
    const MachineFacts facts = facts_of(machine);
    const Training& t = near->training;
    if (!facts.is_cpu && !facts.has_bf16 &&
        (storage_of(t.precision) == Dtype::bf16 || t.attention == AttentionKernel::flash2))
      return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
  return drawn;
}

// Returns overrides for the keys that no setting of the framework expresses.
std::vector<std::string> overrides_of(Framework framework, const Drawn& drawn) {
  std::vector<std::string> set = {"cluster.machine=" + drawn.machine};
  if (framework == Framework::megatron_lm || framework == Framework::megatron_bridge ||
      framework == Framework::torchtitan) {
    set.push_back("cluster.count=" + std::to_string(drawn.hosts));
    set.push_back("cluster.processes_per_host=" + std::to_string(drawn.ranks / drawn.hosts));
  }
  if (framework == Framework::deepspeed)
    set.insert(set.end(),
               {"cluster.count=" + std::to_string(drawn.hosts),
                "cluster.processes_per_host=" + std::to_string(drawn.ranks / drawn.hosts)});
  // PyTorch itself chooses the attention kernel, by the machine.
  if (framework == Framework::torchtitan || framework == Framework::deepspeed ||
      framework == Framework::accelerate)
    set.push_back("training.attention=" +
                  attention_names()[static_cast<std::size_t>(drawn.plan.training.attention)]);
  return set;
}

std::string differences(Plan one, Plan other) {
  std::string text;
  const auto compare = [&](const Keys& left, const Keys& right) {
    for (std::size_t i = 0; i < left.size(); ++i)
      if (value_of(left[i]) != value_of(right[i]))
        text += std::string(left[i].name) + ": " + value_of(left[i]).dump() + " became " +
                value_of(right[i]).dump() + "\n";
  };
  compare(training_keys(one.training), training_keys(other.training));
  compare(parallelism_keys(one.parallelism), parallelism_keys(other.parallelism));
  return text;
}

// A prediction, or the reason why there is none. Some plans are rejected only when they are
// compiled, for example if a budget for recomputation is too small or a tensor group would cut
// blocks of moments.
struct Predicted {
  double step_time_s = 0;
  std::int64_t peak_memory_bytes = 0;
  std::string refused;
};

Predicted predicted(const Job& job, const Plan& plan, const Cluster& cluster) {
  try {
    const Compiled compiled = compile(job.model, plan, target_of(cluster, plan.training));
    const Prediction prediction = predict(compiled, cluster, {});
    return {prediction.step_time_s, prediction.peak_memory_bytes, ""};
  } catch (const InputError& error) {
    return {0, 0, error.what()};
  }
}

void check_round_trip(Framework framework, const Drawn& drawn, const std::string& folder,
                      bool predicts) {
  const InteropTarget& target = interop_target(framework);
  const int per_host = drawn.ranks / drawn.hosts;
  const JobValues values(drawn.job, drawn.plan, drawn.machine, drawn.hosts, per_host);
  std::vector<std::string> files;
  std::string texts;
  for (const ExportedFile& file : target.files(values, settings_of(values, target))) {
    if (file.name.ends_with(".py")) continue;  // programs are written only
    files.push_back(folder + "/" + file.name);
    std::ofstream(files.back()) << file.text;
    texts += file.name + ":\n" + file.text;
  }
  CAPTURE(texts);
  const Imported imported = import_settings(
      files, {.format = framework, .overrides = overrides_of(framework, drawn)}, facts_of_name);
  CAPTURE(imported.job.dump(1));
  const Job job = read_job(imported.job, "imported", ".", facts_of_name);
  const Plan plan = settle(job, drawn.ranks, facts_of_name(drawn.machine));
  CHECK(differences(drawn.plan, plan) == "");
  Model model = job.model, expected = drawn.job.model;
  model.name = expected.name;
  // Megatron-LM expresses slots for all tokens as the capacity factor that gives them, so that is
  // what comes back.
  if (framework == Framework::megatron_lm && expected.experts > 0 && !expected.expert_dropless &&
      expected.expert_capacity_factor == 0)
    expected.expert_capacity_factor =
        static_cast<double>(expected.experts) / expected.experts_per_token;
  CHECK(huggingface_config(model).dump(1) == huggingface_config(expected).dump(1));
  CHECK((model == expected));
  if (!predicts) return;
  const Machine machine = fuzz::load_machine_of_job(drawn.machine);
  const Predicted before =
      predicted(drawn.job, drawn.plan, make_cluster(drawn.job.cluster, machine, drawn.hosts));
  ClusterRequest request = drawn.job.cluster;
  request.processes_per_host = job.cluster.processes_per_host;
  const Predicted after = predicted(job, plan, make_cluster(request, machine, drawn.hosts));
  CHECK(before.step_time_s == after.step_time_s);
  CHECK(before.peak_memory_bytes == after.peak_memory_bytes);
  CHECK(before.refused == after.refused);
}

void check_random_plans(Framework framework) {
  const TestFolder folder;
  fuzz::Random random(20261125);
  int done = 0;
  const int wanted = 1000 / one_in(4), most = 200000;
  for (int tries = 0; tries < most && done < wanted; ++tries) {
    const std::optional<Drawn> drawn = draw(framework, random);
    if (!drawn) continue;
    check_round_trip(framework, *drawn, folder.path(), done % 25 == 0);
    ++done;
  }
  CHECK(done == wanted);
}

}  // namespace

// Each framework has a case of its own, so that the cases can run in parallel.
TEST_CASE("plans come back from Megatron-LM as they were", "[interop][release]") {
  check_random_plans(Framework::megatron_lm);
}
TEST_CASE("plans come back from Megatron-Bridge as they were", "[interop][release]") {
  check_random_plans(Framework::megatron_bridge);
}
TEST_CASE("plans come back from torchtitan as they were", "[interop][release]") {
  check_random_plans(Framework::torchtitan);
}
TEST_CASE("plans come back from DeepSpeed as they were", "[interop][release]") {
  check_random_plans(Framework::deepspeed);
}
TEST_CASE("plans come back from accelerate as they were", "[interop][release]") {
  check_random_plans(Framework::accelerate);
}
TEST_CASE("plans come back from SageMaker as they were", "[interop][release]") {
  check_random_plans(Framework::sagemaker);
}
TEST_CASE("plans come back from HyperPod as they were", "[interop][release]") {
  check_random_plans(Framework::hyperpod);
}
