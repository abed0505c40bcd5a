#include "tools/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "models/compiler/frameworks/framework.h"
#include "models/core/enum_words.h"
#include "models/core/error.h"
#include "models/core/names_in.h"
#include "models/core/written_number.h"
#include "tools/examples.h"
#include "tools/interop/launch/launch.h"
#include "tools/other_options.h"
#include "tools/session/screen.h"
#include "tools/session/worded_job.h"

namespace meshwright::tools {

const std::vector<std::string>& trace_format_names() {
  static const std::vector<std::string> names =
      words_up_to<TraceFormat::chakra>({"chrome", "chakra"});
  return names;
}

namespace {

bool takes(const Command& command, const std::string& name) {
  std::istringstream words(command.options);
  for (std::string word; words >> word;)
    if (word == name) return true;
  return false;
}

// Returns a count as people write it (1000, 1k, 1e3, two). Returns nothing if `text` is not a whole
// number from 1 to `most`.
std::optional<int> count_of(const std::string& text, int most) {
  const std::optional<double> value = written_number(text, NumberKind::count);
  if (!value || *value < 1 || *value > most || *value != std::floor(*value)) return std::nullopt;
  return static_cast<int>(*value);
}

// Each function called fault_of_...() returns what is wrong with the text of an option's value, or
// "" if it is valid.
std::string fault_of_count(const std::string& text, int most) {
  if (count_of(text, most)) return "";
  const bool is_list = text.find_first_of(",-", 1) != std::string::npos &&
                       text.find_first_not_of("0123456789,-") == std::string::npos;
  return "expected a whole number from 1 to " + std::to_string(most) + ", found '" + text + "'" +
         (is_list ? "; several are a list in the job, such as --set cluster.count=[1,2,4]" : "");
}

std::string fault_of_port(const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= 65535)
    return "";
  return "expected a port from 0 (any free one) to 65535, found '" + text + "'";
}

double number_of(const std::string& text, double otherwise) {
  double value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : otherwise;
}

std::string fault_of_share(const std::string& text) {
  const double value = number_of(text, -1);
  if (value >= 0 && value < 1) return "";
  return "expected a number from 0 to below 1, found '" + text + "'";
}

std::string fault_of_temperature(const std::string& text) {
  const double value = number_of(text, -1);
  if (value > 0 && value <= 100) return "";
  return "expected a number above 0, and up to 100, found '" + text +
         "'; without --temperature the most likely token is taken";
}

std::string fault_of_factor(const std::string& text) {
  const double value = number_of(text, -1);
  if (value > 0 && value <= 100) return "";
  return "expected a number above 0, and up to 100, found '" + text + "'";
}

struct FileOption {
  const char* name;
  std::string Options::*value;
  const char* help;
  const char* command = nullptr;  // only this command has the row; null: every command
  const char* type = "FILE";
};

constexpr const char* checkpoint_or_weights =
    "the checkpoint, a folder of them (the newest good one), or a folder with model.safetensors; "
    "the job's checkpoint folder without it";

constexpr FileOption file_options[] = {
    {"profile", &Options::profile,
     "the file to write; without it the one that commands on this computer look for, "
     "meshwright/local.json in $XDG_DATA_HOME or ~/.local/share",
     "calibrate"},
    {"profile", &Options::profile,
     "the profile to begin with, instead of the known one of the machine that it names", "fit"},
    {"profile", &Options::profile,
     "the profile to use for the machine that it names, or for `local`, instead of the known one"},
    {"prices", &Options::prices,
     "a price list whose rows go before those that are known (docs/prices.md)"},
    {"models", &Options::models,
     "a folder; jobs may name its JSON files (own.model.json, config.json) as their model", nullptr,
     "FOLDER"},
    {"recording", &Options::recording, "the recorded step of a script"},
    {"summary", &Options::summary,
     "write what the step did, as counts and bytes: kernels, memory, collectives"},
    {"runs", &Options::runs, "measured steps, all on one machine, as in scenarios/evidence"},
    {"measured", &Options::measured,
     "a trace that `train --trace FILE` wrote, whose last step is compared with the predicted one; "
     "or the JSON of a rank that PyTorch's profiler exported"},
    {"trace", &Options::trace,
     "write the timeline as a Chrome trace (Perfetto opens it), or as --trace-format says"},
    {"programs", &Options::programs,
     "predict these Programs instead of those that the job compiles to: what `compile --dump` "
     "wrote, "
     "perhaps changed since"},
    {"write", &Options::write,
     "write the job with its plan, and every \"auto\" replaced; rehearse: the recorded step"},
    {"write-partition", &Options::write_partition,
     "write the stage of every module, for `partition` or partition_file"},
    {"report", &Options::report, "write a self-contained HTML page"},
    {"timeline", &Options::timeline, "write what the page's timeline draws, as JSON"},
    {"log-json", &Options::log_json, "write one JSON line per step"},
    {"hostfile", &Options::hostfile, "the hosts for mpirun"},
    {"to", &Options::to, "the folder to write", nullptr, "FOLDER"},
    {"checkpoint", &Options::checkpoint, checkpoint_or_weights, "evaluate", "FOLDER"},
    {"checkpoint", &Options::checkpoint, checkpoint_or_weights, "generate", "FOLDER"},
    {"checkpoint", &Options::checkpoint,
     "the checkpoint, or a folder of them (the newest good one); the job's folder without it",
     nullptr, "FOLDER"},
    {"dump", &Options::dump, "write the graph after each pass, and the Programs, into this folder",
     nullptr, "FOLDER"},
    {"output", &Options::output, "the file to write"},
    {"tokenizer", &Options::tokenizer,
     "a Hugging Face tokenizer.json; without it that of the job's data, or one beside the weights",
     "generate"},
    {"tokenizer", &Options::tokenizer,
     "a Hugging Face tokenizer.json (BPE, Unigram, WordPiece); bytes without it"},
};

using Names = const std::vector<std::string>& (*)();

struct TextOption {
  const char* name;
  std::string Options::*value;
  const char* type;
  const char* help;
  Names words = nullptr;  // all words that the value may be; null: any value
};

constexpr TextOption text_options[] = {
    {"trace-steps", &Options::trace_steps, "STEPS",
     "which steps --trace holds, such as 3,10-12 (the last one)"},
    {"for", &Options::framework, "FRAMEWORK",
     "a framework whose settings can express the plan: `list frameworks` names them",
     framework_names},
    {"format", &Options::format, "FRAMEWORK",
     "whose settings the files hold, where they do not say it", framework_names},
    {"trace-format", &Options::trace_format, "FORMAT",
     "what --trace writes: chrome (one file; without this option), or chakra (MLCommons Chakra "
     "execution traces: FILE.RANK.et for every rank)",
     trace_format_names},
    {"model", &Options::model, "MODEL",
     "instead of a job file, or in place of its model: a name of the hub or of `list models`, "
     "llama:3B, llama:largest (with --by or --budget), or the path of a config.json"},
    {"tokens", &Options::tokens, "N", "tokens of the whole job, such as 60B"},
    {"task", &Options::task, "TASK",
     "what a job without a file does: pretrain, finetune, lora or qlora (pretrain)", task_names},
    {"batch", &Options::batch, "N",
     "sequences of a step (without it and without a job that says it, a usual batch)"},
    {"length", &Options::length, "TOKENS",
     "of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's)"},
    {"on", &Options::on, "MACHINE",
     "a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a "
     "recorded step a machine (its own)"},
    {"prompt", &Options::prompt, "TEXT", "the text to go on from"},
    {"prompt-tokens", &Options::prompt_tokens, "NUMBERS",
     "in place of --prompt: its tokens, such as 1,2,3"},
    {"separator", &Options::separator, "TOKEN", "the token that ends each document"},
    {"text-key", &Options::text_key, "KEY", "of .jsonl files: the key of a document's text (text)"},
    {"host", &Options::host, "ADDRESS",
     "the address to listen at (127.0.0.1: this computer alone can connect)"},
    {"by", &Options::by, "DATE",
     "when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan "
     "is the best where the job does not say what to minimize"},
    {"budget", &Options::budget, "USD",
     "what the whole job may cost; where it does not say how long it is, the best plan trains on "
     "the most tokens"},
};

struct FlagOption {
  const char* name;
  bool Options::*value;
  const char* help;
};

constexpr FlagOption flag_options[] = {
    {"json", &Options::json, "one JSON object on standard output and nothing else"},
    {"wide", &Options::wide, "lines as long as they are, and tables with all their columns"},
    {"why", &Options::why, "every reason for which plans were rejected, instead of three"},
    {"all", &Options::all, "every rung of every machine, instead of a line for each machine"},
    {"rehearse", &Options::rehearse,
     "run the script after `--` on GPUs that are not there, at each number of ranks"},
    {"dry-run", &Options::dry_run, "predict a step as `simulate` does, and start no ranks"},
    {"cpu", &Options::cpu, "measure the processor, not the GPUs"},
    {"quick", &Options::quick, "measure in seconds, and so less of it and less exactly"},
    {"check-collectives", &Options::check_collectives,
     "compare what the ranks are about to do before each collective (slow)"},
    {"no-hash", &Options::no_hash,
     "leave out the parameters' SHA-256 at the end, which takes seconds of a large model"},
    {"allow-mpi-options", &Options::allow_mpi_options,
     "let custom_mpi_options set what a job file may not by itself: it can name programs to run"},
    {"measure-afresh", &Options::measure_afresh,
     "measure this computer, although a quick profile of today is kept"},
    {"measure", &Options::measure, "run a few steps at each level on this computer"},
    {"allow-unknown", &Options::allow_unknown,
     "list settings that are not known, instead of refusing them"},
    {"ema", &Options::ema,
     "of a job with training.ema_decay: write the average of the weights instead of these"},
    {"adapter", &Options::adapter,
     "of a job with training.lora: write the adapter alone, as peft loads it"},
    {"prove", &Options::prove,
     "go on until no other plan can be better by more than 2 %; Ctrl-C prints the best so far"},
    {"write-through", &Options::write_through,
     "let the script write its files where it does, instead of into a folder that is removed"},
    {"resume", &Options::resume, "continue from the newest good checkpoint"},
};

struct CountOption {
  const char* name;
  std::optional<int> Options::*value;
  int most;
  const char* help;
};

constexpr CountOption count_options[] = {
    {"steps", &Options::steps, 2'000'000'000,
     "optimizer steps, instead of training.steps; evaluate: batches of training.global_batch "
     "sequences (all)"},
    {"max-tokens", &Options::max_tokens, 1'000'000, "the most tokens to generate (32)"},
    {"top-k", &Options::top_k, 1'000'000,
     "with --temperature: choose among this many most likely tokens only (all)"},
    {"seed", &Options::seed, 2'000'000'000,
     "with --temperature: the random numbers, and so the text (1)"},
    {"top", &Options::top, 1'000'000, "how many plans to show (10)"},
    {"count", &Options::count, 1'000'000,
     "hosts (of a recorded step, as few as have a GPU for each rank)"},
    {"ranks", &Options::ranks, 64, "processes that are measured together"},
    {"deadline", &Options::deadline, 1'000'000,
     "seconds that a wait for other ranks or hosts may take (120; 600 while one of them loads, "
     "compiles or saves)"},
    {"time-limit", &Options::time_limit, 1'000'000,
     "seconds that a call, or a script without a step, may take (600)"},
    {"restarts", &Options::restarts, 1'000'000, "start again so often after a fault"},
};

struct NumberOption {
  const char* name;
  std::optional<double> Options::*value;
  const char* type;
  const char* help;
  std::string (*fault)(const std::string& text);
};

constexpr NumberOption number_options[] = {
    {"temperature", &Options::temperature, "T",
     "draw each token at random, by its logit divided by T; without it the most likely one is "
     "taken",
     fault_of_temperature},
    {"memory-margin", &Options::memory_margin, "FRACTION",
     "share of a GPU's memory that plans leave free (0.03: allocators cut it into pieces, and "
     "predicted peaks are not exact)",
     fault_of_share},
    {"host-factor", &Options::host_factor, "FACTOR",
     "how much longer the host of the run works than the one that recorded (1)", fault_of_factor},
    {"imbalance", &Options::imbalance, "FACTOR",
     "tokens of the fullest expert relative to the mean of all experts (1)", fault_of_factor},
};

struct ListOption {
  const char* name;
  std::vector<std::string> Options::*values;
  const char* type;
  const char* help;           // `{}` stands for the list of `words`
  bool many_at_once = false;  // also --from A B, and not only --from A --from B
  Names words = nullptr;      // all words that a value may be; null: any value
};

constexpr ListOption list_options[] = {
    {"set", &Options::set, "KEY=VALUE", "override a key of the job by its dotted path; repeatable"},
    {"define", &Options::define, "NAME=VALUE",
     "a variable of a shell script that is read, or (1=VALUE) its first argument; repeatable"},
    {"allow-changed", &Options::allow_changed, "KEY",
     "go on although the checkpoint has another value of this key (or of keys of this section) of "
     "the job or its model; repeatable"},
    {"data", &Options::data, "FILE...",
     "evaluate on these files, in the format that the job's data has", true},
    {"from", &Options::from, "FILE...",
     "the files: settings, and beside them a model's config.json; of weights a folder with "
     "model.safetensors (or its index), or such a file; of export-weights the folder whose "
     "tokenizer "
     "and other files are kept; of launch an estimator as JSON, whose script is started",
     true},
    {"launcher", &Options::launchers, "NAME",
     "write what starts it with {}; repeatable (all of them)", false, launcher_names},
};

std::string dashed(const char* name) { return std::string("--") + name; }

void add_lists(CLI::App& app, const Command& command, Options& o,
               std::span<const ListOption> lists) {
  for (const ListOption& option : lists)
    if (takes(command, option.name))
      app.add_option(dashed(option.name), o.*option.values,
                     option.words == nullptr
                         ? option.help
                         : fmt::format(fmt::runtime(option.help), list_of(option.words())))
          ->type_name(option.type)
          ->allow_extra_args(option.many_at_once);
}

void add_options(CLI::App& app, const Command& command, Options& o) {
  if (*command.operand != '\0')
    app.add_option(command.operand, o.operands, command.operand_help)->type_name("");
  for (const FlagOption& option : flag_options)
    if (takes(command, option.name))
      app.add_flag(dashed(option.name), o.*option.value, option.help)->disable_flag_override();
  add_lists(app, command, o, std::span(list_options).first(2));
  for (const TextOption& option : text_options)
    if (takes(command, option.name))
      app.add_option(dashed(option.name), o.*option.value, option.help)->type_name(option.type);
  std::set<std::string_view> said;
  for (const FileOption& option : file_options) {
    const bool is_of_another =
        option.command != nullptr && std::string_view(option.command) != command.name;
    if (!takes(command, option.name) || is_of_another || !said.insert(option.name).second) continue;
    app.add_option(dashed(option.name), o.*option.value, option.help)->type_name(option.type);
  }
  for (const CountOption& option : count_options)
    if (takes(command, option.name))
      app.add_option(dashed(option.name), o.*option.value, option.help)
          ->type_name("N")
          ->transform(CLI::Validator(
              [most = option.most](std::string& text) {
                const std::string fault = fault_of_count(text, most);
                if (fault.empty()) text = std::to_string(*count_of(text, most));
                return fault;
              },
              ""));
  add_lists(app, command, o, std::span(list_options).subspan(2));
  for (const NumberOption& option : number_options)
    if (takes(command, option.name))
      app.add_option(dashed(option.name), o.*option.value, option.help)
          ->type_name(option.type)
          ->check(option.fault);
  if (takes(command, "port"))
    app.add_option("--port", o.port, "the port to listen at (8080; 0: any free one)")
        ->type_name("N")
        ->check(fault_of_port);
  // The launcher starts its ranks with these options. The help does not list them.
  if (takes(command, "as-rank")) {
    app.add_flag("--as-rank", o.as_rank)->group("");
    app.add_flag("--progress", o.progress)->group("");
    app.add_option("--rank-result", o.rank_result)->group("");
    app.add_option("--run-name", o.run_name)->group("");
  }
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!option->get_group().empty()) names.push_back("--" + name);
  return names;
}

