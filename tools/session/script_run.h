// Runs a training that the user's own script drives (tools/python/meshwright/torch). Each rank is a
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

// Returns a profile of this computer's CPU with its memory, its cores and assumed rates, for
// callers that need no measured rates.
Machine unmeasured_computer();

// Chooses the plan of a job of a captured model for `ranks` processes (0: as many as the plan has),
// and returns the settled run. Its Programs do not count the memory that PyTorch's allocator holds.
// Throws InputError if the model is not a captured one or the plan has another number of ranks, and
// NoPlanFits if a search finds no plan that fits.
std::string settle_script(const JobRequest& wanted, const TrainRequest& how, int ranks,
                          const Watch& watch);

// Returns on all ranks the text that `make` returns on rank 0. If `make` throws, all ranks throw
// InputError with its message. Every rank calls this function.
std::string made_by_rank_0(Communicator& all, const std::function<std::string()>& make);

class ScriptRun {
 public:
  // Every rank calls it with the same settled run. Of `how`, the deadline and the allowed changes
  // are used. `world` must outlive the object.
  ScriptRun(const std::string& settled, World& world, int threads, const RunSegment& run,
            const ScriptOptimizer& own, const TrainRequest& how, const Watch& watch);
  ~ScriptRun();
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

  const Run& settled() const { return run_; }
  Runtime& runtime() { return *runtime_; }
  Communicator& all() { return *all_; }
  // Returns the predicted step of the plan, whose memory includes that of PyTorch's allocator.
  const Prediction& prediction() const { return prediction_; }

  // Trains step number steps_done() + 1. For segments of the model it calls back to PyTorch.
  // Without a learning rate, the script's own optimizer updates the parameters.
  StepResult step(std::optional<double> learning_rate);
  std::int64_t steps_done() const { return steps_done_; }

  // Traces the next step. After it, rank 0 writes the timeline of all ranks to `path` as a Chrome
  // trace. Every rank calls it.
  void trace(const std::string& path);
  // Returns, as a pointer, the stream of the GPU on which PyTorch must compute. Returns null if the
  // backend has no streams.
  void* current_stream() const;

  // Begins to save the state after the latest step in `folder`, which keeps the newest `keep`
  // checkpoints. Writing overlaps with later steps. Every rank calls it.
  void save(const std::string& folder, int keep);
  // Waits for saves in flight. Returns whether all of them succeeded. Every rank calls it.
  bool finish_saving();
  // Loads the newest valid checkpoint of `folder`, whatever degrees it was saved with. Returns the
  // number of steps before it, 0 if there is none. Every rank calls it.
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
