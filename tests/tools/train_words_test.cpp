// Tests the text of a run: the lines of steps, the comparison at the end, --json and --log-json.
// All numbers differ, so that a wrong one is noticed.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/report/train_log.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

constexpr std::int64_t mebi = 1 << 20;

// Sends an output of this process to a file while it lives.
class Redirected {
 public:
  Redirected(std::FILE* stream, const std::string& path)
      : stream_(stream), descriptor_(fileno(stream)), before_(dup(descriptor_)) {
    std::fflush(stream_);
    const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
    REQUIRE(dup2(file, descriptor_) == descriptor_);
    close(file);
  }
  ~Redirected() {
    std::fflush(stream_);
    dup2(before_, descriptor_);
    close(before_);
  }

 private:
  std::FILE* stream_;
  int descriptor_, before_;
};

// Returns what `work` writes to standard error. With --json that is all text of a run.
std::string errors_of(const std::function<void()>& work) {
  const TestFolder folder;
  {
    const Redirected errors(stderr, folder.file("errors")), output(stdout, folder.file("output"));
    work();
  }
  return content_of(folder.file("errors"));
}

// Holds the outcome of a run of two stages with one rank each.
struct Scene {
  Options options;
  Job job;
  Chosen chosen;
  Prediction prediction;
  Outcome outcome;

  explicit Scene(DeviceKind kind) {
    options.json = true;
    job.name = "scene";
    chosen.cluster.machine.gpu.kind = kind;
    Plan& plan = chosen.compiled.plan;
    plan.parallelism.pipeline = 2;
    plan.training.global_batch = 8;
    plan.training.sequence_length = 32;
    plan.training.steps = 4;
    prediction.step_time_s = 0.3;
    prediction.peak_memory_bytes = 80 * mebi;
    for (int stage = 0; stage < 2; ++stage) {
      StageMemory memory;
      memory.stage = stage;
      memory.arena_bytes = (10 + stage) * mebi;
      memory.scratch_bytes = (20 + stage) * mebi;
      memory.library_bytes = (30 + stage) * mebi;
      memory.peak_bytes = (60 + 20 * stage) * mebi;
      prediction.memory.push_back(memory);
      outcome.memory.push_back(
          {.arena = (11 + stage) * mebi, .scratch = (22 + stage) * mebi, .peak = 100 * mebi});
    }
    outcome.memory[1].peak = 64 * mebi;
    outcome.steps = 4;
    outcome.last.loss = 2.5;
    for (const double seconds : {9.0, 0.2, 0.25}) outcome.seconds.add(1, seconds);
  }
};

}  // namespace

TEST_CASE("the end of a run compares each number with its prediction", "[tools][report]") {
  Scene scene(DeviceKind::gpu);
  json answer;
  const std::string text = errors_of([&] {
    TrainLog log(scene.options, scene.job, scene.chosen, scene.prediction);
    log.end(scene.outcome);
    answer = log.answer(scene.outcome);
  });
  // The median of 9, 0.2 and 0.25 s is 0.25 s, and the predicted 0.3 s is a fifth more. Libraries
  // take the rest of the measured peak: 100 - 11 - 22 and 64 - 12 - 23 MiB.
  CHECK(text ==
        "\n"
        "                         predicted   measured    error\n"
        "step time                 300.0 ms   250.0 ms  +20.0 %\n"
        "peak memory, rank 0       60.0 MiB  100.0 MiB  -40.0 %\n"
        "  the plan's arena        10.0 MiB   11.0 MiB\n"
        "  scratch of operations   20.0 MiB   22.0 MiB\n"
        "  libraries               30.0 MiB   67.0 MiB\n"
        "peak memory, rank 1       80.0 MiB   64.0 MiB  +25.0 %\n"
        "  the plan's arena        11.0 MiB   12.0 MiB\n"
        "  scratch of operations   21.0 MiB   23.0 MiB\n"
        "  libraries               31.0 MiB   29.0 MiB\n"
        "\n"
        "done after step 4   final loss 2.50000\n");
  const auto of_rank = [](std::int64_t arena, std::int64_t scratch, std::int64_t library,
                          std::int64_t peak) {
    return json{{"arena_bytes", arena * mebi},
                {"scratch_bytes", scratch * mebi},
                {"library_bytes", library * mebi},
                {"peak_bytes", peak * mebi}};
  };
  CHECK(answer ==
        json({{"name", "scene"},
              {"steps", 4},
              {"stopped", false},
              {"predicted_step_time_s", 0.3},
              {"measured_step_time_s", 0.25},
              {"predicted_peak_memory_bytes", 80 * mebi},
              {"measured_peak_memory_bytes", 100 * mebi},
              {"measured_peak_memory_bytes_per_rank", {100 * mebi, 64 * mebi}},
              {"final_loss", 2.5},
              {"device", "gpu"},
              {"measured_memory_per_rank", {of_rank(11, 22, 67, 100), of_rank(12, 23, 29, 64)}}}));
}

