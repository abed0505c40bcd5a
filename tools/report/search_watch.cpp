#include "tools/report/search_watch.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tools/report/progress.h"

namespace meshwright {

namespace {

using nlohmann::json;

std::string line_of(const ClusterProgress& p) {
  const json progress = {
      {"machine", p.machine},
      {"count", p.count},
      {"candidates_enumerated", p.enumerated},
      {"candidates_simulated", p.simulated},
      {"bounded", p.bounded},
      {"best_step_time_s", p.best_step_time_s ? json(*p.best_step_time_s) : json(nullptr)}};
  return json{{"progress", progress}}.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

SearchWatch watch_on_terminal() {
  struct Line {
    std::string cluster;
    std::unique_ptr<ProgressLine> line;
  };
  return [line = std::make_shared<Line>()](const ClusterProgress& progress) {
    std::string cluster = std::to_string(progress.count) + " x " + progress.machine;
    if (!line->line || cluster != line->cluster) {
      line->line.reset();
      line->line = std::make_unique<ProgressLine>();
      line->cluster = std::move(cluster);
    }
    line->line->at(progress.bounded, "plans for " + line->cluster);
  };
}

}  // namespace

SearchWatch search_watch(const Options& options) {
  if (!options.watched) return watch_on_terminal();
  using Clock = std::chrono::steady_clock;
  struct Last {
    std::string machine;
    int count = 0;
    Clock::time_point time;
  };
  return [last = std::make_shared<Last>()](const ClusterProgress& progress) {
    const auto now = Clock::now();
    const bool is_new = progress.machine != last->machine || progress.count != last->count;
    if (!is_new && now - last->time < std::chrono::milliseconds(100)) return;
    *last = {progress.machine, progress.count, now};
    std::fputs(line_of(progress).c_str(), stderr);
  };
}

}  // namespace meshwright
