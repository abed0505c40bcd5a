// Runs the command `generate JOB --checkpoint FOLDER --prompt TEXT`, which prints how trained
// weights continue a text.
#include "tools/session/generate.h"

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/printable.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/print_json.h"
#include "tools/session/choose.h"
#include "tools/session/json_text.h"

namespace meshwright::tools {

namespace {

constexpr int usual_max_tokens = 32;

GenerateRequest generate_request(const Options& options) {
  if (options.prompt.empty() == options.prompt_tokens.empty())
    throw InputError(
        "generate: give either --prompt with a text, or --prompt-tokens with numbers, such as "
        "1,2,3");
  if (!options.temperature && (options.top_k || options.seed))
    throw InputError(std::string(options.top_k ? "--top-k" : "--seed") +
                     ": goes with --temperature; without it the most likely token is taken");
  GenerateRequest how;
  how.checkpoint = options.checkpoint;
  how.allow_changed = options.allow_changed;
  how.threads = options.threads;
  if (options.prompt_tokens.empty()) how.text = options.prompt;
  how.tokens = options.prompt_tokens;
  how.tokenizer = options.tokenizer;
  how.max_tokens = options.max_tokens.value_or(usual_max_tokens);
  how.sampling.temperature = options.temperature.value_or(0);
  how.sampling.top_k = options.top_k.value_or(0);
  how.sampling.seed = static_cast<std::uint64_t>(options.seed.value_or(1));
  return how;
}

std::string numbers_text(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return text;
}

json generated_json(const Generated& found) {
  json value = {{"weights", found.weights},
                {"prompt_tokens", found.prompt},
                {"tokens", found.tokens},
                {"ended", found.ended}};
  if (found.step) value["step"] = *found.step;
  if (found.text) value["text"] = *found.text;
  return value;
}

int run_generate(const Options& options) {
  const GenerateRequest how = generate_request(options);
  end_on_stop_signals();
  const JobRequest wanted = job_request(options);
  watch_for_stop();
  const Generated found = generate(wanted, how, printed_watch(), [] { return !stop_requested(); });
  if (options.json)
    print_json(generated_json(found));
  else if (how.text)
    print_text(printable(*how.text + *found.text) + "\n");  // not wrapped
  else
    print_text(numbers_text(found.tokens) + "\n");
  return found.stopped ? stopped : done;
}

std::string answer_generate(const Options& options, const Watch& watch) {
  const Generated found = generate(job_request(options), generate_request(options), watch,
                                   [&] { return !(watch.stop && watch.stop()); });
  std::string answer = json_text(generated_json(found), true);
  if (found.stopped) throw StoppedSearch(std::move(answer));
  return answer;
}

}  // namespace

const Command generate_command = {
    "generate",
    "JOB",
    job_help,
    "print a text that trained weights go on with from a prompt",
    "json wide set profile checkpoint prompt prompt-tokens tokenizer max-tokens temperature top-k "
    "seed "
    "allow-changed",
    run_generate,
    "Runs the forward pass over the whole text for each token, on one process of this computer. "
    "The text ends after `--max-tokens`, at the model's length, or with a token that the "
    "`generation_config.json` or `config.json` of the weights names as the end.",
    answer_generate};

}  // namespace meshwright::tools
