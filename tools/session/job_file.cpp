#include "tools/session/job_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/session/json_text.h"
#include "tools/session/write_file.h"

namespace meshwright::session {

nlohmann::json settled_job(Job job, const Plan& plan, const std::string& machine, int count,
                           const std::string& folder) {
  job.folder = folder;
  return to_json(job, plan, machine, count);
}

void write_job_file(Job job, const Plan& plan, const std::string& machine, int count,
                    const std::string& path) {
  const auto folder = std::filesystem::absolute(path).lexically_normal().parent_path();
  write_file(path, json_text(settled_job(std::move(job), plan, machine, count, folder.string())));
}

}  // namespace meshwright::session
