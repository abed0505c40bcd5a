#include "tools/interop/python/tokens.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class PythonLexer {
 public:
  PythonLexer(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<PythonToken> run() {
    while (at_ < text_.size()) step();
    found_.push_back({Kind::line_end, "", line_});
    return std::move(found_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      const std::size_t next = std::min(text_.find_first_not_of(" \t", at_), text_.size());
      if (depth_ == 0)
        found_.push_back({Kind::line_end, "", line_, false, static_cast<int>(next - at_)});
      ++line_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\' && text_.compare(at_, 2, "\\\n") == 0) {
      at_ += 2;
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '"' || c == '\'') {
      quoted("");
    } else if (begins_name(c)) {
      std::string name;
      while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_])))
        name += text_[at_++];
      const bool is_prefix = name.size() <= 2 &&
                             name.find_first_not_of("rRbBfFuU") == std::string::npos &&
                             at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
      if (is_prefix) return quoted(name);
      found_.push_back({Kind::name, name, line_});
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      number();
    } else {
      sign();
    }
  }

  void number() {
    std::string digits;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool of_exponent = (c == '-' || c == '+') && !digits.empty() &&
                               (digits.back() == 'e' || digits.back() == 'E') &&
                               !digits.starts_with("0x");
      if (!begins_name(c) && !is_digit(c) && c != '.' && !of_exponent) break;
      if (c != '_') digits += c;
      ++at_;
    }
    found_.push_back({Kind::number, digits, line_});
  }

  void sign() {
    static constexpr std::string_view pairs[] = {
        "**", "//", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "->", ":=", "|="};
    for (const std::string_view pair : pairs)
      if (text_.compare(at_, 2, pair) == 0) {
        found_.push_back({Kind::sign, std::string(pair), line_});
        at_ += 2;
        return;
      }
    const char c = text_[at_++];
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') depth_ = std::max(0, depth_ - 1);
    if (c == ';' && depth_ == 0)
      found_.push_back({Kind::line_end, "", line_, false, found_.empty() ? 0 : -1});
    else
      found_.push_back({Kind::sign, std::string(1, c), line_});
  }

  void quoted(const std::string& prefix) {
    const int line = line_;
    const char quote = text_[at_];
    const bool raw = prefix.find_first_of("rR") != std::string::npos;
    const bool fields = prefix.find_first_of("fF") != std::string::npos;
    const bool is_long = text_.compare(at_, 3, std::string(3, quote)) == 0;
    const std::string end(is_long ? 3 : 1, quote);
    at_ += end.size();
    std::string value;
    while (text_.compare(at_, end.size(), end) != 0) {
      if (at_ >= text_.size() || (!is_long && text_[at_] == '\n'))
        throw InputError(file_ + ":" + std::to_string(line) + ": a text (" + end +
                         ") is not closed");
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && !raw) {
        const char next = text_[at_ + 1];
        at_ += 2;
        if (next == '\n')
          ++line_;
        else
          value += next == 'n' ? '\n' : next == 't' ? '\t' : next;
        continue;
      }
      value += text_[at_++];
    }
    at_ += end.size();
    const bool is_open = fields && value.find('{') != std::string::npos;
    found_.push_back({Kind::text, value, line, is_open});
  }

  const std::string& text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  std::vector<PythonToken> found_;
};

}  // namespace

std::vector<PythonToken> python_tokens(const std::string& text, const std::string& file) {
  return PythonLexer(text, file).run();
}

}  // namespace meshwright::interop
