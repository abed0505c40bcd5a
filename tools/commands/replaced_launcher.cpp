#include "tools/commands/replaced_launcher.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>
#include <string_view>

namespace meshwright::tools {

namespace {

using Words = std::vector<std::string>;

struct Launcher {
  std::vector<std::string_view> names;  // of programs, and of modules after `python -m`
  std::vector<std::string_view> ranks;  // options with the number of ranks, per host or in total
  std::string_view hosts;               // option with the number of hosts, if ranks are per host
  std::optional<int> silent;            // number of ranks if no option gives it
};

const std::vector<Launcher> launchers = {
    {{"torchrun", "torch.distributed.run", "torch.distributed.launch"},
     {"nproc-per-node"},
     "nnodes",
     1},
    {{"accelerate", "accelerate-launch", "accelerate.commands.launch"}, {"num-processes"}, "", {}},
    {{"deepspeed"}, {"num-gpus"}, "num-nodes", {}},
    {{"mpirun", "mpiexec"}, {"n", "np"}, "", {}},
    {{"horovodrun"}, {"np", "num-proc"}, "", {}},
    {{"srun"}, {"n", "ntasks"}, "", {}}};

std::string file_name(const std::string& word) {
  return std::filesystem::path(word).filename().string();
}

bool is_python(const std::string& word) {
  return file_name(word).starts_with("python") && word.find('=') == std::string::npos;
}

bool begins_script(const std::string& word) {
  return word == "-m" || word == "--module" || word.ends_with(".py") || is_python(word);
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return {};
  return number;
}

void read_options(const Launcher& launcher, std::span<const std::string> words,
                  ReplacedLauncher& found) {
  std::optional<int> ranks = launcher.silent, hosts = 1;
  for (std::size_t at = 0; at < words.size();) {
    const std::string& word = words[at];
    const std::size_t next =
        std::ranges::find_if(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end(),
                             [](const std::string& each) { return each.starts_with('-'); }) -
        words.begin();
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    name.erase(0, name.find_first_not_of('-'));
    std::ranges::replace(name, '_', '-');
    const std::string value = equals != std::string::npos ? word.substr(equals + 1)
                              : at + 1 < next             ? words[at + 1]
                                                          : "";
    if (std::ranges::count(launcher.ranks, name)) {
      ranks = number_in(value);
    } else if (name == launcher.hosts) {
      hosts = number_in(value);
    } else if (word.starts_with('-')) {
      if (!found.lost.empty()) found.lost += ", ";
      for (std::size_t i = at; i < next; ++i) found.lost += (i > at ? " " : "") + words[i];
    }
    at = next;
  }
  if (ranks && hosts) found.ranks = *ranks * *hosts;
}

}  // namespace

ReplacedLauncher replace_launcher(const Words& command) {
  if (command.empty()) return {};
  auto program = command.begin();
  if (is_python(*program)) {
    program = std::find_if(program + 1, command.end(), begins_script);
    if (command.end() - program < 2 || *program++ != "-m") return {command};
  }
  const auto row = std::ranges::find_if(launchers, [&](const Launcher& each) {
    return std::ranges::count(each.names, file_name(*program)) > 0;
  });
  if (row == launchers.end()) return {command};
  const auto script = std::find_if(program + 1, command.end(), begins_script);
  ReplacedLauncher found;
  found.name = row->names.front();
  read_options(*row, {program + 1, script}, found);
  if (script == command.end() || is_python(*script)) {
    found.command = {script, command.end()};
    return found;
  }
  // The script is run by the launcher's Python: the one before `-m`, or the one in the folder of
  // the launcher's path. A launcher without a path has none.
  if (program != command.begin())
    found.command = {command.begin(), program - 1};
  else if (program->find('/') != std::string::npos)
    found.command = {std::filesystem::path(*program).replace_filename("python3")};
  found.command.push_back(*script == "--module" ? "-m" : *script);
  found.command.insert(found.command.end(), script + 1, command.end());
  return found;
}

}  // namespace meshwright::tools
