// Statements of a function's body.
#include "tools/interop/python/body.h"

#include <utility>

#include "models/core/error.h"
#include "tools/interop/formats/text.h"

namespace meshwright::interop {

namespace {

using Kind = PythonToken::Kind;

constexpr std::size_t most_steps = 200'000;  // statements and values of one recipe

}  // namespace

json PythonBody::run() {
  while (at_ < end_ && goes_on()) statement();
  return returned_.value_or(json());
}

const json* PythonBody::changed(const std::string& parameter) const {
  const auto found = names_.find(parameter);
  return found == names_.end() || rebound_.contains(parameter) ? nullptr : &found->second;
}

const PythonToken& PythonBody::token(std::size_t ahead) const {
  static const PythonToken none{Kind::line_end, "", 0, false, 0};
  return at_ + ahead < end_ ? file_.tokens_[at_ + ahead] : none;
}

bool PythonBody::sees(std::string_view sign, std::size_t ahead) const {
  return token(ahead).kind == Kind::sign && token(ahead).text == sign;
}

bool PythonBody::is_word(std::string_view word) const {
  return token().kind == Kind::name && token().text == word;
}

void PythonBody::count_step() {
  if (++file_.work_.steps > most_steps)
    throw InputError(file_.file_ + ": is too long to follow; write the values into the recipe");
}

void PythonBody::statement() {
  while (at_ < end_ && token().kind == Kind::line_end) {
    if (token().indent >= 0) indent_ = token().indent;
    ++at_;
  }
  if (at_ >= end_) return;
  count_step();
  if (is_word("return")) {
    ++at_;
    returned_ = token().kind == Kind::line_end ? json() : tuple();
    return;
  }
  if (is_word("if") || is_word("elif") || is_word("else")) return condition();
  if (is_word("for")) return loop();
  if (is_word("try")) return attempt();
  if (is_word("with")) return run_block();
  if (is_word("raise")) return raise();
  for (const char* block : {"while", "def", "class", "except", "finally"})
    if (is_word(block)) return skip_block();
  if (token().kind == Kind::name && !is_word("assert")) assignment();
  skip_line();
}

// Reads NAME.a.b = VALUE, NAME, NAME = VALUE, NAME += VALUE, and a call that changes the object
// that it is given.
void PythonBody::assignment() {
  std::vector<Path> targets{{token().text}};
  std::size_t ahead = 1;
  while (token(ahead).kind == Kind::sign) {
    if (sees(".", ahead) && token(ahead + 1).kind == Kind::name)
      targets.back().push_back(token(ahead + 1).text);
    else if (sees("[", ahead) && token(ahead + 1).kind == Kind::text && sees("]", ahead + 2))
      targets.back().push_back(token(ahead++ + 1).text);
    else if (sees(",", ahead) && token(ahead + 1).kind == Kind::name)
      targets.push_back({token(ahead + 1).text});
    else
      break;
    ahead += 2;
  }
  if (sees(":", ahead) && targets[0].size() == 1)  // NAME: TYPE = VALUE
    while (at_ + ahead < end_ && token(ahead).kind != Kind::line_end && !sees("=", ahead)) ++ahead;
  const std::string sign = token(ahead).kind == Kind::sign ? token(ahead).text : "";
  if (sign == "(") {
    at_ += ahead;
    return targets[0].back() == "append" && targets[0].size() > 1 ? append(targets[0])
                                                                  : call_for_effect(targets[0]);
  }
  const bool combines = sign.size() == 2 && sign[1] == '=' && sign[0] != '=' && sign[0] != '!';
  if (sign != "=" && !combines) return;
  at_ += ahead + 1;
  json read = tuple();
  if (!goes_on()) return;
  if (combines) {
    const json* left = place_of(targets[0]);
    read = combined(left == nullptr ? open_value("name") : *left, sign.substr(0, 1), read);
  }
  if (targets.size() == 1) return assign(targets[0], std::move(read));
  for (std::size_t i = 0; i < targets.size(); ++i)
    assign(targets[i],
           read.is_array() && read.size() == targets.size() ? json(read[i]) : open_value("item"));
}

void PythonBody::assign(const Path& path, json value) {
  if (path.size() == 1) rebound_.insert(path[0]);
  json* to = &names_[path[0]];
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (!to->is_object()) *to = json::object();
    to = &(*to)[path[i]];
  }
  *to = std::move(value);
}

