#include "sim/advise/shortfall.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/planner/search_until_fits.h"
#include "sim/predict/goodput.h"

namespace meshwright::sim {

namespace {

std::string duration(double seconds) {
  if (seconds >= 2 * 86400) return fmt::format("{:.1f} days", seconds / 86400);
  return seconds >= 3600 ? fmt::format("{:.1f} h", seconds / 3600)
                         : fmt::format("{:.1f} min", seconds / 60);
}

std::string dollars(double usd) { return fmt::format("${:.0f}", usd); }

std::string cluster_text(const Rung& rung) {
  return fmt::format("{} x {}", rung.hosts, rung.machine);
}

double usd_of(const Rung& rung) { return rung.whole->bill->usd; }
double time_of(const Rung& rung) { return rung.whole->time_s; }

std::string rung_text(const Rung& rung) {
  return fmt::format("{}, {}{}", cluster_text(rung), duration(time_of(rung)),
                     rung.whole->bill ? ", " + dollars(usd_of(rung)) : "");
}

// Returns the rung with the least `value` among those that have a plan and a whole job, and for
// which `counts` is true. Returns null if there is none.
template <class Counts, class Value>
const Rung* least(const std::vector<Ladder>& ladders, const Counts& counts, const Value& value) {
  const Rung* found = nullptr;
  for (const Ladder& ladder : ladders)
    for (const Rung& rung : ladder.rungs)
      if (rung.best && rung.whole && counts(rung) &&
          (found == nullptr || value(rung) < value(*found)))
        found = &rung;
  return found;
}

std::string beyond_limits(const Job& job, const LadderOptions& options) {
  Job free = job;
  free.objective.budget_usd.reset();
  free.objective.deadline_s.reset();
  free.objective.minimize = job.objective.budget_usd ? Minimize::usd : Minimize::step_time;
  const std::vector<Ladder> all = ladders(free, options);
  const auto any = [](const Rung&) { return true; };
  const auto has_price = [](const Rung& rung) { return rung.whole->bill.has_value(); };
  const Rung* cheapest = least(all, has_price, usd_of);
  const Rung* fastest = least(all, any, time_of);
  if (fastest == nullptr) return {};
  std::string text;
  const auto& [budget, deadline] = std::pair(job.objective.budget_usd, job.objective.deadline_s);
  if (budget && cheapest != nullptr && usd_of(*cheapest) > *budget)
    text += fmt::format("exceeds the budget by {}: the cheapest is {}\n",
                        dollars(usd_of(*cheapest) - *budget), rung_text(*cheapest));
  if (deadline && time_of(*fastest) > *deadline)
    text += fmt::format("misses the deadline by {}: the fastest is {}\n",
                        duration(time_of(*fastest) - *deadline), rung_text(*fastest));
  if (!text.empty() || !budget || !deadline) return text;
  const Rung* soon = least(
      all, [&](const Rung& rung) { return has_price(rung) && time_of(rung) <= *deadline; }, usd_of);
  const Rung* cheap = least(
      all, [&](const Rung& rung) { return has_price(rung) && usd_of(rung) <= *budget; }, time_of);
  if (soon != nullptr && cheap != nullptr)
    text = fmt::format(
        "no plan keeps both limits: before the deadline the cheapest is {}; within the budget the "
        "fastest is {}\n",
        rung_text(*soon), rung_text(*cheap));
  return text;
}

// Returns a number of hosts of the machine on which a plan fits, or nothing if no tried number up
// to 8 times the hosts of `most` is enough. It need not be the smallest one, because only six
// numbers are tried.
std::optional<int> enough_hosts(const Job& job, const Rung& most, const SearchOptions& options) {
  int before = most.hosts;
  for (const double factor : {1.5, 2.0, 3.0, 4.0, 6.0, 8.0}) {
    const int hosts = std::max(before + 1, static_cast<int>(factor * most.hosts));
    before = hosts;
    Job larger = job;
    larger.cluster.machines = {most.machine};
    larger.cluster.counts = {hosts};
    larger.autos.erase("cluster.machine");
    larger.autos.erase("cluster.count");
    larger.autos.insert("parallelism.data");
    try {
      if (!search_left_out(larger, options).result.plans.empty()) return hosts;
    } catch (const InputError&) {  // such as degrees that do not divide the ranks
    }
  }
  return std::nullopt;
}

// Returns a line for each machine whose largest rung has no plan, but a closest miss in memory. The
// last rung of a ladder has the most GPUs that the job allows.
std::string beyond_memory(const Job& job, const std::vector<Ladder>& climbed,
                          const LadderOptions& options) {
  std::string text;
  constexpr std::size_t most_machines = 3;
  for (const Ladder& ladder : climbed) {
    const Rung& most = ladder.rungs.back();
    if (!most.closest_miss || most.best) continue;
    text += fmt::format("no plan fits {} {}", most.gpus(), most.machine);
    if (climbed.size() <= most_machines) {
      const auto hosts = enough_hosts(job, most, options.search);
      text +=
          hosts ? fmt::format(": {} would do ({} hosts)", *hosts * most.processes_per_host, *hosts)
                : ", and 8 times as many do not hold it either";
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string shortfall(const Job& job, const std::vector<Ladder>& climbed,
                      const LadderOptions& options) {
  if (job.objective.minimize != Minimize::tokens &&
      (job.objective.budget_usd || job.objective.deadline_s))
    if (std::string text = beyond_limits(job, options); !text.empty()) return text;
  return beyond_memory(job, climbed, options);
}

}  // namespace meshwright::sim
