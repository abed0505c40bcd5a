#include "models/compiler/schedule/slot_pools.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace meshwright::compiler {

namespace {

// Returns the kind of task after which a chunk is done with a micro-batch.
TaskKind last_kind(const StageOrder& order) {
  const bool splits = std::ranges::any_of(
      order, [](const ScheduledTask& task) { return task.kind == TaskKind::weights; });
  return splits ? TaskKind::weights : TaskKind::backward;
}

// Returns the micro-batches in flight at each time at which a chunk is done with one after a
// forward has begun another. The numbers are from just before that end, and equal ones are listed
// once.
std::set<InFlight> times_before_ends(const StageOrder& order, int chunks) {
  const TaskKind last = last_kind(order);
  std::set<InFlight> times;
  InFlight now(chunks, 0);
  bool grown = false;
  for (const ScheduledTask& task : order) {
    if (task.kind == TaskKind::forward) ++now[task.chunk], grown = true;
    if (task.kind != last) continue;
    if (grown) times.insert(now);
    grown = false;
    --now[task.chunk];
  }
  if (grown) times.insert(now);
  return times;
}

bool covers(const InFlight& most, const InFlight& other) {
  return std::ranges::equal(most, other, std::greater_equal{});
}

}  // namespace

std::vector<InFlight> fullest_times(const StageOrder& order, int chunks) {
  const std::set<InFlight> times = times_before_ends(order, chunks);
  std::vector<InFlight> fullest;
  for (const InFlight& time : times)
    if (std::ranges::none_of(
            times, [&](const InFlight& other) { return &other != &time && covers(other, time); }))
      fullest.push_back(time);
  return fullest;
}

namespace {

// A choice of pools for the n smallest chunks. Its last pool has the chunks from index `begin` on,
// in ascending order of size, and `slots` slots. `bytes` is the sum over all of its pools.
struct Choice {
  double bytes = std::numeric_limits<double>::infinity();
  std::size_t begin = 0;
  int slots = 0;
};

// Returns the best choice for the n smallest chunks, for each n. Among equal choices, the best is
// the one that shares less.
std::vector<Choice> best_choices(std::span<const InFlight> times, std::span<const double> bytes,
                                 std::span<const std::size_t> by_size) {
  std::vector<Choice> best(by_size.size() + 1);
  best[0].bytes = 0;
  InFlight together(times.size());
  for (std::size_t end = 1; end < best.size(); ++end) {
    const double largest = bytes[by_size[end - 1]];
    std::ranges::fill(together, 0);
    for (std::size_t first = end; first-- > 0;) {
      int most = 0;
      for (std::size_t time = 0; time < times.size(); ++time)
        most = std::max(most, together[time] += times[time][by_size[first]]);
      const int slots = most + (end - first > 1 ? spare_slots : 0);
      // A pool of more chunks needs at least as many slots, so it cannot be better.
      if (largest * slots >= best[end].bytes) break;
      const double all = best[first].bytes + largest * slots;
      if (all < best[end].bytes) best[end] = {all, first, slots};
    }
  }
  return best;
}

std::vector<std::size_t> sorted_by_size(std::span<const double> bytes) {
  std::vector<std::size_t> by_size(bytes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, {}, [&](std::size_t chunk) { return bytes[chunk]; });
  return by_size;
}

}  // namespace

SlotPools choose_slot_pools(std::span<const InFlight> times, std::span<const double> slot_bytes) {
  const std::vector<std::size_t> by_size = sorted_by_size(slot_bytes);
  const std::vector<Choice> best = best_choices(times, slot_bytes, by_size);
  SlotPools pools{std::vector<int>(by_size.size(), 0), std::vector<int>(by_size.size(), 0)};
  for (std::size_t end = by_size.size(); end > 0; end = best[end].begin) {
    const auto pool = std::span(by_size).subspan(best[end].begin, end - best[end].begin);
    for (const std::size_t chunk : pool) {
      pools.pool_of[chunk] = static_cast<int>(*std::ranges::min_element(pool));
      pools.slots[chunk] = best[end].slots;
    }
  }
  return pools;
}

double bytes_of_slots_apart(std::span<const InFlight> times, std::span<const double> slot_bytes) {
  double bytes = 0;
  for (std::size_t chunk = 0; chunk < slot_bytes.size(); ++chunk) {
    int most = 0;
    for (const InFlight& time : times) most = std::max(most, time[chunk]);
    bytes += slot_bytes[chunk] * most;
  }
  return bytes;
}

double bytes_of_slots(std::span<const InFlight> times, std::span<const double> slot_bytes) {
  if (slot_bytes.size() == 1) return slot_bytes[0] * times[0][0];
  return best_choices(times, slot_bytes, sorted_by_size(slot_bytes)).back().bytes;
}

}  // namespace meshwright::compiler
