#include "tools/serve/answer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "exec/launch/exit_codes.h"
#include "models/core/error.h"
#include "tools/serve/child.h"
#include "tools/serve/limits.h"

namespace meshwright {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class JobFolder {
 public:
  explicit JobFolder(const JobFiles& files) {
    std::string pattern = (fs::temp_directory_path() / "meshwright-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw RunError("no folder can be made in " + fs::temp_directory_path().string());
    path_ = pattern;
    for (const auto& [name, content] : files) {
      std::ofstream file(path_ + "/" + name, std::ios::binary);
      if (!(file << content).flush()) throw RunError("no file can be written in " + path_);
    }
  }
  ~JobFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string text_of(const std::string& name) const {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

std::string line_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Keeps the lines of standard error that `watch` does not get: all except progress and warnings.
class ErrorLines {
 public:
  explicit ErrorLines(const std::function<void(const std::string&)>& watch) : watch_(watch) {}

  void take(std::string_view line) {
    constexpr std::string_view warning = "warning: ", progress = "{\"progress\":";
    if (line.starts_with(progress)) return watch_(std::string(line));
    if (line.starts_with(warning))
      return watch_(line_of({{"warning", std::string(line.substr(warning.size()))}}));
    text_.append(line).append("\n");
  }
  std::string message() const {
    constexpr std::string_view error = "error: ";
    const std::size_t begin = text_.starts_with(error) ? error.size() : 0;
    const std::size_t end = text_.find_last_not_of('\n');
    return end == std::string::npos ? "it said nothing" : text_.substr(begin, end + 1 - begin);
  }

 private:
  const std::function<void(const std::string&)>& watch_;
  std::string text_;
};

// Returns the error 422: no plan fits. It includes the command's output, if there is any, because
// that shows why.
Answer no_plan(const std::string& message, const std::string& out) {
  json error = {{"status", 422}, {"message", message}};
  if (!out.empty()) error["answer"] = json::parse(out, nullptr, false);
  return {422, line_of({{"error", error}}) + "\n"};
}

Answer exited(const ChildEnd& end, const std::string& message, const Question& question,
              const JobFolder& folder) {
  switch (end.code) {
    case done:
      return {200, question.in_file ? folder.text_of(answer_file) : end.out};
    case bad_input:
      return error_answer(400, message);
    case no_plan_fits:
      return no_plan(message, end.out);
    default:
      if (message.find("bad_alloc") != std::string::npos)
        return error_answer(422, fmt::format("the job needs more than the {} GiB of memory that "
                                             "the server gives a search",
                                             most_child_bytes() >> 30));
      return error_answer(500, message);
  }
}

}  // namespace

Answer error_answer(int status, const std::string& message) {
  return {status, line_of({{"error", {{"status", status}, {"message", message}}}}) + "\n"};
}

Answer answer_to(const Question& question, int client, int stopping,
                 const std::function<void(const std::string&)>& watch) {
  const JobFolder folder(question.files);
  ErrorLines errors(watch);
  const ChildEnd end = run_child({question.words, folder.path(), question.limit}, client, stopping,
                                 [&](std::string_view line) { errors.take(line); });
  errors.take(end.err);
  switch (end.how) {
    case ChildEnd::How::exited:
      return exited(end, errors.message(), question, folder);
    case ChildEnd::How::killed:
      return error_answer(500, fmt::format("the search was ended by signal {}", end.code));
    case ChildEnd::How::late:
      return error_answer(503, fmt::format("the search took longer than {} s, which is the most",
                                           question.limit.count()));
    case ChildEnd::How::too_long:
      return error_answer(500, "the answer is too long");
    case ChildEnd::How::left:
      return error_answer(400, "the client went away");
    case ChildEnd::How::stopped:
      break;
  }
  return error_answer(503, "the server stops");
}

}  // namespace meshwright
