// Reads the files that import is given, and the files that their settings name, as far as
// path_beside() finds them.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/import.h"
#include "tools/interop/megatron/yaml_arguments.h"
#include "tools/interop/python/recipes.h"
#include "tools/interop/recognize.h"

namespace meshwright::interop {

namespace {

namespace fs = std::filesystem;

// A setting that names another file of settings.
struct NamesFile {
  std::string_view setting;
  std::string_view kind;  // the ending of its name, "hosts" for a list of hosts, or empty for any
  bool is_needed;         // without the file, degrees or batches would be lost
};
constexpr NamesFile names_file[] = {
    {"job.config_file", ".toml", true},
    {"deepspeed_config", ".json", true},
    {"deepspeed", ".json", true},
    {"accelerate.config-file", ".yaml", true},
    {"deepspeed_config.deepspeed_config_file", ".json", false},
    {"deepspeed.hostfile", "hosts", false},
    {"mpirun.hostfile", "hosts", false},
    {"program.file", "", false},
    {"yaml-cfg", ".yaml", true},
    {"config-name", ".yaml", false},
};

std::string ending_of(const std::string& file) { return fs::path(file).extension().string(); }

bool is_script(const std::string& ending) {
  for (const char* each :
       {".sh", ".txt", ".sbatch", ".slurm", ".bash", ".args", ".job", ".pbs", ".lsf", ".qsub"})
    if (ending == each) return true;
  return false;
}

// Holds the settings of one file. `rank` orders files: a command line comes before the other files,
// because its arguments overwrite theirs.
struct FilePart {
  std::string file;
  Settings settings;
  int rank = 1;
};

class FileReader {
 public:
  FileReader(const std::vector<std::string>& files,
             const std::map<std::string, std::string>& defines)
      : files_(files), defines_(defines) {}

  ReadFiles read(std::optional<Framework> format) {
    for (const std::string& file : files_) take(file);
    if (parts_.empty())
      throw InputError("import: no file holds settings; give one beside the model's config.json");
    read_.first_file = parts_.front().file;
    read_.name = fs::path(read_.first_file).stem().string();
    follow();
    std::stable_sort(parts_.begin(), parts_.end(), [](const FilePart& one, const FilePart& other) {
      return one.rank < other.rank;
    });
    merge();
    read_.framework = format ? *format : recognize(read_.first_file, read_.settings);
    return std::move(read_);
  }

 private:
  void take(const std::string& file) {
    const std::string ending = ending_of(file);
    const std::string text =
        ending == ".json" ? without_infinities(read_file(file)) : read_file(file);
    if (is_script(ending) || (text.starts_with("#!") && text.find("sh") < text.find('\n')))
      return take_script(file, text);
    Settings settings = nested(file, ending, text);
    if (ending == ".json" && settings.has("model_type")) {
      read_.model_config = parse_json(text, file);
      return;
    }
    if (settings.all().empty()) throw InputError(file + ": holds no settings");
    parts_.push_back({file, std::move(settings), 1});
  }

  Settings nested(const std::string& file, const std::string& ending,
                  const std::string& text) const {
    if (ending == ".py")
      return has_recipes(text) ? read_recipe(text, file, defines_)
                               : read_python(text, file, defines_);
    if (ending == ".ipynb") return read_notebook(text, file, defines_);
    if (ending == ".yaml" || ending == ".yml") {
      Settings settings = read_yaml(text, file);
      add_defaults(file, settings);
      return with_arguments_of_yaml(with_references_resolved(settings), file, defines_);
    }
    if (ending == ".toml") return read_toml(text, file);
    if (ending == ".json") return read_json(text, file, defines_);
    throw InputError(file + ": what ends with '" + ending +
                     "' is not read; .sh, .txt, .sbatch (arguments), .yaml, .toml, .json and, of "
                     "SageMaker, .py and .ipynb, and .py with recipes of Megatron-Bridge and NeMo "
                     "are");
  }

  // Adds the file that an experiment of FlagScale takes from the folder beside it: with `defaults:
  // [train: 8b]` it is train/8b.yaml. Settings of the experiment itself take precedence.
  static void add_defaults(const std::string& file, Settings& settings) {
    const auto found = std::ranges::find_if(
        settings.all(), [](const Setting& each) { return each.name == "defaults"; });
    if (found == settings.all().end() || !found->value.is_array() ||
        !settings.has("experiment.task.type"))
      return;
    const json entries = found->value;
    for (const json& entry : entries) {
      if (!entry.is_object() || !entry.contains("train") || !entry["train"].is_string()) continue;
      const fs::path part =
          fs::path(file).parent_path() / "train" / (entry["train"].get<std::string>() + ".yaml");
      std::error_code ignored;
      if (!fs::is_regular_file(part, ignored)) continue;
      const Settings more = read_yaml(read_file(part.string()), part.string());
      for (const Setting& each : more.all())
        if (!settings.has(each.name)) settings.add(each.name, each.value, each.place);
    }
  }

