// Holds the settings of another framework as its files or its command line specify them: a flat
// list of names and values, each with its place. Reading a setting marks it, so that an import can
// list the settings that no rule has read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/json.h"

namespace meshwright::interop {

// A setting whose value only the shell knows ("$LAYERS").
struct OpenSetting {
  std::string name, value, place;
};

struct Setting {
  std::string name;   // "micro-batch-size"; where files nest, dotted: "zero_optimization.stage"
  json value;         // a command line's are strings, a flag alone is true; lists stay lists
  std::string place;  // "run.sh:12", for messages
  bool is_read = false;
};

// Returns whether two names are the same setting: equal, if `-` and `_` count as one character.
bool same_name(std::string_view one, std::string_view other);

// Returns the first variable of a shell in a value, without its sign: "LAYERS" of "$LAYERS",
// "${LAYERS}" and "$((LAYERS * 2))" with a sign before it. Empty if there is none, or if a
// $(command) stands in the value.
std::string shell_variable_in(const std::string& text);

class Settings {
 public:
  Settings() = default;
  // Messages write `before` in front of a setting's name: "--" for a command line.
  // `has_variables`: values such as "$LAYERS" are variables that --define can give. A command line
  // always has them.
  explicit Settings(std::string before, bool has_variables = false)
      : before_(std::move(before)), has_variables_(has_variables || before_ == "--") {}

  // Adds a setting. It replaces an earlier one of the same name, because on a command line the last
  // one counts.
  void add(std::string name, json value, std::string place = {});
  void remove(std::string_view name);
  bool has(std::string_view name) const;  // without reading it
  const std::vector<Setting>& all() const { return all_; }
  bool has_variables() const { return has_variables_; }
  void allow_variables() { has_variables_ = true; }

  // Reads a setting: marks it, calls the listener and returns it. Returns null if the setting is
  // absent or its value is null.
  const Setting* read(std::string_view name);
  // Read a setting as a value. They return nothing, or an empty list, if it is absent or null, and
  // throw InputError with its place if it has the wrong type. A string that holds a number or a
  // truth value ("8", "1e-4", "true") is taken as one. A variable that only the shell knows
  // ("$LAYERS") counts as absent, and open() lists it, for a number and for a word that must be a
  // known one. A flag of a command line is true then, because flags have no value. Other words keep
  // the variable as their text, and a list of numbers refuses it.
  std::optional<std::int64_t> whole(std::string_view name);
  // Reads a number of hosts, ranks, layers and the like: a whole number from `least` to 2^31 - 1.
  // Throws InputError for any other.
  std::optional<std::int64_t> count(std::string_view name, std::int64_t least = 1);
  std::vector<std::int64_t> wholes(std::string_view name);  // a list, or one number; absent: empty
  std::optional<double> number(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::string> word(std::string_view name);
  std::optional<std::string> word(std::string_view name, const std::vector<std::string>& known);
  std::vector<std::string> words(std::string_view name);  // a list, or one word; absent: empty

  // Calls `listener` for every setting that is read, until on_read() is called again.
  void on_read(std::function<void(const Setting&)> listener) { listener_ = std::move(listener); }
  // Adds a line for the user about what the reader of the file had to assume.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<std::string>& notes() const { return notes_; }
  // The settings that were read, but whose values only the shell knows.
  const std::vector<OpenSetting>& open() const { return open_; }
  void forget_open(std::size_t from) { open_.resize(from); }
  // Returns whether only the shell, or the program, knows the value of a setting. open() then lists
  // it.
  bool is_open(const Setting& setting);
  // Returns the place and the name of a setting, for messages: "run.sh:12: --micro-batch-size: ".
  std::string where(const Setting& setting) const;
  // Returns a setting's name in the form that files of this kind have: "--bf16", "torchrun
  // --nnodes", "#SBATCH --nodes", "NCCL_DEBUG". If show_as() gave it another name, returns that.
  std::string spelled(const std::string& name) const;
  // Says that settings which are not known belong to the script that is started, which has settings
  // of its own.
  void others_are_of_script() { others_are_of_script_ = true; }
  bool are_others_of_script() const { return others_are_of_script_; }
  // Sets the launcher that starts the program, "deepspeed" or "accelerate". Empty: neither does.
  void is_started_by(std::string launcher) { launcher_ = std::move(launcher); }
  const std::string& launcher() const { return launcher_; }
  // Sets the file that messages about missing settings name.
  void is_of(std::string file) { file_ = std::move(file); }
  // Sets the name of a setting in messages, for settings that were translated from another
  // framework's names.
  void show_as(const std::string& name, std::string shown);
  // Throws InputError with `problem`, the setting's name and its place, or the file if the setting
  // is missing.
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const;

 private:
  [[noreturn]] void wrong_type(const Setting& setting, std::string_view expected) const;
  std::string before_, file_, launcher_;
  bool has_variables_ = false, others_are_of_script_ = false;
  std::map<std::string, std::string, std::less<>> shown_;  // by name
  std::vector<Setting> all_;
  std::vector<std::string> notes_;
  std::vector<OpenSetting> open_;
  std::function<void(const Setting&)> listener_;
};

}  // namespace meshwright::interop
