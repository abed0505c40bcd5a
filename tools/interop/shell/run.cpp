#include "tools/interop/shell/run.h"

#include <fnmatch.h>

#include <algorithm>
#include <list>
#include <sstream>

#include "models/core/error.h"
#include "tools/interop/shell/written_files.h"

namespace meshwright::interop {

namespace {

constexpr int most_scripts = 8;    // most scripts and functions inside of each other
constexpr int most_rounds = 1000;  // of all loops together
constexpr std::size_t most_commands = 20'000;

bool ends_as_script(const std::string& word) {
  for (const char* ending : {".sh", ".sbatch", ".slurm", ".bash", ".job"})
    if (word.ends_with(ending) && word.size() > 4) return true;
  return false;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

class ShellWalk {
 public:
  ShellWalk(const ShellSources& sources, bool performs_all)
      : sources_(sources), performs_all_(performs_all), written_(sources.beside) {}

  ShellOutcome run(const std::string& text, const std::string& file) {
    for (const auto& [name, value] : sources_.defines) variables_.define(name, value);
    enter(file);
    script(text, 1);
    outcome_.written = written_.take();
    return std::move(outcome_);
  }

 private:
  void enter(const std::string& file) {
    outcome_.files.push_back(file);
    variables_.enter(file, static_cast<int>(outcome_.files.size()) - 1);
  }

  // Walks a text. The parsed script is kept, because functions that it defines point into it.
  void script(const std::string& text, int line) {
    if (++level_ > most_scripts) return void(--level_);
    scripts_.push_back(parse_shell(text, variables_.file(), line));
    const ShellScript& read = scripts_.back();
    std::vector<StarterSetting> queue;
    for (const ShellText& comment : read.comments)
      for (StarterSetting& each :
           queue_settings({comment.raw, comment.line, variables_.file_index()}))
        queue.push_back(std::move(each));
    know_queue(queue);
    for (StarterSetting& each : queue) outcome_.queue.push_back(std::move(each));
    block(read, read.block);
    --level_;
  }

  // Sets the environment variables that Slurm derives from the options of a job or of a starter.
  void know_queue(const std::vector<StarterSetting>& settings) {
    std::map<std::string, std::string> said;
    for (const StarterSetting& each : settings)
      said[each.name.substr(each.name.find('.') + 1)] = each.value;
    const auto set = [&](const char* option, std::initializer_list<const char*> names) {
      if (!said.contains(option) || !shell_arithmetic(said[option])) return;
      for (const char* name : names) variables_.set(name, said[option], 0);
    };
    if (said.contains("gres") && !said.contains("gpus-per-node"))
      said["gpus-per-node"] = said["gres"].substr(said["gres"].rfind(':') + 1);
    set("nodes", {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    set("ntasks-per-node", {"SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
    set("gpus-per-node", {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
    set("ntasks", {"SLURM_NTASKS", "SLURM_NPROCS"});
    const auto nodes = said.contains("nodes") ? shell_arithmetic(said["nodes"]) : std::nullopt;
    const auto each =
        said.contains("ntasks-per-node") ? shell_arithmetic(said["ntasks-per-node"]) : std::nullopt;
    if (nodes && each && !said.contains("ntasks"))
      for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"})
        variables_.set(name, std::to_string(*nodes * *each), 0);
  }

  // Performs commands in order, as far as && and || let it. Returns the status of the last one that
  // it performed.
  ShellStatus block(const ShellScript& script, const ShellBlock& nodes) {
    ShellStatus last;
    for (const ShellNode& node : nodes) {
      if (has_stopped_ || outcome_.commands.size() > most_commands) return last;
      const bool is_and = node.before == "&&", is_or = node.before == "||";
      if (!is_and && !is_or) last = {};
      if ((is_and && last.value == false) || (is_or && last.value == true)) {
        if (!last.doubts.empty()) skip(script, node, last.doubts);
        continue;
      }
      const bool is_open = (is_and || is_or) && !last.value;
      const ShellDoubts before = doubts_;
      if (is_and || is_or) doubts_.insert(last.doubts.begin(), last.doubts.end());
      undecided_ += is_open ? 1 : 0;
      ShellStatus status = one(script, node);
      undecided_ -= is_open ? 1 : 0;
      doubts_ = before;
      if (node.is_negated && status.value) status.value = !*status.value;
      status.doubts.insert(last.doubts.begin(), last.doubts.end());
      if (is_open) status.value = std::nullopt;
      last = std::move(status);
    }
    return last;
  }

  // Leaves out a command that a condition decides against. Variables that it would set get the
  // doubts. With performs_all_ and a doubt, the command is performed instead.
  void skip(const ShellScript& script, const ShellNode& node, const ShellDoubts& doubts) {
    if (performs_all_ && !doubts.empty()) {
      ++undecided_;
      one(script, node);
      --undecided_;
      return;
    }
    mark(node, doubts);
  }
  void skip(const ShellScript& script, const ShellBlock& nodes, const ShellDoubts& doubts) {
    for (const ShellNode& node : nodes) skip(script, node, doubts);
  }

  void mark(const ShellNode& node, const ShellDoubts& doubts) {
    for (const ShellText& word : node.words)
      if (is_shell_assignment(word.raw))
        variables_.doubt(word.raw.substr(0, word.raw.find_first_of("=+[")), doubts);
    for (const ShellBranch& branch : node.branches)
      for (const ShellNode& each : branch.body) mark(each, doubts);
    for (const ShellNode& each : node.body) mark(each, doubts);
  }

  ShellStatus one(const ShellScript& script, const ShellNode& node) {
    switch (node.kind) {
      case ShellNode::Kind::command:
        return simple(script, node);
      case ShellNode::Kind::group:
        return block(script, node.body);
      case ShellNode::Kind::branches:
        return branches(script, node);
      case ShellNode::Kind::cases:
        return cases(script, node);
      case ShellNode::Kind::loop_over:
        return loop_over(script, node);
      case ShellNode::Kind::loop_while:
        return loop_while(script, node);
      case ShellNode::Kind::function:
        functions_[variables_.text_of(node.words[0])] = {&script, &node.body};
        return {};
    }
    return {};
  }

  void perform(const ShellScript& script, const ShellBlock& nodes, const ShellDoubts& doubts,
               bool is_open) {
    const ShellDoubts before = doubts_;
    doubts_.insert(doubts.begin(), doubts.end());
    undecided_ += is_open ? 1 : 0;
    block(script, nodes);
    undecided_ -= is_open ? 1 : 0;
    doubts_ = before;
  }

  ShellStatus branches(const ShellScript& script, const ShellNode& node) {
    ShellDoubts doubts;
    bool is_decided = false, was_open = false;
    for (const ShellBranch& branch : node.branches) {
      if (is_decided) {
        skip(script, branch.body, doubts);
        continue;
      }
      const bool is_else = branch.condition.empty();
      const ShellStatus status = is_else ? ShellStatus{} : block(script, branch.condition);
      doubts.insert(status.doubts.begin(), status.doubts.end());
      is_decided = status.value == true;
      was_open = was_open || !status.value;
      if (status.value == false)
        skip(script, branch.body, doubts);
      else
        perform(script, branch.body, doubts, was_open);
    }
    return {};
  }

  ShellStatus cases(const ShellScript& script, const ShellNode& node) {
    const ShellDoubts outer = variables_.take_doubts();
    const auto subject = variables_.known_text_of(node.words[0]);
    ShellDoubts doubts = variables_.take_doubts();
    if (!subject)
      doubts.insert("only the machine knows " + node.words[0].raw + " of 'case' in line " +
                    std::to_string(node.line));
    bool is_done = false;
    for (const ShellBranch& branch : node.branches) {
      const bool takes =
          !is_done && std::ranges::any_of(branch.patterns, [&](const ShellText& pattern) {
            return subject ? fnmatch(variables_.text_of(pattern).c_str(), subject->c_str(), 0) == 0
                           : pattern.raw == "*";
          });
      is_done = is_done || takes;
      if (takes)
        perform(script, branch.body, doubts, !subject);
      else if (!doubts.empty())
        skip(script, branch.body, doubts);
    }
    return {};
  }

  ShellStatus loop_over(const ShellScript& script, const ShellNode& node) {
    if (node.words.empty()) {  // for ((...)): one round
      block(script, node.body);
      return {};
    }
    const std::string name = node.words[0].raw;
    std::vector<ShellWord> values;
    for (std::size_t i = 1; i < node.words.size(); ++i)
      for (ShellWord& each : variables_.words_of(node.words[i])) values.push_back(std::move(each));
    if (const ShellVariable* given = variables_.find(name);
        given != nullptr && sources_.defines.contains(name))
      values = given->items;
    const bool was_repeated = is_repeated_;
    for (std::size_t i = 0; i < values.size() && ++rounds_ < most_rounds && !has_stopped_; ++i) {
      variables_.set(name, values[i].text, node.line);
      is_repeated_ = was_repeated || i > 0;
      if (values.size() > 1)
        variables_.doubt(name, {"of the loop over " + name + " in line " +
                                std::to_string(node.line) + " the first round is read, with " +
                                values[0].text + "; --define " + name + "=VALUE says another"});
      block(script, node.body);
    }
    is_repeated_ = was_repeated;
    return {};
  }

  ShellStatus loop_while(const ShellScript& script, const ShellNode& node) {
    const bool was_repeated = is_repeated_;
    for (int i = 0; ++rounds_ < most_rounds && !has_stopped_; ++i) {
      const ShellStatus status = block(script, node.condition);
      if (!status.value || *status.value == node.is_until) {
        skip(script, node.body, status.doubts);
        break;
      }
      is_repeated_ = was_repeated || i > 0;
      block(script, node.body);
      // A condition of one word, such as `true`, would never end the loop.
      if (node.condition.size() == 1 && node.condition[0].words.size() == 1) break;
    }
    is_repeated_ = was_repeated;
    return {};
  }

  void assign(const ShellText& word, bool is_exported) {
    const std::string name = variables_.assign(word, doubts_);
    const ShellVariable* variable = variables_.find(name);
    if (is_exported && variable != nullptr && variable->items.size() == 1)
      outcome_.exports.push_back(
          {name, variable->items[0].text, word.line, variables_.file_index()});
  }

  ShellStatus simple(const ShellScript& script, const ShellNode& node) {
    const std::vector<ShellText>& words = node.words;
    if (words.empty()) return {};
    const std::string& name = words[0].raw;
    if (name == "[[" || name == "[" || name == "((" || name == "test")
      return tested(words, variables_);
    if (is_one_of(name, {"export", "declare", "typeset", "local", "readonly", "let"})) {
      for (std::size_t i = 1; i < words.size(); ++i)
        if (is_shell_assignment(words[i].raw)) assign(words[i], name == "export");
      return {};
    }
    std::size_t first = 0;
    while (first < words.size() && is_shell_assignment(words[first].raw)) ++first;
    if (first == words.size()) {
      for (const ShellText& word : words) assign(word, false);
      return {};
    }
    std::vector<ShellWord> all;
    variables_.take_doubts();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i < first) {
        all.push_back({variables_.text_of(words[i]), words[i].line, variables_.file_index()});
        continue;
      }
      for (ShellWord& each : variables_.words_of(words[i])) all.push_back(std::move(each));
    }
    ShellDoubts doubts = variables_.take_doubts();
    doubts.insert(doubts_.begin(), doubts_.end());
    return command(script, node, std::move(all), first, doubts);
  }

  ShellStatus command(const ShellScript& script, const ShellNode& node,
                      std::vector<ShellWord> words, std::size_t first, const ShellDoubts& doubts) {
    if (first >= words.size()) return {};
    const std::string name = words[first].text;
    const std::vector<ShellWord> rest(words.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                                      words.end());
    if (name == "true" || name == ":") return {};
    if (name == "false" || name == "read") return {false, {}};
    if (name == "exit" || name == "return") {
      if (undecided_ == 0 && is_inside_ == 0 && doubts_.empty()) has_stopped_ = true;
      return {};
    }
    if (name == "set" || name == "shift" || name == "unset")
      return parameters(name, rest), ShellStatus{};
    if (name == "eval") {
      std::string text;
      for (const ShellWord& each : rest) text += each.text + " ";
      if (!rest.empty()) script_inside(text, words[first].line, {});
      return {};
    }
    if (name == "source" || name == ".") {
      if (!rest.empty()) source(rest);
      return {};
    }
    if (const auto known = functions_.find(name); known != functions_.end()) {
      call(known->second, rest);
      return {};
    }
    write(script, node, words, first);
    if (starts_nothing(name))
      return {is_one_of(program_of(name), {"grep", "which", "command", "type"})
                  ? std::nullopt
                  : std::optional(true),
              {}};
    if (!node.documents.empty() && script_of_document(script, node, words)) return {};
    if (inner_text(words, first)) return {};
    outcome_.commands.push_back({prefixed(std::move(words)), doubts, is_repeated_});
    return {};
  }

  std::vector<ShellWord> prefixed(std::vector<ShellWord> words) const {
    std::vector<ShellWord> all = prefix_;
    all.insert(all.end(), std::make_move_iterator(words.begin()),
               std::make_move_iterator(words.end()));
    return all;
  }

  void parameters(const std::string& name, const std::vector<ShellWord>& rest) {
    std::vector<std::string>& values = variables_.positional;
    if (name == "shift") {
      const auto count =
          rest.empty() ? std::optional<std::int64_t>(1) : shell_arithmetic(rest[0].text);
      const std::int64_t left = std::clamp<std::int64_t>(count.value_or(1), 0, std::ssize(values));
      values.erase(values.begin(), values.begin() + left);
    } else if (name == "unset") {
      for (const ShellWord& each : rest) variables_.unset(each.text);
    } else if (!rest.empty() && rest[0].text == "--") {
      values.clear();
      for (std::size_t i = 1; i < rest.size(); ++i) values.push_back(rest[i].text);
    }
  }

  void source(const std::vector<ShellWord>& rest) {
    const auto text = sources_.beside ? sources_.beside(rest[0].text) : std::nullopt;
    if (!text) {
      outcome_.missing.push_back(rest[0].text);
      return;
    }
    const std::string file = variables_.file();
    const int index = variables_.file_index();
    enter(rest[0].text);
    script(*text, 1);
    variables_.enter(file, index);
  }

  struct Function {
    const ShellScript* script;
    const ShellBlock* body;
  };
  void call(const Function& function, const std::vector<ShellWord>& rest) {
    if (++level_ > most_scripts) return void(--level_);
    std::vector<std::string> values;
    for (const ShellWord& each : rest) values.push_back(each.text);
    std::swap(values, variables_.positional);
    ++is_inside_;
    block(*function.script, *function.body);
    --is_inside_;
    std::swap(values, variables_.positional);
    --level_;
  }

  // Remembers the files that a command writes.
  void write(const ShellScript& script, const ShellNode& node, const std::vector<ShellWord>& words,
             std::size_t first) {
    std::optional<std::string> document;
    for (const int each : node.documents)
      document = variables_.text_of(script.documents[static_cast<std::size_t>(each)]);
    std::vector<std::string> texts, outputs;
    for (std::size_t i = first; i < words.size(); ++i) texts.push_back(words[i].text);
    for (const ShellText& output : node.outputs) outputs.push_back(variables_.text_of(output));
    written_.perform(texts, document, outputs, node.before == "|");
  }

  // Walks the here-document of a command as a script, because commands such as sbatch, bash and ssh
  // run their input. Returns false if the command has a Python interpreter, whose input is no shell
  // script.
  bool script_of_document(const ShellScript& script, const ShellNode& node,
                          const std::vector<ShellWord>& words) {
    if (std::ranges::any_of(words, [](const ShellWord& each) { return is_python(each.text); }))
      return false;
    const ShellDocument& document =
        script.documents[static_cast<std::size_t>(node.documents.front())];
    script_inside(variables_.text_of(document), document.line, words);
    return true;
  }

  // Walks `text` as a script that the command `words` starts.
  void script_inside(const std::string& text, int line, const std::vector<ShellWord>& words) {
    const std::vector<ShellWord> before = prefix_;
    prefix_ = prefixed(words);
    know_queue(starter_settings(prefix_));
    const bool had_stopped = has_stopped_;
    const int level = level_;
    try {
      script(text, std::max(line, 1));
    } catch (const InputError&) {
      // Variables can bring in text that is no script: a quote in a comment, for example. Its words
      // then count as those of one command.
      level_ = level;
      outcome_.commands.push_back({prefixed(split_at_blanks(text, line)), doubts_, is_repeated_});
    }
    has_stopped_ = had_stopped;
    prefix_ = before;
  }

  std::vector<ShellWord> split_at_blanks(const std::string& text, int line) const {
    std::vector<ShellWord> words;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.push_back({word, line, variables_.file_index()});
    return words;
  }

  // Walks the script that a command has as a word (`bash -c TEXT`), or names (`bash run.sh`), and
  // returns whether there was one. A word with blanks is a script if it follows -c or a similar
  // option, or if it mentions Python, torchrun or -m.
  bool inner_text(const std::vector<ShellWord>& words, std::size_t first) {
    for (std::size_t i = first; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      // The words after a program of Python are its arguments.
      if (text.ends_with(".py") && text.find_first_of(" \t\n") == std::string::npos) return false;
      const std::vector<ShellWord> before(words.begin(),
                                          words.begin() + static_cast<std::ptrdiff_t>(i));
      if (text.starts_with('`') || text.starts_with("$(")) continue;  // only the shell knows
      if (text.find_first_of(" \t\n") != std::string::npos) {
        const bool is_command =
            i > first &&
            is_one_of(words[i - 1].text, {"-c", "-lc", "-ic", "-xc", "-exc", "-ec", "-ce"});
        const bool runs =
            text.find(".py") != std::string::npos || text.find("torchrun") != std::string::npos ||
            text.find("python") != std::string::npos || text.find("-m ") != std::string::npos;
        if (!is_command && !runs) continue;
        script_inside(text, words[i].line, before);
        return true;
      }
      if (!ends_as_script(text)) continue;
      const auto read = sources_.beside ? sources_.beside(text) : std::nullopt;
      if (!read) {
        outcome_.missing.push_back(text);
        continue;
      }
      named_script(*read, words, i);
      return true;
    }
    return false;
  }

  void named_script(const std::string& text, const std::vector<ShellWord>& words, std::size_t at) {
    std::vector<std::string> values;
    for (std::size_t i = at + 1; i < words.size(); ++i) values.push_back(words[i].text);
    std::swap(values, variables_.positional);
    const std::string file = variables_.file();
    const int index = variables_.file_index();
    enter(words[at].text);
    script_inside(text, 1, {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at)});
    variables_.enter(file, index);
    std::swap(values, variables_.positional);
  }

  const ShellSources& sources_;
  bool performs_all_;
  WrittenFiles written_;
  ShellVariables variables_;
  ShellOutcome outcome_;
  std::list<ShellScript> scripts_;
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<ShellWord> prefix_;  // words of the commands that start the current script
  ShellDoubts doubts_;             // of the current branch
  int undecided_ = 0, level_ = 0, rounds_ = 0, is_inside_ = 0;
  bool has_stopped_ = false, is_repeated_ = false;
};

}  // namespace

ShellOutcome walk_shell(const std::string& text, const std::string& file,
                        const ShellSources& sources, bool performs_all) {
  return ShellWalk(sources, performs_all).run(text, file);
}

}  // namespace meshwright::interop
