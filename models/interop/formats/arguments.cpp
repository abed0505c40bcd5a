// Shell scripts as far as settings need them: words and variables, no execution.
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <vector>

#include "models/core/error.h"
#include "models/interop/formats/formats.h"

namespace meshwright {

using nlohmann::json;

namespace {

struct Word {
  std::string text;
  int line = 0;
  bool is_operator = false;  // ; && || | & ( ) and the end of a line
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Whole numbers with + - * / % and parentheses, as $(( )) has them.
class Arithmetic {
 public:
  explicit Arithmetic(const std::string& text) : text_(text) {}
  std::optional<std::int64_t> value() {
    const std::int64_t result = sum();
    skip();
    if (!good_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 52;
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t bounded(long double value) {
    if (value > most || value < -most) good_ = false;
    return good_ ? static_cast<std::int64_t>(value) : 0;
  }
  std::int64_t sum() {
    std::int64_t left = product();
    while (good_) {
      if (take('+'))
        left = bounded(static_cast<long double>(left) + static_cast<long double>(product()));
      else if (take('-'))
        left = bounded(static_cast<long double>(left) - static_cast<long double>(product()));
      else
        break;
    }
    return left;
  }
  std::int64_t product() {
    std::int64_t left = factor();
    while (good_) {
      const char sign = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') break;
      const std::int64_t right = factor();
      if (sign != '*' && right == 0) good_ = false;
      if (!good_) break;
      left = sign == '*' ? bounded(static_cast<long double>(left) * static_cast<long double>(right))
             : sign == '/' ? left / right
                           : left % right;
    }
    return left;
  }
  std::int64_t factor() {
    if (++depth_ > 64) good_ = false;
    if (!good_) return 0;
    std::int64_t value = 0;
    if (take('(')) {
      value = sum();
      good_ = good_ && take(')');
    } else if (take('-')) {
      value = -factor();
    } else {
      skip();
      const std::size_t begin = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
             at_ - begin < 15)
        value = 10 * value + (text_[at_++] - '0');
      good_ = good_ && at_ > begin;
    }
    --depth_;
    return value;
  }
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

class Script {
 public:
  Script(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  Settings run() {
    std::vector<Word> command;
    std::string before;  // the operators before the command: "&&", "||", ...
    while (at_ < text_.size()) {
      const std::vector<Word> words = next_words();
      for (const Word& word : words) {
        if (!word.is_operator) {
          command.push_back(word);
          continue;
        }
        if (!command.empty()) {
          step(command, before);
          before.clear();
        }
        command.clear();
        before += word.text.empty() ? ";" : word.text;
      }
    }
    if (!command.empty()) step(command, before);
    if (!started_ && !everything_.empty()) take_arguments(everything_, 0, "");
    return std::move(settings_);
  }

 private:
  // An `if`: what its condition says so far, and whether one of its branches was surely taken.
  struct Branch {
    std::optional<bool> condition;  // none: only the shell knows
    bool in_condition = true, is_taken = false;
    bool runs() const { return !condition || *condition; }
  };

  bool is_reached(std::size_t levels) const {
    return std::all_of(branches_.begin(), branches_.begin() + static_cast<std::ptrdiff_t>(levels),
                       [](const Branch& each) { return each.runs(); });
  }

  // One command; the words of `if` choose which are performed.
  void step(std::vector<Word> words, const std::string& before) {
    const std::string first = words[0].text;
    const auto rest = [&] {
      words.erase(words.begin());
      if (!words.empty()) step(words, ";");
    };
    if (first == "if") {
      if (branches_.size() >= 64) fail(words[0].line, "more than 64 levels of 'if'");
      branches_.emplace_back();
      return rest();
    }
    if (branches_.empty()) return perform(words);
    Branch& branch = branches_.back();
    if (first == "then") {
      branch.in_condition = false;
      branch.is_taken = branch.is_taken || branch.condition == true;
      return rest();
    }
    if (first == "elif" || first == "else") {
      const bool was_taken = branch.is_taken;
      branch = {was_taken ? std::optional(false) : std::nullopt, first == "elif" && !was_taken,
                was_taken};
      return rest();
    }
    if (first == "fi") {
      branches_.pop_back();
      return rest();
    }
    if (branch.in_condition) {
      const std::optional<bool> value = tested(words);
      if (before == "&&")
        branch.condition = branch.condition == false || value == false ? std::optional(false)
                           : branch.condition && value                 ? std::optional(true)
                                                                       : std::nullopt;
      else if (before == "||")
        branch.condition = branch.condition == true || value == true ? std::optional(true)
                           : branch.condition && value               ? std::optional(false)
                                                                     : std::nullopt;
      else
        branch.condition = before == ";" ? value : std::nullopt;
      return;
    }
    if (is_reached(branches_.size())) perform(words);
  }

  static bool is_open(const std::string& text) {
    return text.find_first_of("$`*?") != std::string::npos;
  }

  static std::optional<std::int64_t> whole(const std::string& text) {
    if (text.empty() || text.size() > 15 ||
        text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) != std::string::npos ||
        text == "-")
      return std::nullopt;
    return std::stoll(text);
  }

  // What `[ ... ]` and `[[ ... ]]` say, as far as the script decides it.
  static std::optional<bool> tested(const std::vector<Word>& words) {
    std::vector<std::string> text;
    for (const Word& word : words) text.push_back(word.text);
    const bool brackets = text.size() >= 2 && ((text.front() == "[" && text.back() == "]") ||
                                               (text.front() == "[[" && text.back() == "]]"));
    if (!brackets) return std::nullopt;
    text.erase(text.begin());
    text.pop_back();
    const bool turns = !text.empty() && text[0] == "!";
    if (turns) text.erase(text.begin());
    const std::optional<bool> value = compared(text);
    return value && turns ? std::optional(!*value) : value;
  }

  static std::optional<bool> compared(const std::vector<std::string>& text) {
    if (!text.empty() && (text[0] == "-z" || text[0] == "-n")) {
      if (text.size() > 2 || (text.size() == 2 && is_open(text[1]))) return std::nullopt;
      const bool empty = text.size() == 1 || text[1].empty();
      return (text[0] == "-z") == empty;
    }
    if (text.size() != 3 || is_open(text[0]) || is_open(text[2])) return std::nullopt;
    const std::string& how = text[1];
    if (how == "==" || how == "=") return text[0] == text[2];
    if (how == "!=") return text[0] != text[2];
    const auto left = whole(text[0]), right = whole(text[2]);
    if (!left || !right) return std::nullopt;
    if (how == "-eq") return *left == *right;
    if (how == "-ne") return *left != *right;
    if (how == "-lt") return *left < *right;
    if (how == "-le") return *left <= *right;
    if (how == "-gt") return *left > *right;
    if (how == "-ge") return *left >= *right;
    return std::nullopt;
  }

  [[noreturn]] void fail(int line, const std::string& problem) const {
    throw InputError(file_ + ":" + std::to_string(line) + ": " + problem);
  }
  std::string place(int line) const { return file_ + ":" + std::to_string(line); }

  // The words that stand next: usually one, none for a variable without value, several for arrays.
  std::vector<Word> next_words() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      const int line = line_++;
      skip_documents();
      return {{"", line, true}};
    }
    if (text_.compare(at_, 2, "<<") == 0) return document();
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      return {};
    }
    if (c == '#') return comment();
    if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      at_ += 2;
      ++line_;
      return {};
    }
    if (c == '\\' && at_ + 2 < text_.size() && text_[at_ + 1] == '\r' && text_[at_ + 2] == '\n') {
      at_ += 3;
      ++line_;
      return {};
    }
    if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
      ++at_;
      return {{std::string(1, c), line_, true}};
    }
    return word();
  }

