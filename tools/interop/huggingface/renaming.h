// Changes settings of programs that train as transformers' Trainer does into the Trainer's, before
// the rules read them.
#pragma once

#include <string>
#include <string_view>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// A setting of another program, and the setting of the Trainer or of accelerate that it is.
struct TrainerName {
  std::string_view other, name;
};

// Why training by preferences or rewards is refused.
inline constexpr const char* not_by_rewards =
    "training by preferences or rewards is not built; one model's step of it is a job of its own "
    "(docs/job-file.md)";

const Setting* find_setting(const Settings& settings, std::string_view name);  // null if absent
// Gives a setting another name. Messages keep the file's. A null value counts as absent.
void rename_setting(Settings& settings, std::string_view other, std::string_view name);
// Adds a setting that another one implies, with that one's place and spelling. Does nothing if the
// file has the setting itself, or lacks the other one.
void imply_setting(Settings& settings, const std::string& name, json value, std::string_view by);
// Return whether a switch is on, or off: files and command lines have several words for it. A
// setting that is absent is neither.
bool is_on(const Settings& settings, std::string_view name);
bool is_off(const json& value);

// Renames torchtune's settings, if these are torchtune's (torchtune.cpp). Throws InputError for
// recipes that train otherwise than on the next token, and for those that do not train.
void read_torchtune(Settings& settings);
// Renames the arguments of AWS's examples of FSDP (awsome-distributed-training), if these are
// theirs.
void read_aws_fsdp(Settings& settings);
// Renames the arguments by which scripts ask for adapters to those of trl.
void read_script_adapters(Settings& settings);
// Renames the arguments of DeepSpeed-Chat and of programs that take --zero_stage as it does. Throws
// InputError for its steps that train by rewards.
void read_deepspeed_chat(Settings& settings);

}  // namespace meshwright::interop
