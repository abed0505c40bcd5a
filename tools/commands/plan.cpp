// Runs the command `plan JOB`, which searches the job's clusters, ranks the plans that fit, and
// prints why the others were rejected.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>

#include "exec/launch/stop.h"
#include "models/core/json.h"
#include "sim/advise/near_batch.h"
#include "sim/planner/objective.h"
#include "sim/planner/search_until_fits.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/advice.h"
#include "tools/report/html.h"
#include "tools/report/loading.h"
#include "tools/report/prediction.h"
#include "tools/report/run_report.h"
#include "tools/report/whole_run.h"
#include "tools/session/choose.h"
#include "tools/session/elsewhere.h"
#include "tools/session/job_file.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

struct Planned {
  Job job;
  SearchResult result;
  std::vector<std::string> opened;  // keys left to the planner so that a plan fits
  std::vector<Elsewhere> elsewhere;
  std::optional<NearBatch> near_batch;
};

// Returns the time and the cost of the whole job with a plan, including the start of the run.
WholeJob whole_of(const Job& job, const RankedPlan& ranked) {
  return JobOnCluster(job, ranked.plan.training, ranked.cluster)
      .whole(useful_step_time_s(ranked.prediction));
}

json plan_json(const Job& job, const RankedPlan& ranked, int today) {
  const Prediction& p = ranked.prediction;
  const WholeJob whole = whole_of(job, ranked);
  return {{"plan", short_plan_text(ranked.plan)},
          {"parallelism", to_json(ranked.plan.parallelism)},
          {"training", to_json(ranked.plan.training)},
          {"cluster", {{"machine", ranked.machine}, {"count", ranked.count}}},
          {"gpus", ranked.cluster.ranks()},
          {"step_time_s", p.step_time_s},
          {"step_time_interval_s", interval_json(p)},
          {"tokens_per_s", p.tokens_per_s},
          {"peak_memory_bytes", p.peak_memory_bytes},
          {"framework_memory", framework_json(p)},
          {"usd_per_hour", p.usd_per_hour ? json(*p.usd_per_hour) : json(nullptr)},
          {"usd_per_million_tokens",
           p.usd_per_million_tokens ? json(*p.usd_per_million_tokens) : json(nullptr)},
          {"mfu", p.mfu},
          {"bubble_fraction", p.bubble_fraction},
          {"exposed_communication_s", p.exposed_communication_s},
          {"goodput", p.goodput ? json(p.goodput->share) : json(nullptr)},
          {"total_tokens", whole.tokens},
          {"total_time_s", whole.time_s},
          {"start_s", whole.start.total_s()},
          {"price", price_json(p.price, today)},
          {"total_usd", whole.bill ? json(whole.bill->usd) : json(nullptr)},
          {"total_idle_usd", whole.bill ? json(whole.bill->idle_usd) : json(nullptr)},
          {"frameworks", frameworks_that_run(ranked.plan, job.model)},
          {"loading", loading_json(job, ranked.plan, ranked.cluster, p)},
          {"pareto", ranked.pareto}};
}

json result_json(const Planned& all, double memory_margin, int today) {
  const SearchResult& result = all.result;
  json plans = json::array(), rejected = json::array();
  for (const RankedPlan& ranked : result.plans) plans.push_back(plan_json(all.job, ranked, today));
  for (const Rejection& rejection : result.rejected)
    rejected.push_back({{"reason", rejection.reason},
                        {"count", rejection.count},
                        {"cause", word_of(rejection.cause)}});
  json value = {{"search_wall_s", result.search_wall_s},
                {"candidates_enumerated", result.candidates_enumerated},
                {"candidates_simulated", result.candidates_simulated},
                {"proven_gap",
                 result.plans.empty() || result.stopped ? json(nullptr) : json(result.proven_gap)},
                {"memory_margin", memory_margin},
                {"opened", all.opened},
                {"elsewhere", elsewhere_json(all.elsewhere)},
                {"near_batch", near_batch_json(all.near_batch)},
                {"plans", plans},
                {"rejected", rejected}};
  if (result.closest_miss) {
    const ClosestMiss& miss = *result.closest_miss;
    value["closest_miss"] = {{"cluster", {{"machine", miss.machine}, {"count", miss.count}}},
                             {"parallelism", to_json(miss.plan.parallelism)},
                             {"peak_memory_bytes", miss.peak_memory_bytes},
                             {"memory_limit_bytes", miss.memory_limit_bytes}};
  }
  return value;
}

