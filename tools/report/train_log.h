// Reports a training run from rank 0: a line per step, and at the end the prediction next to the
// measurement, as text, JSON and HTML.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "exec/log/event_file.h"
#include "models/job/job.h"
#include "tools/options.h"
#include "tools/session/train.h"

namespace meshwright::tools {

// Returns the file to which the lines per step are written: --log-json, log.json of the job, or
// steps.jsonl in its log.folder. Returns "" if there is none.
std::string log_file(const Options& options, const Job& job);

class TrainLog {
 public:
  // Opens the logs. A log that cannot be written, now or later, is abandoned with a warning, and
  // the run goes on.
  // `clock` returns seconds since some moment.
  using Clock = std::function<double()>;
  TrainLog(const Options& options, const Job& job, const Chosen& chosen,
           const Prediction& prediction, Clock clock = steady_seconds);
  // Prints what is trained, how the run began, and the head of the lines of steps. `sequences` is
  // how many the job's data has, 0 if it has no data.
  void begin(int threads, const std::string& how_it_began, std::int64_t sequences);
  // Logs a step, and prints it if its line is due. `evaluation` is the loss that was measured after
  // it, if any.
  void step(std::int64_t step, const StepResult& result, std::optional<double> evaluation);
  // Writes the files of --trace and --report, and prints how the run ended. Sets `outcome.written`
  // to false if one of them cannot be written, because the run is worth more than the file.
  void end(Outcome& outcome);
  // Returns what end() prints with --json.
  nlohmann::json answer(const Outcome& outcome) const;

 private:
  static double steady_seconds();
  void print_step(std::int64_t step, const StepResult& result, const std::string& time_left);
  std::string time_left(std::int64_t step);
  bool counts_epochs() const;
  std::int64_t tokens_per_step() const;
  bool on_gpu() const;
  bool scales_loss() const;
  void show_progress(std::int64_t step) const;
  void write_trace(const Outcome& outcome) const;
  void write_report(const Outcome& outcome) const;

  const Options& options_;
  const Job& job_;
  const Chosen& chosen_;
  const Prediction& prediction_;
  std::FILE* to_;  // with --json standard output stays empty until the end
  bool progress_;
  Clock clock_;
  std::int64_t sequences_ = 0;  // number of sequences in the job's data
  // Have the first step of this run, and when it ended. It is not timed, because it may compile and
  // allocate.
  std::int64_t first_step_ = 0;
  double first_step_ended_ = 0;
  // Count the steps since the last printed line, and their seconds.
  std::int64_t steps_ = 0;
  double seconds_ = 0;
  std::optional<EventFile> events_;
  std::optional<GrowingFile> lines_;  // --log-json
};

}  // namespace meshwright::tools
