#include "tools/report/search_watch.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/core/json.h"
#include "tools/report/progress.h"

namespace meshwright::tools {

namespace {

std::string line_of(const ClusterProgress& p) {
  const json progress = {
      {"machine", p.machine},
      {"count", p.count},
      {"candidates_enumerated", p.enumerated},
      {"candidates_simulated", p.simulated},
      {"bounded", p.bounded},
      {"best_step_time_s", p.best_step_time_s ? json(*p.best_step_time_s) : json(nullptr)}};
  return json{{"progress", progress}}.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace

SearchWatch watch_on_terminal() {
  // The searches of several clusters may be interleaved, so each cluster has a line of its own.
  return [lines = std::make_shared<std::map<std::string, ProgressLine>>()](
             const ClusterProgress& progress) {
    const std::string cluster = std::to_string(progress.count) + " x " + progress.machine;
    (*lines)[cluster].at(progress.bounded, "plans for " + cluster);
  };
}

SearchWatch watch_in_lines(std::function<void(const std::string&)> say) {
  using Clock = std::chrono::steady_clock;
  struct Last {
    std::string machine;
    int count = 0;
    Clock::time_point time;
  };
  return [say = std::move(say), last = std::make_shared<Last>()](const ClusterProgress& progress) {
    const auto now = Clock::now();
    const bool is_new = progress.machine != last->machine || progress.count != last->count;
    if (!is_new && now - last->time < std::chrono::milliseconds(100)) return;
    *last = {progress.machine, progress.count, now};
    say(line_of(progress));
  };
}

}  // namespace meshwright::tools
