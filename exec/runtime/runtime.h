// Runs the Program of one rank on a device, exactly as it is written: tasks in order, and in each
// body the instructions in list order, each on its stream. runtime.cpp has this loop. It calls
// members of the class for instructions of one kind each, such as messages, operations or the
// update.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/loader.h"
#include "exec/runtime/bucket_parts.h"
#include "exec/runtime/evaluation.h"
#include "exec/runtime/events.h"
#include "exec/runtime/inputs.h"
#include "exec/runtime/non_finite.h"
#include "exec/runtime/operations.h"
#include "exec/runtime/parameters.h"
#include "exec/runtime/rank_context.h"
#include "exec/runtime/stage_messages.h"
#include "exec/runtime/trace_times.h"
#include "exec/runtime/update.h"

namespace meshwright::exec {

using Histories = std::map<std::string, std::vector<double>>;

struct RuntimeOptions {
  int threads = 1;     // threads that make initial values
  int layers = 1;      // the whole model's; initial values depend on it
  bool trace = false;  // keep a Timeline of the latest step
};

// The loss of a batch that the run evaluates without training on it.
struct Evaluation {
  double loss = 0;           // sum over the targets
  std::int64_t targets = 0;  // targets that count
  double mean() const { return loss / static_cast<double>(targets); }
};

struct StepResult {
  double loss = 0;       // mean over the counted targets of the global batch, before the update
  double grad_norm = 0;  // before clipping; infinite in a step that was skipped
  double learning_rate = 0;
  double seconds = 0;        // wall time on this rank
  double loss_scale = 1;     // this step's; 1 if the loss is not scaled
  std::int64_t skipped = 0;  // steps without an update so far (fp16 overflows)
  bool was_skipped = false;  // this one
  // For multi-token prediction: the mean of the losses of its depths, unweighted.
  std::optional<double> mtp_loss;
  // Set if it is measured: tokens of the most loaded rank of an expert group relative to the mean,
  // or with `expert` 1 those of the most loaded expert, averaged over the layers. At least 1.
  std::optional<double> expert_load;
};

class Runtime {
 public:
  // Makes the Runtime. `stages` are the Programs of all stages, of which this rank runs its own.
  // Every rank of `world` makes its Runtime at the same time. The arguments must outlive it, except
  // options. Throws InputError or NotSupportedYet for what this backend cannot run.
  Runtime(const std::vector<Program>& stages, World& world, Backend& backend,
          const RuntimeOptions& options);
  ~Runtime();

  // Trains one step, counted from 1, on the global batch that begins with sequence `position`. If
  // loss or norm is not finite, the step is replayed from the unchanged state to find where that
  // began, and all ranks throw NonFinite. In fp16, a step in which only the norm of the scaled
  // gradients is not finite is skipped.
  StepResult step(std::int64_t step, std::int64_t position, Loader& loader);

  // Returns the loss of the global batch that begins with sequence `position`, on the parameters as
  // they are and without dropout. The step's instructions run except for the update and for
  // backward compute that does not contribute to the loss, so training goes on as if nothing had
  // been asked. Every rank calls it, between two steps, and all get the same. Throws RunError if
  // the loss is not finite.
  Evaluation evaluate(std::int64_t position, Loader& loader);

  // Returns the logits of a row of the batch, widened to fp32. Like evaluate(), it runs the global
  // batch that begins with sequence `position`. `row` counts the positions that the head predicts,
  // over the sequences of the micro-batch. For one rank that runs a language model's Program of one
  // micro-batch, in which the loss is an operation of its own: compile_forward() makes such ones.
  // Returns no element if the Program has no such loss.
  std::vector<float> logits(std::int64_t position, Loader& loader, std::int64_t row);

  // Replays the latest step on the parameters as they are, without the update, and looks at every
  // value. Every rank calls it, and all get the same finding.
  NonFiniteSearch::Finding find_non_finite();

