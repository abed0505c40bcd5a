#include "tools/report/advice_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

std::string whole_cost(const Rung& rung) {
  return rung.whole && rung.whole->bill ? show_usd(rung.whole->bill->usd) : "-";
}

// Returns the interval of the whole run's time, from that of its step, or the interval of the step
// if the job has no length. Returns "-" if the prediction has no interval.
std::string interval_text(const Rung& rung) {
  const Prediction& p = rung.best->prediction;
  if (!p.interval) return "-";
  if (!rung.whole)
    return fmt::format("{} to {}", show_seconds(p.interval->low_s),
                       show_seconds(p.interval->high_s));
  const double start_s = rung.whole->start.total_s();
  const double scale = (rung.whole->time_s - start_s) / p.step_time_s;
  return fmt::format("{} to {}", show_duration(start_s + p.interval->low_s * scale),
                     show_duration(start_s + p.interval->high_s * scale));
}

// Returns the best rung of the ladder besides the chosen one, or null.
const Rung* next_best(const Job& job, const Ladder& ladder) {
  const Rung* found = nullptr;
  for (const Rung& rung : ladder.rungs)
    if (rung.best && &rung != ladder.chosen() &&
        (found == nullptr || merit_of(job, rung) < merit_of(job, *found)))
      found = &rung;
  return found;
}

std::string next_text(const Job& job, const Ladder& ladder) {
  const Rung* const next = next_best(job, ladder);
  if (next == nullptr) return "-";
  const std::string gpus = fmt::format("{} GPUs", next->gpus());
  if (!next->whole)
    return fmt::format("{}: {}", gpus, show_seconds(next->best->prediction.step_time_s));
  return fmt::format("{}: {}, {}", gpus, show_duration(next->whole->time_s), whole_cost(*next));
}

}  // namespace

std::string cluster_text(const Rung& rung) {
  return fmt::format(
      "{} x {}{}", rung.hosts, rung.machine,
      rung.processes_per_host != rung.gpus_per_host
          ? fmt::format(" ({} of {} GPUs)", rung.processes_per_host, rung.gpus_per_host)
          : "");
}

std::string price_text(const Rung& rung) {
  const auto& price = rung.best->prediction.price;
  return price ? fmt::format("prices: {}\n", describe(*price)) : "";
}

std::string machines_text(const Job& job, const Advice& advice) {
  std::vector<const Ladder*> order, without;
  for (const Ladder& ladder : advice.ladders) (ladder.stop ? order : without).push_back(&ladder);
  std::ranges::stable_sort(order, [&](const Ladder* one, const Ladder* other) {
    return merit_of(job, *one->chosen()) < merit_of(job, *other->chosen());
  });
  const bool has_whole = has_length(job);
  const bool counts_tokens = job.objective.minimize == Minimize::tokens;
  std::vector<std::string> head = {"best of each machine", has_whole ? "time" : "step"};
  if (counts_tokens) head.emplace_back("tokens");
  head.insert(head.end(), {has_whole ? "$" : "$/M tokens", "eight in ten", "next best"});
  Table table(head);
  table.may_break("next best");
  table.may_lack({"eight in ten"});
  for (const Ladder* ladder : order) {
    const Rung& rung = *ladder->chosen();
    const Prediction& p = rung.best->prediction;
    std::vector<std::string> row = {cluster_text(rung), rung.whole
                                                            ? show_duration(rung.whole->time_s)
                                                            : show_seconds(p.step_time_s)};
    if (counts_tokens) row.push_back(rung.whole ? show_count(rung.whole->tokens) : "-");
    row.push_back(has_whole                  ? whole_cost(rung)
                  : p.usd_per_million_tokens ? fmt::format("${:.4f}", *p.usd_per_million_tokens)
                                             : "-");
    row.push_back(interval_text(rung));
    row.push_back(next_text(job, *ladder));
    table.add(std::move(row));
  }
  std::string text = order.empty() ? "" : table.text();
  if (!without.empty() && !order.empty()) {
    std::vector<std::string> names;
    for (const Ladder* ladder : without) names.push_back(ladder->machine);
    text += fmt::format("no plan on {}\n", fmt::join(names, ", "));
  }
  return text + "--all shows every rung and why each ladder stops\n\n";
}

}  // namespace meshwright::tools
