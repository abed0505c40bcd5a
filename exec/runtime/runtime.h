// Runs the Program of one rank on a device, exactly as it is written: tasks in order, and in each
// body the instructions in list order, each on its stream. Sends and receives do not block. An
// instruction that waits for a message completes it first, and posts the receives that can begin,
// because another rank may wait until what it sent is received. Nothing is allocated after the
// first step.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"
#include "exec/core/thread_pool.h"
#include "exec/data/loader.h"
#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/loss_scale.h"
#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"
#include "exec/runtime/arena.h"
#include "exec/runtime/events.h"
#include "exec/runtime/fifo.h"
#include "exec/runtime/inputs.h"
#include "exec/runtime/non_finite.h"
#include "exec/runtime/parameters.h"
#include "models/program/timeline.h"

namespace meshwright {

using Histories = std::map<std::string, std::vector<double>>;

struct RuntimeOptions {
  int threads = 1;     // of the optimizer and of making initial values
  int layers = 1;      // of the whole model: initial values depend on it
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
  double seconds = 0;        // of wall time on this rank
  double loss_scale = 1;     // of this step; 1 where the loss is not scaled
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
  // options. Throws NotSupportedYet for what this backend cannot run.
  Runtime(const std::vector<Program>& stages, World& world, Backend& backend,
          const RuntimeOptions& options);
  ~Runtime();

  // Trains one step, counted from 1, on the global batch that begins with sequence `position`. If
  // loss or norm is not finite, the step is replayed from the unchanged state to find where that
  // began, and all ranks throw NonFinite. In fp16, a step in which only the norm of the scaled
  // gradients is not finite is skipped.
  StepResult step(std::int64_t step, std::int64_t position, Loader& loader);

  // Returns the loss of the global batch that begins with sequence `position`, on the parameters as
  // they are and without dropout. The step's instructions run except for backward compute and the
  // update, so training goes on as if nothing had been asked. Every rank calls it, between two
  // steps, and all get the same. Throws RunError if the loss is not finite.
  Evaluation evaluate(std::int64_t position, Loader& loader);

  // Replays the latest step on the parameters as they are, without the update, and looks at every
  // value. Every rank calls it, and all get the same finding.
  NonFiniteSearch::Finding find_non_finite();

  // fp16: the state of the loss scale, equal on all ranks. The optimizer's own count of steps,
  // which bias correction and learning rate follow, is (step - skipped).
  bool scales_loss() const { return program_.loss_scale_buffer >= 0; }
  LossScaleState loss_scale() const { return scale_; }
  void set_loss_scale(const LossScaleState& state);  // a static scale stays the job's
  // Returns the histories of fp8's delayed scales: for every rounded tensor, by name, its largest
  // element in each of the latest steps, the newest last. Every rank calls it, and rank 0 gets
  // those of all stages.
  Histories histories();
  // Sets the histories of this rank's stage. A tensor without a history has seen nothing yet.
  // Throws InputError for a value that cannot be a largest element.
  void set_histories(const Histories& histories);
  // Recomputes the 16-bit working copies from the fp32 masters and shares them among ranks. All
  // ranks call it together, after masters have been written.
  void refresh_working_copies();

  // Returns whether `own` is true on any rank. Every rank calls it.
  bool any(bool own);
  // Returns the values of `own` on all ranks, in the order of ranks. Every rank calls it.
  std::vector<std::int64_t> gather_of_all(std::int64_t own);

  Parameters& parameters() { return *parameters_; }
  const Program& program() const { return program_; }  // of this rank's stage
  const Mesh& mesh() const { return mesh_; }
  const Coordinates& coordinates() const { return own_; }
  const Arena& memory() const { return memory_; }
  void trace(bool on) { options_.trace = on; }  // from the next step on
  // The timeline of the latest step, in picoseconds since all ranks made their Runtimes.
  const Timeline& timeline() const { return timeline_; }
  std::int64_t arena_bytes() const { return memory_.bytes(); }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }  // in addition to the arena

 private:
  struct Pending {  // a send or receive in flight
    RunId run;
    Request request;
    std::size_t entry;  // of the timeline
  };
  // The messages of a pair of streams. A communicator of its own keeps their order.
  struct Messages {
    Communicator* stages = nullptr;  // null: there are none
    Fifo<Pending> sends, receives;   // under way, each in the order of its stream
    std::vector<RunId> to_receive;   // in a step, in list order
    std::size_t posted = 0;          // how many of them are posted
  };
  struct Segment {  // the elements of one parameter in this rank's part of a bucket
    OptimizerSegment elements;
    int parameter = 0;  // index into Program::parameters
  };
  struct Run {  // neighbouring elements of this rank's part of a bucket
    std::int64_t begin = 0, count = 0;
  };

  struct Deallocate {
    Backend* backend;
    void operator()(void* memory) const { backend->deallocate(memory); }
  };
  using Scratch = std::unique_ptr<void, Deallocate>;

