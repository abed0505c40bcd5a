#include "sim/planner/search_until_fits.h"

#include <utility>

#include "sim/planner/profile.h"

namespace meshwright::sim {

namespace {

bool lacks_memory(const SearchResult& result) {
  return result.plans.empty() && result.closest_miss && !result.stopped;
}

constexpr std::string_view offload_key = "parallelism.offload";

// The keys in the order in which they are opened. The least intrusive one comes first.
constexpr std::string_view keys[] = {"training.micro_batch", "training.recompute", offload_key};

}  // namespace

FittingSearch search_until_fits(Job job, const SearchOptions& asked,
                                const std::function<bool(std::string_view key)>& may_open) {
  SearchOptions options = asked;
  if (!options.profiles) options.profiles = std::make_shared<SharedProfiles>();
  FittingSearch found;
  found.result = search(job, options);
  for (const std::string_view key : keys) {
    if (!lacks_memory(found.result)) return found;
    if (job.is_auto(key) || !may_open(key)) continue;
    job.autos.emplace(key);
    found.opened.emplace_back(key);
    found.result = search(job, options);
  }
  // An open `offload` does not try the optimizer's states, because copying them takes long.
  if (lacks_memory(found.result) && job.autos.erase(std::string(offload_key)) > 0) {
    job.plan.parallelism.offload = Offload::optimizer;
    SearchResult last = search(job, options);
    if (!last.plans.empty()) {
      std::erase(found.opened, offload_key);
      found.opened.push_back(std::string(offload_key) + "=optimizer");
      found.result = std::move(last);
    }
  }
  if (found.result.plans.empty()) found.opened.clear();
  return found;
}

FittingSearch search_left_out(const Job& job, const SearchOptions& options) {
  return search_until_fits(job, options, [&](std::string_view key) { return job.leaves_out(key); });
}

}  // namespace meshwright::sim
