// `rehearse -- python train.py`: what a step of a training script takes on GPUs that are not there.
#include <fmt/format.h>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/recorded_script.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/json_text.h"
#include "tools/session/rehearsal.h"
#include "tools/session/text.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

Recording recorded_now(const Options& options, const MachineLoader& machines) {
  if (options.on.empty())
    throw InputError("rehearse: on which machine? name it with --on (`meshwright list machines`)");
  const std::string text =
      record_script(options.program, options.operands,
                    {machines(options.on), options.count.value_or(0), options.imbalance.value_or(1),
                     options.time_limit.value_or(600), options.write_through});
  if (!options.write.empty()) write_file(options.write, text);
  return read_recording(Fields(parse_json(text, "the recording"), "the recording"));
}

Recording recording_of(const Options& options, const MachineLoader& machines) {
  if (!options.operands.empty() && !options.recording.empty())
    throw InputError("rehearse: a script and --recording; use one of them");
  if (!options.operands.empty()) {
    end_on_stop_signals();
    return recorded_now(options, machines);
  }
  if (!options.write.empty()) throw InputError("rehearse: --write needs a script to record");
  if (options.recording.empty())
    throw InputError(
        "rehearse: which step? write the script after `--`, or name a recorded one with "
        "--recording");
  return read_recording(read_json_file(options.recording));
}

Rehearsed rehearsed(const Options& options, const Watch& watch) {
  const MachineLoader machines = asked_machines(options, watch);
  return session::rehearsed(recording_of(options, machines),
                            {options.on, options.count, options.host_factor.value_or(1)}, machines);
}

double seconds(SimTime time) { return to_seconds(time).value; }

double busy_s(const Rehearsed& all, RecordedWork use) {
  return seconds(all.step.busy[static_cast<std::size_t>(use)]);
}

json device_json(const Rehearsed& all) {
  json rows = json::array();
  for (std::size_t use = 0; use < recorded_work_count; ++use)
    rows.push_back({{"work", name_of(static_cast<RecordedWork>(use))},
                    {"time_s", seconds(all.step.busy[use])}});
  return rows;
}

json collectives_json(const Rehearsed& all) {
  json rows = json::array();
  for (const CollectiveSum& each : all.collectives)
    rows.push_back({{"kind", recorded_collective_names()[static_cast<std::size_t>(each.kind)]},
                    {"count", each.count},
                    {"bytes", each.bytes}});
  return rows;
}

json ranks_json(const Rehearsed& all) {
  json rows = json::array();
  for (const RehearsedRank& each : all.ranks)
    rows.push_back({{"rank", each.rank},
                    {"compute_s", seconds(each.step.computing)},
                    {"exposed_communication_s", seconds(each.step.exposed_communication)},
                    {"waiting_s", seconds(each.step.waiting)},
                    {"idle_s", seconds(each.step.idle)},
                    {"peak_allocated_bytes", each.memory.peak_allocated_bytes},
                    {"peak_reserved_bytes", each.memory.peak_reserved_bytes}});
  return rows;
}

std::string json_of(const Options& options, const Rehearsed& all) {
  const ReplayedStep& step = all.step;
  const auto money = [](const std::optional<double>& usd) {
    return usd ? json(*usd) : json(nullptr);
  };
  const json value = {{"script", all.script},
                      {"recorded_on", all.recorded_on},
                      {"machine", all.cluster.machine.name},
                      {"count", all.cluster.hosts},
                      {"ranks", all.cluster.ranks()},
                      {"step_time_s", all.step_time_s},
                      {"calibration", name_of(all.cluster.machine.calibration)},
                      {"model_flops_per_s_per_gpu", all.model_flops_per_s_per_gpu},
                      {"mfu", all.mfu},
                      {"compute_s", seconds(step.computing)},
                      {"exposed_communication_s", seconds(step.exposed_communication)},
                      {"exposed_copies_s", seconds(step.exposed_copies)},
                      {"waiting_s", seconds(step.waiting)},
                      {"idle_s", seconds(step.idle)},
                      {"communication_s", busy_s(all, RecordedWork::communication)},
                      {"host_s", seconds(step.host_working)},
                      {"device", device_json(all)},
                      {"launches", all.launches},
                      {"collectives", collectives_json(all)},
                      {"peak_allocated_bytes", all.memory.peak_allocated_bytes},
                      {"peak_reserved_bytes", all.memory.peak_reserved_bytes},
                      {"memory_limit_bytes", all.memory_limit_bytes},
                      {"fits", all.fits},
                      {"recorded_ranks", ranks_json(all)},
                      {"ranks_meet", all.ranks_meet},
                      {"usd_per_hour", money(all.usd_per_hour)},
                      {"usd_per_step", money(all.usd_per_step)},
                      {"price", price_json(all.price, options.today)},
                      {"notes", all.notes}};
  return json_text(value, true);
}

