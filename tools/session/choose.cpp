#include "tools/session/choose.h"

#include <fmt/format.h>

#include <set>

#include "models/architectures/build_of_rank.h"
#include "models/core/error.h"
#include "sim/planner/search_until_fits.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"
#include "tools/interop/expressible.h"
#include "tools/session/plan_text.h"
#include "tools/session/text.h"

namespace meshwright::session {

std::string miss_text(const SearchResult& search, double memory_margin) {
  std::string text = "no plan fits";
  if (search.closest_miss) {
    const ClosestMiss& miss = *search.closest_miss;
    text += fmt::format(": the closest needs {} too much for {} on {} x {} ({})",
                        show_bytes(miss.peak_memory_bytes - miss.memory_limit_bytes),
                        show_bytes(miss.memory_limit_bytes), miss.count, miss.machine,
                        short_plan_text(miss.plan));
    if (memory_margin > 0)
      text += fmt::format(", {} of each GPU's memory left free (--memory-margin)",
                          show_percent(memory_margin));
  }
  for (const Rejection& rejection : search.rejected)
    text += fmt::format("\n  {:>8}  {}", rejection.count, rejection.reason);
  return text;
}

// Returns whether the job needs a search. It needs none for the data degree, which follows from the
// number of ranks, or for precision and attention, which follow from the machine.
bool leaves_a_choice(const Job& job) {
  for (const std::string& key : job.autos)
    if (key != "parallelism.data" && key != "training.precision" && key != "training.attention")
      return true;
  return false;
}

namespace {

// Throws InputError if several hosts are asked for without a network, because a profile of this
// computer has none.
void check_network(const Job& job, const Cluster& cluster) {
  if (cluster.hosts > 1 && cluster.machine.shared_memory && !cluster.network_override)
    throw InputError(fmt::format(
        "{}: /cluster/count: {} hosts of {} need a network; give cluster.network, or use 1",
        job.file, cluster.hosts, cluster.machine.name));
}

// Returns whether at most the micro-batch is left to the planner. If no micro-batch of such a job
// fits, its given plan is simulated nevertheless.
bool only_micro_batch_is_open(const Job& job) {
  Job closed = job;
  closed.autos.erase("training.micro_batch");
  return !leaves_a_choice(closed);
}

// Compiles the plan. Error messages name a key of the job, and the job's file is put before them.
void compile_chosen(const Job& job, const Plan& plan, Chosen& chosen) {
  try {
    chosen.compiled = compile(job.model, plan, target_of(chosen.cluster, plan.training));
    chosen.framework = framework_use(job.model, plan.training, chosen.cluster);
  } catch (const InputError& error) {
    throw_in_file(job.file, error);
  }
}

// Returns the plan that the job gives, and sets machine and cluster of `chosen`. Throws InputError
// if the framework cannot express the plan.
Plan given_plan(const Job& job, const MachineLoader& load, Chosen& chosen) {
  chosen.machine = machines_of(job.cluster).front();
  chosen.count = counts_of(job.cluster).front();
  const Machine machine = load(chosen.machine);
  chosen.cluster = make_cluster(job.cluster, machine, chosen.count);
  check_network(job, chosen.cluster);
  const Plan plan = settle(job, chosen.cluster.ranks(), facts_of(machine));
  const Framework framework = job.plan.training.framework;
  try {
    check_expressible(framework, plan, job.model);
  } catch (const InputError& error) {
    throw InputError(job.file + ": " + error.what());
  }
  return as_run_by(framework, plan, job.model);
}

}  // namespace

Prediction predict_chosen(const Job& job, const Chosen& chosen, Timeline* timeline) {
  try {
    Prediction prediction = predict(
        chosen.compiled, chosen.cluster,
        {.price = &job.objective.price, .framework = chosen.framework, .timeline = timeline});
    prediction.goodput =
        goodput_of(chosen.compiled, chosen.cluster,
                   job.checkpoint ? job.checkpoint->every_steps : 0, prediction.step_time_s);
    return prediction;
  } catch (const InputError& error) {
    throw InputError(job.file + ": " + error.what());
  }
}

// Returns a text such as "; for own there is a price (objective.price)". It names the kinds of
// prices that all of `machines` have in the region, or is "" if there are none.
std::string other_kinds(const std::vector<Machine>& machines, const std::string& region) {
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < price_kind_names().size(); ++i) {
    const PriceChoice choice{static_cast<PriceKind>(i), region};
    if (std::ranges::all_of(machines, [&](const Machine& machine) {
          Cluster cluster;
          cluster.machine = machine;
          return usd_per_hour(cluster, choice).has_value();
        }))
      kinds.push_back(price_kind_names()[i]);
  }
  return kinds.empty() ? ""
                       : "; for " + list_of(kinds, "and") + " there is a price (objective.price)";
}

