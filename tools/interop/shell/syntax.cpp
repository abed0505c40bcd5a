#include "tools/interop/shell/syntax.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

[[noreturn]] void fail(const std::string& file, int line, const std::string& problem) {
  throw InputError(file + ":" + std::to_string(line) + ": " + problem);
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class ShellParser {
 public:
  ShellParser(const std::string& text, const std::string& file, int line)
      : text_(text), file_(file), line_(line) {}

  ShellScript script() {
    while (at_ < text_.size()) {
      for (ShellNode& each : block({})) script_.block.push_back(std::move(each));
      if (at_ < text_.size()) ++at_;  // a bracket or ;; that closes nothing
    }
    return std::move(script_);
  }

  std::vector<ShellText> words() {
    std::vector<ShellText> found;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) return found;
      const std::size_t begin = at_;
      ShellText each = word();
      if (at_ > begin)
        found.push_back(std::move(each));
      else if (text_[at_] == '\n')
        take_newline();
      else
        ++at_;
    }
  }

 private:
  using Stops = std::initializer_list<std::string_view>;

  bool sees(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }

  void take_newline() {
    ++at_;
    ++line_;
    for (const int each : open_documents_) take_document(script_.documents[as_index(each)]);
    open_documents_.clear();
  }

  static std::size_t as_index(int value) { return static_cast<std::size_t>(value); }

  void take_document(ShellDocument& document) {
    document.line = line_;
    while (at_ < text_.size()) {
      const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
      std::string line = text_.substr(at_, stop - at_);
      at_ = std::min(stop + 1, text_.size());
      ++line_;
      if (document.strips_tabs) line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
      while (line.ends_with('\r')) line.pop_back();
      if (line == document.end) return;
      document.text += line + "\n";
    }
  }

  // Skips blanks, line continuations and comments. The comments are collected in the script.
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
      } else if (sees("\\\n") || sees("\\\r\n")) {
        at_ += sees("\\\n") ? 2 : 3;
        ++line_;
      } else if (text_[at_] == '#') {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        script_.comments.push_back({text_.substr(at_, end - at_), line_});
        at_ = end;
      } else {
        return;
      }
    }
  }

  // Skips what separates commands, and returns the operator before the next command. A new line or
  // & alone counts as ;.
  std::string separator() {
    std::string found;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size() || sees(";;") || sees("&>")) return found.empty() ? ";" : found;
      if (text_[at_] == '\n') {
        take_newline();
        if (found.empty()) found = ";";
      } else if (sees("&&") || sees("||")) {
        found = text_.substr(at_, 2);
        at_ += 2;
      } else if (text_[at_] == '|') {
        at_ += sees("|&") ? 2 : 1;
        found = "|";
      } else if (text_[at_] == ';' || text_[at_] == '&') {
        ++at_;
        found = ";";
      } else {
        return found.empty() ? ";" : found;
      }
    }
  }

  ShellBlock block(Stops stops) {
    ShellBlock found;
    while (true) {
      const std::string before = separator();
      if (at_ >= text_.size() || text_[at_] == ')' || sees(";;")) break;
      const std::size_t begin = at_;
      const int line = line_;
      const std::string first = plain_word();
      if (std::ranges::find(stops, first) != stops.end()) {
        ended_by_ = first;
        return found;
      }
      at_ = begin;
      line_ = line;
      ShellNode node = command();
      node.before = found.empty() ? ";" : before;
      found.push_back(std::move(node));
      if (at_ == begin) ++at_;  // a character that begins no command
    }
    ended_by_.clear();
    return found;
  }

  // Reads characters that a reserved word can have, such as `if` or `{`. Returns an empty string if
  // the word goes on with other characters.
  std::string plain_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_shell_name_character(text_[at_]) || text_[at_] == '}' ||
                                  text_[at_] == '{' || text_[at_] == '!'))
      ++at_;
    const bool ends = at_ >= text_.size() || is_blank(text_[at_]) ||
                      std::string_view("\n;&|()<>").find(text_[at_]) != std::string_view::npos;
    std::string word = text_.substr(begin, at_ - begin);
    if (!ends) word.clear();
    return word;
  }

  bool takes(std::string_view reserved) {
    skip_blanks();
    const std::size_t begin = at_;
    if (plain_word() == reserved) return true;
    at_ = begin;
    return false;
  }

  ShellNode command() {
    if (++levels_ > 64) fail(file_, line_, "more than 64 levels of nested commands");
    ShellNode node = unbounded_command();
    --levels_;
    return node;
  }

  ShellNode unbounded_command() {
    ShellNode node;
    node.line = line_;
    if (sees("((")) return arithmetic(std::move(node));
    if (text_[at_] == '(') {
      ++at_;
      node.kind = ShellNode::Kind::group;
      node.body = block({});
      if (at_ < text_.size() && text_[at_] == ')') ++at_;
      return with_redirections(std::move(node));
    }
    const std::size_t begin = at_;
    const std::string first = plain_word();
    if (first == "!") {
      skip_blanks();
      node = command();
      node.is_negated = !node.is_negated;
      return node;
    }
    if (first == "{") {
      node.kind = ShellNode::Kind::group;
      node.body = block({"}"});
      return with_redirections(std::move(node));
    }
    if (first == "if") return branches(std::move(node));
    if (first == "case") return cases(std::move(node));
    if (first == "for" || first == "select") return loop_over(std::move(node));
    if (first == "while" || first == "until") {
      node.kind = ShellNode::Kind::loop_while;
      node.is_until = first == "until";
      node.condition = block({"do"});
      node.body = block({"done"});
      return with_redirections(std::move(node));
    }
    if (first == "function") {
      skip_blanks();
      node.words = {word()};
      skip_blanks();
      if (sees("()")) at_ += 2;
      return function(std::move(node));
    }
    if (!first.empty() && is_shell_name_character(first.back())) {
      skip_blanks();
      if (text_.compare(at_, 1, "(") == 0) {
        const std::size_t open = at_++;
        skip_blanks();
        if (at_ < text_.size() && text_[at_] == ')') {
          ++at_;
          node.words = {{first, node.line}};
          return function(std::move(node));
        }
        at_ = open;
      }
    }
    at_ = begin;
    line_ = node.line;
    return simple(std::move(node));
  }

  ShellNode arithmetic(ShellNode node) {
    const std::size_t begin = at_;
    at_ = end_of_brackets(text_, at_, line_, file_);
    node.words = {{"((", node.line}, {text_.substr(begin, at_ - begin), node.line}};
    return with_redirections(std::move(node));
  }

  ShellNode function(ShellNode node) {
    node.kind = ShellNode::Kind::function;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != '\n') break;
      take_newline();
    }
    if (at_ < text_.size()) node.body.push_back(command());
    return node;
  }

  ShellNode branches(ShellNode node) {
    node.kind = ShellNode::Kind::branches;
    bool is_more = true;
    while (is_more) {
      ShellBranch branch;
      branch.condition = block({"then", "fi"});
      branch.body = block({"elif", "else", "fi"});
      node.branches.push_back(std::move(branch));
      const std::string word = ended_by_;
      is_more = word == "elif";
      if (word == "else") node.branches.push_back({{}, {}, block({"fi"})});
    }
    return with_redirections(std::move(node));
  }

  ShellNode cases(ShellNode node) {
    node.kind = ShellNode::Kind::cases;
    skip_blanks();
    node.words = {word()};
    while (at_ < text_.size()) {
      separator();
      if (takes("in")) continue;
      if (takes("esac") || at_ >= text_.size()) break;
      if (sees(";;")) {
        at_ += 2;
        continue;
      }
      const std::size_t begin = at_;
      ShellBranch branch;
      if (text_[at_] == '(') ++at_;
      while (at_ < text_.size() && text_[at_] != ')' && text_[at_] != '\n') {
        skip_blanks();
        if (at_ < text_.size() && (text_[at_] == '|' || text_[at_] == '&' || text_[at_] == ';'))
          ++at_;
        skip_blanks();
        const std::size_t before = at_;
        ShellText pattern = word();
        if (at_ == before) break;
        branch.patterns.push_back(std::move(pattern));
      }
      if (at_ < text_.size() && text_[at_] == ')') ++at_;
      branch.body = block({"esac"});
      const bool is_last = ended_by_ == "esac";
      node.branches.push_back(std::move(branch));
      if (is_last) break;
      if (at_ == begin) ++at_;
    }
    return with_redirections(std::move(node));
  }

  ShellNode loop_over(ShellNode node) {
    node.kind = ShellNode::Kind::loop_over;
    skip_blanks();
    if (sees("((")) {
      at_ = end_of_brackets(text_, at_, line_, file_);
    } else {
      node.words.push_back(word());
      if (takes("in"))
        while (true) {
          skip_blanks();
          const std::size_t before = at_;
          ShellText each = word();
          if (at_ == before) break;
          node.words.push_back(std::move(each));
        }
      else
        node.words.push_back({"\"$@\"", node.line});
    }
    block({"do"});
    node.body = block({"done"});
    return with_redirections(std::move(node));
  }

  // Reads the redirections after a block and returns the node with them.
  ShellNode with_redirections(ShellNode node) {
    while (true) {
      skip_blanks();
      if (!redirection(node)) return node;
    }
  }

  // Returns the end of a word in angle brackets that the user replaces, such as <path-to-data>, if
  // one begins at `at`, or 0.
  std::size_t filled_in(std::size_t at) const {
    std::size_t end = at + 1;
    while (end < text_.size() && (is_shell_name_character(text_[end]) || text_[end] == '-' ||
                                  text_[end] == '.' || text_[end] == '/' || text_[end] == ' '))
      ++end;
    const bool closes = end > at + 1 && end < text_.size() && text_[end] == '>' &&
                        text_[end - 1] != ' ' && text_[at + 1] != ' ';
    return text_[at] == '<' && closes ? end + 1 : 0;
  }

  // Reads a redirection, if one is here, and returns whether there was one.
  bool redirection(ShellNode& node) {
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    if (text_.compare(end, 2, "&>") == 0 && end == at_) ++end;
    if (end >= text_.size() || (text_[end] != '<' && text_[end] != '>')) return false;
    if (text_.compare(end, 2, "<(") == 0 || text_.compare(end, 2, ">(") == 0) return false;
    if (filled_in(end) > 0) return false;
    at_ = end;
    if (sees("<<<")) {
      at_ += 3;
      skip_blanks();
      word();
      return true;
    }
    if (sees("<<")) {
      document(node);
      return true;
    }
    const bool writes = text_[at_] == '>';
    ++at_;
    bool is_descriptor = false;
    while (at_ < text_.size() &&
           std::string_view("<>&|").find(text_[at_]) != std::string_view::npos)
      is_descriptor = text_[at_++] == '&';
    skip_blanks();
    ShellText target = word();
    if (writes && !is_descriptor) node.outputs.push_back(std::move(target));
    return true;
  }

  void document(ShellNode& node) {
    at_ += 2;
    ShellDocument document;
    if (at_ < text_.size() && text_[at_] == '-') {
      document.strips_tabs = true;
      ++at_;
    }
    skip_blanks();
    for (const char c : word().raw) {
      if (c == '\'' || c == '"' || c == '\\')
        document.is_literal = true;
      else
        document.end += c;
    }
    if (document.end.empty()) return;
    node.documents.push_back(static_cast<int>(script_.documents.size()));
    open_documents_.push_back(node.documents.back());
    script_.documents.push_back(std::move(document));
  }

  ShellNode simple(ShellNode node) {
    while (true) {
      skip_blanks();
      const bool compares = !node.words.empty() && node.words[0].raw == "[[";
      if (compares && node.words.back().raw == "]]") {
        return with_redirections(std::move(node));
      }
      if (compares && comparison_word(node)) continue;
      if (at_ >= text_.size() ||
          std::string_view("\n;|)").find(text_[at_]) != std::string_view::npos)
        return node;
      if (text_[at_] == '&' && !sees("&>")) return node;
      if (redirection(node)) continue;
      const std::size_t begin = at_;
      ShellText each = word();
      if (at_ == begin) return node;
      node.words.push_back(std::move(each));
    }
  }

  // Reads an operator or a new line inside of [[ ]], which would end any other command. Returns
  // whether there was one.
  bool comparison_word(ShellNode& node) {
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '\n') {
      take_newline();
      return true;
    }
    for (const std::string_view each : {"&&", "||", "(", ")", "<", ">"})
      if (sees(each)) {
        node.words.push_back({std::string(each), line_});
        at_ += each.size();
        return true;
      }
    return false;
  }

  // Reads a word with all that is quoted and nested in it. The word is empty if an operator is
  // here.
  ShellText word() {
    const std::size_t begin = at_;
    const int line = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        if (sees("\\\n")) break;
        at_ = std::min(at_ + 2, text_.size());
      } else if (c == '\'' || c == '"' || c == '`') {
        at_ = end_of_quote(text_, at_, line_, file_);
      } else if (c == '$' && at_ + 1 < text_.size() &&
                 (text_[at_ + 1] == '(' || text_[at_ + 1] == '{')) {
        ++at_;
        at_ = end_of_brackets(text_, at_, line_, file_);
      } else if ((c == '<' || c == '>') && at_ + 1 < text_.size() && text_[at_ + 1] == '(') {
        ++at_;
        at_ = end_of_brackets(text_, at_, line_, file_);
      } else if (filled_in(at_) > 0) {
        at_ = filled_in(at_);
      } else if (c == '(' && at_ > begin && text_[at_ - 1] == '=') {
        at_ = end_of_brackets(text_, at_, line_, file_);
      } else if (is_blank(c) || std::string_view("\n;&|()<>").find(c) != std::string_view::npos) {
        break;
      } else {
        ++at_;
      }
    }
    return {text_.substr(begin, at_ - begin), line};
  }

  const std::string& text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1, levels_ = 0;
  std::string ended_by_;  // the reserved word that ended the last block
  ShellScript script_;
  std::vector<int> open_documents_;
};

}  // namespace

