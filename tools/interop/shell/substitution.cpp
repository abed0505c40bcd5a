// Determines what `$(command)` prints if that follows from its words.
#include "tools/interop/shell/expansion.h"

namespace meshwright::interop {

namespace {

std::string joined(const std::vector<ShellWord>& words, std::size_t begin) {
  std::string text;
  for (std::size_t i = begin; i < words.size(); ++i) text += (i > begin ? " " : "") + words[i].text;
  return text;
}

bool is_settled(const std::vector<ShellWord>& words) {
  for (const ShellWord& each : words)
    if (each.text.find_first_of("$`*?") != std::string::npos && each.text != "*") return false;
  return true;
}

std::optional<std::string> sequence(const std::vector<ShellWord>& words) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto number = shell_arithmetic(words[i].text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty() || numbers.size() > 3) return std::nullopt;
  const std::int64_t first = numbers.size() > 1 ? numbers[0] : 1, last = numbers.back();
  const std::int64_t step = numbers.size() == 3 ? numbers[1] : 1;
  if (step < 1 || last - first > 1000 * step) return std::nullopt;
  std::string text;
  for (std::int64_t i = first; i <= last; i += step)
    text += (text.empty() ? "" : " ") + std::to_string(i);
  return text;
}

}  // namespace

std::optional<std::string> printed_by(const std::string& command, int line,
                                      ShellVariables& variables) {
  const ShellScript script = parse_shell(command, variables.file(), line);
  // `# text` between arguments is a comment, and prints nothing.
  if (script.block.empty() && !script.comments.empty()) return "";
  if (script.block.empty() || script.block.size() > 2) return std::nullopt;
  for (const ShellNode& node : script.block)
    if (node.kind != ShellNode::Kind::command || node.words.empty() || node.is_negated)
      return std::nullopt;
  std::vector<ShellWord> words;
  for (const ShellText& each : script.block[0].words)
    for (ShellWord& word : variables.words_of(each)) words.push_back(std::move(word));
  if (words.size() < 2 || !is_settled(words)) return std::nullopt;
  const std::string& name = words[0].text;
  if (script.block.size() == 2) {  // echo "2 * 4" | bc
    const ShellNode& second = script.block[1];
    if (name != "echo" || second.before != "|" || second.words[0].raw != "bc") return std::nullopt;
    const auto value = shell_arithmetic(joined(words, 1));
    return value ? std::optional(std::to_string(*value)) : std::nullopt;
  }
  if (name == "echo")
    return words[1].text.starts_with('-') ? std::nullopt : std::optional(joined(words, 1));
  if (name == "expr") {
    const auto value = shell_arithmetic(joined(words, 1));
    return value ? std::optional(std::to_string(*value)) : std::nullopt;
  }
  if (name == "seq") return sequence(words);
  std::string path = words[1].text;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (name == "dirname")
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (name == "basename") {
    std::string base = slash == std::string::npos ? path : path.substr(slash + 1);
    if (words.size() > 2 && base.ends_with(words[2].text))
      base.resize(base.size() - words[2].text.size());
    return base;
  }
  return std::nullopt;
}

}  // namespace meshwright::interop
