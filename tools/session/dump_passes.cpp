#include "tools/session/dump_passes.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/core/error.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

namespace {

std::string folder_of_level(const std::string& folder, const Training& training) {
  return folder + "/" + compiler_names()[static_cast<std::size_t>(training.compiler)];
}

}  // namespace

std::vector<std::string> dump_files(const std::string& folder, const Training& training) {
  const std::string own = folder_of_level(folder, training);
  std::vector<std::string> files;
  for (const Pass& pass : passes_of(training))
    files.push_back(fmt::format("{}/{:02}-{}.txt", own, files.size() + 1, pass.name));
  return files;
}

std::string programs_file(const std::string& folder, const Training& training) {
  return folder_of_level(folder, training) + "/programs.json";
}

void check_dump(const std::string& where, const std::string& folder, const Training& training,
                std::span<const std::string> inputs) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    throw InputError(where + " " + folder + ": is a file; name a folder");
  std::vector<std::string> files = dump_files(folder, training);
  files.push_back(programs_file(folder, training));
  for (const std::string& file : files) check_writable(where, file, inputs);
}

PassObserver dump_into(const std::string& folder, const Training& training) {
  return [files = dump_files(folder, training), next = std::size_t{0}](
             const Pass&, const Graph& graph, double) mutable {
    write_file(files.at(next++), to_text(graph));
  };
}

std::string debug_folder(const Job& job) {
  if (!job.log.folder.empty()) return job.log.folder + "/compiler";
  const std::string container = "/opt/ml/output/data";
  std::error_code error;
  if (std::filesystem::is_directory(container, error)) return container + "/compiler";
  throw InputError(
      job.file +
      ": /compiler_config/debug: true writes the graph after each pass; say where with "
      "log.folder");
}

}  // namespace meshwright::session
