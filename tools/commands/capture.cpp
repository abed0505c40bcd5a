// Runs the command `capture FILE.py:NAME`, which writes a PyTorch model as own.model.json. The work
// is done in Python (tools/python/meshwright/torch). This command finds Python and the package, and
// becomes that process.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "models/core/error.h"
#include "tools/commands/commands.h"
#include "tools/commands/python_package.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

// Python runs this text. Its arguments are those of `python3 -m meshwright.torch`.
constexpr const char* script = R"(import sys
try:
    from meshwright.torch.__main__ import main
except ImportError as error:
    print("error: capture: {}; this Python is {}, MESHWRIGHT_PYTHON names another".format(
        error, sys.executable), file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1:])))";

int run_capture(const Options& options) {
  if (options.operands.empty())
    throw InputError("capture: name the model: FILE.py:NAME, or a config.json of transformers");
  const std::string& target = options.operands.front();
  const std::string output = options.output.empty() ? "own.model.json" : options.output;
  const std::vector<std::string> inputs = {target.substr(0, target.rfind(':'))};
  check_writable("--output", output, inputs);
  const char* chosen = std::getenv("MESHWRIGHT_PYTHON");
  const std::string python = chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
  std::vector<std::string> words = {python, "-c", script, "capture"};
  if (target.ends_with(".json")) words.emplace_back("--transformers");
  words.insert(words.end(), {target, "--output", output});
  words.insert(words.end(), options.operands.begin() + 1, options.operands.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  search_package(options.program);
  execvp(arguments[0], arguments.data());
  throw InputError("capture: " + python + " cannot be started (" + std::strerror(errno) +
                   "); install Python 3, or name it in MESHWRIGHT_PYTHON");
}

}  // namespace

const Command capture_command = {
    "capture",
    "MODEL",
    "FILE.py:NAME, a function that returns (module, example) or a module beside an `example`; or a "
    "config.json of transformers; after `--`: options of `python3 -m meshwright.torch capture`",
    "your own PyTorch model, as own.model.json",
    "output",
    run_capture,
    "Captures one training step of a PyTorch model: types, bytes, FLOPs and kernels, without code "
    "and weights. `\"model\": \"own.model.json\"` of a job then names it. Needs Python with "
    "PyTorch. "
    "docs/own-model.md says what can be captured."};

}  // namespace meshwright::tools