  void take_script(const std::string& file, const std::string& text) {
    const ShellSources sources{
        defines_, [&](const std::string& path) { return text_beside(file, path, true); }};
    ReadScript script = read_script(text, file, sources);
    if (script.settings.all().empty()) {
      std::string missing;
      for (const std::string& each : script.missing)
        missing += (missing.empty() ? "" : ", ") + each;
      throw InputError(file + ": holds no settings" +
                       (missing.empty()
                            ? "; no command was found that starts a Python program with arguments"
                            : "; it starts " + missing + ": give that file to --from too"));
    }
    for (const auto& [name, content] : script.written)
      written_[fs::path(name).filename().string()] = content;
    parts_.push_back({file, std::move(script.settings), 0});
  }

  // Returns a path without a prefix that stands for the working folder, such as $PWD/.
  static std::string without_working_folder(std::string name) {
    for (const std::string_view here : {"`pwd`/", "$(pwd)/", "$PWD/", "${PWD}/"})
      if (name.starts_with(here)) return name.substr(here.size());
    return name;
  }

  // Returns the path of a file that `from` names: a given file of the same name, or one in the
  // folder of `from`. A relative path with folders may also begin in a folder up to eight levels
  // above `from`, because examples are started in the root of their repository. Returns nothing if
  // there is no such file, or if the name is empty or holds a variable or a wildcard.
  std::optional<std::string> path_beside(const std::string& from, std::string named) const {
    named = without_working_folder(std::move(named));
    if (named.empty() || named.find_first_of("$`*?\n") != std::string::npos) return std::nullopt;
    const fs::path path(named);
    for (const std::string& given : files_)
      if (fs::path(given).filename() == path.filename()) return given;
    const fs::path folder = fs::path(from).parent_path();
    std::error_code ignored;
    const bool is_below =
        path.is_relative() &&
        std::ranges::none_of(path, [](const fs::path& each) { return each == ".."; });
    if (is_below && fs::is_regular_file(folder / path, ignored))
      return (folder / path).lexically_normal().string();
    if (fs::is_regular_file(folder / path.filename(), ignored))
      return (folder / path.filename()).string();
    if (!is_below || !path.has_parent_path()) return std::nullopt;
    constexpr int most_above = 8;
    fs::path above = fs::absolute(folder, ignored).lexically_normal();
    for (int i = 0; i < most_above && above.has_relative_path(); ++i) {
      above = above.parent_path();
      if (fs::is_regular_file(above / path, ignored)) return (above / path).string();
    }
    return std::nullopt;
  }

  std::optional<std::string> text_beside(const std::string& from, const std::string& named,
                                         bool is_script_file) const {
    const auto path = path_beside(from, named);
    if (!path || (is_script_file && fs::path(*path) == fs::path(from))) return std::nullopt;
    return read_file(*path);
  }

  // Reads the files that settings name, and those that these name, until there are 20 or more.
  void follow() {
    for (std::size_t i = 0; i < parts_.size() && parts_.size() < 20; ++i)
      for (const NamesFile& row : names_file) {
        const auto& all = parts_[i].settings.all();
        const auto found = std::ranges::find_if(
            all, [&](const Setting& each) { return same_name(each.name, row.setting); });
        if (found == all.end() || !found->value.is_string()) continue;
        const Setting setting = *found;
        follow(i, setting, row);
      }
  }

  void follow(std::size_t from, const Setting& setting, const NamesFile& row) {
    std::string named = setting.value;
    if (row.setting == "config-name") {  // Hydra adds the ending itself
      if (!named.ends_with(".yaml")) named += ".yaml";
      for (const Setting& each : parts_[from].settings.all())
        if (same_name(each.name, "config-path") && each.value.is_string())
          named = each.value.get<std::string>() + "/" + named;
    }
    const std::string base = fs::path(named).filename().string();
    const auto path = path_beside(parts_[from].file, named);
    if (path && std::ranges::find(files_, *path) != files_.end()) return;  // is read anyway
    if (const auto made = written_.find(base); made != written_.end())
      return add_followed(base, made->second, row);
    if (path) return add_followed(*path, read_file(*path), row);
    const bool is_given = std::ranges::any_of(files_, [&](const std::string& each) {
      return !row.kind.empty() &&
             (ending_of(each) == row.kind || (row.kind == ".yaml" && ending_of(each) == ".yml"));
    });
    if (is_given || !row.is_needed) return;
    if (row.setting == "deepspeed_config" && parts_[from].settings.has("zero-stage")) {
      parts_[from].settings.note(parts_[from].settings.where(setting) + named +
                                 " is not given; --zero-stage says the stage");
      return;
    }
    const std::string variable = shell_variable_in(named);
    missing_.push_back(parts_[from].settings.where(setting) + named +
                       (variable.empty() ? "" : " (--define " + variable + "=FILE says it)"));
  }

