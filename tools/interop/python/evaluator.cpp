#include "tools/interop/python/evaluator.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/interop/formats/text.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;
namespace fs = std::filesystem;

constexpr int deepest_call = 24;
constexpr std::size_t most_statements = 200'000;  // statements and values of one recipe

// Returns the index of the bracket that closes the one at `at`.
std::size_t closing(const std::vector<PythonToken>& tokens, std::size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind != Kind::sign) continue;
    const std::string& sign = tokens[at].text;
    if (sign == "(" || sign == "[" || sign == "{") ++depth;
    if ((sign == ")" || sign == "]" || sign == "}") && --depth == 0) return at;
  }
  return at;
}

}  // namespace

// The state in which one function's body is evaluated.
class PythonBody {
 public:
  PythonBody(PythonFile& file, PythonFile::Names names, std::size_t begin, std::size_t end,
             int depth)
      : file_(file), names_(std::move(names)), at_(begin), end_(end), depth_(depth) {}

  // Evaluates statements up to `return`. Returns null if there is none.
  json run() {
    while (at_ < end_ && !returned_) statement();
    return returned_.value_or(json());
  }
  json value() { return either(); }
  std::size_t at() const { return at_; }

  json& name(const std::string& name) { return names_[name]; }

 private:
  const PythonToken& token(std::size_t ahead = 0) const {
    static const PythonToken none{Kind::line_end, "", 0, false, 0};
    return at_ + ahead < end_ ? file_.tokens_[at_ + ahead] : none;
  }
  bool sees(std::string_view sign, std::size_t ahead = 0) const {
    return token(ahead).kind == Kind::sign && token(ahead).text == sign;
  }
  bool is_word(std::string_view word) const {
    return token().kind == Kind::name && token().text == word;
  }

  void statement() {
    while (at_ < end_ && token().kind == Kind::line_end) {
      if (token().indent >= 0) indent_ = token().indent;
      ++at_;
    }
    if (at_ >= end_) return;
    if (++steps_ > most_statements) throw InputError(file_.file_ + ": is too long to follow");
    if (is_word("return")) {
      ++at_;
      returned_ = token().kind == Kind::line_end ? json() : value();
      return;
    }
    if (is_word("if") || is_word("elif") || is_word("else")) return condition();
    for (const char* block : {"for", "while", "with", "try", "def", "class", "except", "finally"})
      if (is_word(block)) return skip_block();
    if (token().kind == Kind::name && !is_word("raise") && !is_word("assert")) assignment();
    while (at_ < end_ && token().kind != Kind::line_end) ++at_;
  }

  // Reads NAME.a.b = VALUE, and a call that changes the object that it is given.
  void assignment() {
    std::vector<std::string> path{token().text};
    std::size_t ahead = 1;
    while (sees(".", ahead) && token(ahead + 1).kind == Kind::name) {
      path.push_back(token(ahead + 1).text);
      ahead += 2;
    }
    if (sees(":", ahead) && path.size() == 1)  // NAME: TYPE = VALUE
      while (at_ + ahead < end_ && token(ahead).kind != Kind::line_end && !sees("=", ahead))
        ++ahead;
    if (!sees("=", ahead)) {
      if (sees("(", ahead) && path.size() == 1) call_for_effect(path[0]);
      return;
    }
    at_ += ahead + 1;
    json read = value();
    json* to = &names_[path[0]];
    for (std::size_t i = 1; i < path.size(); ++i) {
      if (!to->is_object()) *to = json::object();
      to = &(*to)[path[i]];
    }
    *to = std::move(read);
  }

  void call_for_effect(const std::string& name) {
    const std::string changed = token(2).kind == Kind::name ? token(2).text : "";
    ++at_;
    const json given = arguments();
    const auto known = file_.functions_.find(name);
    if (known == file_.functions_.end() || !names_.contains(changed)) {
      if (names_.contains(changed)) file_.unknown_.insert(name);
      return;
    }
    PythonBody body = body_of(file_, known->second, given, depth_ + 1);
    body.run();
    if (!known->second.parameters.empty())
      names_[changed] = body.name(known->second.parameters[0].first);
  }

  void skip_block() {
    const int indent = indent_;
    while (at_ < end_) {
      while (at_ < end_ && token().kind != Kind::line_end) ++at_;
      while (at_ < end_ && token().kind == Kind::line_end) {
        if (token().indent >= 0) indent_ = token().indent;
        ++at_;
      }
      if (indent_ <= indent) {
        --at_;  // so that statement() sees the blanks again
        return;
      }
    }
  }

  void condition() {
    const std::string word = token().text;
    const int indent = indent_;
    const bool was_taken = word != "if" && taken_[indent];
    ++at_;
    bool takes = !was_taken;
    if (word != "else") {
      const json known = value();
      takes = takes && (known == true || (known.is_object() && !known.empty()) ||
                        (known.is_string() && !is_open_value(known) && known != ""));
    }
    taken_[indent] = was_taken || takes;
    while (at_ < end_ && token().kind != Kind::line_end) ++at_;
    if (!takes) {
      indent_ = indent;
      skip_block();
    }
  }