std::string unknown_option(const std::string& name, const std::vector<std::string>& known) {
  if (const std::string meant = option_meant(name, known); !meant.empty())
    return "unknown option '" + name + "'; did you mean " + meant + "?";
  const std::string near = nearest(name, known);
  return "unknown option '" + name + "'" +
         (near.empty() ? "; known: " + list_of(known, "and") : "; did you mean '" + near + "'?");
}

// Returns a message about the first argument that looks like an option but is unknown, or "" if
// there is none. The message never suggests a hidden option.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument.size() < 2 || argument[0] != '-') continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (app.get_option_no_throw(name) == nullptr) return unknown_option(name, option_names(app));
  }
  return "";
}

// Returns a message about an option without its value, with a value that it does not take, or given
// twice. Only the option's name is taken from CLI11's `message`, because its texts differ between
// versions.
std::string mismatch(const std::string& message, const std::vector<std::string>& arguments) {
  for (const FlagOption& flag : flag_options)
    if (message.find(flag.name) == 0 || message.find(std::string("--") + flag.name) == 0)
      return std::string("--") + flag.name + " takes no value";
  const std::string name = message.substr(0, message.find(':'));
  const auto given = std::count_if(arguments.begin(), arguments.end(), [&](const auto& word) {
    return word == name || word.starts_with(name + "=");
  });
  return name + (given > 1 && name != "--set" ? " is given twice; give it once" : " needs a value");
}

