#include "tools/report/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/core/json.h"
#include "sim/advise/batch_law.h"
#include "sim/advise/shortfall.h"
#include "sim/compile/compile.h"
#include "sim/compile/largest_batch.h"
#include "sim/predict/breakdown.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"
#include "tools/report/advice_table.h"
#include "tools/report/loading.h"
#include "tools/report/prediction.h"
#include "tools/report/risk.h"
#include "tools/report/whole_run.h"
#include "tools/session/plan_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

std::optional<double> usd_of(const Rung& rung) {
  return rung.whole && rung.whole->bill ? std::optional(rung.whole->bill->usd) : std::nullopt;
}

json largest_json(const Rung& rung) {
  if (rung.largest.micro_batch == 0) return nullptr;
  const Training& training = rung.best->plan.training;
  const double growth = static_cast<double>(rung.largest.micro_batch) / training.micro_batch;
  return {{"micro_batch", rung.largest.micro_batch},
          {"global_batch",
           with_micro_batch(rung.best->plan, rung.largest.micro_batch).training.global_batch},
          {"learning_rate_linear", linear_learning_rate(training.learning_rate, growth)},
          {"learning_rate_square_root", square_root_learning_rate(training.learning_rate, growth)}};
}

json loads_json(const Rung& rung) {
  json value = json::array();
  for (const GroupLoad& load : rung.loads)
    value.push_back({{"group", exposed_name(static_cast<std::size_t>(load.group))},
                     {"bytes", load.bytes},
                     {"time_ps", load.needed},
                     {"exposed_ps", load.exposed},
                     {"link", load.link},
                     {"link_bytes_per_s", load.link_bytes_per_s}});
  return value;
}

json rung_json(const Job& job, const Rung& rung, int today) {
  json value = {{"machine", rung.machine},
                {"count", rung.hosts},
                {"processes_per_host", rung.processes_per_host},
                {"gpus", rung.gpus()}};
  if (!rung.best) {
    value["reason"] = rung.reason;
    if (rung.closest_miss)
      value["closest_miss"] = {{"peak_memory_bytes", rung.closest_miss->peak_memory_bytes},
                               {"memory_limit_bytes", rung.closest_miss->memory_limit_bytes}};
    return value;
  }
  const Prediction& p = rung.best->prediction;
  json parts = json::object();
  for (const StepPart& part : rung.parts.parts) parts[part.cause] = part.time;
  value.update(rung_prediction_json(p, today));
  value.update({{"plan", short_plan_text(rung.best->plan)},
                {"parallelism", to_json(rung.best->plan.parallelism)},
                {"training", to_json(rung.best->plan.training)},
                {"opened", rung.opened},
                {"loading", loading_json(job, rung.best->plan, rung.best->cluster, p)},
                {"frameworks", frameworks_that_run(rung.best->plan, job.model)},
                {"tokens_per_s", p.tokens_per_s},
                {"efficiency", rung.efficiency},
                {"added_efficiency", rung.added_efficiency},
                {"total_tokens", rung.whole ? json(rung.whole->tokens) : json(nullptr)},
                {"total_time_s", rung.whole ? json(rung.whole->time_s) : json(nullptr)},
                {"start_s", rung.whole ? json(rung.whole->start.total_s()) : json(nullptr)},
                {"total_usd", or_null(usd_of(rung))},
                {"total_idle_usd",
                 rung.whole && rung.whole->bill ? json(rung.whole->bill->idle_usd) : json(nullptr)},
                {"largest", largest_json(rung)},
                {"parts_ps", parts},
                {"communication", loads_json(rung)}});
  return value;
}

bool is_data_parallel(const Rung& rung) {
  const Parallelism& p = rung.best->plan.parallelism;
  return p.pipeline == 1 && p.tensor == 1 && p.context == 1 && p.expert == 1;
}

