#include "tools/interop/megatron/yaml_arguments.h"

#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/megatron/llama_factory.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view arguments_section = "MODEL_ARGS.", variables_section = "ENV_VARS.";

bool has_section(const Settings& settings, std::string_view section) {
  return std::ranges::any_of(settings.all(),
                             [&](const Setting& each) { return each.name.starts_with(section); });
}

// Returns a text in which $NAME and ${NAME} of the variables that --define gives have their values.
std::string defined(std::string text, const std::map<std::string, std::string>& defines) {
  for (const auto& [name, value] : defines)
    for (const std::string& written : {"${" + name + "}", "$" + name})
      for (std::size_t at = 0; (at = text.find(written, at)) != std::string::npos;) {
        const std::size_t end = at + written.size();
        const bool is_longer =
            written.back() != '}' && end < text.size() &&
            (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_');
        if (!is_longer) text.replace(at, written.size(), value);
        at += is_longer ? written.size() : value.size();
      }
  return text;
}

// Adds a setting as an argument. A value of false or null leaves the argument out, as in the
// programs that start such files.
void add_argument(const Setting& setting, std::string name,
                  const std::map<std::string, std::string>& defines, Settings& to) {
  if (setting.value.is_null() || setting.value == false) return;
  std::ranges::replace(name, '_', '-');
  json value = setting.value;
  if (value.is_string()) value = defined(value.get<std::string>(), defines);
  to.add(std::move(name), std::move(value), setting.place);
}

void add_variable(const Setting& setting, std::string_view name, Settings& to) {
  to.add("env." + std::string(name), setting.value, setting.place);
}

// Adds the program, which such recipes do not name, if it trains a BERT or a T5. The WordPiece
// tokenizer is that of these two models, and only T5 has settings such as decoder-seq-length.
void add_program(Settings& arguments) {
  const auto tokenizer = std::ranges::find_if(arguments.all(), [](const Setting& each) {
    return each.name == "tokenizer-type" && each.value.is_string() &&
           each.value.get_ref<const std::string&>().starts_with("BertWordPiece");
  });
  if (tokenizer == arguments.all().end()) return;
  const bool has_encoder = arguments.has("encoder-num-layers") ||
                           arguments.has("decoder-seq-length") || arguments.has("vocab-extra-ids");
  const std::string place = tokenizer->place;
  arguments.add("program", has_encoder ? "pretrain_t5.py" : "pretrain_bert.py", place);
}

Settings recipe_arguments(const Settings& settings,
                          const std::map<std::string, std::string>& defines) {
  Settings arguments("--");
  for (const Setting& each : settings.all()) {
    if (each.name.starts_with(arguments_section)) {
      std::string name = each.name.substr(arguments_section.size());
      name.erase(0, name.find_first_not_of('-'));
      add_argument(each, name, defines, arguments);
    } else if (each.name.starts_with(variables_section)) {
      add_variable(each, std::string_view(each.name).substr(variables_section.size()), arguments);
    } else {
      const std::string name = "recipe." + each.name;
      arguments.add(name, each.value, each.place);
      arguments.show_as(name, each.name);
    }
  }
  add_program(arguments);
  return arguments;
}

// FlagScale's settings of the program and of cluster sizes, with the names that they have when a
// command line gives them.
constexpr std::pair<std::string_view, const char*> of_runner[] = {
    {"experiment.task.entrypoint", "program"},
    {"experiment.runner.nnodes", "torchrun.nnodes"},
    {"experiment.runner.nproc_per_node", "torchrun.nproc-per-node"},
    {"experiment.runner.hostfile", "deepspeed.hostfile"},
};

Settings flagscale_arguments(const Settings& settings,
                             const std::map<std::string, std::string>& defines) {
  Settings arguments("--");
  for (const Setting& each : settings.all()) {
    const bool is_argument = each.name.starts_with("system.") || each.name.starts_with("model.") ||
                             each.name.starts_with("data.");
    const auto runner =
        std::ranges::find_if(of_runner, [&](const auto& row) { return row.first == each.name; });
    const bool is_elsewhere =
        each.value.is_string() &&
        each.value.get_ref<const std::string&>().find("${experiment.") != std::string::npos;
    if (is_elsewhere && is_argument) {
      // A value that refers to `experiment` is in the file that starts the experiment. Such values
      // are folders and seeds, which change no plan.
      arguments.add("recipe." + each.name, each.value, each.place);
      arguments.show_as("recipe." + each.name, each.name);
    } else if (is_argument) {
      add_argument(each, each.name.substr(each.name.rfind('.') + 1), defines, arguments);
    } else if (runner != std::end(of_runner)) {
      if (each.value.is_null()) continue;
      arguments.add(runner->second, each.value, each.place);
      arguments.show_as(runner->second, each.name);
    } else if (each.name.starts_with("experiment.envs.")) {
      add_variable(each, std::string_view(each.name).substr(16), arguments);
    } else if (each.name == "experiment.seed") {
      add_argument(each, "seed", defines, arguments);
    } else {
      arguments.add("recipe." + each.name, each.value, each.place);
      arguments.show_as("recipe." + each.name, each.name);
    }
  }
  if (!arguments.has("program"))
    arguments.note(
        "the file that starts the experiment, and names the program, is not given: a GPT is taken, "
        "as train_gpt.py trains");
  return arguments;
}

// Throws InputError for FlagScale's experiments that do not train, or that train with another
// backend than Megatron.
void refuse_other_tasks(const Settings& settings) {
  for (const Setting& each : settings.all()) {
    if (each.name == "experiment.task.type" && each.value != "train")
      settings.fail(each.name, each.value.dump() +
                                   ": such an experiment of FlagScale trains no model; "
                                   "those of type train are read");
    if (each.name == "experiment.task.backend" && each.value != "megatron")
      settings.fail(each.name, each.value.dump() + ": of FlagScale, megatron is read");
  }
}

}  // namespace

Settings with_arguments_of_yaml(Settings settings, const std::string& file,
                                const std::map<std::string, std::string>& defines) {
  if (has_section(settings, arguments_section)) return recipe_arguments(settings, defines);
  if (is_llama_factory_on_megatron(settings)) return llama_factory_arguments(settings);
  const bool is_experiment = has_section(settings, "experiment.");
  if (is_experiment) refuse_other_tasks(settings);
  if (has_section(settings, "system.") &&
      (settings.has("model.num_layers") || settings.has("model.hidden_size")))
    return flagscale_arguments(settings, defines);
  if (is_experiment && settings.has("experiment.task.type"))
    throw InputError(file +
                     ": is the start of an experiment of FlagScale, and the files that `defaults` "
                     "names do not lie in folders beside it; give that of its `train` to --from");
  return settings;
}

}  // namespace meshwright::interop
