#include "exec/checkpoint/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "exec/checkpoint/file.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", part = ".part";

// Returns the identity of the run that wrote the checkpoint in `path`, or an empty string if its
// manifest is missing or damaged. Throws RunError if the manifest cannot be read.
std::string run_of(const std::string& path) {
  try {
    return read_manifest(path).run;
  } catch (const InputError&) {
    return "";
  }
}

// Makes the final name `place` of a checkpoint of `run` free, by renaming the folder that has it. A
// checkpoint of another run is kept under a name of its own. If the folder is damaged, or this run
// wrote it before it resumed from an older checkpoint, the caller has to remove it: returns its new
// path. Returns an empty string if nothing is to be removed.
std::string make_room(const std::string& place, const std::string& run) {
  if (!path_exists(place)) return "";
  const std::string other = run_of(place);
  const bool keep = !other.empty() && other != run;
  const std::string aside = place + (keep ? ".of-" + other : ".replaced" + std::string(part));
  rename_path(place, aside);
  return keep ? "" : aside;
}

// Removes checkpoints of the same run beyond the newest `keep`, except the base and the best one of
// `newest`. Returns the first error, or an empty string.
std::string remove_older(const std::string& folder, const Manifest& newest, int keep) {
  int kept = 0;
  std::string complaint;
  for (const StepFolder& each : step_folders(folder)) try {
      if (each.step > newest.step || run_of(each.path) != newest.run) continue;
      if (++kept <= keep || each.path == folder + "/" + newest.base ||
          each.step == newest.best_step)
        continue;
      // The folder is renamed first, because a half removed checkpoint must not look like a
      // complete one.
      const std::string going = each.path + std::string(part);
      rename_path(each.path, going);
      remove_folder(going);
    } catch (const RunError& error) {
      if (complaint.empty()) complaint = error.what();
    }
  return complaint;
}

}  // namespace

std::string step_folder(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/{}{:08}", folder, prefix, step);
}

std::string part_folder(const std::string& folder, std::int64_t step) {
  return step_folder(folder, step) + std::string(part);
}

std::vector<StepFolder> step_folders(const std::string& folder) {
  std::vector<StepFolder> found;
  if (!path_exists(folder)) return found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::int64_t step = 0;
    const char* last = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), last, step);
    if (parsed.ec == std::errc() && parsed.ptr == last && step >= 0)
      found.push_back({step, it->path().string()});
  }
  if (error) throw RunError(folder + ": cannot be read: " + error.message());
  std::ranges::sort(found,
                    [](const StepFolder& a, const StepFolder& b) { return a.step > b.step; });
  return found;
}

std::string commit(const std::string& folder, const Manifest& manifest, int keep) {
  const std::string writing = part_folder(folder, manifest.step);
  const std::string place = step_folder(folder, manifest.step);
  {
    const std::string text = encode(manifest);
    const File file = File::create(writing + "/manifest.json");
    file.write(0, text.data(), static_cast<std::int64_t>(text.size()));
    file.sync();
  }
  sync_folder(writing);
  const std::string replaced = make_room(place, manifest.run);
  rename_path(writing, place);
  sync_folder(folder);
  try {
    if (!replaced.empty()) remove_folder(replaced);
    return remove_older(folder, manifest, keep);
  } catch (const RunError& error) {
    return error.what();
  }
}

bool began_with_imported_weights(const std::string& folder) {
  if (path_exists(folder + "/" + std::string(import_mark))) return true;
  return std::ranges::any_of(step_folders(folder), [](const StepFolder& each) {
    if (each.step == 0) return true;
    try {
      const Manifest manifest = read_manifest(each.path);
      return manifest.imported || !manifest.base.empty();
    } catch (const InputError&) {
      return false;  // it is damaged
    }
  });
}

void mark_as_imported(const std::string& folder) {
  make_folder(folder);
  File::create(folder + "/" + std::string(import_mark)).sync();
  sync_folder(folder);
}

void remove_part_folders(const std::string& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(part)) left.push_back(it->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  const auto refuse = [&](const std::string& why) {
    throw InputError(folder + ": no checkpoint can be written there: " + why +
                     "; name another folder");
  };
  try {
    make_folder(folder);
  } catch (const RunError& error) {
    refuse(error.what());
  }
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse(path + ": " + std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    const std::string own = std::to_string(getpid()) + "\n";
    // The process number only serves the message to another run. The lock works without it.
    [[maybe_unused]] const bool said =
        ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, own.data(), own.size(), 0) > 0;
    return;
  }
  if (errno != EWOULDBLOCK) {
    const std::string why = std::strerror(errno);
    close(descriptor_);
    refuse(path + ": cannot be locked: " + why);
  }
  char text[16] = {};
  const ssize_t count = pread(descriptor_, text, sizeof text - 1, 0);
  close(descriptor_);
  const std::string process(text, text + std::max<ssize_t>(count, 0));
  throw InputError(
      fmt::format("{}: another run (process {}) writes its checkpoints there; wait for "
                  "it, or name another folder",
                  folder, process.substr(0, process.find('\n'))));
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace meshwright::exec