// Returns a sentence on how the plan splits the model. If the plan needs several GPUs because the
// model does not fit one, the sentence says how much memory one GPU would need.
std::string cut_text(const Ladder& ladder, const Rung& rung) {
  const Parallelism& p = rung.best->plan.parallelism;
  const Rung& one = ladder.rungs.front();
  std::string alone;
  if (one.gpus() == 1 && !one.best && one.closest_miss)
    alone = fmt::format("; one GPU would need {} of its {}",
                        show_bytes(one.closest_miss->peak_memory_bytes),
                        show_bytes(one.closest_miss->memory_limit_bytes));
  if (rung.gpus() == 1) return "One GPU holds the whole model: nothing is cut.";
  if (!is_data_parallel(rung))
    return fmt::format(
        "Model parallel: pipeline {}, tensor {}, context {}, expert {}, on {} data replicas{}.",
        p.pipeline, p.tensor, p.context, p.expert, p.data, alone);
  if (p.zero_stage > 0)
    return fmt::format(
        "Data parallel alone, with states sharded (ZeRO {}): every GPU computes whole layers{}.",
        p.zero_stage, alone);
  return fmt::format("Data parallel alone: the model and its optimizer states fit one GPU{}.",
                     alone);
}

Table table_of(const Job& job, const Ladder& ladder) {
  Table table({"hosts", "GPUs", "plan", "step", "eight in ten", "tokens/s", "MFU", "efficiency",
               "memory", "left", "$/M tokens", "time", "$", "runs in", ""});
  table.may_break("plan");
  if (has_length(job))
    table.may_lack(
        {"left", "tokens/s", "eight in ten", "runs in", "$/M tokens", "memory", "step", "MFU"});
  else
    table.may_lack({"left", "tokens/s", "eight in ten", "time", "$", "runs in", "memory", "MFU"});
  for (const Rung& rung : ladder.rungs) {
    if (!rung.best) {
      table.add({std::to_string(rung.hosts), std::to_string(rung.gpus()), "no plan"});
      continue;
    }
    const Prediction& p = rung.best->prediction;
    table.add({std::to_string(rung.hosts), std::to_string(rung.gpus()),
               short_plan_text(rung.best->plan), show_seconds(p.step_time_s),
               p.interval ? fmt::format("{} to {}", show_seconds(p.interval->low_s),
                                        show_seconds(p.interval->high_s))
                          : "-",
               show_number(p.tokens_per_s, 0), show_percent(p.mfu), show_percent(rung.efficiency),
               show_bytes(static_cast<double>(p.peak_memory_bytes)),
               show_bytes(p.memory_limit_bytes - static_cast<double>(p.peak_memory_bytes)),
               p.usd_per_million_tokens ? fmt::format("${:.4f}", *p.usd_per_million_tokens) : "-",
               rung.whole ? show_duration(rung.whole->time_s) : "-",
               usd_of(rung) ? show_usd(*usd_of(rung)) : "-", runs_in(rung.best->plan, job.model),
               &rung == ladder.chosen() ? "<- best" : ""});
  }
  return table;
}

std::string ladder_text(const Job& job, const Ladder& ladder) {
  std::string text = ladder.machine + "\n" + table_of(job, ladder).text();
  for (const Rung& rung : ladder.rungs) {
    if (!rung.best) {
      text += fmt::format("{}: {}\n", cluster_text(rung), rung.reason);
    } else if (!rung.opened.empty()) {
      text += fmt::format("{}: fits only with {}\n", cluster_text(rung), opened_text(rung.opened));
    }
  }
  return text + ladder.reason + "\n\n";
}

// Returns the global batch, in sequences, that the law of useful batches recommends for the job's
// tokens. Returns nothing for adapters, for models that are not causal, and for jobs without a
// length, because the law is not known for them.
std::optional<double> useful_batch(const Job& job, const Rung& rung) {
  const bool adapts = job.plan.training.lora.has_value();
  if (adapts || !job.model.is_causal() || !rung.whole || rung.whole->tokens <= 0)
    return std::nullopt;
  const Prediction& p = rung.best->prediction;
  const double flops_per_token =
      p.model_flops_per_s_per_gpu * rung.gpus() / std::max(p.tokens_per_s, 1e-9);
  return useful_batch_tokens(flops_per_token * rung.whole->tokens) /
         job.plan.training.sequence_length;
}

