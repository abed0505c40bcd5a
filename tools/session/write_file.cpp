#include "tools/session/write_file.h"

#include <unistd.h>

#include <filesystem>

#include "models/core/error.h"
#include "models/core/output_file.h"

namespace meshwright::session {

namespace {

OutputPlace checked_place(const std::string& where, const std::string& path) try {
  return output_place(path);
} catch (const InputError& error) {
  throw InputError(where + " " + error.what());
}

}  // namespace

void check_writable(const std::string& where, const std::string& path,
                    std::span<const std::string> inputs) {
  if (path.empty()) return;
  if (checked_place(where, path).kind != OutputPlace::Kind::file) return;
  std::error_code error;
  for (const std::string& input : inputs)
    if (std::filesystem::equivalent(path, input, error))
      throw InputError(where + " " + path + ": is what this command reads; name another file");
}

void check_named(const std::string& where, const std::string& path) {
  if (path.empty() || checked_place(where, path).descriptor <= STDERR_FILENO) return;
  throw InputError(where + " " + path +
                   ": is open in this process, but one of several ranks writes it; name a file, or "
                   "a pipe that mkfifo made");
}

void write_file(const std::string& path, std::string_view content) try {
  OutputFile file(path);
  file.write(content);
  file.finish();
} catch (
    const InputError& error) {  // `path` has changed since check_writable(), so now the run fails
  throw RunError(error.what());
}

}  // namespace meshwright::session
