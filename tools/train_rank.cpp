// One rank of a training run: steps, a line per step, and prediction beside measurement at the end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/launch/stop.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "models/passes/pad_vocabulary.h"
#include "tools/commands.h"
#include "tools/process_memory.h"
#include "tools/report/prediction.h"
#include "tools/report/text.h"
#include "tools/train.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

int threads_per_rank(const Options& options, int ranks) {
  if (options.threads) return *options.threads;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, cores / ranks);
}

LoaderOptions loader_options(const Job& job, const Training& training) {
  LoaderOptions loader;
  loader.seed = training.seed;
  loader.sequence_length = training.sequence_length;
  loader.vocabulary = job.model.vocabulary;
  if (!job.data) return loader;
  loader.files = job.data->files;
  loader.format = job.data->uint16 ? TokenFormat::uint16 : TokenFormat::bytes;
  loader.shuffle = job.data->shuffle;
  loader.data_seed = job.data->seed;
  return loader;
}

// What rank 0 says while the run goes on. With --json standard output stays empty until the end.
class Log {
 public:
  Log(const Options& options, const Training& training, int steps)
      : to_(options.json ? stderr : stdout),
        steps_(steps),
        tokens_per_step_(static_cast<double>(training.global_batch) * training.sequence_length),
        progress_(isatty(fileno(stderr)) != 0) {
    if (options.log_json.empty()) return;
    file_.open(options.log_json, std::ios::trunc);
    if (!file_) throw InputError(options.log_json + ": cannot be opened for writing");
  }
  void step(int step, const StepResult& result) {
    if (step == 1)
      std::fprintf(to_, "%6s  %10s  %10s  %13s  %9s  %10s\n", "step", "loss", "grad norm",
                   "learning rate", "ms", "tokens/s");
    const double tokens_per_s = tokens_per_step_ / result.seconds;
    std::fprintf(to_, "%6d  %10.5f  %10.4f  %13.3e  %9.1f  %10.0f\n", step, result.loss,
                 result.grad_norm, result.learning_rate, result.seconds * 1e3, tokens_per_s);
    std::fflush(to_);
    if (progress_) show_progress(step);
    if (file_.is_open())
      file_ << nlohmann::json{{"step", step},
                              {"loss", result.loss},
                              {"grad_norm", result.grad_norm},
                              {"learning_rate", result.learning_rate},
                              {"step_time_s", result.seconds},
                              {"tokens_per_s", tokens_per_s}}
                   .dump()
            << std::endl;
  }
  std::FILE* to() const { return to_; }

 private:
  void show_progress(int step) const {
    constexpr int width = 30;
    const int full = width * step / steps_;
    std::fprintf(stderr, "\r[%s%s] %d/%d\r",
                 std::string(static_cast<std::size_t>(full), '#').c_str(),
                 std::string(static_cast<std::size_t>(width - full), '.').c_str(), step, steps_);
  }
  std::FILE* to_;
  int steps_;
  double tokens_per_step_;
  bool progress_;
  std::ofstream file_;
};

// The median step: the first ones touch new memory, and a busy computer disturbs some.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print_header(const Log& log, const Job& job, const Chosen& chosen,
                  const Prediction& prediction, int threads) {
  std::fprintf(log.to(), "model %s, %s parameters; %s; %d threads per rank\n",
               job.model.name.c_str(),
               show_count(static_cast<double>(parameter_count(chosen.prepared.graph))).c_str(),
               plan_text(chosen.prepared.plan).c_str(), threads);
  const std::int64_t padded =
      padded_vocabulary(job.model.vocabulary, chosen.prepared.plan.parallelism.tensor);
  if (padded != job.model.vocabulary)
    std::fprintf(log.to(), "vocabulary %lld padded to %lld\n",
                 static_cast<long long>(job.model.vocabulary), static_cast<long long>(padded));
  std::fprintf(log.to(), "predicted: %s per step, peak memory %s per rank\n",
               show_seconds(prediction.step_time_s).c_str(),
               show_bytes(static_cast<double>(prediction.peak_memory_bytes)).c_str());
  std::fflush(log.to());
}

struct Outcome {
  int steps = 0;
  bool stopped = false;
  StepResult last;
  std::vector<double> seconds;
};

