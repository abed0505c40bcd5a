// Reads `faults`: slow ranks and degraded links, which a simulation assumes.
#include <fmt/format.h>

#include "models/core/enum_words.h"
#include "models/core/json.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

namespace {

// The largest factor by which a fault may slow something down. It keeps times in range.
constexpr double worst = 1e4;

const std::vector<std::string>& faulty_link_names() {
  static const std::vector<std::string> names =
      words_up_to<FaultyLink::network>({"nvlink", "pcie", "network"});
  return names;
}

double factor_of(Fields& fields, double low, double high) {
  const double factor = fields.required<double>("factor");
  if (!(factor >= low && factor <= high))
    fields.fail("factor", fmt::format("{} is out of range; use {} to {}", factor, low, high));
  return factor;
}

std::optional<int> index_if_given(Fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::nullopt;
  const int index = fields.required<int>(key);
  if (index < 0) fields.fail(key, fmt::format("{} is negative; count from 0", index));
  return index;
}

Faults::SlowRanks read_slow_ranks(Fields& fields) {
  Faults::SlowRanks slow;
  slow.rank = index_if_given(fields, "rank");
  slow.host = index_if_given(fields, "host");
  if (slow.rank.has_value() == slow.host.has_value())
    fields.fail("rank", slow.rank ? "given beside 'host'; keep one of them"
                                  : "missing; give the number of a rank, or 'host' for all of one");
  slow.factor = factor_of(fields, 1, worst);
  fields.done();
  return slow;
}

Faults::DegradedLink read_degraded_link(Fields& fields) {
  Faults::DegradedLink degraded;
  fields.required<std::string>("link");
  take_word(fields, "link", "link", faulty_link_names(), degraded.link);
  degraded.host = index_if_given(fields, "host");
  degraded.factor = factor_of(fields, 1 / worst, 1);
  fields.done();
  return degraded;
}

void read_all_slow_ranks(Fields& faults, Job& job) {
  for (Fields& each : faults.objects("slow_ranks"))
    job.cluster.faults.slow_ranks.push_back(read_slow_ranks(each));
}

void read_degraded_links(Fields& faults, Job& job) {
  for (Fields& each : faults.objects("degraded_links"))
    job.cluster.faults.degraded_links.push_back(read_degraded_link(each));
}

void check_index(const Fields& fields, std::string_view key, std::optional<int> index, int end,
                 std::string_view what) {
  if (index && *index >= end)
    fields.fail(key, fmt::format("{} is not a {} of this job; use 0 to {}", *index, what, end - 1));
}

void check_link(const Fields& fields, FaultyLink link, const ChosenCluster& cluster, Job& job) {
  if (link == FaultyLink::network) {
    if (cluster.hosts == 1)
      warn(job, fields, "link", "no effect: nothing crosses the network of a single host");
  } else if (cluster.facts.is_cpu) {
    fields.fail("link",
                fmt::format("'{}' links GPUs, and {} has none; use 'network'",
                            faulty_link_names()[static_cast<std::size_t>(link)], cluster.machine));
  } else if (link == FaultyLink::nvlink && !cluster.facts.has_nvlink) {
    fields.fail("link", fmt::format("{} has no NVLink; use 'pcie' or 'network'", cluster.machine));
  }
}

json where(std::string_view key, std::optional<int> index) {
  return index ? json{{key, *index}} : json::object();
}

json slow_ranks_json(const Faults& faults) {
  json list;
  for (const Faults::SlowRanks& slow : faults.slow_ranks) {
    json entry = slow.rank ? where("rank", slow.rank) : where("host", slow.host);
    entry["factor"] = slow.factor;
    list.push_back(std::move(entry));
  }
  return list;
}

json degraded_links_json(const Faults& faults) {
  json list;
  for (const Faults::DegradedLink& degraded : faults.degraded_links) {
    json entry = where("host", degraded.host);
    entry["link"] = faulty_link_names()[static_cast<std::size_t>(degraded.link)];
    entry["factor"] = degraded.factor;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Keys faults_keys(Faults& faults) {
  using enum How;
  return {{"slow_ranks",
           code("list of `{rank or host, factor}`", {}, read_all_slow_ranks,
                [&faults] { return slow_ranks_json(faults); }),
           any, plain, "",
           "all compute of the rank (counted from 0), or of all ranks of the host, takes "
           "`factor` (1 to 10000) times as long. Of several entries for a rank the slowest "
           "counts. Ranks that meet a slow rank in a collective or a message wait for it"},
          {"degraded_links",
           code("list of `{link, host [every one], factor}`", {}, read_degraded_links,
                [&faults] { return degraded_links_json(faults); }),
           any, plain, "",
           "links of this kind carry `factor` (0.0001 to 1) of their bytes per second. `link`: "
           "`nvlink`; `pcie` (GPUs, switches and sockets); `network` (all cards of the host "
           "together). A collective or message that touches such a host lasts as long as if all of "
           "its hosts were like that"}};
}

void read_faults(Fields fields, Job& job) {
  for (const char* key : {"restart_s", "checkpoint_bytes_per_s"})
    if (fields.has(key)) fields.fail(key, "is a key of `failures` now, not of `faults`");
  if (fields.has("mean_time_between_failures_s"))
    fields.fail("mean_time_between_failures_s",
                "is now a rate for each cause: 3600 divided by it is "
                "failures.hardware_per_host_hour");
  read_keys(fields, faults_keys(job.cluster.faults), job);
  fields.done();
}

void check_faults(Fields fields, const ChosenCluster& cluster, Job& job) {
  if (cluster.hosts == 0) return;  // the cluster is not chosen yet
  const int processes = job.cluster.processes_per_host;
  const int ranks = cluster.hosts * (processes > 0 ? processes : cluster.facts.gpus);
  const Faults& faults = job.cluster.faults;
  if (fields.has("slow_ranks")) {
    const std::vector<Fields> entries = fields.objects("slow_ranks");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      check_index(entries[i], "rank", faults.slow_ranks[i].rank, ranks, "rank");
      check_index(entries[i], "host", faults.slow_ranks[i].host, cluster.hosts, "host");
    }
  }
  if (fields.has("degraded_links")) {
    const std::vector<Fields> entries = fields.objects("degraded_links");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      check_index(entries[i], "host", faults.degraded_links[i].host, cluster.hosts, "host");
      check_link(entries[i], faults.degraded_links[i].link, cluster, job);
    }
  }
}

}  // namespace meshwright::job
