#include "sim/advise/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "hwprofiles/cores.h"
#include "models/core/error.h"
#include "models/program/graph/graph.h"
#include "sim/compile/largest_batch.h"
#include "sim/planner/in_parallel.h"
#include "sim/planner/profile.h"
#include "sim/planner/search_until_fits.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

struct Place {
  int hosts = 1, processes_per_host = 1;
};

std::vector<Place> places(const ClusterRequest& request, int gpus_per_host) {
  const int per_host = request.processes_per_host > 0 ? request.processes_per_host : gpus_per_host;
  std::vector<Place> result;
  if (per_host > 1) result.push_back({1, 1});
  const std::vector<int> given = counts_of(request);
  std::set<int> counts(given.begin(), given.end());
  counts.insert(1);
  if (given.size() == 1)
    for (int count = 2; count < given.front(); count *= 2) counts.insert(count);
  for (const int count : counts) result.push_back({count, per_host});
  return result;
}

Job job_at(const Job& job, const std::string& machine, Place place) {
  Job at = job;
  at.cluster.machines = {machine};
  at.cluster.counts = {place.hosts};
  at.cluster.processes_per_host = place.processes_per_host;
  at.autos.insert("parallelism.data");
  return at;
}

// Returns the result of `how`, which searches the plans of a rung. If the search throws InputError,
// say because the degrees that the job fixes do not divide the number of GPUs, the rung has no
// plans and the message is its reason.
FittingSearch search_at(const std::function<FittingSearch()>& how) {
  try {
    return how();
  } catch (const InputError& error) {
    FittingSearch none;
    none.result.rejected.push_back({error.what(), 1});
    return none;
  }
}

JobOnCluster run_of(const Job& job, const RankedPlan& plan) {
  return {job, plan.plan.training, plan.cluster};
}

Merit merit_of(const Job& job, const RankedPlan& plan) {
  return run_of(job, plan).merit(useful_step_time_s(plan.prediction));
}

// Returns the least bytes that the weights take on each GPU of a rung: 16 bits per parameter,
// stored only once across all GPUs.
double least_weights_bytes(double parameters, const Rung& rung) {
  return 2 * parameters / rung.gpus();
}

// Searches the plans of a rung. `parameters` is the number of parameters of the job's model, or 0
// if it is unknown. If the weights alone exceed the memory of the GPUs, nothing is searched.
void find_best(Rung& rung, const Job& job, double parameters, const SearchOptions& options) {
  const double memory = options.load(rung.machine).gpu.memory_bytes;
  if (const double least = least_weights_bytes(parameters, rung); least > memory) {
    constexpr double gib = 1024.0 * 1024 * 1024;
    rung.reason = fmt::format(
        "does not fit in memory: the weights alone take {:.1f} GiB of each GPU's {:.1f} GiB",
        least / gib, memory / gib);
    return;
  }
  const Job at = job_at(job, rung.machine, {rung.hosts, rung.processes_per_host});
  auto [found, opened] = search_at(
      [&] { return search_until_fits(at, options, [](std::string_view) { return true; }); });
  rung.opened = std::move(opened);
  if (!found.plans.empty()) {
    rung.best = std::move(found.plans.front());
    return;
  }
  rung.reason = found.stopped            ? "not searched to its end: stopped"
                : found.rejected.empty() ? "nothing to try"
                                         : found.rejected.front().reason;
  rung.closest_miss = found.closest_miss;
}

// Returns the number of parameters of the job's model. It is 0, for unknown, if the model is
// captured or if memory is predicted for another framework, because their weights may be stored
// differently.
double parameters_of(const Job& job) {
  if (job.model.captured || job.plan.training.memory_of != MemoryOf::engine) return 0;
  Training alone = job.plan.training;
  alone.micro_batch = 1;
  return static_cast<double>(parameter_count(build_graph(job.model, alone)));
}

// Tries the plan of another rung with as many replicas as this rung has GPUs for, because a search
// that simulates few plans may have missed it. Keeps the result if it is better than the rung's
// best plan. Does nothing unless both rungs have a plan and opened the same keys.
void follow(Rung& rung, const Rung& other, const Job& job, const SearchOptions& options) {
  if (!rung.best || !other.best || rung.opened != other.opened) return;
  Job same = job_at(job, rung.machine, {rung.hosts, rung.processes_per_host});
  same.plan.parallelism = other.best->plan.parallelism;
  same.plan.training = reopened(other.best->plan, job.plan.training).training;
  same.autos = {"parallelism.data"};
  SearchResult found = search_at([&] { return FittingSearch{search(same, options), {}}; }).result;
  if (!found.plans.empty() && merit_of(job, found.plans.front()) < merit_of(job, *rung.best))
    rung.best = std::move(found.plans.front());
}

