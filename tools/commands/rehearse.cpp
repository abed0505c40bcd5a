// Runs the command `rehearse -- python train.py`, which predicts a step of a training script on
// simulated GPUs.
#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/commands/recorded_operand.h"
#include "tools/commands/recorded_script.h"
#include "tools/print.h"
#include "tools/report/recorded_step.h"
#include "tools/report/recorded_summary.h"
#include "tools/session/json_text.h"
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
  check_recorded_outputs(options);
  const Recording recording = recording_of(options, asked_machines(options, watch));
  if (!options.summary.empty())
    write_file(options.summary, json_text(recorded_summary(recording), true) + "\n");
  return priced_recording(options, recording, watch);
}

std::string json_of(const Options& options, const Rehearsed& all) {
  return json_text(recorded_step_json(all, options.today), true);
}

int run_rehearse(const Options& options) try {
  const Rehearsed all = rehearsed(options, shown_watch());
  if (options.json)
    print_text(json_of(options, all));
  else
    print_to(stdout, "{}", recorded_step_text(all, options.today));
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
    "json wide recording write on count host-factor imbalance time-limit write-through set profile "
    "prices trace report summary",
    run_rehearse,
    "`meshwright rehearse --on p5 -- torchrun --nproc-per-node=8 train.py ARGS` runs your own "
    "training script of PyTorch on stand-in GPUs, records a step that repeats, and prices it: "
    "every kernel, copy and collective, in the order of its streams, and the time of the host. "
    "`--write` keeps the recording, which `--recording` and `simulate` price on any machine with "
    "as many ranks. "
    "docs/rehearse.md says what is real and what stands in.",
    answer_rehearse};

}  // namespace meshwright::tools
