// Evaluates functions of a Python program that puts a configuration together: assignments, calls of
// functions of the same file and of files beside it, and conditions on known values. Nothing is
// executed, and no other statement has an effect.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/interop/python/tokens.h"
#include "tools/interop/python/values.h"

namespace meshwright::interop {

// The name under which an object holds what it was made by: "Trainer" of Trainer(devices=8). Its
// arguments are the other items, those without a name under their index.
constexpr std::string_view made_by = "_target_";

struct PythonFunction {
  std::string name;
  std::vector<std::pair<std::string, json>> parameters;  // with their defaults
  std::size_t begin = 0, end = 0;                        // tokens of the body
  int line = 0;
};

class PythonFile {
 public:
  PythonFile(const std::string& text, std::string file);

  const std::map<std::string, PythonFunction>& functions() const { return functions_; }
  // Returns what a function returns if it is called with `given` (by name or by index). Values that
  // only the running program has are open (values.h). Throws InputError if calls go too deep.
  json call(const std::string& name, const json& given, int depth = 0);
  // Returns the names of called functions that are in no file, for a note.
  const std::set<std::string>& unknown_calls() const { return unknown_; }

 private:
  struct Import {
    std::string module, name;  // `name` is "" if the module itself is imported
  };
  using Names = std::map<std::string, json>;
  friend class PythonBody;

  void find_functions();
  void read_import(std::size_t at);
  PythonFile* file_of(const std::string& module);

  std::string file_;
  std::vector<PythonToken> tokens_;
  std::map<std::string, PythonFunction> functions_;
  std::map<std::string, Import> imports_;
  Names constants_;
  std::map<std::string, std::unique_ptr<PythonFile>> files_;  // by module
  std::set<std::string> unknown_;
};

}  // namespace meshwright::interop
