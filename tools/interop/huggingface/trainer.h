// Reads and writes the settings of transformers' Trainer, which the targets deepspeed and
// accelerate start. Its arguments are a JSON file (transformers.HfArgumentParser.parse_json_file),
// and the model is config.json. Names and defaults: transformers 5.24, training_args.py.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "models/compiler/frameworks/huggingface.h"
#include "tools/interop/target.h"

namespace meshwright::interop {

// has_trainer() returns whether arguments of the Trainer are among the settings. Missing arguments
// then have the Trainer's defaults. is_trainer_setting() returns whether trainer_files() may write
// the setting.
bool has_trainer(const Settings& settings);
bool is_trainer_setting(std::string_view name);

// Translates settings of other programs that train by the Trainer, before the rules read them.
// Throws InputError for training that is not built, such as adapters other than LoRA, objectives
// other than the next token, and the settings that check_other_steps() refuses.
Settings with_trainer_names(Settings settings, const JobDraft& given);

// Return the rules of the Trainer's arguments.
Rule trainer_model_rule();  // before the other rules of this file
Rule trainer_adapter_rule();
Rule trainer_sequence_rule();
Rule trainer_steps_rule();      // steps, warm-up, schedule, seed, deterministic
Rule trainer_attention_rule();  // after the rule of the compiler and the precision
// Read and write optimizer, learning rate, betas and the like under the Trainer's names. Reading
// sets the Trainer's defaults for missing ones if has_trainer().
void read_trainer_optimizer(Settings& from, JobDraft& to);
void write_trainer_optimizer(const JobValues& from, Settings& to);
// Read and write micro_batch and global_batch. `data` is the number of ranks that read different
// sequences, or 0 if it is unknown. global_batch is then not set.
void read_trainer_batch(Settings& from, JobDraft& to, std::int64_t data);
void write_trainer_batch(const JobValues& from, Settings& to);
// Returns the number of data replicas of a job, or 0 if the number of its ranks is not known yet or
// does not fit its degrees.
std::int64_t replicas_of_draft(const JobDraft& job);

// Returns a target's own rows, followed by those of the Trainer's arguments.
std::vector<WithoutMeaning> with_those_of_trainer(std::span<const WithoutMeaning> own);

// Returns training_args.json, config.json and train.py. A captured model has a script of its own,
// so only training_args.json is returned.
std::vector<ExportedFile> trainer_files(const JobValues& job, const Settings& settings);
// Returns a warning that the user's own script must be added to the export of a captured model, or
// nothing for other models.
std::vector<std::string> trainer_warnings(const JobValues& job);

}  // namespace meshwright::interop
