// Reads the settings of a SageMaker training job from the program that starts it, or from a
// notebook: the arguments of Estimator(...), PyTorch(...), HuggingFace(...), ModelTrainer(...).
// Values are literals, names that were assigned before, and simple expressions. Nothing is
// executed.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "models/core/error.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/python/notebook.h"
#include "tools/interop/python/tokens.h"
#include "tools/interop/python/values.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;

constexpr std::string_view estimators[] = {"Estimator",    "PyTorch",      "HuggingFace",
                                           "TensorFlow",   "ModelTrainer", "Framework",
                                           "SMPEstimator", "EstimatorBase"};

constexpr int most_depth = 64;

class PythonReader {
 public:
  PythonReader(const std::string& text, const std::string& file,
               const std::map<std::string, std::string>& defines, bool is_notebook,
               const std::vector<int>& cells)
      : file_(file), cells_(cells), is_notebook_(is_notebook), tokens_(python_tokens(text, file)) {
    for (const auto& [name, value] : defines) {
      json parsed = json::parse(value, nullptr, false);
      names_[name] = parsed.is_discarded() ? json(value) : std::move(parsed);
      given_.insert({name, 0});
    }
  }

  Settings run() {
    while (at_ < tokens_.size()) statement();
    if (calls_ == 0)
      throw InputError(file_ +
                       ": starts no training job of SageMaker (Estimator, PyTorch, HuggingFace or "
                       "ModelTrainer with arguments)" +
                       (uses_trainer_ ? "; give the script that starts it, or its arguments as "
                                        "JSON (TrainingArguments)"
                                      : ""));
    return std::move(settings_);
  }

 private:
  bool sees(std::string_view sign, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == Kind::sign &&
           tokens_[at_ + ahead].text == sign;
  }
  bool is(Kind kind, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == kind;
  }
  int line() const { return tokens_[std::min(at_, tokens_.size() - 1)].line; }
  std::string place(int at) const {
    if (!is_notebook_) return place_at(file_, at);
    const auto index = static_cast<std::size_t>(std::max(0, at - 1));
    return file_ + ":cell " + std::to_string(index < cells_.size() ? cells_[index] : 0);
  }

  // Reads a statement: a condition, NAME = value, NAME["key"] = value, NAME.update(...), or any
  // other one, of which only the calls are read.
  void statement() {
    while (is(Kind::line_end)) {
      if (tokens_[at_].indent >= 0) indent_ = tokens_[at_].indent;
      ++at_;
    }
    if (at_ >= tokens_.size()) return;
    if (is(Kind::name) &&
        (tokens_[at_].text == "if" || tokens_[at_].text == "elif" || tokens_[at_].text == "else"))
      return condition();
    if (is(Kind::name) && sees("=", 1)) {
      const std::string name = tokens_[at_].text;
      at_ += 2;
      doubts_.clear();
      assign(name, value(0));
    } else if (is(Kind::name) && sees("[", 1) && is(Kind::text, 2) && sees("]", 3) &&
               sees("=", 4)) {
      const std::string name = tokens_[at_].text, key = tokens_[at_ + 2].text;
      at_ += 5;
      const json read = value(0);
      if (json& known = names_[name]; known.is_object() || known.is_null()) known[key] = read;
    } else if (is(Kind::name) && sees(".", 1) && is(Kind::name, 2) &&
               tokens_[at_ + 2].text == "update" && sees("(", 3)) {
      const std::string name = tokens_[at_].text;
      at_ += 3;
      const json read = arguments(0);
      const json given = read.contains("0") ? read["0"] : read;
      if (given.is_object())
        for (const auto& [key, each] : given.items()) names_[name][key] = each;
    }
    // Calls in the rest of the statement may start the training job.
    doubts_.clear();
    while (at_ < tokens_.size() && !is(Kind::line_end)) {
      if (is(Kind::name) && sees("(", 1))
        value(0);
      else
        ++at_;
    }
  }

