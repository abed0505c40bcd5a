#include "tools/commands/recorded_operand.h"

#include <filesystem>

#include "models/core/error.h"
#include "models/core/json.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/recorded_step.h"
#include "tools/report/trace_files.h"
#include "tools/session/json_text.h"
#include "tools/session/questions.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

std::string operand_text(const Options& options) {
  const std::string& name = options.operands.front();
  const auto given = options.jobs.find(name);
  return given != options.jobs.end() ? given->second : read_file(name);
}

void refuse_options_of_jobs(const Options& options) {
  if (!options.programs.empty() || !options.timeline.empty() || options.steps ||
      trace_format(options) == TraceFormat::chakra)
    throw InputError(
        options.operands.front() +
        ": --programs, --timeline, --steps and --trace-format chakra are for jobs, not for a "
        "recorded step; use --report, --trace or --set training.steps=N");
}

}  // namespace

bool names_recording(const Options& options) {
  if (options.operands.size() != 1) return false;
  const std::string& name = options.operands.front();
  const bool given = options.jobs.contains(name);
  std::error_code error;
  if (!given && !std::filesystem::is_regular_file(name, error)) return false;  // such as a pipe
  try {
    return is_recording(operand_text(options));
  } catch (const InputError&) {  // reported when the job is read
    return false;
  }
}

Recording asked_recording(const Options& options) {
  const std::string& name = options.operands.front();
  return read_recording({parse_json(operand_text(options), name), name});
}

RehearsalRequest rehearsal_request(const Options& options) {
  RehearsalRequest request;
  request.machine = options.on;
  request.count = options.count;
  request.host_factor = options.host_factor.value_or(1);
  request.set = question_overrides(options);
  request.set.insert(request.set.end(), options.set.begin(), options.set.end());
  if (!options.operands.empty() && options.command != "rehearse")
    request.file = options.operands.front();
  if (!options.recording.empty()) request.file = options.recording;
  request.keeps_spans = !options.report.empty() || !options.trace.empty();
  return request;
}

void check_recorded_outputs(const Options& options) {
  const std::vector<std::string> inputs = {options.recording, options.profile, options.prices};
  check_trace(options, inputs);
  check_writable("--report", options.report, inputs);
  check_writable("--summary", options.summary, inputs);
  check_writable("--write", options.write, inputs);
}

Rehearsed priced_recording(const Options& options, const Recording& recording, const Watch& watch) {
  Rehearsed all =
      session::rehearsed(recording, rehearsal_request(options), asked_machines(options, watch));
  if (!options.trace.empty()) write_file(options.trace, recorded_trace(recording, all));
  if (!options.report.empty()) {
    HtmlPage page(recording.script + ": rehearsal");
    add_recorded_step(page, recording, all, options.today);
    write_file(options.report, page.text());
  }
  return all;
}

namespace {

Rehearsed simulated_recording(const Options& options, const Watch& watch) {
  refuse_options_of_jobs(options);
  check_recorded_outputs(options);
  return priced_recording(options, asked_recording(options), watch);
}

}  // namespace

int run_recorded(const Options& options) {
  const Rehearsed all = simulated_recording(options, shown_watch());
  if (options.json)
    print_text(json_text(recorded_step_json(all, options.today), true));
  else
    print_to(stdout, "{}", recorded_step_text(all, options.today));
  return done;
}

std::string answer_recorded(const Options& options, const Watch& watch) {
  return json_text(recorded_step_json(simulated_recording(options, watch), options.today), true);
}

}  // namespace meshwright::tools
