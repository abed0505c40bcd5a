#include "tools/commands/advise_rehearsed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "sim/advise/ladder.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/recorded_operand.h"
#include "tools/commands/recorded_script.h"
#include "tools/commands/replaced_launcher.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/json_text.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

using Words = std::vector<std::string>;

// Has a number of ranks, and the step that the script makes on them.
struct ScriptRung {
  int hosts = 1, per_host = 1, gpus_per_host = 1;
  std::optional<Rehearsed> step = {};  // unset: `reason` says why
  std::string reason = {};
  double efficiency = 1, added_efficiency = 1;  // as in Rung (sim/advise/ladder.h), of rate()
  int gpus() const { return hosts * per_host; }
  double rate() const {
    return step->has_tokens ? step->prediction.tokens_per_s : step->prediction.sequences_per_s;
  }
};

struct ScriptLadder {
  std::string script, machine;
  std::vector<ScriptRung> rungs;
  std::optional<std::size_t> stop;
  std::string reason;
  int exit_code = done;  // exit code of the last script that failed; else `done`
};

// Returns rungs of 1, 2, 4, ... GPUs below the machine's number, then of 1, 2, 4, ... whole hosts
// below `most_hosts`, and then of `most_hosts` hosts.
std::vector<ScriptRung> rungs_on(const Machine& machine, int most_hosts) {
  std::vector<ScriptRung> rungs;
  const auto add = [&](int hosts, int per_host) {
    rungs.push_back({.hosts = hosts, .per_host = per_host, .gpus_per_host = machine.gpus});
  };
  for (int gpus = 1; gpus < machine.gpus; gpus *= 2) add(1, gpus);
  for (int hosts = 1; hosts < most_hosts; hosts *= 2) add(hosts, machine.gpus);
  add(most_hosts, machine.gpus);
  return rungs;
}

// Returns torchrun's command line for the rung, as `python -m torch.distributed.run` if `asked`
// names a Python. Throws InputError if `asked` has no script or another launcher than torchrun.
Words command_of(const Words& asked, const ScriptRung& rung) {
  const ReplacedLauncher launcher = replace_launcher(asked);
  if (!launcher.name.empty() && launcher.name != "torchrun")
    throw InputError(
        "advise: --rehearse changes the number of ranks, which it can of torchrun and "
        "python; write the script with one of them, not with " +
        launcher.name);
  Words command = launcher.command;
  if (command.empty()) throw InputError("advise: --rehearse: which script? write it after `--`");
  const bool has_python =
      std::filesystem::path(command.front()).filename().string().starts_with("python");
  const Words ranks = {fmt::format("--nnodes={}", rung.hosts),
                       fmt::format("--nproc-per-node={}", rung.per_host)};
  const Words start =
      has_python ? Words{command.front(), "-m", "torch.distributed.run"} : Words{"torchrun"};
  command.erase(command.begin(), command.begin() + (has_python ? 1 : 0));
  command.insert(command.begin(), ranks.begin(), ranks.end());
  command.insert(command.begin(), start.begin(), start.end());
  return command;
}

// Sets the environment variables that torchrun sets for a single rank. The recorder leaves them as
// they are for one rank, because a script without a launcher does not have them. For several ranks
// it replaces them.
void say_one_rank() {
  constexpr std::pair<const char*, const char*> variables[] = {
      {"RANK", "0"},           {"WORLD_SIZE", "1"},
      {"LOCAL_RANK", "0"},     {"LOCAL_WORLD_SIZE", "1"},
      {"GROUP_RANK", "0"},     {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : variables) setenv(name, value, 1);
}

void climb(const Options& options, const Watch& watch, const Machine& machine, ScriptRung& rung,
           int& exit_code) {
  if (rung.gpus() == 1) say_one_rank();
  watch.note(fmt::format("rehearsing on {} x {} GPUs", rung.hosts, rung.per_host));
  try {
    const std::string text =
        record_script(options.program, command_of(options.operands, rung), {machine, rung.hosts});
    const Recording recording =
        read_recording({parse_json(text, "the recording"), "the recording"});
    RehearsalRequest request = rehearsal_request(options);
    request.count = rung.hosts;
    rung.step = session::rehearsed(recording, request, asked_machines(options, watch));
    if (!rung.step->prediction.fits) {
      rung.reason = "does not fit";
      rung.step.reset();
    }
  } catch (const ScriptFailed& failed) {
    exit_code = failed.exit_code;
    rung.reason = fmt::format("the script ended with {}; it says why above", failed.exit_code);
  }
}

void set_efficiencies(std::vector<ScriptRung>& rungs) {
  const ScriptRung *first = nullptr, *before = nullptr;
  for (ScriptRung& rung : rungs) {
    if (!rung.step) continue;
    if (first == nullptr) first = before = &rung;
    rung.efficiency = rung.rate() / rung.gpus() / (first->rate() / first->gpus());
    const int added = rung.gpus() - before->gpus();
    if (added > 0)
      rung.added_efficiency =
          (rung.rate() - before->rate()) / added / (before->rate() / before->gpus());
    before = &rung;
  }
}

void set_stop(ScriptLadder& ladder) {
  const double worthwhile = LadderOptions().worthwhile;
  ladder.reason = "no number of GPUs has a step";
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const ScriptRung& rung = ladder.rungs[i];
    if (!rung.step) continue;
    if (ladder.stop && rung.added_efficiency < worthwhile) {
      ladder.reason =
          fmt::format("each GPU added beyond brings {} of what a GPU brings before, less than {}",
                      show_percent(rung.added_efficiency), show_percent(worthwhile));
      return;
    }
    ladder.stop = i;
    ladder.reason = "more hosts were not tried (--count)";
  }
}

