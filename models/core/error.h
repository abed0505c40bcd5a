// Defines the kinds of error. InputError: the user's file or option is wrong (exit code 2).
// RunError: the run itself failed (exit code 4). Their messages may quote input, so control
// characters in them are escaped. MESHWRIGHT_CHECK: the program itself is wrong. It prints a
// message and aborts, and no input may lead to it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/core/printable.h"
#include "models/core/violation.h"

namespace meshwright::core {

// The user's file or option is wrong. The message says where and what is wrong and, if that is
// known, what would be right:
// `gpt2.json: /parallelism/tensor: 5 does not divide 12 heads; use 1, 2, 3, 4, 6 or 12`.
class InputError : public std::runtime_error {
 public:
  explicit InputError(Violation violation)
      : std::runtime_error(text_of(violation)), violation_(std::move(violation)) {}
  explicit InputError(const std::string& message) : InputError(Violation{.statement = message}) {}
  const Violation& violation() const { return violation_; }

 private:
  Violation violation_;
};

// The input is legal but this version cannot do it yet (exit code 2 as well).
class NotSupportedYet : public InputError {
 public:
  explicit NotSupportedYet(const std::string& what)
      : InputError(Violation{.statement = what, .not_yet = true}) {}
};

// Throws an InputError with the violation of `error`. A violation of a key that names no file gets
// the name `file`, because the compiler knows the keys of a job but not its file.
[[noreturn]] void throw_in_file(const std::string& file, const InputError& error);

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

}  // namespace meshwright::core

#define MESHWRIGHT_CHECK(condition, why) \
  ((condition) ? void(0) : ::meshwright::core::check_failed(#condition, __FILE__, __LINE__, (why)))
