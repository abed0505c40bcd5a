#include "tools/commands/completion_words.h"

#include <algorithm>
#include <string_view>

#include "models/core/names_in.h"
#include "models/job/keys.h"
#include "tools/commands/commands.h"

namespace meshwright::tools {

namespace {

using Words = std::vector<std::string>;

// Returns the words that a key of the job accepts, among them "auto" if the key may be that. A key
// that takes numbers has no other words.
Words values_of(const Section& section, const Key& key) {
  if (section.name == "cluster" && key.name == "machine") return names_listed("machines");
  Words words = words_of(key);
  if (type_of(key).starts_with("bool")) words = {"true", "false"};
  if (key.may_be_auto()) words.emplace_back("auto");
  return words;
}

// Returns arguments of --set. Before `begun` has a '=', these are KEY= for the keys of the job.
// After that, these are KEY=VALUE for every word that the typed key accepts.
Words overrides(const std::string& begun) {
  const std::size_t end = begun.find('=');
  const std::string key_typed = begun.substr(0, end);
  Words words;
  const auto offer = [&](const std::string& key, const auto& values) {
    if (end == std::string::npos)
      words.push_back(key + "=");
    else if (key == key_typed)
      for (const std::string& value : values()) words.push_back(begun.substr(0, end + 1) + value);
  };
  offer("model", [] { return names_listed("models"); });
  offer("parallelism", [] { return Words{"auto"}; });
  for (const Section& section : sections_of_keys())
    for (const Key& key : section.keys)
      offer(std::string(section.name) + "." + std::string(key.name),
            [&] { return values_of(section, key); });
  return words;
}

Completion values_of(const OptionName& option, const std::string& begun) {
  if (option.name == "--set") return {overrides(begun)};
  return {option.words, option.value.starts_with("FILE")};
}

Completion operands(const Command& command, const Words& typed) {
  const bool second = typed.size() > 2 && !typed[1].starts_with('-');
  if (command.name == std::string_view("list") && second)
    return {typed[1] == "machines" || typed[1] == "frameworks" ? names_listed(typed[1]) : Words()};
  if (command.words != nullptr) return {command.words()};
  return {{}, *command.operand != '\0'};
}

Completion all_of(const Words& typed) {
  if (typed.size() <= 1) {
    Completion all;
    for (const Command* command : all_commands) all.words.emplace_back(command->name);
    for (const char* word : {"help", "--help", "--version"}) all.words.emplace_back(word);
    return all;
  }
  const std::string& begun = typed.back();
  const std::string& before = typed[typed.size() - 2];
  for (const Command* command : all_commands) {
    if (typed[0] != command->name) continue;
    const std::vector<OptionName> options = options_of(*command);
    for (const OptionName& option : options)
      if (option.name == before && !option.value.empty()) return values_of(option, begun);
    if (!begun.starts_with('-')) return operands(*command, typed);
    return {names_in(options)};
  }
  return typed[0] == "help" ? all_of({""}) : Completion();
}

}  // namespace

Completion completion_of(const std::vector<std::string>& typed) {
  Completion found = all_of(typed);
  const std::string begun = typed.empty() ? "" : typed.back();
  std::erase_if(found.words, [&](const std::string& word) { return !word.starts_with(begun); });
  return found;
}

}  // namespace meshwright::tools