std::string batch_text(const Job& job, const Rung& rung,
                       const std::optional<NearBatch>& near_batch) {
  const Training& training = rung.best->plan.training;
  std::string text = fmt::format(
      "The global batch stays {} sequences at each rung, so its learning rate does too ({:.3g}).\n",
      training.global_batch, training.learning_rate);
  const json largest = largest_json(rung);
  const int most = largest.is_null() ? 0 : largest["global_batch"].get<int>();
  if (most > training.global_batch)
    text += fmt::format(
        "Up to {} sequences fit; the learning rate would then be {:.3g} (in proportion) or {:.3g} "
        "(to the square root), after a warm-up.\n",
        most, largest["learning_rate_linear"].get<double>(),
        largest["learning_rate_square_root"].get<double>());
  if (near_batch) text += near_batch_text(*near_batch) + "\n";
  if (const auto useful = useful_batch(job, rung))
    text += fmt::format(
        "A batch of about {} sequences learns best from {} tokens (0.2920 C^0.3271, DeepSeek LLM "
        "2024); much larger ones need more tokens for the same loss.\n",
        show_count(*useful), show_count(rung.whole->tokens));
  return text;
}

// Returns the predicted run of the rung's best plan from its first step to its last, with failures.
// Returns nothing if nothing fails or if the job does not say how long the run is.
std::optional<WholeRun> run_of(const Job& job, const Rung& rung) {
  const RankedPlan& best = *rung.best;
  return whole_run(job, compile(job.model, best.plan, target_of(best.cluster, best.plan.training)),
                   best.cluster, best.prediction);
}

std::string rent_text(const Rung& rung) {
  const Training& training = rung.best->plan.training;
  std::string text =
      fmt::format("Rent {}: {}, {} sequences per step, learning rate {:.3g}", cluster_text(rung),
                  short_plan_text(rung.best->plan), training.global_batch, training.learning_rate);
  if (rung.whole) text += fmt::format(", {}", show_duration(rung.whole->time_s));
  if (const auto usd = usd_of(rung)) text += fmt::format(", {}", show_usd(*usd));
  return text + ".\n";
}

// Returns " && " and the command that follows the plan: on other machines than this computer, an
// export to a framework that can run the plan, or else `train`. Returns "" for a captured model,
// which its own script runs.
std::string next_command(const Job& job, const std::string& profile, const Rung& rung) {
  if (job.model.captured) return {};
  if (rung.machine != "local") {
    const std::vector<std::string> names = frameworks_that_run(rung.best->plan, job.model);
    const std::string wanted(name_of(job.plan.training.framework));
    const bool has_wanted = std::ranges::find(names, wanted) != names.end();
    if (!names.empty())
      return fmt::format(" && meshwright export planned.json --for {0} --to {0}",
                         has_wanted ? wanted : names.front());
  }
  return " && meshwright train planned.json" + profile;
}

// Returns a line about the other ways to run the plan on machines that are not this computer, or ""
// if there are none.
std::string next_hint(const Job& job, const Rung& rung, const std::string& command) {
  if (rung.machine == "local" || job.model.captured) return {};
  return command.find("meshwright export") != std::string::npos
             ? "On these machines `meshwright train planned.json` runs it too.\n"
             : "`train` runs it on these machines; `--for FRAMEWORK` looks for a plan of a "
               "framework, which `export` writes.\n";
}

// Returns the command line that plans the rung and goes on from there. With --set it sets the
// cluster, the keys that were opened so that a plan fits, the number of steps if the job has none,
// and the data degree if the job fixes another one.
std::string command_text(const Job& job, const std::string& asked, const std::string& profile,
                         const Rung& rung) {
  const Plan& plan = rung.best->plan;
  std::string set =
      fmt::format("--set cluster.machine={} --set cluster.count={}", rung.machine, rung.hosts);
  if (rung.processes_per_host != rung.gpus_per_host)
    set += fmt::format(" --set cluster.processes_per_host={}", rung.processes_per_host);
  for (const std::string& opened : rung.opened)
    set += fmt::format(" --set {}{}", opened, opened.find('=') == std::string::npos ? "=auto" : "");
  if (!job.is_auto("parallelism.data") && job.plan.parallelism.data != plan.parallelism.data)
    set += " --set parallelism.data=auto";
  if (!job.has_steps && rung.whole)
    set += fmt::format(" --set training.steps={}", rung.whole->steps(plan.training));
  return fmt::format("meshwright plan {} {} --write planned.json", asked, set) +
         next_command(job, profile, rung);
}

}  // namespace