std::string usage(const Command& command) {
  std::string text = std::string("meshwright ") + command.name;
  if (*command.operand != '\0') text += std::string(" ") + command.operand;
  return text + " [options]";
}

constexpr std::size_t help_column = 24;  // at which the help of an option begins

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(std::string usage_line) : usage_line_(std::move(usage_line)) {
    column_width(help_column);
    label("Positionals", "Operand");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return broken_lines(option->get_description(), usual_columns - help_column, 0);
  }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "usage: " + usage_line_ + "\n";
  }

 private:
  std::string usage_line_;
};

// Returns all words that the value of the option called `name` may be, or nothing if it may be any.
std::vector<std::string> words_allowed(const std::string& name) {
  for (const TextOption& row : text_options)
    if (name == row.name && row.words != nullptr) return row.words();
  for (const ListOption& row : list_options)
    if (name == row.name && row.words != nullptr) return row.words();
  return {};
}

}  // namespace

std::vector<OptionName> options_of(const Command& command) {
  CLI::App app;
  Options unused;
  app.set_help_flag("-h,--help", "this help");
  add_options(app, command, unused);
  std::vector<OptionName> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!option->get_group().empty())
        options.push_back(
            {"--" + name,
             option->get_items_expected_max() > 0 ? option->get_type_name() : std::string(),
             option->get_description(), words_allowed(name)});
  return options;
}