void follow_each_other(std::vector<Rung>& rungs, const Job& job, const SearchOptions& options) {
  for (std::size_t i = 1; i < rungs.size(); ++i) follow(rungs[i], rungs[i - 1], job, options);
  for (std::size_t i = rungs.size(); i-- > 1;) follow(rungs[i - 1], rungs[i], job, options);
}

void describe(Rung& rung, const Job& job) {
  const RankedPlan& best = *rung.best;
  const Compiled compiled =
      compile(job.model, best.plan, target_of(best.cluster, best.plan.training));
  Timeline timeline;
  const Prediction prediction = predict(compiled, best.cluster, {.timeline = &timeline});
  rung.parts = step_parts(compiled, best.cluster, prediction, timeline);
  rung.loads =
      group_loads(compiled, prediction, rung.parts, timeline, build_topology(best.cluster));
  if (has_length(job)) rung.whole = run_of(job, best).whole(useful_step_time_s(best.prediction));
  rung.largest =
      largest_micro_batch(job.model, reopened(best.plan, job.plan.training), best.cluster);
}

// Sets the efficiencies of all rungs with a plan. The baseline is the first of them whose optimizer
// states stay on the GPUs. A rung that fits only by offloading them is slow for that reason, so
// that all others would seem better than they are. If all rungs with a plan offload them, the
// baseline is the first of these.
void compare(std::vector<Rung>& rungs) {
  const auto stays = [](const Rung& of) {
    return of.best->plan.parallelism.offload != Offload::optimizer;
  };
  const auto speed = [](const Rung& of) { return of.best->prediction.tokens_per_s; };
  const auto each = [&](const Rung& of) { return speed(of) / of.gpus(); };
  const Rung *first = nullptr, *last = nullptr;
  for (const Rung& rung : rungs)
    if (rung.best && (first == nullptr || (!stays(*first) && stays(rung)))) first = &rung;
  for (Rung& rung : rungs) {
    if (!rung.best) continue;
    rung.efficiency = each(rung) / each(*first);
    if (last != nullptr && stays(*last))
      rung.added_efficiency =
          (speed(rung) - speed(*last)) / (rung.gpus() - last->gpus()) / each(*last);
    last = &rung;
  }
}

std::string gpus_text(const Rung& rung) {
  return fmt::format("{} GPU{}", rung.gpus(), rung.gpus() == 1 ? "" : "s");
}

// Returns a share as a number of percent, without "%": "91", or with one decimal if it is below
// 9.95 %, "1.4".
std::string percent(double share) {
  return fmt::format("{:.{}f}", 100 * share, std::abs(share) < 0.0995 ? 1 : 0);
}

// Chooses the rung to rent, the one with the best merit. If the objective is the step time, stops
// before the first faster rung at which the added GPUs bring too little.
void choose(Ladder& ladder, const Job& job, const LadderOptions& options) {
  const std::vector<Rung>& rungs = ladder.rungs;
  const Objective& objective = job.objective;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    if (!rungs[i].best) continue;  // no plan fits and keeps the deadline and the budget
    if (!ladder.stop) {
      ladder.stop = i;
      continue;
    }
    const Rung& chosen = rungs[*ladder.stop];
    if (!(merit_of(job, rungs[i]) < merit_of(job, chosen))) continue;
    const bool soon = objective.minimize == Minimize::step_time;
    const double added = rungs[i].added_efficiency;
    if (soon && added < options.worthwhile) {
      ladder.reason =
          fmt::format("stop at {}: the next {} would bring {} % of what as many bring now; {}",
                      gpus_text(chosen), rungs[i].gpus() - chosen.gpus(),
                      percent(std::max(0.0, added)), what_breaks(chosen, rungs[i]));
      return;
    }
    ladder.stop = i;
  }
  if (!ladder.stop) {
    ladder.reason = "no rung has a plan that fits and keeps the deadline and the budget";
    return;
  }
  const Rung& chosen = rungs[*ladder.stop];
  const auto next =
      std::ranges::find_if(rungs.begin() + static_cast<std::ptrdiff_t>(*ladder.stop) + 1,
                           rungs.end(), [](const Rung& rung) { return rung.best.has_value(); });
  if (next == rungs.end()) {
    ladder.reason = fmt::format("{} {} the most that the job allows", gpus_text(chosen),
                                chosen.gpus() == 1 ? "is" : "are");
    if (chosen.efficiency != 1)
      ladder.reason += fmt::format(", and those added last still bring {} % of what the others do",
                                   percent(chosen.added_efficiency));
  } else {
    ladder.reason = fmt::format("stop at {}: {}", gpus_text(chosen), what_breaks(chosen, *next));
  }
}

