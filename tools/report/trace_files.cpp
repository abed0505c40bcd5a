#include "tools/report/trace_files.h"

#include <algorithm>
#include <map>

#include "models/core/error.h"
#include "models/program/chakra.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

std::string chakra_file(const std::string& prefix, int rank) {
  return prefix + "." + std::to_string(rank) + ".et";
}

}  // namespace

TraceFormat trace_format(const Options& options) {
  if (options.trace_format.empty()) return TraceFormat::chrome;
  if (options.trace.empty())
    throw InputError("--trace-format: goes with --trace FILE, which names what is written");
  const std::vector<std::string>& known = trace_format_names();
  const auto found = std::ranges::find(known, options.trace_format);
  if (found == known.end())
    throw InputError("--trace-format: unknown format '" + options.trace_format + "'; use " +
                     list_of(known));
  return static_cast<TraceFormat>(found - known.begin());
}

void check_trace(const Options& options, std::span<const std::string> inputs) {
  const TraceFormat format = trace_format(options);
  check_writable("--trace", options.trace, inputs);
  if (format == TraceFormat::chakra)
    check_writable("--trace", chakra_file(options.trace, 0), inputs);
}

void write_chakra(const std::string& prefix, const Timeline& timeline,
                  const std::vector<Program>& stages, const std::vector<int>& stand_ins) {
  std::map<int, std::vector<TimelineEntry>> entries;
  for (const TimelineEntry& entry : timeline.entries) entries[entry.rank].push_back(entry);
  for (std::size_t rank = 0; rank < stand_ins.size(); ++rank)
    check_writable("--trace", chakra_file(prefix, static_cast<int>(rank)));
  for (std::size_t rank = 0; rank < stand_ins.size(); ++rank) {
    const auto number = static_cast<int>(rank);
    write_file(chakra_file(prefix, number), to_chakra(entries[stand_ins[rank]], number, stages));
  }
}

}  // namespace meshwright::tools