  void make_groups();
  void make_segments();
  const WholeMatrix* whole_matrix_of(const Bucket& bucket, const Parameter& parameter);
  const RandomRounding* rounding_of(const Parameter& parameter);
  const AdafactorParameter* adafactor_parameter(const StageParameter& member);
  bool counts_in_norm(const Bucket& bucket) const;
  void check_supported_here() const;
  Scratch reserve_scratch();
  void list_messages();

  StepCapture* capture_of_steps() const;
  void prepare_evaluation();
  void use(Stream stream);
  std::int64_t counted_targets(std::int64_t position, Loader& loader) const;
  void run_tasks();
  void issue_tasks();
  void issue_captured();
  void read_ahead();
  void run_task(int task);
  [[noreturn]] void fail_non_finite(std::string_view what);
  std::string describe_run(const RunId& run) const;
  void execute(int task, const Instruction& instruction, int index);
  void compute(const Instruction& instruction, const Task& task);
  bool is_left_out(const Instruction& instruction, const Task& task) const;
  const Attributes& attributes_of(const Instruction& instruction) const;
  void collective(const Instruction& instruction, const Task& task);
  bool collective_apart(const Instruction& instruction, const Task& task);
  void copy(const Instruction& instruction, const Task& task);
  void message(const Instruction& instruction, const RunId& run);
  void receive_ahead();
  void receive_ahead(Messages& messages);
  bool is_over(const RunId& run);
  std::int64_t first_sequence_of(const Task& task) const;
  void sum_of_squares(const Instruction& instruction, const Task& task);
  void look_at_parameters(const Instruction& instruction, const Task& task);

  // update.cpp: the step's end
  ScaledStep* scaled_step() const;
  void update(const Instruction& instruction);
  StepResult look_at_result();
  std::optional<double> mtp_loss() const;
  std::optional<double> expert_load() const;
  void choose_segments(int bucket, int piece);
  std::vector<ChoiceBias> choice_biases(int bucket) const;

  void wait_for(int task, const Instruction& instruction);
  void complete_until(Stream stream, const RunId& run);
  void complete_all();
  void complete(Communicator& stages, const Pending& pending);
  void make_progress();
  void finish(const Pending& pending);
  int tag_of(const Instruction& instruction, const Task& task) const;
  std::size_t note(int task, int index, SimTime begin);
  SimTime now() const;
  SimTime moment();
  void begin_times();
  void settle_times();
  Messages& messages(Stream stream) { return messages_[is_back(stream) ? 1 : 0]; }
  Fifo<Pending>& pending(Stream stream) {
    Messages& own = messages(stream);
    return stream == Stream::pipe_send || stream == Stream::pipe_send_back ? own.sends
                                                                           : own.receives;
  }
  Communicator& group(GroupKind kind) { return *groups_.at(kind); }
  int context_rank() const { return own_.rdp % mesh_.degrees().context; }

  const std::vector<Program>& stages_;
  const StepSettings& training_;
  const Mesh mesh_;
  World& world_;
  Backend& backend_;
  Streams* const streams_;  // null: everything is done at once
  RuntimeOptions options_;
  Coordinates own_;
  const Program& program_;
  std::int64_t scratch_bytes_ = 0;
  Scratch scratch_;  // of operations; null: none needs any
  Arena memory_;
  WaitResolver resolve_;
  Events events_;
  std::unique_ptr<Communicator> everybody_;  // on host memory
  std::map<GroupKind, std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<Communicator> stages_back_;  // for messages of chunks that go back
  std::unique_ptr<Parameters> parameters_;
  ThreadPool pool_;
  std::vector<std::vector<Run>> counted_;  // by bucket: in the gradient norm
  std::unique_ptr<Updater> updater_;
  std::vector<std::vector<Segment>> segments_;  // by bucket
  std::vector<int> first_key_;  // by bucket: the updater's number of its first piece
  int channels_ = 1;

  LossScaleState scale_;  // of the next step

  // State of the step that is running.
  Loader* loader_ = nullptr;
  std::int64_t position_ = 0;
  std::int64_t step_ = 0;
  bool decided_ = false;  // whether there is an update
  RunId now_{0, 0};       // the instruction that the list has come to
  std::array<Messages, std::size(message_streams)> messages_;
  std::vector<TensorType> input_types_, output_types_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::deque<WholeMatrix> matrices_;      // of segments
  std::deque<RandomRounding> roundings_;  // the same
  std::deque<AdafactorParameter> adafactor_parameters_;
  std::vector<OptimizerSegment> stepped_;
  NonFiniteSearch* search_ = nullptr;  // while a step is replayed
  bool evaluates_ = false;
  // Made by the first evaluation: the attributes of instructions without their dropout, and the
  // instructions that make the loss in backward bodies.
  std::map<const Instruction*, Attributes> without_dropout_;
  std::set<const Instruction*> makes_loss_;
  bool can_evaluate_ = false;
  Inputs step_inputs_;
  Timeline timeline_;
  SimTime stamps_begin_ = 0;
  enum class Capture { none, ready, done };
  StepCapture* const steps_;  // null: each step is issued anew
  Capture capture_ = Capture::none;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace meshwright
