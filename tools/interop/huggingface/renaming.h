// Translates settings of programs that train as transformers' Trainer does to the Trainer's, before
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
// Gives a setting another name, in place of a setting that has this name already. Messages keep the
// name of the file. A setting that is null is only removed.
void rename_setting(Settings& settings, std::string_view other, std::string_view name);
// Adds a setting that another one implies, with that one's place and spelling. Does nothing if the
// file has the setting itself, or lacks the other one.
void imply_setting(Settings& settings, const std::string& name, json value, std::string_view by);
// is_on() returns whether a setting is present and turned on, and is_off() whether a value turns a
// setting off. Files and command lines have several words for both. Null is off.
bool is_on(const Settings& settings, std::string_view name);
bool is_off(const json& value);

// Translates the settings of torchtune's recipes (torchtune.cpp). Does nothing for other settings.
// Throws InputError for recipes that do not train on the next token, and for those that do not
// train.
void read_torchtune(Settings& settings);
// Translates the arguments of AWS's examples of FSDP (aws_fsdp.cpp). Does nothing for other
// settings.
void read_aws_fsdp(Settings& settings);
// Renames the arguments by which scripts ask for adapters to those of trl.
void read_script_adapters(Settings& settings);
// Renames the arguments of DeepSpeed-Chat and of programs that take --zero_stage as it does. Throws
// InputError for its steps that train by rewards.
void read_deepspeed_chat(Settings& settings);

}  // namespace meshwright::interop
