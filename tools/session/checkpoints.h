// Manages the checkpoints of a training run: where it begins, when it saves, and whether that
// worked.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/saver.h"
#include "models/job/job.h"
#include "tools/session/choose.h"
#include "tools/session/requests.h"

namespace meshwright::session {

// Checks the checkpoint folder of a job before a run. With --resume, throws InputError if the job
// saves no checkpoints. Without --resume, throws it if the folder holds checkpoints, or if its run
// began with imported weights, unless `imports` says that weights are about to be imported. Throws
// InputError too if nothing can be written there.
void check_checkpoint_folder(const Job& job, bool resume, bool imports = false);

// Throws InputError if the newest checkpoint with a readable manifest holds weights of another
// model, except for differences in the keys `allowed`. A run with --resume calls it before this
// computer is measured and a plan is searched, because both take longer.
void check_resumed_weights(const Job& job, const std::vector<std::string>& allowed);

// Returns a manifest of a new run of this job at step 0, as far as it describes weights.
Manifest first_manifest(const Job& job);

// Throws InputError if the weights were trained in another model than the job's, except for
// differences in the keys `allowed` (--allow-changed), which cause a warning. `where` names the
// manifest in messages.
void check_same_weights(const Manifest& manifest, const std::string& where, const Job& job,
                        const std::vector<std::string>& allowed, const Watch& watch);

// Takes the lock of the job's checkpoint folder on rank 0, checks the folder and removes unfinished
// checkpoints. Every rank calls this function. It returns null on the other ranks and for jobs
// without checkpoints. If rank 0 finds a fault, InputError is thrown on all ranks.
std::unique_ptr<FolderLock> lock_checkpoints(const Job& job, bool resume, Communicator& all);

// Writes the job with its plan as job.json into the folder of its checkpoints, so that `simulate`
// and `train` read the run as it is. Only rank 0 calls it, while it holds the folder's lock. If the
// file cannot be written, it only warns.
void write_plan_beside(const Job& job, const Chosen& chosen, const Watch& watch);

class RunCheckpoints {
 public:
  // With --resume, continues from the newest good checkpoint, or from step 1 if there is none. The
  // job may differ from the checkpoint in the keys of --allow-changed. A job without checkpoints
  // begins at step 1. Every rank calls the constructor, after_step() and finish() at the same
  // points.
  RunCheckpoints(const Job& job, const Chosen& chosen, const TrainRequest& how, Runtime& runtime,
                 Communicator& all, const Watch& watch);

  std::int64_t steps_done() const { return begin_.step; }  // number of steps before this run
  double loss_before() const { return begin_.loss; }       // loss of the last of these steps
  std::int64_t position(std::int64_t step) const;          // index of a step's first sequence
  const std::string& how_it_began() const { return how_it_began_; }

  // Return the lowest evaluation loss so far and its step, which is -1 before the first evaluation.
  // Losses from before a resume count only if the earlier run set `checkpoint.keep_best`.
  double best_loss() const { return begin_.best_loss; }
  std::int64_t best_step() const { return begin_.best_step; }

  // For a job with checkpoints, saves one after a step if it is due, if the run ends after this
  // step (`last`), or if the evaluation loss is the best so far and the job keeps the best.
  // `evaluation` is the loss that was measured after the step, if any.
  void after_step(std::int64_t step, double loss, bool last, std::optional<double> evaluation);
  bool finish();  // waits for the last save; false: it failed

 private:
  void resume(const Chosen& chosen, const std::vector<std::string>& allowed, Runtime& runtime,
              Communicator& all, const Watch& watch);

  const Job& job_;
  const Plan& plan_;
  Manifest begin_;
  std::string how_it_began_;  // a line for the log; empty if there is nothing to say
  std::optional<Saver> saver_;
};

}  // namespace meshwright::session
