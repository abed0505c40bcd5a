#include "tools/report/train_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/program/mesh.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/report/print_json.h"
#include "tools/report/trace_files.h"
#include "tools/report/train_report.h"
#include "tools/session/median.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

constexpr int bar_width = 30;

// Abandons a log that cannot be written, because the run is worth more than its log.
template <typename Log, typename Write>
void write_or_give_up(std::optional<Log>& log, const Write& write) {
  try {
    write();
  } catch (const RunError& error) {
    std::fprintf(stderr, "warning: %s; this log is given up, the run goes on\n", error.what());
    log.reset();
  }
}

// Returns the table that compares the prediction with the measurement. On a GPU it also shows the
// parts that add up to the peak memory.
Table comparison(const Prediction& prediction, const Plan& plan, const Outcome& outcome,
                 bool on_gpu) {
  const auto error = [](double predicted, double real) {
    return fmt::format("{:+.1f} %", (predicted / real - 1) * 100);
  };
  // The median is taken, because the first steps touch new memory and a busy computer disturbs some
  // steps.
  const double seconds = median(outcome.seconds.values());
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  Table table({"", "predicted", "measured", "error"});
  if (seconds > 0)  // a resumed run may have had nothing left to do
    table.add({"step time", show_seconds(prediction.step_time_s), show_seconds(seconds),
               error(prediction.step_time_s, seconds)});
  for (std::size_t rank = 0; rank < outcome.memory.size(); ++rank) {
    const int stage = mesh.coordinates(static_cast<int>(rank)).pipeline;
    const StageMemory& predicted = prediction.memory[stage];
    const RankMemory& measured = outcome.memory[rank];
    const auto add = [&](const std::string& what, std::int64_t planned, std::int64_t found,
                         const std::string& how_far) {
      table.add({what, show_bytes(static_cast<double>(planned)),
                 show_bytes(static_cast<double>(found)), how_far});
    };
    add(fmt::format("peak memory, rank {}", rank), predicted.peak_bytes, measured.peak,
        error(static_cast<double>(predicted.peak_bytes), static_cast<double>(measured.peak)));
    if (!on_gpu) continue;
    add("  the plan's arena", predicted.arena_bytes, measured.arena, "");
    add("  scratch of operations", predicted.scratch_bytes, measured.scratch, "");
    add("  libraries", predicted.library_bytes, measured.libraries(), "");
  }
  return table;
}

std::vector<std::int64_t> peaks_of(const std::vector<RankMemory>& memory) {
  std::vector<std::int64_t> peaks;
  for (const RankMemory& of_rank : memory) peaks.push_back(of_rank.peak);
  return peaks;
}

// Returns the table that compares kinds of instructions in the last step, which was traced. The
// first 15 kinds have a row each. The others are summed up, unless there is only one.
Table comparison_of_kinds(const std::vector<KindTime>& kinds) {
  constexpr std::size_t shown = 15;
  Table table({"kind of instruction", "predicted", "measured"});
  KindTime others{"others"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i < shown || kinds.size() == shown + 1) {
      table.add(
          {kinds[i].kind, show_seconds(kinds[i].predicted_s), show_seconds(kinds[i].measured_s)});
      continue;
    }
    others.predicted_s += kinds[i].predicted_s;
    others.measured_s += kinds[i].measured_s;
  }
  if (kinds.size() > shown + 1)
    table.add({others.kind, show_seconds(others.predicted_s), show_seconds(others.measured_s)});
  return table;
}

std::string how_it_ended(const Outcome& outcome) {
  const std::string& hash = outcome.parameters_sha256;
  // Messages before this line have named the files that could not be written.
  const char* how = !outcome.complete() ? "some files could not be written; the run ended"
                    : outcome.stopped   ? "stopped on request"
                                        : "done";
  std::string text = fmt::format("{} after step {}   final loss {:.5f}{}{}", how, outcome.steps,
                                 outcome.last.loss, hash.empty() ? "" : "   parameters ", hash);
  if (outcome.best_step >= 0)
    text += fmt::format("\nlowest evaluation loss {:.5f} after step {}", outcome.best_loss,
                        outcome.best_step);
  return text;
}

}  // namespace

