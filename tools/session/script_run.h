// A run that the user's own training script drives (tools/python/meshwright/torch). Each rank is a
// Python process: PyTorch computes the segments of the captured model, and the Runtime does the
// rest, in the order of the Program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/backends/segment_backend.h"
#include "exec/checkpoint/folder.h"
#include "exec/engine/engine.h"
#include "exec/runtime/runtime.h"
#include "tools/session/checkpoints.h"
#include "tools/session/requests.h"
#include "tools/session/settle.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns the profile that a given plan is settled with where this computer was never measured.
// Only whether the plan fits depends on it.
Machine unmeasured_computer();

// Chooses the plan of a job of a captured model for `ranks` processes (0: as many as the plan has),
// and returns the settled run, whose Programs leave to PyTorch the memory that its allocator holds.
// Throws InputError for a job of another model, and for a plan of another number of ranks;
// NoPlanFits if no plan fits.
std::string settle_script(const JobRequest& wanted, const TrainRequest& how, int ranks,
                          const Watch& watch);

// Returns on all ranks what `make` returns on rank 0. If it throws there, throws its message as an
// InputError on all ranks. Every rank calls it.
std::string made_by_rank_0(Communicator& all, const std::function<std::string()>& make);

class ScriptRun {
 public:
  // Every rank calls it with the same settled run. Of `how`, the deadline counts. `world` must
  // outlive the object.
  ScriptRun(const std::string& settled, World& world, int threads, const RunSegment& run,
            const ScriptOptimizer& own, const TrainRequest& how, const Watch& watch);
  ~ScriptRun();
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

  const Run& settled() const { return run_; }
  Runtime& runtime() { return *runtime_; }
  Communicator& all() { return *all_; }
  // The predicted step of the plan, where the Programs' memory includes PyTorch's.
  const Prediction& prediction() const { return prediction_; }

  // Trains step number steps_done() + 1. PyTorch's side computes its segments meanwhile. Without a
  // learning rate, the script's own optimizer updates the parameters.
  StepResult step(std::optional<double> learning_rate);
  std::int64_t steps_done() const { return steps_done_; }

  // Traces the next step, and writes the timeline of all ranks to `path` after it (rank 0), as
  // `train --trace` does. Every rank calls it.
  void trace(const std::string& path);
  // Returns the stream of a GPU, as a pointer, to which what PyTorch computes has to be issued.
  // Returns null where the backend has no streams.
  void* current_stream() const;

  // Begins to save the state after the latest step in `folder`, and keeps the newest `keep`
  // checkpoints. Writing goes on while the run does. Every rank calls it.
  void save(const std::string& folder, int keep);
  // Waits for saves in flight. Returns whether all of them succeeded. Every rank calls it.
  bool finish_saving();
  // Loads the newest valid checkpoint of `folder`, under whatever degrees it was saved. Returns the
  // number of steps that it has seen, 0 if there is none. Every rank calls it.
  std::int64_t resume(const std::string& folder);

 private:
  struct Folder;
  void write_trace();
  Folder& folder(const std::string& name, int keep, bool resumes);

  Run run_;
  World& world_;
  Watch watch_;
  TrainRequest how_;
  Prediction prediction_;
  std::unique_ptr<Communicator> all_;
  Engine engine_;
  ScriptOptimizer own_;
  std::unique_ptr<Backend> backend_;
  Loader loader_;
  std::unique_ptr<Runtime> runtime_;
  std::map<std::string, std::unique_ptr<Folder>> folders_;
  std::int64_t steps_done_ = 0, first_step_ = 0;
  double loss_ = 0;
  std::string trace_;  // the file of the next step's timeline; empty: none
};

}  // namespace meshwright::session
