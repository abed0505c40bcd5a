#include "tools/session/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/compiler/frameworks/framework.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/identity.h"
#include "sim/planner/search_until_fits.h"
#include "tools/session/machines.h"
#include "tools/session/plan_text.h"
#include "tools/session/text.h"
#include "tools/session/worded_job.h"

namespace meshwright::session {

namespace {

struct ShortName {
  std::string_view framework, word;
};
// Has short names for tables. Other frameworks are called by their names.
constexpr ShortName short_names[] = {{"megatron-lm", "megatron"},
                                     {"megatron-bridge", "bridge"},
                                     {"torchtitan", "titan"},
                                     {"accelerate", "fsdp"},
                                     {"sagemaker", "smp"}};

std::string short_name(const std::string& framework) {
  const auto row = std::ranges::find(short_names, framework, &ShortName::framework);
  return row == std::end(short_names) ? framework : std::string(row->word);
}

// Has the frameworks that are searched for jobs that train all weights, and those for jobs with
// adapters.
constexpr Framework usual[] = {Framework::megatron_lm, Framework::torchtitan, Framework::deepspeed};
constexpr Framework usual_of_adapters[] = {Framework::accelerate, Framework::deepspeed};

// Returns whether two jobs train the same, apart from the type in which gradients are sent, because
// each framework decides that type for itself.
bool train_the_same(const Job& one, const Plan& plan, const Job& other, const Plan& other_plan) {
  Identity first = identity_of(one, plan), second = identity_of(other, other_plan);
  for (Identity* const each : {&first, &second}) each->erase("training.gradient_reduce_precision");
  return first == second;
}

// Returns what keeps the framework from training what the plan trains, or "" if nothing does.
std::string cannot_train(Framework framework, const Job& job, const Plan& plan) {
  const Plan as_run = compiler::as_run_by(framework, plan, job.model);
  for (const compiler::Limit& limit : compiler::limits_of(framework)) {
    if (limit.holds(as_run, job.model)) continue;
    Plan mended = plan;
    if (limit.mend != nullptr) limit.mend(mended, job.model);
    if (limit.mend == nullptr || !train_the_same(job, plan, job, mended))
      return text_of(compiler::violation_of(framework, limit));
  }
  return "";
}

// Returns the request for the job with the framework, on the cluster of `first`.
JobRequest request_for(const JobRequest& request, std::string_view framework,
                       const RankedPlan& first) {
  JobRequest own = with_words(request, {});
  own.framework = framework;
  own.searches = true;
  own.set.push_back("cluster.machine=" + first.machine);
  own.set.push_back(fmt::format("cluster.count={}", first.count));
  own.set.push_back(
      fmt::format("cluster.processes_per_host={}", first.cluster.ranks() / first.count));
  return own;
}

std::optional<Elsewhere> best_in(std::string_view framework, const JobRequest& request,
                                 const Job& job, const RankedPlan& first,
                                 const SearchOptions& options) {
  Elsewhere found;
  found.framework = framework;
  found.reason = cannot_train(compiler::framework_of(framework), job, first.plan);
  if (!found.reason.empty()) return found;
  try {
    const Job own = read_job_of(request_for(request, framework, first));
    SearchResult result = search_left_out(own, options).result;
    if (result.plans.empty()) {
      if (!result.rejected.empty()) found.reason = result.rejected.front().reason;
      return found;
    }
    RankedPlan& best = result.plans.front();
    if (!train_the_same(job, first.plan, own, best.plan)) return std::nullopt;
    found.slower = best.prediction.step_time_s / first.prediction.step_time_s - 1;
    found.plan = std::move(best);
    return found;
  } catch (const InputError&) {  // the framework cannot run the model
    return std::nullopt;
  }
}

}  // namespace

std::string runs_in(const Plan& plan, const Model& model) {
  std::vector<std::string> words;
  for (const std::string& name : frameworks_that_run(plan, model))
    words.push_back(short_name(name));
  return words.empty() ? "meshwright" : fmt::format("{}", fmt::join(words, " "));
}

std::vector<Elsewhere> best_elsewhere(const JobRequest& request, const Job& job,
                                      std::span<const RankedPlan> shown,
                                      const SearchOptions& options) {
  std::vector<Elsewhere> all;
  if (shown.empty() || job.plan.training.framework != Framework::meshwright ||
      shown.front().cluster.machine.gpu.kind == DeviceKind::cpu)
    return all;
  SearchOptions one = options;
  one.keep_best = 1;
  one.simulate_at_most =
      std::min(options.simulate_at_most, 24);  // as many as `advise` simulates for a search
  one.simulate_for_gap = 0;
  one.prove_gap.reset();
  const std::span<const Framework> asked =
      job.plan.training.lora ? std::span<const Framework>(usual_of_adapters) : usual;
  for (const Framework framework : asked) {
    const std::string name(name_of(framework));
    const auto runs = [&](const RankedPlan& ranked) {
      const std::vector<std::string> names = frameworks_that_run(ranked.plan, job.model);
      return std::ranges::find(names, name) != names.end();
    };
    if (std::ranges::any_of(shown, runs)) continue;
    if (auto best = best_in(name, request, job, shown.front(), one))
      all.push_back(std::move(*best));
  }
  return all;
}

json elsewhere_json(const std::vector<Elsewhere>& all) {
  json list = json::array();
  for (const auto& [framework, plan, reason, slower] : all)
    list.push_back({{"framework", framework},
                    {"plan", plan ? json(short_plan_text(plan->plan)) : json(nullptr)},
                    {"step_time_s", plan ? json(plan->prediction.step_time_s) : json(nullptr)},
                    {"reason", plan ? json(nullptr) : json(reason)},
                    {"slower", plan ? json(slower) : json(nullptr)}});
  return list;
}

std::string elsewhere_text(const std::vector<Elsewhere>& all) {
  std::string text;
  for (const auto& [framework, plan, reason, slower] : all)
    text +=
        plan ? fmt::format("best that {} can run: {:+.0f} % ({}, {})\n", framework,
                           std::round(100 * slower) + 0.0,  // never "-0"
                           show_seconds(plan->prediction.step_time_s), short_plan_text(plan->plan))
             : fmt::format("no plan for {}: {}\n", framework, reason);
  return text;
}

}  // namespace meshwright::session