namespace {

// Calls `set` with the row of `rows` that has this name, and returns whether there is one.
template <typename Row, typename Set>
bool set_in(std::span<const Row> rows, const std::string& name, const Set& set) {
  const auto row = std::ranges::find(rows, name, [](const Row& each) { return each.name; });
  if (row == rows.end()) return false;
  set(*row);
  return true;
}

// Returns the only value of an option. Throws InputError if it has no value or several.
const std::string& one_of(const std::string& name, const std::vector<std::string>& values) {
  if (values.empty()) throw InputError("--" + name + " needs a value");
  if (values.size() > 1) throw InputError("--" + name + " is given twice; give it once");
  return values.front();
}

void refuse_if(const std::string& fault, const std::string& name) {
  if (!fault.empty()) throw InputError("--" + name + ": " + fault);
}

bool set_known_option(const std::string& name, const std::vector<std::string>& values, Options& o) {
  const auto text = [&] { return one_of(name, values); };
  return set_in<FlagOption>(flag_options, name,
                            [&](const FlagOption& row) {
                              if (!values.empty())
                                throw InputError("--" + name + " takes no value");
                              o.*row.value = true;
                            }) ||
         set_in<ListOption>(list_options, name,
                            [&](const ListOption& row) { o.*row.values = values; }) ||
         set_in<TextOption>(text_options, name,
                            [&](const TextOption& row) { o.*row.value = text(); }) ||
         set_in<FileOption>(file_options, name,
                            [&](const FileOption& row) { o.*row.value = text(); }) ||
         set_in<NumberOption>(number_options, name,
                              [&](const NumberOption& row) {
                                refuse_if(row.fault(text()), name);
                                o.*row.value = std::stod(text());
                              }) ||
         set_in<CountOption>(count_options, name, [&](const CountOption& row) {
           refuse_if(fault_of_count(text(), row.most), name);
           o.*row.value = count_of(text(), row.most);
         });
}

}  // namespace