std::string log_file(const Options& options, const Job& job) {
  if (!options.log_json.empty()) return options.log_json;
  if (!job.log.json.empty()) return job.log.json;
  return job.log.folder.empty() ? "" : job.log.folder + "/steps.jsonl";
}

double TrainLog::steady_seconds() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

TrainLog::TrainLog(const Options& options, const Job& job, const Chosen& chosen,
                   const Prediction& prediction, Clock clock)
    : options_(options),
      job_(job),
      chosen_(chosen),
      prediction_(prediction),
      to_(options.json ? stderr : stdout),
      progress_(options.progress || isatty(fileno(stderr)) != 0),
      clock_(std::move(clock)) {
  if (!job.log.tensorboard.empty())
    write_or_give_up(events_, [&] { events_.emplace(job.log.tensorboard); });
  const std::string path = log_file(options, job);
  if (!path.empty())
    write_or_give_up(lines_, [&] {
      lines_.emplace(options.resume ? GrowingFile::append_lines(path) : GrowingFile::create(path));
    });
}

void TrainLog::begin(int threads, const std::string& how_it_began, std::int64_t sequences) {
  sequences_ = sequences;
  print_to(to_, "model {}, {} parameters; {}; {} {} per rank\n", job_.model.name,
           show_count(static_cast<double>(parameter_count(chosen_.compiled.graph))),
           plan_text(chosen_.compiled.plan), threads, threads == 1 ? "thread" : "threads");
  const std::int64_t padded =
      padded_vocabulary(job_.model.vocabulary, chosen_.compiled.plan.parallelism.tensor);
  if (padded != job_.model.vocabulary)
    std::fprintf(to_, "vocabulary %lld padded to %lld\n",
                 static_cast<long long>(job_.model.vocabulary), static_cast<long long>(padded));
  std::fprintf(to_, "predicted: %s per step, peak memory %s per rank\n",
               show_seconds(prediction_.step_time_s).c_str(),
               show_bytes(static_cast<double>(prediction_.peak_memory_bytes)).c_str());
  if (sequences == 0)
    print_to(to_, "no data: random {}\n", job_.model.reads_images() ? "images" : "tokens");
  if (!how_it_began.empty()) print_to(to_, "{}\n", how_it_began);
  const bool ahead = chosen_.compiled.plan.training.mtp_layers > 0;
  const bool measures = chosen_.compiled.plan.training.measure_expert_load;
  std::fprintf(to_, "%6s %9s %9s %9s %8s %8s %7s%s %8s%s%s%s\n", "step", "loss", "grad norm",
               "rate", "ms", "tokens/s", "tokens", counts_epochs() ? "  epoch" : "", "left",
               ahead ? "  mtp loss" : "", measures ? " expert load" : "",
               scales_loss() ? " loss scale" : "");
  std::fflush(to_);
}

// Returns how long the remaining steps take. It is extrapolated from the time since the first step
// of this run, with evaluations and saves. After the first step, it is "-", or "0 s" if no step
// remains.
std::string TrainLog::time_left(std::int64_t step) {
  const int steps = chosen_.compiled.plan.training.steps;
  if (first_step_ == 0) {
    first_step_ = step;
    first_step_ended_ = clock_();
  }
  if (step == first_step_) return step < steps ? "-" : "0 s";
  const double each = (clock_() - first_step_ended_) / static_cast<double>(step - first_step_);
  const double left = std::ceil(each * static_cast<double>(steps - step));
  return left < 120 ? fmt::format("{:.0f} s", left) : show_duration(left);
}

// Returns whether lines count epochs. Mixtures of files have none, because their files do not end
// together.
bool TrainLog::counts_epochs() const {
  return sequences_ > 0 && !(job_.data && !job_.data->weights.empty());
}

std::int64_t TrainLog::tokens_per_step() const {
  const Training& training = chosen_.compiled.plan.training;
  return training.global_batch * training.sequence_length;
}

