// Expressions in a function's body, by the precedence of Python's operators.
#include <algorithm>
#include <cctype>

#include "models/core/error.h"
#include "tools/interop/python/body.h"
#include "tools/interop/python/built_ins.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;

constexpr int deepest_expression = 100;

}  // namespace

std::size_t closing_bracket(const std::vector<PythonToken>& tokens, std::size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    if (tokens[at].kind != Kind::sign) continue;
    const std::string& sign = tokens[at].text;
    if (sign == "(" || sign == "[" || sign == "{") ++depth;
    if ((sign == ")" || sign == "]" || sign == "}") && --depth == 0) return at;
  }
  return at;
}

json PythonBody::value() {
  if (++nested_ > deepest_expression)
    throw InputError(file_.file_ + ": an expression is too deep to follow");
  count_step();
  json read = either();
  --nested_;
  return read;
}

// Reads the right side of an assignment or a `return`: one value, or several with commas.
json PythonBody::tuple() {
  json first = value();
  if (!sees(",")) return first;
  json all = json::array({std::move(first)});
  while (sees(",") && token(1).kind != Kind::line_end) {
    ++at_;
    all.push_back(value());
  }
  return all;
}

json PythonBody::either() {
  json left = conjunction();
  while (is_word("or")) {
    ++at_;
    json right = conjunction();
    if (!truth_of(left).value_or(false)) left = std::move(right);
  }
  if (!is_word("if")) return left;
  ++at_;
  const std::optional<bool> known = truth_of(conjunction());
  json other;
  if (is_word("else")) {
    ++at_;
    other = either();
  }
  return known.value_or(false) ? left : other;
}

json PythonBody::conjunction() {
  json left = negation();
  while (is_word("and")) {
    ++at_;
    json right = negation();
    const std::optional<bool> first = truth_of(left), second = truth_of(right);
    // An open value beside a false one is false in any case.
    if (first == true || (!first && second == false)) left = std::move(right);
  }
  return left;
}

json PythonBody::negation() {
  if (!is_word("not")) return compared();
  ++at_;
  const std::optional<bool> known = truth_of(negation());
  return known ? json(!*known) : open_value("condition");
}

json PythonBody::compared() {
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

json PythonBody::sum() {
  json left = product();
  while (sees("+") || sees("-") || sees("|")) {
    const std::string sign = token().text;
    ++at_;
    left = combined(left, sign, product());
  }
  return left;
}

json PythonBody::product() {
  json left = term();
  while (sees("*") || sees("/") || sees("//") || sees("%") || sees("**")) {
    const std::string sign = token().text;
    ++at_;
    left = combined(left, sign, term());
  }
  return left;
}

json PythonBody::term() {
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
    return is_open ? after(open_value("text")) : after(json(text));
  }
  if (read.kind == Kind::name) return named(read.text);
  if (read.text == "-") return combined(0, "-", term());
  return open_value("sign");
}

json PythonBody::list() {
  const std::size_t end = std::min(closing_bracket(file_.tokens_, at_), end_);
  const bool is_bracket = sees("[");
  json all = json::array();
  bool has_comma = false, is_open = false;
  ++at_;
  while (at_ < end) {
    if (sees(",")) {
      has_comma = true;
      ++at_;
      continue;
    }
    const std::size_t before = at_;
    all.push_back(value());
    is_open = is_word("for");
    if (is_open) at_ = end;
    if (at_ == before) ++at_;
  }
  at_ = end + 1;
  if (is_open) return after(open_value("list"));
  return after(!is_bracket && !has_comma && all.size() == 1 ? json(all[0]) : all);
}

// A set is read as a list of its items.
json PythonBody::dictionary() {
  const std::size_t end = std::min(closing_bracket(file_.tokens_, at_), end_);
  json all = json::object(), items = json::array();
  bool is_open = false;
  ++at_;
  while (at_ < end && !is_open) {
    const std::size_t before = at_;
    if (sees(",")) {
      ++at_;
    } else if (sees("**")) {
      ++at_;
      all = combined(all, "|", value());
      is_open = !all.is_object();
    } else {
      const json key = value();
      if (sees(":")) {
        ++at_;
        all[key.is_string() ? key.get<std::string>() : key.dump()] = value();
      } else {
        items.push_back(key);
      }
      is_open = is_word("for");
    }
    if (at_ == before) ++at_;
  }
  at_ = end + 1;
  return after(is_open ? open_value("dictionary") : items.empty() ? all : items);
}

// Returns the names of an argument that is only NAME.a.b, or nothing if it is another expression.
std::optional<PythonBody::Path> PythonBody::path_ahead() const {
  if (token().kind != Kind::name) return std::nullopt;
  Path path{token().text};
  std::size_t ahead = 1;
  for (; sees(".", ahead) && token(ahead + 1).kind == Kind::name; ahead += 2)
    path.push_back(token(ahead + 1).text);
  return sees(",", ahead) || sees(")", ahead) ? std::optional(path) : std::nullopt;
}

