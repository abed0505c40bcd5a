// `advise JOB`: plans the job on one GPU, one host and several hosts of each machine, and says what
// each rung brings, where to stop and why.
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/advice.h"
#include "tools/report/print_json.h"
#include "tools/report/search_watch.h"
#include "tools/session/choose.h"
#include "tools/session/files_read.h"
#include "tools/session/job_file.h"
#include "tools/session/machines.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

// Returns the options of the ladder's searches. A ladder is many searches, so each one keeps only
// one plan and simulates fewer candidates than `plan` does.
LadderOptions ladder_options(const Options& options) {
  LadderOptions result;
  result.search.load = machine_loader(options);
  result.search.watch = search_watch(options);
  result.search.memory_margin = options.memory_margin.value_or(usual_memory_margin);
  result.search.keep_best = 1;
  result.search.simulate_at_most = 24;
  result.search.simulate_for_gap = 0;
  return result;
}

// Returns `word` for a shell's command line: in single quotes if it is empty or a shell would
// interpret it.
std::string quoted(const std::string& word) {
  const bool plain =
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+") ==
      std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string asked_profile(const Options& options) {
  return options.profile.empty() ? "" : " --profile " + quoted(options.profile);
}

// Returns the job file and the options that describe the job, as they were given to this command,
// for a command line that repeats them.
std::string asked(const Options& options) {
  std::string text = quoted(options.operands.front());
  for (const std::string& set : options.set) text += " --set " + quoted(set);
  const std::pair<const char*, const std::string&> files[] = {
      {" --by ", options.by}, {" --budget ", options.budget}, {" --prices ", options.prices}};
  for (const auto& [name, value] : files)
    if (!value.empty()) text += name + quoted(value);
  return text + asked_profile(options);
}

int run_advise(const Options& options) {
  Job job = read_job_of(options);
  const std::vector<std::string> inputs = files_read(options, job);
  check_writable("--write", options.write, inputs);
  const LadderOptions how = ladder_options(options);
  warn_of_prices(job, how.search.load);
  const Advice advice = advice_of(job, how, asked(options), asked_profile(options));
  if (options.json)
    print_json(advice_json(job, advice, options.today));
  else
    print_to(stdout, "{}", advice_text(job, advice));
  if (advice.best == nullptr) return no_plan_fits;
  if (!options.write.empty()) {
    const Rung& rung = *advice.best->chosen();
    job.cluster.processes_per_host = rung.processes_per_host;
    write_job_file(job, rung.best->plan, rung.machine, rung.hosts, options.write);
    print_to(stderr, "wrote {}\n", options.write);
  }
  return done;
}

}  // namespace

const Command advise_command = {
    "advise",
    "JOB",
    job_help,
    "from one GPU to many: what each brings, where to stop and why",
    "json set by budget profile prices write memory-margin watched",
    run_advise,
    "Tries one GPU, one host, and more hosts, machine by machine. At each rung it prints the best "
    "plan, its time, memory, efficiency and price. It says where to stop, what breaks beyond, "
    "which learning rate and batch go with the choice, what failures cost, and the command that "
    "runs it. docs/capacity.md has six cases."};

}  // namespace meshwright