std::string money(const std::optional<double>& usd, int digits) {
  return usd ? fmt::format("${:.{}f}", *usd, digits) : "-";
}

bool is_one_cluster(std::span<const RankedPlan> plans) {
  return std::ranges::all_of(plans, [&](const RankedPlan& plan) {
    return plan.machine == plans.front().machine && plan.count == plans.front().count;
  });
}

// Returns the table of the best `top` plans. It shows the job's tokens if the objective is to train
// on the most tokens. If a framework's memory decides what fits, it shows that memory next to this
// engine's.
Table table_of(const Job& job, const SearchResult& result, int top) {
  const bool counts_tokens = job.objective.minimize == Minimize::tokens;
  std::vector<std::string> head = {"", "cluster", "plan", "step", "tokens/s"};
  if (counts_tokens) head.emplace_back("tokens");
  const MemoryOf whose = job.plan.training.memory_of;
  head.insert(head.end(), {"MFU", "memory"});
  if (whose != MemoryOf::engine)
    head.push_back(memory_of_names()[static_cast<std::size_t>(whose)] + "'s");
  head.insert(head.end(), {"$/h", "$/M tokens", "runs in", "pareto"});
  Table table(head);
  table.may_break("plan");
  const std::span<const RankedPlan> all = result.plans;
  if (is_one_cluster(all.first(std::min(all.size(), static_cast<std::size_t>(top)))))
    table.may_lack({"cluster", "$/h", "tokens/s", "pareto", "MFU", "runs in"});
  else
    table.may_lack({"tokens/s", "pareto", "$/h", "MFU", "runs in"});
  int rank = 0;
  for (const RankedPlan& ranked : result.plans) {
    if (++rank > top) break;
    const Prediction& p = ranked.prediction;
    std::vector<std::string> row = {
        std::to_string(rank), fmt::format("{} x {}", ranked.count, ranked.machine),
        short_plan_text(ranked.plan), show_seconds(p.step_time_s), show_number(p.tokens_per_s, 0)};
    if (counts_tokens) row.push_back(show_count(whole_of(job, ranked).tokens));
    row.insert(row.end(),
               {show_percent(p.mfu), show_bytes(static_cast<double>(p.peak_memory_bytes))});
    if (p.framework) row.push_back(show_bytes(static_cast<double>(p.framework->fit.bytes)));
    row.insert(row.end(), {money(p.usd_per_hour, 2), money(p.usd_per_million_tokens, 4),
                           runs_in(ranked.plan, job.model), ranked.pareto ? "yes" : ""});
    table.add(std::move(row));
  }
  return table;
}

constexpr int plans_on_screen = 5, plans_kept = 10;

int shown_plans(const Options& options) { return options.top.value_or(plans_kept); }
double margin_of(const Options& options) {
  return options.memory_margin.value_or(usual_memory_margin);
}

// Returns why plans were rejected, with the number of plans. With `why`, or for at most three
// reasons, there is a line for each reason, otherwise for each cause.
std::string rejected_text(const SearchResult& result, bool why) {
  constexpr std::pair<Cause, const char*> causes[] = {
      {Cause::slower, "slower than the plans found"},
      {Cause::memory, "need more memory than there is"},
      {Cause::limit, "miss the deadline or exceed the budget"},
      {Cause::rule, "combine what does not go together"}};
  if (result.rejected.empty()) return "";
  std::string text = "\nrejected:\n";
  constexpr std::size_t few = 3;
  if (why || result.rejected.size() <= few) {
    for (const Rejection& rejection : result.rejected)
      text += fmt::format("{:10}  {}\n", rejection.count, rejection.reason);
    return text;
  }
  for (const auto& [cause, words] : causes) {
    std::int64_t count = 0;
    for (const Rejection& rejection : result.rejected)
      if (rejection.cause == cause) count += rejection.count;
    if (count > 0) text += fmt::format("{:10}  {}\n", count, words);
  }
  return text + fmt::format("{:>10}  says more: {} reasons\n", "--why", result.rejected.size());
}

std::string gap_text(const SearchResult& result) {
  if (result.stopped) return "stopped before the end of the search: there may be better plans";
  if (result.proven_gap <= 0) return "no plan is better than the first (lower bounds)";
  return fmt::format("no plan is better than the first by more than {} (lower bounds)",
                     show_percent(result.proven_gap));
}

