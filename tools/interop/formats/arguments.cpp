// Reads the commands of a shell script for their settings: finds out which commands are performed
// and which one starts the program, and reads the program's arguments.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include "models/core/error.h"
#include "models/core/utf8.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/shell_words.h"

namespace meshwright::interop {

namespace {

using Word = ShellWord;

class Script {
 public:
  Script(const std::string& text, const std::string& file) : file_(file), reader_(text, file) {}

  Settings run() {
    std::vector<Word> command;
    std::string before;  // the operators before the command: "&&", "||", ...
    while (!reader_.at_end()) {
      const std::vector<Word> words = reader_.next();
      for (const Word& comment : reader_.take_comments()) take_batch_line(comment);
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
  // The state of an `if`: the value of its condition so far, and whether one of its branches is
  // certain to have been taken.
  struct Branch {
    std::optional<bool> condition;  // none: only the shell knows
    bool in_condition = true, is_taken = false;
    bool runs() const { return !condition || *condition; }
  };

  bool is_reached(std::size_t levels) const {
    return std::all_of(branches_.begin(), branches_.begin() + static_cast<std::ptrdiff_t>(levels),
                       [](const Branch& each) { return each.runs(); });
  }

  // Performs one command. The words of `if` choose which commands are performed.
  void step(std::vector<Word> words, const std::string& before) {
    const std::string first = words[0].text;
    const auto rest = [&] {
      words.erase(words.begin());
      if (!words.empty()) step(words, ";");
    };
    if (first == "if") {
      if (branches_.size() >= 64) reader_.fail(words[0].line, "more than 64 levels of 'if'");
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

  // Returns the value of a test, `[ ... ]` or `[[ ... ]]`, or nothing if it depends on more than
  // the script itself.
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

  std::string place(int line) const { return file_ + ":" + std::to_string(line); }

  // Adds the options of a comment for Slurm, such as `#SBATCH --nodes=2 --exclusive # ...`, as
  // settings sbatch.NAME. Ignores other comments.
  void take_batch_line(const Word& comment) {
    if (!comment.text.starts_with("#SBATCH ")) return;
    std::istringstream stream(comment.text.substr(8, comment.text.find(" #", 8) - 8));
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
      settings_.add("sbatch." + name, value, place(comment.line));
    }
  }

  // Returns the words of the command that starts a Python program in `text`, which the script
  // passes to a shell: `bash -c TEXT`, `eval TEXT`. Empty if there is none.
  std::vector<Word> start_in(const std::string& text, int line) {
    ShellWords inner(text, file_, 1);
    std::vector<Word> command;
    std::string program;
    while (!inner.at_end())
      for (Word& word : inner.next()) {
        if (!word.is_operator) {
          command.push_back({std::move(word.text), line, false});
          continue;
        }
        if (arguments_of(command, program) > 0) return command;
        command.clear();
      }
    return arguments_of(command, program) > 0 ? command : std::vector<Word>{};
  }

  void assign(const Word& word, bool exported) {
    const std::vector<std::string> values = reader_.assign(word.text);
    const std::size_t end = word.text.find_first_of("+=");
    if (exported && values.size() == 1)
      settings_.add("env." + word.text.substr(0, end), values[0], place(word.line));
  }

  void perform(const std::vector<Word>& words) {
    std::size_t first = 0;
    if (!words.empty() && (words[0].text == "export" || words[0].text == "declare" ||
                           words[0].text == "local" || words[0].text == "readonly")) {
      for (std::size_t i = 1; i < words.size(); ++i)
        if (ShellWords::is_assignment(words[i].text)) assign(words[i], words[0].text == "export");
      return;
    }
    while (first < words.size() && ShellWords::is_assignment(words[first].text)) ++first;
    if (first == words.size()) {
      for (const Word& word : words) assign(word, false);
      return;
    }
    start(words);
  }

  // Returns the index of the program's first argument in a command that starts a Python program.
  // Returns 0 if the command starts none.
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

  // Returns the text that a command passes to a shell with `bash -c` or `eval`. Empty if the
  // command is neither.
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
    if (const std::string text = text_for_shell(words); !text.empty()) {
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
      reader_.fail(words[begin - 1].line, program + " is started a second time (first in line " +
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
      const int line = reader_.line_in_array(words[i].text, words[i].line);
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
        std::ranges::replace(name, '_', '-');
      json value = true;
      if (values.size() == 1) value = values[0];
      if (values.size() > 1) value = values;
      settings_.add(before + name, std::move(value), place(line));
    }
  }

  const std::string& file_;
  ShellWords reader_;
  std::vector<Branch> branches_;  // that are open
  std::vector<Word> everything_;  // words of commands that start no Python program
  Settings settings_{"--"};
  bool started_ = false;
  int started_line_ = 0;
};

}  // namespace

namespace {

bool is_text(const json& value) {
  if (value.is_array()) return std::ranges::all_of(value, is_text);
  const std::string text = value.is_string() ? value.get<std::string>() : std::string();
  return valid_utf8(text) == text.size();
}

}  // namespace

// Only the settings must be UTF-8, not the whole script, because comments may be in another
// encoding.
Settings read_arguments(const std::string& text, const std::string& file) {
  if (text.find('\0') != std::string::npos)
    throw InputError(file + ": contains a null byte, so it is no UTF-8 text");
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::string script =
      text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
  Settings settings = Script(script, file).run();
  for (const Setting& each : settings.all())
    if (!is_text(each.name) || !is_text(each.value))
      throw InputError(each.place + ": holds a byte that is not UTF-8; write the file as UTF-8");
  return settings;
}

}  // namespace meshwright::interop
