// Generates text with trained weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/data/detokenizer.h"
#include "tools/session/loaded_model.h"
#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Says how the next token is chosen from the logits.
struct Sampling {
  double temperature = 0;  // 0: the most likely token
  int top_k = 0;           // only among this many most likely tokens; 0: among all
  std::uint64_t seed = 0;
};

// Returns the token chosen for index `index` of the text. The seed and this index determine the
// random number. Among equal logits, the lowest token comes first. `logits` is not empty.
std::int32_t choose_token(const std::vector<float>& logits, const Sampling& sampling,
                          std::int64_t index);

struct GenerateRequest : LoadRequest {
  std::optional<std::string> text;  // the prompt as text
  std::string tokens;               // the prompt as numbers: "1,2,3"; not used with `text`
  std::string tokenizer;            // a tokenizer.json; empty: that of the job or of the weights
  int max_tokens = 0;               // most tokens to generate
  Sampling sampling;
};

struct Generated {
  std::string weights;               // path of the weights
  std::optional<std::int64_t> step;  // step of the checkpoint, if the weights are from one
  std::vector<std::int32_t> prompt, tokens;
  std::optional<std::string> text;  // text of `tokens`; unset: there is no tokenizer
  bool ended = false;               // whether a token ended the text
  bool stopped = false;             // whether `goes_on` ended it
};

// Generates up to `max_tokens` tokens, until a token ends the text, the model's length is reached
// or `goes_on` returns false. The forward pass runs over the whole text for each token. Throws
// InputError for a prompt or weights that do not fit the job, and RunError for logits that are not
// finite.
Generated generate(const JobRequest& wanted, const GenerateRequest& how, const Watch& watch,
                   const std::function<bool()>& goes_on);

}  // namespace meshwright::session
