#include "exec/checkpoint/common_folder.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include "exec/checkpoint/file.h"
#include "exec/checkpoint/resume.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

namespace fs = std::filesystem;

// Returns the path of the file by which a rank shows that it can write to the folder. The file is
// named like a checkpoint that is being written, so that the next run removes it if this one is
// killed. A random number of the run is in the name, so that no file system answers from a cache.
std::string mark_of(const std::string& folder, std::int64_t run, int rank) {
  return fmt::format("{}/step-mark-{:x}-{}.part", folder, run, rank);
}

std::int64_t name_of_run(Communicator& all) {
  std::int64_t run = all.rank() == 0 ? std::random_device()() : 0;
  all.broadcast(&run, sizeof run, 0);
  return run;
}

std::string leave_mark(const std::string& folder, const std::string& mark) try {
  make_folder(folder);
  File::create(mark);
  return "";
} catch (const RunError& error) {
  return std::string(error.what()) + "; name a folder that every host can write to";
}

std::string unseen_marks(const std::string& folder, std::int64_t run, int ranks) {
  std::vector<std::string> unseen;
  std::error_code error;
  for (int rank = 0; rank < ranks; ++rank)
    if (!fs::exists(mark_of(folder, run, rank), error)) unseen.push_back(std::to_string(rank));
  if (unseen.empty()) return "";
  return fmt::format(
      "{} is not the same folder on all hosts: rank 0 does not see what rank{} {} write{} there; "
      "name a folder that all hosts share, as over NFS",
      folder, unseen.size() == 1 ? "" : "s", list_of(unseen, "and"), unseen.size() == 1 ? "s" : "");
}

}  // namespace

void check_common_folder(const std::string& folder, Communicator& all) {
  const std::int64_t run = name_of_run(all);
  const std::string mark = mark_of(folder, run, all.rank());
  std::string complaint = first_complaint(leave_mark(folder, mark), all);
  if (complaint.empty())
    complaint = first_complaint(all.rank() == 0 ? unseen_marks(folder, run, all.size()) : "", all);
  std::error_code ignored;
  fs::remove(mark, ignored);
  if (!complaint.empty()) throw InputError(complaint);
}

}  // namespace meshwright::exec
