// The two sorts of error. InputError: the user's file or option is wrong (exit code 2).
// Their messages quote input, and are printable.
// MESHWRIGHT_CHECK: our own code is wrong; prints and aborts, never reachable from input.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/printable.h"

namespace meshwright {

// The message says where, what is wrong, and what would be right:
// `gpt2.json: /parallelism/tensor: 5 does not divide 12 heads; use 1, 2, 3, 4, 6 or 12`.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message) : std::runtime_error(printable(message)) {}
};

// The input is legal but this version cannot do it yet (exit code 2 as well).
class NotSupportedYet : public InputError {
 public:
  explicit NotSupportedYet(const std::string& what) : InputError(what) {}
};

// A number where only a few would do. `statement` ends where the message goes on with them:
// "/parallelism/tensor: 5 does not divide heads 12; use ". They are what the broken rule allows;
// read_job() leaves out those that break another one.
class WrongChoice : public InputError {
 public:
  WrongChoice(const std::string& statement, const std::vector<std::int64_t>& choices);
  const std::string& statement() const { return statement_; }
  const std::vector<std::int64_t>& choices() const { return choices_; }

 private:
  std::string statement_;
  std::vector<std::int64_t> choices_;
};

// The run itself failed: a device, a peer or a file system (exit code 4).
class RunError : public std::runtime_error {
 public:
  explicit RunError(const std::string& message) : std::runtime_error(printable(message)) {}
};

// The known word nearest to `word` by edit distance; one that begins with `word` is one letter
// away. Empty when none is near (more than half its letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Returns "a, b or c".
std::string list_of(const std::vector<std::string>& words, std::string_view last = "or");

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view why);

}  // namespace meshwright

#define MESHWRIGHT_CHECK(condition, why) \
  ((condition) ? void(0) : ::meshwright::check_failed(#condition, __FILE__, __LINE__, (why)))
