// Finds the command of a shell script that starts the training, and reads its arguments and those
// of the programs that start it.
#include <algorithm>
#include <cctype>
#include <span>
#include <vector>

#include "models/core/error.h"
#include "models/core/utf8.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/shell/run.h"

namespace meshwright::interop {

namespace {

// A command that starts a Python program: the index of the program's word, the index of its first
// argument, and a score for how likely it is the training.
struct Start {
  const ShellCommand* command = nullptr;
  std::size_t program = 0, begin = 0;
  int score = 0;
  const ShellWord& word() const { return command->words[program]; }
};

// Arguments that make it likely that a program is a trainer.
constexpr std::string_view trainers[] = {
    "num-layers",        "micro-batch-size", "global-batch-size",
    "train-iters",       "train-samples",    "tensor-model-parallel-size",
    "deepspeed",         "deepspeed-config", "per-device-train-batch-size",
    "job.config-file",   "learning-rate",    "lr",
    "num-train-epochs",  "max-steps",        "gradient-accumulation-steps",
    "use-mcore-models",  "training.steps",   "batch-size",
    "trainer.num-nodes", "trainer.devices",  "max-seq-length"};
// Parts of the names of programs that are not the training itself, such as those that prepare data.
constexpr std::string_view helpers[] = {"preprocess", "prepare", "download", "convert",  "tokeniz",
                                        "make_data",  "merge",   "eval",     "generate", "infer",
                                        "server",     "check",   "report",   "plot"};

bool is_option(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

// Returns whether a word is an option of one letter: -m. A negative number is none.
bool is_short_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

bool has_part(const std::string& program, std::span<const std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return program.find(part) != std::string::npos; });
}

// Returns whether a program surely trains nothing, by its name: evaluate.py, but not
// train_and_evaluate.py.
bool never_trains(const std::string& program) {
  constexpr std::string_view training[] = {"train", "tun", "sft"};
  constexpr std::string_view others[] = {"preprocess", "prepare", "download", "convert", "tokeniz",
                                         "eval",       "generat", "infer",    "server",  "predict"};
  return has_part(program, others) && !has_part(program, training);
}

// Returns whether a word is a redirection or a pipe, which a variable brought into a command.
bool ends_arguments(const std::string& word) {
  if (word == "|" || word == "||" || word == "&&" || word == ";" || word == "&" || word == "<")
    return true;
  const std::size_t sign = word.find_first_not_of("0123456789&");
  return sign != std::string::npos && sign < 2 && word[sign] == '>';
}

// Returns whether a word is nothing but one variable, which the script does not set: $EXTRA_ARGS.
bool is_missing_variable(const std::string& word) {
  if (word.size() < 2 || word[0] != '$') return false;
  return word.find_first_not_of("{}[]@*", 1) != std::string::npos &&
         std::ranges::all_of(word.substr(1), [](char c) {
           return is_shell_name_character(c) ||
                  std::string_view("{}[]@*").find(c) != std::string_view::npos;
         });
}

// Returns whether a word changes a setting as Hydra's command line does: trainer.devices=8.
bool is_override(const std::string& word) {
  const std::size_t begin = word.find_first_not_of("+~"), equals = word.find('=');
  if (begin == std::string::npos || begin > 2 || equals == std::string::npos || equals <= begin)
    return false;
  const std::string name = word.substr(begin, equals - begin);
  return (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_') &&
         std::ranges::all_of(name, [](char c) {
           return is_shell_name_character(c) || c == '.' || c == '-' || c == '/' || c == '@';
         });
}

std::string plain_name(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

class ArgumentReader {
 public:
  ArgumentReader(const ShellOutcome& outcome, Settings& settings)
      : outcome_(outcome), settings_(settings) {}

  // Reads the start of the training. Returns false if no command starts a Python program with
  // arguments.
  bool read() {
    std::vector<Start> starts;
    for (const ShellCommand& command : outcome_.commands)
      if (const Start start = start_in(command); start.command != nullptr) starts.push_back(start);
    if (starts.empty()) return false;
    const Start& chosen = choose(starts);
    if (chosen.score == 0) return false;
    if (never_trains(program_of(chosen.word().text))) {
      helper_ = place(chosen.word()) + ": " + chosen.word().text;
      return false;
    }
    take(chosen);
    for (const Start& each : starts) {
      if (&each == &chosen || each.score < 2 || each.command->is_repeated) continue;
      if (each.word().text != chosen.word().text)
        settings_.note(place(each.word()) + ": " + each.word().text +
                       " is started too; it is not the training that is read");
      else if (texts(each) != texts(chosen))
        settings_.note(place(each.word()) + ": " + each.word().text +
                       " is started again with other arguments; those of line " +
                       std::to_string(chosen.word().line) + " are read");
    }
    return true;
  }

  // The program that is started alone, if it surely trains nothing, with its place.
  const std::string& helper() const { return helper_; }

  // Reads the arguments of a file that starts nothing.
  void read_all() {
    std::vector<ShellWord> all;
    for (const ShellCommand& command : outcome_.commands)
      all.insert(all.end(), command.words.begin(), command.words.end());
    take_arguments(all, 0);
  }

 private:
  std::string place(const ShellWord& word) const {
    return outcome_.files[static_cast<std::size_t>(word.file)] + ":" + std::to_string(word.line);
  }

  static bool is_launcher_module(const std::string& module) {
    return starter_of(module) != nullptr || module.starts_with("torch.distributed") ||
           module.starts_with("deepspeed.launcher") || module == "mpi4py" || module == "kernprof";
  }

  Start start_in(const ShellCommand& command) const {
    const std::vector<ShellWord>& words = command.words;
    std::size_t first = 0;
    while (first < words.size() && is_shell_assignment(words[first].text)) ++first;
    bool may_start = false;
    for (std::size_t i = first; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      if ((text == "-m" || text == "--module") && may_start && i + 1 < words.size()) {
        if (is_launcher_module(words[++i].text)) continue;
        return scored({&command, i, i + 1});
      }
      const bool is_program =
          text.ends_with(".py") && text[0] != '-' && text.find('=') == std::string::npos;
      const bool is_tool = program_of(text) == "llamafactory-cli" || program_of(text) == "axolotl";
      if (is_program || is_tool) return scored({&command, i, i + 1});
      may_start = may_start || is_python(text) || starter_of(text) != nullptr || text[0] == '$';
    }
    return {};
  }

  Start scored(Start start) const {
    const std::vector<ShellWord>& words = start.command->words;
    for (std::size_t i = 0; i < start.program; ++i)
      if (starter_of(words[i].text) != nullptr) start.score = 2;
    if (start.begin == words.size()) return start;
    start.score = std::max(start.score, 1);
    for (std::size_t i = start.begin; i < words.size(); ++i) {
      std::string name = words[i].text.substr(0, words[i].text.find('='));
      if (is_override(words[i].text))
        name = plain_name(name);
      else if (is_option(name))
        name = plain_name(name.substr(2));
      if (std::ranges::find(trainers, name) != std::end(trainers)) start.score = 3;
    }
    if (has_part(program_of(words[start.program].text), helpers))
      start.score = std::min(start.score, 1);
    return start;
  }

  static std::vector<std::string> texts(const Start& start) {
    std::vector<std::string> all;
    for (const ShellWord& each : start.command->words) all.push_back(each.text);
    return all;
  }

  const Start& choose(const std::vector<Start>& starts) const {
    const Start* chosen = &starts[0];
    for (const Start& each : starts)
      if (each.score > chosen->score) chosen = &each;
    for (const Start& each : starts) {
      if (&each == chosen || each.score < chosen->score || each.command->is_repeated ||
          texts(each) == texts(*chosen) || each.word().text == chosen->word().text)
        continue;
      throw InputError(place(each.word()) + ": " + each.word().text +
                       " is started a second time (first in line " +
                       std::to_string(chosen->word().line) + "); keep one command that trains");
    }
    return *chosen;
  }

  void take(const Start& start) {
    const std::vector<ShellWord>& words = start.command->words;
    for (std::size_t i = 0; i < start.program && is_shell_assignment(words[i].text); ++i) {
      const std::size_t equals = words[i].text.find('=');
      settings_.add("env." + words[i].text.substr(0, equals), words[i].text.substr(equals + 1),
                    place(words[i]));
    }
    settings_.add("program", start.word().text, place(start.word()));
    take_starters(words, start.program);
    take_arguments(words, start.begin);
    for (const std::string& doubt : start.command->doubts)
      settings_.note(place(start.word()) + ": " + doubt);
  }

  void take_starters(const std::vector<ShellWord>& words, std::size_t end) {
    const std::span<const ShellWord> before(words.data(), end);
    const std::vector<StarterSetting> found = starter_settings(before);
    for (const StarterSetting& each : found) add_starter(each);
    const ShellWord *torchrun = nullptr, *open = nullptr;
    for (const ShellWord& each : before) {
      const RankStarter* starter = starter_of(each.text);
      if (starter != nullptr && starter->key == "torchrun") torchrun = &each;
      if (torchrun != nullptr && is_missing_variable(each.text)) open = &each;
    }
    // torchrun starts one process on each host by default. A variable without a value may hold the
    // option.
    if (torchrun != nullptr && !settings_.has("torchrun.nproc-per-node")) {
      settings_.add("torchrun.nproc-per-node", open != nullptr ? open->text : "1",
                    place(*torchrun));
      settings_.show_as("torchrun.nproc-per-node", "torchrun without --nproc-per-node");
    }
    for (const ShellWord& each : before)
      if (const RankStarter* starter = starter_of(each.text);
          starter != nullptr && (starter->key == "deepspeed" || starter->key == "accelerate"))
        settings_.is_started_by(std::string(starter->key));
    const ShellWord& first = words[0];
    const bool is_known = std::ranges::any_of(
        before, [](const ShellWord& each) { return starter_of(each.text) != nullptr; });
    if (!is_known && end > 0 && !is_python(first.text) && !is_wrapper(first.text) &&
        !is_shell_assignment(first.text))
      settings_.note(place(first) + ": '" + first.text +
                     "' is no starter that is known here; how many hosts and processes it starts "
                     "is not read (--set cluster.count=NUMBER)");
  }

 public:
  void add_starter(const StarterSetting& each) {
    json value = each.value == "true" ? json(true) : json(each.value);
    settings_.add(each.name, std::move(value), place(each.word));
    std::string shown = each.shown;
    if (shown.find("--") != std::string::npos) shown = plain_name(shown);
    settings_.show_as(each.name, shown);
  }

 private:
  void take_arguments(const std::vector<ShellWord>& words, std::size_t begin) {
    std::size_t end = begin;
    while (end < words.size() && !ends_arguments(words[end].text)) ++end;
    for (std::size_t i = begin; i < end;) {
      const std::string& text = words[i].text;
      if (is_override(text) && (text.find('.') < text.find('=') || overrides_ > 0)) {
        take_override(words[i++]);
        continue;
      }
      if (is_short_option(text) && !is_option(text)) {
        const ShellWord& option = words[i++];
        std::string all = option.text;
        for (; i < end && !is_short_option(words[i].text) && !is_option(words[i].text); ++i) {
          all += " " + words[i].text;
          take_plain(words[i]);
        }
        settings_.note(place(option) + ": " + all +
                       ": an option of one letter, of the program itself, is not read");
        continue;
      }
      if (!is_option(text)) {
        take_plain(words[i++]);
        continue;
      }
      const ShellWord& option = words[i];
      std::string name = text.substr(2);
      std::vector<std::string> values;
      if (const std::size_t equals = name.find('='); equals != std::string::npos) {
        values.push_back(name.substr(equals + 1));
        name.resize(equals);
      }
      const bool has_value = !values.empty();
      for (++i; i < end && !has_value && !is_option(words[i].text); ++i) {
        if (is_short_option(words[i].text)) break;
        if (is_override(words[i].text) && words[i].text.find('.') < words[i].text.find('=')) break;
        values.push_back(words[i].text);
      }
      while (values.size() > 1 && is_missing_variable(values.back())) {
        settings_.note(place(words[i - 1]) + ": " + values.back() +
                       " is not given and taken as empty");
        values.pop_back();
      }
      json value = true;
      if (values.size() == 1) value = values[0];
      if (values.size() > 1) value = values;
      settings_.add(plain_name(name), std::move(value), place(option));
    }
  }

  void take_override(const ShellWord& word) {
    const std::size_t begin = word.text.find_first_not_of('+'), equals = word.text.find('=');
    const std::string name = word.text.substr(begin, equals - begin);
    if (name.starts_with('~')) return;
    settings_.add(name, word.text.substr(equals + 1), place(word));
    settings_.show_as(name, name);
    ++overrides_;
  }

  // Keeps the name of a file of settings that a program is given without an option. The last one
  // counts.
  void take_plain(const ShellWord& word) {
    for (const char* ending : {".json", ".yaml", ".yml", ".toml"})
      if (word.text.ends_with(ending)) settings_.add("program.file", word.text, place(word));
  }

  const ShellOutcome& outcome_;
  Settings& settings_;
  std::string helper_;
  int overrides_ = 0;
};

bool is_text(const json& value) {
  if (value.is_array()) return std::ranges::all_of(value, is_text);
  const std::string text = value.is_string() ? value.get<std::string>() : std::string();
  return valid_utf8(text) == text.size();
}

Settings settings_of(const ShellOutcome& outcome, bool& has_start, std::string& helper) {
  Settings settings("--");
  ArgumentReader reader(outcome, settings);
  for (const StarterSetting& each : outcome.queue) reader.add_starter(each);
  for (const ShellExport& each : outcome.exports)
    settings.add(
        "env." + each.name, each.value,
        outcome.files[static_cast<std::size_t>(each.file)] + ":" + std::to_string(each.line));
  has_start = reader.read();
  helper = reader.helper();
  if (!has_start) reader.read_all();
  return settings;
}

}  // namespace

// Only the settings must be UTF-8, not the whole script, because comments may be in another
// encoding.
ReadScript read_script(const std::string& text, const std::string& file,
                       const ShellSources& sources) {
  if (text.find('\0') != std::string::npos)
    throw InputError(file + ": contains a null byte, so it is no UTF-8 text");
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::string script =
      text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
  bool has_start = false;
  ShellOutcome outcome = walk_shell(script, file, sources);
  std::string helper;
  Settings settings = settings_of(outcome, has_start, helper);
  if (!has_start) {
    // The start may be in a branch that depends on a variable that is not given.
    ShellOutcome all = walk_shell(script, file, sources, true);
    Settings others = settings_of(all, has_start, helper);
    if (has_start) {
      settings = std::move(others);
      outcome = std::move(all);
    } else if (!helper.empty()) {
      throw InputError(
          helper +
          " evaluates, generates or prepares, and nothing that trains is started; give "
          "the start of one that trains");
    }
  }
  for (const Setting& each : settings.all())
    if (!is_text(each.name) || !is_text(each.value))
      throw InputError(each.place + ": holds a byte that is not UTF-8; write the file as UTF-8");
  return {std::move(settings), std::move(outcome.written), std::move(outcome.missing), has_start};
}

Settings read_arguments(const std::string& text, const std::string& file) {
  return read_script(text, file, {}).settings;
}

}  // namespace meshwright::interop
