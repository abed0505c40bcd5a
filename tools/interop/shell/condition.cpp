// Evaluates the conditions of shell scripts.
#include <fnmatch.h>

#include "tools/interop/shell/run.h"

namespace meshwright::interop {

namespace {

using Value = std::optional<bool>;

std::optional<std::int64_t> whole(const std::optional<std::string>& text) {
  return text ? shell_arithmetic(*text) : std::nullopt;
}

class Condition {
 public:
  Condition(const std::vector<ShellText>& words, ShellVariables& variables)
      : words_(words), variables_(variables) {}

  Value value() {
    at_ = 1;
    end_ = words_.size() - (words_[0].raw == "test" ? 0 : 1);
    matches_ = words_[0].raw == "[[";
    return either();
  }

 private:
  bool sees(std::string_view one, std::string_view other) const {
    return at_ < end_ && (words_[at_].raw == one || words_[at_].raw == other);
  }
  bool takes(std::string_view one, std::string_view other) {
    if (!sees(one, other)) return false;
    ++at_;
    return true;
  }

  Value either() {
    Value left = both();
    while (takes("||", "-o")) {
      const Value right = both();
      left = left == true || right == true ? Value(true) : left && right ? Value(false) : Value();
    }
    return left;
  }
  Value both() {
    Value left = one();
    while (takes("&&", "-a")) {
      const Value right = one();
      left = left == false || right == false ? Value(false) : left && right ? Value(true) : Value();
    }
    return left;
  }
  Value one() {
    bool turns = false;
    while (takes("!", "!")) turns = !turns;
    Value value;
    if (takes("(", "\\(")) {
      value = ++levels_ < 32 ? either() : Value();
      takes(")", "\\)");
    } else {
      value = compared();
    }
    return value && turns ? Value(!*value) : value;
  }

  std::optional<std::string> next() {
    return at_ < end_ ? variables_.known_text_of(words_[at_++]) : std::string();
  }

  Value compared() {
    if (at_ >= end_) return false;
    const std::string first = words_[at_].raw;
    const bool is_last = at_ + 1 >= end_ || sees_end(at_ + 1);
    if (!is_last && first.size() == 2 && first[0] == '-') {
      ++at_;
      if (first == "-v") return variables_.find(words_[at_++].raw) != nullptr;
      const std::optional<std::string> operand = next();
      if (first != "-z" && first != "-n") return Value();  // a file test: only the machine knows
      if (!operand) return Value();
      return (first == "-z") == operand->empty();
    }
    const std::optional<std::string> left = next();
    if (at_ >= end_ || sees_end(at_)) return left ? Value(!left->empty()) : Value();
    const std::string how = words_[at_++].raw;
    if (how == "=~") {
      next();
      return Value();
    }
    const std::optional<std::string> right = next();
    if (how == "=" || how == "==" || how == "!=") {
      if (!left || !right) return Value();
      const bool equal =
          matches_ ? fnmatch(right->c_str(), left->c_str(), 0) == 0 : *left == *right;
      return equal == (how != "!=");
    }
    const bool has_empty = (left && left->empty()) || (right && right->empty());
    if (has_empty && !matches_) return false;  // an error of `[`; `[[` takes it as 0
    const auto number = [](const std::optional<std::string>& text) {
      return text && text->empty() ? whole("0") : whole(text);
    };
    const auto one = number(left), other = number(right);
    if (!one || !other) return Value();
    if (how == "-eq") return *one == *other;
    if (how == "-ne") return *one != *other;
    if (how == "-lt" || how == "<") return *one < *other;
    if (how == "-le") return *one <= *other;
    if (how == "-gt" || how == ">") return *one > *other;
    if (how == "-ge") return *one >= *other;
    return Value();
  }

  bool sees_end(std::size_t at) const {
    for (const std::string_view each : {"&&", "||", "-a", "-o", ")", "\\)"})
      if (words_[at].raw == each) return true;
    return false;
  }

  const std::vector<ShellText>& words_;
  ShellVariables& variables_;
  std::size_t at_ = 0, end_ = 0;
  int levels_ = 0;
  bool matches_ = false;
};

}  // namespace

ShellStatus tested(const std::vector<ShellText>& words, ShellVariables& variables) {
  const ShellDoubts before = variables.take_doubts();
  ShellStatus status;
  if (words[0].raw == "((") {
    std::string_view inside = words[1].raw;
    if (inside.size() >= 4) inside = inside.substr(2, inside.size() - 4);
    const auto value = variables.arithmetic(inside);
    status.value = value ? Value(*value != 0) : Value();
  } else {
    status.value = Condition(words, variables).value();
  }
  status.doubts = variables.take_doubts();
  if (!status.value && status.doubts.empty())
    status.doubts.insert("only the machine knows a condition in line " +
                         std::to_string(words[0].line) + "; its branches are read in their order");
  return status;
}

}  // namespace meshwright::interop
