// Trains a job on one rank, alone or with others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/runtime/runtime.h"
#include "models/job/job.h"
#include "tools/session/choose.h"
#include "tools/session/kind_times.h"
#include "tools/session/requests.h"
#include "tools/session/step_values.h"

namespace meshwright::session {

// Limits how long, in seconds, ranks wait for each other: `usual_s`, or `long_s` while one of them
// may load, compile, save or write something. TrainRequest::deadline sets both.
struct Deadlines {
  double usual_s = 120, long_s = 600;
};
Deadlines deadlines_of(const TrainRequest& how);

// Returns `threads`, or else this rank's share of the cores, at least 1.
int threads_per_rank(std::optional<int> threads, int ranks_on_host);

// Describes the memory of a rank in bytes. `peak` is all that the process uses. On a GPU,
// libraries() is therefore what libraries such as NCCL and cuBLAS hold. On a CPU, that difference
// has no meaning.
struct RankMemory {
  std::int64_t arena = 0, scratch = 0, peak = 0;
  std::int64_t libraries() const { return peak - arena - scratch; }
};

struct Outcome {
  std::int64_t steps = 0;
  bool stopped = false;
  bool saved = true;    // the last checkpoint, if there is one, is complete
  bool written = true;  // the files that the observer writes are complete
  bool complete() const { return saved && written; }
  StepResult last;
  StepValues seconds, losses, evaluations;
  std::optional<double> evaluation;  // loss of the latest evaluation, if any
  double best_loss = 0;              // lowest evaluation loss, unless best_step is -1
  std::int64_t best_step = -1;
  std::vector<RankMemory> memory;  // by rank
  std::string parameters_sha256;
  std::vector<KindTime> kinds;   // of the last step; empty if stopped or not measured here
  Timeline predicted;            // one step, as predicted
  Timeline timeline;             // of all ranks; empty unless the request keeps it
  Timeline last_step;            // of all ranks; empty if stopped, unless kept or compared
  SimTime last_step_begins = 0;  // when it begins in `timeline`
};

// Follows a run on a rank. Each rank has one, whose functions are called on the thread that trains.
class RunObserver {
 public:
  RunObserver() = default;
  virtual ~RunObserver() = default;
  RunObserver(const RunObserver&) = delete;
  RunObserver& operator=(const RunObserver&) = delete;

  // `sequences` is how many the job's data has, 0 if it has no data.
  virtual void begin(int threads, const std::string& how_it_began, std::int64_t sequences) = 0;
  // `evaluation` is the loss that was measured after the step, if any.
  virtual void step(std::int64_t step, const StepResult& result,
                    std::optional<double> evaluation) = 0;
  // Returns whether the run goes on. If one rank says no after a step, all end there.
  virtual bool goes_on() { return true; }
  // Is called after the last step, once all checkpoints are saved. Sets `outcome.written` to false
  // if a file of the observer could not be written.
  virtual void end(Outcome& outcome) = 0;
  // Is called if this rank, which is one of several, fails during the steps, in the handler of the
  // exception. It is not called for InputError. The other ranks wait for this one, so it has to
  // report the exception and end the run on all ranks.
  virtual void fail() {}
};
// Makes the observer of this rank. `prediction` outlives the observer.
using MakeObserver = std::function<std::unique_ptr<RunObserver>(const Prediction& prediction)>;

// Returns one timeline with the entries of all ranks, on every rank. Every rank calls it.
Timeline timeline_of_all(const Timeline& own, Communicator& all);

// Is thrown on every rank if one of them throws InputError for what it reads, because on other
// hosts a file or a GPU may differ from that of rank 0. `reports` is true on the first rank that
// throws InputError.
class RankRefuses : public std::runtime_error {
 public:
  RankRefuses(const std::string& message, bool reports)
      : std::runtime_error(message), reports_(reports) {}
  bool reports() const { return reports_; }

 private:
  bool reports_;
};

// Trains this rank to the end of the run. Every rank calls it with the same job and plan. Throws
// RankRefuses or InputError if the run cannot begin, and what a step throws.
Outcome train(const TrainRequest& how, const Job& job, const Chosen& chosen, World& world,
              const MakeObserver& observe, const Watch& watch);

}  // namespace meshwright::session
