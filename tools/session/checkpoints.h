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
// has no checkpoints. Without --resume, throws it if the folder holds a run, and, unless `imports`
// says that weights are about to be imported, if a run in it began with imported weights. Throws
// InputError too if nothing can be written there.
void check_checkpoint_folder(const Job& job, bool resume, bool imports = false);

// Throws InputError if the newest checkpoint that --resume would take holds weights of another
// model. Called before this computer is measured and a plan is searched, which takes longer.
void check_resumed_weights(const Job& job, const std::vector<std::string>& allowed);

// Returns the manifest of a run of this job before its first step.
Manifest first_manifest(const Job& job);

// Throws InputError if the weights were trained in another model than the job's, except for
// differences in the keys `allowed` (--allow-changed), which cause a warning. `where` names the
// manifest in messages.
void check_same_weights(const Manifest& manifest, const std::string& where, const Job& job,
                        const std::vector<std::string>& allowed, const Watch& watch);

// Takes the lock of the job's checkpoint folder on rank 0 and checks the folder. Every rank calls
// it. Returns null on the other ranks and for jobs without checkpoints. If rank 0 fails, throws
// InputError on all ranks.
std::unique_ptr<FolderLock> lock_checkpoints(const Job& job, bool resume, Communicator& all);

// Writes the job with its plan as job.json into the folder of its checkpoints, so that `simulate`
// and `train` read the run as it is. Rank 0 calls it, which holds the folder's lock.
void write_plan_beside(const Job& job, const Chosen& chosen, const Watch& watch);

class RunCheckpoints {
 public:
  // With --resume, continues from the newest good checkpoint, or from step 1 if there is none. The
  // job may differ from the checkpoint in the keys of --allow-changed. A job without checkpoints
  // begins at step 1. Every rank calls each function of this class at the same point.
  RunCheckpoints(const Job& job, const Chosen& chosen, const TrainRequest& how, Runtime& runtime,
                 Communicator& all, const Watch& watch);

  std::int64_t steps_done() const { return begin_.step; }  // before this run
  double loss_before() const { return begin_.loss; }       // of the last of them
  std::int64_t position(std::int64_t step) const;          // of the first sequence of a step
  const std::string& how_it_began() const { return how_it_began_; }

  // The lowest evaluation loss so far and its step, or step -1 before the first evaluation. Losses
  // from before a resume count only if that run set `checkpoint.keep_best`.
  double best_loss() const { return begin_.best_loss; }
  std::int64_t best_step() const { return begin_.best_step; }

  // Saves a checkpoint after a step if it is due, or if the evaluation loss is the best and the job
  // keeps the best. `last` says that the run ends after this step. `evaluation` is the loss that
  // was measured after it, if any.
  void after_step(std::int64_t step, double loss, bool last, std::optional<double> evaluation);
  bool finish();  // waits for the last save; false: it failed

 private:
  void resume(const Chosen& chosen, const std::vector<std::string>& allowed, Runtime& runtime,
              Communicator& all, const Watch& watch);

  const Job& job_;
  const Plan& plan_;
  Manifest begin_;
  std::string how_it_began_;  // a line; empty: nothing to say
  std::optional<Saver> saver_;
};

}  // namespace meshwright::session
