#include "tools/job/dump_passes.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/core/error.h"
#include "tools/write_file.h"

namespace meshwright {

std::vector<std::string> dump_files(const std::string& folder, const Training& training) {
  const std::string& level = compiler_names()[static_cast<std::size_t>(training.compiler)];
  std::vector<std::string> files;
  for (const Pass& pass : passes_of(training))
    files.push_back(fmt::format("{}/{}/{:02}-{}.txt", folder, level, files.size() + 1, pass.name));
  return files;
}

void check_dump(const std::string& where, const std::string& folder, const Training& training,
                std::span<const std::string> inputs) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    throw InputError(where + " " + folder + ": is a file; name a folder");
  for (const std::string& file : dump_files(folder, training)) check_writable(where, file, inputs);
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

}  // namespace meshwright