void print_outcome(const Options& options, const Log& log, const Prediction& prediction,
                   const Outcome& outcome, const std::vector<std::int64_t>& peaks,
                   const std::string& sha256) {
  const double measured = median(outcome.seconds);
  const std::int64_t peak = *std::max_element(peaks.begin(), peaks.end());
  Table table({"", "predicted", "measured", "error"});
  const auto error = [](double predicted, double real) {
    return fmt::format("{:+.1f} %", (predicted / real - 1) * 100);
  };
  table.add({"step time", show_seconds(prediction.step_time_s), show_seconds(measured),
             error(prediction.step_time_s, measured)});
  for (std::size_t rank = 0; rank < peaks.size(); ++rank)
    table.add({fmt::format("peak memory, rank {}", rank),
               show_bytes(static_cast<double>(prediction.peak_memory_bytes)),
               show_bytes(static_cast<double>(peaks[rank])),
               error(static_cast<double>(prediction.peak_memory_bytes),
                     static_cast<double>(peaks[rank]))});
  std::fprintf(log.to(), "\n%s\n%s after step %d   final loss %.5f   parameters %s\n",
               table.text().c_str(), outcome.stopped ? "stopped on request" : "done", outcome.steps,
               outcome.last.loss, sha256.c_str());
  if (!options.json) return;
  std::printf("%s\n", nlohmann::json{{"steps", outcome.steps},
                                     {"stopped", outcome.stopped},
                                     {"predicted_step_time_s", prediction.step_time_s},
                                     {"measured_step_time_s", measured},
                                     {"predicted_peak_memory_bytes", prediction.peak_memory_bytes},
                                     {"measured_peak_memory_bytes", peak},
                                     {"measured_peak_memory_bytes_per_rank", peaks},
                                     {"final_loss", outcome.last.loss},
                                     {"parameters_sha256", sha256}}
                          .dump(2)
                          .c_str());
}

void write_measured_trace(const std::string& path, const Runtime& runtime, const Mesh& mesh,
                          const Prepared& prepared, int rank) {
  std::vector<int> stage_of_rank;
  for (int r = 0; r < mesh.ranks(); ++r) stage_of_rank.push_back(mesh.coordinates(r).pipeline);
  const std::string own = mesh.ranks() == 1 ? path : path + "." + std::to_string(rank);
  write_file(own, to_chrome_trace(runtime.timeline(), prepared.stages, stage_of_rank));
}

int run_steps(const Options& options, const Job& job, const Chosen& chosen, World& world) {
  const Plan& plan = chosen.prepared.plan;
  const Training& training = plan.training;
  const int steps = options.steps.value_or(training.steps);
  const int threads = threads_per_rank(options, chosen.cluster.processes_per_host);
  const Prediction prediction = predict(chosen.prepared, chosen.cluster);
  if (!prediction.fits) {
    if (world.rank() == 0)
      std::fprintf(stderr,
                   "the plan needs %s per rank, this computer gives each %s; `meshwright plan` "
                   "finds one that fits\n",
                   show_bytes(static_cast<double>(prediction.peak_memory_bytes)).c_str(),
                   show_bytes(prediction.memory_limit_bytes).c_str());
    return no_plan_fits;
  }
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  Loader loader(loader_options(job, training));
  const auto backend = make_cpu_backend(threads);
  Runtime runtime(chosen.prepared.stages, plan, mesh, world, *backend,
                  {threads, job.model.layers, !options.trace.empty()});
  std::optional<Log> log;
  if (world.rank() == 0) {
    log.emplace(options, training, steps);
    print_header(*log, job, chosen, prediction, threads);
  }
  Outcome outcome;
  for (int step = 1; step <= steps; ++step) {
    outcome.last = runtime.step(step, (step - 1) * training.global_batch, loader);
    outcome.steps = step;
    outcome.seconds.push_back(outcome.last.seconds);
    if (log) log->step(step, outcome.last);
    if (runtime.any(stop_requested())) {
      outcome.stopped = step < steps;
      break;
    }
  }
  // Pages of other ranks that collectives read count as resident here too; they are not ours.
  const std::vector<std::int64_t> peaks =
      runtime.gather_of_all(peak_resident_bytes() - world.resident_bytes_of_others());
  if (!options.trace.empty())
    write_measured_trace(options.trace, runtime, mesh, chosen.prepared, world.rank());
  const std::string sha256 = runtime.parameters().sha256();
  if (log) print_outcome(options, *log, prediction, outcome, peaks, sha256);
  return outcome.stopped ? stopped : done;
}

}  // namespace

int train_as_rank(const Options& options, const Job& job, const Chosen& chosen) {
  watch_for_stop();
  const auto world = make_world(chosen.cluster.ranks() > 1 ? "mpi" : "self");
  try {
    return run_steps(options, job, chosen, *world);
  } catch (const InputError& error) {
    if (world->size() == 1) throw;
    if (world->rank() == 0) std::fprintf(stderr, "error: %s\n", error.what());
    return bad_input;  // every rank reads the same files and finds the same fault
  } catch (const std::exception& error) {
    if (world->size() == 1) throw;
    std::fprintf(stderr, "rank %d failed: %s\n", world->rank(), error.what());
    world->abandon(run_failed);
  }
  return run_failed;
}

}  // namespace meshwright