json near_batch_json(const std::optional<NearBatch>& batch) {
  if (!batch) return nullptr;
  return {{"global_batch", batch->global_batch}, {"faster", batch->faster}};
}

std::string near_batch_text(const NearBatch& batch) {
  return fmt::format(
      "a batch of {} sequences would be {:.0f} % faster for each token: more ranks divide it",
      batch.global_batch, 100 * batch.faster);
}

Advice advice_of(const Job& job, const JobRequest& request, const LadderOptions& options,
                 const std::string& asked, const std::string& profile) {
  Advice advice;
  advice.ladders = ladders(job, options);
  advice.best = best_of(advice.ladders, job);
  const bool is_stopped = options.search.stop && options.search.stop();
  if (advice.best == nullptr && !is_stopped)
    advice.shortfall = shortfall(job, advice.ladders, options);
  if (advice.best != nullptr) {
    advice.run = run_of(job, *advice.best->chosen());
    if (!is_stopped) {
      advice.near_batch = near_batch(job, *advice.best->chosen()->best, options.search);
      advice.elsewhere =
          best_elsewhere(request, job, std::span(&*advice.best->chosen()->best, 1), options.search);
    }
    advice.command = command_text(job, asked, profile, *advice.best->chosen());
  }
  return advice;
}

json advice_json(const Job& job, const Advice& advice, int today) {
  json all = json::array();
  for (const Ladder& ladder : advice.ladders) {
    json rungs = json::array();
    for (const Rung& rung : ladder.rungs) rungs.push_back(rung_json(job, rung, today));
    all.push_back({{"machine", ladder.machine},
                   {"rungs", rungs},
                   {"stop", or_null(ladder.stop)},
                   {"reason", ladder.reason}});
  }
  json value = {{"name", job.name},
                {"budget_usd", or_null(job.objective.budget_usd)},
                {"deadline_s", or_null(job.objective.deadline_s)},
                {"ladders", all},
                {"best", nullptr},
                {"shortfall", advice.shortfall}};
  if (advice.best == nullptr) return value;
  const Rung& rung = *advice.best->chosen();
  const std::optional<WholeRun>& run = advice.run;
  value["best"] = {{"machine", rung.machine},
                   {"count", rung.hosts},
                   {"processes_per_host", rung.processes_per_host},
                   {"reason", advice.best->reason},
                   {"useful_global_batch", or_null(useful_batch(job, rung))},
                   {"elsewhere", elsewhere_json(advice.elsewhere)},
                   {"near_batch", near_batch_json(advice.near_batch)},
                   {"risk", run ? risk_json(run->model, run->risk, run->spare) : json(nullptr)},
                   {"command", advice.command}};
  return value;
}

std::string advice_text(const Job& job, const Advice& advice, bool all) {
  std::string text = job.name + "\n\n";
  if (all || advice.ladders.size() == 1)
    for (const Ladder& ladder : advice.ladders) text += ladder_text(job, ladder);
  else
    text += machines_text(job, advice);
  if (advice.best == nullptr) return text + advice.shortfall;
  const Rung& rung = *advice.best->chosen();
  text += elsewhere_text(advice.elsewhere) + cut_text(*advice.best, rung) + "\n" +
          batch_text(job, rung, advice.near_batch);
  text += loading_text(job, rung.best->plan, rung.best->cluster, rung.best->prediction);
  if (advice.run)
    text += risk_text(advice.run->model, advice.run->risk, advice.run->spare);
  else if (!has_length(job))
    text += "training.steps or objective.tokens would show days and dollars of the whole run.\n";
  else
    text += "Nothing fails in this job: \"failures\": {} shows what failures cost.\n";
  return text + "\n" + rent_text(rung) + (rung.whole ? start_text(*rung.whole) : "") +
         price_text(rung) +
         fmt::format("The plan runs in {}.\n", runs_in(rung.best->plan, job.model)) +
         fmt::format("To {} it:\n  {}\n{}", job.model.captured ? "plan" : "run", advice.command,
                     next_hint(job, rung, advice.command));
}

}  // namespace meshwright::tools