TEST_CASE("a run on a processor that was stopped, evaluated and scaled its loss says so",
          "[tools][report]") {
  Scene scene(DeviceKind::cpu);
  scene.chosen.compiled.plan.training.precision = Precision::fp16;
  Outcome& outcome = scene.outcome;
  outcome.stopped = true;
  outcome.evaluation = 2.75;
  outcome.best_loss = 2.25;
  outcome.best_step = 3;
  outcome.parameters_sha256 = "c0ffee";
  outcome.last.loss_scale = 4096;
  outcome.last.skipped = 7;
  outcome.kinds = {{"linear", 0.125, 0.25}, {"send", 0.001, 0.002}};
  json answer;
  const std::string text = errors_of([&] {
    TrainLog log(scene.options, scene.job, scene.chosen, scene.prediction);
    log.end(outcome);
    answer = log.answer(outcome);
  });
  CHECK(text ==
        "\n"
        "                     predicted   measured    error\n"
        "step time             300.0 ms   250.0 ms  +20.0 %\n"
        "peak memory, rank 0   60.0 MiB  100.0 MiB  -40.0 %\n"
        "peak memory, rank 1   80.0 MiB   64.0 MiB  +25.0 %\n"
        "\n"
        "kind of instruction  predicted  measured\n"
        "linear                125.0 ms  250.0 ms\n"
        "send                    1.0 ms    2.0 ms\n"
        "\n"
        "stopped on request after step 4   final loss 2.50000   parameters c0ffee\n"
        "lowest evaluation loss 2.25000 after step 3\n");
  const json expected = {{"stopped", true},
                         {"evaluation_loss", 2.75},
                         {"best_evaluation_loss", 2.25},
                         {"best_step", 3},
                         {"parameters_sha256", "c0ffee"},
                         {"loss_scale", 4096.0},
                         {"skipped", 7},
                         {"device", "cpu"}};
  for (const auto& [key, value] : expected.items()) {
    CAPTURE(key);
    CHECK(answer[key] == value);
  }
  CHECK_FALSE(answer.contains("measured_memory_per_rank"));
  CHECK(answer["kinds"] ==
        json({{{"kind", "linear"}, {"predicted_s", 0.125}, {"measured_s", 0.25}},
              {{"kind", "send"}, {"predicted_s", 0.001}, {"measured_s", 0.002}}}));
}

TEST_CASE("of many kinds of instructions fifteen are shown, and the others as one",
          "[tools][report]") {
  const auto lines = [](std::size_t kinds) {
    Scene scene(DeviceKind::cpu);
    for (std::size_t i = 0; i < kinds; ++i)
      scene.outcome.kinds.push_back({"kind " + std::to_string(i), 1, 2});
    const std::string text = errors_of([&] {
      TrainLog log(scene.options, scene.job, scene.chosen, scene.prediction);
      log.end(scene.outcome);
    });
    return text.substr(text.find("kind 13"), text.find("\n\ndone") - text.find("kind 13"));
  };
  const std::string two =
      "kind 13                1.000 s   2.000 s\nkind 14                1.000 s   2.000 s";
  CHECK(lines(15) == two);
  CHECK(lines(16) == two + "\nkind 15                1.000 s   2.000 s");  // as long as a sum
  CHECK(lines(18) == two + "\nothers                 3.000 s   6.000 s");
}

