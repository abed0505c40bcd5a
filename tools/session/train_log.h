// Reports a training run from rank 0: a line per step, and at the end the prediction next to the
// measurement, as text, JSON and HTML.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "exec/log/event_file.h"
#include "exec/runtime/runtime.h"
#include "models/job/job.h"
#include "tools/options.h"
#include "tools/report/kind_times.h"
#include "tools/report/step_values.h"
#include "tools/session/choose.h"

namespace meshwright {

// The memory of a rank in bytes. On a device with memory of its own, libraries() is the part of the
// used memory that is neither the arena nor scratch. On a CPU it has no meaning and is not
// reported.
struct RankMemory {
  std::int64_t arena = 0, scratch = 0, peak = 0;
  std::int64_t libraries() const { return peak - arena - scratch; }
};

struct Outcome {
  std::int64_t steps = 0;
  bool stopped = false;
  bool saved = true;    // the last checkpoint, if there are any, is complete
  bool written = true;  // the trace and the report are complete
  bool complete() const { return saved && written; }
  StepResult last;
  StepValues seconds, losses, evaluations;
  std::optional<double> evaluation;  // loss of the latest evaluation
  double best_loss = 0;              // lowest evaluation loss; step -1: there was none
  std::int64_t best_step = -1;
  std::vector<RankMemory> memory;  // by rank
  std::string parameters_sha256;
  std::vector<KindTime> kinds;  // of the last step; empty unless this computer was measured
};

// Returns the file to which the lines per step are written: --log-json, log.json of the job, or
// steps.jsonl in its log.folder. Empty if there is none.
std::string log_file(const Options& options, const Job& job);

class TrainLog {
 public:
  // Opens the logs. A log that cannot be written, now or later, is abandoned with a warning, and
  // the run goes on.
  TrainLog(const Options& options, const Job& job, const Chosen& chosen,
           const Prediction& prediction);
  void begin(int threads, const std::string& how_it_began);
  // Prints and logs a step. `evaluation` is the loss that was measured after it, if any.
  void step(std::int64_t step, const StepResult& result, std::optional<double> evaluation);
  void write_report(const Outcome& outcome) const;  // --report
  void end(const Outcome& outcome);

 private:
  bool on_gpu() const;
  bool scales_loss() const;
  void show_progress(std::int64_t step) const;
  void print_json_of(const Outcome& outcome) const;

  const Options& options_;
  const Job& job_;
  const Chosen& chosen_;
  const Prediction& prediction_;
  std::FILE* to_;  // with --json standard output stays empty until the end
  bool progress_;
  std::optional<EventFile> events_;
  std::optional<GrowingFile> lines_;  // --log-json
};

}  // namespace meshwright
