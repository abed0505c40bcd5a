// Training with transformers' Trainer, which the targets deepspeed and accelerate start: its
// arguments as a JSON file (transformers.HfArgumentParser.parse_json_file), the model as
// config.json. Names and defaults: transformers 5.24, training_args.py.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "models/compiler/frameworks/huggingface.h"
#include "tools/interop/target.h"

namespace meshwright {

// Arguments of the Trainer are among the settings: what they leave out has the Trainer's defaults.
bool has_trainer(const Settings& settings);
bool is_trainer_setting(std::string_view name);

// Hosts and processes of a launch file beside the settings.
Rule launcher_rule();

// Rules that both targets have, of those arguments.
Rule trainer_sequence_rule();
Rule trainer_steps_rule();      // steps, warm-up, schedule, seed, deterministic
Rule trainer_attention_rule();  // after the rule of the compiler and the precision
// Optimizer, learning rate and its like, with the Trainer's names and defaults.
void read_trainer_optimizer(Settings& from, JobDraft& to);
void write_trainer_optimizer(const JobValues& from, Settings& to);
// micro_batch and global_batch; `data` ranks read different sequences, 0: not known.
void read_trainer_batch(Settings& from, JobDraft& to, std::int64_t data);
void write_trainer_batch(const JobValues& from, Settings& to);
// The replicas of a job whose ranks are known by now; 0: they are not.
std::int64_t replicas_of_draft(const JobDraft& job);

// A target's own rows, and then those of the Trainer's arguments.
std::vector<WithoutMeaning> with_those_of_trainer(std::span<const WithoutMeaning> own);

// training_args.json, config.json and train.py.
std::vector<ExportedFile> trainer_files(const JobValues& job, const Settings& settings);

}  // namespace meshwright
