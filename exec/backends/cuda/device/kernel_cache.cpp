#include "exec/backends/cuda/device/kernel_cache.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/core/sha256.h"
#include "models/core/error.h"
#include "models/core/output_file.h"

namespace meshwright::exec::cuda {

namespace fs = std::filesystem;

namespace {

std::string sha256_of(const std::string& content) {
  Sha256 sum;
  sum.add(content.data(), content.size());
  return sum.hex();
}

// A file has this line, the SHA-256 of the kernel in hexadecimal, a newline, and the kernel.
constexpr std::string_view heading = "meshwright kernel 1\n";
constexpr std::size_t digits = 64;

// Returns the kernel in a file's content, or nothing if the content is damaged.
std::optional<std::string> kernel_in(const std::string& file) {
  const std::size_t begin = heading.size() + digits + 1;
  if (file.size() < begin || !file.starts_with(heading)) return std::nullopt;
  std::string kernel = file.substr(begin);
  if (file.substr(heading.size(), digits) != sha256_of(kernel)) return std::nullopt;
  return kernel;
}

struct Found {
  bool is_there = false;
  std::optional<std::string> kernel;  // none if no intact file could be read
};

Found kernel_at(const std::string& path) {
  // The status is asked for only once, because other processes may remove or write the file between
  // two queries. A file that is removed later fails to open.
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::is_regular_file(status)) return {fs::exists(status), {}};
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  std::ostringstream content;
  content << in.rdbuf();
  return {true, kernel_in(content.str())};
}

bool is_ours(const fs::path& path) {
  return path.extension() == ".cubin" || path.extension() == ".part";
}

}  // namespace

std::string KernelKey::hash() const {
  return sha256_of(architecture + '\n' + compiler + '\n' + source);
}

KernelCache::KernelCache(std::string folder, std::int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {
  std::error_code error;
  if (folder_.empty())
    throw InputError("compiled kernels have no folder: set XDG_CACHE_HOME or HOME");
  fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_, error))
    throw InputError(folder_ + ": compiled kernels cannot be kept here: " +
                     (error ? error.message() : "not a folder"));
}

std::string KernelCache::path(const KernelKey& key) const {
  return folder_ + '/' + key.hash() + ".cubin";
}

std::string KernelCache::get(const KernelKey& key, const std::function<std::string()>& make) {
  const std::string file = path(key);
  std::error_code ignored;
  Found found = kernel_at(file);
  if (found.kernel) {
    ++counts_.hits;
    // The file's modification time is the time of its last use.
    fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
    return *std::move(found.kernel);
  }
  const bool damaged = found.is_there;  // when it was read; another process may replace it
  counts_.damaged += damaged ? 1 : 0;
  ++counts_.misses;
  std::string kernel = make();
  if (!store(file, std::string(heading) + sha256_of(kernel) + '\n' + kernel, damaged)) {
    ++counts_.not_stored;
    return kernel;
  }
  // Another process may have written the file first, in which case its content is used.
  return kernel_at(file).kernel.value_or(kernel);
}

// Writes the file, then removes old files. If `replaces` is set, it replaces a damaged file.
// Otherwise, a file that another process has written stays, if the file system has hard links.
// Returns false if the file could not be written.
bool KernelCache::store(const std::string& path, const std::string& content, bool replaces) const {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) return false;  // the folder was removed
  const PartName part(folder_);
  try {
    OutputFile out(part.path());
    out.write(content);
    out.finish();
  } catch (const std::exception&) {
    return false;
  }
  if (!replaces) fs::create_hard_link(part.path(), path, error);
  // Renames the file if it replaces one, or if the link failed for another reason than that the
  // file exists, for example because the file system has no links.
  if (replaces || (error && error != std::errc::file_exists)) fs::rename(part.path(), path, error);
  const bool stored = !error || error == std::errc::file_exists;
  if (stored) remove_oldest(path);
  return stored;
}

// Removes the least recently used files, except `except`, until all files together hold at most
// most_bytes_ bytes. Other processes may do the same at once, so a file that is already gone is not
// an error. Unfinished files that a killed process left behind also become old and are removed.
void KernelCache::remove_oldest(const std::string& except) const {
  struct Entry {
    fs::file_time_type used;
    std::string path;
    std::int64_t bytes;
  };
  std::vector<Entry> entries;
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const fs::directory_entry& each = *at;
    if (!is_ours(each.path())) continue;
    std::error_code gone;
    const auto used = each.last_write_time(gone);
    const auto size = gone ? 0 : each.file_size(gone);
    if (gone) continue;
    entries.push_back({used, each.path().string(), static_cast<std::int64_t>(size)});
    bytes += entries.back().bytes;
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  for (const Entry& entry : entries) {
    if (bytes <= most_bytes_) return;
    if (entry.path == except) continue;
    fs::remove(entry.path, error);
    if (!error) bytes -= entry.bytes;
  }
}

}  // namespace meshwright::exec::cuda