// Returns a line on the best plan.
std::string best_text(const Job& job, const RankedPlan& best) {
  const Prediction& p = best.prediction;
  std::string text = fmt::format("best: {} on {} x {}: {} a step", short_plan_text(best.plan),
                                 best.count, best.machine, show_seconds(p.step_time_s));
  if (p.interval)
    text += fmt::format(" ({} to {} with 80 % probability)", show_seconds(p.interval->low_s),
                        show_seconds(p.interval->high_s));
  if (p.usd_per_hour) text += fmt::format(", {}/h", money(p.usd_per_hour, 2));
  return text + ", runs in " + runs_in(best.plan, job.model) + "\n";
}

void print_result(const Planned& all, const Options& options) {
  const auto& [job, result, opened, elsewhere, near_batch] = all;
  const int top = options.top.value_or(plans_on_screen);
  print_to(stdout, "{}: {} candidates, {} simulated, {}\n\n{}", job.name,
           result.candidates_enumerated, result.candidates_simulated,
           show_seconds(result.search_wall_s), table_of(job, result, top).text());
  if (std::ssize(result.plans) > top)
    print_to(stdout, "({} more: --top {})\n", std::ssize(result.plans) - top, result.plans.size());
  print_to(stdout, "{}\n", rejected_text(result, options.why));
  print_to(stdout, "{}", elsewhere_text(elsewhere));
  if (near_batch) print_to(stdout, "{}\n", near_batch_text(*near_batch));
  if (!opened.empty()) print_to(stdout, "nothing fits without {}\n", opened_text(opened));
  print_to(stdout, "{}\n{} of each GPU's memory is left free (--memory-margin)\n", gap_text(result),
           show_percent(margin_of(options)));
  const RankedPlan& best = result.plans.front();
  if (has_length(job)) print_to(stdout, "{}", start_text(whole_of(job, best)));
  print_to(stdout, "{}{}", loading_text(job, best.plan, best.cluster, best.prediction),
           best_text(job, best));
}

Compiled compile_ranked(const Job& job, const RankedPlan& ranked) {
  return compile(job.model, ranked.plan, target_of(ranked.cluster, ranked.plan.training));
}

// Draws time against money for the plans that have a price: those of the whole run, or those of a
// step if the job does not say how long it is.
void add_times_and_costs(HtmlPage& page, const Job& job, const SearchResult& result) {
  std::vector<HtmlPage::Point> points;
  bool is_whole = true;
  for (const RankedPlan& ranked : result.plans) {
    const Prediction& p = ranked.prediction;
    const auto whole = steps_in_a_row(job, ranked.plan.training, ranked.cluster, p.step_time_s);
    is_whole = whole.has_value();
    if (!p.usd_per_hour || (whole && !whole->bill)) continue;
    constexpr double hour = 3600;
    const double time_s = whole ? whole->time_s / hour : p.step_time_s;
    const double usd = whole ? whole->bill->usd : p.step_time_s * *p.usd_per_hour / hour;
    points.push_back(
        {fmt::format("{} x {}: {}", ranked.count, ranked.machine, short_plan_text(ranked.plan)),
         time_s, usd, ranked.pareto});
  }
  if (points.empty()) return;
  page.heading("Time against money");
  page.points(is_whole ? "The whole run of each plan. Plans in the other colour are pareto."
                       : "A step of each plan. Plans in the other colour are pareto.",
              {is_whole ? "hours" : "seconds", "US dollars"}, points);
}

void write_report(const Options& options, const Job& job, const SearchResult& result, int top) {
  HtmlPage page(job.name + ": plans");
  page.paragraph(fmt::format("{} candidates, {} simulated, {}", result.candidates_enumerated,
                             result.candidates_simulated, show_seconds(result.search_wall_s)));
  page.table(table_of(job, result, top));
  const RankedPlan& best = result.plans.front();
  add_times_and_costs(page, job, result);
  const Compiled compiled = compile_ranked(job, best);
  add_prediction(page, job.model, compiled, best.cluster, best.prediction);
  add_whole_run(page, job, best.plan.training, best.cluster, best.prediction,
                whole_run(job, compiled, best.cluster, best.prediction));
  Table rejected({"rejected because", "plans"});
  for (const Rejection& rejection : result.rejected)
    rejected.add({rejection.reason, std::to_string(rejection.count)});
  page.heading("Rejected");
  page.table(rejected);
  write_file(options.report, page.text());
}

void write_partition(const Job& job, const RankedPlan& best, const std::string& path) {
  write_file(
      path,
      partition_json(compile_ranked(job, best).graph, best.plan.stage_of_unit).dump(2) + "\n");
}

