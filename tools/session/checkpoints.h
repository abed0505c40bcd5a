// The checkpoints of a training run: where it begins, when it saves, how that went.
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

// Refuses a --resume without checkpoints in the job, and a folder that holds a run without
// --resume; unless weights are about to be imported, also one in which a run began with imported
// weights. InputError.
void check_checkpoint_folder(const Job& job, bool resume, bool imports = false);

// Of a run of this job that has done nothing yet.
Manifest first_manifest(const Job& job);

// Refuses to read weights as those of another model than that they were trained in. `where` names
// the manifest, `allowed` are the words of --allow-changed. InputError.
void check_same_weights(const Manifest& manifest, const std::string& where, const Job& job,
                        const std::vector<std::string>& allowed);

// Rank 0 takes the lock of the job's checkpoint folder; every rank calls it. InputError on all.
std::unique_ptr<FolderLock> lock_checkpoints(const Job& job, bool resume, Communicator& all);

class RunCheckpoints {
 public:
  // With --resume, continues from the newest good checkpoint; --allow-changed says what of the job
  // may differ from it. A job without checkpoints has none of this and begins at step 1. Every rank
  // calls each of these at the same place.
  RunCheckpoints(const Job& job, const Chosen& chosen, const Options& options, Runtime& runtime,
                 Communicator& all);

  std::int64_t steps_done() const { return begin_.step; }  // before this run
  double loss_before() const { return begin_.loss; }       // of the last of them
  std::int64_t position(std::int64_t step) const;          // of the first sequence of a step
  const std::string& how_it_began() const { return how_it_began_; }

  // The lowest evaluation loss so far, and its step; -1: there was none. Of what came before this
  // run a job that keeps the best one knows.
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