  // Reads the head of a branch. Skips the branch if its condition is known to be false, or an
  // earlier condition of the same `if` to be true.
  void condition() {
    const std::string word = tokens_[at_++].text;
    const int indent = indent_;
    const bool was_taken = word != "if" && decided_[indent];
    bool takes = !was_taken;
    if (word != "else") {
      const json known = value(0);
      const bool is_false = known == false || known.is_null() || known == 0;
      if (is_false) takes = false;
      decided_[indent] = was_taken || known == true;
    }
    while (at_ < tokens_.size() && !is(Kind::line_end) && !sees(":")) ++at_;
    if (sees(":")) ++at_;
    if (takes) return;
    while (at_ < tokens_.size()) {
      const bool ends = is(Kind::line_end) && tokens_[at_].indent >= 0 &&
                        tokens_[at_].indent <= indent &&
                        !(at_ + 1 < tokens_.size() && is(Kind::line_end, 1));
      if (ends) return;
      ++at_;
    }
  }

  void assign(const std::string& name, const json& read) {
    if (given_.contains(name)) return;
    // An indented block may not be executed, so another value that it assigns is a doubt.
    if (indent_ > 0 && names_.contains(name) && names_[name] != read)
      changed_[name] = "the name " + name + " is assigned again in a block; its value there, " +
                       read.dump() + ", is taken (--define " + name + "=VALUE says another)";
    names_[name] = read;
  }

  json value(int depth) {
    json left = compared(depth);
    while (is(Kind::name) && (tokens_[at_].text == "and" || tokens_[at_].text == "or")) {
      const bool is_and = tokens_[at_++].text == "and";
      const json right = compared(depth + 1);
      if (left.is_boolean())
        left = left == is_and ? right : left;
      else
        left = open_value("condition");
    }
    if (!is(Kind::name) || tokens_[at_].text != "if") return left;
    ++at_;  // X if CONDITION else Y
    const json known = compared(depth + 1);
    json other = open_value("condition");
    if (is(Kind::name) && tokens_[at_].text == "else") {
      ++at_;
      other = value(depth + 1);
    }
    return !known.is_boolean() ? open_value("condition") : known == true ? left : other;
  }

  json compared(int depth) {
    if (depth > most_depth) throw InputError(place(line()) + ": more than 64 levels of brackets");
    if (is(Kind::name) && tokens_[at_].text == "not") {
      ++at_;
      const json of = compared(depth + 1);
      return of.is_boolean() ? json(of != true) : open_value("condition");
    }
    json left = sum(depth);
    while (true) {
      const bool is_word =
          is(Kind::name) &&
          (tokens_[at_].text == "in" || tokens_[at_].text == "is" || tokens_[at_].text == "not");
      std::string sign;
      for (const char* each : {"==", "!=", "<=", ">=", "<", ">"})
        if (sees(each)) sign = each;
      if (!is_word && sign.empty()) return left;
      bool turns = false;
      if (is_word) {
        turns = tokens_[at_].text == "not";
        sign = tokens_[at_].text == "not" ? "in" : tokens_[at_].text;
      }
      ++at_;
      if (is(Kind::name) && (tokens_[at_].text == "in" || tokens_[at_].text == "not")) {
        turns = true;
        ++at_;
      }
      const json right = sum(depth + 1);
      const std::optional<bool> known = related(left, sign, right);
      left = known ? json(*known != turns) : open_value("condition");
    }
  }

  json sum(int depth) {
    json left = term(depth);
    while (sees("+") || sees("-") || sees("*") || sees("/") || sees("//") || sees("**") ||
           sees("|")) {
      const std::string sign = tokens_[at_++].text;
      const json right = term(depth);
      left = combined(left, sign, right);
    }
    return left;
  }

  json term(int depth) {
    if (depth > most_depth) throw InputError(place(line()) + ": more than 64 levels of brackets");
    if (at_ >= tokens_.size()) return open_value("end");
    const PythonToken token = tokens_[at_];
    if (token.kind == Kind::line_end) return open_value("end");
    ++at_;
    if (token.kind == Kind::text) {
      json text = token.is_open ? open_value("text") : json(token.text);
      while (is(Kind::text)) {  // texts next to each other are one
        if (!is_open_value(text))
          text = tokens_[at_].is_open ? open_value("text")
                                      : json(text.get<std::string>() + tokens_[at_].text);
        ++at_;
      }
      return after(std::move(text), depth);
    }
    if (token.kind == Kind::number) return number_of(token.text);
    if (token.kind == Kind::name) return named(token, depth);
    if (token.text == "-") {
      const json of = term(depth + 1);
      return of.is_number_integer() ? json(-of.get<std::int64_t>())
             : of.is_number()       ? json(-of.get<double>())
                                    : of;
    }
    if (token.text == "[" || token.text == "(") return list(token.text == "[" ? "]" : ")", depth);
    if (token.text == "{") return dictionary(depth);
    return open_value("sign");
  }

