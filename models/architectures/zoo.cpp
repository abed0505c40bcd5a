#include <algorithm>
#include <filesystem>

#include "models/architectures/captured/captured_model.h"
#include "models/architectures/hub_names.h"
#include "models/architectures/model.h"
#include "models/architectures/onnx/read_onnx.h"
#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::architectures {

namespace {

namespace fs = std::filesystem;

// Returns whether `ref` is a path. Names with one slash, such as "meta-llama/Llama-3.1-8B", are
// those of the Hub.
bool looks_like_a_path(const std::string& ref) {
  const std::size_t slash = ref.find('/');
  return ref.ends_with(".json") || slash == 0 || ref.starts_with("./") || ref.starts_with("../") ||
         (slash != std::string::npos && ref.find('/', slash + 1) != std::string::npos &&
          ref.find("://") == std::string::npos);
}

Model read_any(Fields fields) {
  if (is_captured(fields)) return read_captured(std::move(fields));
  if (fields.has("model_type")) return read_huggingface(std::move(fields));
  if (fields.has("family")) return read_model(std::move(fields));
  fields.fail("",
              "neither a Hugging Face config.json (no 'model_type'), a model of ours (no 'family') "
              "nor a captured one (no 'captured')");
}

Model read_file_named(const fs::path& path) {
  const std::string file = path.string();
  Fields fields(parse_json(without_infinities(read_file(file)), file), file);
  const bool captured = is_captured(fields);
  Model model = read_any(std::move(fields));
  // A model from a config.json is named after the file's folder, even if the path is only
  // `config.json`.
  const std::string folder =
      fs::absolute(path).lexically_normal().parent_path().filename().string();
  model.name = path.filename() == "config.json" && !folder.empty() ? folder : path.stem().string();
  if (captured) model.name = path.stem().stem().string();  // of own.model.json
  return model;
}

}  // namespace

std::string zoo_folder() { return std::string(built_in).append("models/zoo"); }

std::vector<std::string> zoo_names(const std::string& zoo) {
  return json_names(zoo).value_or(std::vector<std::string>());
}

bool is_zoo_name(const std::string& ref, const std::string& zoo) {
  const std::vector<std::string> names = zoo_names(zoo);
  return std::binary_search(names.begin(), names.end(), ref);
}

Model load_model(const std::string& ref, const std::string& folder, const std::string& zoo) {
  if (is_zoo_name(ref, zoo)) return read_file_named(fs::path(zoo) / (ref + ".json"));
  const fs::path path = fs::path(folder) / ref;  // an absolute `ref` replaces the folder
  if (ref.ends_with(".onnx")) return read_onnx(path.string());
  std::error_code error;
  if (const std::string known = zoo_name_of(ref); !known.empty() && !fs::exists(path, error))
    return read_file_named(fs::path(zoo) / (known + ".json"));
  if (!ref.empty() && fs::is_directory(path / "", error))
    return read_file_named((path / "config.json").lexically_normal());
  if (looks_like_a_path(ref) || fs::exists(path, error)) return read_file_named(path);
  throw InputError(unknown_model(ref));
}

}  // namespace meshwright::architectures