  // fp16: the state of the loss scale, equal on all ranks. The optimizer's own count of steps,
  // which bias correction and learning rate follow, is (step - skipped).
  bool scales_loss() const { return update_.scales_loss(); }
  LossScaleState loss_scale() const { return update_.loss_scale(); }
  // A static scale stays the job's.
  void set_loss_scale(const LossScaleState& state) { update_.set_loss_scale(state); }
  // Returns the histories of fp8's delayed scales: for every rounded tensor, by name, its largest
  // element in each of the latest steps, the newest last. Every rank calls it. Rank 0 gets those of
  // all stages, and the others get none.
  Histories histories();
  // Sets, for the tensors of this rank's stage that have delayed scales, their largest magnitudes
  // in the latest steps (histories()). A tensor that is missing begins with none. Throws InputError
  // for a magnitude that is negative or not finite.
  void set_histories(const Histories& histories);
  // Replaces the job's schedule of learning rates from the next step on, by what a script's own
  // schedule says.
  void set_learning_rate(double rate) { learning_rate_ = rate; }
  // Recomputes the 16-bit working copies from the fp32 masters and shares them among ranks. All
  // ranks call it together, after masters have been written.
  void refresh_working_copies();

  // Returns whether `own` is true on any rank. Every rank calls it.
  bool any(bool own);
  // Returns the values of `own` on all ranks, in the order of ranks. Every rank calls it.
  std::vector<std::int64_t> gather_of_all(std::int64_t own);

  Parameters& parameters() { return parameters_; }
  const Program& program() const { return rank_.program; }  // this rank's stage
  const Mesh& mesh() const { return rank_.mesh; }
  const Coordinates& coordinates() const { return rank_.own; }
  const Arena& memory() const { return rank_.memory; }
  void trace(bool on) { times_.turn(on); }  // from the next step on
  // The timeline of the latest step, in picoseconds since all ranks made their Runtimes.
  const Timeline& timeline() const { return times_.timeline; }
  std::int64_t arena_bytes() const { return rank_.memory.bytes(); }
  std::int64_t scratch_bytes() const { return rank_.scratch_bytes; }  // in addition to the arena

 private:
  StepCapture* capture_of_steps() const;
  std::int64_t counted_targets(std::int64_t position, Loader& loader) const;
  void run_tasks();
  void issue_tasks();
  void issue_captured();
  void read_ahead();
  void run_task(int task);
  bool trains() const { return search_ == nullptr && !evaluates_; }
  void run_untrained(std::int64_t position, Loader& loader);
  void look_at_logits(const Instruction& instruction, const Task& task);
  void issue(const RunId& run, const Instruction& instruction, const Task& task);
  void run(const RunId& run, const Instruction& instruction, const Task& task);
  void compute(const Instruction& instruction, const Task& task);
  std::int64_t first_sequence_of(const Task& task) const;
  StepResult look_at_result();
  [[noreturn]] void fail_non_finite(std::string_view what);

  RankContext rank_;
  WaitResolver resolve_;
  Events events_;
  TraceTimes times_;
  BucketParts parts_;
  StageMessages messages_;
  OperationRunner operations_;
  StepUpdate update_;
  Inputs step_inputs_;
  Parameters parameters_;
  enum class Capture { none, ready, done };
  StepCapture* const steps_;  // null: each step is issued anew
  Capture capture_ = Capture::none;
  std::optional<EvaluationRules> evaluation_;  // made by the first evaluation

  // The step that is running.
  std::int64_t step_ = 0;
  std::int64_t position_ = 0;  // position of its first sequence
  Loader* loader_ = nullptr;
  NonFiniteSearch* search_ = nullptr;  // not null: a step is replayed
  bool evaluates_ = false;
  // A row of logits that an evaluation copies.
  struct WantedLogits {
    std::int64_t row = 0;
    std::vector<float> values;
  };
  WantedLogits* wanted_logits_ = nullptr;  // null: none is copied
  std::optional<double> learning_rate_;    // in place of the job's
};

}  // namespace meshwright::exec