PythonBody::Arguments PythonBody::arguments() {
  Arguments all;
  const std::size_t end = std::min(closing_bracket(file_.tokens_, at_), end_);
  int index = 0;
  const auto add = [&](const std::string& name) {
    const std::optional<Path> path = path_ahead();
    all.values[name] = value();
    if (path && names_.contains(path->front()) && all.values[name].is_object())
      all.paths[name] = *path;
  };
  ++at_;
  while (at_ < end) {
    const std::size_t before = at_;
    if (sees(",")) {
      ++at_;
    } else if (sees("**")) {
      ++at_;
      if (const json more = value(); more.is_object()) all.values.update(more);
    } else if (sees("*")) {
      ++at_;
      value();
    } else if (token().kind == Kind::name && sees("=", 1)) {
      const std::string name = token().text;
      at_ += 2;
      add(name);
    } else {
      add(std::to_string(index++));
    }
    if (is_word("for")) at_ = end;
    if (at_ == before) ++at_;
  }
  at_ = end + 1;
  return all;
}

json PythonBody::named(const std::string& first) {
  if (first == "True") return true;
  if (first == "False") return false;
  if (first == "None") return nullptr;
  if (first == "lambda") {
    while (at_ < end_ && token().kind != Kind::line_end && !sees(",") && !sees(")")) ++at_;
    return open_value("lambda");
  }
  if (const auto known = names_.find(first); known != names_.end())
    return sees("(") ? after(called_later(known->second)) : after(known->second);
  if (!sees("("))
    if (const json* known = file_.constant(first); known != nullptr) return after(*known);
  Path path{first};
  while (sees(".") && token(1).kind == Kind::name) {
    path.push_back(token(1).text);
    at_ += 2;
  }
  std::string dotted = path[0];
  for (std::size_t i = 1; i < path.size(); ++i) dotted += "." + path[i];
  if (!sees("(")) return after(path.size() > 1 ? json(dotted) : open_value(first));
  return after(called(path, arguments()));
}

// Calls what partial(FUNCTION, ...) made, with the arguments of both calls.
json PythonBody::called_later(const json& what) {
  Arguments given = arguments();
  const bool is_partial = what.is_object() && what.contains("0") && is_open_value(what["0"]) &&
                          what.value(std::string(made_by), "").ends_with("partial");
  if (!is_partial) return open_value("call");
  std::string name = what["0"];
  name = name.substr(2, name.size() - 3);
  json all = json::object();
  int index = 0;
  for (; what.contains(std::to_string(index + 1)); ++index)
    all[std::to_string(index)] = what[std::to_string(index + 1)];
  for (int i = 0; given.values.contains(std::to_string(i)); ++i)
    all[std::to_string(index++)] = given.values[std::to_string(i)];
  for (const json& values : {what, given.values})
    for (const auto& [key, value] : values.items())
      if (key != made_by && std::isdigit(static_cast<unsigned char>(key[0])) == 0) all[key] = value;
  return called({name}, {std::move(all), {}});
}

json PythonBody::called(const Path& path, Arguments given) {
  PythonFile* in = nullptr;
  if (path.size() == 1 && file_.functions_.contains(path[0])) {
    in = &file_;
  } else if (const auto known = file_.imports_.find(path[0]);
             known != file_.imports_.end() && path.size() <= 2) {
    // A module's function, or a function that was imported by its name.
    const auto& [module, name] = known->second;
    in = file_.file_of(path.size() == 2 && !name.empty() ? module + "." + name : module);
    if (in != nullptr && !in->holds(path.size() == 2 ? path[1] : name)) in = nullptr;
    if (in != nullptr && path.size() == 1 && name.empty()) in = nullptr;
  }
  if (in != nullptr) {
    const bool is_imported = in != &file_ && path.size() == 1;
    const std::string name = is_imported ? file_.imports_.at(path[0]).name : path.back();
    json made = in->call(name, given.values, depth_ + 1);
    for (const auto& [argument, place] : given.paths)
      if (json* object = place_of(place); object != nullptr) *object = given.values[argument];
    return made;
  }
  std::string dotted = path[0];
  for (std::size_t i = 1; i < path.size(); ++i) dotted += "." + path[i];
  if (std::optional<json> known = built_in(dotted, given.values); known) return *known;
  // run.Config(Class, ...) and run.Partial(function, ...) of NeMo stand for a call of their first.
  if ((dotted == "run.Config" || dotted == "run.Partial") && given.values.contains("0")) {
    const json first = given.values["0"];
    dotted = first.is_string() ? first.get<std::string>() : "";
    if (is_open_value(first)) dotted = dotted.substr(2, dotted.size() - 3);
    given.values.erase("0");
  }
  given.values[std::string(made_by)] = dotted;
  return given.values;
}

json PythonBody::after(json of) {
  while (true) {
    if (sees(".") && token(1).kind == Kind::name) {
      const std::string name = token(1).text;
      at_ += 2;
      if (sees("("))
        of = method_of(std::move(of), name, arguments().values);
      else if (of.is_object() && of.contains(name))
        of = json(of[name]);
      else
        of = open_value("attribute");
    } else if (sees("[")) {
      const std::size_t end = std::min(closing_bracket(file_.tokens_, at_), end_);
      ++at_;
      const json index = tuple();
      const bool is_slice = at_ != end;
      at_ = end + 1;
      of = is_slice ? open_value("slice") : indexed(of, index);
    } else {
      return of;
    }
  }
}

}  // namespace meshwright::interop