std::string load_text(const GroupLoad& load) {
  const auto text = [](SimTime time) {
    const double seconds = to_seconds(time).value;
    return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
  };
  return fmt::format(
      ", as {:.3g} GB per GPU take {} (the slowest link on their way: {}, {:.3g} GB/s), and only "
      "{} "
      "of them hide",
      load.bytes / 1e9, text(load.needed), load.link == "network" ? "the network" : load.link,
      load.link_bytes_per_s / 1e9, text(std::max(SimTime{0}, load.needed - load.exposed)));
}

}  // namespace

Merit merit_of(const Job& job, const Rung& rung) { return merit_of(job, *rung.best); }

const Ladder* best_of(const std::vector<Ladder>& ladders, const Job& job) {
  const auto merit_at = [&](const Ladder& ladder) { return merit_of(job, *ladder.chosen()); };
  const Ladder* best = nullptr;
  for (const Ladder& ladder : ladders)
    if (ladder.stop && (best == nullptr || merit_at(ladder) < merit_at(*best))) best = &ladder;
  return best;
}

std::string what_breaks(const Rung& smaller, const Rung& larger) {
  const auto share = [](const Rung& rung, std::size_t i) {
    return static_cast<double>(rung.parts.parts[i].time) /
           static_cast<double>(rung.parts.step_time);
  };
  // Finds the part of the step whose share grows most.
  std::size_t most = 0;
  double growth = 0;
  for (std::size_t i = 0; i < smaller.parts.parts.size(); ++i) {
    const double grown = share(larger, i) - share(smaller, i);
    if (grown > growth) growth = grown, most = i;
  }
  const std::string before = percent(smaller.efficiency), after = percent(larger.efficiency);
  if (before == after)
    return fmt::format("from {} to {} GPUs efficiency stays at {} %", smaller.gpus(), larger.gpus(),
                       after);
  std::string text =
      fmt::format("from {} to {} GPUs efficiency {} from {} to {} %", smaller.gpus(), larger.gpus(),
                  larger.efficiency < smaller.efficiency ? "falls" : "goes", before, after);
  if (growth > 0)
    text += fmt::format(": {} grows from {} to {} % of the step", smaller.parts.parts[most].cause,
                        percent(share(smaller, most)), percent(share(larger, most)));
  for (const GroupLoad& load : larger.loads)
    if (growth > 0 && larger.parts.parts[most].cause == exposed_cause(load.group))
      text += load_text(load);
  return text;
}

std::vector<Ladder> ladders(const Job& job, const LadderOptions& options) {
  std::vector<Ladder> result;
  std::map<std::string, Machine> machines;
  for (const std::string& name : machines_of(job.cluster)) {
    const Machine& machine = machines.emplace(name, options.search.load(name)).first->second;
    Ladder& ladder = result.emplace_back();
    ladder.machine = name;
    for (const Place place : places(job.cluster, machine.gpus)) {
      Rung& rung = ladder.rungs.emplace_back();
      rung.machine = name;
      rung.hosts = place.hosts;
      rung.processes_per_host = place.processes_per_host;
      rung.gpus_per_host = machine.gpus;
    }
  }
  std::vector<Rung*> rungs;
  for (Ladder& ladder : result)
    for (Rung& rung : ladder.rungs) rungs.push_back(&rung);

  // Several searches run at once, each of them on a single thread. So `search` is a copy of the
  // options with one thread, and with the profiles of units shared by all searches.
  SearchOptions search = options.search;
  const int threads = search.threads > 0 ? search.threads : usable_cores();
  search.threads = 1;
  search.profiles = std::make_shared<SharedProfiles>();
  search.load = [&](const std::string& name) { return machines.at(name); };
  std::mutex watching;
  if (search.watch)
    search.watch = [&](const ClusterProgress& progress) {
      const std::lock_guard lock(watching);
      options.search.watch(progress);
    };
  const double parameters = parameters_of(job);
  in_parallel(rungs.size(), threads,
              [&](std::size_t i, std::size_t) { find_best(*rungs[i], job, parameters, search); });
  in_parallel(result.size(), threads,
              [&](std::size_t i, std::size_t) { follow_each_other(result[i].rungs, job, search); });
  in_parallel(rungs.size(), threads, [&](std::size_t i, std::size_t) {
    if (rungs[i]->best) describe(*rungs[i], job);
  });
  for (Ladder& ladder : result) {
    compare(ladder.rungs);
    choose(ladder, job, options);
  }
  return result;
}

}  // namespace meshwright::sim