ScriptLadder climbed(const Options& options, const Watch& watch) {
  if (options.on.empty())
    throw InputError("advise: on which machine? name it with --on (`meshwright list machines`)");
  const Machine machine = asked_machines(options, watch)(options.on);
  ScriptLadder ladder;
  ladder.machine = machine.name;
  ladder.rungs = rungs_on(machine, options.count.value_or(2));
  command_of(options.operands, ladder.rungs.front());  // throws before the first run if it is wrong
  end_on_stop_signals();
  for (ScriptRung& rung : ladder.rungs) {
    climb(options, watch, machine, rung, ladder.exit_code);
    if (rung.step) ladder.script = rung.step->script;
  }
  set_efficiencies(ladder.rungs);
  set_stop(ladder);
  return ladder;
}

json rung_json(const ScriptRung& rung, const std::string& machine, int today) {
  json value = {{"machine", machine},
                {"count", rung.hosts},
                {"processes_per_host", rung.per_host},
                {"gpus", rung.gpus()}};
  if (!rung.step) {
    value["reason"] = rung.reason;
    return value;
  }
  const Prediction& p = rung.step->prediction;
  const ReplayedStep& step = rung.step->step;
  value.update(rung_prediction_json(p, today));
  value.update({{"efficiency", rung.efficiency},
                {"added_efficiency", rung.added_efficiency},
                {"parts_ps",
                 {{"compute", step.computing},
                  {"exposed communication", step.exposed_communication},
                  {"exposed copies", step.exposed_copies},
                  {"waits for others", step.waiting},
                  {"idle", step.idle}}}});
  if (rung.step->has_tokens) value["tokens_per_s"] = p.tokens_per_s;
  return value;
}

json ladder_json(const ScriptLadder& ladder, int today) {
  json rungs = json::array();
  for (const ScriptRung& rung : ladder.rungs)
    rungs.push_back(rung_json(rung, ladder.machine, today));
  return {{"name", ladder.script},
          {"best", nullptr},
          {"ladders",
           {{{"machine", ladder.machine},
             {"rungs", rungs},
             {"stop", ladder.stop ? json(*ladder.stop) : json(nullptr)},
             {"reason", ladder.reason}}}}};
}

std::string cluster_of(const ScriptLadder& ladder, const ScriptRung& rung) {
  std::string text = fmt::format("{} x {}", rung.hosts, ladder.machine);
  if (rung.per_host < rung.gpus_per_host)
    text += fmt::format(" ({} of {} GPUs)", rung.per_host, rung.gpus_per_host);
  return text;
}

std::string ladder_text(const ScriptLadder& ladder) {
  const bool tokens = std::ranges::any_of(
      ladder.rungs, [](const ScriptRung& rung) { return rung.step && rung.step->has_tokens; });
  Table table({"cluster", "GPUs", "step", tokens ? "tokens/s" : "samples/s", "MFU", "efficiency",
               "idle", "exposed", "memory", "$/M tokens", ""});
  std::string reasons;
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const ScriptRung& rung = ladder.rungs[i];
    if (!rung.step) {
      table.add({cluster_of(ladder, rung), std::to_string(rung.gpus()), "no step"});
      reasons += fmt::format("{}: {}\n", cluster_of(ladder, rung), rung.reason);
      continue;
    }
    const Prediction& p = rung.step->prediction;
    table.add({cluster_of(ladder, rung), std::to_string(rung.gpus()), show_seconds(p.step_time_s),
               show_number(rung.rate(), 0), show_percent(p.mfu), show_percent(rung.efficiency),
               show_percent(to_seconds(rung.step->step.idle).value / p.step_time_s),
               show_percent(p.exposed_communication_s / p.step_time_s),
               show_bytes(static_cast<double>(p.peak_memory_bytes)),
               p.usd_per_million_tokens ? fmt::format("${:.4f}", *p.usd_per_million_tokens) : "-",
               ladder.stop == i ? "<- best" : ""});
  }
  return fmt::format("{}\n\n{}{}{}\n", ladder.script, table.text(), reasons, ladder.reason) +
         "The batch of each rank is what the script makes of its options at each number of "
         "ranks.\n";
}

}  // namespace

int run_advise_rehearsed(const Options& options) {
  const ScriptLadder ladder = climbed(options, printed_watch());
  if (options.json)
    print_text(json_text(ladder_json(ladder, options.today), true));
  else
    print_to(stdout, "{}", ladder_text(ladder));
  return ladder.stop ? done : ladder.exit_code == done ? no_plan_fits : ladder.exit_code;
}

std::string answer_advise_rehearsed(const Options& options, const Watch& watch) {
  return json_text(ladder_json(climbed(options, watch), options.today), true);
}

}  // namespace meshwright::tools
