// Runs the command `advise JOB`. It plans the job on one GPU, one host and several hosts of each
// machine, and prints what each of these rungs brings, where to stop and why.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/advise/shortlist.h"
#include "tools/commands/advise_rehearsed.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/advice.h"
#include "tools/session/choose.h"
#include "tools/session/job_file.h"
#include "tools/session/json_text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

// Returns the options of the ladder's searches. A ladder is many searches, so each one keeps only
// one plan and simulates fewer candidates than `plan` does.
LadderOptions ladder_options(const Options& options, const Watch& watch) {
  LadderOptions result;
  result.search.load = asked_machines(options, watch);
  result.search.watch = watch.search;
  result.search.memory_margin = options.memory_margin.value_or(usual_memory_margin);
  result.search.keep_best = 1;
  result.search.simulate_at_most = 24;
  result.search.simulate_for_gap = 0;
  return result;
}

// Returns `word` as a shell reads it back: in single quotes if it is empty or has any character
// except letters, digits and -_./=,:+.
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

// Returns the job file and the options that describe the job and its objective, as they were given
// to this command, for a command line that repeats them. --on and --count are not among them.
std::string asked(const Options& options) {
  std::string text = options.operands.empty() ? "" : quoted(options.operands.front());
  const std::pair<const char*, const std::string&> words[] = {{" --model ", options.model},
                                                              {" --task ", options.task},
                                                              {" --tokens ", options.tokens},
                                                              {" --batch ", options.batch},
                                                              {" --length ", options.length}};
  for (const auto& [name, value] : words)
    if (!value.empty()) text += name + quoted(value);
  if (text.starts_with(' ')) text.erase(0, 1);
  for (const std::string& set : options.set) text += " --set " + quoted(set);
  const std::pair<const char*, const std::string&> files[] = {{" --for ", options.framework},
                                                              {" --by ", options.by},
                                                              {" --budget ", options.budget},
                                                              {" --prices ", options.prices}};
  for (const auto& [name, value] : files)
    if (!value.empty()) text += name + quoted(value);
  return text + asked_profile(options);
}

// Removes the less promising machines from the search if the job has more than 8, and prints which
// machines are searched.
void keep_promising(Job& job, const MachineLoader& load, const Watch& watch) {
  constexpr std::size_t most = 8;
  Shortlist list = shortlist(job, load, most);
  if (list.left_out.empty()) return;
  watch.note(fmt::format(
      "note: searching the {} of {} machines that promise most by their peak and price: {} (--all "
      "searches them all)",
      list.machines.size(), list.machines.size() + list.left_out.size(),
      list_of(list.machines, "and")));
  job.cluster.machines = std::move(list.machines);
}

struct Advised {
  Job job;
  Advice advice;
};

Advised advised(const Options& given, const Watch& watch, std::function<bool()> stop = {}) {
  const Options options = with_largest_model(given, watch);
  Advised all{job_to_search(options, watch), {}};
  check_writable("--write", options.write, inputs_of(options, all.job));
  LadderOptions how = ladder_options(options, watch);
  how.search.stop = std::move(stop);
  if (!options.all) keep_promising(all.job, how.search.load, watch);
  warn_of_prices(all.job, how.search.load, watch);
  all.advice =
      advice_of(all.job, search_request(options), how, asked(options), asked_profile(options));
  return all;
}

void write_best(const Options& options, const Advised& all, const Watch& watch) {
  if (options.write.empty()) return;
  const Rung& rung = *all.advice.best->chosen();
  Job job = all.job;
  job.cluster.processes_per_host = rung.processes_per_host;
  write_job_file(job, rung.best->plan, rung.machine, rung.hosts, options.write);
  watch.note("wrote " + options.write);
}

std::string json_of(const Options& options, const Advised& all) {
  return json_text(advice_json(all.job, all.advice, options.today), true);
}

// Throws InputError if --rehearse is combined with --model, --write or --memory-margin, or if
// --host-factor is given without --rehearse.
void check_way(const Options& options) {
  const bool of_jobs = !options.write.empty() || options.memory_margin || !options.model.empty();
  if (options.rehearse ? of_jobs : options.host_factor.has_value())
    throw InputError(
        options.rehearse
            ? "advise: --model, --write and --memory-margin are for jobs, not for --rehearse"
            : "advise: --host-factor goes with --rehearse");
}

int run_advise(const Options& options) {
  check_way(options);
  if (options.rehearse) return run_advise_rehearsed(options);
  watch_for_stop();
  const Advised all = advised(options, shown_watch(), stop_requested);
  if (options.json)
    print_text(json_of(options, all));
  else
    print_to(stdout, "{}", advice_text(all.job, all.advice, options.all));
  if (stop_requested()) {
    if (!options.json) print_to(stdout, "stopped before the end of the search\n");
    return stopped;
  }
  if (all.advice.best == nullptr) return no_plan_fits;
  write_best(options, all, printed_watch());
  return done;
}

std::string answer_advise(const Options& options, const Watch& watch) {
  check_way(options);
  if (options.rehearse) return answer_advise_rehearsed(options, watch);
  const Advised all = advised(options, watch, watch.stop);
  std::string answer = json_of(options, all);
  if (watch.stop && watch.stop()) throw StoppedSearch(std::move(answer));
  if (all.advice.best == nullptr) throw NoPlanFits("", answer);
  write_best(options, all, watch);
  return answer;
}

}  // namespace

const Command advise_command = {
    "advise",
    "JOB",
    "the job file (JSON); with --rehearse, after `--`, a script with torchrun or python",
    "from one GPU to many: what each brings, where to stop and why",
    "json wide all model task tokens batch length on count set for by budget profile "
    "measure-afresh prices write "
    "memory-margin rehearse host-factor",
    run_advise,
    "Tries one GPU, one host, and more hosts, machine by machine. At each rung it prints the best "
    "plan, its time, memory, efficiency and price. It says where to stop, what breaks beyond, "
    "which learning rate and batch go with the choice, what failures cost, and the command that "
    "runs it. Of several machines it prints one line each; `--all` prints their ladders. "
    "docs/capacity.md has six cases. `advise --rehearse --on p5.48xlarge --count 4 -- "
    "torchrun train.py` runs the script itself at each rung, up to 4 hosts.",
    answer_advise};

}  // namespace meshwright::tools
