#include "sim/advise/shortlist.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace meshwright::sim {

namespace {

struct Promise {
  std::string machine, gpu;
  double speed = 0;           // peak FLOP/s of all GPUs of a host
  std::optional<double> usd;  // price of a host per hour, if known
};

double peak_of(const Gpu& gpu) {
  for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::fp32})
    if (gpu.supports(precision)) return gpu.peak(precision).value;
  return 0;
}

Promise promise_of(const Job& job, const std::string& name, const Machine& machine) {
  Cluster cluster;
  cluster.machine = machine;
  return {name, machine.gpu.name, machine.gpus * peak_of(machine.gpu),
          usd_per_hour(cluster, job.objective.price)};
}

bool counts_money(const Objective& objective) {
  return objective.budget_usd || objective.minimize == Minimize::usd ||
         objective.minimize == Minimize::usd_per_token;
}

}  // namespace

Shortlist shortlist(const Job& job, const MachineLoader& load, std::size_t most) {
  Shortlist list;
  const std::vector<std::string> all = machines_of(job.cluster);
  if (all.size() <= most) return {all, {}};
  std::vector<Promise> promises;
  for (const std::string& name : all) promises.push_back(promise_of(job, name, load(name)));
  const bool by_money = counts_money(job.objective);
  std::ranges::stable_sort(promises, {}, [&](const Promise& each) {
    const double cost = each.usd ? *each.usd / each.speed : 0;
    return by_money ? std::tuple(!each.usd, cost, -each.speed)
                    : std::tuple(false, -each.speed, cost);
  });
  constexpr int most_of_a_kind = 2;
  std::map<std::string, int> of_kind;
  for (const Promise& each : promises)
    (list.machines.size() < most && ++of_kind[each.gpu] <= most_of_a_kind ? list.machines
                                                                          : list.left_out)
        .push_back(each.machine);
  return list;
}

}  // namespace meshwright::sim
