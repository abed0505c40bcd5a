#include "tools/serve/answer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "exec/launch/exit_codes.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "tools/serve/child.h"
#include "tools/serve/limits.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;

// Makes an empty folder in which a command runs and may write its file, and removes it at the end.
class OwnFolder {
 public:
  OwnFolder() {
    std::string pattern = (fs::temp_directory_path() / "meshwright-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw RunError("no folder can be made in " + fs::temp_directory_path().string());
    path_ = pattern;
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

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

// Collects the lines of standard error (tools/answering.h). Progress and warnings go to `watch`.
class Heard {
 public:
  explicit Heard(const std::function<void(const std::string&)>& watch) : watch_(watch) {}

  void take(std::string_view line) {
    const json said = json::parse(line, nullptr, false);
    if (!said.is_object())
      others_.append(line).append("\n");  // from a library or the system
    else if (said.contains("error"))
      error_ = said;
    else
      watch_(std::string(line));
  }
  std::string message() const {
    if (!error_.is_null()) return error_.at("error");
    const std::size_t end = others_.find_last_not_of('\n');
    return end == std::string::npos ? "it said nothing" : others_.substr(0, end + 1);
  }
  bool is_out_of_memory() const { return error_.is_object() && error_.contains("out_of_memory"); }

 private:
  const std::function<void(const std::string&)>& watch_;
  json error_;
  std::string others_;
};

// Returns the error 422: no plan fits. It includes the command's output, if there is any, because
// that shows why.
Answer no_plan(const std::string& message, const std::string& out) {
  json error = {{"status", 422}, {"message", message}};
  if (!out.empty()) error["answer"] = json::parse(out, nullptr, false);
  return {422, line_of({{"error", error}}) + "\n"};
}

Answer exited(const ChildEnd& end, const Heard& heard, const Question& question,
              const OwnFolder& folder) {
  const std::string message = heard.message();
  switch (end.code) {
    case done:
      return {200, question.in_file ? folder.text_of(answer_file) : end.out};
    case bad_input:
      return error_answer(400, message);
    case no_plan_fits:
      return no_plan(message, end.out);
    default:
      if (heard.is_out_of_memory())
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

Answer answer_to(const Question& question, const std::string& program, int client, int stopping,
                 const std::function<void(const std::string&)>& watch) {
  const OwnFolder folder;
  Heard heard(watch);
  const ChildEnd end =
      run_child({program, to_json(question.call).dump(), folder.path(), question.limit}, client,
                stopping, [&](std::string_view line) { heard.take(line); });
  if (!end.err.empty()) heard.take(end.err);
  switch (end.how) {
    case ChildEnd::How::exited:
      return exited(end, heard, question, folder);
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

}  // namespace meshwright::tools
