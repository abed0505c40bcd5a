// random_jobs [--jobs N] [--plans N] [--mutants N] [--seed N] [--limit SECONDS]: simulates N random
// legal jobs, plans N jobs that leave choices to the planner, then simulates N job files that were
// damaged at random. Each job must either be simulated, with finite numbers none of which is
// negative, or be rejected with an InputError that names the place. The program prints the input on
// which it dies or hangs, and jobs that take longer than the limit.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "sim/planner/search.h"
#include "sim/predict/goodput.h"
#include "tests/fuzz/random_job.h"
#include "tests/one_in.h"

using namespace meshwright::tests;
using fuzz::Random;
using nlohmann::json;

namespace {

struct Options {
  long jobs = 10'000 / one_in(20), plans = 300 / one_in(10), mutants = 100'000 / one_in(20);
  long seed = 1;
  double limit_s = 0;  // 0: none
  static constexpr unsigned hangs_s = 60;
};

std::string now;  // what is worked on, for the handler

void say_what_and_die(int signal) {
  const char* why = signal == SIGALRM ? "\nhangs:\n" : "\ndied:\n";
  ssize_t ignored = write(STDERR_FILENO, why, std::strlen(why));
  ignored = write(STDERR_FILENO, now.data(), now.size());
  ignored = write(STDERR_FILENO, "\n", 1);
  static_cast<void>(ignored);
  _exit(1);
}

struct Counts {
  long rehearsed = 0, refused = 0, only_read = 0;
  long slow = 0;
  double slowest_s = 0;
  std::map<std::string, long> reasons;  // of refusals, without numbers
};

// Returns whether the job is small enough to be simulated, because simulation takes time in
// proportion to these numbers. Larger legal jobs are only read.
bool is_small(const Job& job) {
  const Plan& plan = job.plan;
  if (job.model.layers > 64 || job.cluster.counts.front() > 64) return false;
  const double micro_batches =
      static_cast<double>(plan.training.global_batch) / std::max(1, plan.training.micro_batch);
  return micro_batches * job.model.layers <= 20'000;
}

void rehearse(const json& value, Counts& counts) {
  Job job = fuzz::read_random_job(value);
  if (!fuzz::leaves_no_choice(job) || !is_small(job)) {
    ++counts.only_read;
    return;
  }
  const int every_steps = job.checkpoint ? job.checkpoint->every_steps : 0;
  const fuzz::Rehearsal made = fuzz::rehearse(std::move(job));
  Timeline timeline;
  Prediction prediction;
  try {
    prediction = predict(
        made.compiled, made.cluster,
        {.price = &made.job.objective.price, .framework = made.framework, .timeline = &timeline});
  } catch (const InputError& error) {
    throw InputError(made.job.file + ": " + error.what());
  }
  prediction.goodput = goodput_of(made.compiled, made.cluster, every_steps, prediction.step_time_s);
  fuzz::check_prediction(prediction);
  for (const TimelineEntry& entry : timeline.entries)
    MESHWRIGHT_CHECK(0 <= entry.begin && entry.begin <= entry.end,
                     "an entry ends before it begins");
  ++counts.rehearsed;
}

// Plans a job. Only a few plans are simulated, so that the time suffices for many searches.
void plan(const json& value, Counts& counts) {
  const Job job = fuzz::read_random_job(value);
  SearchOptions options;
  options.keep_best = 3;
  options.simulate_at_most = 4;
  options.load = fuzz::load_machine_of_job;
  const SearchResult result = search(job, options);
  std::int64_t rejected = 0;
  for (const Rejection& rejection : result.rejected) rejected += rejection.count;
  MESHWRIGHT_CHECK(result.candidates_simulated + rejected == result.candidates_enumerated,
                   "what was simulated and rejected does not add up to all candidates");
  for (const RankedPlan& ranked : result.plans) {
    fuzz::check_prediction(ranked.prediction);
    MESHWRIGHT_CHECK(ranked.prediction.fits, "a plan that was chosen does not fit");
  }
  ++counts.rehearsed;
}

std::string without_numbers(const std::string& text) {
  std::string shape;
  for (const char c : text.substr(0, text.find(';')))
    if (!std::isdigit(static_cast<unsigned char>(c)))
      shape += c;
    else if (shape.empty() || shape.back() != '#')
      shape += '#';
  return shape.substr(0, 110);
}

template <class Work>
void run(const Options& options, const std::string& what, Counts& counts, const Work& work) {
  now = what;
  alarm(Options::hangs_s);
  const auto start = std::chrono::steady_clock::now();
  try {
    work();
  } catch (const InputError& error) {
    const std::string message = error.what();
    ++counts.refused;
    ++counts.reasons[without_numbers(message)];
    // The program puts the file's name before a message that begins with a key.
    if (!message.starts_with("job.json: ") && !message.starts_with("/")) {
      now += "\nnames no place: " + message;
      std::abort();
    }
  } catch (const std::exception& error) {
    now += std::string("\nthrows ") + error.what();
    std::abort();
  }
  alarm(0);
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  counts.slowest_s = std::max(counts.slowest_s, took);
  if (options.limit_s <= 0 || took <= options.limit_s) return;
  ++counts.slow;
  std::printf("%.3f s: %s\n", took, what.c_str());
}

void print(const char* what, const Counts& counts, bool reasons) {
  std::printf("%s: %ld rehearsed, %ld refused, %ld only read; slowest %.3f s\n", what,
              counts.rehearsed, counts.refused, counts.only_read, counts.slowest_s);
  if (!reasons) return;
  std::vector<std::pair<long, std::string>> sorted;
  for (const auto& [reason, count] : counts.reasons) sorted.emplace_back(count, reason);
  std::sort(sorted.rbegin(), sorted.rend());
  for (std::size_t i = 0; i < std::min<std::size_t>(sorted.size(), 25); ++i)
    std::printf("  %6ld  %s\n", sorted[i].first, sorted[i].second.c_str());
}

// Returns the generator of job `number`. Each job has its own seed, so that it can be drawn without
// the others.
Random random_of(const Options& options, long number) {
  std::seed_seq seed{static_cast<unsigned>(options.seed), static_cast<unsigned>(number)};
  return Random(seed);
}

std::size_t below(Random& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

// Changes bytes anywhere in a text.
void damage_text(std::string& text, Random& random) {
  for (std::size_t i = below(random, 4) + 1; i > 0 && !text.empty(); --i) {
    const std::size_t at = below(random, text.size());
    const std::size_t length = below(random, std::min<std::size_t>(30, text.size() - at)) + 1;
    switch (below(random, 5)) {
      case 0:
        text[at] = static_cast<char>(below(random, 256));
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8)));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(random, text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }
}

void list_values(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (json& part : value) list_values(part, all);
}

json another_value(const json& value, Random& random) {
  static const std::vector<json> values = {0,
                                           1,
                                           2,
                                           3,
                                           -1,
                                           7,
                                           64,
                                           1000,
                                           1 << 20,
                                           2147483647,
                                           4294967296,
                                           1e18,
                                           1e300,
                                           -1e300,
                                           0.5,
                                           1e-9,
                                           "auto",
                                           "",
                                           "p4d",
                                           "none",
                                           true,
                                           false,
                                           nullptr,
                                           json::array(),
                                           json::object()};
  if (value.is_number() && below(random, 2) == 0) {
    const double number = value.get<double>();
    const double others[] = {number + 1, number - 1, number * 2, -number, number * 1e6, number / 3};
    const double other = others[below(random, std::size(others))];
    if (other == std::trunc(other) && std::abs(other) < 1e15)
      return static_cast<std::int64_t>(other);
    return other;
  }
  return values[below(random, values.size())];
}

// Changes values, keys or entries of objects in a job, which the JSON parser accepts.
void damage_value(json& job, Random& random) {
  for (std::size_t i = below(random, 3) + 1; i > 0; --i) {
    std::vector<json*> values;
    list_values(job, values);
    json& value = *values[below(random, values.size())];
    const json other = *values[below(random, values.size())];
    const std::size_t how = below(random, 8);
    if (how < 5) {
      value = another_value(value, random);
    } else if (how == 5) {
      value = other;
    } else if (value.is_object() && !value.empty()) {
      auto key = value.begin();
      std::advance(key, below(random, value.size()));
      const json moved = *key;
      std::string name = key.key();
      value.erase(key);
      if (how == 7) {
        if (!name.empty()) name[below(random, name.size())] = 'x';
        value[name] = moved;
      }
    }
    if (!job.is_object()) return;
  }
}

std::string mutant(Random& random) {
  json job = fuzz::random_job(random);
  if (below(random, 3) > 0) damage_value(job, random);
  std::string text = job.dump(1, ' ', false, json::error_handler_t::replace);
  if (below(random, 3) == 0) damage_text(text, random);
  return text;
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--jobs") options.jobs = std::atol(argv[i + 1]);
    if (key == "--plans") options.plans = std::atol(argv[i + 1]);
    if (key == "--mutants") options.mutants = std::atol(argv[i + 1]);
    if (key == "--seed") options.seed = std::atol(argv[i + 1]);
    if (key == "--limit") options.limit_s = std::atof(argv[i + 1]);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL})
    std::signal(signal, say_what_and_die);
  Counts legal;
  long drawn = 0;
  for (; legal.rehearsed < options.jobs && drawn < 4 * options.jobs; ++drawn) {
    Random random = random_of(options, drawn);
    const json job = fuzz::random_job(random);
    run(options, job.dump(), legal, [&] { rehearse(job, legal); });
  }
  print("legal jobs", legal, true);
  if (legal.rehearsed < options.jobs) return std::printf("too few jobs were legal\n"), 1;
  Counts open;
  for (long number = 0; open.rehearsed < options.plans && number < 4 * options.plans; ++number) {
    Random random = random_of(options, (1L << 30) + number);
    const json job = fuzz::random_open_job(random);
    run(options, job.dump(), open, [&] { plan(job, open); });
  }
  print("open jobs", open, false);
  if (open.rehearsed < options.plans) return std::printf("too few open jobs were legal\n"), 1;
  Counts wrong;
  for (long number = 0; number < options.mutants; ++number) {
    Random random = random_of(options, -1 - number);
    const std::string text = mutant(random);
    run(options, text, wrong, [&] { rehearse(parse_json(text, "job.json"), wrong); });
  }
  print("mutants", wrong, false);
  return legal.slow + wrong.slow > 0 ? 1 : 0;
}