// Returns the object that a path names, or null if nothing is known of it.
json* PythonBody::place_of(const Path& path) {
  const auto first = names_.find(path[0]);
  if (first == names_.end()) return nullptr;
  json* at = &first->second;
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (!at->is_object() || !at->contains(path[i])) return nullptr;
    at = &(*at)[path[i]];
  }
  return at;
}

void PythonBody::append(const Path& path) {
  const Arguments given = arguments();
  json* list = place_of({path.begin(), path.end() - 1});
  if (list != nullptr && list->is_array() && given.values.contains("0"))
    list->push_back(given.values["0"]);
}

// A function that is in no file may change an object that it is given.
void PythonBody::call_for_effect(const Path& path) {
  const std::size_t before = at_;
  const std::map<std::string, Path> paths = arguments().paths;
  at_ = before;
  const json made = called(path, arguments());
  const bool is_unknown = made.is_object() && made.contains(std::string(made_by));
  if (is_unknown && !paths.empty() && path.size() <= 2 && !names_.contains(path[0]))
    file_.work_.unknown.insert(path.back());
}

void PythonBody::skip_line() {
  while (at_ < end_ && token().kind != Kind::line_end) ++at_;
}

void PythonBody::skip_block() {
  const int indent = indent_;
  while (at_ < end_) {
    skip_line();
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

// Evaluates the block that the present line begins, which may lie on that line itself.
void PythonBody::run_block() {
  const int indent = indent_;
  const std::size_t head = at_;
  skip_block();
  const std::size_t end = at_;
  at_ = head;
  indent_ = indent;
  for (int depth = 0; at_ < end && token().kind != Kind::line_end && (depth > 0 || !sees(":"));
       ++at_)
    depth += sees("(") || sees("[") || sees("{") ? 1 : sees(")") || sees("]") || sees("}") ? -1 : 0;
  if (sees(":")) ++at_;
  const std::size_t whole = std::exchange(end_, end);
  while (at_ < end_ && goes_on()) statement();
  end_ = whole;
  at_ = end;
  indent_ = indent;
}

// Evaluates the block of `for NAME in LIST` once for each item, if the list is known.
void PythonBody::loop() {
  const std::size_t head = at_;
  Path targets;
  for (++at_; at_ < end_ && token().kind != Kind::line_end && !is_word("in"); ++at_)
    if (token().kind == Kind::name) targets.push_back(token().text);
  ++at_;
  const json items = tuple();
  at_ = head;
  if (!items.is_array() || items.empty() || targets.empty()) return skip_block();
  for (const json& item : items) {
    at_ = head;
    count_step();
    for (std::size_t i = 0; i < targets.size(); ++i)
      names_[targets[i]] = targets.size() == 1                  ? item
                           : item.is_array() && i < item.size() ? json(item[i])
                                                                : open_value(targets[i]);
    run_block();
    if (!goes_on()) return;
  }
}

void PythonBody::attempt() {
  run_block();
  if (file_.work_.raised.empty()) return;
  file_.work_.raised.clear();
  while (at_ < end_ && token().kind == Kind::line_end) ++at_;
  if (is_word("except")) run_block();
}

void PythonBody::raise() {
  const std::string type = token(1).kind == Kind::name ? token(1).text : "an exception";
  const std::string text = token(3).kind == Kind::text ? ": " + token(3).text : "";
  file_.work_.raised = place_at(file_.file_, token().line) + ": raises " + type + text;
}

void PythonBody::condition() {
  const std::string word = token().text;
  const int indent = indent_;
  const bool was_taken = word != "if" && taken_[indent];
  const std::size_t head = at_;
  ++at_;
  bool takes = !was_taken;
  if (word != "else") takes = truth_of(value()).value_or(false) && takes;
  taken_[indent] = was_taken || takes;
  at_ = head;
  takes ? run_block() : skip_block();
  indent_ = indent;
}

}  // namespace meshwright::interop
