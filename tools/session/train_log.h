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

// Bytes of a rank. On a device with memory of its own, libraries take the rest of the used memory.
// Elsewhere nothing is reported about them.
struct RankMemory {
  std::int64_t arena = 0, scratch = 0, peak = 0;
  std::int64_t libraries() const { return peak - arena - scratch; }
};

struct Outcome {
  std::int64_t steps = 0;
  bool stopped = false;
  bool saved = true;    // the last checkpoint, if there are any, is complete
  bool written = true;  // so are the trace and the report
  bool complete() const { return saved && written; }
  StepResult last;
  StepValues seconds, losses, evaluations;
  std::optional<double> evaluation;  // the latest one's loss
  double best_loss = 0;              // the lowest one's, and its step; -1: there was none
  std::int64_t best_step = -1;
  std::vector<RankMemory> memory;  // by rank
  std::string parameters_sha256;
  std::vector<KindTime> kinds;  // of the last step; none where the machine was not measured
};

// Returns the file to which the lines per step are written: --log-json, log.json of the job, or
// steps.jsonl in its log.folder. Empty if there is none.
std::string log_file(const Options& options, const Job& job);

class TrainLog {
 public:
  // A log that cannot be written, now or later, is abandoned with a warning, and the run goes on.
  TrainLog(const Options& options, const Job& job, const Chosen& chosen,
           const Prediction& prediction);
  void begin(int threads, const std::string& how_it_began);
  // `evaluation`: the loss that was measured after it.
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
