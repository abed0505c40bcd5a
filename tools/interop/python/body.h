// Evaluates the body of one Python function, statement by statement. Only evaluator.cpp uses it.
#pragma once

#include <optional>
#include <string_view>

#include "tools/interop/python/evaluator.h"

namespace meshwright::interop {

// Returns the index of the bracket that closes the one at `at`.
std::size_t closing_bracket(const std::vector<PythonToken>& tokens, std::size_t at);

// The state in which one function's body is evaluated.
class PythonBody {
 public:
  PythonBody(PythonFile& file, PythonFile::Names names, std::size_t begin, std::size_t end,
             int depth)
      : file_(file), names_(std::move(names)), at_(begin), end_(end), depth_(depth) {}

  // Evaluates statements up to `return`. Returns null if there is none.
  json run();
  // Evaluates one expression.
  json value();
  // Returns the object that a parameter names at the end, or null if the body gave that name to
  // another object.
  const json* changed(const std::string& parameter) const;

 private:
  using Path = std::vector<std::string>;
  struct Arguments {
    json values = json::object();       // by name, or by index
    std::map<std::string, Path> paths;  // where the caller holds an argument that is an object
  };

  const PythonToken& token(std::size_t ahead = 0) const;
  bool sees(std::string_view sign, std::size_t ahead = 0) const;
  bool is_word(std::string_view word) const;
  void count_step();

  // body.cpp
  void statement();
  void assignment();
  void call_for_effect(const Path& path);
  void append(const Path& path);
  void assign(const Path& path, json value);
  json* place_of(const Path& path);
  void skip_line();
  void skip_block();
  void run_block();
  void loop();
  void attempt();
  void raise();
  void condition();
  bool goes_on() const { return !returned_ && file_.work_.raised.empty(); }

  // expressions.cpp
  json either();
  json conjunction();
  json negation();
  json compared();
  json sum();
  json product();
  json term();
  json tuple();
  json list();
  json dictionary();
  Arguments arguments();
  std::optional<Path> path_ahead() const;
  json named(const std::string& first);
  json called_later(const json& what);
  json called(const Path& path, Arguments given);
  json after(json of);

  PythonFile& file_;
  PythonFile::Names names_;
  std::set<std::string> rebound_;
  std::size_t at_, end_;
  int depth_, indent_ = 0, nested_ = 0;
  std::optional<json> returned_;
  std::map<int, bool> taken_;  // by indentation: a branch of the present `if` was taken
};

}  // namespace meshwright::interop
