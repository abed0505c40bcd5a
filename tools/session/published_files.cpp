#include "tools/session/published_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/job/identity.h"

namespace meshwright::session {

namespace fs = std::filesystem;

namespace {

constexpr const char* config_file = "config.json";

// Has the names under which transformers saves and looks for these files.
constexpr const char* kept_files[] = {"generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "merges.txt",
                                      "vocab.txt",
                                      "tokenizer.model",
                                      "spiece.model",
                                      "sentencepiece.bpe.model",
                                      "chat_template.jinja",
                                      "chat_template.json",
                                      "preprocessor_config.json"};

// Copies a file if it is there, and returns whether it was copied. Throws RunError if copying
// fails.
bool copy_if_there(const fs::path& from, const fs::path& to, fs::copy_options how) {
  std::error_code error;
  if (!fs::is_regular_file(from, error)) return false;
  const bool copied = fs::copy_file(from, to, how, error);
  if (error) throw RunError(to.string() + ": cannot be written: " + error.message());
  return copied;
}

}  // namespace

std::vector<std::string> published_folders(const Job& job, const std::string& given) {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& folder) {
    if (!folder.empty() && fs::is_directory(folder)) folders.push_back(folder.string());
  };
  const std::string weights = !given.empty() ? given : job.checkpoint ? job.checkpoint->folder : "";
  if (!weights.empty()) {
    const fs::path place = fs::path(weights).lexically_normal();
    const fs::path above =
        place.has_filename() ? place.parent_path() : place.parent_path().parent_path();
    add(fs::is_directory(place) ? place : above);
    add(place / published_folder);
    if (fs::exists(place / "manifest.json")) add(above / published_folder);
  }
  if (!job.model_path.empty()) {
    const fs::path model = job.model_path;
    add(fs::is_directory(model) ? model : model.parent_path());
  }
  return folders;
}

void keep_published(const std::string& from, const std::string& run_folder) {
  const fs::path source = fs::is_directory(from) ? fs::path(from) : fs::path(from).parent_path();
  const fs::path to = fs::path(run_folder) / published_folder;
  const bool any = [&] {
    for (const char* name : kept_files)
      if (fs::is_regular_file(source / name)) return true;
    return fs::is_regular_file(source / config_file);
  }();
  if (!any) return;
  std::error_code error;
  fs::create_directories(to, error);
  if (error) throw RunError(to.string() + ": cannot be made: " + error.message());
  copy_if_there(source / config_file, to / config_file, fs::copy_options::overwrite_existing);
  for (const char* name : kept_files)
    copy_if_there(source / name, to / name, fs::copy_options::overwrite_existing);
}

std::string source_of_published(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    if (fs::is_regular_file(fs::path(folder) / config_file)) return folder;
  return "";
}

json with_published_keys(json config, const std::string& folder, const Job& job,
                         const Watch& watch) {
  const std::string file = (fs::path(folder) / config_file).string();
  const Fields fields = read_json_file(file);
  Job published = job;
  try {
    published.model = read_huggingface(fields);
  } catch (const InputError& error) {
    watch.warn(std::string(error.what()) + "; its keys are not taken");
    return config;
  }
  if (identity_of_weights(published) != identity_of_weights(job)) {
    watch.warn(file + ": describes another model than the job; its keys are not taken");
    return config;
  }
  for (const auto& [key, value] : fields.raw().items())
    if (!config.contains(key) && key != "quantization_config") config[key] = value;
  return config;
}

std::vector<std::string> copy_published(const std::string& folder, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* name : kept_files)
    if (copy_if_there(fs::path(folder) / name, fs::path(to) / name,
                      fs::copy_options::skip_existing))
      copied.emplace_back(name);
  return copied;
}

}  // namespace meshwright::session