void check_region(const Job& job, const MachineLoader& load) {
  const std::string& region = job.objective.price.region;
  if (region.empty()) return;
  std::set<std::string> known;
  for (const std::string& name : machines_of(job.cluster))
    for (const Price& price : load(name).prices)
      if (!price.region.empty()) known.insert(price.region);
  if (known.empty() || known.contains(region)) return;
  throw InputError(fmt::format(
      "{}: /objective/region: no price in '{}' is known for these machines, only in {}; "
      "--prices FILE adds others",
      job.file, region, list_of({known.begin(), known.end()}, "and")));
}

void warn_of_prices(const Job& job, const MachineLoader& load, const Watch& watch) {
  check_region(job, load);
  const Objective& objective = job.objective;
  const bool ranks_by_usd =
      objective.minimize == Minimize::usd || objective.minimize == Minimize::usd_per_token;
  if (!ranks_by_usd && !objective.budget_usd) return;
  const std::vector<std::string> machines = machines_of(job.cluster);
  std::vector<std::string> without;
  std::vector<Machine> loaded;
  for (const std::string& name : machines) {
    Cluster cluster;
    cluster.machine = load(name);
    if (usd_per_hour(cluster, objective.price)) continue;
    without.push_back(name);
    loaded.push_back(cluster.machine);
  }
  if (without.empty()) return;
  const bool all = without.size() == machines.size();
  const std::string& region = objective.price.region;
  watch.warn(fmt::format("{}: /objective: {} {} no {} price{}: {}{}", job.file,
                         list_of(without, "and"), without.size() == 1 ? "has" : "have",
                         words_of(objective.price.kind), region.empty() ? "" : " in " + region,
                         objective.budget_usd ? "no plan on it keeps budget_usd"
                         : all                ? "plans are ranked by step time, not by money"
                                              : "its plans come last",
                         other_kinds(loaded, region)));
}

Chosen choose_plan(const Job& job, const MachineLoader& load, const Watch& watch,
                   LeftOut left_out) {
  Chosen chosen;
  check_region(job, load);
  if (leaves_a_choice(job)) {
    warn_of_prices(job, load, watch);
    SearchOptions options;
    options.load = load;
    options.watch = watch.search;
    options.stop = watch.stop;
    options.memory_margin = usual_memory_margin;  // as in `plan`
    const auto find = [&] {
      return left_out == LeftOut::is_open ? search_left_out(job, options).result
                                          : search(job, options);
    };
    chosen.search = find();
    if (chosen.search->plans.empty() && !chosen.search->stopped) {
      options.memory_margin = 0;
      chosen.search = find();
    }
    if (chosen.search->stopped) throw StoppedSearch();
    if (chosen.search->plans.empty() && !only_micro_batch_is_open(job))
      throw NoPlanFits(miss_text(*chosen.search));
  }
  if (chosen.search && !chosen.search->plans.empty()) {
    const RankedPlan& best = chosen.search->plans.front();
    chosen.machine = best.machine;
    chosen.count = best.count;
    chosen.cluster = best.cluster;
    compile_chosen(job, best.plan, chosen);
    return chosen;
  }
  compile_chosen(job, given_plan(job, load, chosen), chosen);
  return chosen;
}

void tell_defaults(const Job& job, const Chosen& chosen, const Watch& watch) {
  const std::string text = defaults_text(job, chosen.compiled.plan);
  if (text.empty()) return;
  watch.note(
      fmt::format("note: {}: left out, so by default: {}; `meshwright plan` looks for better ones",
                  job.file, text));
}

Chosen plan_with_programs(const Job& job, const MachineLoader& load, std::vector<Program> programs,
                          const std::string& where) {
  Chosen chosen;
  Compiled& compiled = chosen.compiled;
  compiled.plan = given_plan(job, load, chosen);
  const Training& training = compiled.plan.training;
  const Parallelism& p = compiled.plan.parallelism;
  compiled.graph =
      run_passes(build_graph_of_rank(job.model, training, p.tensor, p.sequence_parallel),
                 compiled.plan, device_facts(chosen.cluster, training.precision));
  chosen.framework = framework_use(job.model, training, chosen.cluster);
  take_programs(chosen, std::move(programs), where);
  return chosen;
}

void take_programs(Chosen& chosen, std::vector<Program> programs, const std::string& where) {
  const Plan& plan = chosen.compiled.plan;
  const Program& first = programs.front();
  Degrees degrees = plan.degrees(), of_programs = first.settings->degrees;
  degrees.shard = of_programs.shard = 1;  // it follows from the other degrees and ZeRO
  const bool same_mesh =
      of_programs == degrees && first.settings->placement == plan.parallelism.placement;
  if (!same_mesh || first.micro_batches != plan.micro_batches())
    throw InputError(fmt::format(
        "{}: the Programs are of pipeline {} x tensor {} x data {} x context {}, {} micro-batches, "
        "placement {}; the job's plan is {}; compile them again with the job",
        where, of_programs.pipeline, of_programs.tensor, of_programs.data, of_programs.context,
        first.micro_batches, first.settings->placement, short_plan_text(plan)));
  chosen.compiled.stages = std::move(programs);
}

}  // namespace meshwright::session