  json either() {
    json left = compared();
    while (is_word("or") || is_word("and")) {
      const bool is_and = is_word("and");
      ++at_;
      const json right = compared();
      const bool holds = left == true || (left.is_string() && !is_open_value(left));
      left = is_and ? (holds ? right : json(false)) : (holds ? left : right);
    }
    if (!is_word("if")) return left;
    ++at_;
    const json known = compared();
    json other;
    if (is_word("else")) {
      ++at_;
      other = either();
    }
    return known == true ? left : other;
  }

  json compared() {
    if (is_word("not")) {
      ++at_;
      return json(compared() != true);
    }
    json left = sum();
    while (true) {
      std::string sign;
      for (const char* each : {"==", "!=", "<=", ">=", "<", ">"})
        if (sees(each)) sign = each;
      bool turns = false;
      if (is_word("in") || is_word("is")) {
        sign = token().text;
      } else if (is_word("not")) {
        sign = "in";
        turns = true;
        ++at_;
      }
      if (sign.empty()) return left;
      ++at_;
      if (sign == "is" && is_word("not")) {
        turns = true;
        ++at_;
      }
      const std::optional<bool> known = related(left, sign, sum());
      left = known ? json(*known != turns) : open_value("condition");
    }
  }

  json sum() {
    json left = term();
    while (sees("+") || sees("-") || sees("*") || sees("/") || sees("//")) {
      const std::string sign = token().text;
      ++at_;
      left = combined(left, sign, term());
    }
    return left;
  }

  json term() {
    if (at_ >= end_) return open_value("end");
    const PythonToken read = token();
    if (read.kind == Kind::line_end) return open_value("end");
    if (read.kind == Kind::sign && (read.text == "[" || read.text == "(")) return list();
    if (read.kind == Kind::sign && read.text == "{") return dictionary();
    ++at_;
    if (read.kind == Kind::number) return number_of(read.text);
    if (read.kind == Kind::text) {
      std::string text = read.text;
      bool is_open = read.is_open;
      for (; token().kind == Kind::text; ++at_) {
        text += token().text;
        is_open = is_open || token().is_open;
      }
      return is_open ? open_value("text") : json(text);
    }
    if (read.kind == Kind::name) return named(read.text);
    if (read.text == "-") {
      const json of = term();
      return of.is_number_integer() ? json(-of.get<std::int64_t>())
             : of.is_number()       ? json(-of.get<double>())
                                    : of;
    }
    return open_value("sign");
  }

  json list() {
    const std::size_t end = std::min(closing(file_.tokens_, at_), end_);
    const bool is_bracket = sees("[");
    json all = json::array();
    bool has_comma = false;
    ++at_;
    while (at_ < end) {
      if (sees(",")) {
        has_comma = true;
        ++at_;
        continue;
      }
      const std::size_t before = at_;
      all.push_back(value());
      if (is_word("for")) at_ = end;
      if (at_ == before) ++at_;
    }
    at_ = end + 1;
    return after(!is_bracket && !has_comma && all.size() == 1 ? json(all[0]) : all);
  }

  // Dictionaries are of environment variables and the like. None of their values is needed.
  json dictionary() {
    at_ = std::min(closing(file_.tokens_, at_), end_) + 1;
    return after(json::object());
  }

  json arguments() {
    json all = json::object();
    const std::size_t end = std::min(closing(file_.tokens_, at_), end_);
    int index = 0;
    ++at_;
    while (at_ < end) {
      const std::size_t before = at_;
      if (sees(",")) {
        ++at_;
      } else if (sees("**") || sees("*")) {
        ++at_;
        value();
      } else if (token().kind == Kind::name && sees("=", 1)) {
        const std::string name = token().text;
        at_ += 2;
        all[name] = value();
      } else {
        all[std::to_string(index++)] = value();
      }
      if (is_word("for")) at_ = end;
      if (at_ == before) ++at_;
    }
    at_ = end + 1;
    return all;
  }

  json named(const std::string& first) {
    if (first == "True") return true;
    if (first == "False") return false;
    if (first == "None") return nullptr;
    if (const auto known = names_.find(first); known != names_.end()) return after(known->second);
    if (const auto known = file_.constants_.find(first);
        known != file_.constants_.end() && !sees("("))
      return after(known->second);
    std::vector<std::string> path{first};
    while (sees(".") && token(1).kind == Kind::name) {
      path.push_back(token(1).text);
      at_ += 2;
    }
    std::string dotted = path[0];
    for (std::size_t i = 1; i < path.size(); ++i) dotted += "." + path[i];
    if (!sees("(")) return after(path.size() > 1 ? json(dotted) : open_value(first));
    const json given = arguments();
    return after(called(path, dotted, given));
  }