  void add_followed(const std::string& file, const std::string& text, const NamesFile& row) {
    if (row.kind == "hosts") {
      parts_.push_back({file, hosts_in(file, text), 1});
      return;
    }
    std::string ending = ending_of(file);
    if (ending != ".json" && ending != ".yaml" && ending != ".yml" && ending != ".toml")
      ending = row.kind;
    if (ending.empty()) return;
    Settings settings = nested(file, ending, text);
    if (ending == ".json" && settings.has("model_type"))
      read_.model_config = parse_json(text, file);
    else
      parts_.push_back({file, std::move(settings), 1});
  }

  // Reads a list of hosts, a line each: `name slots=8`, `name:8` or `name`. If lines give different
  // slots, the last one counts.
  static Settings hosts_in(const std::string& file, const std::string& text) {
    std::set<std::string> hosts;
    std::string slots;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      std::string name, rest;
      if (!(words >> name)) continue;
      words >> rest;
      hosts.insert(name.substr(0, name.find(':')));
      if (rest.starts_with("slots="))
        slots = rest.substr(6);
      else if (name.find(':') != std::string::npos)
        slots = name.substr(name.find(':') + 1);
    }
    Settings settings("--");
    if (hosts.empty()) return settings;
    settings.add("hosts.count", std::to_string(hosts.size()), file + ":1");
    settings.show_as("hosts.count", "hosts of the host file");
    if (!slots.empty()) settings.add("hosts.slots", slots, file + ":1");
    if (!slots.empty()) settings.show_as("hosts.slots", "slots of the host file");
    return settings;
  }

  // Returns whether a setting is still missing, or is "auto", which in a file of DeepSpeed leaves
  // it to another file.
  static bool is_open(const Settings& settings, const std::string& name) {
    return std::ranges::none_of(settings.all(), [&](const Setting& each) {
      return same_name(each.name, name) && each.value != "auto";
    });
  }

  void merge() {
    if (!missing_.empty()) {
      std::string all;
      for (const std::string& each : missing_) all += (all.empty() ? "" : ", ") + each;
      throw InputError(all + " does not lie beside it; give that file to --from too");
    }
    const bool has_deepspeed = std::ranges::any_of(parts_, [](const FilePart& part) {
      return part.settings.has("zero_optimization.stage") ||
             part.settings.has("train_micro_batch_size_per_gpu");
    });
    drop_batches_of_script();
    for (FilePart& part : parts_) {
      const bool is_accelerate =
          part.settings.has("compute_environment") || part.settings.has("distributed_type");
      if (is_accelerate && has_deepspeed) part.settings = as_launcher(part.settings);
      if (&part == &parts_.front()) {
        read_.settings = std::move(part.settings);
        continue;
      }
      if (part.settings.has_variables()) read_.settings.allow_variables();
      for (const Setting& each : part.settings.all()) {
        if (!is_open(read_.settings, each.name)) continue;
        const std::string shown = part.settings.spelled(each.name);
        if (read_.settings.spelled(each.name) != shown) read_.settings.show_as(each.name, shown);
        read_.settings.add(each.name, each.value, each.place);
      }
      for (const std::string& note : part.settings.notes()) read_.settings.note(note);
    }
  }

  // Drops the batches that a script of one's own has as arguments where DeepSpeed's file, which
  // decides, has them too. The Trainer's arguments are not such: DeepSpeed's file takes them.
  void drop_batches_of_script() {
    const bool has_file = std::ranges::any_of(parts_, [](const FilePart& part) {
      return part.rank > 0 && !is_open(part.settings, "train_batch_size");
    });
    for (FilePart& part : parts_) {
      if (!has_file || part.rank > 0 || part.settings.has("micro-batch-size") ||
          part.settings.has("per_device_train_batch_size"))
        continue;
      for (const char* name : {"train_batch_size", "gradient_accumulation_steps"})
        if (const auto found = std::ranges::find_if(
                part.settings.all(),
                [&](const Setting& each) { return same_name(each.name, name); });
            found != part.settings.all().end()) {
          part.settings.note(part.settings.where(*found) +
                             "an argument of the script itself; the batch of DeepSpeed's file "
                             "counts");
          part.settings.remove(name);
        }
    }
  }

  // Returns accelerate's settings as options of what starts the program, because a file of
  // DeepSpeed that they name decides everything else.
  static Settings as_launcher(const Settings& settings) {
    Settings renamed("--");
    for (const Setting& each : settings.all()) {
      std::string name = each.name;
      std::ranges::replace(name, '_', '-');
      renamed.add("accelerate." + name, each.value, each.place);
      renamed.show_as("accelerate." + name, each.name);
    }
    return renamed;
  }

  const std::vector<std::string>& files_;
  const std::map<std::string, std::string>& defines_;
  ReadFiles read_;
  std::vector<FilePart> parts_;
  std::map<std::string, std::string> written_;  // by name without folders
  std::vector<std::string> missing_;
};

}  // namespace

ReadFiles read_settings(const std::vector<std::string>& files, std::optional<Framework> format,
                        const std::map<std::string, std::string>& defines) {
  return FileReader(files, defines).read(format);
}

}  // namespace meshwright::interop