// Prints a line for a step. Its times are means over the steps since the previous line.
void TrainLog::print_step(std::int64_t step, const StepResult& result,
                          const std::string& time_left) {
  const double seconds = seconds_ / static_cast<double>(steps_);
  std::fprintf(to_, "%6lld %9.5f %9.4f %9.3e %8.1f %8.0f %7s", static_cast<long long>(step),
               result.loss, result.grad_norm, result.learning_rate, seconds * 1e3,
               static_cast<double>(tokens_per_step()) / seconds,
               show_count(static_cast<double>(step * tokens_per_step())).c_str());
  const auto sequences = static_cast<double>(step * chosen_.compiled.plan.training.global_batch);
  if (counts_epochs()) std::fprintf(to_, " %6.2f", sequences / static_cast<double>(sequences_));
  std::fprintf(to_, " %8s", time_left.c_str());
  if (result.mtp_loss) std::fprintf(to_, " %9.5f", *result.mtp_loss);
  if (result.expert_load) std::fprintf(to_, " %11.4f", *result.expert_load);
  if (scales_loss())
    std::fprintf(to_, " %10.4g%s", result.loss_scale,
                 result.was_skipped ? "  skipped: gradients overflow" : "");
  std::fprintf(to_, "\n");
  steps_ = 0;
  seconds_ = 0;
}

void TrainLog::step(std::int64_t step, const StepResult& result, std::optional<double> evaluation) {
  ++steps_;
  seconds_ += result.seconds;
  const std::string left = time_left(step);
  if (step % job_.log.every.value_or(1) == 0 || evaluation || result.was_skipped ||
      step == chosen_.compiled.plan.training.steps)
    print_step(step, result, left);
  if (evaluation) std::fprintf(to_, "%6s %9.5f  evaluation loss\n", "", *evaluation);
  std::fflush(to_);
  if (progress_) show_progress(step);
  const double tokens_per_s = static_cast<double>(tokens_per_step()) / result.seconds;
  std::vector<Scalar> scalars = {{"loss", result.loss},
                                 {"grad_norm", result.grad_norm},
                                 {"learning_rate", result.learning_rate},
                                 {"step_time_s", result.seconds},
                                 {"tokens_per_s", tokens_per_s}};
  if (result.mtp_loss) scalars.push_back({"mtp_loss", *result.mtp_loss});
  if (result.expert_load) scalars.push_back({"expert_load", *result.expert_load});
  if (evaluation) scalars.push_back({"evaluation_loss", *evaluation});
  if (events_) write_or_give_up(events_, [&] { events_->add(step, scalars); });
  if (!lines_) return;
  json line = {{"step", step}};
  for (const Scalar& scalar : scalars) line[std::string(scalar.tag)] = scalar.value;
  if (scales_loss()) {
    line["loss_scale"] = result.loss_scale;
    line["skipped"] = result.skipped;
  }
  write_or_give_up(lines_, [&] { lines_->add(line.dump() + "\n"); });
}

// Draws a progress bar on standard error. The next line, or the end of the run, overwrites it.
void TrainLog::show_progress(std::int64_t step) const {
  const int steps = chosen_.compiled.plan.training.steps;
  const auto full = static_cast<std::size_t>(bar_width * step / steps);
  std::fprintf(stderr, "\r[%s%s] %lld/%d\r", std::string(full, '#').c_str(),
               std::string(bar_width - full, '.').c_str(), static_cast<long long>(step), steps);
}

