#include "tools/run_checkpoints.h"

#include <fmt/format.h>

#include <cstdio>
#include <random>

#include "exec/checkpoint/resume.h"
#include "models/core/error.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

void say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

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

std::string new_identity() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

void check_checkpoint_folder(const Job& job, bool resume) {
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
}

Manifest first_manifest(const Job& job) {
  Manifest manifest;
  manifest.run = new_identity();
  manifest.model = job.model.name;
  manifest.seed = job.plan.training.seed;
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
  return lock;
}

RunCheckpoints::RunCheckpoints(const Job& job, const Chosen& chosen, bool resume, Runtime& runtime,
                               Communicator& all)
    : job_(job), plan_(chosen.prepared.plan) {
  if (!job.checkpoint) return;
  if (resume) this->resume(chosen, runtime, all);
  if (begin_.run.empty()) begin_.run = new_identity();
  begin_.optimizer = optimizer_of(plan_);
  begin_.model = job.model.name;
  begin_.seed = plan_.training.seed;
  begin_.degrees = degrees_of(plan_);
  saver_.emplace(job.checkpoint->folder, job.checkpoint->keep, runtime, all, say);
}

void RunCheckpoints::resume(const Chosen& chosen, Runtime& runtime, Communicator& all) {
  const ResumeOptions options{job_.checkpoint->folder, optimizer_of(plan_),
                              shapes_of(chosen.prepared.stages)};
  const std::optional<Manifest> found = meshwright::resume(options, runtime, all, say);
  if (!found) {
    how_it_began_ =
        fmt::format("no checkpoint to resume from in {}; starting at step 1", options.folder);
    return;
  }
  begin_ = *found;
  how_it_began_ = fmt::format("resumed after step {}, {} sequences", found->step, found->position);
  if (!found->degrees.empty()) how_it_began_ += "; saved as " + found->degrees;
  if (all.rank() == 0 && found->step > 0 && found->seed != plan_.training.seed)
    say(fmt::format(
        "warning: {}: /training/seed: the checkpoint's is {}; the job's {} is used from "
        "here on",
        job_.file, found->seed, plan_.training.seed));
}

std::int64_t RunCheckpoints::position(std::int64_t step) const {
  return begin_.position + (step - 1 - begin_.step) * plan_.training.global_batch;
}

void RunCheckpoints::after_step(std::int64_t step, double loss, bool last) {
  if (!saver_) return;
  saver_->poll();
  if (!last && step % job_.checkpoint->every_steps != 0) return;
  Manifest about = begin_;
  about.step = about.updates = step;
  about.position = position(step + 1);
  about.loss = loss;
  saver_->save(about);
}

bool RunCheckpoints::finish() { return !saver_ || saver_->finish(); }

}  // namespace meshwright
