#include "tools/serve/job_files.h"

#include <filesystem>

#include "models/architectures/hub_names.h"
#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::tools {

namespace {

struct FileKey {
  const char* pointer;
  const char* instead;
  bool has_words = false;  // a word without .json at its end is no file
};

// Has the keys of a job whose value is a file's name if it is a string. If `has_words` is set, only
// a string that ends in .json is one.
constexpr FileKey file_keys[] = {
    {"/cluster/topology", "give the switches' sizes themselves"},
    {"/parallelism/partition", "give the stages themselves", true},
    {"/distribution/smdistributed/modelparallel/parameters", "give its keys themselves"},
    {"/distribution/smdistributed/modelparallel/parameters/partition_file",
     "give the stages themselves as parallelism.partition"}};

// Returns whether `model` is a path. Other names are looked up in the zoo and next to the job file,
// where the server keeps no other files.
bool is_path(const std::string& model) {
  return !is_zoo_name(model) && (model.find('/') != std::string::npos || model.ends_with(".json") ||
                                 model.ends_with(".onnx") || model == "." || model == "..");
}

// Returns whether `model` is the name on the Hub, OWNER/NAME, of a model of the zoo. The server
// replaces it by the zoo's name, so that it is never looked up as a path.
bool is_of_hub(const std::string& model) {
  const std::size_t slash = model.find('/');
  return slash != std::string::npos && slash > 0 && model.find('/', slash + 1) == model.npos &&
         model.front() != '.' && !zoo_name_of(model).empty();
}

[[noreturn]] void refuse(const std::string& name, const std::string& pointer,
                         const std::string& what, const std::string& instead) {
  throw InputError(name + ": " + pointer + ": '" + what +
                   "' is a file, and a job of the server names none; " + instead);
}

}  // namespace

void check_names_no_file(const json& job, const std::string& name) {
  if (!job.is_object()) return;  // the reader of jobs reports it
  const auto model = job.find("model");
  if (model != job.end() && model->is_string() && is_path(model->get<std::string>()))
    refuse(name, "/model", *model,
           "give a name that `list models` prints, or the content itself of the config.json or "
           "own.model.json, or start the server with --models FOLDER, whose JSON files it may "
           "name");
  for (const FileKey& key : file_keys) {
    const json::json_pointer pointer(key.pointer);
    if (!job.contains(pointer) || !job[pointer].is_string()) continue;
    const std::string given = job[pointer];
    if (!key.has_words || given.ends_with(".json")) refuse(name, key.pointer, given, key.instead);
  }
}

void check_models_folder(const std::string& models) {
  std::error_code error;
  if (!models.empty() && !std::filesystem::is_directory(models, error))
    throw InputError("--models " + models + ": is no folder");
}

json with_model_of(json job, const std::string& models) {
  if (!job.is_object() || !job.contains("model") || !job["model"].is_string()) return job;
  const std::string name = job["model"];
  if (is_of_hub(name)) job["model"] = zoo_name_of(name);
  if (models.empty()) return job;
  const bool is_plain = name.ends_with(".json") && name.find('/') == std::string::npos;
  const std::filesystem::path path = std::filesystem::path(models) / name;
  std::error_code error;
  if (is_plain && std::filesystem::is_regular_file(path, error))
    job["model"] = parse_json(read_file(path.string()), name);
  return job;
}

}  // namespace meshwright::tools