namespace {

// Returns the pipeline stage of each rank.
std::vector<int> stages_of_mesh(const Mesh& mesh) {
  std::vector<int> stages;
  for (int rank = 0; rank < mesh.ranks(); ++rank) stages.push_back(mesh.coordinates(rank).pipeline);
  return stages;
}

// Writes a file at the end of a run and returns whether that succeeded. Prints an error if it
// failed.
template <typename Write>
bool tried(const Write& write) {
  try {
    write();
    return true;
  } catch (const RunError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  } catch (const InputError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return false;
}

}  // namespace

// Writes the trace. The predicted step begins where the last measured step began. Chakra's files
// hold the measured steps only.
void TrainLog::write_trace(const Outcome& outcome) const {
  const std::vector<Program>& stages = chosen_.compiled.stages;
  const Mesh mesh = stages.front().settings->mesh();
  if (trace_format(options_) == TraceFormat::chakra) {
    std::vector<int> themselves(mesh.ranks());
    std::iota(themselves.begin(), themselves.end(), 0);
    write_chakra(options_.trace, outcome.timeline, stages, themselves);
    return;
  }
  Timeline predicted = outcome.predicted;
  for (TimelineEntry& entry : predicted.entries)
    entry.begin += outcome.last_step_begins, entry.end += outcome.last_step_begins;
  write_file(options_.trace,
             to_chrome_trace(outcome.timeline, stages, stages_of_mesh(mesh), {}, predicted));
}

void TrainLog::end(Outcome& outcome) {
  if (!options_.trace.empty()) outcome.written = tried([&] { write_trace(outcome); });
  if (!options_.report.empty())
    outcome.written = tried([&] { write_report(outcome); }) && outcome.written;
  if (progress_) std::fprintf(stderr, "\r%*s\r", bar_width + 24, "");
  const Table table = comparison(prediction_, chosen_.compiled.plan, outcome, on_gpu());
  std::fprintf(to_, "\n%s\n", table.text().c_str());
  if (!outcome.kinds.empty())
    std::fprintf(to_, "%s\n", comparison_of_kinds(outcome.kinds).text().c_str());
  print_to(to_, "{}\n", how_it_ended(outcome));
  if (options_.json) print_json(answer(outcome));
  std::fflush(to_);
  std::fflush(stdout);
}

json TrainLog::answer(const Outcome& outcome) const {
  const std::vector<std::int64_t> peaks = peaks_of(outcome.memory);
  json answer = {{"name", job_.name},
                 {"steps", outcome.steps},
                 {"stopped", outcome.stopped},
                 {"predicted_step_time_s", prediction_.step_time_s},
                 {"measured_step_time_s", median(outcome.seconds.values())},
                 {"predicted_peak_memory_bytes", prediction_.peak_memory_bytes},
                 {"measured_peak_memory_bytes", *std::ranges::max_element(peaks)},
                 {"measured_peak_memory_bytes_per_rank", peaks},
                 {"final_loss", outcome.last.loss}};
  if (outcome.evaluation) answer["evaluation_loss"] = *outcome.evaluation;
  if (outcome.best_step >= 0) {
    answer["best_evaluation_loss"] = outcome.best_loss;
    answer["best_step"] = outcome.best_step;
  }
  if (!outcome.parameters_sha256.empty()) answer["parameters_sha256"] = outcome.parameters_sha256;
  if (scales_loss()) {
    answer["loss_scale"] = outcome.last.loss_scale;
    answer["skipped"] = outcome.last.skipped;
  }
  answer["device"] = on_gpu() ? "gpu" : "cpu";
  if (on_gpu())
    for (const RankMemory& of_rank : outcome.memory)
      answer["measured_memory_per_rank"].push_back({{"arena_bytes", of_rank.arena},
                                                    {"scratch_bytes", of_rank.scratch},
                                                    {"library_bytes", of_rank.libraries()},
                                                    {"peak_bytes", of_rank.peak}});
  for (const KindTime& kind : outcome.kinds)
    answer["kinds"].push_back(
        {{"kind", kind.kind}, {"predicted_s", kind.predicted_s}, {"measured_s", kind.measured_s}});
  return answer;
}

bool TrainLog::on_gpu() const { return chosen_.cluster.machine.gpu.kind == DeviceKind::gpu; }

bool TrainLog::scales_loss() const { return chosen_.compiled.plan.training.scales_loss(); }

void TrainLog::write_report(const Outcome& outcome) const {
  write_file(options_.report,
             train_page({job_, chosen_, prediction_, outcome, how_it_ended(outcome),
                         comparison(prediction_, chosen_.compiled.plan, outcome, on_gpu()),
                         comparison_of_kinds(outcome.kinds)}));
}

}  // namespace meshwright::tools
