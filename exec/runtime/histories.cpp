// Moves the histories of delayed scales between this run's memory and checkpoints.
#include <algorithm>
#include <cmath>
#include <string>

#include "exec/runtime/host_view.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t steps = Program::history_steps;

void check_history(const std::string& name, const std::vector<double>& history) {
  for (const double largest : history)
    if (!std::isfinite(largest) || largest < 0)
      throw InputError("/histories/" + name + ": " + std::to_string(largest) +
                       " is no largest magnitude; use finite numbers from 0 on");
}

}  // namespace

Histories Runtime::histories() {
  Histories all;
  for (std::size_t stage = 0; stage < rank_.stages.size(); ++stage) {
    const std::vector<std::string>& names = rank_.stages[stage].rounded;
    if (names.empty()) continue;
    std::vector<float> values(names.size() * steps);
    if (&rank_.stages[stage] == &program()) {
      HostView<const float> own(rank_.backend,
                                memory().buffer<const float>(program().history_buffer),
                                static_cast<std::int64_t>(values.size()));
      std::copy_n(own.data(), values.size(), values.begin());
    }
    const int root = mesh().rank({static_cast<int>(stage), 0, 0});
    rank_.everybody->broadcast(values.data(),
                               static_cast<std::int64_t>(values.size() * sizeof values[0]), root);
    if (rank_.world.rank() != 0) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto end = values.begin() + static_cast<std::ptrdiff_t>((i + 1) * steps);
      const auto begin = std::find_if(end - steps, end, [](float each) { return each > 0; });
      all[names[i]] = {begin, end};
    }
  }
  return all;
}

void Runtime::set_histories(const Histories& histories) {
  const auto count = static_cast<std::int64_t>(program().rounded.size());
  if (count == 0) return;
  HostView<float> largest(rank_.backend, memory().buffer<float>(program().largest_buffer),
                          2 * count);
  HostView<float> kept(rank_.backend, memory().buffer<float>(program().history_buffer),
                       count * steps);
  std::fill_n(largest.data(), 2 * count, 0.0F);
  std::fill_n(kept.data(), count * steps, 0.0F);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto found = histories.find(program().rounded[i]);
    if (found == histories.end()) continue;
    check_history(found->first, found->second);
    const std::int64_t there = std::min(steps, static_cast<std::int64_t>(found->second.size()));
    float* end = kept.data() + (i + 1) * steps;
    std::transform(found->second.end() - there, found->second.end(), end - there,
                   [](double each) { return static_cast<float>(each); });
    largest.data()[2 * i] = *std::max_element(end - steps, end);
  }
}

}  // namespace meshwright::exec
