// Runs the program with a command line and returns its exit code and what it prints.
#pragma once

#include <sys/wait.h>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"

inline const std::string source = MESHWRIGHT_SOURCE_DIR;
inline const std::string jobs = source + "/tests/tools/";
inline const std::string one_rank =
    " --set cluster.processes_per_host=1 --set parallelism.data=1 --profile " + jobs + "local.json";

struct Answer {
  int code = -1;
  std::string out;
};

inline Answer run_line(const std::string& line, const std::string& errors = "/dev/null") {
  std::FILE* pipe = popen((line + " 2>" + errors).c_str(), "r");
  REQUIRE(pipe != nullptr);
  Answer answer;
  char text[4096];
  for (std::size_t n; (n = fread(text, 1, sizeof text, pipe)) > 0;) answer.out.append(text, n);
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

inline Answer run(const std::string& arguments, const std::string& errors = "/dev/null") {
  return run_line(MESHWRIGHT_PROGRAM " " + arguments, errors);
}

// Returns the JSON object that the command prints. The test fails if the command prints anything
// else.
inline nlohmann::json answer_of(const std::string& arguments) {
  const Answer answer = run(arguments + " --json");
  CAPTURE(arguments, answer.out);
  REQUIRE(answer.code == 0);
  nlohmann::json value = nlohmann::json::parse(answer.out);
  REQUIRE(value.is_object());
  return value;
}
