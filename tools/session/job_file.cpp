#include "tools/session/job_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/session/json_text.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

namespace {

void make_absolute(std::string& path) {
  if (!path.empty()) path = std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

nlohmann::json settled_job(Job job, const Plan& plan, const std::string& machine, int count,
                           const std::string& folder) {
  job.folder = folder;
  make_absolute(job.model_path);
  if (job.data) {
    for (std::string& file : job.data->files) make_absolute(file);
    make_absolute(job.data->tokenizer);
    if (job.data->evaluation)
      for (std::string& file : job.data->evaluation->files) make_absolute(file);
  }
  if (job.checkpoint) make_absolute(job.checkpoint->folder);
  for (std::string* file : {&job.log.json, &job.log.tensorboard, &job.log.folder})
    make_absolute(*file);
  return to_json(job, plan, machine, count);
}

void write_job_file(Job job, const Plan& plan, const std::string& machine, int count,
                    const std::string& path) {
  const auto folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  write_file(path, json_text(settled_job(std::move(job), plan, machine, count, folder.string())));
}

}  // namespace meshwright::session