  json list(const std::string& end, int depth) {
    json all = json::array();
    bool has_comma = false;
    while (at_ < tokens_.size() && !sees(end)) {
      if (sees(",")) {
        has_comma = true;
        ++at_;
        continue;
      }
      const std::size_t before = at_;
      all.push_back(value(depth + 1));
      if (at_ == before) ++at_;
      if (is(Kind::name) && tokens_[at_].text == "for") {  // a comprehension
        skip_to(end);
        all = json::array({open_value("list")});
      }
    }
    ++at_;
    if (end == ")" && all.size() == 1 && !has_comma) return after(all[0], depth);
    return after(std::move(all), depth);
  }

  void skip_to(const std::string& end) {
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (depth == 0 && sees(end)) return;
      if (sees("(") || sees("[") || sees("{")) ++depth;
      if (sees(")") || sees("]") || sees("}")) --depth;
    }
  }

  json dictionary(int depth) {
    json all = json::object();
    while (at_ < tokens_.size() && !sees("}")) {
      const std::size_t before = at_;
      if (sees(",")) {
        ++at_;
      } else if (sees("**")) {
        ++at_;
        const json other = value(depth + 1);
        if (other.is_object()) all.update(other);
      } else {
        const int at_line = line();
        const json key = value(depth + 1);
        if (sees(":")) {
          ++at_;
          json read = value(depth + 1);
          const std::string name = key.is_string() ? key.get<std::string>() : key.dump();
          all[name] = std::move(read);
          lines_[name] = at_line;
        }
        if (is(Kind::name) && tokens_[at_].text == "for") skip_to("}");
      }
      if (at_ == before) ++at_;
    }
    ++at_;
    return after(std::move(all), depth);
  }

  // Reads .attribute, .method(...) and [index] after a value, and returns the result.
  json after(json of, int depth) {
    while (true) {
      if (sees(".") && is(Kind::name, 1)) {
        const std::string name = tokens_[at_ + 1].text;
        at_ += 2;
        const bool is_call = sees("(");
        const json given = is_call ? arguments(depth + 1) : json();
        if (is_call && name == "get" && of.is_object() && given.contains("0"))
          of = item_of(of, given["0"], given.value("1", json()));
        else if (!(is_call && name == "copy"))
          of = open_value("attribute");
      } else if (sees("[")) {
        ++at_;
        const json index = value(depth + 1);
        skip_to("]");
        ++at_;
        if (of.is_object())
          of = item_of(of, index, open_value("index"));
        else if (of.is_array() && index.is_number_unsigned() && index < of.size())
          of = json(of[index.get<std::size_t>()]);
        else
          of = open_value("index");
      } else {
        return of;
      }
    }
  }

  // Reads the arguments of a call as an object. The names of arguments without a name are "0", "1",
  // ...
  json arguments(int depth) {
    json all = json::object();
    if (!sees("(")) return all;
    ++at_;
    int index = 0;
    while (at_ < tokens_.size() && !sees(")")) {
      const std::size_t before = at_;
      if (sees(",")) {
        ++at_;
        continue;
      }
      if (sees("**") || sees("*")) {
        const bool is_pair = sees("**");
        ++at_;
        const json other = value(depth + 1);
        if (is_pair && other.is_object()) all.update(other);
      } else if (is(Kind::name) && sees("=", 1)) {
        const std::string name = tokens_[at_].text;
        const int at_line = line();
        at_ += 2;
        all[name] = value(depth + 1);
        lines_[name] = at_line;
      } else {
        all[std::to_string(index++)] = value(depth + 1);
      }
      if (is(Kind::name) && tokens_[at_].text == "for") skip_to(")");
      if (at_ == before) ++at_;
    }
    ++at_;
    return all;
  }

  json named(const PythonToken& token, int depth) {
    const std::string& name = token.text;
    if (name == "True") return true;
    if (name == "False") return false;
    if (name == "None") return nullptr;
    if (name == "await" || name == "lambda") return value(depth + 1), open_value(name);
    std::string called = name;
    std::size_t dots = 0;
    while (sees(".", 2 * dots) && is(Kind::name, 2 * dots + 1)) ++dots;
    if (dots > 0 && sees("(", 2 * dots)) {  // module.Class(...)
      called = tokens_[at_ + 2 * dots - 1].text;
      const bool is_class = std::isupper(static_cast<unsigned char>(called[0])) != 0;
      if (is_class) at_ += 2 * dots;
    }
    if (sees("(")) {
      json given = arguments(depth + 1);
      if (called == "TrainingArguments" || called == "Trainer") uses_trainer_ = true;
      if (is_estimator(called) && given.size() > 1) take(given, token.line);
      const bool is_plain =
          std::isupper(static_cast<unsigned char>(called[0])) != 0 || called == "dict";
      if (called == "bool" && given.contains("0") && !is_open_value(given["0"]))
        return json(given["0"] != 0 && given["0"] != false && given["0"] != "");
      if ((called == "str" || called == "int" || called == "float") && given.contains("0"))
        return after(given["0"], depth);
      return after(is_plain ? std::move(given) : open_value(name + "()"), depth);
    }
    if (const auto known = names_.find(name); known != names_.end()) {
      if (const auto twice = changed_.find(name); twice != changed_.end())
        doubts_.insert(place(token.line) + ": " + twice->second);
      return after(known->second, depth);
    }
    return after(open_value(name), depth);
  }

  static bool is_estimator(const std::string& name) {
    return std::find(std::begin(estimators), std::end(estimators), name) != std::end(estimators);
  }

  void take(const json& given, int at_line) {
    if (++calls_ > 1) {
      settings_.note(place(at_line) +
                     ": another training job is started here; the first one is read");
      return;
    }
    for (const std::string& doubt : doubts_) settings_.note(doubt);
    for (const auto& [name, each] : given.items())
      if (name[0] < '0' || name[0] > '9') add(name, each, at_line);
  }

  void add(const std::string& name, const json& each, int at_line) {
    const std::size_t dot = name.rfind('.');
    const auto known = lines_.find(dot == std::string::npos ? name : name.substr(dot + 1));
    const int of = known == lines_.end() ? at_line : known->second;
    if (each.is_object() && !each.empty()) {
      for (const auto& [key, inner] : each.items()) add(name + "." + key, inner, of);
      return;
    }
    // An empty object is no setting, except for TrainingCompilerConfig(), which turns the compiler
    // on.
    if (each.is_object() && name != "compiler_config") return;
    json value = each.is_object() ? json(true) : each;
    const std::string leaf = dot == std::string::npos ? name : name.substr(dot + 1);
    if (is_open_value(value)) value = given_.contains(leaf) ? names_[leaf] : open_value(leaf);
    settings_.add(name, std::move(value), place(of));
  }

  const std::string& file_;
  std::vector<int> cells_;
  bool is_notebook_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0;
  std::map<std::string, json> names_;
  std::map<std::string, int> lines_, given_;
  std::map<std::string, std::string> changed_;
  std::set<std::string> doubts_;  // of the names in the current statement
  Settings settings_{"", true};
  int calls_ = 0;
  std::map<int, bool> decided_;  // by the indent of an `if`: a branch is taken for sure
  int indent_ = 0;
  bool uses_trainer_ = false;
};

}  // namespace

Settings read_python(const std::string& text, const std::string& file,
                     const std::map<std::string, std::string>& defines) {
  check_text(text, file);
  return PythonReader(text, file, defines, false, {}).run();
}

Settings read_notebook(const std::string& text, const std::string& file,
                       const std::map<std::string, std::string>& defines) {
  const NotebookCode code = code_of_notebook(text, file);
  return PythonReader(code.text, file, defines, true, code.cell_of_line).run();
}

}  // namespace meshwright::interop
