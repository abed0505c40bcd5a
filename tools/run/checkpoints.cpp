#include "tools/run/checkpoints.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "exec/checkpoint/common_folder.h"
#include "exec/checkpoint/resume.h"
#include "models/core/error.h"
#include "tools/print.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

void say(const std::string& line) { print_to(stderr, "{}\n", line); }

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

// What makes it another training where it changes. Degrees, micro-batches, recomputation and the
// like make the same one; another model or optimizer is refused.
constexpr const char* settings[] = {"training.global_batch",
                                    "training.sequence_length",
                                    "training.predicted_positions",
                                    "training.packing",
                                    "training.mtp_loss_weight",
                                    "training.precision",
                                    "training.loss_scale",
                                    "training.seed",
                                    "training.learning_rate",
                                    "training.warmup_steps",
                                    "training.learning_rate_schedule",
                                    "training.decay_steps",
                                    "training.weight_decay",
                                    "training.adafactor",
                                    "training.momentum",
                                    "training.beta1",
                                    "training.beta2",
                                    "training.epsilon",
                                    "training.gradient_clip",
                                    "training.gradient_clip_value",
                                    "training.dropout",
                                    "training.lora",
                                    "data.files",
                                    "data.format",
                                    "data.tokenizer",
                                    "data.template",
                                    "data.end_token",
                                    "data.weights",
                                    "data.shuffle",
                                    "data.seed",
                                    "data.mask_token",
                                    "data.document_end"};

std::map<std::string, std::string> settings_of(const Job& job, const Plan& plan) {
  const nlohmann::json all = to_json(job, plan, "", 0);
  std::map<std::string, std::string> values;
  const auto take = [&](const std::string& key) {
    const std::size_t dot = key.find('.');
    const nlohmann::json::json_pointer place("/" + key.substr(0, dot) + "/" + key.substr(dot + 1));
    values[key] = all.contains(place) ? all.at(place).dump() : "not given";
  };
  for (const char* key : settings) take(key);
  // A constant learning rate does not know where the run ends.
  if (plan.training.learning_rate_schedule != LearningRateSchedule::constant)
    take("training.steps");
  return values;
}

// "training.beta1 0.9 to 0.8, ..."; empty: nothing.
std::string changes(const std::map<std::string, std::string>& before,
                    const std::map<std::string, std::string>& now) {
  constexpr std::size_t longest = 40;
  std::string text;
  for (const auto& [key, value] : before) {
    const auto found = now.find(key);
    if (found == now.end() || found->second == value) continue;
    text += (text.empty() ? "" : ", ") + key;
    if (value.size() <= longest && found->second.size() <= longest)
      text += " " + value + " to " + found->second;
  }
  return text;
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
  check_common_folder(job.checkpoint->folder, all);
  return lock;
}

RunCheckpoints::RunCheckpoints(const Job& job, const Chosen& chosen, bool resume, Runtime& runtime,
                               Communicator& all)
    : job_(job), plan_(chosen.compiled.plan) {
  if (!job.checkpoint) return;
  if (resume) this->resume(chosen, runtime, all);
  if (begin_.run.empty()) begin_.run = new_identity();
  begin_.optimizer = optimizer_of(plan_);
  begin_.model = job.model.name;
  begin_.seed = plan_.training.seed;
  begin_.degrees = degrees_of(plan_);
  begin_.made_with = settings_of(job_, plan_);
  saver_.emplace(job.checkpoint->folder, job.checkpoint->keep, runtime, all, say);
}

void RunCheckpoints::resume(const Chosen& chosen, Runtime& runtime, Communicator& all) {
  const ResumeOptions options{job_.checkpoint->folder, optimizer_of(plan_),
                              shapes_of(chosen.compiled.stages), frozen_of(chosen.compiled.stages)};
  const std::optional<Manifest> found = meshwright::resume(options, runtime, all, say);
  if (!found) {
    how_it_began_ =
        fmt::format("no checkpoint to resume from in {}; starting at step 1", options.folder);
    return;
  }
  begin_ = *found;
  how_it_began_ = fmt::format("resumed after step {}, {} sequences", found->step, found->position);
  if (!found->degrees.empty()) how_it_began_ += "; saved as " + found->degrees;
  const std::string changed = changes(found->made_with, settings_of(job_, plan_));
  if (all.rank() == 0 && !changed.empty())
    say(fmt::format("warning: {}: changed since the checkpoint: {}; the run goes on with the job's",
                    job_.file, changed));
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

}  // namespace meshwright
