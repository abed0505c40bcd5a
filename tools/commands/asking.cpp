#include "tools/commands/asking.h"

#include "models/core/error.h"
#include "tools/measure/kept_profile.h"
#include "tools/measure/measure.h"
#include "tools/print.h"
#include "tools/report/search_watch.h"
#include "tools/session/files_read.h"
#include "tools/session/largest_model.h"
#include "tools/session/machines.h"

namespace meshwright::tools {

Watch printed_watch() {
  Watch watch;
  watch.warn = [](const std::string& text) { print_to(stderr, "warning: {}\n", text); };
  watch.note = [](const std::string& text) { print_to(stderr, "{}\n", text); };
  return watch;
}

Watch shown_watch() {
  Watch watch = printed_watch();
  watch.search = watch_on_terminal();
  return watch;
}

JobRequest job_request(const Options& options, const std::string& name) {
  JobRequest request = options;
  request.file = name;
  if (const auto text = options.jobs.find(name); text != options.jobs.end())
    request.text = text->second;
  request.measure_here = [options] { return measure_this_computer(options, MeasureEffort::quick); };
  request.kept_profile = [options] { return kept_profile_file(options); };
  return request;
}

JobRequest job_request(const Options& options) {
  if (options.operands.empty() && !options.model.empty()) return job_request(options, "");
  if (options.operands.empty() && !options.on.empty())
    throw InputError(options.command +
                     ": expected a job file, or --model with the model, such as --model llama:3B");
  if (options.operands.size() != 1)
    throw InputError(options.command + ": expected one job file, got " +
                     std::to_string(options.operands.size()));
  return job_request(options, options.operands.front());
}

Job asked_job(const Options& options, const Watch& watch) {
  return read_job_of(job_request(options), watch);
}

Options with_largest_model(const Options& options, const Watch& watch) {
  if (!asks_for_largest(options)) return options;
  SearchOptions search;
  search.load = asked_machines(options, watch);
  search.stop = watch.stop;
  search.memory_margin = options.memory_margin.value_or(usual_memory_margin);
  const LargestModel largest = largest_model(search_request(options), search, watch);
  Options settled = options;
  settled.model = largest.model;
  settled.tokens = largest.tokens;
  return settled;
}

Job job_to_search(const Options& options, const Watch& watch) {
  return read_job_of(search_request(options), watch);
}

JobRequest search_request(const Options& options) {
  JobRequest request = job_request(options);
  request.searches = request.fills_in = true;
  request.any_count = options.command == "advise" || options.command == "scale";
  return request;
}

Job job_to_predict(const Options& options, const Watch& watch) {
  JobRequest request = job_request(options);
  request.fills_in = true;
  return read_job_of(request, watch);
}

MachineLoader asked_machines(const Options& options, const Watch& watch) {
  return machine_loader(job_request(options, ""), watch);
}

std::vector<std::string> inputs_of(const Options& options, const Job& job) {
  std::vector<std::string> given = options.operands;
  given.insert(given.end(), {options.profile, options.prices, options.hostfile, options.measured,
                             options.programs});
  return files_read(std::move(given), job);
}

}  // namespace meshwright::tools
