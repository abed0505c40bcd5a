// Runs the command `evaluate JOB --checkpoint FOLDER`, which prints the loss of trained weights on
// files of data.
#include "tools/session/evaluate.h"

#include <fmt/format.h>

#include "exec/launch/stop.h"
#include "models/core/json.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/print_json.h"
#include "tools/session/choose.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

EvaluateRequest evaluate_request(const Options& options) {
  EvaluateRequest how;
  how.checkpoint = options.checkpoint;
  how.allow_changed = options.allow_changed;
  how.threads = options.threads;
  how.data = options.data;
  how.batches = options.steps;
  return how;
}

json evaluated_json(const Evaluated& found) {
  json value = {
      {"weights", found.weights},        {"files", found.files}, {"sequences", found.sequences},
      {"tokens", found.targets},         {"loss", found.loss},   {"complete", found.complete()},
      {"evaluate_wall_s", found.seconds}};
  if (found.step) value["step"] = *found.step;
  if (found.perplexity) value["perplexity"] = *found.perplexity;
  return value;
}

void print_evaluated(const Evaluated& found) {
  const std::string of_all =
      found.complete() ? "" : fmt::format(" of {} (stopped)", found.of_sequences);
  print_to(stdout, "{}: {}{} sequences, {} targets of {}\n", found.weights, found.sequences, of_all,
           found.targets, list_of(found.files, "and"));
  if (found.perplexity)
    print_to(stdout, "loss {:.6f}, perplexity {:.6g}\n", found.loss, *found.perplexity);
  else
    print_to(stdout, "loss {:.6f}\n", found.loss);
}

int run_evaluate(const Options& options) {
  end_on_stop_signals();
  const JobRequest wanted = job_request(options);
  watch_for_stop();
  const Evaluated found = evaluate(wanted, evaluate_request(options), printed_watch(),
                                   [] { return !stop_requested(); });
  if (options.json)
    print_json(evaluated_json(found));
  else
    print_evaluated(found);
  return found.complete() ? done : stopped;
}

std::string answer_evaluate(const Options& options, const Watch& watch) {
  const Evaluated found = evaluate(job_request(options), evaluate_request(options), watch,
                                   [&] { return !(watch.stop && watch.stop()); });
  std::string answer = json_text(evaluated_json(found), true);
  if (!found.complete()) throw StoppedSearch(std::move(answer));
  return answer;
}

}  // namespace

const Command evaluate_command = {
    "evaluate",
    "JOB",
    job_help,
    "print the loss and the perplexity of trained weights on a file of tokens",
    "json wide set profile checkpoint data steps allow-changed",
    run_evaluate,
    "Runs on one process of this computer, whatever the job's degrees are, and without dropout. "
    "Without `--data` it reads the job's `data.evaluation`, or its `data`.",
    answer_evaluate};

}  // namespace meshwright::tools