std::vector<std::string> command_words(const Command& command, const Options& options) {
  const Options initial;
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    if (!takes(command, name)) return;
    words.push_back(dashed(name));
    words.push_back(value);
  };
  const auto add_text = [&](const char* name, std::string Options::*value) {
    if (options.*value != initial.*value) add(name, options.*value);
  };
  for (const FlagOption& row : flag_options)
    if (takes(command, row.name) && options.*row.value) words.push_back(dashed(row.name));
  for (const TextOption& row : text_options) add_text(row.name, row.value);
  std::set<std::string_view> said;
  for (const FileOption& row : file_options)
    if (said.insert(row.name).second) add_text(row.name, row.value);
  for (const CountOption& row : count_options)
    if (options.*row.value) add(row.name, std::to_string(*(options.*row.value)));
  for (const ListOption& row : list_options)
    for (const std::string& value : options.*row.values) add(row.name, value);
  for (const NumberOption& row : number_options)
    if (options.*row.value) add(row.name, fmt::format("{}", *(options.*row.value)));
  if (options.port != initial.port) add("port", std::to_string(options.port));
  return words;
}

void set_option(const Command& command, const std::string& name,
                const std::vector<std::string>& values, Options& options) try {
  if (takes(command, name) && set_known_option(name, values, options)) return;
  throw InputError(unknown_option("--" + name, names_in(options_of(command))));
} catch (const InputError& error) {
  throw InputError(std::string(command.name) + ": " + error.what());
}

