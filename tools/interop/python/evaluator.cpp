#include "tools/interop/python/evaluator.h"

#include <algorithm>
#include <filesystem>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/python/body.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;
namespace fs = std::filesystem;

constexpr int deepest_call = 24;

}  // namespace

void PythonFile::read(const std::string& text) {
  check_text(text, file_);
  tokens_ = python_tokens(text, file_);
  find_functions();
}

void PythonFile::find_functions() {
  int indent = 0;
  bool begins = true;
  for (std::size_t at = 0; at < tokens_.size(); ++at) {
    const PythonToken& token = tokens_[at];
    if (token.kind == Kind::line_end) {
      if (token.indent >= 0) indent = token.indent;
      begins = true;
      continue;
    }
    if (!begins || indent != 0) continue;
    begins = false;
    if (token.kind != Kind::name || at + 2 >= tokens_.size()) continue;
    if (token.text == "from" || token.text == "import") read_import(at);
    std::size_t sign = at + 1;
    if (tokens_[sign].text == ":" && token.text != "else")  // NAME: TYPE = VALUE
      while (tokens_[sign].kind != Kind::line_end && tokens_[sign].text != "=") ++sign;
    if (tokens_[sign].kind == Kind::sign && tokens_[sign].text == "=") {
      PythonBody body(*this, {}, sign + 1, tokens_.size(), 0);
      constants_[token.text] = body.value();
    }
    if (token.text != "def") continue;
    const PythonFunction function = function_at(at);
    functions_[function.name] = function;
    at = function.end - 1;
  }
  work_.raised.clear();
}

// Returns the function whose `def` is the token at `at`.
PythonFunction PythonFile::function_at(std::size_t at) {
  PythonFunction function;
  function.name = tokens_[at + 1].text;
  function.line = tokens_[at].line;
  const std::size_t close = std::min(closing_bracket(tokens_, at + 2), tokens_.size() - 1);
  for (std::size_t p = at + 3; p < close; ++p) {
    if (tokens_[p].kind != Kind::name) continue;
    const std::string name = tokens_[p].text;
    json usual = open_value(name);
    int depth = 0;
    for (; p < close && (depth > 0 || tokens_[p].text != ","); ++p) {
      if (tokens_[p].kind != Kind::sign) continue;
      if (tokens_[p].text == "[" || tokens_[p].text == "(") ++depth;
      if (tokens_[p].text == "]" || tokens_[p].text == ")") --depth;
      if (depth == 0 && tokens_[p].text == "=") {
        PythonBody body(*this, {}, p + 1, close, 0);
        usual = body.value();
      }
    }
    function.parameters.emplace_back(name, usual);
  }
  std::size_t begin = close;
  while (begin < tokens_.size() && tokens_[begin].kind != Kind::line_end) ++begin;
  // A blank line ends no function: another line's end follows it.
  const auto ends = [&](std::size_t here) {
    const bool is_blank = here + 1 < tokens_.size() && tokens_[here + 1].kind == Kind::line_end;
    return here > begin && tokens_[here].kind == Kind::line_end && tokens_[here].indent == 0 &&
           !is_blank;
  };
  std::size_t end = begin;
  while (end < tokens_.size() && !ends(end)) ++end;
  function.begin = begin;
  function.end = end;
  return function;
}

// from A.B import C, D as E; import A.B
void PythonFile::read_import(std::size_t at) {
  const auto dotted = [&] {
    std::string name;
    while (at < tokens_.size() && (tokens_[at].kind == Kind::name || tokens_[at].text == ".") &&
           tokens_[at].text != "import")
      name += tokens_[at++].text;
    return name;
  };
  if (tokens_[at++].text == "import") {
    const std::string module = dotted();
    imports_[module.substr(module.rfind('.') + 1)] = {module, ""};
    return;
  }
  const std::string module = dotted();
  for (++at; at < tokens_.size() && tokens_[at].kind != Kind::line_end; ++at) {
    if (tokens_[at].kind != Kind::name) continue;
    const std::string name = tokens_[at].text;
    std::string as = name;
    if (at + 2 < tokens_.size() && tokens_[at + 1].text == "as") as = tokens_[at += 2].text;
    imports_[as] = {module, name};
  }
}

// A module lies where its dots say, from the folder on that the present file's own package is in.
PythonFile* PythonFile::file_of(const std::string& module) {
  std::string relative = module;
  std::ranges::replace(relative, '.', '/');
  const std::string package = relative.substr(0, relative.find('/')) + "/";
  const std::size_t root = file_.rfind("/" + package);
  if (package.size() < 2 || root == std::string::npos) return nullptr;
  const std::string base = file_.substr(0, root + 1) + relative;
  if (const auto known = work_.files.find(base); known != work_.files.end())
    return known->second.get();
  std::error_code ignored;
  for (const std::string& path : {base + ".py", base + "/__init__.py"})
    if (fs::is_regular_file(path, ignored)) {
      // Files that import each other find the one that is being read.
      PythonFile& found = *(work_.files[base] = std::make_unique<PythonFile>(path, work_));
      found.read(read_file(path));
      return &found;
    }
  work_.files[base] = nullptr;
  return nullptr;
}

const json* PythonFile::constant(const std::string& name, int depth) {
  if (const auto known = constants_.find(name); known != constants_.end()) return &known->second;
  const auto import = imports_.find(name);
  if (import == imports_.end() || import->second.name.empty() || depth > deepest_call)
    return nullptr;
  PythonFile* other = file_of(import->second.module);
  return other == nullptr ? nullptr : other->constant(import->second.name, depth + 1);
}

json PythonFile::call(const std::string& name, json& given, int depth) {
  if (depth > deepest_call)
    throw InputError(file_ + ": " + name + "() calls functions more than " +
                     std::to_string(deepest_call) + " deep; write the values into the recipe");
  const auto known = functions_.find(name);
  if (known == functions_.end()) {  // imported here from a third file
    const Import& from = imports_.at(name);
    PythonFile* other = file_of(from.module);
    if (other != nullptr && !from.name.empty() && other->holds(from.name))
      return other->call(from.name, given, depth + 1);
    json made = given;
    made[std::string(made_by)] = name;
    return made;
  }
  Names names;
  std::map<std::string, std::string> places;  // of the arguments, by parameter
  int index = 0;
  for (const auto& [parameter, usual] : known->second.parameters) {
    const std::string place = std::to_string(index++);
    places[parameter] = given.contains(parameter) ? parameter : place;
    names[parameter] = given.contains(places[parameter]) ? given[places[parameter]] : usual;
  }
  PythonBody body(*this, std::move(names), known->second.begin, known->second.end, depth);
  const json returned = body.run();
  for (const auto& [parameter, place] : places)
    if (const json* object = body.changed(parameter); object != nullptr && given.contains(place))
      given[place] = *object;
  return returned;
}

}  // namespace meshwright::interop