  // `<<EOT`: the lines until EOT are somebody's input.
  std::vector<Word> document() {
    at_ += 2;
    if (at_ < text_.size() && text_[at_] == '<') {
      ++at_;
      return {};
    }
    while (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == ' ')) ++at_;
    std::string end;
    for (; at_ < text_.size() && (is_name_character(text_[at_]) || text_[at_] == '\'' ||
                                  text_[at_] == '"' || text_[at_] == '\\');
         ++at_)
      if (is_name_character(text_[at_])) end += text_[at_];
    if (!end.empty()) documents_.push_back(end);
    return {};
  }

  void skip_documents() {
    for (const std::string& end : documents_) {
      while (at_ < text_.size()) {
        const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
        std::string text = text_.substr(at_, stop - at_);
        text.erase(0, std::min(text.find_first_not_of('\t'), text.size()));
        while (text.ends_with('\r')) text.pop_back();
        at_ = std::min(stop + 1, text_.size());
        ++line_;
        if (text == end) break;
      }
    }
    documents_.clear();
  }

  std::vector<Word> comment() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string text = text_.substr(at_, end - at_);
    at_ = end;
    if (text.starts_with("#SBATCH ")) take_batch_line(text.substr(8));
    return {};
  }

  // `#SBATCH --nodes=2 --exclusive  # ...`.
  void take_batch_line(const std::string& text) {
    std::istringstream stream(text.substr(0, text.find(" #")));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!is_option(words[i])) continue;
      std::string name = words[i].substr(2), value = "true";
      if (const std::size_t equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      } else if (i + 1 < words.size() && !words[i + 1].starts_with('-')) {
        value = words[++i];
      }
      settings_.add("sbatch." + name, value, place(line_));
    }
  }

  // One word, with quotes taken off and variables put in; an unquoted or quoted array becomes its
  // words, an unquoted variable is split at blanks.
  std::vector<Word> word() {
    const int line = line_;
    std::vector<std::string> words(1);
    bool is_there = false;  // quotes make even an empty word one
    const auto append = [&](const std::vector<std::string>& parts) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) words.emplace_back();
        words.back() += parts[i];
      }
    };
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';' || c == '&' || c == '|' ||
          c == ')' || text_.compare(at_, 2, "<<") == 0)
        break;
      if (c == '(') {
        if (!words.back().ends_with('=')) break;
        words.back() += array(line);
        is_there = true;
        continue;
      }
      if (c == '\'') {
        words.back() += single_quoted(line);
        is_there = true;
      } else if (c == '"') {
        append(double_quoted(line));
        is_there = true;
      } else if (c == '$') {
        append(split(variable(line)));
      } else if (c == '`') {
        words.back() += backquoted(line);
      } else if (c == '\\') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '\n') break;
        if (++at_ < text_.size()) words.back() += text_[at_++];
      } else {
        words.back() += c;
        ++at_;
      }
    }
    std::vector<Word> found;
    for (std::string& each : words)
      if (!each.empty() || is_there) found.push_back({std::move(each), line, false});
    return found;
  }

  std::string single_quoted(int line) {
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) fail(line, "a quote (') is not closed");
    const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    line_ += static_cast<int>(std::count(inside.begin(), inside.end(), '\n'));
    at_ = end + 1;
    return inside;
  }

  std::vector<std::string> double_quoted(int line) {
    std::vector<std::string> words(1);
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      const char c = text_[at_];
      if (c == '$') {
        const std::vector<std::string> parts = variable(line);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          if (i > 0) words.emplace_back();
          words.back() += parts[i];
        }
        continue;
      }
      if (c == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        if (text_[at_] == '\n') {
          ++line_;
          ++at_;
          continue;
        }
      }
      if (text_[at_] == '\n') ++line_;
      words.back() += text_[at_++];
    }
    if (at_ >= text_.size()) fail(line, "a quote (\") is not closed");
    ++at_;
    return words;
  }

  std::string backquoted(int line) {
    const std::size_t end = text_.find('`', at_ + 1);
    if (end == std::string::npos) fail(line, "a quote (`) is not closed");
    const std::string all = text_.substr(at_, end + 1 - at_);
    line_ += static_cast<int>(std::count(all.begin(), all.end(), '\n'));
    at_ = end + 1;
    return all;
  }

  // An unquoted variable is as many words as it has.
  static std::vector<std::string> split(std::vector<std::string> values) {
    std::vector<std::string> words;
    for (const std::string& value : values) {
      const bool is_code = value.starts_with("$") || value.starts_with("`");
      std::size_t at = 0;
      bool any = false;
      while (!is_code && at < value.size()) {
        const std::size_t begin = value.find_first_not_of(" \t\n", at);
        if (begin == std::string::npos) break;
        const std::size_t end = std::min(value.find_first_of(" \t\n", begin), value.size());
        words.push_back(value.substr(begin, end - begin));
        at = end;
        any = true;
      }
      if (is_code || !any) words.push_back(value);
    }
    return words;
  }

  std::string until_closed(char open, char close, int line) {
    const std::size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close && --depth == 0) {
        ++at_;
        return text_.substr(begin, at_ - begin);
      }
    }
    fail(line, std::string("a '") + open + "' is not closed");
  }

  // After a `$`: the values that it stands for, or itself where only the shell knows them.
  std::vector<std::string> variable(int line) {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '(') {
      const std::string all = until_closed('(', ')', line);
      if (!all.starts_with("((") || !all.ends_with("))")) return {"$" + all};
      std::string expression;
      for (std::size_t i = 2; i + 2 < all.size();) {
        const char c = all[i];
        if (c == '$' ||
            (is_name_character(c) && std::isdigit(static_cast<unsigned char>(c)) == 0)) {
          if (c == '$') ++i;
          if (i < all.size() && all[i] == '{') ++i;
          std::string name;
          while (i + 2 < all.size() && is_name_character(all[i])) name += all[i++];
          if (i < all.size() && all[i] == '}') ++i;
          const auto known = variables_.find(name);
          if (known == variables_.end() || known->second.size() != 1) return {"$" + all};
          expression += "(" + known->second[0] + ")";
        } else {
          expression += c;
          ++i;
        }
      }
      const std::optional<std::int64_t> value = Arithmetic(expression).value();
      return {value ? std::to_string(*value) : "$" + all};
    }
    std::string name, all = "$";
    bool has_default = false, sets = false;
    std::string fallback;
    if (at_ < text_.size() && text_[at_] == '{') {
      all += until_closed('{', '}', line);
      std::string inside = all.substr(2, all.size() - 3);
      if (const std::size_t colon = inside.find_first_of(":-="); colon != std::string::npos) {
        std::size_t begin = colon + 1;
        if (inside[colon] == ':' && begin < inside.size() &&
            (inside[begin] == '-' || inside[begin] == '='))
          ++begin;
        has_default = inside[colon] != ':' || begin == colon + 2;
        sets = has_default && inside[begin - 1] == '=';
        fallback = inside.substr(begin);
        inside.resize(colon);
      }
      name = inside.substr(0, inside.find('['));
    } else {
      while (at_ < text_.size() && is_name_character(text_[at_])) name += text_[at_++];
      all += name;
    }
    const auto known = variables_.find(name);
    const bool says = known != variables_.end() &&
                      !(has_default && known->second.size() == 1 && known->second[0].empty());
    if (says) return known->second;
    if (has_default) {
      const std::string value = expanded(fallback);
      if (sets) variables_[name] = {value};
      return {value};
    }
    if (name.empty() && at_ < text_.size() && all == "$") return {all + text_[at_++]};
    return {all};
  }

  // What stands behind ${NAME:-, with its quotes taken off and its variables put in.
  std::string expanded(const std::string& text) {
    constexpr int most_levels = 8;
    if (level_ >= most_levels) return text;
    Script inner(text, file_);
    inner.variables_ = variables_;
    inner.level_ = level_ + 1;
    inner.line_ = line_;
    std::string value;
    while (inner.at_ < text.size()) {
      const char c = text[inner.at_];
      std::vector<std::string> parts;
      if (c == '\'')
        parts = {inner.single_quoted(line_)};
      else if (c == '"')
        parts = inner.double_quoted(line_);
      else if (c == '$')
        parts = inner.variable(line_);
      else if (c == '`')
        parts = {inner.backquoted(line_)};
      else
        parts = {std::string(1, text[inner.at_++])};
      for (std::size_t i = 0; i < parts.size(); ++i) value += (i > 0 ? " " : "") + parts[i];
    }
    return value;
  }

  // The command that starts a Python program in a text that a shell is given: `bash -c TEXT`,
  // `eval TEXT`. None: empty.
  std::vector<Word> start_in(const std::string& text, int line) {
    Script inner(text, file_);
    inner.level_ = level_ + 1;
    std::vector<Word> command;
    std::string program;
    while (inner.at_ < text.size())
      for (Word& word : inner.next_words()) {
        if (!word.is_operator) {
          command.push_back({std::move(word.text), line, false});
          continue;
        }
        if (arguments_of(command, program) > 0) return command;
        command.clear();
      }
    return arguments_of(command, program) > 0 ? command : std::vector<Word>{};
  }

  // NAME=( words ): kept until perform() sees the assignment.
  std::string array(int line) {
    ++at_;
    std::vector<std::string> words;
    while (true) {
      if (at_ >= text_.size()) fail(line, "a '(' is not closed");
      if (text_[at_] == ')') break;
      for (Word& each : next_words())
        if (!each.is_operator) {
          words.push_back(std::move(each.text));
          array_lines_[words.back()] = each.line;
        }
    }
    ++at_;
    arrays_.push_back(std::move(words));
    return std::string(1, '\0') + std::to_string(arrays_.size() - 1) + std::string(1, '\0');
  }

  static bool is_assignment(const std::string& word) {
    std::size_t at = 0;
    while (at < word.size() && is_name_character(word[at])) ++at;
    if (at == 0 || at >= word.size() || std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return false;
    return word[at] == '=' || (word[at] == '+' && at + 1 < word.size() && word[at + 1] == '=');
  }

  void assign(const std::string& word, int line, bool exported) {
    const std::size_t equals = word.find('=');
    const bool adds = word[equals - 1] == '+';
    const std::string name = word.substr(0, equals - (adds ? 1 : 0));
    const std::string value = word.substr(equals + 1);
    std::vector<std::string> values = {value};
    const bool is_array = !value.empty() && value[0] == '\0';
    if (is_array) values = arrays_.at(std::stoul(value.substr(1, value.find('\0', 1) - 1)));
    std::vector<std::string>& place_of = variables_[name];
    if (adds && is_array)
      place_of.insert(place_of.end(), values.begin(), values.end());
    else if (adds && !place_of.empty())
      place_of.back() += value;
    else
      place_of = values;
    if (exported && values.size() == 1) settings_.add("env." + name, values[0], place(line));
  }

  void perform(const std::vector<Word>& words) {
    std::size_t first = 0;
    if (!words.empty() && (words[0].text == "export" || words[0].text == "declare" ||
                           words[0].text == "local" || words[0].text == "readonly")) {
      for (std::size_t i = 1; i < words.size(); ++i)
        if (is_assignment(words[i].text))
          assign(words[i].text, words[i].line, words[0].text == "export");
      return;
    }
    while (first < words.size() && is_assignment(words[first].text)) ++first;
    if (first == words.size()) {
      for (const Word& word : words) assign(word.text, word.line, false);
      return;
    }
    start(words);
  }

  // Where the program's arguments begin in a command that starts one; 0: it starts none.
  static std::size_t arguments_of(const std::vector<Word>& words, std::string& program) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].text.ends_with(".py")) {
        program = words[i].text;
        return i + 1;
      }
      if (words[i].text == "-m" && i + 1 < words.size() &&
          words[i + 1].text.find("distributed") == std::string::npos &&
          words[i + 1].text.find("torch.run") == std::string::npos &&
          words[i + 1].text.find('=') == std::string::npos) {
        program = words[i + 1].text;
        return i + 2;
      }
    }
    return 0;
  }

  // What `bash -c` and `eval` are given; none: empty.
  static std::string text_for_shell(const std::vector<Word>& words) {
    std::string text;
    if (words[0].text == "eval")
      for (std::size_t i = 1; i < words.size(); ++i) text += words[i].text + " ";
    for (std::size_t i = 0; i + 2 < words.size() && text.empty(); ++i)
      if ((words[i].text == "bash" || words[i].text == "sh") && words[i + 1].text == "-c")
        text = words[i + 2].text;
    return text;
  }

  void start(const std::vector<Word>& words) {
    if (const std::string text = text_for_shell(words); !text.empty() && level_ == 0) {
      const std::vector<Word> inner = start_in(text, words[0].line);
      if (!inner.empty()) return start_python(inner);
    }
    start_python(words);
  }

  void start_python(const std::vector<Word>& words) {
    std::string program;
    const std::size_t begin = arguments_of(words, program);
    if (begin == 0) {
      everything_.insert(everything_.end(), words.begin(), words.end());
      return;
    }
    if (begin == words.size()) return;  // without arguments, such as a tool that prepares data
    if (started_)
      fail(words[begin - 1].line, program + " is started a second time (first in line " +
                                      std::to_string(started_line_) +
                                      "); keep one command that trains");
    started_ = true;
    started_line_ = words[begin - 1].line;
    settings_.add("program", program, place(words[begin - 1].line));
    take_arguments({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin) - 1}, 0,
                   "torchrun.");
    take_arguments(words, begin, "");
  }

  static bool is_option(const std::string& word) {
    return word.size() > 2 && word.starts_with("--") &&
           std::isalpha(static_cast<unsigned char>(word[2])) != 0;
  }

  void take_arguments(const std::vector<Word>& words, std::size_t begin,
                      const std::string& before) {
    for (std::size_t i = begin; i < words.size();) {
      if (!is_option(words[i].text)) {
        ++i;  // of the launcher, or what only the shell knows
        continue;
      }
      const auto line_of = array_lines_.find(words[i].text);
      const int line = line_of == array_lines_.end() ? words[i].line : line_of->second;
      std::string name = words[i].text.substr(2);
      std::vector<std::string> values;
      if (const std::size_t equals = name.find('='); equals != std::string::npos) {
        values.push_back(name.substr(equals + 1));
        name.resize(equals);
      }
      for (++i; i < words.size() && values.empty() && !is_option(words[i].text);) {
        while (i < words.size() && !is_option(words[i].text)) values.push_back(words[i++].text);
      }
      if (before.empty() || name.find('.') == std::string::npos)
        std::replace(name.begin(), name.end(), '_', '-');
      json value = true;
      if (values.size() == 1) value = values[0];
      if (values.size() > 1) value = values;
      settings_.add(before + name, std::move(value), place(line));
    }
  }

  const std::string& text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::map<std::string, std::vector<std::string>, std::less<>> variables_;
  std::vector<std::vector<std::string>> arrays_;
  std::map<std::string, int, std::less<>> array_lines_;  // of an array's option
  std::vector<Branch> branches_;                         // that are open
  std::vector<std::string> documents_;  // `<<EOT` whose lines begin with the next one
  int level_ = 0;                       // of texts inside of texts
  std::vector<Word> everything_;        // words of commands that start no Python program
  Settings settings_{"--"};
  bool started_ = false;
  int started_line_ = 0;
};

}  // namespace

Settings read_arguments(const std::string& text, const std::string& file) {
  if (text.find('\0') != std::string::npos)
    throw InputError(file + ": holds a byte of 0: it is no text");
  return Script(text, file).run();
}

}  // namespace meshwright