bool parse_options(const Command& command, const std::vector<std::string>& arguments,
                   Options& options) {
  const std::string summary = broken_lines(command.summary, usual_columns, 0);
  CLI::App app(*command.details == '\0'
                   ? summary
                   : summary + "\n\n" + broken_lines(command.details, usual_columns, 0) + "\n");
  app.formatter(std::make_shared<HelpFormat>(usage(command)));
  app.set_help_flag("-h,--help", "this help");
  app.footer("Example:\n" +
             broken_lines("  " + std::string(example_of(command.name)), usual_columns));
  add_options(app, command, options);
  // CLI11 takes arguments from the end of the vector.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return false;
  } catch (const CLI::ExtrasError&) {
    const std::string unknown = unknown_option(app, arguments);
    throw InputError(std::string(command.name) + ": " +
                     (unknown.empty() ? "takes no operand; usage: " + usage(command) : unknown));
  } catch (const CLI::ArgumentMismatch& error) {
    throw InputError(std::string(command.name) + ": " + mismatch(error.what(), arguments));
  } catch (const CLI::ParseError& error) {
    throw InputError(std::string(command.name) + ": " + error.what());
  }
  // An unset variable of a shell leaves the value of an option empty, which is refused here. Only
  // --prompt may be empty.
  for (const TextOption& option : text_options) {
    const CLI::Option* given =
        takes(command, option.name) ? app.get_option_no_throw(dashed(option.name)) : nullptr;
    if (given != nullptr && given->count() > 0 && (options.*option.value).empty() &&
        option.value != &Options::prompt)
      throw InputError(std::string(command.name) + ": " + dashed(option.name) +
                       " is empty; give it a value, or leave it out");
  }
  return true;
}

}  // namespace meshwright::tools
