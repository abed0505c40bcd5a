// Evaluates functions of a Python program that puts a configuration together: assignments, calls of
// functions of the same file and of files beside it, loops over known lists, and conditions on
// known values. Nothing is executed, and no other statement has an effect.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/interop/python/tokens.h"
#include "tools/interop/python/values.h"

namespace meshwright::interop {

struct PythonFunction {
  std::string name;
  std::vector<std::pair<std::string, json>> parameters;  // with their defaults
  std::size_t begin = 0, end = 0;                        // tokens of the body
  int line = 0;
};

class PythonFile;

// Holds what all files of one evaluation share.
struct PythonWork {
  std::map<std::string, std::unique_ptr<PythonFile>> files;  // by path; null if there is none
  std::size_t steps = 0;                                     // statements and values so far
  std::set<std::string> unknown;  // functions that are in no file, and are given an object
  std::string raised;             // what the exception says that no `try` has caught so far
};

class PythonFile {
 public:
  PythonFile(std::string file, PythonWork& work) : file_(std::move(file)), work_(work) {}

  // Takes the functions, imports and constants of the program's text. Call it once.
  void read(const std::string& text);

  const std::map<std::string, PythonFunction>& functions() const { return functions_; }
  // Returns what a function returns if it is called with `given` (by name or by index), and leaves
  // the changes that it makes to these objects in `given`. Values that only the running program has
  // are open (values.h). Throws InputError if calls go too deep.
  json call(const std::string& name, json& given, int depth = 0);

 private:
  struct Import {
    std::string module, name;  // `name` is "" if the module itself is imported
  };
  using Names = std::map<std::string, json>;
  friend class PythonBody;

  void find_functions();
  PythonFunction function_at(std::size_t at);
  void read_import(std::size_t at);
  bool holds(const std::string& name) const {
    return functions_.contains(name) || imports_.contains(name);
  }
  PythonFile* file_of(const std::string& module);
  // Returns a constant of this file or one that it imports, or null.
  const json* constant(const std::string& name, int depth = 0);

  std::string file_;
  std::vector<PythonToken> tokens_;
  std::map<std::string, PythonFunction> functions_;
  std::map<std::string, Import> imports_;
  Names constants_;
  PythonWork& work_;
};

}  // namespace meshwright::interop
