#include "tools/session/files_read.h"

namespace meshwright::session {

std::vector<std::string> files_read(std::vector<std::string> given, const Job& job) {
  std::vector<std::string> files = std::move(given);
  const auto add = [&](const std::vector<std::string>& more) {
    files.insert(files.end(), more.begin(), more.end());
  };
  add({job.file});
  add(job.settings_files);
  if (!job.model_path.empty()) add({job.model_path, job.model_path + "/config.json"});
  if (job.data) {
    add(job.data->files);
    add({job.data->tokenizer});
    if (job.data->evaluation) add(job.data->evaluation->files);
  }
  return files;
}

}  // namespace meshwright::session