ShellScript parse_shell(const std::string& text, const std::string& file, int first_line) {
  return ShellParser(text, file, first_line).script();
}

std::vector<ShellText> shell_words(const std::string& text, const std::string& file,
                                   int first_line) {
  return ShellParser(text, file, first_line).words();
}

bool is_shell_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_shell_assignment(const std::string& word) {
  std::size_t at = 0;
  while (at < word.size() && is_shell_name_character(word[at])) ++at;
  if (at == 0 || at >= word.size() || std::isdigit(static_cast<unsigned char>(word[0])) != 0)
    return false;
  if (word[at] == '[') at = std::min(word.find(']', at), word.size() - 1) + 1;
  return at < word.size() &&
         (word[at] == '=' || (word[at] == '+' && at + 1 < word.size() && word[at + 1] == '='));
}

namespace {

// Brackets and quotes nest in each other. The depth is bounded, because each level is a call.
constexpr int most_depth = 64;

std::size_t bracket_end(const std::string& text, std::size_t at, int& line, const std::string& file,
                        int depth);

std::size_t quote_end(const std::string& text, std::size_t at, int& line, const std::string& file,
                      int level) {
  if (level > most_depth) fail(file, line, "more than 64 levels of quotes and brackets");
  const char quote = text[at];
  const int begin = line;
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\n') ++line;
    if (text[at] == quote) return at + 1;
    if (quote == '\'') continue;
    if (text[at] == '\\' && at + 1 < text.size()) {
      if (text[++at] == '\n') ++line;
    } else if (quote == '"' && text[at] == '$' && at + 1 < text.size() &&
               (text[at + 1] == '(' || text[at + 1] == '{')) {
      at = bracket_end(text, at + 1, line, file, level + 1) - 1;
    }
  }
  fail(file, begin, std::string("a quote (") + quote + ") is not closed");
}

std::size_t bracket_end(const std::string& text, std::size_t at, int& line, const std::string& file,
                        int level) {
  if (level > most_depth) fail(file, line, "more than 64 levels of quotes and brackets");
  const char open = text[at], close = open == '(' ? ')' : '}';
  const int begin = line;
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (c == '\\') {
      if (at + 1 < text.size() && text[at + 1] == '\n') ++line;
      at = std::min(at + 2, text.size());
      continue;
    }
    if ((c == '\'' && open == '(') || c == '"' || c == '`') {
      at = quote_end(text, at, line, file, level + 1);
      continue;
    }
    if (c == '#' && open == '(' && at > 0 && (is_blank(text[at - 1]) || text[at - 1] == '\n')) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == open) ++depth;
    ++at;
    if (c == close && --depth == 0) return at;
  }
  fail(file, begin, std::string("a '") + open + "' is not closed");
}

}  // namespace

std::size_t end_of_quote(const std::string& text, std::size_t at, int& line,
                         const std::string& file) {
  return quote_end(text, at, line, file, 0);
}

std::size_t end_of_brackets(const std::string& text, std::size_t at, int& line,
                            const std::string& file) {
  return bracket_end(text, at, line, file, 0);
}

}  // namespace meshwright::interop
