#include "tools/session/checkpoints.h"

#include <fmt/format.h>

#include <random>

#include "exec/checkpoint/common_folder.h"
#include "exec/checkpoint/resume.h"
#include "models/core/error.h"
#include "models/job/identity.h"
#include "tools/session/job_file.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

namespace {

std::string optimizer_of(const Plan& plan) {
  return optimizer_names()[static_cast<std::size_t>(plan.training.optimizer)];
}

std::string degrees_of(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return fmt::format(
      "pipeline {} x tensor {} x data {} x context {}, {}{} virtual, zero {} over {}", p.pipeline,
      p.tensor, p.data, p.context, p.expert > 1 ? fmt::format("experts over {}, ", p.expert) : "",
      p.virtual_stages, p.zero_stage, plan.shard_group());
}

// Returns the job's values that are compared with a checkpoint. A checkpoint of weights without an
// optimizer does not tell how they were trained, so only values that describe the weights are
// compared.
Identity to_compare(const Manifest& manifest, const Job& job, const Plan& plan) {
  return manifest.optimizer.empty() ? identity_of_weights(job) : identity_of(job, plan);
}

void refuse(const IdentityChanges& changes, const std::string& where) {
  if (!changes.refused.empty()) throw InputError(where + ": /made_with: " + changes.refused);
}

// Lists keys for a message: "data.evaluation.files, its model and training.ema_decay". The keys
// are sorted, so those under "model." are neighbours and become one phrase.
std::string list_of_unknown(const std::vector<std::string>& keys) {
  std::vector<std::string> words;
  for (const std::string& key : keys) {
    const std::string word = key.starts_with("model.") ? "its model" : key;
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  return list_of(words, "and");
}

void warn_of(const IdentityChanges& changes, const std::string& file, const Watch& watch) {
  if (!changes.allowed.empty())
    watch.warn(fmt::format("{}: changed since the checkpoint: {}; the job's values are used", file,
                           changes.allowed));
  if (!changes.unknown.empty())
    watch.warn(
        fmt::format("{}: the checkpoint is of an older version, which did not save {}; "
                    "the job's values are used",
                    file, list_of_unknown(changes.unknown)));
}

std::string new_identity() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

void check_same_weights(const Manifest& manifest, const std::string& where, const Job& job,
                        const std::vector<std::string>& allowed, const Watch& watch) {
  const IdentityChanges changes =
      changes_between(manifest.made_with, identity_of_weights(job), allowed);
  refuse(changes, where);
  warn_of(changes, job.file, watch);
}

void check_checkpoint_folder(const Job& job, bool resume, bool imports) {
  if (!job.checkpoint) {
    if (resume)
      throw InputError(job.file +
                       ": --resume: the job saves no checkpoints; give \"checkpoint\": "
                       "{\"folder\": ..., \"every_steps\": N}");
    return;
  }
  const std::string& folder = job.checkpoint->folder;
  check_writable(job.file + ": /checkpoint/folder:", folder + "/lock");
  const std::vector<StepFolder> steps = step_folders(folder);
  if (!resume && !steps.empty())
    throw InputError(
        fmt::format("{}: /checkpoint/folder: {} holds a run (step {}); continue it "
                    "with --resume, or name another folder",
                    job.file, folder, steps.front().step));
  if (!resume && !imports && began_with_imported_weights(folder))
    throw InputError(fmt::format(
        "{}: /checkpoint/folder: {} is of a run that began with imported weights, and holds none "
        "of its checkpoints; import the weights again, or name another folder",
        job.file, folder));
}

void check_resumed_weights(const Job& job, const std::vector<std::string>& allowed) {
  if (!job.checkpoint) return;
  for (const StepFolder& step : step_folders(job.checkpoint->folder)) {
    Manifest manifest;
    try {
      manifest = read_manifest(step.path);
    } catch (const std::exception&) {
      continue;  // damaged; the run resumes from an older one
    }
    refuse(changes_between(manifest.made_with, identity_of_weights(job), allowed),
           step.path + "/manifest.json");
    return;
  }
}

Manifest first_manifest(const Job& job) {
  Manifest manifest;
  manifest.run = new_identity();
  manifest.model = job.model.name;
  manifest.seed = job.plan.training.seed;
  manifest.made_with = identity_of_weights(job);
  return manifest;
}

std::unique_ptr<FolderLock> lock_checkpoints(const Job& job, bool resume, Communicator& all) {
  if (!job.checkpoint) return nullptr;
  std::unique_ptr<FolderLock> lock;
  std::string complaint;
  if (all.rank() == 0) try {
      lock = std::make_unique<FolderLock>(job.checkpoint->folder);
      check_checkpoint_folder(job, resume);
      remove_part_folders(job.checkpoint->folder);
    } catch (const InputError& error) {
      complaint = error.what();
    }
  complaint = first_complaint(complaint, all);
  if (!complaint.empty()) throw InputError(complaint);
  check_common_folder(job.checkpoint->folder, all);
  return lock;
}

void write_plan_beside(const Job& job, const Chosen& chosen, const Watch& watch) try {
  write_job_file(job, chosen.compiled.plan, chosen.machine, chosen.count,
                 job.checkpoint->folder + "/job.json");
} catch (const RunError& error) {
  watch.warn(std::string(error.what()) + "; the run goes on without it");
}

RunCheckpoints::RunCheckpoints(const Job& job, const Chosen& chosen, const TrainRequest& how,
                               Runtime& runtime, Communicator& all, const Watch& watch)
    : job_(job), plan_(chosen.compiled.plan) {
  if (!job.checkpoint) return;
  if (how.resume) resume(chosen, how.allow_changed, runtime, all, watch);
  if (begin_.run.empty()) begin_.run = new_identity();
  begin_.optimizer = optimizer_of(plan_);
  begin_.model = job.model.name;
  begin_.seed = plan_.training.seed;
  begin_.degrees = degrees_of(plan_);
  begin_.made_with = identity_of(job_, plan_);
  saver_.emplace(job.checkpoint->folder, job.checkpoint->keep, runtime, all, watch.note);
}

void RunCheckpoints::resume(const Chosen& chosen, const std::vector<std::string>& allowed,
                            Runtime& runtime, Communicator& all, const Watch& watch) {
  const auto changes_since = [&](const Manifest& manifest) {
    return changes_between(manifest.made_with, to_compare(manifest, job_, plan_), allowed);
  };
  const ResumeOptions options{job_.checkpoint->folder, optimizer_of(plan_),
                              shapes_of(chosen.compiled.stages), frozen_of(chosen.compiled.stages),
                              [&](const Manifest& manifest, const std::string& where) {
                                refuse(changes_since(manifest), where);
                              }};
  const std::optional<Manifest> found = exec::resume(options, runtime, all, watch.note);
  if (!found) {
    how_it_began_ =
        fmt::format("no checkpoint to resume from in {}; starting at step 1", options.folder);
    return;
  }
  begin_ = *found;
  how_it_began_ = fmt::format("resumed after step {}, {} sequences", found->step, found->position);
  if (!found->degrees.empty()) how_it_began_ += "; saved as " + found->degrees;
  if (all.rank() != 0) return;
  warn_of(changes_since(*found), job_.file, watch);
  if (found->imported) mark_as_imported(options.folder);  // the mark may have been lost
}

std::int64_t RunCheckpoints::position(std::int64_t step) const {
  return begin_.position + (step - 1 - begin_.step) * plan_.training.global_batch;
}

void RunCheckpoints::after_step(std::int64_t step, double loss, bool last,
                                std::optional<double> evaluation) {
  const bool is_best = evaluation && (begin_.best_step < 0 || *evaluation < begin_.best_loss);
  if (is_best) begin_.best_step = step, begin_.best_loss = *evaluation;
  if (!saver_) return;
  saver_->poll();
  const bool saves_best = is_best && job_.checkpoint->keep_best;
  if (!last && !saves_best && step % job_.checkpoint->every_steps != 0) return;
  Manifest about = begin_;
  about.step = about.updates = step;
  about.position = position(step + 1);
  about.loss = loss;
  if (!job_.checkpoint->keep_best) about.best_step = -1;
  saver_->save(about);
}

bool RunCheckpoints::finish() { return !saver_ || saver_->finish(); }

}  // namespace meshwright::session
