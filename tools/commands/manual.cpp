// Runs the command `manual`, which prints all commands and their options, from the rows that --help
// prints, as a manual page (`man`) or as a page of the documentation (`markdown`). With `answers`
// it prints the keys of the commands' JSON output as a page, and with `commands` all commands as
// JSON.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/names_in.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/answers.h"
#include "tools/session/json_text.h"
#include "tools/version.h"

namespace meshwright::tools {

namespace {

// Describes how models/core/output_file.h and models/core/open_file.h treat a file that an option
// names.
struct NamedFile {
  const char* name;
  const char* treatment;
};
constexpr NamedFile named_files[] = {
    {"a new or a regular file to write",
     "written under a new name in the same folder, `.meshwright-*.part`, and renamed; until then, "
     "and after a fault, the old file stays. A replaced file keeps its permissions; another hard "
     "link to it keeps the old content; a read-only file is refused"},
    {"a link to write",
     "it stays, and the file to which it leads is written, or made; another user's link in a "
     "folder "
     "that all may write to is refused"},
    {"a pipe or a device to write, `/dev/stdout`, `>(COMMAND)`",
     "written through; a named pipe without a reader is an error after ten seconds"},
    {"a folder, a socket or a disk to write", "refused"},
    {"a file to read",
     "a regular file, `/dev/stdin` or `<(COMMAND)`; pipes with a name, devices, folders and "
     "sockets are refused"}};

std::string call_of(const Command& command) {
  std::string text = command.name;
  if (*command.operand != '\0') text += std::string(" ") + command.operand;
  return text;
}

// Turns a summary, which begins in lower case and has no full stop, into a sentence.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (text.back() != '.') text += '.';
  return text;
}

// Escapes `text` for roff, where a line that begins with . or ' would be a request and - would be a
// hyphen. `code` becomes bold.
std::string roff(std::string_view text) {
  std::string result;
  bool bold = false;
  for (const char c : text) {
    if (c == '`') {
      bold = !bold;
      result += bold ? "\\fB" : "\\fR";
    } else if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
      result += c;
    }
  }
  return result;
}

void print_man() {
  const std::string_view version = version_text().substr(0, version_text().find('\n'));
  std::string page = ".TH MESHWRIGHT 1 \"\" \"" + roff(version) + "\" \"User Commands\"\n";
  page += ".SH NAME\nmeshwright \\- plan, predict and run distributed training\n";
  page += ".SH SYNOPSIS\n.B meshwright\n.I COMMAND\n.RI [ OPERANDS ]\n.RI [ OPTIONS ]\n";
  page +=
      ".SH DESCRIPTION\nmeshwright plans the distributed training of deep networks, predicts its "
      "time,\nmemory and cost without the machines, and runs it. A job is a JSON file: "
      "\\fBmeshwright schema\\fR\ndescribes its keys.\n.SH COMMANDS\n";
  for (const Command* command : all_commands) {
    page += ".SS " + roff(call_of(*command)) + "\n" + roff(sentence(command->summary)) + "\n";
    if (*command->details != '\0') page += roff(command->details) + "\n";
    if (*command->operand != '\0')
      page += ".TP\n.I " + roff(command->operand) + "\n" + roff(command->operand_help) + "\n";
    for (const OptionName& option : options_of(*command)) {
      if (option.name == "--help") continue;
      page += ".TP\n.B " + roff(option.name);
      if (!option.value.empty()) page += " \\fI" + roff(option.value) + "\\fR";
      page += "\n" + roff(option.help) + "\n";
    }
  }
  page += ".SH EXIT STATUS\n";
  for (const ExitCodeMeaning& code : exit_code_meanings)
    page += ".TP\n.B " + std::to_string(code.code) + "\n" + roff(code.meaning) + "\n";
  page += ".SH FILES\n";
  for (const NamedFile& file : named_files)
    page += ".TP\n" + roff(file.name) + "\n" + roff(file.treatment) + "\n";
  page += ".SH ENVIRONMENT\n";
  for (const Variable& variable : variables_read)
    page += ".TP\n.B " + roff(variable.name) + "\n" + roff(variable.meaning) + "\n";
  std::fputs(page.c_str(), stdout);
}

// Escapes `text` for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

// Turns each docs/NAME.md in `text` into a Markdown link.
std::string with_links(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find("docs/", at);
    const std::size_t end = begin == text.npos ? text.npos : text.find(".md", begin);
    if (end == text.npos) return result + std::string(text.substr(at));
    const std::string name(text.substr(begin + 5, end - begin - 5));
    result += std::string(text.substr(at, begin - at)) + "[" + name + "](" + name + ".md)";
    at = end + 3;
  }
  return result;
}

