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
#include "tools/options.h"
#include "tools/session/choose.h"

namespace meshwright {

// Throws InputError for --resume if the job has no checkpoints. Without --resume, throws it for a
// folder that holds a run, and, unless weights are about to be imported, for one in which a run
// began with imported weights.
void check_checkpoint_folder(const Job& job, bool resume, bool imports = false);

// Returns the manifest of a run of this job before its first step.
Manifest first_manifest(const Job& job);

// Throws InputError if the weights were trained in another model. `where` names the manifest.
// `allowed` are the words of --allow-changed.
void check_same_weights(const Manifest& manifest, const std::string& where, const Job& job,
                        const std::vector<std::string>& allowed);

// Takes the lock of the job's checkpoint folder on rank 0. Every rank calls it. Throws InputError
// on all ranks.
std::unique_ptr<FolderLock> lock_checkpoints(const Job& job, bool resume, Communicator& all);

class RunCheckpoints {
 public:
  // With --resume, continues from the newest good checkpoint, from which the job may differ as
  // --allow-changed says. A job without checkpoints begins at step 1. Every rank calls each
  // function of this class at the same point.
  RunCheckpoints(const Job& job, const Chosen& chosen, const Options& options, Runtime& runtime,
                 Communicator& all);

  std::int64_t steps_done() const { return begin_.step; }  // before this run
  double loss_before() const { return begin_.loss; }       // of the last of them
  std::int64_t position(std::int64_t step) const;          // of the first sequence of a step
  const std::string& how_it_began() const { return how_it_began_; }

  // The lowest evaluation loss so far and its step, or step -1 before the first evaluation. Losses
  // from before a resume count only if that run set `checkpoint.keep_best`.
  double best_loss() const { return begin_.best_loss; }
  std::int64_t best_step() const { return begin_.best_step; }

  // `last`: the run ends after this step. `evaluation`: the loss that was measured after it.
  void after_step(std::int64_t step, double loss, bool last, std::optional<double> evaluation);
  bool finish();  // whether the last save, if there was any, is complete

 private:
  void resume(const Chosen& chosen, const std::vector<std::string>& allowed, Runtime& runtime,
              Communicator& all);

  const Job& job_;
  const Plan& plan_;
  Manifest begin_;
  std::string how_it_began_;  // a line; empty: nothing to say
  std::optional<Saver> saver_;
};

}  // namespace meshwright