TEST_CASE("each step has a line, and one in the file of --log-json", "[tools][report]") {
  const TestFolder folder;
  Scene scene(DeviceKind::cpu);
  scene.chosen.compiled.plan.training.precision = Precision::fp16;
  scene.options.log_json = folder.file("steps.jsonl");
  StepResult result;
  result.loss = 3.25;
  result.grad_norm = 1.5;
  result.learning_rate = 0.0625;
  result.seconds = 0.5;
  result.mtp_loss = 4.5;
  result.expert_load = 1.75;
  result.loss_scale = 1024;
  result.skipped = 2;
  result.was_skipped = true;
  const std::string text = errors_of([&] {
    TrainLog log(scene.options, scene.job, scene.chosen, scene.prediction);
    log.step(7, result, 5.5);
  });
  // A step has 8 sequences of 32 tokens and takes half a second. Seven such steps are done.
  CHECK(text ==
        "     7   3.25000    1.5000 6.250e-02    500.0      512    1792      0 s   4.50000      "
        "1.7500       1024  skipped: gradients overflow\n"
        "         5.50000  evaluation loss\n");
  CHECK(json::parse(content_of(folder.file("steps.jsonl"))) == json({{"step", 7},
                                                                     {"loss", 3.25},
                                                                     {"grad_norm", 1.5},
                                                                     {"learning_rate", 0.0625},
                                                                     {"step_time_s", 0.5},
                                                                     {"tokens_per_s", 512.0},
                                                                     {"mtp_loss", 4.5},
                                                                     {"expert_load", 1.75},
                                                                     {"evaluation_loss", 5.5},
                                                                     {"loss_scale", 1024.0},
                                                                     {"skipped", 2}}));
}

TEST_CASE("a line every log.every steps has means of the time, the time left, tokens and epochs",
          "[tools][report]") {
  Scene scene(DeviceKind::cpu);
  scene.chosen.compiled.plan.training.steps = 1000;
  scene.job.log.every = 2;
  scene.job.data.emplace();
  double now = 0;
  const auto lines = [&](std::int64_t sequences) {
    return errors_of([&] {
      TrainLog log(scene.options, scene.job, scene.chosen, scene.prediction, [&] { return now; });
      log.begin(1, "", sequences);
      for (const int step : {1, 2, 3, 4, 5, 1000}) {
        StepResult result;
        result.seconds = step % 2 == 0 ? 0.75 : 0.25;
        now += 1;  // with what comes between the steps
        log.step(step, result, std::nullopt);
      }
    });
  };
  const std::string of_data = lines(10);
  // The mean step has 256 tokens in half a second. Of 10 sequences, 8 are 0.8 epochs. After step 2
  // there are 998 steps left of 1 s each, after step 4 there are 996. The jump to step 1000 took 1
  // s like any other step.
  CHECK(of_data.substr(of_data.find("  step")) ==
        "  step      loss grad norm      rate       ms tokens/s  tokens  epoch     left\n"
        "     2   0.00000    0.0000 0.000e+00    500.0      512     512   1.60 16.6 min\n"
        "     4   0.00000    0.0000 0.000e+00    500.0      512    1024   3.20 16.6 min\n"
        "  1000   0.00000    0.0000 0.000e+00    500.0      512  256000 800.00      0 s\n");
  CHECK(of_data.find("random") == std::string::npos);
  scene.job.data.reset();
  const std::string of_none = lines(0);
  CHECK(of_none.find("\nno data: random tokens\n") != std::string::npos);
  CHECK(of_none.find("epoch") == std::string::npos);
  scene.job.data.emplace();
  scene.job.data->weights = {1, 2};
  CHECK(lines(10).find("epoch") == std::string::npos);
}

TEST_CASE("lines of steps go where the command line, the job or its folder says", "[tools]") {
  Options options;
  Job job;
  CHECK(log_file(options, job).empty());
  job.log.folder = "logs";
  CHECK(log_file(options, job) == "logs/steps.jsonl");
  job.log.json = "job.jsonl";
  CHECK(log_file(options, job) == "job.jsonl");
  options.log_json = "asked.jsonl";
  CHECK(log_file(options, job) == "asked.jsonl");
}