void print_markdown() {
  std::string page =
      "# Commands\n\n<!-- `tools/update_docs` writes this page: `meshwright manual markdown`. -->\n"
      "\n`meshwright COMMAND --help` prints what this page says of a command. `meshwright manual` "
      "prints the manual page.\n\n| command | does |\n|---|---|\n";
  for (const Command* command : all_commands)
    page += std::string("| [`") + call_of(*command) + "`](#" + command->name + ") | " +
            cell(command->summary) + " |\n";
  page += "\n## Exit codes\n\n| code | means |\n|---|---|\n";
  for (const ExitCodeMeaning& code : exit_code_meanings)
    page += "| " + std::to_string(code.code) + " | " + code.meaning + " |\n";
  page += "\n## Files\n\n| what is named | what is done |\n|---|---|\n";
  for (const NamedFile& file : named_files)
    page += std::string("| ") + file.name + " | " + file.treatment + " |\n";
  page += "\n## Environment\n\n| variable | means |\n|---|---|\n";
  for (const Variable& variable : variables_read)
    page += std::string("| `") + variable.name + "` | " + variable.meaning + " |\n";
  for (const Command* command : all_commands) {
    page += std::string("\n## ") + command->name + "\n\n`meshwright " + call_of(*command) +
            "`: " + command->summary + ".\n";
    if (*command->details != '\0') page += "\n" + with_links(command->details) + "\n";
    page += "\n| | |\n|---|---|\n";
    if (*command->operand != '\0')
      page += std::string("| `") + command->operand + "` | " + cell(command->operand_help) + " |\n";
    for (const OptionName& option : options_of(*command))
      page += "| `" + option.name + (option.value.empty() ? "" : " " + option.value) + "` | " +
              cell(with_links(option.help)) + " |\n";
  }
  std::fputs(page.c_str(), stdout);
}

void print_answers() {
  std::string page =
      "# Answers in JSON\n\n<!-- `tools/update_docs` writes this page: `meshwright manual "
      "answers`. "
      "-->\n\n`--json` prints one JSON object on standard output and nothing else. Numbers are in "
      "SI units; the unit is in the key. `meshwright schema simulate` (`plan`, `advise`, ...) "
      "prints these tables as a JSON Schema. `[]` is a list, `*` any name; a key that ends with "
      "`?` is not always there. Types that several answers have come last.\n";
  const auto add = [&](const AnswerTable& table) {
    page += "\n## " + std::string(table.name) + "\n\n";
    if (table.name == "errors")
      page += "Of `validate`; `cluster errors` have `cluster` in place of `source`.\n\n";
    page += "| key | type | |\n|---|---|---|\n";
    for (const AnswerKey& key : table.keys)
      page += "| `" + std::string(key.path) + "` | " + std::string(key.type) + " | " +
              cell(key.meaning) + " |\n";
  };
  for (const AnswerTable& table : answer_tables()) add(table);
  for (const AnswerTable& type : answer_types()) add(type);
  std::fputs(page.c_str(), stdout);
}

// Prints the commands and their options, except --help and --json, as JSON. tools/python/generate
// makes the calls of the Python package from it.
void print_commands() {
  json commands = json::object();
  for (const Command* command : all_commands) {
    json options = json::array();
    for (const OptionName& option : options_of(*command))
      if (option.name != "--help" && option.name != "--json")
        options.push_back({{"name", option.name.substr(2)},
                           {"value", option.value},
                           {"help", option.help},
                           {"words", option.words}});
    commands[command->name] = {
        {"operand", command->operand},           {"operand_help", command->operand_help},
        {"summary", command->summary},           {"details", command->details},
        {"is_call", command->answer != nullptr}, {"options", options}};
  }
  print_text(json_text({{"commands", commands}}));
}

struct Format {
  const char* name;
  void (*print)();
};
constexpr Format formats[] = {{"man", print_man},
                              {"markdown", print_markdown},
                              {"answers", print_answers},
                              {"commands", print_commands}};

int run_manual(const Options& options) {
  const std::string format = options.operands.empty() ? "man" : options.operands[0];
  const auto row = std::ranges::find(formats, format, [](const Format& each) { return each.name; });
  if (row == std::end(formats) || options.operands.size() > 1)
    throw InputError("manual: say in which format: " + list_of(names_in(formats)));
  row->print();
  return done;
}

}  // namespace

const Command manual_command = {
    "manual",
    "FORMAT",
    "man (also without this operand); markdown: docs/commands.md; answers: docs/answers.md; "
    "commands: all of it as JSON",
    "all commands and options, as a manual page",
    "",
    run_manual,
    "To read it: `meshwright manual > meshwright.1`, then `man ./meshwright.1`.",
    nullptr,
    [] { return names_in(formats); }};

}  // namespace meshwright::tools
