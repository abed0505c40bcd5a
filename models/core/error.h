// The sorts of error. InputError: the user's file or option is wrong (exit code 2). RunError: the
// run itself failed (exit code 4). Their messages quote input, so they are made printable.
// MESHWRIGHT_CHECK: the program itself is wrong. It prints a message and aborts, and no input may
// lead to it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/printable.h"

namespace meshwright {

// The user's file or option is wrong. The message says where, what is wrong, and what would be
// right:
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

// A number is wrong, and only a few others are right. `statement` is the message up to the list of
// right ones: "/parallelism/tensor: 5 does not divide heads 12; use ". `choices` are those that the
// broken rule allows. read_job() leaves out choices that break another rule.
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

// Returns the known word nearest to `word` by edit distance, for "did you mean". A known word that
// begins with `word`, if that has at least 3 letters, counts as one letter away. Returns "" if no
// word is within half of the letters of `word`, or within one letter if it is short.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Returns the words as "a, b or c", where `last` replaces "or".
std::string list_of(const std::vector<std::string>& words, std::string_view last = "or");

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view why);

}  // namespace meshwright

#define MESHWRIGHT_CHECK(condition, why) \
  ((condition) ? void(0) : ::meshwright::check_failed(#condition, __FILE__, __LINE__, (why)))
