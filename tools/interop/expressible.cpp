#include "tools/interop/expressible.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/compiler/frameworks/following.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"

namespace meshwright::interop {

namespace {

// Returns the value of a key as JSON text, or an empty string if the key is not one of training or
// parallelism.
std::string text_of(Plan plan, std::string_view key) {
  const std::size_t dot = key.find('.');
  const std::string_view name = key.substr(dot + 1);
  for (const Key& each : key.starts_with("training.") ? training_keys(plan.training)
                                                      : parallelism_keys(plan.parallelism))
    if (each.name == name) return value_of(each).dump();
  return {};
}

std::string place_in_job(std::string_view key) {
  std::string pointer = "/" + std::string(key);
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

// Returns the keys with which `to` differs from `from`, with the values of `to`:
// "training.micro_batch 2 and parallelism.schedule \"1f1b\"".
std::string differences(const Plan& from, const Plan& to) {
  Plan one = from, other = to;
  std::vector<std::string> found;
  const auto compare = [&](const char* section, const Keys& left, const Keys& right) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      const json value = value_of(right[i]);
      if (value_of(left[i]) != value)
        found.push_back(std::string(section) + "." + std::string(left[i].name) + " " +
                        (value.is_null() ? "left out" : value.dump()));
    }
  };
  compare("training", training_keys(one.training), training_keys(other.training));
  compare("parallelism", parallelism_keys(one.parallelism), parallelism_keys(other.parallelism));
  return list_of(found, "and");
}

}  // namespace

void check_expressible(Framework framework, const Plan& plan, const Model& model) {
  const Plan run = as_run_by(framework, plan, model);
  const Limit* broken = broken_limit(framework, run, model);
  if (broken == nullptr) return;
  std::string problem = place_in_job(broken->key) + ": ";
  if (const std::string value = text_of(run, broken->key); !value.empty() && value != "null")
    problem += value + ": ";
  problem += std::string(name_of(framework)) + " " + std::string(broken->why);
  const std::optional<Plan> near = nearest_plan(framework, plan, model);
  if (near)
    throw InputError(problem + "; the nearest plan that it can run has " + differences(run, *near));
  throw InputError(problem + (broken->key == "model"
                                  ? "; no plan of this model can be run there"
                                  : "; no plan near this one can be run there; look for one with "
                                    "`plan --for " +
                                        std::string(name_of(framework)) + "`"));
}

namespace {

// Returns whether the key of `limit` may be changed: the job fixes the key, and the limit can mend
// it. The model, the degrees and the micro-batch are never changed.
bool may_be_changed(const Job& job, const Limit& limit) {
  constexpr std::string_view fixed[] = {"model",
                                        "parallelism.pipeline",
                                        "parallelism.tensor",
                                        "parallelism.context",
                                        "parallelism.expert",
                                        "parallelism.data",
                                        "training.micro_batch"};
  return limit.mend != nullptr && !job.is_auto(limit.key) &&
         std::find(std::begin(fixed), std::end(fixed), limit.key) == std::end(fixed);
}

// Tells whether a limit holds for none, some or all of the ZeRO stages and data degrees that are
// tried. A stage that the job leaves to the planner is tried with 0 to 3, and such a data degree
// with 1 and 2, or with 2 only.
enum class Holds : std::uint8_t { never, sometimes, always };
Holds holds(const Job& job, const Limit& limit) {
  Plan plan = job.plan;
  const bool is_open = job.is_auto("parallelism.zero_stage");
  const int first = is_open ? 0 : plan.parallelism.zero_stage;
  const int last = is_open ? 3 : plan.parallelism.zero_stage;
  std::vector<int> replicas = {plan.parallelism.data};
  if (job.is_auto("parallelism.data")) replicas = {1, 2};
  // Keys that follow other keys are judged with two replicas, because a single replica shards
  // nothing.
  if (replicas.size() > 1 && follows_other_keys(limit.key)) replicas = {2};
  bool any = false, all = true;
  for (int stage = first; stage <= last; ++stage)
    for (const int data : replicas) {
      plan.parallelism.zero_stage = stage;
      plan.parallelism.data = data;
      const bool held =
          limit.holds(as_run_by(job.plan.training.framework, plan, job.model), job.model);
      any = any || held;
      all = all && held;
    }
  return all ? Holds::always : any ? Holds::sometimes : Holds::never;
}

// Throws InputError if the framework cannot run the job's model. take_ways_of_framework() calls it
// for captured models.
void check_takes_model(const Job& job) {
  for (const Limit& limit : limits_of(job.plan.training.framework))
    if (limit.key == "model" && !limit.holds(job.plan, job.model))
      throw InputError(fmt::format("{}: /model: {} {}", job.file,
                                   name_of(job.plan.training.framework), limit.why));
}

// Throws InputError if the job trains adapters and the framework would train all weights. Memory
// and time are so different that the plan would not describe the job.
void check_trains_adapters(const Job& job) {
  if (!job.plan.training.lora) return;
  for (const Limit& limit : limits_of(job.plan.training.framework)) {
    if (limit.key != "training.lora" || limit.holds(job.plan, job.model)) continue;
    Plan mended = job.plan;
    limit.mend(mended, job.model);
    if (!mended.training.lora)
      throw InputError(
          fmt::format("{}: /training/lora: {} {}; `--for accelerate` and `--for deepspeed` train "
                      "adapters",
                      job.file, name_of(job.plan.training.framework), limit.why));
  }
}

}  // namespace

void take_ways_of_framework(Job& job) {
  const Framework framework = job.plan.training.framework;
  if (!has_known_limits(framework))
    throw InputError(
        fmt::format("{}: /training/framework: which plans {} can run is not known here; 'simulate' "
                    "predicts a given one",
                    job.file, name_of(framework)));
  if (job.model.captured) check_takes_model(job);
  check_trains_adapters(job);
  // If the precision is "auto", the machine decides it later. Until then the limits are checked
  // with bf16.
  const Precision precision = job.plan.training.precision;
  if (job.is_auto("training.precision")) job.plan.training.precision = Precision::bf16;
  for (const Limit& limit : limits_of(framework)) {
    if (!may_be_changed(job, limit)) continue;
    const Holds when = holds(job, limit);
    const bool differs = when == Holds::sometimes && follows_other_keys(limit.key);
    if (when != Holds::never && !differs) continue;
    if (!differs) limit.mend(job.plan, job.model);
    job.warnings.push_back(job.file + ": " + place_in_job(limit.key) + ": " +
                           std::string(name_of(framework)) + " " + std::string(limit.why) +
                           "; planned " +
                           (differs ? "so" : "with " + text_of(job.plan, limit.key)));
  }
  if (job.is_auto("training.precision")) job.plan.training.precision = precision;
}

}  // namespace meshwright::interop
