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

// A setting whose value contains a variable that only the shell knows ("$LAYERS").
struct OpenSetting {
  std::string name, value, place;
};

struct Setting {
  std::string name;   // "micro-batch-size"; where files nest, dotted: "zero_optimization.stage"
  json value;         // of a command line: strings, a list of them, or true for a flag
  std::string place;  // "run.sh:12", for messages
  bool is_read = false;
};

// Returns whether two names are the same setting. `-` and `_` count as the same character.
bool same_name(std::string_view one, std::string_view other);

// Returns the first variable of a shell in a value, without the `$` before it: "LAYERS" for
// "$LAYERS" and "${LAYERS}", "1" for "$1". Returns an empty string if there is none, or if the
// value contains a command, `$(command)` or one between backquotes.
std::string shell_variable_in(const std::string& text);

class Settings {
 public:
  Settings() = default;
  // `before` is "--" for a command line. Messages write it in front of the names of most settings.
  // With `has_variables`, values such as "$LAYERS" are variables that --define can give. A command
  // line always has them.
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
  // truth value ("8", "1e-4", "true") is taken as one.
  //
  // A variable that only the shell knows ("$LAYERS") counts as absent for whole(), number() and
  // word() with known words, and open() then lists it, if has_variables(). flag() returns true for
  // it on a command line. The other word() returns its text, and wholes() throws.
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
  // Returns the settings that is_open() found, or that were read, with values that only the shell
  // knows.
  const std::vector<OpenSetting>& open() const { return open_; }
  void forget_open(std::size_t from) { open_.resize(from); }
  // Returns whether the value contains a variable that only the shell, or the program, knows. If
  // so, open() lists the setting from now on. Always false if these settings have no variables.
  bool is_open(const Setting& setting);
  // Returns the place and the name of a setting, for messages: "run.sh:12: --micro-batch-size: ".
  std::string where(const Setting& setting) const;
  // Returns a setting's name in the form that files of this kind have: "--bf16", "torchrun
  // --nnodes", "#SBATCH --nodes", "NCCL_DEBUG". If show_as() gave it another name, returns that.
  std::string spelled(const std::string& name) const;
  // Says that unknown settings belong to the script that is started, which has arguments of its
  // own.
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
  // Throws InputError with `problem`, the setting's name and its place. If the setting is missing,
  // the file takes the place.
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