// Sets the options of --prove: the search goes on until no other plan can be better by more than 2
// %, or until the process is asked to stop. If standard error is a terminal, the search shows its
// progress there.
void prove_too(SearchOptions& options) {
  constexpr double small_enough = 0.02;
  options.prove_gap = small_enough;
  const bool on_terminal = isatty(fileno(stderr)) != 0;
  options.go_on = [on_terminal](const SearchProgress& progress) {
    if (on_terminal)
      print_to(stderr, "\r{} simulated, gap {}   ", progress.simulated, show_percent(progress.gap));
    return !stop_requested();
  };
}

// Searches the job's plans. Once `stop` returns true, the search ends with what it has found.
Planned planned(const Options& given, const Watch& watch, std::function<bool()> stop = {}) {
  const Options options = with_largest_model(given, watch);
  Planned all{job_to_search(options, watch), {}, {}, {}, {}};
  const std::vector<std::string> inputs = inputs_of(options, all.job);
  check_writable("--write", options.write, inputs);
  check_writable("--write-partition", options.write_partition, inputs);
  check_writable("--report", options.report, inputs);
  SearchOptions search_options;
  search_options.keep_best = shown_plans(options);
  search_options.load = asked_machines(options, watch);
  search_options.stop = std::move(stop);
  if (!options.prove) search_options.watch = watch.search;
  search_options.memory_margin = margin_of(options);
  if (options.prove) prove_too(search_options);
  warn_of_prices(all.job, search_options.load, watch);
  auto [result, opened] = search_left_out(all.job, search_options);
  all.result = std::move(result);
  all.opened = std::move(opened);
  if (options.prove && isatty(fileno(stderr)) != 0) print_to(stderr, "\n");
  const std::span<const RankedPlan> plans = all.result.plans;
  if (all.result.stopped) return all;
  if (!plans.empty()) all.near_batch = near_batch(all.job, plans.front(), search_options);
  all.elsewhere = best_elsewhere(
      search_request(options), all.job,
      plans.first(std::min(plans.size(), static_cast<std::size_t>(shown_plans(options)))),
      search_options);
  return all;
}

// Writes the report, the resolved job and the partition to the files that the options name.
void write_files(const Options& options, const Planned& all, const Watch& watch) {
  const RankedPlan& best = all.result.plans.front();
  if (!options.report.empty()) write_report(options, all.job, all.result, shown_plans(options));
  if (!options.write.empty()) {
    write_job_file(all.job, best.plan, best.machine, best.count, options.write);
    watch.note("wrote " + options.write);
  }
  if (!options.write_partition.empty()) {
    write_partition(all.job, best, options.write_partition);
    watch.note("wrote " + options.write_partition);
  }
}

std::string json_of(const Options& options, const Planned& all) {
  return json_text(result_json(all, margin_of(options), options.today), true);
}

int run_plan(const Options& options) {
  watch_for_stop();
  const Planned all = planned(options, shown_watch(), stop_requested);
  if (options.json) print_text(json_of(options, all));
  if (all.result.plans.empty() && all.result.stopped) throw StopRequested();
  if (all.result.plans.empty()) throw NoPlanFits(miss_text(all.result, margin_of(options)));
  if (!options.json) print_result(all, options);
  write_files(options, all, printed_watch());
  return all.result.stopped ? stopped : done;
}

std::string answer_plan(const Options& options, const Watch& watch) {
  const Planned all = planned(options, watch, watch.stop);
  const std::string answer = json_of(options, all);
  if (all.result.stopped) throw StoppedSearch(answer);
  if (all.result.plans.empty()) throw NoPlanFits(miss_text(all.result, margin_of(options)), answer);
  write_files(options, all, watch);
  return answer;
}

}  // namespace

const Command plan_command = {
    "plan",
    "JOB",
    job_help,
    "search for the best plan of a job on its clusters",
    "json wide why model task tokens batch length on count set for by budget profile "
    "measure-afresh prices write "
    "write-partition report top "
    "prove memory-margin",
    run_plan,
    "Searches over all that the job leaves open with \"auto\" and lists, ranks the plans, and says "
    "why others were rejected. `--by` and `--budget` ask for the cheapest plan that is done in "
    "time, "
    "and for what the money buys. Under the list stands how much better any other plan could be at "
    "most.",
    answer_plan};

}  // namespace meshwright::tools