  json called(const std::vector<std::string>& path, const std::string& dotted, const json& given) {
    if (path.size() == 1 && file_.functions_.contains(path[0]))
      return file_.call(path[0], given, depth_ + 1);
    if (const auto known = file_.imports_.find(path[0]); known != file_.imports_.end()) {
      const auto& [module, name] = known->second;
      // A module's function, or a function that was imported by its name.
      const std::string wanted = path.size() == 2 ? path[1] : name;
      const std::string from = path.size() == 2 && !name.empty() ? module + "." + name : module;
      if (path.size() <= 2 && !wanted.empty())
        if (PythonFile* other = file_.file_of(from);
            other != nullptr &&
            (other->functions_.contains(wanted) || other->imports_.contains(wanted)))
          return other->call(wanted, given, depth_ + 1);
    }
    json made = given;
    // run.Config(Class, ...) and run.Partial(function, ...) of NeMo stand for a call of their
    // first.
    if ((dotted == "run.Config" || dotted == "run.Partial") && given.contains("0")) {
      std::string of = given["0"].is_string() ? given["0"].get<std::string>() : "";
      if (is_open_value(given["0"])) of = of.substr(2, of.size() - 3);
      made.erase("0");
      made[std::string(made_by)] = of;
      return made;
    }
    made[std::string(made_by)] = dotted;
    return made;
  }

  json after(json of) {
    while (true) {
      if (sees(".") && token(1).kind == Kind::name) {
        const std::string name = token(1).text;
        at_ += 2;
        if (sees("(")) {
          arguments();
          if (name == "lower" && of.is_string()) {
            std::string text = of;
            std::ranges::transform(text, text.begin(), [](unsigned char c) {
              return static_cast<char>(std::tolower(c));
            });
            of = text;
          }  // other methods give the object back: from_hf_pretrained(...).to_megatron_provider()
        } else if (of.is_object() && of.contains(name)) {
          of = json(of[name]);
        } else {
          of = open_value("attribute");
        }
      } else if (sees("[")) {
        const std::size_t end = std::min(closing(file_.tokens_, at_), end_);
        ++at_;
        const json index = value();
        at_ = end + 1;
        // An item of a table that is not known has the name of its key.
        if (of.is_array() && index.is_number_unsigned() && index < of.size())
          of = json(of[index.get<std::size_t>()]);
        else
          of = open_value(index.is_string() && !is_open_value(index) ? index.get<std::string>()
                                                                     : std::string("index"));
      } else {
        return of;
      }
    }
  }

 public:
  static PythonBody body_of(PythonFile& file, const PythonFunction& function, const json& given,
                            int depth) {
    PythonFile::Names names;
    int index = 0;
    for (const auto& [name, usual] : function.parameters) {
      const std::string place = std::to_string(index++);
      names[name] = given.contains(name)    ? given[name]
                    : given.contains(place) ? given[place]
                                            : usual;
    }
    return {file, std::move(names), function.begin, function.end, depth};
  }

 private:
  PythonFile& file_;
  PythonFile::Names names_;
  std::size_t at_, end_;
  int depth_, indent_ = 0;
  std::size_t steps_ = 0;
  std::optional<json> returned_;
  std::map<int, bool> taken_;  // by indentation: a branch of the present `if` was taken
};

PythonFile::PythonFile(const std::string& text, std::string file) : file_(std::move(file)) {
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
    if (tokens_[at + 1].kind == Kind::sign && tokens_[at + 1].text == "=") {
      PythonBody body(*this, {}, at + 2, tokens_.size(), 0);
      constants_[token.text] = body.value();
    }
    if (token.text != "def") continue;
    PythonFunction function;
    function.name = tokens_[at + 1].text;
    function.line = token.line;
    const std::size_t close = closing(tokens_, at + 2);
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
    functions_[function.name] = function;
    at = end - 1;
  }
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
  if (const auto known = files_.find(module); known != files_.end()) return known->second.get();
  std::string relative = module;
  std::ranges::replace(relative, '.', '/');
  const std::string package = relative.substr(0, relative.find('/')) + "/";
  std::unique_ptr<PythonFile>& found = files_[module];
  const std::size_t root = file_.rfind("/" + package);
  if (package.size() < 2 || root == std::string::npos) return nullptr;
  const std::string path = file_.substr(0, root + 1) + relative + ".py";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return nullptr;
  found = std::make_unique<PythonFile>(read_file(path), path);
  return found.get();
}

json PythonFile::call(const std::string& name, const json& given, int depth) {
  if (depth > deepest_call)
    throw InputError(file_ + ": " + name + "() calls functions more than " +
                     std::to_string(deepest_call) + " deep; write the values into the recipe");
  const auto known = functions_.find(name);
  if (known == functions_.end()) {  // imported here from a third file
    const Import& from = imports_.at(name);
    PythonFile* other = file_of(from.module);
    if (other == nullptr || from.name.empty() ||
        (!other->functions_.contains(from.name) && !other->imports_.contains(from.name))) {
      json made = given;
      made[std::string(made_by)] = name;
      return made;
    }
    return other->call(from.name, given, depth + 1);
  }
  PythonBody body = PythonBody::body_of(*this, known->second, given, depth);
  return body.run();
}

}  // namespace meshwright::interop
