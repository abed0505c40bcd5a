// Reads back a timeline that to_chrome_trace() wrote.
#include <cmath>
#include <fstream>
#include <map>
#include <tuple>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/open_file.h"
#include "models/program/timeline.h"

namespace meshwright::program {

namespace {

// Converts microseconds to picoseconds. The result is rounded to nanoseconds, because the trace has
// three decimal places.
SimTime picoseconds(double microseconds) {
  return static_cast<SimTime>(std::llround(microseconds * 1000)) * 1000;
}

class Reader {
 public:
  Reader(const std::string& path, const std::vector<Program>& stages,
         const std::vector<int>& stage_of_rank)
      : path_(path), stages_(stages), stage_of_rank_(stage_of_rank) {}

  Timeline read() {
    check_readable(path_);
    std::ifstream file(path_);
    if (!file) throw InputError(path_ + ": cannot be opened for reading");
    const json trace = json::parse(file, nullptr, false);
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
      throw InputError(path_ +
                       ": is no trace; give what `train --trace FILE` or PyTorch's "
                       "export_chrome_trace wrote");
    try {
      for (const json& event : trace["traceEvents"]) add(event);
    } catch (const json::exception&) {
      throw InputError(path_ + ": a slice is not as `train --trace FILE` writes it");
    }
    if (last_.empty()) throw InputError(path_ + ": holds no instruction of a rank of this job");
    Timeline timeline;
    for (const auto& [key, entry] : last_) timeline.entries.push_back(entry);
    return timeline;
  }

 private:
  void add(const json& event) {
    if (event.at("ph") != "X" || !event.contains("args")) return;
    const json& args = event["args"];
    if (!args.contains("task") || !args.contains("instruction")) return;
    const int rank = event.at("pid").get<int>() - 1;  // process numbers begin at 1
    if (rank >= static_cast<int>(stage_of_rank_.size())) return;
    TimelineEntry entry{rank, args["task"].get<int>(), args["instruction"].get<int>()};
    check(entry, event.at("name").get<std::string>());
    entry.begin = picoseconds(event.at("ts").get<double>());
    entry.end = entry.begin + picoseconds(event.at("dur").get<double>());
    TimelineEntry& last = last_[{rank, entry.task, entry.instruction}];
    if (entry.end > last.end) last = entry;
  }

  void check(const TimelineEntry& entry, const std::string& name) const {
    if (entry.rank >= 0) {
      const Program& program = stages_[stage_of_rank_[entry.rank]];
      if (entry.task >= 0 && entry.task < std::ssize(program.tasks)) {
        const Body& body = program.bodies[program.tasks[entry.task].body];
        if (entry.instruction >= 0 && entry.instruction < std::ssize(body.instructions) &&
            instruction_name(body.instructions[entry.instruction], program) == name)
          return;
      }
    }
    throw InputError(path_ + ": '" + name + "' of rank " + std::to_string(entry.rank) +
                     " is not in this job's plan; give the job that was trained; where it was "
                     "searched, what `plan --write` wrote");
  }

  const std::string& path_;
  const std::vector<Program>& stages_;
  const std::vector<int>& stage_of_rank_;
  std::map<std::tuple<int, int, int>, TimelineEntry> last_;
};

}  // namespace

Timeline read_chrome_trace(const std::string& path, const std::vector<Program>& stages,
                           const std::vector<int>& stage_of_rank) {
  return Reader(path, stages, stage_of_rank).read();
}

}  // namespace meshwright::program