std::string head_text(const Options& options, const Rehearsed& all) {
  const ReplayedStep& step = all.step;
  std::string text = fmt::format("script   {}   recorded on {}\n", all.script, all.recorded_on);
  text += fmt::format("cluster  {} x {}   {} ranks\n", all.cluster.hosts, all.cluster.machine.name,
                      all.cluster.ranks());
  text +=
      fmt::format("step     {}   {:.1f} TFLOP/s per GPU   MFU {}\n", show_seconds(all.step_time_s),
                  all.model_flops_per_s_per_gpu / 1e12, show_percent(all.mfu));
  text += fmt::format(
      "         compute {}   exposed communication {}   exposed copies {}{}   idle {}\n",
      show_seconds(seconds(step.computing)), show_seconds(seconds(step.exposed_communication)),
      show_seconds(seconds(step.exposed_copies)),
      all.ranks.size() > 1 ? "   waits for others " + show_seconds(seconds(step.waiting)) : "",
      show_seconds(seconds(step.idle)));
  text += fmt::format("host     works for {} of the step   {} launches\n",
                      show_seconds(seconds(step.host_working)), all.launches);
  text += fmt::format("memory   peak {} allocated, {} reserved, of {}   {}\n",
                      show_bytes(static_cast<double>(all.memory.peak_allocated_bytes)),
                      show_bytes(static_cast<double>(all.memory.peak_reserved_bytes)),
                      show_bytes(all.memory_limit_bytes), all.fits ? "fits" : "DOES NOT FIT");
  if (all.price)
    text += fmt::format("cost     ${:.2f}/h   ${:.6f} per step   ({}{})\n", *all.usd_per_hour,
                        *all.usd_per_step, describe(*all.price),
                        is_stale(*all.price, options.today) ? ": older than 90 days" : "");
  for (const std::string& note : all.notes) text += "note     " + note + "\n";
  return text;
}

// Several ranks are recorded where the stages of a pipeline differ.
std::string ranks_text(const Rehearsed& all) {
  if (all.ranks.size() < 2) return "";
  Table ranks({"rank", "compute", "communication", "waits for others", "idle", "peak allocated",
               "reserved"});
  for (const RehearsedRank& each : all.ranks)
    ranks.add({std::to_string(each.rank), show_seconds(seconds(each.step.computing)),
               show_seconds(seconds(each.step.exposed_communication)),
               show_seconds(seconds(each.step.waiting)), show_seconds(seconds(each.step.idle)),
               show_bytes(static_cast<double>(each.memory.peak_allocated_bytes)),
               show_bytes(static_cast<double>(each.memory.peak_reserved_bytes))});
  return ranks.text() +
         (all.ranks_meet ? ""
                         : "The messages of these ranks do not fit each other, so some begin as "
                           "if the other rank were ready; the step may be too short.\n") +
         "\n";
}

std::string tables_text(const Rehearsed& all) {
  Table device({"on the device", "time", "of the step"});
  for (std::size_t use = 0; use < recorded_work_count; ++use) {
    const double time_s = seconds(all.step.busy[use]);
    if (time_s > 0)
      device.add({std::string(name_of(static_cast<RecordedWork>(use))), show_seconds(time_s),
                  show_percent(time_s / all.step_time_s)});
  }
  if (all.collectives.empty()) return device.text();
  Table collectives({"collective", "count", "bytes"});
  for (const CollectiveSum& each : all.collectives)
    collectives.add({recorded_collective_names()[static_cast<std::size_t>(each.kind)],
                     std::to_string(each.count), show_bytes(static_cast<double>(each.bytes))});
  return device.text() + "\n" + collectives.text();
}

int run_rehearse(const Options& options) try {
  const Rehearsed all = rehearsed(options, shown_watch());
  if (options.json)
    print_text(json_of(options, all));
  else
    print_to(stdout, "{}\n{}{}", head_text(options, all), ranks_text(all), tables_text(all));
  return done;
} catch (const ScriptFailed& script) {
  return script.exit_code;
}

std::string answer_rehearse(const Options& options, const Watch& watch) {
  return json_of(options, rehearsed(options, watch));
}

}  // namespace

const Command rehearse_command = {
    "rehearse",
    "SCRIPT",
    "after `--`: python and the script, a launcher's command line, or a shell script of one",
    "predict a step of a training script, which runs unchanged on GPUs that are not there",
    "json recording write on count host-factor imbalance time-limit write-through profile prices",
    run_rehearse,
    "`meshwright rehearse --on p5 -- torchrun --nproc-per-node=8 train.py ARGS` runs your own "
    "training script of PyTorch on stand-in GPUs, records a step that repeats, and prices it: "
    "every "
    "kernel, copy and collective, in the order of its streams, and the time of the host. `--write` "
    "keeps the recording, which `--recording` prices on any machine with as many ranks. "
    "docs/rehearse.md says what is real and what stands in.",
    answer_rehearse};

}  // namespace meshwright::tools
